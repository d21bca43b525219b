/* stablehlo.gather and stablehlo.scatter through the public interface against two oracles, bit for
   bit: random geometry, index types, strides, combiners; serially and in shuffled parts.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "oracle/combiners.h"
#include "oracle/windows.h"
#include "packs.h"
#include "walk.h"
#include "windows_case.h"
#include "windows_pack.h"

static uint64_t seed;

static kvmill_dims list(const int64_t *items, int count) {
    return (kvmill_dims){items, (size_t)count};
}

/* ---- Gather ---- */

static const DLDataType copied_types[] = {
    {KVMILL_DL_BOOL, 8, 1}, {kDLUInt, 4, 1},   {KVMILL_DL_FLOAT6_E2M3FN, 6, 1},
    {kDLInt, 16, 1},        {kDLFloat, 32, 1}, {kDLFloat, 64, 1},
    {kDLComplex, 128, 1},
};

struct gathering {
    struct geometry g;
    DLDataType type, index_type;
    struct pair operand, indices, result;
    unsigned char fill[16];
    const DLTensor *tensors[3];
    kvmill_gather op;
};

static void open_gathering(struct dice *dice, struct gathering *it) {
    const struct geometry *g = &it->g;
    open_pair(dice, it->type, g->rank, g->dims, &it->operand);
    open_pair(dice, it->index_type, g->indices_rank, g->indices_dims, &it->indices);
    open_pair(dice, it->type, g->windowed_rank, g->windowed_dims, &it->result);
    random_bytes(dice, &it->operand);
    fill_indices(dice, g, it->index_type, &it->indices);
    put_pair(&it->operand);
    put_pair(&it->indices);
    for (int i = 0; i < 16; i++)
        it->fill[i] = (unsigned char)dice_bits(dice);
}

static void close_gathering(struct gathering *it) {
    close_pair(&it->operand);
    close_pair(&it->indices);
    close_pair(&it->result);
}

static void set_gather(struct dice *dice, struct gathering *it) {
    const struct geometry *g = &it->g;
    it->op = (kvmill_gather){
        .struct_size = sizeof it->op,
        .offset_dims = list(g->window, g->windows),
        .collapsed_slice_dims = list(g->dropped, g->droppeds),
        .operand_batching_dims = list(g->batching, g->pairs),
        .start_indices_batching_dims = list(g->indices_batching, g->pairs),
        .start_index_map = list(g->map, g->components),
        .slice_sizes = list(g->slice, g->rank),
        .index_vector_dim = g->ivd,
        .indices_are_sorted = dice_once_in(dice, 4),
        .fill_value = it->fill,
        .operand = it->tensors[0] = &it->operand.fenced.dl,
        .start_indices = it->tensors[1] = &it->indices.fenced.dl,
        .result = it->tensors[2] = &it->result.fenced.dl,
    };
    it->op.mode = dice_once_in(dice, 3) ? "fill" : NULL;
    seen.gathers++;
    seen.filled += it->op.mode != NULL;
    seen.empty += it->result.count == 0;
}

static bool run_gathering(struct dice *dice, struct gathering *it) {
    kvmill_plan *plan;
    kvmill_error error;
    windows_tell_gather(&it->op);
    if (kvmill_plan_gather(&it->op, windows_options(), &plan, &error) == KVMILL_OK) {
        windows_count(plan);
        return run_windows(dice, plan, it->tensors, NULL);
    }
    diag("%s", error.message);
    return false;
}

static bool gathers_right(struct dice *dice, bool large) {
    struct gathering it;
    make_geometry(dice, large, true, &it.g);
    it.type = copied_types[dice_range(dice, 0, 6)];
    it.index_type = random_index_type(dice);
    open_gathering(dice, &it);
    set_gather(dice, &it);
    bool right = run_gathering(dice, &it);
    for (int form = 0; right && form < ORACLE_FORMS; form++) {
        oracle_gather((enum oracle_form)form, &it.op, it.operand.dense, it.indices.dense,
                      it.result.dense);
        right = is_as_dense(&it.result, it.type);
    }
    close_gathering(&it);
    return right;
}

