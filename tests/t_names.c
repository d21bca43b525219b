/* Names: a kernel's symbol, written and read back; suggestions for mistyped words; lists of
   instruction sets.

   SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "../gen/families.h"
#include "common.h"

static struct error error; /* of the last failure */

/* ---- Every legal kernel: written, read back, the same ---- */

static const struct isa *isa_named(const char *name) {
    return kvmill_isa_by_name(name, strlen(name));
}

/* The values of each count field, with enough digits to detect a narrow integer. */
static const int64_t counts[] = {ANY_COUNT, 0, 1, 7, 128, INT32_MAX};
enum { COUNTS = sizeof counts / sizeof *counts };

struct walk {
    long legal, illegal, wrong;
};

static bool same_kernel(const struct kernel *a, const struct kernel *b) {
    bool same = a->family == b->family && a->isa == b->isa && a->variant == b->variant;
    for (int i = 0; i < MOST_FIELDS; i++)
        same = same && a->value[i] == b->value[i];
    return same;
}

/* A legal kernel is read back unchanged; an illegal one is a user's error. */
static bool round_trips(const struct kernel *kernel, bool legal) {
    char symbol[SYMBOL_SIZE], again[SYMBOL_SIZE];
    struct kernel parsed;
    kernel_symbol(kernel, symbol);
    if (!kernel_parse(symbol, &parsed, &error))
        return !legal && error.exit_code == EXIT_USER;
    kernel_symbol(&parsed, again);
    return legal && same_kernel(kernel, &parsed) && strcmp(symbol, again) == 0;
}

static void check_kernel(const struct kernel *kernel, struct walk *walk) {
    char symbol[SYMBOL_SIZE];
    bool legal = kernel->family->legal(kernel);
    *(legal ? &walk->legal : &walk->illegal) += 1;
    if (round_trips(kernel, legal) || walk->wrong++ > 5)
        return;
    kernel_symbol(kernel, symbol);
    diag("%s, which is %s, came back otherwise", symbol, legal ? "legal" : "illegal");
}

static int values_of(const struct field *field) {
    int count = 0;
    while (field->prefix == NULL && field_word(field, count) != NULL)
        count++;
    return field->prefix ? COUNTS : count;
}

/* Examples of legal kernels, for families with few legal combinations: most random kernels differ
   from an example in up to three fields. */
static struct kernel examples[32];
static size_t example_count;

ROWS(example, 1) {
    bool read =
        example_count < COUNT(examples) && kernel_parse(cells[0], &examples[example_count], &error);
    must(ok(read, "an example: %s", cells[0]), error.text);
    example_count++;
}

static void change_field(struct kernel *kernel, int field, struct dice *dice) {
    const struct field *of = &kernel->family->fields[field];
    int64_t value = dice_range(dice, 0, values_of(of) - 1);
    kernel->value[field] = of->prefix ? counts[value] : value;
    if (is_constant(of) && kernel->value[field] == ANY_COUNT)
        kernel->value[field] = 0;
}

/* Returns an example of the family, or a kernel with random fields. */
static struct kernel draw_start(const struct family *family, struct dice *dice) {
    struct kernel kernel = {.family = family};
    size_t first = (size_t)dice_range(dice, 0, (int64_t)example_count - 1);
    for (size_t i = 0; i < example_count && !dice_once_in(dice, 60); i++)
        if (examples[(first + i) % example_count].family == family)
            return examples[(first + i) % example_count];
    for (int f = 0; f < family->field_count; f++)
        change_field(&kernel, f, dice);
    return kernel;
}

static void walk_family(const struct family *family, const struct isa_list *isas, struct walk *walk,
                        struct dice *dice) {
    int variants = 0, starts = is_slow_run() ? 4000 : 40000;
    while (family->variants[variants] != NULL)
        variants++;
    for (int i = 0; i < starts; i++) {
        struct kernel kernel = draw_start(family, dice);
        for (int64_t n = dice_range(dice, 0, 3); n > 0 && family->field_count > 0; n--)
            change_field(&kernel, (int)dice_range(dice, 0, family->field_count - 1), dice);
        kernel.isa = isas->items[dice_range(dice, 0, isas->count - 1)];
        kernel.variant = family->variants[dice_range(dice, 0, variants - 1)];
        check_kernel(&kernel, walk);
    }
}

