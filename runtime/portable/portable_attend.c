/* ATTEND for every shape: softmax on the fly, one position after the other.

   SPDX-License-Identifier: Apache-2.0 */
#include "portable.h"

#include <math.h>

#include "../../defs/format.h"
#include "../core/numbers.h"
#include "cache_row.h"

enum { ROWS = KVMILL_PORTABLE_ATTEND_ROWS };

/* The state of a query row; its sums are in units of exp (largest). */
struct row_state {
    double total;
    float largest;
};

/* The arrays of a workspace. */
struct work {
    struct row_state *state; /* [ROWS] */
    double *sum;             /* [ROWS][value.dim] */
    float *query;            /* [ROWS][key.dim] */
    float *row;              /* of the cache: key or value */
};

static int64_t longer_row(const struct kvmill_attend_shape *shape) {
    return shape->key.dim > shape->value.dim ? shape->key.dim : shape->value.dim;
}

static struct work work_in(void *workspace, const struct kvmill_attend_shape *shape) {
    struct work work = {.state = workspace};
    work.sum = (double *)(work.state + ROWS);
    work.query = (float *)(work.sum + (int64_t)ROWS * shape->value.dim);
    work.row = work.query + (int64_t)ROWS * shape->key.dim;
    return work;
}

int64_t kvmill_portable_attend_workspace(const struct kvmill_attend_shape *shape) {
    int64_t of_row = (int64_t)sizeof(struct row_state) +
                     shape->value.dim * (int64_t)sizeof(double) +
                     shape->key.dim * (int64_t)sizeof(float);
    int64_t bytes = ROWS * of_row + longer_row(shape) * (int64_t)sizeof(float);
    return (bytes + 63) / 64 * 64;
}

/* ---- One row ---- */

static void begin_row(const struct kvmill_attend *problem, const struct work *work, int64_t r) {
    const struct kvmill_attend_shape *shape = problem->shape;
    const struct kvmill_query_row *row = &problem->row[r];
    work->state[r] = (struct row_state){row->sink == -INFINITY ? 0 : 1, row->sink};
    for (int64_t i = 0; i < shape->value.dim; i++)
        work->sum[r * shape->value.dim + i] = 0;
    for (int64_t i = 0; i < shape->key.dim; i++)
        work->query[r * shape->key.dim + i] = kvmill_load_float(shape->activation, row->query, i);
}

static void write_partial(const struct row_state *state, const double *sum, int64_t dim,
                          float *partial) {
    partial[0] = state->largest;
    partial[1] = (float)state->total;
    for (int64_t i = 0; i < dim; i++)
        partial[2 + i] = (float)sum[i];
}

static void end_row(const struct kvmill_attend *problem, const struct work *work, int64_t r) {
    const struct row_state *state = &work->state[r];
    int64_t dim = problem->shape->value.dim;
    const double *sum = work->sum + r * dim;
    if (problem->partial != NULL) {
        write_partial(state, sum, dim, problem->partial + r * (2 + dim));
        return;
    }
    for (int64_t i = 0; i < dim; i++)
        kvmill_store_float(problem->shape->activation, problem->row[r].output, i,
                           state->total == 0 ? problem->empty : (float)(sum[i] / state->total));
}

/* ---- One row at one position ---- */

static float mask_at(const struct kvmill_attend *problem, const struct kvmill_query_row *row,
                     int64_t position) {
    if (row->mask == NULL)
        return 0;
    return kvmill_load_float(problem->shape->activation, row->mask, position);
}

static bool sees(const struct kvmill_attend *problem, int64_t r, int64_t position) {
    const struct kvmill_query_row *row = &problem->row[r];
    return row->first <= position && position < row->last &&
           mask_at(problem, row, position) != -INFINITY;
}

