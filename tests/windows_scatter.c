/* SPDX-License-Identifier: Apache-2.0 */
#include "windows_case.h"

#include "common.h"

const DLDataType copied_types[COPIED_TYPES] = {
    {KVMILL_DL_BOOL, 8, 1}, {kDLUInt, 4, 1},   {KVMILL_DL_FLOAT6_E2M3FN, 6, 1},
    {kDLInt, 16, 1},        {kDLFloat, 32, 1}, {kDLFloat, 64, 1},
    {kDLComplex, 128, 1},
};

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

/* ---- Several inputs: each result depends on the other inputs' previous values ---- */

static const float factor = 0.75f;

/* The sum adds the other's update; the second follows where the update was larger; the third is
   scaled. */
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

/* The same region as StableHLO ops.  Values: six arguments, then ops. */
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

/* Replaces bytes and multiplies nibbles: each has a kernel. */
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

const struct joint joints[JOINTS] = {{3, &three_region, combine_three},
                                     {2, &two_region, combine_two}};

/* Returns a number that uses all bits of its significand, so that sums of two numbers are often
   ties. */
static double random_half(struct dice *dice, DLDataType type) {
    int bits = type.code == kDLBfloat ? 8 : 11;
    int64_t significand = dice_range(dice, INT64_C(1) << (bits - 1), (INT64_C(1) << bits) - 1);
    double value = ldexp((double)significand, (int)dice_range(dice, -4, -2));
    return dice_once_in(dice, 2) ? value : -value;
}

/* Fills with numbers of moderate size, so that sums are mostly finite; sometimes with any bits. */
static void random_numbers(struct dice *dice, DLDataType type, struct pair *pair) {
    bool is_float = (type.code == kDLFloat || type.code == kDLBfloat) && type.bits >= 16;
    random_bytes(dice, pair);
    for (int64_t i = 0; i < pair->count; i++) {
        double value = is_float && type.bits == 16 ? random_half(dice, type)
                                                   : (double)dice_range(dice, -1000, 1000) / 16;
        if (dice_once_in(dice, 4))
            value = dice_once_in(dice, 2) ? 0.0 : -0.0;
        if (is_float && !dice_once_in(dice, 8))
            number_put(type, pair->dense + i * pair->bytes, value);
    }
}

static DLDataType type_of(const struct scattering *it, int slot) {
    return it->joint != NULL ? it->joint->region->arguments[slot].dtype : it->combiner.type;
}

static struct pair *output_of(struct scattering *it, int slot) {
    return it->in_place ? &it->input[slot] : &it->result[slot];
}

kvmill_scatter scatter_of(const struct scattering *it, const DLTensor *const *inputs,
                          const DLTensor *indices, const DLTensor *const *updates) {
    kvmill_scatter op = scatter_of_geometry(&it->g);
    op.update_computation = it->joint == NULL ? operation_names[it->combiner.operation] : NULL;
    op.region = it->joint != NULL ? it->joint->region : NULL;
    op.count = it->joint != NULL ? (size_t)it->joint->slots : 1;
    op.inputs = inputs;
    op.updates = updates;
    op.scatter_indices = indices;
    return op;
}

static void list_tensors(struct scattering *it) {
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
}

void open_scattering(struct dice *dice, struct scattering *it) {
    const struct geometry *g = &it->g;
    it->slots = it->joint != NULL ? it->joint->slots : 1;
    for (int i = 0; i < it->slots; i++) {
        DLDataType type = type_of(it, i);
        open_pair(dice, type, g->rank, g->dims, it->is_dense, &it->input[i]);
        open_pair(dice, type, g->windowed_rank, g->windowed_dims, it->is_dense, &it->update[i]);
        open_pair(dice, type, g->rank, g->dims, it->is_dense, &it->result[i]);
        random_numbers(dice, type, &it->input[i]);
        random_numbers(dice, type, &it->update[i]);
        put_pair(&it->input[i]);
        put_pair(&it->update[i]);
    }
    open_pair(dice, it->index_type, g->indices_rank, g->indices_dims, it->is_dense, &it->indices);
    fill_indices(dice, g, it->index_type, &it->indices);
    put_pair(&it->indices);
    list_tensors(it);
    it->op = scatter_of(it, it->inputs, it->tensors[it->slots], it->updates);
}

