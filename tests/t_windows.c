/* stablehlo.gather and stablehlo.scatter through the public interface, compared with two oracles
   bit for bit: random geometry, index types, strides, combiners; serially and in shuffled parts.

   SPDX-License-Identifier: Apache-2.0 */
#include "../defs/op_tables.h"
#include "common.h"
#include "packs.h"
#include "windows_case.h"

/* ---- Kernels made for random gathers ---- */

/* One run writes the specs of its gathers to the file KVMILL_WINDOWS_SPECS.  A later run with the
   same seed takes the pack made from them, KVMILL_WINDOWS_PACK: the path of a library, or "linked".
   See tests/windows.test. */

static void print_gather(FILE *stream, const kvmill_gather *op) {
    fprintf(stream, "{\"op\": \"stablehlo.gather\", \"operand\": \"");
    print_tensor_type(stream, op->operand);
    fprintf(stream, "\", \"start_indices\": \"");
    print_tensor_type(stream, op->start_indices);
    fprintf(stream, "\"");
    print_lists(stream, &kvmill_gather_op, op, true);
    fprintf(stream, ", \"index_vector_dim\": %" PRId64 ", \"mode\": \"%s\"}\n",
            op->index_vector_dim, op->mode ? op->mode : "clip");
}

static void tell_gather(const kvmill_gather *op) {
    const char *path = getenv("KVMILL_WINDOWS_SPECS");
    FILE *stream = path ? fopen(path, "a") : NULL;
    if (stream == NULL)
        return;
    print_gather(stream, op);
    fclose(stream);
}

enum { MOST_KERNELS = 1000 };

static int64_t counted;
static bool taken[MOST_KERNELS];

/* The linked pack: static programs cannot load one. */
extern const kvmill_pack kvmill_pack_windows __attribute__((weak));

/* Returns options with the pack, or NULL without one. */
static const kvmill_plan_options *made_kernels(void) {
    static const kvmill_pack *made[1];
    static const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = made, .pack_count = 1};
    const char *path = getenv("KVMILL_WINDOWS_PACK");
    if (path == NULL)
        return NULL;
    if (made[0] == NULL)
        made[0] = strcmp(path, "linked") == 0 ? &kvmill_pack_windows
                                              : loaded_pack(path, "kvmill_pack_windows");
    if (made[0]->count > MOST_KERNELS)
        bail_out("%s: %d kernels", path, (int)made[0]->count);
    return &options;
}

static void note_taken(const char *description) {
    const kvmill_pack *pack = made_kernels()->packs[0];
    for (uint32_t i = 0; i < pack->count; i++) {
        const char *symbol = pack->kernels[i]->symbol, *found = strstr(description, symbol);
        taken[i] |= found != NULL && found[strlen(symbol)] == ' ';
    }
}

static void count_taken(const kvmill_plan *plan) {
    if (!plan_says(plan, "(pack windows)"))
        return;
    counted++;
    note_taken(plan_text(plan));
}

static void test_all_taken(void) {
    const kvmill_pack *pack = made_kernels()->packs[0];
    int best = 0, kernels = 0, missed = 0;
    for (uint32_t i = 0; i < pack->count; i++)
        if (isa_is_allowed(pack->kernels[i]->isa) && isa_rank(pack->kernels[i]->isa) > best)
            best = isa_rank(pack->kernels[i]->isa);
    for (uint32_t i = 0; i < pack->count; i++) {
        kernels += isa_rank(pack->kernels[i]->isa) == best;
        missed += isa_rank(pack->kernels[i]->isa) == best && !taken[i];
    }
    ok(kernels > 0 && missed == 0, "%d of the pack's %d kernels for %s ran", kernels - missed,
       kernels, kvmill_isa_name((size_t)best));
}

/* ---- Gather ---- */

static void set_gather(struct dice *dice, struct gathering *it) {
    it->op.indices_are_sorted = dice_once_in(dice, 4);
    it->op.mode = dice_once_in(dice, 3) ? "fill" : NULL;
    saw("fill", it->op.mode != NULL);
    saw("empty results", it->result.count == 0);
}

static bool run_gathering(struct dice *dice, struct gathering *it) {
    kvmill_plan *plan;
    kvmill_error error;
    if (kvmill_plan_gather(&it->op, made_kernels(), &plan, &error) == KVMILL_OK) {
        count_taken(plan);
        return run_windows(dice, plan, it->tensors, false);
    }
    diag("%s", error.message);
    return false;
}

