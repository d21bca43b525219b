m4_divert(-1)
m4_dnl u4.m4 -- rows of an odd number of nibbles, two to a byte, low one first, addressed as base +
m4_dnl offset in nibbles.  A row begins in either half of a byte, in source and target independently.
m4_define(«km_unit_bits», «4»)

m4_define(«km_dtype_headers», «km_headers»)

m4_dnl km_can_stream(N) -- 0: rows share bytes with their neighbours, so they are not stored around the caches.
m4_define(«km_can_stream», 0)

m4_dnl km_helpers -- C functions that km_copy and km_long_copy use.
m4_define(«km_helpers», «static unsigned
nibble_at(const unsigned char *from, int64_t begin)
{
    return from[begin / 2] >> (begin % 2 * 4) & 0x0f;
}

static void
set_low(unsigned char *to, unsigned nibble)
{
    *to = (unsigned char)((*to & 0xf0) | nibble);
}

static void
set_high(unsigned char *to, unsigned nibble)
{
    *to = (unsigned char)((*to & 0x0f) | nibble << 4);
}
»)

m4_dnl A row has an odd number of nibbles: N / 2 whole bytes, and one nibble that shares a byte with a neighbouring row.
m4_dnl This is the last nibble if the target begins in the low half of a byte, and otherwise the first.
m4_dnl km_copy(N, TO, AT, FROM, BEGIN) -- copy N nibbles; the code is straight-line except for the choice of halves.
m4_define(«km_copy», «km_require(«($1) % 2 == 1», «a row of nibbles has an odd length here»)        {
            unsigned char *t = $2 + ($3) / 2 + ($3) % 2;
            if (($3) % 2 == 0)
                set_low(t + m4_eval(($1) / 2), nibble_at($4, ($5) + m4_eval(($1) - 1)));
            else
                set_high(t - 1, nibble_at($4, $5));
km_if($1 > 1, «            const unsigned char *f = $4 + (($5) + ($3) % 2) / 2;
            if ((($3) + ($5)) % 2 == 0) {
km_straight(«km_move», «km_widths», m4_eval(($1) / 2), «t», «f»)            } else {
km_straight(«km_join», «km_join_widths», m4_eval(($1) / 2), «t», «f»)            }
»)m4_dnl
        }
»)

m4_dnl km_long_copy(0) -- defines copy_long (to, at, from, begin, count, stream), which copies any number of nibbles.
m4_dnl Only whole prompts and functional copies use it, so its loops are left to the compiler.
m4_define(«km_long_copy», «km_function(«void», «join_long(unsigned char *to, const unsigned char *from, int64_t count)»)
{
    int64_t i = 0;
km_for_words(«W», «km_join_widths», «    for (; i + W <= count; i += W)
        m4_indir(«km_join_»W, «to + i», «from + i»);
»)m4_dnl
}

km_function(«void», «copy_long(unsigned char *to, int64_t at, const unsigned char *from, int64_t begin, int64_t count,
          int64_t stream)»)
{
    (void)stream;
    if (count > 0 && at % 2 != 0) {
        set_high(to + at / 2, nibble_at(from, begin));
        at++;
        begin++;
        count--;
    }
    if (begin % 2 == 0)
        memcpy(to + at / 2, from + begin / 2, (size_t)(count / 2));
    else
        join_long(to + at / 2, from + begin / 2, count / 2);
    if (count % 2 != 0)
        set_low(to + (at + count) / 2, nibble_at(from, begin + count - 1));
}
»)
m4_divert(0)m4_dnl
