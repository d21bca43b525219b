/* What the public interface promises beside results: texts, names, the choice of kernels and the
   caps on it, and plans that many threads share.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "fence.h"
#include "oracle/tensor_scatter.h"
#include "tap.h"
#include "walk.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};

static const DLDataType int64 = {kDLInt, 64, 1}, uint8 = {kDLUInt, 8, 1}, int4 = {kDLInt, 4, 1};

static struct dice dice;

#define DIMS(...) ((int64_t[]){__VA_ARGS__})

/* ---- Plans by shape ---- */

struct request {
    DLDataType dtype;
    const char *mode;
    int64_t cache[4], update[4];
    int64_t *strides; /* of past_cache and present_cache; NULL = row-major */
    bool no_indices;
};

static kvmill_status plan_with(const struct request *request, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    struct request copy = *request;
    DLTensor past = {.ndim = 4, .dtype = copy.dtype, .shape = copy.cache, .strides = copy.strides};
    DLTensor update = {.ndim = 4, .dtype = copy.dtype, .shape = copy.update};
    DLTensor indices = {.ndim = 1, .dtype = int64, .shape = copy.cache};
    kvmill_tensor_scatter op = {.struct_size = sizeof op,
                                .axis = 2,
                                .mode = copy.mode,
                                .past_cache = &past,
                                .update = &update,
                                .write_indices = copy.no_indices ? NULL : &indices};
    return kvmill_plan_tensor_scatter(&op, options, plan, error);
}

static kvmill_plan_options all_packs(const char *isa) {
    return (kvmill_plan_options){
        .struct_size = sizeof(kvmill_plan_options), .packs = packs, .pack_count = 2, .isa = isa};
}

enum { TEXT_SIZE = 1024 };

/* What the plan says of itself; "" and a remark where there is none. */
static void describe(const struct request *request, const kvmill_plan_options *options,
                     char text[TEXT_SIZE]) {
    kvmill_plan *plan;
    kvmill_error error;
    *text = '\0';
    if (plan_with(request, options, &plan, &error) != KVMILL_OK)
        diag("no plan: %s", error.message);
    else
        kvmill_plan_describe(plan, text, TEXT_SIZE);
    kvmill_plan_destroy(plan);
}

static bool says(const char *text, const char *words) {
    bool found = strstr(text, words) != NULL;
    if (!found)
        diag("\"%s\" does not say \"%s\"", text, words);
    return found;
}

/* A shape that configs/specs/test.json has kernels for: 3 heads, 2 rows of 7 bytes. */
static const struct request usual = {
    .dtype = {kDLUInt, 8, 1}, .cache = {2, 3, 9, 7}, .update = {2, 3, 2, 7}};

/* ---- Texts ---- */

static void test_version(void) {
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", KVMILL_VERSION_MAJOR, KVMILL_VERSION_MINOR,
             KVMILL_VERSION_PATCH);
    ok(strcmp(kvmill_version(), KVMILL_VERSION) == 0, "the library is of the header's version");
    ok(strcmp(version, KVMILL_VERSION) == 0, "the version is made of its numbers");
}

static void test_status_names(void) {
    static const char *const names[] = {"KVMILL_OK",
                                        "KVMILL_E_NULL",
                                        "KVMILL_E_ALIAS",
                                        "KVMILL_E_INDEX_NEGATIVE",
                                        "KVMILL_E_INDEX_RANGE",
                                        "KVMILL_E_SHAPE",
                                        "KVMILL_E_OVERFLOW",
                                        "KVMILL_E_DTYPE",
                                        "KVMILL_E_ATTRIBUTE",
                                        "KVMILL_E_STRIDE",
                                        "KVMILL_E_DEVICE",
                                        "KVMILL_E_WORKSPACE",
                                        "KVMILL_E_MEMORY",
                                        "KVMILL_E_ISA",
                                        "KVMILL_E_PACK",
                                        "KVMILL_E_VERSION"};
    bool good = true;
    for (int i = 0; i < 16; i++)
        good &= strcmp(kvmill_status_name((kvmill_status)i), names[i]) == 0;
    ok(good && KVMILL_E_VERSION == 15, "every status has its name and number");
    ok(kvmill_status_name((kvmill_status)16) != NULL &&
           kvmill_status_name((kvmill_status)-1) != NULL,
       "numbers that are no status have a name too");
}

static void test_describe(void) {
    kvmill_plan_options options = all_packs(NULL);
    kvmill_plan *plan = NULL;
    char whole[TEXT_SIZE], text[TEXT_SIZE];
    bool good = plan_with(&usual, &options, &plan, NULL) == KVMILL_OK;
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
    kvmill_plan_destroy(plan);
}