/* Whether the family needs vectors, and no instruction set here has them. */
static bool is_of_vectors(const struct family *family) {
    for (const struct isa *isa = kvmill_isas; isa->name != NULL; isa++)
        if (isa->lanes >= 8)
            return false;
    return strcmp(family->name, "select_pages") == 0;
}

TABLE(names);

TEST(round_trips) {
    struct isa_list isas;
    struct isa_words every;
    const struct family *family;
    must(isa_list_parse(isa_join(",", &every), "scalar", &isas, &error), error.text);
    for (size_t i = 0; (family = family_at(i)) != NULL; i++) {
        struct walk walk = {0};
        struct dice dice = dice_for(family->name);
        walk_family(family, &isas, &walk, &dice);
        ok(walk.wrong == 0 && (walk.legal > 0 || is_of_vectors(family)),
           "%s: %ld legal symbols and back, %ld illegal ones refused", family->name, walk.legal,
           walk.illegal);
    }
}

static int64_t value_of(const struct kernel *kernel, const char *field) {
    int i = 0;
    while (strcmp(kernel->family->fields[i].name, field) != 0)
        i++;
    return kernel->value[i];
}

TEST(shape_words) {
    struct kernel kernel;
    char words[SYMBOL_SIZE];
    bool parsed =
        kernel_parse("kvmill_store_rows_u8_h8_mn_s1_d256_linear__scalar_line", &kernel, &error);
    if (!ok(parsed, "the symbol of the design's example is one"))
        return;
    kernel_shape_words(&kernel, words);
    ok(strcmp(words, "h8_mn_s1_d256") == 0, "its shape in a word: %s", words);
    ok(value_of(&kernel, "heads") == 8 && value_of(&kernel, "capacity") == ANY_COUNT &&
           value_of(&kernel, "row") == 256,
       "its fields by name");
}

/* ---- Invalid symbols ---- */

#define GOOD "kvmill_store_rows_u8_h8_mn_s1_d256_linear__scalar_line"

/* Refuses a symbol.  A canary follows its exact bytes, and must not be in the message: nothing
   after the end is read. */
static bool refuse(const char *symbol) {
    static const char canary[] = "CANARY, after the symbol's end";
    struct kernel kernel;
    size_t length = strlen(symbol);
    FREED char *copy = malloc(length + 1 + sizeof canary);
    must(copy != NULL, "out of memory");
    memcpy(copy, symbol, length + 1);
    memcpy(copy + length + 1, canary, sizeof canary);
    bool accepted = kernel_parse(copy, &kernel, &error);
    return !accepted;
}

ROWS(symbol, 2) {
    ok_failed(!refuse(cells[0]), &error, EXIT_USER, NULL, "accepted: ", "refused: %s", cells[1]);
    ok(strstr(error.text, "CANARY") == NULL, "  and nothing after its end is read");
}

TEST(long_symbol) {
    char symbol[4096];
    memset(symbol, 'a', sizeof symbol - 1);
    memcpy(symbol, "kvmill_", 7);
    symbol[sizeof symbol - 1] = '\0';
    ok(refuse(symbol) && strlen(error.text) < 600, "refused: 4095 letters, in few words");
}

/* ---- The nearest word ---- */

ROWS(near, 2) {
    static const char *const modes[] = {"linear", "circular", NULL};
    const char *nearest = nearest_word(cells[0], modes);
    ok_text(nearest ? nearest : "nothing", cells[1], "near to \"%s\": %s", cells[0], cells[1]);
}

/* The first of two words that are equally near is suggested, so that suggestions are
   reproducible. */
TEST(nearest) {
    static const char *const words[] = {"int4", "int8", NULL};
    static const char *const nothing[] = {NULL};
    char word[301];
    ok_text(nearest_word("int9", words), "int4", "the first of two that are as near");
    ok(nearest_word("linear", nothing) == NULL, "no candidates, no nearest");
    memset(word, 'z', sizeof word - 1);
    word[300] = '\0';
    ok(nearest_word(word, words) == NULL, "near to 300 letters: nothing");
}

/* ---- Lists of instruction sets ---- */

static const char *join_isas(const struct isa_list *list, char text[128]) {
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < list->count; i++)
        at += (size_t)snprintf(text + at, 128 - at, "%s%s", i ? "," : "", list->items[i]->name);
    return text;
}

