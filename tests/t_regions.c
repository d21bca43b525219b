/* Kernels that scatter by a region, compared with the portable one bit for bit: every kernel of the
   linked packs, or of the pack that KVMILL_REGIONS_PACK names, on random numbers, sizes and
   strides. t_regions COUNT prints specs of COUNT random regions instead.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/element.h"
#include "../ops/extent.h"
#include "../ops/region_text.h"
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif

#include "common.h"
#include "packs.h"
#include "region_texts.h"
#include "windows_case.h"

/* ---- Numbers ---- */

/* Returns random bits, or a number that ops and conversions treat specially. */
static uint64_t random_number(struct dice *dice, DLDataType type) {
    static const double edges[] = {0,     1,      -1,         0.5,   2.5,
                                   3.5,   -0.5,   127.5,      32768, -2147483648.,
                                   1e-7,  65504,  65520,      1e-40, 9007199254740993.,
                                   1e300, 0x1p31, 4294967295.};
    uint64_t bits = dice_bits(dice);
    if (type.code == KVMILL_DL_BOOL)
        return bits & 1;
    if (kvmill_kind_of(type) == KVMILL_FLOAT && !dice_once_in(dice, 4)) {
        double value = (double)dice_range(dice, -4000, 4000) / 16;
        if (dice_once_in(dice, 3)) /* many equal numbers */
            value = (double)dice_range(dice, 0, 2);
        if (dice_once_in(dice, 3))
            value = edges[dice_range(dice, 0, sizeof edges / sizeof *edges - 1)];
        return kvmill_bits_of(type, dice_once_in(dice, 2) ? value : -value);
    }
    if (kvmill_kind_of(type) != KVMILL_FLOAT && !dice_once_in(dice, 3))
        bits = (uint64_t)(dice_once_in(dice, 5) ? type.bits /* a shift by all bits */
                                                : dice_range(dice, -9, 70));
    return type.bits >= 64 ? bits : bits & (((uint64_t)1 << type.bits) - 1);
}

static void fill(struct dice *dice, const struct fenced_tensor *tensor) {
    DLDataType type = tensor->dl.dtype;
    int64_t bytes = kvmill_element_bytes(type);
    for (size_t at = 0; at + (size_t)bytes <= tensor->fence.size; at += (size_t)bytes)
        kvmill_scalar_store(type, (struct kvmill_scalar){{random_number(dice, type), 0}},
                            tensor->fence.data + at);
}

/* Valgrind 3.19 computes +0 for a fused product of zeros with any signs. */
static bool is_zero_of_valgrind(DLDataType type, const unsigned char *x, const unsigned char *y) {
#if __has_include(<valgrind/valgrind.h>)
    return RUNNING_ON_VALGRIND && kvmill_kind_of(type) == KVMILL_FLOAT &&
           kvmill_float_of(type, kvmill_scalar_load(type, x).word[0]) == 0 &&
           kvmill_float_of(type, kvmill_scalar_load(type, y).word[0]) == 0;
#else
    (void)type, (void)x, (void)y;
    return false;
#endif
}

static bool are_same(const struct fenced_tensor *a, const struct fenced_tensor *b) {
    DLDataType type = a->dl.dtype;
    int64_t bytes = kvmill_element_bytes(type);
    for (size_t at = 0; at + (size_t)bytes <= a->fence.size; at += (size_t)bytes) {
        const unsigned char *x = a->fence.data + at, *y = b->fence.data + at;
        if (!is_same_element(type, x, y) && !is_zero_of_valgrind(type, x, y))
            return diag("%s: %#llx, portable %#llx", kvmill_element_word(type),
                        (unsigned long long)kvmill_scalar_load(type, x).word[0],
                        (unsigned long long)kvmill_scalar_load(type, y).word[0]);
    }
    return true;
}

/* ---- A problem ---- */

enum { REGION_SLOTS = 4, MOST_COMPONENTS = 3 };

struct problem {
    struct read_region region;
    struct geometry g;
    bool in_place, is_dense;
    int captures;
    struct fenced_tensor input[REGION_SLOTS], update[REGION_SLOTS], result[2][REGION_SLOTS];
    struct fenced_tensor capture[KVMILL_MOST_CAPTURES], indices;
    const DLTensor *inputs[REGION_SLOTS], *updates[REGION_SLOTS], *results[REGION_SLOTS];
    const DLTensor *tensors[3 * REGION_SLOTS + 1 + KVMILL_MOST_CAPTURES];
    kvmill_scatter op;
};