/* Shapes of any rank in a message of 256 bytes. */
static void test_long_texts(void) {
    int64_t dims[64];
    kvmill_error error;
    kvmill_plan *plan;
    for (int d = 0; d < 64; d++)
        dims[d] = 1;
    DLTensor past = {.ndim = 64, .dtype = uint8, .shape = dims};
    DLTensor update = {.ndim = 63, .dtype = uint8, .shape = dims};
    kvmill_tensor_scatter op = {
        .struct_size = sizeof op, .axis = 2, .past_cache = &past, .update = &update};
    ok(kvmill_plan_tensor_scatter(&op, NULL, &plan, &error) == KVMILL_E_SHAPE &&
           memchr(error.message, '\0', sizeof error.message) != NULL,
       "a message about 64 dims ends in its buffer");
    update.ndim = 64;
    char text[TEXT_SIZE];
    bool good = kvmill_plan_tensor_scatter(&op, NULL, &plan, &error) == KVMILL_OK;
    ok(good && kvmill_plan_describe(plan, text, sizeof text) == strlen(text), "a plan of 64 dims");
    kvmill_plan_destroy(plan);
}

/* ---- Instruction sets ---- */

/* Each is better than those before it that are there. */
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

static void test_isas(void) {
    static const char *const names[] = {"scalar",     "avx2",       "avx512",
                                        "avx512vnni", "avx512fp16", NULL};
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

/* Packs are built for the instruction sets that configure was told. */
static bool stores_with(const kvmill_pack *pack, const char *isa) {
    for (uint32_t i = 0; i < pack->count; i++)
        if (pack->kernels[i]->family == KVMILL_STORE_ROWS &&
            strcmp(pack->kernels[i]->isa, isa) == 0)
            return true;
    return false;
}

/* The best usable instruction set that `cap` allows, of those that there are kernels for. */
static const char *best_isa(const char *cap) {
    const char *best = "scalar", *name;
    for (int i = 0; (name = kvmill_isa_name((size_t)i)) != NULL && i <= isa_rank(cap); i++)
        if (kvmill_isa_usable(name) && stores_with(packs[0], name))
            best = name;
    return best;
}

static bool uses_isa(const char *text, const char *isa) {
    char store[64], keep[64];
    snprintf(store, sizeof store, "d7_linear__%s_", isa);
    snprintf(keep, sizeof keep, "keep_rows_u8__%s_", isa);
    return says(text, store) && says(text, keep);
}

/* KVMILL_ISA of the environment this test was started in caps everything else. */
static char outer_cap[32];

static const char *lower(const char *a, const char *b) {
    return isa_rank(a) < isa_rank(b) ? a : b;
}

static void set_environment(const char *isa) {
    if (isa == NULL)
        unsetenv("KVMILL_ISA");
    else
        setenv("KVMILL_ISA", isa, 1);
}

static void restore_environment(void) {
    set_environment(*outer_cap ? outer_cap : NULL);
}

static const char *outermost(void) {
    const char *name, *best = "scalar";
    for (size_t i = 0; (name = kvmill_isa_name(i)) != NULL; i++)
        best = name;
    return *outer_cap ? outer_cap : best;
}

static void test_caps(void) {
    const char *name;
    char text[TEXT_SIZE];
    for (size_t i = 0; (name = kvmill_isa_name(i)) != NULL; i++) {
        const char *cap = lower(name, outermost());
        kvmill_plan_options options = all_packs(NULL), wish = all_packs(name);
        set_environment(cap);
        describe(&usual, &options, text);
        ok(uses_isa(text, best_isa(cap)), "KVMILL_ISA=%s: kernels of %s", cap, best_isa(cap));
        set_environment(outermost());
        describe(&usual, &wish, text);
        ok(uses_isa(text, best_isa(cap)), "options.isa %s: kernels of %s", name, best_isa(cap));
    }
    kvmill_plan_options options = all_packs(kvmill_isa_name(1) ? kvmill_isa_name(1) : "scalar");
    set_environment("scalar");
    describe(&usual, &options, text);
    ok(uses_isa(text, "scalar"), "the lower cap wins: KVMILL_ISA");
    options = all_packs("scalar");
    set_environment(outermost());
    describe(&usual, &options, text);
    ok(uses_isa(text, "scalar"), "the lower cap wins: options.isa");
    options = all_packs("");
    set_environment("");
    describe(&usual, &options, text);
    ok(*text != '\0', "an empty cap is none");
    restore_environment();
}

static void test_unknown_isas(void) {
    kvmill_plan *plan;
    kvmill_error error;
    kvmill_plan_options options = all_packs("avx3");
    ok(plan_with(&usual, &options, &plan, &error) == KVMILL_E_ISA && plan == NULL &&
           says(error.message, "avx3") && says(error.message, "scalar"),
       "options.isa of an unknown name");
    options = all_packs(NULL);
    set_environment("sse2");
    ok(plan_with(&usual, &options, &plan, &error) == KVMILL_E_ISA && plan == NULL &&
           says(error.message, "KVMILL_ISA") && says(error.message, "sse2"),
       "KVMILL_ISA of an unknown name");
    ok(plan_with(&usual, NULL, &plan, &error) == KVMILL_E_ISA && plan == NULL,
       "KVMILL_ISA of an unknown name, without packs");
    restore_environment();
}

/* ---- The choice of kernels ---- */

static void test_portable(void) {
    static const char portable[] = "kvmill_store_rows__portable";
    kvmill_plan_options options = all_packs(NULL);
    char text[TEXT_SIZE];
    describe(&usual, NULL, text);
    ok(says(text, portable) && says(text, "no packs were given"), "portable: no options");
    options.pack_count = 0;
    options.packs = NULL;
    describe(&usual, &options, text);
    ok(says(text, portable) && says(text, "no packs were given"), "portable: no packs");
    options = all_packs(NULL);
    options.portable = 1;
    describe(&usual, &options, text);
    ok(says(text, portable) && says(text, "kvmill_keep_rows__portable") && says(text, "asked for"),
       "portable: asked for");
    struct request other = usual;
    other.strides = DIMS(189, 63, 1, 9);
    options = all_packs(NULL);
    describe(&other, &options, text);
    ok(says(text, portable) && says(text, "do not fold"), "portable: strides no kernel walks");
    other = (struct request){.dtype = int4, .cache = {2, 3, 9, 1001}, .update = {2, 3, 2, 1001}};
    describe(&other, &options, text);
    ok(says(text, portable) && says(text, "no pack has a kernel of this shape"),
       "portable: a shape no pack has");
}

/* A pack of one family and unit, whose shapes are told apart by their symbols. */
static void run_nothing(const void *problem, int64_t first, int64_t last) {
    (void)problem;
    (void)first;
    (void)last;
}

static const struct kvmill_rows_shape open_shape = {8,          0,          KVMILL_ANY,
                                                    KVMILL_ANY, KVMILL_ANY, KVMILL_ANY};
static const struct kvmill_rows_shape row_shape = {8, 0, KVMILL_ANY, KVMILL_ANY, KVMILL_ANY, 7};
static const struct kvmill_rows_shape full_shape = {8, 0, 3, KVMILL_ANY, 2, 7};
static const struct kvmill_rows_shape other_shape = {8, 0, 3, 9, 2, 6};
static const struct kvmill_rows_shape ring_shape = {8, 1, 3, 9, 2, 7};
static const struct kvmill_rows_shape nibble_shape = {4, 0, 3, 9, 2, 7};

#define KERNEL(name, isa_name, shape_name)                                                         \
    static const struct kvmill_kernel name = {.abi = KVMILL_KERNEL_ABI,                            \
                                              .family = KVMILL_STORE_ROWS,                         \
                                              .symbol = #name,                                     \
                                              .isa = isa_name,                                     \
                                              .shape = &shape_name,                                \
                                              .run = run_nothing}
KERNEL(open_scalar, "scalar", open_shape);
KERNEL(row_scalar, "scalar", row_shape);
KERNEL(full_scalar, "scalar", full_shape);
KERNEL(full_twin, "scalar", full_shape);
KERNEL(other_scalar, "scalar", other_shape);
KERNEL(ring_scalar, "scalar", ring_shape);
KERNEL(nibble_scalar, "scalar", nibble_shape);
KERNEL(open_avx2, "avx2", open_shape);
KERNEL(full_unknown, "riscv", full_shape);

/* The choice out of a pack of these kernels. */
static void test_choice(const struct kvmill_kernel *const *kernels, const char *want,
                        const char *name) {
    kvmill_pack pack = {.abi = KVMILL_KERNEL_ABI, .name = "mine", .kernels = kernels};
    const kvmill_pack *list[] = {&pack};
    while (kernels[pack.count] != NULL)
        pack.count++;
    kvmill_plan_options options = {.struct_size = sizeof options, .packs = list, .pack_count = 1};
    char text[TEXT_SIZE], words[80];
    describe(&usual, &options, text);
    snprintf(words, sizeof words, "store with %s (", want);
    ok(says(text, words), "%s", name);
}

#define KERNELS(...) ((const struct kvmill_kernel *const[]){__VA_ARGS__, NULL})

static void test_choices(void) {
    test_choice(KERNELS(&open_scalar, &full_scalar, &row_scalar), "full_scalar",
                "choice: the kernel that fixes most");
    test_choice(KERNELS(&full_scalar, &open_scalar), "full_scalar",
                "choice: the kernel that fixes most, listed first");
    test_choice(KERNELS(&full_scalar, &full_twin), "full_scalar", "choice: the first of equals");
    test_choice(KERNELS(&other_scalar, &ring_scalar, &nibble_scalar, &row_scalar), "row_scalar",
                "choice: only kernels of the shape, mode and unit");
    test_choice(KERNELS(&other_scalar, &ring_scalar, &nibble_scalar), "kvmill_store_rows__portable",
                "choice: portable where none is");
    test_choice(KERNELS(&full_unknown, &open_scalar), "open_scalar",
                "choice: no instruction set that is unknown");
    if (kvmill_isa_usable("avx2") && isa_rank(outermost()) >= isa_rank("avx2"))
        test_choice(KERNELS(&full_scalar, &open_avx2), "open_avx2",
                    "choice: the better instruction set before the better fit");
    else
        skip_test("choice: this CPU or KVMILL_ISA rules out avx2");
}

static void test_packs_are_values(void) {
    kvmill_pack copy = kvmill_pack_kvmill_test;
    const kvmill_pack *list[] = {&copy};
    copy.name = "a copy";
    kvmill_plan_options options = {.struct_size = sizeof options, .packs = list, .pack_count = 1};
    char text[TEXT_SIZE];
    describe(&usual, &options, text);
    ok(says(text, "pack a copy"), "a copy of a pack is a pack");
    copy.count = 0;
    describe(&usual, &options, text);
    ok(says(text, "kvmill_store_rows__portable"), "an empty pack has nothing");
}

/* ---- Threads ---- */

enum { THREADS = 8, RUNS = 20 };

struct runner {
    pthread_t thread;
    const kvmill_plan *plan;
    struct fenced_tensor past, update, indices, expected;
    bool good;
};

static const struct request shared = {
    .dtype = {kDLUInt, 8, 1}, .mode = "circular", .cache = {3, 8, 50, 33}, .update = {3, 8, 2, 33}};

static void open_runner(struct runner *runner, const kvmill_plan *plan) {
    runner->plan = plan;
    runner->good = true;
    tensor_open(&runner->past, uint8, 4, shared.cache, NULL, &dice);
    tensor_open(&runner->update, uint8, 4, shared.update, NULL, &dice);
    tensor_open(&runner->indices, int64, 1, shared.cache, NULL, &dice);
    for (int b = 0; b < 3; b++) {
        int64_t start = dice_range(&dice, 0, 200);
        memcpy(runner->indices.fence.data + 8 * b, &start, sizeof start);
    }
    tensor_open_copy(&runner->expected, &runner->past, &dice);
    oracle_tensor_scatter(2, true, &runner->expected.dl, &runner->update.dl, &runner->indices.dl,
                          &runner->expected.dl);
}

/* In place again and again: the same rows, so the same bytes. */
static void *run_repeatedly(void *argument) {
    struct runner *runner = argument;
    const DLTensor *const tensors[] = {&runner->past.dl, &runner->update.dl, &runner->indices.dl,
                                       &runner->past.dl};
    for (int i = 0; i < RUNS; i++)
        runner->good &= kvmill_run(runner->plan, tensors, NULL, NULL) == KVMILL_OK;
    return NULL;
}

static bool close_runner(struct runner *runner) {
    int64_t where;
    bool good = runner->good && tensor_is_equal(&runner->past, &runner->expected, &where) &&
                fence_is_intact(&runner->past.fence, &where);
    tensor_close(&runner->past);
    tensor_close(&runner->update);
    tensor_close(&runner->indices);
    tensor_close(&runner->expected);
    return good;
}

static void test_shared_plan(bool use_packs) {
    struct runner runners[THREADS];
    kvmill_plan_options options = all_packs(NULL);
    kvmill_plan *plan;
    kvmill_error error;
    if (plan_with(&shared, use_packs ? &options : NULL, &plan, &error) != KVMILL_OK)
        bail_out("no plan: %s", error.message);
    for (int t = 0; t < THREADS; t++)
        open_runner(&runners[t], plan);
    for (int t = 0; t < THREADS; t++)
        if (pthread_create(&runners[t].thread, NULL, run_repeatedly, &runners[t]) != 0)
            bail_out("no thread");
    bool good = true;
    for (int t = 0; t < THREADS; t++)
        pthread_join(runners[t].thread, NULL);
    for (int t = 0; t < THREADS; t++)
        good &= close_runner(&runners[t]);
    ok(good, "%d threads share a plan, %s", THREADS, use_packs ? "packs" : "portable");
    kvmill_plan_destroy(plan);
}

/* ---- The same bits at any number of threads ---- */

struct share {
    pthread_t thread;
    void (*part)(void *context, int64_t index);
    void *context;
    int64_t first, step, parts;
};

static void *run_share(void *argument) {
    struct share *share = argument;
    for (int64_t i = share->first; i < share->parts; i += share->step)
        share->part(share->context, i);
    return NULL;
}

/* data: how many threads. */
static void on_threads(void *data, int64_t parts, void (*part)(void *context, int64_t index),
                       void *context) {
    int64_t count = *(int64_t *)data;
    struct share shares[THREADS];
    for (int64_t t = 0; t < count; t++) {
        shares[t] = (struct share){
            .part = part, .context = context, .first = t, .step = count, .parts = parts};
        if (pthread_create(&shares[t].thread, NULL, run_share, &shares[t]) != 0)
            bail_out("no thread");
    }
    for (int64_t t = 0; t < count; t++)
        pthread_join(shares[t].thread, NULL);
}

static void test_thread_counts(const struct request *request, bool in_place, const char *name) {
    struct fenced_tensor past, update, first, again;
    kvmill_plan_options options = all_packs(NULL);
    kvmill_plan *plan;
    kvmill_error error;
    int64_t where;
    tensor_open(&past, request->dtype, 4, request->cache, NULL, &dice);
    tensor_open(&update, request->dtype, 4, request->update, NULL, &dice);
    if (plan_with(request, &options, &plan, &error) != KVMILL_OK)
        bail_out("no plan: %s", error.message);
    tensor_open_copy(&first, &past, &dice);
    bool good = true;
    for (int64_t threads = 1; good && threads <= THREADS; threads += is_slow_run() ? 7 : 1) {
        tensor_open_copy(&again, &past, &dice);
        const DLTensor *const tensors[] = {in_place ? &again.dl : &past.dl, &update.dl, NULL,
                                           &again.dl};
        good = kvmill_run_parallel(plan, tensors, NULL, on_threads, &threads, &error) == KVMILL_OK;
        if (threads == 1)
            memcpy(first.fence.data, again.fence.data, again.fence.size);
        good = good && tensor_is_equal(&again, &first, &where) &&
               fence_is_intact(&again.fence, &where);
        tensor_close(&again);
    }
    tensor_open_copy(&again, &past, &dice);
    oracle_tensor_scatter(2, false, in_place ? &again.dl : &past.dl, &update.dl, NULL, &again.dl);
    good = good && tensor_is_equal(&again, &first, &where);
    ok(good, "%s: the same bits on 1 to %d threads%s", name, THREADS, in_place ? ", in place" : "");
    kvmill_plan_destroy(plan);
    tensor_close(&past);
    tensor_close(&update);
    tensor_close(&first);
    tensor_close(&again);
}

static void test_all_thread_counts(void) {
    const struct request bytes = {.dtype = {kDLFloat, 32, 1},
                                  .cache = {3, 5, 151, 67},
                                  .update = {3, 5, 90, 67},
                                  .no_indices = true};
    const struct request nibbles = {.dtype = {kDLInt, 4, 1},
                                    .cache = {3, 5, 401, 255},
                                    .update = {3, 5, 301, 255},
                                    .no_indices = true};
    for (int in_place = 0; in_place < 2; in_place++) {
        test_thread_counts(&bytes, in_place, "float32");
        test_thread_counts(&nibbles, in_place, "int4");
    }
}

int main(void) {
    const char *cap = getenv("KVMILL_ISA");
    snprintf(outer_cap, sizeof outer_cap, "%s", cap ? cap : "");
    dice = dice_for(dice_seed(), "api");
    fence_explain_traps("t_api");
    test_version();
    test_status_names();
    test_describe();
    test_long_texts();
    test_isas();
    test_caps();
    test_unknown_isas();
    test_portable();
    test_choices();
    test_packs_are_values();
    test_shared_plan(false);
    test_shared_plan(true);
    test_all_thread_counts();
    return done_testing();
}