static bool is_gathered(struct dice *dice, struct gathering *it) {
    bool right = run_gathering(dice, it);
    for (int form = 0; right && form < ORACLE_FORMS; form++) {
        expect_gathering(it, (enum oracle_form)form);
        right = is_as_dense(&it->result, it->type);
    }
    return right;
}

static bool gathers_right(struct dice *dice, bool large) {
    OWN(close_gathering) struct gathering it = {.is_dense = false};
    make_geometry(dice, large, true, &it.g);
    it.type = copied_types[dice_range(dice, 0, 6)];
    it.index_type = random_index_type(dice);
    open_gathering(dice, &it);
    set_gather(dice, &it);
    tell_gather(&it.op);
    return is_gathered(dice, &it);
}

/* ---- Long windows: kernels copy from several places in turn, prefetch, store around the caches,
   or divide windows into pieces ---- */

/* operand [batch, rows, elements + 3], start_indices [batch, count, 2], windows of 1 x elements. */
struct long_gather {
    const char *name, *index, *type;
    int64_t elements, batch, rows, count;
};

static struct geometry long_geometry(const struct long_gather *by) {
    return (struct geometry){.rank = 3,
                             .indices_rank = 3,
                             .windowed_rank = 3,
                             .dims = {by->batch, by->rows, by->elements + 3},
                             .slice = {1, 1, by->elements},
                             .indices_dims = {by->batch, by->count, 2},
                             .windowed_dims = {by->batch, by->count, by->elements},
                             .window = {2},
                             .dropped = {1},
                             .map = {1, 2},
                             .windows = 1,
                             .droppeds = 1,
                             .pairs = 1,
                             .components = 2,
                             .ivd = 2};
}

/* Fills indices, mostly inside; some are anywhere, also beyond 32 bits. */
static void fill_long_indices(struct dice *dice, const struct long_gather *by,
                              struct pair *indices) {
    for (int64_t i = 0; i < indices->count; i++) {
        uint64_t index = (uint64_t)dice_range(dice, 0, i % 2 ? 3 : by->rows);
        if (dice_once_in(dice, 6))
            index = dice_bits(dice);
        memcpy(indices->dense + i * indices->bytes, &index, (size_t)indices->bytes);
    }
    put_pair(indices);
}

static void test_long_gather(const struct long_gather *by, const char *mode) {
    struct dice dice = dice_for(by->name);
    OWN(close_gathering)
    struct gathering it = {.g = long_geometry(by),
                           .type = setting_type(by->type),
                           .index_type = setting_type(by->index),
                           .is_dense = true};
    open_gathering(&dice, &it);
    fill_long_indices(&dice, by, &it.indices);
    set_gather(&dice, &it);
    it.op.mode = mode;
    tell_gather(&it.op);
    fence_explain_traps(by->name);
    ok(is_gathered(&dice, &it) && (is_slowest_run() || is_gathered(&dice, &it)), "%s, %s", by->name,
       mode);
}

EACH_ROW(long_gathers, 4) {
    double numbers[4];
    numbers_in(cells[3], 10, numbers, 4);
    struct long_gather by = {.name = cells[0],
                             .index = cells[1],
                             .type = cells[2],
                             .elements = (int64_t)numbers[0],
                             .batch = (int64_t)numbers[1],
                             .rows = (int64_t)numbers[2],
                             .count = (int64_t)numbers[3]};
    test_long_gather(&by, "clip");
    test_long_gather(&by, "fill");
}

/* ---- Scatter ---- */

static bool scatters_right(struct dice *dice, bool large) {
    return scatters_with(dice, large, NULL, NULL);
}

static bool packs_scatter_right(struct dice *dice, bool large) {
    return scatters_with(dice, large, NULL, &two_threads[1]);
}

static bool joints_scatter_right(struct dice *dice, bool large) {
    const struct joint *joint = &joints[dice_range(dice, 0, 1)];
    return scatters_with(dice, large, joint, dice_once_in(dice, 2) ? &two_threads[1] : NULL);
}

/* ---- Kernels of packs ---- */

/* Returns an element type that the kernel takes. */
static DLDataType type_for(struct dice *dice, const struct kvmill_scatter_shape *shape) {
    DLDataType type = {(uint8_t)shape->element_code, (uint8_t)shape->element_bits, 1};
    bool ordered =
        shape->combiner == KVMILL_COMBINE_MINIMUM || shape->combiner == KVMILL_COMBINE_MAXIMUM;
    if (shape->combiner == KVMILL_COMBINE_REPLACE)
        do
            type = copied_types[dice_range(dice, 0, 6)];
        while (oracle_element_bytes(type) * 8 != shape->element_bits);
    else if (type.code == kDLUInt && !ordered && dice_once_in(dice, 2))
        type.code = kDLInt;
    return type;
}

