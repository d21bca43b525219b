/* Promises of the public interface besides results: texts, names, the choice of kernels and caps on
   it.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/fail.h"
#include "common.h"
#include "packs.h"
#include "scatter_scene.h"

/* ---- Plans by shape ---- */

DICE("api");

static kvmill_status plan_with(const char *settings, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    OWN(scene_close) struct scene scene;
    scene_open(&scene, settings, &dice);
    return scene_plan(&scene, options, plan, error);
}

static kvmill_plan_options all_packs(const char *isa) {
    return (kvmill_plan_options){
        .struct_size = sizeof(kvmill_plan_options), .packs = packs, .pack_count = 2, .isa = isa};
}

enum { TEXT_SIZE = 1024 };

/* Returns the plan's description, valid until the next call; "" after a remark if planning
   fails. */
static const char *describe(const char *settings, const kvmill_plan_options *options) {
    OWN_PLAN kvmill_plan *plan;
    kvmill_error error;
    if (plan_with(settings, options, &plan, &error) != KVMILL_OK)
        diag("no plan: %s", error.message);
    return plan_text(plan);
}

static bool says(const char *text, const char *words) {
    return strstr(text, words) != NULL || diag("\"%s\" does not say \"%s\"", text, words);
}

/* A shape that the kernels of configs/specs/test.json fit: 3 heads, 2 rows of 7 bytes. */
static const char usual[] = "dtype=uint8 past=2,3,9,7 update=2,3,2,7 starts=0,0";

/* ---- Texts ---- */

TEST(version) {
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", KVMILL_VERSION_MAJOR, KVMILL_VERSION_MINOR,
             KVMILL_VERSION_PATCH);
    ok(strcmp(kvmill_version(), KVMILL_VERSION) == 0, "the library is of the header's version");
    ok(strcmp(version, KVMILL_VERSION) == 0, "the version is made of its numbers");
}

TEST(status_names) {
    char names[] =
        "OK E_NULL E_ALIAS E_INDEX_NEGATIVE E_INDEX_RANGE E_SHAPE E_OVERFLOW E_DTYPE "
        "E_ATTRIBUTE E_STRIDE E_DEVICE E_WORKSPACE E_MEMORY E_ISA E_PACK E_VERSION E_KERNEL";
    bool good = true;
    int count = 0;
    for (char *name = strtok(names, " "); name != NULL; name = strtok(NULL, " "))
        good &= strcmp(kvmill_status_name((kvmill_status)count++) + strlen("KVMILL_"), name) == 0;
    ok(good && KVMILL_E_KERNEL == count - 1, "every status has its name and number");
}

/* A message of as many bytes as fit stays; a longer one ends after a word. */
TEST(long_messages) {
    kvmill_error error;
    char words[sizeof error.message + 8];
    for (size_t i = 0; i < sizeof words; i++)
        words[i] = "seven; "[i % 7];
    words[sizeof words - 1] = '\0';
    kvmill_fail(&error, KVMILL_E_SHAPE, "%.*s", (int)sizeof error.message - 1, words);
    ok(strncmp(error.message, words, sizeof error.message - 1) == 0, "a message that fits");
    kvmill_fail(&error, KVMILL_E_SHAPE, "%s", words);
    size_t length = strlen(error.message);
    ok(length < sizeof error.message && strcmp(error.message + length - 11, " seven; ...") == 0,
       "a longer one ends after a word: %s", error.message + length - 20);
}

TEST(describe) {
    kvmill_plan_options options = all_packs(NULL);
    OWN_PLAN kvmill_plan *plan = NULL;
    char whole[TEXT_SIZE], text[TEXT_SIZE];
    bool good = plan_with(usual, &options, &plan, NULL) == KVMILL_OK;
    size_t length = kvmill_plan_describe(plan, whole, sizeof whole);
    ok(good && length == strlen(whole) && length > 0, "the text of a plan has the length it says");
    ok(says(whole, "TensorScatter") && says(whole, "linear") && says(whole, "uint8") &&
           says(whole, "[2, 3, 9, 7]") && says(whole, "[2, 3, 2, 7]") && says(whole, "axis 2"),
       "it tells op, mode, type, shapes and axis");
    ok(kvmill_plan_describe(plan, NULL, 0) == length, "no buffer: the length");
    good = true;
    for (size_t size = 1; size <= length + 1; size++) {
        memset(text, '#', sizeof text);
        good &= kvmill_plan_describe(plan, text, size) == length && strlen(text) == size - 1 &&
                memcmp(text, whole, size - 1) == 0 && text[size] == '#';
    }
    ok(good, "buffers of every size get as much as they hold, and a NUL");
    ok(kvmill_plan_workspace_size(plan) == 0, "TensorScatter needs no workspace");
}