/* ---- Scatter ---- */

static const DLDataType numbers[] = {
    {kDLInt, 8, 1},    {kDLInt, 16, 1},    {kDLInt, 32, 1},   {kDLInt, 64, 1},
    {kDLUInt, 8, 1},   {kDLUInt, 16, 1},   {kDLUInt, 32, 1},  {kDLUInt, 64, 1},
    {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 32, 1}, {kDLFloat, 64, 1},
};

static struct combiner choose_combiner(struct dice *dice) {
    struct combiner combiner = {numbers[dice_range(dice, 0, 11)],
                                (enum operation)dice_range(dice, 0, OPERATIONS - 1)};
    bool is_float = combiner.type.code == kDLFloat || combiner.type.code == kDLBfloat;
    if (is_float && combiner.operation >= AND)
        combiner.operation = MAXIMUM;
    if (combiner.operation == REPLACE)
        combiner.type = copied_types[dice_range(dice, 0, 6)];
    return combiner;
}

/* ---- Several inputs: a region makes each of what the others were before ---- */

enum { MOST_SLOTS = 3 };

static const float factor = 0.75f;

/* The sum takes the other's update; where the update was larger the second follows; the third is
 * scaled. */
static void combine_three(void *context, unsigned char *const *accumulators,
                          const unsigned char *const *updates) {
    int32_t sum, largest;
    int8_t kept, given;
    float scaled, more;
    (void)context;
    memcpy(&sum, accumulators[0], sizeof sum);
    memcpy(&kept, accumulators[1], sizeof kept);
    memcpy(&scaled, accumulators[2], sizeof scaled);
    memcpy(&largest, updates[0], sizeof largest);
    memcpy(&given, updates[1], sizeof given);
    memcpy(&more, updates[2], sizeof more);
    kept = sum < largest ? given : kept;
    sum = (int32_t)((uint32_t)sum + (uint32_t)given);
    scaled = scaled * factor;
    scaled = scaled + more;
    memcpy(accumulators[0], &sum, sizeof sum);
    memcpy(accumulators[1], &kept, sizeof kept);
    memcpy(accumulators[2], &scaled, sizeof scaled);
}

/* The same as StableHLO has it.  Values: six arguments, then ops. */
static const kvmill_element_type three_types[] = {
    {.dtype = {kDLInt, 32, 1}}, {.dtype = {kDLInt, 8, 1}}, {.dtype = {kDLFloat, 32, 1}},
    {.dtype = {kDLInt, 32, 1}}, {.dtype = {kDLInt, 8, 1}}, {.dtype = {kDLFloat, 32, 1}}};
static const kvmill_region_op three_ops[] = {
    {.name = "convert", .element = {.dtype = {kDLInt, 32, 1}}, .operands = {4}},
    {.name = "add", .element = {.dtype = {kDLInt, 32, 1}}, .operands = {0, 6}},
    {.name = "compare",
     .element = {.dtype = {KVMILL_DL_BOOL, 8, 1}},
     .operands = {0, 3},
     .comparison_direction = "LT"},
    {.name = "select", .element = {.dtype = {kDLInt, 8, 1}}, .operands = {8, 4, 1}},
    {.name = "capture", .element = {.dtype = {kDLFloat, 32, 1}}},
    {.name = "multiply", .element = {.dtype = {kDLFloat, 32, 1}}, .operands = {2, 10}},
    {.name = "add", .element = {.dtype = {kDLFloat, 32, 1}}, .operands = {11, 5}},
};
static const int32_t three_returned[] = {7, 9, 12};
static const kvmill_region three_region = {.arguments = three_types,
                                           .ops = three_ops,
                                           .op_count = COUNT(three_ops),
                                           .results = three_returned,
                                           .capture_count = 1};

