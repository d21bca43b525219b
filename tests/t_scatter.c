/* TensorScatter through the public interface, compared with the oracle bit for bit: random
   geometry, every type, portable and with packs, every kernel of the linked packs; serially, in
   shuffled parts and on threads.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "common.h"
#include "packs.h"
#include "scatter_scene.h"

static const char *const types[] = {
    "float16",        "bfloat16",   "float32",      "float64",        "int8",
    "int16",          "int32",      "int64",        "uint8",          "uint16",
    "uint32",         "uint64",     "bool",         "complex64",      "complex128",
    "string",         "string128",  "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
    "float8e5m2fnuz", "float8e8m0", "int4",         "uint4",          "float4e2m1"};

static int64_t taken; /* how many plans took the kernel that is tested */

/* ---- Geometry ---- */

struct geometry {
    const char *type;
    int bits, rank, axis;
    bool circular, floored;
    const kvmill_plan_options *options;
    const char *symbol; /* of the kernel that plans must take */
    int64_t cache[MOST_DIMS], update[MOST_DIMS];
    char words[1024]; /* settings of the scene */
};

static int64_t choose_dim(struct dice *dice) {
    static const int64_t dims[] = {1, 1, 2, 2, 3, 3, 4, 5, 7};
    return dice_once_in(dice, 40) ? 0 : dims[dice_range(dice, 0, 8)];
}

static void choose_shape(struct geometry *g, struct dice *dice) {
    int64_t *dims = g->cache;
    g->rank = (int)dice_range(dice, 2, 6);
    g->axis = (int)dice_range(dice, 1, g->rank - 1);
    g->circular = dice_once_in(dice, 2);
    g->floored = g->circular && dice_once_in(dice, 3);
    for (int d = 0; d < g->rank; d++)
        dims[d] = choose_dim(dice);
    dims[g->axis] = dice_once_in(dice, 40) ? 0 : dice_range(dice, 1, 12);
    memcpy(g->update, dims, sizeof g->update);
    int64_t capacity = dims[g->axis];
    g->update[g->axis] =
        dice_once_in(dice, 6) ? capacity : dice_range(dice, 0, capacity < 5 ? capacity : 5);
}

/* Makes the problem large enough for several parts; every second time with one slab, which is then
   divided. */
static void enlarge(struct geometry *g, struct dice *dice) {
    bool one_slab = dice_once_in(dice, 2);
    int64_t bytes = one_slab ? 600000 : 450000, others = 1;
    for (int d = 0; d < g->rank; d++) {
        if (g->cache[d] == 0 || (one_slab && d < g->axis))
            g->cache[d] = 1;
        g->update[d] = g->cache[d];
        others *= d == g->axis ? 1 : g->cache[d];
    }
    int64_t elements = bytes * 8 / g->bits;
    int64_t capacity = elements * dice_range(dice, 1, 2) / others + 3;
    g->cache[g->axis] = capacity;
    g->update[g->axis] = dice_range(dice, 1, capacity);
}

/* ---- Shapes for a kernel of a pack ---- */

static int64_t field_or(int64_t field, int64_t choice) {
    return field == KVMILL_ANY ? choice : field;
}

/* Splits a count over dims [from, to). */
static void factorize(int64_t *dims, int from, int to, int64_t count, struct dice *dice) {
    for (int d = from; d < to; d++) {
        int64_t factor = d + 1 == to ? count : dice_range(dice, 1, 4);
        while (count % factor != 0)
            factor--;
        dims[d] = factor;
        count /= factor;
    }
}

/* Returns the units of a row for a kernel that takes any row. */
static int64_t any_units(const struct geometry *g, int unit_bits, struct dice *dice) {
    static const int64_t elements[] = {1, 2, 3, 5, 7, 16, 31, 64, 65, 127, 160, 255, 257};
    return elements[dice_range(dice, 0, COUNT(elements) - 1)] * g->bits / unit_bits;
}