/* Messages of 256 bytes show shapes of any rank. */
TEST(long_texts) {
    int64_t dims[64];
    kvmill_error error;
    OWN_PLAN kvmill_plan *plan;
    for (int d = 0; d < 64; d++)
        dims[d] = 1;
    DLTensor past = {.ndim = 64, .dtype = u8, .shape = dims};
    DLTensor update = {.ndim = 63, .dtype = u8, .shape = dims};
    kvmill_tensor_scatter op = {
        .struct_size = sizeof op, .axis = 2, .past_cache = &past, .update = &update};
    ok(kvmill_plan_tensor_scatter(&op, NULL, &plan, &error) == KVMILL_E_SHAPE &&
           memchr(error.message, '\0', sizeof error.message) != NULL,
       "a message about 64 dims ends in its buffer");
    update.ndim = 64;
    char text[TEXT_SIZE];
    bool good = kvmill_plan_tensor_scatter(&op, NULL, &plan, &error) == KVMILL_OK;
    ok(good && kvmill_plan_describe(plan, text, sizeof text) == strlen(text), "a plan of 64 dims");
}

/* ---- Instruction sets ---- */

/* Whether each instruction set is better than the existing ones before it. */
static bool in_order(const char *const *names) {
    int last = -1;
    for (; *names != NULL; names++) {
        int rank = isa_rank(*names);
        if (rank >= 0 && rank <= last)
            return false;
        last = rank > last ? rank : last;
    }
    return true;
}

TEST(isas) {
    static const char *const names[] = {"scalar", "neon",       "neoni8mm",   "avx2", "avxvnni",
                                        "avx512", "avx512vnni", "avx512fp16", NULL};
    size_t count = 0;
    while (kvmill_isa_name(count) != NULL)
        count++;
    ok(isa_rank("scalar") == 0 && in_order(names) && count >= 1 && kvmill_isa_name(1000) == NULL,
       "the instruction sets have names, worst first");
    ok(kvmill_isa_usable("scalar"), "every CPU runs scalar");
    ok(!kvmill_isa_usable("") && !kvmill_isa_usable("AVX2") && !kvmill_isa_usable("sse9"),
       "an unknown instruction set is not usable");
    ok(!kvmill_isa_usable("neon") || !kvmill_isa_usable("avx2"), "no CPU is two at a time");
}

/* Whether the pack stores with an instruction set: a pack has only those that configure was
   given. */
static bool stores_with(const kvmill_pack *pack, const char *isa) {
    for (uint32_t i = 0; i < pack->count; i++)
        if (pack->kernels[i]->family == KVMILL_STORE_ROWS &&
            strcmp(pack->kernels[i]->isa, isa) == 0)
            return true;
    return false;
}

/* Returns the best usable instruction set up to `cap` that the pack has kernels for. */
static const char *best_isa(const kvmill_pack *pack, const char *cap) {
    const char *best = "scalar", *name;
    for (int i = 0; (name = kvmill_isa_name((size_t)i)) != NULL && i <= isa_rank(cap); i++)
        if (kvmill_isa_usable(name) && stores_with(pack, name))
            best = name;
    return best;
}

/* Whether the plan uses the tests' pack for rows of 7; the default pack may have more instruction
   sets. */
static bool uses_best(const char *text, const char *cap) {
    char store[64], keep[64];
    snprintf(store, sizeof store, "d7_linear__%s_", best_isa(&kvmill_pack_kvmill_test, cap));
    snprintf(keep, sizeof keep, "keep_rows_u8__%s_", best_isa(&kvmill_pack_kvmill_default, cap));
    return says(text, store) && says(text, keep);
}

/* KVMILL_ISA when this test was started; it caps everything else. */
static char outer_cap[32];

static const char *lower(const char *a, const char *b) {
    return isa_rank(a) < isa_rank(b) ? a : b;
}

static void set_cap(const char *isa) {
    setenv("KVMILL_ISA", isa, 1);
}

static const char *outermost(void) {
    const char *name, *best = "scalar";
    for (size_t i = 0; (name = kvmill_isa_name(i)) != NULL; i++)
        best = name;
    return *outer_cap ? outer_cap : best;
}

TEST(caps) {
    const char *name;
    for (size_t i = 0; (name = kvmill_isa_name(i)) != NULL; i++) {
        const char *cap = lower(name, outermost());
        kvmill_plan_options options = all_packs(NULL), wish = all_packs(name);
        set_cap(cap);
        ok(uses_best(describe(usual, &options), cap), "KVMILL_ISA=%s: the best kernels", cap);
        set_cap(outermost());
        ok(uses_best(describe(usual, &wish), cap), "options.isa %s: the best kernels", name);
    }
    kvmill_plan_options options = all_packs(kvmill_isa_name(1) ? kvmill_isa_name(1) : "scalar");
    set_cap("scalar");
    ok(uses_best(describe(usual, &options), "scalar"), "the lower cap wins: KVMILL_ISA");
    options = all_packs("scalar");
    set_cap(outermost());
    ok(uses_best(describe(usual, &options), "scalar"), "the lower cap wins: options.isa");
    options = all_packs("");
    set_cap("");
    ok(*describe(usual, &options) != '\0', "an empty cap is none");
    set_cap(outer_cap);
}