/* Bytes are replaced, nibbles are multiplied: each has a kernel. */
static void combine_two(void *context, unsigned char *const *accumulators,
                        const unsigned char *const *updates) {
    static const struct combiner of_bytes = {{kDLInt, 8, 1}, REPLACE},
                                 of_nibbles = {{kDLUInt, 4, 1}, MULTIPLY};
    (void)context;
    oracle_combine_elements((void *)(uintptr_t)&of_bytes, accumulators, updates);
    oracle_combine_elements((void *)(uintptr_t)&of_nibbles, accumulators + 1, updates + 1);
}

static const kvmill_element_type two_types[] = {{.dtype = {kDLInt, 8, 1}},
                                                {.dtype = {kDLUInt, 4, 1}},
                                                {.dtype = {kDLInt, 8, 1}},
                                                {.dtype = {kDLUInt, 4, 1}}};
static const kvmill_region_op two_ops[] = {
    {.name = "multiply", .element = {.dtype = {kDLUInt, 4, 1}}, .operands = {3, 1}}};
static const int32_t two_returned[] = {2, 4};
static const kvmill_region two_region = {
    .arguments = two_types, .ops = two_ops, .op_count = 1, .results = two_returned};

static const struct joint {
    int slots;
    const kvmill_region *region;
    oracle_combine combine;
} joints[] = {{3, &three_region, combine_three}, {2, &two_region, combine_two}};

/* Numbers of moderate size, so that sums are not all infinite; and now and then any bits. */
static void random_numbers(struct dice *dice, DLDataType type, struct pair *pair) {
    bool is_float = (type.code == kDLFloat || type.code == kDLBfloat) && type.bits >= 16;
    random_bytes(dice, pair);
    for (int64_t i = 0; i < pair->count; i++) {
        double value = (double)dice_range(dice, -1000, 1000) / 16;
        if (dice_once_in(dice, 4))
            value = dice_once_in(dice, 2) ? 0.0 : -0.0;
        if (is_float && !dice_once_in(dice, 8))
            oracle_put_float(type, pair->dense + i * pair->bytes, value);
    }
}

struct scattering {
    struct geometry g;
    const struct joint *joint; /* or NULL: one input, and the combiner */
    struct combiner combiner;
    DLDataType index_type;
    bool in_place;
    int slots;
    struct pair input[MOST_SLOTS], update[MOST_SLOTS], result[MOST_SLOTS], indices;
    const DLTensor *inputs[MOST_SLOTS], *updates[MOST_SLOTS], *tensors[3 * MOST_SLOTS + 2];
    kvmill_scatter op;
};

static DLDataType type_of(const struct scattering *it, int slot) {
    return it->joint != NULL ? it->joint->region->arguments[slot].dtype : it->combiner.type;
}

static struct pair *output_of(struct scattering *it, int slot) {
    return it->in_place ? &it->input[slot] : &it->result[slot];
}

static void open_scattering(struct dice *dice, struct scattering *it) {
    const struct geometry *g = &it->g;
    it->slots = it->joint != NULL ? it->joint->slots : 1;
    for (int i = 0; i < it->slots; i++) {
        DLDataType type = type_of(it, i);
        open_pair(dice, type, g->rank, g->dims, &it->input[i]);
        open_pair(dice, type, g->windowed_rank, g->windowed_dims, &it->update[i]);
        open_pair(dice, type, g->rank, g->dims, &it->result[i]);
        random_numbers(dice, type, &it->input[i]);
        random_numbers(dice, type, &it->update[i]);
        put_pair(&it->input[i]);
        put_pair(&it->update[i]);
    }
    open_pair(dice, it->index_type, g->indices_rank, g->indices_dims, &it->indices);
    fill_indices(dice, g, it->index_type, &it->indices);
    put_pair(&it->indices);
}

static void close_scattering(struct scattering *it) {
    for (int i = 0; i < it->slots; i++) {
        close_pair(&it->input[i]);
        close_pair(&it->update[i]);
        close_pair(&it->result[i]);
    }
    close_pair(&it->indices);
}