/* Chooses the sizes of [points] or [points, row] into [dim] * components or [dim] * components,
   row; sometimes so large that threads share the run. */
static void choose_sizes(struct dice *dice, struct geometry *g,
                         const struct kvmill_scatter_region_shape *shape) {
    bool large = dice_once_in(dice, 4);
    *g = (struct geometry){.components = shape->components,
                           .rank = shape->components,
                           .windows = shape->row != 1,
                           .windowed_rank = 1 + (shape->row != 1),
                           .indices_rank = 2,
                           .ivd = 1};
    for (int d = 0; d < g->rank; d++) {
        g->dims[d] = dice_range(dice, 1, 7);
        g->map[d] = g->dropped[d] = d;
    }
    if (g->rank == 0 && g->windows == 0) /* scatters need an element */
        g->dims[g->rank++] = 1;
    g->droppeds = g->rank;
    g->indices_dims[0] = g->windowed_dims[0] =
        large ? dice_range(dice, 300, 900) : dice_range(dice, 0, 30);
    g->indices_dims[1] = g->components;
    if (g->windows > 0) {
        g->dims[g->rank++] = large ? dice_range(dice, 200, 400) : dice_range(dice, 2, 75);
        g->windowed_dims[1] = dice_range(dice, large ? 150 : 2, g->dims[g->rank - 1]);
        g->window[0] = 1;
    }
}

static void choose_indices(struct dice *dice, struct problem *it) {
    DLDataType type = it->indices.dl.dtype;
    int64_t bytes = kvmill_element_bytes(type);
    for (int64_t i = 0; i < it->g.indices_dims[0] * it->g.indices_dims[1]; i++) {
        int64_t value = dice_range(dice, -2, 8);
        memcpy(it->indices.fence.data + i * bytes, &value, (size_t)bytes);
    }
}

/* Lists the tensors of a run: `which` is the portable kernel's results or the other ones. */
static void list_tensors(struct problem *it, int which) {
    int at = 0, slots = it->region.slots;
    for (int i = 0; i < slots; i++)
        it->tensors[at++] = it->in_place ? &it->result[which][i].dl : &it->input[i].dl;
    it->tensors[at++] = &it->indices.dl;
    for (int i = 0; i < slots; i++)
        it->tensors[at++] = &it->update[i].dl;
    for (int i = 0; i < slots; i++)
        it->tensors[at++] = &it->result[which][i].dl;
    for (int i = 0; i < it->captures; i++)
        it->tensors[at++] = &it->capture[i].dl;
}

static bool converts(const struct read_region *region) {
    for (int i = 0; i < region->slots; i++)
        if (!kvmill_element_equal(&region->result[i], &region->update[i]))
            return true;
    return false;
}

static void open_copy(struct dice *dice, const struct fenced_tensor *tensor,
                      struct fenced_tensor *copy) {
    struct fenced_tensor bytes = *tensor;
    bytes.dl.dtype =
        (DLDataType){kDLUInt, (uint8_t)(8 * kvmill_element_bytes(tensor->dl.dtype)), 1};
    tensor_open_copy(copy, &bytes, dice);
    copy->dl.dtype = tensor->dl.dtype;
}

static void open_slot(struct dice *dice, struct problem *it, int i) {
    const struct geometry *g = &it->g;
    DLDataType from = it->region.update[i].dtype, to = it->region.result[i].dtype;
    struct fenced_tensor *result = it->result[0], *other = it->result[1];
    open_elements(dice, from, g->rank, g->dims, it->is_dense, &it->input[i]);
    open_elements(dice, from, g->windowed_rank, g->windowed_dims, it->is_dense, &it->update[i]);
    open_elements(dice, to, g->rank, g->dims, it->is_dense, &result[i]);
    fill(dice, &it->input[i]);
    fill(dice, &it->update[i]);
    fill(dice, &result[i]);
    open_copy(dice, &result[i], &other[i]);
    it->inputs[i] = &it->input[i].dl;
    it->updates[i] = &it->update[i].dl;
    it->results[i] = &result[i].dl;
}

/* Returns a capture's type; any type if the region does not use it. */
static kvmill_element_type capture_type(const struct problem *it, int i) {
    static const kvmill_element_type f32 = {.dtype = {kDLFloat, 32, 1}};
    return it->region.capture[i].dtype.bits ? it->region.capture[i] : f32;
}