/* Chooses a shape for the kernel; returns false if no tensor of this type and size fits. */
static bool fit_kernel(struct geometry *g, const struct kvmill_kernel *kernel, int64_t bytes,
                       struct dice *dice) {
    const struct kvmill_rows_shape *shape = kernel->shape;
    int bits = g->bits, unit_bits = shape->unit_bits;
    int64_t row_bits = field_or(shape->row, any_units(g, unit_bits, dice)) * unit_bits;
    if (row_bits == 0 || row_bits % bits != 0 ||
        (unit_bits == 4) != (bits == 4 && row_bits / bits % 2 == 1))
        return false;
    bool huge = bytes > 1 << 20;
    int64_t many = bytes * 8 / row_bits + 1, most = unit_bits == 4 && huge ? 9 << 20 : 300000;
    int64_t *dims = g->cache;
    int64_t rows = field_or(shape->rows, dice_range(dice, 0, bytes && !huge ? many : 9));
    int64_t spare = huge ? many : dice_range(dice, !rows, bytes ? many : 20);
    int64_t capacity = field_or(shape->capacity, rows + spare);
    if (row_bits / bits * field_or(shape->heads, 1) * capacity > most)
        return false;
    g->circular = shape->circular;
    g->floored = g->circular && dice_once_in(dice, 3);
    g->axis = (int)dice_range(dice, shape->heads == 1 ? 1 : 2, 3);
    g->rank = g->axis + (int)dice_range(dice, row_bits == bits ? 1 : 2, 3);
    dims[0] = bytes ? 1 : dice_range(dice, 0, 3);
    factorize(dims, 1, g->axis, field_or(shape->heads, dice_range(dice, 1, bytes ? 1 : 5)), dice);
    factorize(dims, g->axis + 1, g->rank, row_bits / bits, dice);
    dims[g->axis] = capacity;
    memcpy(g->update, dims, sizeof g->update);
    g->update[g->axis] = rows < capacity ? rows : capacity;
    return true;
}

/* ---- Settings in words ---- */

__attribute__((format(printf, 2, 3))) static void say(struct geometry *g, const char *format, ...) {
    size_t at = strlen(g->words);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(g->words + at, sizeof g->words - at, format, arguments);
    va_end(arguments);
}

static void say_list(struct geometry *g, const char *name, const int64_t *list, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        say(g, "%s%s%" PRId64, i ? "," : name, i ? "" : "=", list[i]);
}

enum layout { ROW_MAJOR, EXPLICIT, GAPS, BATCH_BACKWARDS, PERMUTED, REPEATED, LAYOUTS };

/* Lays out dims from the innermost to the outermost, each with a stride of at least its
   contents. */
static void lay_out(enum layout layout, int rank, const int64_t *dims, int64_t *strides,
                    struct dice *dice) {
    int64_t order[MOST_DIMS], step = 1;
    for (int d = 0; d < rank; d++)
        order[d] = rank - 1 - d;
    if (layout == PERMUTED)
        dice_order(dice, order, rank);
    for (int i = 0; i < rank; i++) {
        int d = (int)order[i];
        bool gap = layout >= GAPS && dice_once_in(dice, layout == PERMUTED ? 4 : 2) && d + 1 < rank;
        step += gap ? dice_range(dice, 1, 5) : 0;
        bool backwards =
            layout == PERMUTED ? dice_once_in(dice, 4) : layout == BATCH_BACKWARDS && d == 0;
        strides[d] = backwards ? -step : step;
        step *= dims[d] + !dims[d];
        if (layout == REPEATED && dice_once_in(dice, 2))
            strides[d] = 0; /* as after broadcasting */
    }
}

/* Sources may have the same element at many places; 4-bit tensors have no interesting strides. */
static void say_tensor(struct geometry *g, const char *name, const int64_t *dims, bool source,
                       struct dice *dice) {
    int64_t strides[MOST_DIMS];
    char words[32];
    enum layout layout = dice_once_in(dice, 2)
                             ? ROW_MAJOR
                             : dice_range(dice, EXPLICIT, source ? REPEATED : PERMUTED);
    if (g->bits == 4 && layout > EXPLICIT)
        layout = EXPLICIT;
    lay_out(layout, g->rank, dims, strides, dice);
    saw("gaps or another order", layout > EXPLICIT);
    say_list(g, name, dims, g->rank);
    snprintf(words, sizeof words, "%s-strides", name);
    if (layout != ROW_MAJOR)
        say_list(g, words, strides, g->rank);
}