/* Of these tensors, without the attributes that are drawn. */
static kvmill_scatter scatter_of(const struct scattering *it, const DLTensor *const *inputs,
                                 const DLTensor *indices, const DLTensor *const *updates) {
    const struct geometry *g = &it->g;
    return (kvmill_scatter){
        .struct_size = sizeof(kvmill_scatter),
        .update_window_dims = list(g->window, g->windows),
        .inserted_window_dims = list(g->dropped, g->droppeds),
        .input_batching_dims = list(g->batching, g->pairs),
        .scatter_indices_batching_dims = list(g->indices_batching, g->pairs),
        .scatter_dims_to_operand_dims = list(g->map, g->components),
        .index_vector_dim = g->ivd,
        .update_computation = it->joint == NULL ? operation_names[it->combiner.operation] : NULL,
        .region = it->joint != NULL ? it->joint->region : NULL,
        .count = it->joint != NULL ? (size_t)it->joint->slots : 1,
        .inputs = inputs,
        .updates = updates,
        .scatter_indices = indices,
    };
}

static void set_op(struct dice *dice, struct scattering *it) {
    static float captured = 0.75f;
    static const DLTensor capture = {
        .data = &captured, .device = {kDLCPU, 0}, .dtype = {kDLFloat, 32, 1}};
    int n = it->slots;
    for (int i = 0; i < n; i++) {
        it->tensors[i] = it->inputs[i] = &it->input[i].fenced.dl;
        it->tensors[n + 1 + i] = it->updates[i] = &it->update[i].fenced.dl;
        it->tensors[2 * n + 1 + i] = &output_of(it, i)->fenced.dl;
    }
    it->tensors[n] = &it->indices.fenced.dl;
    it->tensors[3 * n + 1] = &capture;
    it->op = scatter_of(it, it->inputs, it->tensors[n], it->updates);
    it->op.indices_are_sorted = dice_once_in(dice, 4);
    it->op.window_out_of_bounds = dice_once_in(dice, 3) ? "skip_window" : NULL;
    seen.scatters++;
    seen.in_place += it->in_place;
    seen.skipped += it->op.window_out_of_bounds != NULL;
}

static void protect(struct scattering *it, bool read_only) {
    for (int i = 0; i < it->slots; i++) {
        fence_protect(&it->update[i].fenced.fence, read_only);
        fence_protect(&it->input[i].fenced.fence, read_only && !it->in_place);
    }
}

static bool run_scattering(struct dice *dice, struct scattering *it,
                           const kvmill_plan_options *options) {
    char words[4096];
    kvmill_plan *plan;
    kvmill_error error;
    if (kvmill_plan_scatter(&it->op, options, &plan, &error) != KVMILL_OK) {
        diag("%s", error.message);
        return false;
    }
    kvmill_plan_describe(plan, words, sizeof words);
    seen.slot_kernels += it->joint != NULL && strstr(words, "apply with kvmill_scatter_") != NULL;
    protect(it, true);
    bool right =
        run_windows(dice, plan, it->tensors, it->joint != NULL ? &seen.region_parts : NULL);
    protect(it, false);
    return right;
}

static bool is_as_oracle_says(struct scattering *it, enum oracle_form form,
                              unsigned char *const *originals) {
    const unsigned char *updates[MOST_SLOTS];
    unsigned char *results[MOST_SLOTS];
    int64_t bytes[MOST_SLOTS];
    bool right = true;
    for (int i = 0; i < it->slots; i++) {
        const struct pair *input = &it->input[i];
        bytes[i] = input->bytes;
        updates[i] = it->update[i].dense;
        results[i] = output_of(it, i)->dense;
        memcpy(results[i], originals[i], (size_t)(input->count * input->bytes));
    }
    oracle_scatter(form, &it->op, it->indices.dense, updates, results, bytes,
                   it->joint != NULL ? it->joint->combine : oracle_combine_elements, &it->combiner);
    for (int i = 0; i < it->slots; i++)
        right = right && is_as_dense(output_of(it, i), type_of(it, i));
    return right;
}