/* Opens a problem of it->g. */
static void open_problem(struct dice *dice, struct problem *it,
                         const struct kvmill_scatter_region_shape *shape, bool is_dense) {
    DLDataType index = {(uint8_t)shape->index_code, (uint8_t)shape->index_bits, 1};
    read_region(shape->program, &it->region);
    it->is_dense = is_dense;
    it->in_place = !converts(&it->region) && dice_once_in(dice, 3);
    it->captures = (int)it->region.region.capture_count;
    for (int i = 0; i < it->region.slots; i++)
        open_slot(dice, it, i);
    for (int i = 0; i < it->captures; i++) {
        open_elements(dice, capture_type(it, i).dtype, 0, NULL, true, &it->capture[i]);
        fill(dice, &it->capture[i]);
    }
    open_elements(dice, index, 2, it->g.indices_dims, true, &it->indices);
    choose_indices(dice, it);
}

static void close_problem(struct problem *it) {
    tensors_close(it->input, it->region.slots);
    tensors_close(it->update, it->region.slots);
    tensors_close(it->result[0], it->region.slots);
    tensors_close(it->result[1], it->region.slots);
    tensors_close(it->capture, it->captures);
    tensor_close(&it->indices);
}

static void set_op(struct dice *dice, struct problem *it) {
    it->op = scatter_of_geometry(&it->g);
    it->op.window_out_of_bounds = dice_once_in(dice, 4) ? "skip_window" : NULL;
    it->op.region = &it->region.region;
    it->op.count = (size_t)it->region.slots;
    it->op.inputs = it->inputs;
    it->op.updates = it->updates;
    it->op.scatter_indices = &it->indices.dl;
    it->op.results = it->results;
    saw("skip_window", it->op.window_out_of_bounds != NULL);
    saw("results in place", it->in_place);
}

/* ---- The portable kernel and the tested one ---- */

/* Plans and runs; the plan must take the kernel `symbol`. */
static bool run(struct dice *dice, struct problem *it, const kvmill_plan_options *options,
                const char *symbol) {
    kvmill_plan *plan;
    kvmill_error error = {""};
    bool planned = kvmill_plan_scatter(&it->op, options, &plan, &error) == KVMILL_OK;
    bool taken = planned && plan_says(plan, symbol);
    if (!taken)
        diag("%s%s", error.message, plan_text(plan));
    return planned && run_windows(dice, plan, it->tensors, false) && taken;
}

/* Runs with the portable kernel, and as `options` say. */
static bool is_as_portable(struct dice *dice, struct problem *it,
                           const kvmill_plan_options *options, const char *words) {
    const kvmill_plan_options none = {.struct_size = sizeof none, .portable = true};
    int64_t where;
    set_op(dice, it);
    list_tensors(it, 1);
    bool right = run(dice, it, &none, "the portable kernel");
    list_tensors(it, 0);
    right = right && run(dice, it, options, words);
    for (int i = 0; right && i < it->region.slots; i++)
        right = are_same(&it->result[0][i], &it->result[1][i]) &&
                fence_is_intact(&it->result[0][i].fence, &where);
    return right;
}

static bool is_right(struct dice *dice, struct problem *it, const struct kvmill_kernel *kernel) {
    struct one_kernel one;
    return is_as_portable(dice, it, one_kernel(&one, kernel), kernel->symbol);
}

static void walk_kernel(const struct kvmill_kernel *kernel, int cases) {
    const struct kvmill_scatter_region_shape *shape = kernel->shape;
    struct dice dice = dice_for_kernel(kernel);
    FREED struct problem *it = malloc(sizeof *it);
    bool right = it != NULL;
    fence_explain_traps(kernel->symbol);
    for (int i = 0; right && i < cases; i++) {
        choose_sizes(&dice, &it->g, shape);
        open_problem(&dice, it, shape, false);
        right = is_right(&dice, it, kernel);
        close_problem(it);
    }
    kernel_ran(kernel);
    if (!ok(right, "%s", kernel->symbol))
        diag("%s", shape->program);
}

/* ---- Inputs of another type than results, converted in several parts ---- */

enum { CONVERTED = 300000 }; /* elements: in three parts and more */

static void test_conversion(const struct kvmill_kernel *kernel) {
    const struct kvmill_scatter_region_shape *shape = kernel->shape;
    struct dice dice = dice_for_kernel(kernel);
    FREED struct problem *it = malloc(sizeof *it);
    choose_sizes(&dice, &it->g, shape);
    it->g.dims[0] = 1;
    it->g.dims[0] = 1 + CONVERTED / kvmill_count_of(it->g.dims, it->g.rank);
    open_problem(&dice, it, shape, true);
    ok(is_as_portable(&dice, it, &two_threads[1], "copy with kvmill_scatter_region"),
       "%s: inputs in parts", kernel->symbol);
    close_problem(it);
}