static void test_isa_list(const char *given, const char *wanted) {
    struct isa_list list;
    char text[128];
    ok_text(isa_list_parse(given, "scalar", &list, &error) ? join_isas(&list, text) : error.text,
            wanted, "--isa %s: %s", given ? given : "(not given)", wanted);
}

static const char *join_isas_of(const struct isa_list *all, enum cpu cpu, char text[128]) {
    struct isa_list of_cpu = {.count = 0};
    for (int i = 0; i < all->count; i++)
        if (kvmill_isa_is_of(all->items[i], cpu))
            of_cpu.items[of_cpu.count++] = all->items[i];
    return join_isas(&of_cpu, text);
}

TEST(isa_lists) {
    struct isa_list all;
    struct isa_words words;
    char every[128], cpu[128];
    must(isa_list_parse(isa_join(",", &words), "scalar", &all, &error), error.text);
    test_isa_list(NULL, join_isas_of(&all, CPU_X86_64, cpu));
    test_isa_list("x86_64", cpu);
    test_isa_list("scalar,x86_64,scalar", cpu);
    test_isa_list(join_isas(&all, every), every);
    test_isa_list("aarch64", join_isas_of(&all, CPU_AARCH64, cpu));
    if (isa_named("neoni8mm") != NULL)
        ok_text(cpu, "scalar,neon,neoni8mm", "those of AArch64");
}

/* LIST BECOMES, if these instruction sets exist */
ROWS(isas, 2) {
    if (strstr(cells[1], "avx") != NULL &&
        (isa_named("avx2") == NULL || isa_named("avx512") == NULL))
        return;
    test_isa_list(cells[0], cells[1]);
}

ROWS(no_isas, 1) {
    struct isa_list list;
    ok_failed(isa_list_parse(cells[0], "scalar", &list, &error), &error, EXIT_USER, NULL, "--isa",
              "--isa \"%s\": refused", cells[0]);
    bool named = strstr(error.text, "x86_64") != NULL;
    for (const struct isa *isa = kvmill_isas; isa->name != NULL; isa++)
        named = named && strstr(error.text, isa->name) != NULL;
    ok(named, "  naming what is accepted: %s", error.text);
}

/* ---- Lists of kernels ---- */

static void add_symbol(struct kernel_list *list, const char *symbol) {
    struct kernel kernel;
    must(kernel_parse(symbol, &kernel, &error) && kernel_list_add(list, &kernel, &error),
         error.text);
}

TEST(kernel_lists) {
    static const char *const symbols[] = {
        GOOD, "kvmill_keep_rows_u8__scalar_pages4",
        "kvmill_store_rows_u8_h4_mn_s1_d256_linear__scalar_line",
        "kvmill_store_rows_u8_h8_mn_s1_d256_linear__scalar_heads"};
    enum { DISTINCT = sizeof symbols / sizeof *symbols };
    struct kernel_list list = {0};
    bool in_order = true;
    for (int i = 0; i < 3 * DISTINCT; i++)
        add_symbol(&list, symbols[i * 5 % DISTINCT]);
    ok(list.count == DISTINCT, "a list of kernels has each once: %zu of %d", list.count, DISTINCT);
    for (size_t i = 0; i < list.count; i++) {
        char symbol[SYMBOL_SIZE];
        kernel_symbol(&list.items[i], symbol);
        in_order = in_order && strcmp(symbol, symbols[i * 5 % DISTINCT]) == 0;
    }
    ok(in_order, "in order of first appearance");
    kernel_list_free(&list);
    ok(list.items == NULL && list.count == 0, "and can be freed");
}

/* Adds every kernel twice: the time must grow with their number, not with its square. */
TEST(long_kernel_list) {
    enum { MANY = 60000 };
    struct kernel kernel;
    OWN(kernel_list_free) struct kernel_list list = {0};
    bool done =
        kernel_parse("kvmill_store_rows_u8_h1_mn_s1_d1_linear__scalar_line", &kernel, &error);
    clock_t start = clock();
    for (int i = 0; done && i < 2 * MANY; i++) {
        kernel.value[1] = 1 + i % MANY;
        done = kernel_list_add(&list, &kernel, &error);
    }
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    for (size_t i = 0; done && i < list.count; i++)
        done = list.items[i].value[1] == (int64_t)i + 1;
    ok(done && list.count == MANY, "%d kernels, added twice, are in the list once, in order", MANY);
    if (!ok(seconds < 4, "  within seconds"))
        diag("%.1f s", seconds);
}