static bool is_as_oracles_say(struct scattering *it) {
    unsigned char *originals[MOST_SLOTS];
    bool right = true;
    for (int i = 0; i < it->slots; i++) {
        size_t size = (size_t)(it->input[i].count * it->input[i].bytes);
        originals[i] = malloc(size + 1);
        memcpy(originals[i], it->input[i].dense, size);
    }
    for (int form = 0; right && form < ORACLE_FORMS; form++)
        right = is_as_oracle_says(it, (enum oracle_form)form, originals);
    for (int i = 0; i < it->slots; i++)
        free(originals[i]);
    return right;
}

/* Of tensors that are filled; they are closed. */
static bool applies_right(struct dice *dice, struct scattering *it,
                          const kvmill_plan_options *options) {
    set_op(dice, it);
    bool right = run_scattering(dice, it, options) && is_as_oracles_say(it);
    if (!right)
        diag("%s of %d bits, code %d", operation_names[it->combiner.operation],
             it->combiner.type.bits, it->combiner.type.code);
    close_scattering(it);
    return right;
}

static bool scatters_so(struct dice *dice, struct scattering *it,
                        const kvmill_plan_options *options) {
    open_scattering(dice, it);
    return applies_right(dice, it, options);
}

static bool scatters_with(struct dice *dice, bool large, const struct joint *joint,
                          const kvmill_plan_options *options) {
    struct scattering it = {.joint = joint};
    make_geometry(dice, large, false, &it.g);
    it.combiner = choose_combiner(dice);
    it.index_type = joint != NULL && dice_once_in(dice, 2) ? i32 : random_index_type(dice);
    it.in_place = dice_once_in(dice, 3);
    return scatters_so(dice, &it, options);
}

static const kvmill_plan_options with_packs = {
    .struct_size = sizeof with_packs, .packs = packs, .pack_count = PACKS};

static bool scatters_right(struct dice *dice, bool large) {
    return scatters_with(dice, large, NULL, NULL);
}

static bool packs_scatter_right(struct dice *dice, bool large) {
    return scatters_with(dice, large, NULL, &with_packs);
}

static bool joints_scatter_right(struct dice *dice, bool large) {
    const struct joint *joint = &joints[dice_range(dice, 0, 1)];
    return scatters_with(dice, large, joint, dice_once_in(dice, 2) ? &with_packs : NULL);
}

/* ---- Kernels of packs ---- */

/* A type that the kernel takes for its own. */
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

static DLTensor prototype(DLDataType type, int rank, int64_t *dims) {
    return (DLTensor){.device = {kDLCPU, 0}, .dtype = type, .ndim = rank, .shape = dims};
}

/* Plans of this geometry take the kernel, if there is no other. */
static bool is_taken(struct scattering *it, const kvmill_plan_options *options,
                     const struct kvmill_kernel *kernel) {
    DLTensor input = prototype(it->combiner.type, it->g.rank, it->g.dims);
    DLTensor indices = prototype(it->index_type, it->g.indices_rank, it->g.indices_dims);
    DLTensor update = prototype(it->combiner.type, it->g.windowed_rank, it->g.windowed_dims);
    const DLTensor *inputs[] = {&input}, *updates[] = {&update};
    kvmill_scatter op = scatter_of(it, inputs, &indices, updates);
    char words[4096];
    kvmill_plan *plan;
    kvmill_error error;
    if (kvmill_plan_scatter(&op, options, &plan, &error) != KVMILL_OK)
        return false;
    kvmill_plan_describe(plan, words, sizeof words);
    bool taken = strstr(words, kernel->symbol) != NULL;
    kvmill_plan_destroy(plan);
    return taken;
}

static struct scattering choose_for(struct dice *dice, const struct kvmill_scatter_shape *shape) {
    return (struct scattering){
        .combiner = {type_for(dice, shape), (enum operation)(shape->combiner - 1)},
        .index_type = {(uint8_t)shape->index_code, (uint8_t)shape->index_bits, 1},
        .in_place = dice_once_in(dice, 3)};
}

