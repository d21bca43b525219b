/* stablehlo.scatter of several inputs whose types differ, and whose region makes each of what the
   others were before: against both oracles, in any order of parts.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "fence.h"
#include "oracle/windows.h"
#include "tap.h"

enum { INPUTS = 3, TENSORS = 3 * INPUTS + 2 };

static const DLDataType i32 = {kDLInt, 32, 1}, i8 = {kDLInt, 8, 1}, f32 = {kDLFloat, 32, 1};
static const int64_t bytes_of[INPUTS] = {4, 1, 4};

static const float factor = 0.75f;

/* The sum takes the other's update; where the update was larger the second follows; the third is
 * scaled. */
static void combine(void *context, unsigned char *const *accumulators,
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
static const kvmill_element_type arguments[] = {
    {.dtype = {kDLInt, 32, 1}}, {.dtype = {kDLInt, 8, 1}}, {.dtype = {kDLFloat, 32, 1}},
    {.dtype = {kDLInt, 32, 1}}, {.dtype = {kDLInt, 8, 1}}, {.dtype = {kDLFloat, 32, 1}}};
static const kvmill_region_op ops[] = {
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
static const int32_t returned[INPUTS] = {7, 9, 12};
static const kvmill_region region = {.arguments = arguments,
                                     .ops = ops,
                                     .op_count = sizeof ops / sizeof *ops,
                                     .results = returned,
                                     .capture_count = 1};

/* ---- Geometry: rows of a batch, [batch, rows, columns], that take windows of columns ---- */

struct geometry {
    bool batched, window_first;
    int64_t inputs[3], indices[3], updates[3];
    int64_t map[2], inserted[1], window[1];
    int rank;
};

/* Large ones are split into parts. */
static void make_geometry(struct dice *dice, bool large, struct geometry *g) {
    int64_t rows = dice_range(dice, 1, 40), columns = dice_range(dice, 1, 60);
    int64_t points = large ? 3000 : dice_range(dice, 0, 300), width = dice_range(dice, 0, columns);
    g->batched = dice_once_in(dice, 2);
    g->window_first = dice_once_in(dice, 2);
    g->rank = 2 + g->batched;
    int64_t batch = dice_range(dice, 1, 4), *at = g->inputs;
    if (g->batched)
        *at++ = g->indices[0] = batch;
    at[0] = rows;
    at[1] = columns;
    g->indices[g->batched] = points;
    g->indices[g->batched + 1] = 2;
    bool turned = dice_once_in(dice, 2);
    g->map[turned] = g->batched;
    g->map[!turned] = g->batched + 1;
    g->inserted[0] = g->batched;
    g->window[0] = g->window_first ? 0 : g->rank - 1;
    at = g->updates;
    if (g->window_first)
        *at++ = width;
    if (g->batched)
        *at++ = batch;
    *at++ = points;
    if (!g->window_first)
        *at = width;
}

static int64_t elements_of(const int64_t *dims, int rank) {
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count *= dims[d];
    return count;
}

/* ---- Tensors ---- */

struct scattering {
    struct geometry g;
    DLTensor tensors[TENSORS];
    const DLTensor *list[TENSORS];
    unsigned char *data[TENSORS], *expected[INPUTS];
    bool in_place;
};

static void open_tensor(struct scattering *it, int at, DLDataType type, int rank, int64_t *dims) {
    int64_t count = elements_of(dims, rank);
    it->data[at] = calloc((size_t)count * 4 + 1, 1);
    it->tensors[at] = (DLTensor){
        .data = it->data[at], .device = {kDLCPU, 0}, .ndim = rank, .dtype = type, .shape = dims};
    it->list[at] = &it->tensors[at];
}

/* Floats of few bits, so that no sum depends on how it is rounded but by order. */
static void fill(struct dice *dice, struct scattering *it, int at) {
    const DLTensor *tensor = &it->tensors[at];
    int64_t count = elements_of(tensor->shape, tensor->ndim);
    for (int64_t i = 0; i < count; i++) {
        int32_t number = (int32_t)dice_range(dice, -100, 100);
        float value = (float)number / 3;
        if (tensor->dtype.code == kDLFloat)
            memcpy(it->data[at] + 4 * i, &value, 4);
        else if (tensor->dtype.bits == 8)
            it->data[at][i] = (unsigned char)number;
        else
            memcpy(it->data[at] + 4 * i, &number, 4);
    }
}

/* Rows and columns, now and then outside. */
static void fill_starts(struct dice *dice, struct scattering *it) {
    const struct geometry *g = &it->g;
    int64_t count = elements_of(g->indices, g->batched + 2);
    for (int64_t i = 0; i < count; i++) {
        int64_t dim = g->inputs[g->map[i % 2]];
        int32_t start = (int32_t)dice_range(dice, -1, dice_once_in(dice, 4) ? dim : dim / 2);
        memcpy(it->data[INPUTS] + 4 * i, &start, 4);
    }
}

static void open_scattering(struct dice *dice, bool large, struct scattering *it) {
    const DLDataType types[INPUTS] = {i32, i8, f32};
    struct geometry *g = &it->g;
    make_geometry(dice, large, g);
    it->in_place = dice_once_in(dice, 2);
    open_tensor(it, INPUTS, i32, g->batched + 2, g->indices);
    fill_starts(dice, it);
    for (int i = 0; i < INPUTS; i++) {
        open_tensor(it, i, types[i], g->rank, g->inputs);
        open_tensor(it, INPUTS + 1 + i, types[i], g->rank, g->updates);
        open_tensor(it, 2 * INPUTS + 1 + i, types[i], g->rank, g->inputs);
        fill(dice, it, i);
        fill(dice, it, INPUTS + 1 + i);
        if (it->in_place)
            it->list[2 * INPUTS + 1 + i] = it->list[i];
    }
    static int64_t none[1];
    open_tensor(it, TENSORS - 1, f32, 0, none);
    memcpy(it->data[TENSORS - 1], &factor, sizeof factor);
}

static void close_scattering(struct scattering *it) {
    for (int i = 0; i < TENSORS; i++)
        free(it->data[i]);
}

/* ---- Running ---- */

static kvmill_scatter op_of(struct dice *dice, struct scattering *it) {
    static const int64_t batching[] = {0};
    const struct geometry *g = &it->g;
    return (kvmill_scatter){
        .struct_size = sizeof(kvmill_scatter),
        .update_window_dims = {g->window, 1},
        .inserted_window_dims = {g->inserted, 1},
        .input_batching_dims = {batching, g->batched},
        .scatter_indices_batching_dims = {batching, g->batched},
        .scatter_dims_to_operand_dims = {g->map, 2},
        .index_vector_dim = g->batched + 1,
        .indices_are_sorted = dice_once_in(dice, 2),
        .window_out_of_bounds = dice_once_in(dice, 2) ? "skip_window" : NULL,
        .region = &region,
        .count = INPUTS,
        .inputs = it->list,
        .updates = it->list + INPUTS + 1,
        .scatter_indices = it->list[INPUTS],
    };
}

static int64_t most_parts; /* that apply updates */

static bool run(struct dice *dice, const kvmill_scatter *op, const DLTensor *const *tensors) {
    kvmill_plan *plan;
    kvmill_error error;
    kvmill_call call;
    int64_t last;
    if (kvmill_plan_scatter(op, NULL, &plan, &error) != KVMILL_OK ||
        kvmill_begin(&call, plan, tensors, NULL, &error) != KVMILL_OK) {
        diag("%s", error.message);
        return false;
    }
    do {
        last = kvmill_parts(&call);
        crew_run_phase(&call, 1, dice);
    } while (kvmill_next(&call));
    most_parts = last > most_parts ? last : most_parts;
    kvmill_plan_destroy(plan);
    return true;
}

static bool is_as_expected(struct scattering *it, const kvmill_scatter *op, enum oracle_form form,
                           unsigned char *const *originals) {
    int64_t count = elements_of(it->g.inputs, it->g.rank);
    unsigned char *results[INPUTS];
    bool right = true;
    for (int i = 0; i < INPUTS; i++) {
        results[i] = malloc((size_t)(count * bytes_of[i]) + 1);
        memcpy(results[i], originals[i], (size_t)(count * bytes_of[i]));
    }
    const unsigned char *updates[] = {it->data[INPUTS + 1], it->data[INPUTS + 2],
                                      it->data[INPUTS + 3]};
    oracle_scatter(form, op, it->data[INPUTS], updates, results, bytes_of, combine, NULL);
    for (int i = 0; i < INPUTS; i++) {
        const DLTensor *output = it->list[2 * INPUTS + 1 + i];
        right = right && memcmp(output->data, results[i], (size_t)(count * bytes_of[i])) == 0;
        free(results[i]);
    }
    return right;
}

static bool scatters_right(struct dice *dice, bool large) {
    struct scattering it;
    unsigned char *originals[INPUTS];
    open_scattering(dice, large, &it);
    kvmill_scatter op = op_of(dice, &it);
    size_t size = (size_t)elements_of(it.g.inputs, it.g.rank) * 4 + 1;
    for (int i = 0; i < INPUTS; i++) {
        originals[i] = malloc(size);
        memcpy(originals[i], it.data[i], size);
    }
    bool right = run(dice, &op, it.list);
    for (int form = 0; right && form < ORACLE_FORMS; form++)
        right = is_as_expected(&it, &op, (enum oracle_form)form, originals);
    for (int i = 0; i < INPUTS; i++) {
        right = right && (it.in_place || memcmp(originals[i], it.data[i], size) == 0);
        free(originals[i]);
    }
    close_scattering(&it);
    return right;
}

int main(void) {
    uint64_t seed = dice_seed();
    int cases = is_slow_run() ? 40 : 400, wrong = 0;
    for (int i = 0; i < cases && wrong < 3; i++) {
        struct dice dice = dice_for(seed + (uint64_t)i, "several inputs");
        if (!scatters_right(&dice, i % 10 == 0)) {
            diag("case %d", i);
            wrong++;
        }
    }
    ok(wrong == 0, "%d scatters of %d inputs", cases, INPUTS);
    ok(most_parts > 1, "updates are applied in up to %lld parts", (long long)most_parts);
    return done_testing();
}