TEST(unknown_isas) {
    kvmill_plan *plan;
    kvmill_error error;
    kvmill_plan_options options = all_packs("avx3");
    ok(plan_with(usual, &options, &plan, &error) == KVMILL_E_ISA && plan == NULL &&
           says(error.message, "avx3") && says(error.message, "scalar"),
       "options.isa of an unknown name");
    options = all_packs(NULL);
    set_cap("sse2");
    ok(plan_with(usual, &options, &plan, &error) == KVMILL_E_ISA && plan == NULL &&
           says(error.message, "KVMILL_ISA") && says(error.message, "sse2"),
       "KVMILL_ISA of an unknown name");
    ok(plan_with(usual, NULL, &plan, &error) == KVMILL_E_ISA && plan == NULL,
       "KVMILL_ISA of an unknown name, without packs");
    set_cap(outer_cap);
}

/* ---- The choice of kernels ---- */

/* NAME SETTINGS OPTIONS WORDS... */
ROWS(portable, 4) {
    kvmill_plan_options options = all_packs(NULL);
    bool good = true;
    if (strcmp(cells[2], "no packs") == 0)
        options.packs = NULL, options.pack_count = 0;
    options.portable = strcmp(cells[2], "portable") == 0;
    const char *text =
        describe(*cells[1] ? cells[1] : usual, strcmp(cells[2], "none") == 0 ? NULL : &options);
    for (int i = 3; cells[i] != NULL; i++)
        good &= says(text, cells[i]);
    ok(good && says(text, "kvmill_store_rows__portable"), "portable: %s", cells[0]);
}

/* A kernel of one family; only the symbol distinguishes it. */
static void run_nothing(const void *problem, int64_t first, int64_t last) {
    (void)problem;
    (void)first;
    (void)last;
}

enum { MOST_MADE = 9 };
static struct kvmill_kernel made[MOST_MADE];
static struct kvmill_rows_shape made_shapes[MOST_MADE];
static int made_count;

/* SYMBOL ISA UNIT MODE HEADS CAPACITY ROWS ROW */
ROWS(kernel, 8) {
    must(made_count < MOST_MADE, "too many kernels");
    made_shapes[made_count] =
        (struct kvmill_rows_shape){atoi(cells[2]), atoi(cells[3]), atoi(cells[4]),
                                   atoi(cells[5]), atoi(cells[6]), atoi(cells[7])};
    made[made_count] = (struct kvmill_kernel){.abi = KVMILL_KERNEL_ABI,
                                              .family = KVMILL_STORE_ROWS,
                                              .symbol = strdup(cells[0]),
                                              .isa = strdup(cells[1]),
                                              .shape = &made_shapes[made_count],
                                              .run = run_nothing};
    made_count++;
}

static const struct kvmill_kernel *made_kernel(const char *symbol) {
    for (int i = 0; i < made_count; i++)
        if (strcmp(made[i].symbol, symbol) == 0)
            return &made[i];
    bail_out("no kernel %s", symbol);
}

/* WHAT TAKEN KERNEL...: chooses from a pack of these kernels. */
ROWS(choice, 3) {
    const struct kvmill_kernel *list[4];
    kvmill_pack pack = {.abi = KVMILL_KERNEL_ABI, .name = "mine", .kernels = list};
    const kvmill_pack *only = &pack;
    for (; cells[2 + pack.count] != NULL; pack.count++)
        list[pack.count] = made_kernel(cells[2 + pack.count]);
    if (strcmp(cells[1], "better") == 0 && !isa_is_allowed("avx2")) {
        skip_test("choice: this CPU or KVMILL_ISA rules out avx2");
        return;
    }
    kvmill_plan_options options = {.struct_size = sizeof options, .packs = &only, .pack_count = 1};
    char words[80];
    snprintf(words, sizeof words, "store with %s (", cells[1]);
    ok(says(describe(usual, &options), words), "choice: %s", cells[0]);
}

TABLE(api);

TEST(packs_are_values) {
    kvmill_pack copy = kvmill_pack_kvmill_test;
    const kvmill_pack *list[] = {&copy};
    copy.name = "a copy";
    kvmill_plan_options options = {.struct_size = sizeof options, .packs = list, .pack_count = 1};
    ok(says(describe(usual, &options), "pack a copy"), "a copy of a pack is a pack");
    copy.count = 0;
    ok(says(describe(usual, &options), "kvmill_store_rows__portable"), "an empty pack has nothing");
}

void before_tests(void) {
    const char *cap = getenv("KVMILL_ISA");
    snprintf(outer_cap, sizeof outer_cap, "%s", cap ? cap : "");
}