static bool kernel_scatters_right(struct dice *dice, const struct kvmill_kernel *kernel) {
    const kvmill_pack pack = {
        .abi = KVMILL_KERNEL_ABI, .count = 1, .name = "one", .kernels = &kernel, .manifest = ""};
    const kvmill_pack *const one[] = {&pack};
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = one, .pack_count = 1};
    const struct kvmill_scatter_shape *shape = kernel->shape;
    struct scattering it = choose_for(dice, shape);
    do
        make_geometry(dice, false, false, &it.g);
    while (it.g.components != shape->components || !is_taken(&it, &options, kernel));
    return scatters_so(dice, &it, &options);
}

/* Columns that follow each other except for jumps back, ahead and out, and some that are left out.
 */
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
    const kvmill_pack pack = {
        .abi = KVMILL_KERNEL_ABI, .count = 1, .name = "one", .kernels = &kernel, .manifest = ""};
    const kvmill_pack *const one[] = {&pack};
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = one, .pack_count = 1};
    struct scattering it = choose_for(dice, kernel->shape);
    make_repeated(dice, &it.g);
    open_scattering(dice, &it);
    fill_repeated(dice, &it);
    return applies_right(dice, &it, &options);
}

static bool is_repeating(const struct kvmill_kernel *kernel) {
    const struct kvmill_scatter_shape *shape = kernel->shape;
    return shape->row == 1 && shape->components == 1 && shape->index_bits >= 8;
}

static void walk_kernel(const struct kvmill_kernel *kernel, int cases) {
    struct dice dice = dice_for_kernel(seed, kernel);
    bool right = true;
    fence_explain_traps(kernel->symbol);
    for (int i = 0; right && i < cases; i++)
        right = kernel_scatters_right(&dice, kernel) &&
                (!is_repeating(kernel) || kernel_repeats_right(&dice, kernel));
    ok(right, "%s", kernel->symbol);
}

static void walk_kernels(int cases) {
    int64_t kernels = 0;
    for (int p = 0; p < PACKS; p++)
        for (uint32_t i = 0; i < packs[p]->count; i++) {
            const struct kvmill_kernel *kernel = packs[p]->kernels[i];
            if (kernel->family != KVMILL_SCATTER || !isa_is_allowed(kernel->isa))
                continue;
            walk_kernel(kernel, cases);
            kernels++;
        }
    ok(kernels > 0, "%" PRId64 " kernels that scatter", kernels);
}

/* ---- Indices that are promised to be unique ---- */

enum { MANY = 200000 };

struct permutation {
    int64_t order[MANY], extent[1], vectors[2];
    float input[MANY], update[MANY], result[MANY];
};

static bool is_permuted(const struct permutation *it) {
    for (int i = 0; i < MANY; i++)
        if (it->result[it->order[i]] != it->input[it->order[i]] + it->update[i])
            return false;
    return true;
}

/* Parts of the run, or 0 where it is wrong. */
static int64_t parts_of_permutation(struct dice *dice, struct permutation *it, bool unique) {
    static const int64_t axis_0[] = {0};
    static const DLDataType f32 = {kDLFloat, 32, 1}, i64 = {kDLInt, 64, 1};
    DLTensor input = prototype(f32, 1, it->extent), result = input, update = input;
    DLTensor indices = prototype(i64, 2, it->vectors);
    const DLTensor *inputs[] = {&input}, *updates[] = {&update};
    const DLTensor *tensors[] = {&input, &indices, &update, &result};
    const kvmill_scatter op = {.struct_size = sizeof op,
                               .inserted_window_dims = {axis_0, 1},
                               .scatter_dims_to_operand_dims = {axis_0, 1},
                               .index_vector_dim = 1,
                               .unique_indices = unique,
                               .update_computation = "add",
                               .count = 1,
                               .inputs = inputs,
                               .updates = updates,
                               .scatter_indices = &indices};
    const char *parts;
    char words[4096];
    kvmill_plan *plan;
    kvmill_error error;
    input.data = it->input;
    result.data = it->result;
    update.data = it->update;
    indices.data = it->order;
    if (kvmill_plan_scatter(&op, windows_options(), &plan, &error) != KVMILL_OK)
        return 0;
    kvmill_plan_describe(plan, words, sizeof words);
    parts = strstr(words, "up to ");
    return run_windows(dice, plan, tensors, NULL) && parts != NULL && is_permuted(it)
               ? atoll(parts + 6)
               : 0;
}

