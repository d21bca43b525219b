/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_words.h"

#include <inttypes.h>
#include <kvmill.h>
#include <string.h>

#include "../base/timer.h"
#include "../gen/m4.h"
#include "../gen/words.h"
#include "best_isa.h"
#include "built_pack.h"

/* ---- The kernel of an instruction set, which belongs to no family of kernels ---- */

static bool print_word(const struct word *word, void *rows, struct error *error) {
    return text_print(rows, "km_timed_word(«%s», «%s», «%s», «%s»)", word->name, word->type,
                      word->parameters, word->version) ||
           out_of_memory(error);
}

/* Without the list, the kernel does not compile. */
static bool define_words(const struct kernel *kernel, struct expansion *expansion) {
    struct text rows = {0};
    struct error error;
    bool done = words_each(kernel->isa->name, print_word, &rows, &error) &&
                define_text(expansion, "timed", rows.data);
    text_free(&rows);
    return done;
}

static const char *const libraries[] = {NULL}, *const variants[] = {"each", NULL};

static const struct family timed_words_family = {
    .name = "timed_words",
    .folder = "../bench",
    .libraries = libraries,
    .variants = variants,
    .define = define_words,
};

static bool add_kernels(const struct isa_list *isas, struct pack *pack, struct error *error) {
    bool done = true;
    for (int i = 0; done && i < isas->count; i++) {
        const struct kernel kernel = {
            .family = &timed_words_family, .isa = isas->items[i], .variant = variants[0]};
        done =
            !kvmill_isa_usable(kernel.isa->name) || kernel_list_add(&pack->kernels, &kernel, error);
    }
    return done &&
           (pack->kernels.count > 0 || fail(error, EXIT_USER,
                                            "--isa: this CPU has none of these instruction sets; "
                                            "`kvmill isas` says which it has"));
}

/* ---- Times ---- */

/* All bytes that are read are the same: no float is rare, and whatever is searched is found. */
enum { CALLS = 256, BYTES = 4096, EVERY_BYTE = 0x3c, SMALL = 4 };

/* A function of the kernel, with its problem: templates/bench/timed_words_each.c.m4. */
struct timed {
    const struct kvmill_kernel *kernel;
    int64_t problem[4];
};

static void run(void *context, int64_t k) {
    const struct timed *timed = context;
    (void)k;
    timed->kernel->run(timed->problem, 0, CALLS);
}

/* Times a word and its meaning in turn: nanoseconds of a call.  Without a version, the word is its
   meaning. */
static void time_word(const struct timed *word, bool has_version, double *own, double *meaning) {
    struct timed versions[] = {*word, *word};
    struct contender contenders[] = {{.name = "word", .run = run, .context = &versions[0]},
                                     {.name = "meaning", .run = run, .context = &versions[1]}};
    versions[1].problem[0]++;
    timer_race(contenders, has_version ? 2 : 1, 0.01);
    *own = contenders[0].median / CALLS * 1e9;
    *meaning = has_version ? contenders[1].median / CALLS * 1e9 : *own;
}

static void report(const char *isa, const struct word *word, double own, double meaning,
                   json_t *json) {
    const char *version = word->version[0] ? word->version : "meaning";
    print_shown(stdout, "%-10s  %-19s  %-10s  %9.3f", isa, word->name, version, own);
    if (word->version[0])
        print_shown(stdout, "  %9.3f  %6.2f", meaning, meaning / own);
    print_shown(stdout, "\n");
    json_array_append_new(json, json_pack("{s:s, s:s, s:s, s:f, s:f}", "isa", isa, "word",
                                          word->name, "version", version, "nanoseconds", own,
                                          "meaning_nanoseconds", meaning));
}

struct words_timer {
    struct timed next;
    json_t *json;
};

static bool time_next(const struct word *word, void *context, struct error *error) {
    struct words_timer *timer = context;
    double own, meaning;
    (void)error;
    time_word(&timer->next, word->version[0] != '\0', &own, &meaning);
    report(timer->next.kernel->isa, word, own, meaning, timer->json);
    timer->next.problem[0] += 2;
    return true;
}

static bool time_words(const struct kvmill_kernel *kernel, json_t *json, struct error *error) {
    static unsigned char from[BYTES] __attribute__((aligned(64)));
    static unsigned char to[BYTES] __attribute__((aligned(64)));
    struct words_timer timer = {{kernel, {0, (intptr_t)from, (intptr_t)to, SMALL}}, json};
    memset(from, EVERY_BYTE, BYTES);
    memset(to, EVERY_BYTE, BYTES);
    return words_each(kernel->isa, time_next, &timer, error);
}

bool bench_words(const struct options *given, json_t **json, struct error *error) {
    struct spec_list specs = {0};
    struct isa_list isas;
    struct pack pack = {.name = "words", .specs = &specs};
    struct built_pack built = {0};
    struct isa_words every;
    const char *wanted = option_value(given, "isa");
    bool done = isa_list_parse(wanted ? wanted : isa_join(",", &every), best_isa(), &isas, error) &&
                add_kernels(&isas, &pack, error) && built_pack_make(&pack, &built, error);
    json_watch();
    *json = json_array();
    if (done)
        print_shown(stdout, "%-10s  %-19s  %-10s  %9s  %9s  %6s\n", "ISA", "WORD", "VERSION", "NS",
                    "MEANING", "RATIO");
    for (int64_t i = 0; done && i < (int64_t)pack.kernels.count; i++)
        done = time_words(built.pack->kernels[i], *json, error);
    built_pack_free(&built);
    kernel_list_free(&pack.kernels);
    return done;
}