/* Whether plans of this geometry take the kernel if it is the only one. */
static bool is_taken(struct scattering *it, const kvmill_plan_options *options,
                     const struct kvmill_kernel *kernel) {
    DLTensor input = dense_tensor(it->combiner.type, it->g.rank, it->g.dims, NULL);
    DLTensor indices = dense_tensor(it->index_type, it->g.indices_rank, it->g.indices_dims, NULL);
    DLTensor update =
        dense_tensor(it->combiner.type, it->g.windowed_rank, it->g.windowed_dims, NULL);
    const DLTensor *inputs[] = {&input}, *updates[] = {&update};
    kvmill_scatter op = scatter_of(it, inputs, &indices, updates);
    OWN_PLAN kvmill_plan *plan;
    return kvmill_plan_scatter(&op, options, &plan, NULL) == KVMILL_OK &&
           plan_says(plan, kernel->symbol);
}

static struct scattering choose_for(struct dice *dice, const struct kvmill_scatter_shape *shape) {
    return (struct scattering){
        .combiner = {type_for(dice, shape), (enum operation)(shape->combiner - 1)},
        .index_type = {(uint8_t)shape->index_code, (uint8_t)shape->index_bits, 1},
        .in_place = dice_once_in(dice, 3)};
}

static bool kernel_scatters_right(struct dice *dice, const struct kvmill_kernel *kernel) {
    struct one_kernel one;
    const kvmill_plan_options *options = one_kernel(&one, kernel);
    const struct kvmill_scatter_shape *shape = kernel->shape;
    struct scattering it = choose_for(dice, shape);
    do
        make_geometry(dice, false, false, &it.g);
    while (it.g.components != shape->components || !is_taken(&it, options, kernel));
    return scatters_so(dice, &it, options);
}

/* Fills indices with consecutive columns, with jumps back, ahead and out of bounds; some points are
   skipped. */
static void fill_repeated(struct dice *dice, struct scattering *it) {
    struct pair *indices = &it->indices;
    int64_t value = 0, outside = -1, run = dice_range(dice, 4, 100);
    for (int64_t i = 0; i < indices->count; i++) {
        bool aside = dice_once_in(dice, run);
        if (dice_once_in(dice, run))
            value = dice_range(dice, -2, it->g.dims[1] + 1);
        memcpy(indices->dense + i * indices->bytes, aside ? &outside : &value,
               (size_t)indices->bytes);
        value += !aside;
    }
    put_pair(indices);
}

static bool kernel_repeats_right(struct dice *dice, const struct kvmill_kernel *kernel) {
    struct one_kernel one;
    const kvmill_plan_options *options = one_kernel(&one, kernel);
    struct scattering it = choose_for(dice, kernel->shape);
    const int64_t dims[] = {dice_range(dice, 3, 9), dice_range(dice, 30, 90)};
    it.g = geometry_along(2, dims, 1, dice_range(dice, 20, 700));
    open_scattering(dice, &it);
    fill_repeated(dice, &it);
    return applies_right(dice, &it, options);
}

static bool is_repeating(const struct kvmill_kernel *kernel) {
    const struct kvmill_scatter_shape *shape = kernel->shape;
    return shape->row == 1 && shape->components == 1 && shape->index_bits >= 8;
}

static void walk_kernel(const struct kvmill_kernel *kernel, int cases) {
    struct dice dice = dice_for_kernel(kernel);
    bool right = true;
    fence_explain_traps(kernel->symbol);
    for (int i = 0; right && i < cases; i++)
        right = kernel_scatters_right(&dice, kernel) &&
                (!is_repeating(kernel) || kernel_repeats_right(&dice, kernel));
    kernel_ran(kernel);
    ok(right, "%s", kernel->symbol);
}

static void walk_kernels(int cases) {
    const struct kvmill_kernel *kernel;
    int kernels = 0;
    for (uint32_t i = 0; (kernel = kernel_at(i)) != NULL; i++)
        if (kernel->family == KVMILL_SCATTER && isa_is_allowed(kernel->isa)) {
            walk_kernel(kernel, cases);
            kernels++;
        }
    ok(kernels > 0, "%d kernels that scatter", kernels);
}

/* ---- Indices that the caller promises to be unique ---- */

enum { MANY = 200000 };