static int64_t choose_start(const struct geometry *g, struct dice *dice) {
    int64_t capacity = g->cache[g->axis];
    int64_t last = capacity - g->update[g->axis];
    const int64_t linear[] = {0, last, dice_range(dice, 0, last), dice_range(dice, 0, last)};
    const int64_t wrapped[] = {dice_range(dice, last, capacity),
                               capacity + 1,
                               3 * capacity - 1,
                               INT64_MAX,
                               INT64_MAX - dice_range(dice, 0, capacity),
                               (int64_t)(dice_bits(dice) >> 1)};
    const int64_t negative[] = {-1,
                                -capacity,
                                -dice_range(dice, 0, 3 * capacity),
                                INT64_MIN,
                                INT64_MIN + dice_range(dice, 0, capacity),
                                -(int64_t)(dice_bits(dice) >> 1)};
    if (!g->circular || capacity == 0 || dice_once_in(dice, 3))
        return linear[dice_range(dice, 0, 3)];
    saw("starts at the end of a ring or beyond", true);
    bool below = g->floored && dice_once_in(dice, 2);
    saw("negative starts", below);
    return (below ? negative : wrapped)[dice_range(dice, 0, 5)];
}

static void say_starts(struct geometry *g, struct dice *dice) {
    static const int64_t steps[] = {1, 1, 2, 3, -1, -2, 0};
    int64_t starts[MOST_DIMS];
    say(g, " starts-step=%" PRId64, steps[dice_range(dice, 0, 6)]);
    for (int64_t b = 0; b < g->cache[0]; b++)
        starts[b] = choose_start(g, dice);
    say_list(g, " starts", starts, g->cache[0]);
}

static void say_all(struct geometry *g, struct dice *dice) {
    bool in_place = dice_once_in(dice, 2);
    g->words[0] = '\0';
    say(g, "dtype=%s axis=%d%s", g->type, dice_once_in(dice, 2) ? g->axis : g->axis - g->rank,
        g->floored              ? " mode=circular floored"
        : g->circular           ? " mode=circular"
        : dice_once_in(dice, 2) ? " mode=linear"
                                : "");
    say_tensor(g, " update", g->update, true, dice);
    say_tensor(g, " past", g->cache, !in_place, dice);
    if (!dice_once_in(dice, 6))
        say_starts(g, dice);
    if (in_place)
        say(g, " in-place%s", dice_once_in(dice, 2) ? " unsaid" : "");
    else
        say_tensor(g, " present", g->cache, false, dice);
    saw("results in place", in_place);
    if (dice_once_in(dice, 2))
        return;
    say(g, " open=%d", (int)dice_range(dice, 0, 63));
    saw("dynamic dims", true);
}

/* ---- A case ---- */

static void count_plan(const struct geometry *g, const kvmill_plan *plan,
                       const struct scene *scene) {
    kvmill_call call;
    saw("a pack's kernel that stores", !plan_says(plan, "kvmill_store_rows__portable"));
    saw("a pack's kernel that keeps", !plan_says(plan, "kvmill_keep_rows__portable"));
    saw("more than two parts",
        kvmill_begin(&call, plan, scene->given, KVMILL_TENSOR_SCATTER_TENSORS, NULL, NULL) ==
                KVMILL_OK &&
            kvmill_parts(&call) > 2);
    taken += g->symbol != NULL && plan_says(plan, g->symbol);
}

static bool run_case(struct geometry *g, struct dice *dice) {
    OWN(scene_close) struct scene scene;
    OWN(tensor_close) struct fenced_tensor expected;
    OWN_PLAN kvmill_plan *plan;
    kvmill_error error = {""};
    int way = (int)dice_range(dice, 0, WAYS - 1);
    say_all(g, dice);
    scene_open(&scene, g->words, dice);
    scene_expect(&scene, &expected);
    fence_explain_traps(g->words);
    bool good = scene_plan(&scene, g->options, &plan, &error) == KVMILL_OK;
    if (good)
        count_plan(g, plan, &scene);
    good = good && scene_run_ways(&scene, plan, &expected, way, way + 1);
    return good ||
           diag("%s packs: %s: %s", g->options ? "with" : "without", g->words, error.message);
}