/* Four sums, so that no addition waits for the previous one. */
static double dot(const float *a, const float *b, int64_t count) {
    double sum[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int lane = 0; lane < 4; lane++)
            sum[lane] += (double)a[i + lane] * b[i + lane];
    for (; i < count; i++)
        sum[0] += (double)a[i] * b[i];
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

static float score_of(const struct kvmill_attend *problem, const struct work *work, int64_t r,
                      int64_t position) {
    const struct kvmill_query_row *row = &problem->row[r];
    int64_t dim = problem->shape->key.dim;
    float score = (float)(dot(work->query + r * dim, work->row, dim) * problem->scale);
    if (problem->softcap > 0)
        score = problem->softcap * tanhf(score / problem->softcap);
    if (row->slope != 0)
        score += row->slope * (float)(position - row->origin);
    return score + mask_at(problem, row, position);
}

/* Add a score to the state; returns its weight.  Infinities of equal sign have no difference. */
static float admit(struct row_state *state, double *sum, int64_t dim, float score) {
    if (score > state->largest) {
        double factor = expf(state->largest - score);
        for (int64_t i = 0; i < dim; i++)
            sum[i] *= factor;
        state->total *= factor;
        state->largest = score;
    }
    float weight = score == -INFINITY ? 0 : expf(score - state->largest);
    state->total += weight;
    return weight;
}

static void add_weighted(double *sum, const float *row, int64_t dim, double weight) {
    for (int64_t i = 0; i < dim; i++)
        sum[i] += weight * row[i];
}

/* ---- One position ---- */

static const unsigned char *scales_at(const unsigned char *scale, int64_t offset) {
    return scale == NULL ? NULL : scale + offset;
}

static void load_key(const struct kvmill_attend *problem, int64_t slot, float *row) {
    const struct kvmill_format *format = &problem->shape->key;
    kvmill_load_cache_row(
        format, problem->key + kvmill_format_row_at(format, slot, problem->key_stride),
        scales_at(problem->key_scale, slot * problem->key_scale_stride), 0, format->dim, row);
}

static void load_value(const struct kvmill_attend *problem, int64_t slot, float *row) {
    const struct kvmill_format *format = &problem->shape->value;
    kvmill_load_cache_row(
        format, problem->value + kvmill_format_row_at(format, slot, problem->value_stride),
        scales_at(problem->value_scale, slot * problem->value_scale_stride), 0, format->dim, row);
}

static bool is_seen(const struct kvmill_attend *problem, int64_t position) {
    for (int64_t r = 0; r < problem->rows; r++)
        if (sees(problem, r, position))
            return true;
    return false;
}

static void attend_position(const struct kvmill_attend *problem, const struct work *work,
                            int64_t position, int64_t slot) {
    int64_t dim = problem->shape->value.dim;
    float weight[ROWS];
    load_key(problem, slot, work->row);
    for (int64_t r = 0; r < problem->rows; r++)
        if (sees(problem, r, position))
            weight[r] = admit(&work->state[r], work->sum + r * dim, dim,
                              score_of(problem, work, r, position));
    load_value(problem, slot, work->row);
    for (int64_t r = 0; r < problem->rows; r++)
        if (sees(problem, r, position))
            add_weighted(work->sum + r * dim, work->row, dim, weight[r]);
}

static void attend_extents(const struct kvmill_attend *problem, const struct work *work) {
    const struct kvmill_extent *extent = problem->extent;
    int64_t position = problem->first, end = position + problem->count;
    for (; position < end; extent++)
        for (int64_t i = 0; i < extent->count && position < end; i++, position++)
            if (is_seen(problem, position))
                attend_position(problem, work, position, extent->slot + i);
}

static void attend(const void *argument, int64_t first, int64_t last) {
    const struct kvmill_attend *problem = argument;
    struct work work = work_in(problem->workspace, problem->shape);
    (void)first, (void)last; /* there is one unit of work */
    for (int64_t r = 0; problem->begin && r < problem->rows; r++)
        begin_row(problem, &work, r);
    attend_extents(problem, &work);
    for (int64_t r = 0; problem->end && r < problem->rows; r++)
        end_row(problem, &work, r);
}

const struct kvmill_kernel kvmill_portable_attend = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_ATTEND,
    .symbol = "kvmill_attend__portable",
    .isa = "portable",
    .run = attend,
};