void close_scattering(struct scattering *it) {
    for (int i = 0; i < it->slots; i++) {
        close_pair(&it->input[i]);
        close_pair(&it->update[i]);
        close_pair(&it->result[i]);
    }
    close_pair(&it->indices);
}

static void set_op(struct dice *dice, struct scattering *it) {
    it->op.unique_indices = it->unique;
    it->op.indices_are_sorted = dice_once_in(dice, 4);
    it->op.window_out_of_bounds = dice_once_in(dice, 3) ? "skip_window" : NULL;
    saw("results in place", it->in_place);
    saw("skip_window", it->op.window_out_of_bounds != NULL);
}

static void protect(struct scattering *it, bool read_only) {
    for (int i = 0; i < it->slots; i++) {
        fence_protect(&it->update[i].fenced.fence, read_only);
        fence_protect(&it->input[i].fenced.fence, read_only && !it->in_place);
    }
}

static bool run_scattering(struct dice *dice, struct scattering *it,
                           const kvmill_plan_options *options) {
    kvmill_plan *plan;
    kvmill_error error;
    if (kvmill_plan_scatter(&it->op, options, &plan, &error) != KVMILL_OK)
        return diag("%s", error.message);
    saw("several inputs, a kernel each",
        it->joint != NULL && plan_says(plan, "apply with kvmill_scatter_"));
    const char *parts = strstr(plan_text(plan), "up to ");
    it->parts = parts != NULL ? atoll(parts + strlen("up to ")) : 0;
    protect(it, true);
    bool right = run_windows(dice, plan, it->tensors, it->joint != NULL);
    protect(it, false);
    return right;
}

void expect_scattering(struct scattering *it, enum oracle_form form,
                       unsigned char *const *originals) {
    const unsigned char *updates[MOST_SLOTS];
    unsigned char *results[MOST_SLOTS];
    int64_t bytes[MOST_SLOTS];
    for (int i = 0; i < it->slots; i++) {
        const struct pair *input = &it->input[i];
        bytes[i] = input->bytes;
        updates[i] = it->update[i].dense;
        results[i] = output_of(it, i)->dense;
        memcpy(results[i], originals[i], (size_t)(input->count * input->bytes));
    }
    oracle_scatter(form, &it->g, &it->op, it->indices.dense, updates, results, bytes,
                   it->joint != NULL ? it->joint->combine : oracle_combine_elements, &it->combiner);
}

static bool is_as_oracles_say(struct scattering *it) {
    unsigned char *originals[MOST_SLOTS];
    bool right = true;
    for (int i = 0; i < it->slots; i++) {
        size_t size = (size_t)(it->input[i].count * it->input[i].bytes);
        originals[i] = malloc(size + 1);
        memcpy(originals[i], it->input[i].dense, size);
    }
    for (int form = 0; right && form < ORACLE_FORMS; form++) {
        expect_scattering(it, (enum oracle_form)form, originals);
        for (int i = 0; i < it->slots; i++)
            right = right && is_as_dense(output_of(it, i), type_of(it, i));
    }
    for (int i = 0; i < it->slots; i++)
        free(originals[i]);
    return right;
}

bool applies_right(struct dice *dice, struct scattering *it, const kvmill_plan_options *options) {
    set_op(dice, it);
    bool right = run_scattering(dice, it, options) && is_as_oracles_say(it);
    if (!right)
        diag("%s of %d bits, code %d", operation_names[it->combiner.operation],
             it->combiner.type.bits, it->combiner.type.code);
    close_scattering(it);
    return right;
}

bool scatters_so(struct dice *dice, struct scattering *it, const kvmill_plan_options *options) {
    open_scattering(dice, it);
    return applies_right(dice, it, options);
}

bool scatters_with(struct dice *dice, bool large, const struct joint *joint,
                   const kvmill_plan_options *options) {
    struct scattering it = {.joint = joint};
    make_geometry(dice, large, false, &it.g);
    it.combiner = choose_combiner(dice);
    it.index_type = joint != NULL && dice_once_in(dice, 2) ? i32 : random_index_type(dice);
    it.in_place = dice_once_in(dice, 3);
    return scatters_so(dice, &it, options);
}