/* ---- Tests ---- */

static struct geometry geometry_of(const char *type, bool use_packs) {
    return (struct geometry){.type = type,
                             .bits = setting_type(type).bits,
                             .options = use_packs ? &two_threads[1] : NULL,
                             .rank = 4,
                             .axis = 2};
}

static bool run_random_case(const char *type, bool use_packs, bool large, struct dice *dice) {
    struct geometry g = geometry_of(type, use_packs);
    choose_shape(&g, dice);
    if (large)
        enlarge(&g, dice);
    return run_case(&g, dice);
}

static void test_type(const char *type, bool use_packs) {
    char words[64];
    snprintf(words, sizeof words, "%s with %s", type, use_packs ? "packs" : "no packs");
    struct dice dice = dice_for(words);
    int cases = is_slow_run() ? few_cases(10) : 160;
    bool good = true, has_large = use_packs || !is_slowest_run();
    for (int i = 0; good && i < cases; i++)
        good = run_random_case(type, use_packs, has_large && i % 125 == few_cases(10) - 1, &dice);
    ok(good, "%s: random geometry", words);
}

/* Rows of an odd number of nibbles begin in either half of a byte, independently in source and
   target. Runs one combination of odd and even counts and starts. */
static bool run_parities(int64_t parities, bool use_packs, struct dice *dice) {
    struct geometry g = geometry_of("int4", use_packs);
    const int64_t dims[] = {1 + (parities >> 2 & 1), 2 + (parities >> 3 & 1),
                            6 + (parities >> 1 & 1), 5 + (parities & 1)};
    memcpy(g.cache, dims, sizeof dims);
    memcpy(g.update, dims, sizeof dims);
    g.update[2] = 1 + (parities >> 4 & 3);
    g.circular = parities >> 6 & 1;
    return run_case(&g, dice);
}

static void test_parities(bool use_packs) {
    struct dice dice = dice_for("parities");
    bool good = true;
    for (int64_t i = 0; good && i < 128 * (is_slow_run() ? 1 : 8); i++)
        good = run_parities(i % 128, use_packs, &dice);
    ok(good, "int4 with %s: every pair of parities", use_packs ? "packs" : "no packs");
}

static void test_small_nibbles(bool use_packs) {
    struct dice dice = dice_for("small");
    bool good = true;
    for (int64_t i = 0; good && i < few_cases(60); i++) {
        struct geometry g = geometry_of("uint4", use_packs);
        const int64_t dims[] = {1, 1 + i / 2 % 3, 1};
        g.rank = 3, g.axis = 1, g.circular = i % 2;
        memcpy(g.cache, dims, sizeof dims);
        memcpy(g.update, dims, sizeof dims);
        g.update[1] = dice_range(&dice, 0, dims[1]);
        good = run_case(&g, &dice);
    }
    ok(good, "uint4 with %s: one to three nibbles in all", use_packs ? "packs" : "no packs");
}

/* ---- Every kernel of the packs ---- */

/* Runs a case of a kernel.  Some are large enough for stores around the caches; a kernel that keeps
   rows gets one. */
static bool run_kernel_case(const struct kvmill_kernel *kernel, const kvmill_plan_options *options,
                            int number, struct dice *dice) {
    bool huge = number == 0 && kernel->family == KVMILL_KEEP_ROWS && !is_slow_run();
    int64_t bytes = huge ? 4 << 20 : dice_once_in(dice, 12) ? 70000 : 0;
    for (int tries = 0; tries < 400; tries++) {
        struct geometry g = geometry_of(types[dice_range(dice, 0, COUNT(types) - 1)], true);
        g.options = options;
        g.symbol = kernel->symbol;
        if (fit_kernel(&g, kernel, tries < 300 ? bytes : 0, dice))
            return run_case(&g, dice);
    }
    return false;
}