/* Returns the most parts of a run that adds to each element once, or -1 if the result is wrong. */
static int64_t parts_of_points(struct dice *dice, bool unique) {
    struct scattering it = {.combiner = {f32, ADD},
                            .index_type = i64,
                            .unique = unique,
                            .is_dense = true,
                            .g = geometry_along(1, (int64_t[]){MANY}, 0, MANY)};
    open_scattering(dice, &it);
    dice_order(dice, (int64_t *)(void *)it.indices.dense, MANY);
    put_pair(&it.indices);
    return applies_right(dice, &it, NULL) ? it.parts : -1;
}

TEST(unique) {
    if (made_kernels() != NULL) /* a pack for gathers */
        return;
    struct dice dice = dice_for("unique");
    int64_t few = parts_of_points(&dice, false), many = parts_of_points(&dice, true);
    ok(few == 1 && many > 2,
       "points in %" PRId64 " parts, and in %" PRId64 " where indices are unique", few, many);
}

/* ---- Sums halfway between two numbers ---- */

/* Adds half the distance of neighbours to a row of 1 and the number after it, of both signs. */
static bool ties_are_right(struct dice *dice, DLDataType type, int64_t elements) {
    uint16_t one = type.code == kDLBfloat ? 0x3f80 : 0x3c00, sign = 0x8000;
    uint16_t half = type.code == kDLBfloat ? 0x3b80 : 0x1000;
    struct scattering it = {.combiner = {type, ADD},
                            .index_type = {kDLInt, 16, 1},
                            .g = geometry_along(2, (int64_t[]){1, elements}, 0, 1)};
    open_scattering(dice, &it);
    for (int64_t i = 0; i < elements; i++) {
        uint16_t number = (uint16_t)((one + i % 2) | (i & 2 ? sign : 0));
        uint16_t added = (uint16_t)(half | (i & 2 ? sign : 0));
        memcpy(it.input->dense + 2 * i, &number, sizeof number);
        memcpy(it.update->dense + 2 * i, &added, sizeof added);
    }
    memset(it.indices.dense, 0, sizeof(int16_t));
    put_pair(it.input);
    put_pair(it.update);
    put_pair(&it.indices);
    return applies_right(dice, &it, &two_threads[1]);
}

TEST(ties) {
    if (made_kernels() != NULL) /* a pack for gathers */
        return;
    struct dice dice = dice_for("ties");
    for (int64_t elements = 5; elements <= 40; elements += 35)
        ok(ties_are_right(&dice, bf16, elements) && ties_are_right(&dice, f16, elements),
           "ties in rows of %" PRId64, elements);
}

/* ---- All tests ---- */

static void walk(const char *name, bool (*is_right)(struct dice *, bool), int cases, bool large) {
    int wrong = 0;
    for (int i = 0; i < cases && wrong < 3; i++) {
        char words[64];
        snprintf(words, sizeof words, "%s %d %d", name, large, i);
        struct dice dice = dice_for(words);
        fence_explain_traps(words);
        if (!is_right(&dice, large)) {
            diag("case \"%s\"", words);
            wrong++;
        }
    }
    ok(wrong == 0, "%d random %s, %s", cases, name, large ? "large" : "small");
}

TEST(walks) {
    int cases = windows_cases(is_slow_run() ? few_cases(700) : 4000);
    int large_cases = windows_cases(is_slow_run() ? few_cases(64) : 240) / 4;
    walk("gather", gathers_right, cases, false);
    walk("scatter", scatters_right, cases, false);
    walk("gather", gathers_right, large_cases, true);
    walk("scatter", scatters_right, large_cases, true);
    if (made_kernels() != NULL) {
        ok(counted > cases / 2, "kernels were made for them: %" PRId64, counted);
        test_all_taken();
        return;
    }
    walk("scatter with packs", packs_scatter_right, cases / 2, false);
    walk("scatter with packs", packs_scatter_right, large_cases, true);
    walk("scatter of several inputs", joints_scatter_right, cases / 8, false);
    walk("scatter of several inputs", joints_scatter_right, large_cases / 2, true);
    walk_kernels(is_slow_run() ? few_cases(12) : 24);
}

TEST(seen) {
    if (windows_cases(0) != 0 || made_kernels() != NULL) /* a few cases need not be of all kinds */
        return;
    expect_seen("batching pairs; several batching pairs; unsorted pairs; index vectors not last; "
                "implicit index vectors; empty index vectors; slices of 0 on dropped axes; "
                "slices of 0 on batching axes; window axes not last; strides; several parts; "
                "results in place; skip_window; fill; extreme indices; empty results");
    if (!is_slow_run())
        expect_seen("several inputs, a kernel each; several inputs in several parts");
}