static void test_unique(void) {
    struct dice dice = dice_for(seed, "unique");
    struct permutation *it = malloc(sizeof *it);
    *it->extent = it->vectors[0] = MANY;
    it->vectors[1] = 1;
    dice_order(&dice, it->order, MANY);
    for (int i = 0; i < MANY; i++) {
        it->input[i] = (float)dice_range(&dice, -1000, 1000);
        it->update[i] = (float)dice_range(&dice, -1000, 1000);
    }
    int64_t few = parts_of_permutation(&dice, it, false);
    int64_t many = parts_of_permutation(&dice, it, true);
    ok(few == 1 && many > 2,
       "points in %" PRId64 " parts, and in %" PRId64 " where indices are unique", few, many);
    free(it);
}

/* ---- All of it ---- */

static void walk(const char *name, bool (*is_right)(struct dice *, bool), int cases, bool large) {
    int wrong = 0;
    for (int i = 0; i < cases && wrong < 3; i++) {
        char words[64];
        snprintf(words, sizeof words, "%s %d %d", name, large, i);
        struct dice dice = dice_for(seed, words);
        fence_explain_traps(words);
        if (!is_right(&dice, large)) {
            diag("case \"%s\"", words);
            wrong++;
        }
    }
    ok(wrong == 0, "%d random %s, %s", cases, name, large ? "large" : "small");
}

static void check_seen(void) {
    const struct {
        const char *name;
        int64_t count;
    } ways[] = {
        {"batching pairs", seen.pairs},
        {"several of them", seen.many_pairs},
        {"unsorted ones", seen.unsorted_pairs},
        {"index vectors not last", seen.inner_vector},
        {"implicit ones", seen.implicit},
        {"empty ones", seen.no_components},
        {"window axes not last", seen.transposed},
        {"strides", seen.strided},
        {"several parts", seen.many_parts},
        {"in place", seen.in_place},
        {"skip_window", seen.skipped},
        {"fill", seen.filled},
        {"extreme indices", seen.extreme},
        {"empty results", seen.empty},
        {"several inputs, a kernel each", seen.slot_kernels},
        {"several inputs in several parts", seen.region_parts - 1},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        ok(ways[i].count > 0, "cases with %s: %" PRId64, ways[i].name, ways[i].count);
}

int main(void) {
    int cases = windows_cases(is_slow_run() ? few_cases(700) : 4000);
    int large_cases = windows_cases(is_slow_run() ? few_cases(64) : 240) / 4;
    seed = dice_seed();
    walk("gather", gathers_right, cases, false);
    walk("scatter", scatters_right, cases, false);
    walk("gather", gathers_right, large_cases, true);
    walk("scatter", scatters_right, large_cases, true);
    if (windows_options() != NULL) {
        ok(windows_counted() > cases / 2, "kernels were made for them: %" PRId64,
           windows_counted());
        return done_testing();
    }
    walk("scatter with packs", packs_scatter_right, cases / 2, false);
    walk("scatter with packs", packs_scatter_right, large_cases, true);
    walk("scatter of several inputs", joints_scatter_right, cases / 8, false);
    walk("scatter of several inputs", joints_scatter_right, large_cases / 2, true);
    walk_kernels(is_slow_run() ? few_cases(12) : 24);
    test_unique();
    if (windows_cases(0) == 0) /* a few need not be of all kinds */
        check_seen();
    return done_testing();
}