static void test_kernel(const struct kvmill_kernel *kernel) {
    struct dice dice = dice_for_kernel(kernel);
    struct one_kernel one;
    const kvmill_plan_options *options = one_kernel(&one, kernel);
    int least = is_slow_run() ? few_cases(12) : 60, cases = 0;
    bool good = true;
    if (!isa_is_allowed(kernel->isa)) {
        skip_test("%s: this CPU or KVMILL_ISA rules out %s", kernel->symbol, kernel->isa);
        return;
    }
    taken = 0;
    for (; good && (cases < least || (taken == 0 && cases < 100)); cases++)
        good = run_kernel_case(kernel, options, cases, &dice);
    if (taken > 0)
        kernel_ran(kernel);
    ok(good && taken > 0, "%s: taken in %d of %d cases", kernel->symbol, (int)taken, cases);
}

TEST(kernels) {
    const struct kvmill_kernel *kernel;
    for (uint32_t i = 0; (kernel = kernel_at(i)) != NULL; i++)
        if (kernel->constant_count == 0 && /* else: t_special */
            (kernel->family == KVMILL_STORE_ROWS || kernel->family == KVMILL_KEEP_ROWS))
            test_kernel(kernel);
}

/* ---- Parts that may run at the same time ---- */

/* Counts, for each byte of present, the parts that write it; returns the most.  past is all ones,
   update all zeros, and present neither, so that every store to a nibble changes it. */
static unsigned char most_writers(const struct scene *scene, const kvmill_plan *plan) {
    const struct fence *output =
        &scene->tensor[scene->given[PRESENT] == scene->given[PAST] ? PAST : PRESENT].fence;
    unsigned char *writers = calloc(output->size, 1), *before = malloc(output->size), most = 0;
    kvmill_call call;
    must(before != NULL && writers != NULL &&
             kvmill_begin(&call, plan, scene->given, KVMILL_TENSOR_SCATTER_TENSORS, NULL, NULL) ==
                 KVMILL_OK,
         "cannot begin");
    memset(scene_bytes(scene, PRESENT), 0x55, scene->tensor[PRESENT].fence.size);
    memset(scene_bytes(scene, PAST), 0xff, scene->tensor[PAST].fence.size);
    memset(scene_bytes(scene, UPDATE), 0x00, scene->tensor[UPDATE].fence.size);
    memcpy(before, output->data, output->size);
    for (int64_t part = 0; part < kvmill_parts(&call); part++) {
        kvmill_part(&call, part);
        for (size_t i = 0; i < output->size; i++) {
            writers[i] += output->data[i] != before[i];
            most = writers[i] > most ? writers[i] : most;
        }
        memcpy(output->data, before, output->size);
    }
    free(before);
    free(writers);
    return most;
}

/* Checks that no byte has two writers, also where slabs of an odd number of nibbles meet: then
   neither the order nor races of parts can matter. */
static void test_parts_are_apart(const char *type, bool use_packs, bool in_place) {
    struct dice dice = dice_for("apart");
    OWN(scene_close) struct scene scene;
    OWN_PLAN kvmill_plan *plan;
    char words[128];
    snprintf(words, sizeof words, "dtype=%s past=3,5,401,255 update=3,5,%d,255%s", type,
             in_place ? 401 : 301, in_place ? " in-place" : "");
    scene_open(&scene, words, &dice);
    bool good = scene_plan(&scene, use_packs ? &two_threads[1] : NULL, &plan, NULL) == KVMILL_OK;
    ok(good && most_writers(&scene, plan) == 1, "%s with %s%s: parts are apart", type,
       use_packs ? "packs" : "no packs", in_place ? ", in place" : "");
}

TEST(random) {
    for (int use_packs = 0; use_packs < 2; use_packs++) {
        for (size_t t = 0; t < COUNT(types); t++)
            test_type(types[t], use_packs);
        test_parities(use_packs);
        test_small_nibbles(use_packs);
        for (int in_place = 0; in_place < 2; in_place++) {
            test_parts_are_apart("uint8", use_packs, in_place);
            test_parts_are_apart("int4", use_packs, in_place);
        }
    }
}

TEST(coverage) {
    expect_seen("a pack's kernel that stores; a pack's kernel that keeps; gaps or another order; "
                "dynamic dims; results in place; more than two parts; negative starts; "
                "starts at the end of a ring or beyond");
}
