m4_dnl timed_words_each -- for `kvmill bench --words`: loops that call each word of an instruction set, and its meaning.
m4_dnl The generator defines km_timed, calls of km_timed_word(WORD, TYPE, PARAMETERS, VERSION).
km_head(«Words, each in a loop.», km_headers)
/* The problem: a place in the table of functions, the addresses of 4096 bytes that are read and written, and a small
   number, for arguments that count or select lanes.  */
enum { PLACE, FROM, TO, SMALL };

m4_dnl _km_argument(TYPE, OFFSET) -- what a word is called with.  Compilers know none of it, and all is in the first
m4_dnl cache.
m4_define(«_km_type», «m4_ifelse(m4_index(«$1», «[»), -1, «m4_patsubst(«$1», « *[a-z0-9_]+$»)», «vf *»)»)
m4_define(«_km_is_read», «m4_eval(m4_regexp(«$1», «^v.$\|^halves$\|^int32_t$\|^float$») == 0)»)
m4_define(«_km_argument», «m4_ifelse(_km_is_read(«$1»), 1, «*(const $1 *)(from + $2)»,
    m4_regexp(«$1», «^const»), 0, «(const void *)(from + $2)», m4_regexp(«$1», «\*»), -1, «($1)p[SMALL]»,
    «(void *)p[TO]»)»)
m4_define(«_km_arguments», «m4_define(«I», 0)km_for_words(«P», «$1»,
    «m4_ifelse(I, 0, «», «, »)_km_argument(_km_type(m4_defn(«P»)), m4_eval(64 * I))«»m4_define(«I», m4_incr(I))»)»)
m4_dnl _km_kept(TYPE) -- keeps compilers from leaving out a call, and from computing it before the loop.
m4_define(«_km_kept», «__asm__ volatile("" : m4_ifelse(«$1», «void», «: »,
    «: "m4_ifelse(m4_regexp(«$1», «int»), -1, «km_register», «r»)"(result) »): "memory")»)
m4_define(«_km_timed», «km_function(«void», «time_$1(const int64_t *p, int64_t count)»)
{
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *from = (const unsigned char *)p[FROM] + i % 16 * 64;
        (void)from;
        m4_ifelse(«$2», «void», «», «$2 result = »)$1(_km_arguments(«$3»));
        _km_kept(«$2»);
    }
}

»)
m4_define(«km_timed_word»,
    «_km_timed(«$1», «$2», «$3»)m4_ifelse(«$4», «», «», «_km_timed(«meaning_$1», «$2», «$3»)»)»)
km_timed«»m4_dnl
m4_define(«km_timed_word», «    time_$1, m4_ifelse(«$4», «», «NULL», «time_meaning_$1»),
»)m4_dnl
static void (*const timed[])(const int64_t *p, int64_t count) = {
km_timed«»m4_dnl
};

km_run_function
{
    const int64_t *p = problem;
    timed[p[PLACE]](p, last - first);
}

const struct kvmill_kernel km_symbol = {
    .abi = KVMILL_KERNEL_ABI,
    .symbol = "km_symbol",
    .isa = "km_isa",
    .run = km_run,
};