static const struct kvmill_kernel *kernel_that_converts(const kvmill_pack *pack) {
    static struct read_region region;
    for (uint32_t i = 0; i < pack->count; i++) {
        const struct kvmill_kernel *kernel = pack->kernels[i];
        if (kernel->family != KVMILL_SCATTER_REGION || !isa_is_allowed(kernel->isa))
            continue;
        read_region(((const struct kvmill_scatter_region_shape *)kernel->shape)->program, &region);
        if (converts(&region))
            return kernel;
    }
    return NULL;
}

TEST(conversions) {
    const struct kvmill_kernel *kernel = kernel_that_converts(&kvmill_pack_kvmill_test);
    if (ok(kernel != NULL, "a kernel with results of another type"))
        test_conversion(kernel);
}

/* ---- Plans that take a kernel ---- */

/* A kernel does not fit another program with the same symbol: plans compare texts, not their
   hashes. */
static void test_other_program(const struct kvmill_kernel *kernel) {
    struct kvmill_scatter_region_shape shape =
        *(const struct kvmill_scatter_region_shape *)kernel->shape;
    struct kvmill_kernel other = *kernel;
    struct dice dice = dice_for_kernel(kernel);
    FREED struct problem *it = malloc(sizeof *it);
    struct one_kernel one;
    choose_sizes(&dice, &it->g, &shape);
    open_problem(&dice, it, &shape, false);
    set_op(&dice, it);
    list_tensors(it, 0);
    shape.program = "slot f32 f32; return u0";
    other.shape = &shape;
    ok(run(&dice, it, one_kernel(&one, &other),
           "the portable kernel (no pack has a kernel of this shape)"),
       "a kernel with the symbol, but another program, is not taken");
    close_problem(it);
}

/* ---- Regions as text ---- */

/* NAME PROGRAM UPDATE TEXT: the text of a region for updates of this type, or why it has no
   kernel. */
static void expect_text(char *const *cells, bool is_made) {
    static struct read_region given;
    struct kvmill_program program;
    struct kvmill_region_text text;
    kvmill_element_type update = {.dtype = {0}};
    kvmill_error error;
    read_region(cells[1], &given);
    must(kvmill_element_by_word(cells[2], strlen(cells[2]), &update.dtype), cells[2]);
    must(kvmill_program_make(&given.region, 1, &program, &error) == KVMILL_OK, error.message);
    bool made = kvmill_region_text_make(&program, &update, &text);
    ok_text(made == is_made ? text.text : "otherwise", cells[3], "%s", cells[0]);
}

ROWS(text, 4) {
    expect_text(cells, true);
}

ROWS(no_kernel, 4) {
    expect_text(cells, false);
}

TABLE(region_texts);

/* ---- All kernels ---- */

static const struct kvmill_kernel *walk_pack(const kvmill_pack *pack, int cases) {
    const struct kvmill_kernel *found = NULL;
    for (uint32_t i = 0; i < pack->count; i++) {
        const struct kvmill_kernel *kernel = pack->kernels[i];
        if (kernel->family != KVMILL_SCATTER_REGION || !isa_is_allowed(kernel->isa))
            continue;
        walk_kernel(kernel, cases);
        found = kernel;
    }
    return found;
}

TEST(regions) {
    const char *path = getenv("KVMILL_REGIONS_PACK");
    if (path != NULL) {
        ok(walk_pack(loaded_pack(path, "kvmill_pack_regions"), 24) != NULL, "kernels by regions");
        return;
    }
    bool has_threads = getenv("KVMILL_TEST_THREADS") != NULL;
    int cases = !is_slow_run() ? 120 : has_threads ? 16 : few_cases(16);
    walk_pack(&kvmill_pack_kvmill_default, cases);
    const struct kvmill_kernel *last = walk_pack(&kvmill_pack_kvmill_test, cases);
    if (ok(last != NULL, "kernels by regions"))
        test_other_program(last);
    expect_seen("results in place; strides; skip_window");
    if (!is_slowest_run() || has_threads)
        expect_seen("several parts");
}

int main(int count, char **words) {
    struct dice dice = dice_for("regions");
    if (count == 2)
        print_random_regions(&dice, atoi(words[1]));
    return count == 2 ? 0 : run_tests(words + 1);
}
