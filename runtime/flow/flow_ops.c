/* The ops of flows on float32 matrices.  All implementations add in the same order: along columns
   one element after another, along rows and pages in lanes.  Products are rounded before they are
   added.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_portable.h"

#include <math.h>

#include "../core/lanes.h"
#include "flow_math.h"

static const float masked = -1e30f;

/* ---- Sums ---- */

/* Numbers that are `step` apart; term i goes to lane i % lanes. */
struct run {
    const float *data;
    int64_t count, step;
    int lanes; /* 1: in order */
};

static float sum_of(const struct run *run) {
    float lane[LANES] = {0};
    for (int64_t i = 0; i < run->count; i++)
        lane[i % run->lanes] += run->data[i * run->step];
    return add_lanes(lane);
}

static float squares_of(const struct run *run) {
    float lane[LANES] = {0};
    for (int64_t i = 0; i < run->count; i++) {
        float square = run->data[i * run->step] * run->data[i * run->step];
        lane[i % run->lanes] += square;
    }
    return add_lanes(lane);
}

static float dot(const float *x, const float *y, int64_t count) {
    float lane[LANES] = {0};
    add_products(lane, x, y, count);
    return add_lanes(lane);
}

/* ---- Reductions ---- */

static float mean_of(const struct run *run) {
    return run->count == 0 ? 0 : sum_of(run) / (float)run->count;
}

static float largest_of(const struct run *run) {
    float largest = run->count == 0 ? 0 : run->data[0];
    for (int64_t i = 1; i < run->count; i++)
        largest = run->data[i * run->step] > largest ? run->data[i * run->step] : largest;
    return largest;
}

static float least_of(const struct run *run) {
    float least = run->count == 0 ? 0 : run->data[0];
    for (int64_t i = 1; i < run->count; i++)
        least = run->data[i * run->step] < least ? run->data[i * run->step] : least;
    return least;
}

/* The square root of a float, computed in double precision. */
static float norm_of(const struct run *run) {
    return (float)sqrt((double)squares_of(run));
}

typedef float reduction(const struct run *run);

static reduction *const reductions[KVMILL_FLOW_CODES] = {
    [KVMILL_FLOW_SUM] = sum_of,
    [KVMILL_FLOW_MEAN] = mean_of,
    [KVMILL_FLOW_MAX] = largest_of,
    [KVMILL_FLOW_MIN] = least_of,
    [KVMILL_FLOW_L2NORM] = norm_of,
    [KVMILL_FLOW_MEAN_INTERLEAVE] = mean_of,
    [KVMILL_FLOW_MAX_INTERLEAVE] = largest_of,
    [KVMILL_FLOW_MIN_INTERLEAVE] = least_of,
    [KVMILL_FLOW_L2NORM_INTERLEAVE] = norm_of,
};

/* Each group of rows, or of columns, becomes one. */
static void eval_reduction(const struct flow_eval *eval) {
    const struct flow_matrix *x = &eval->in[0];
    reduction *reduce = reductions[eval->step->code];
    bool along_rows = eval->step->dims >> 1 & 1;
    int64_t group = along_rows ? x->rows / eval->rows : x->columns / eval->columns;
    for (int64_t i = 0; i < eval->rows; i++)
        for (int64_t j = 0; j < eval->columns; j++) {
            int64_t row = along_rows ? i * group : i, column = along_rows ? j : j * group;
            const struct run run = {x->data + row * x->columns + column, group,
                                    along_rows ? x->columns : 1, along_rows ? 1 : LANES};
            eval->out[i * eval->columns + j] = reduce(&run);
        }
}

/* ---- Two inputs ---- */

static void eval_gemm(const struct flow_eval *eval) {
    const struct flow_matrix *x = &eval->in[0], *y = &eval->in[1];
    for (int64_t j = 0; j < y->rows; j++)
        for (int64_t i = 0; i < x->rows; i++)
            eval->out[j * x->rows + i] =
                dot(x->data + i * x->columns, y->data + j * y->columns, x->columns);
}

static float combine(const struct kvmill_flow_step *step, float x, float y) {
    switch (step->code) {
    case KVMILL_FLOW_MULTIPLY:
        return x * y;
    case KVMILL_FLOW_MAXIMUM:
        return x > y ? x : y;
    case KVMILL_FLOW_MINIMUM:
        return x < y ? x : y;
    case KVMILL_FLOW_WHERE_EQUAL:
        return x == y ? 0 : masked;
    case KVMILL_FLOW_WHERE_NOT_EQUAL:
        return x != y ? 0 : masked;
    case KVMILL_FLOW_WHERE_GREATER:
        return x > y ? 0 : masked;
    case KVMILL_FLOW_WHERE_GREATER_EQUAL:
        return x >= y ? 0 : masked;
    case KVMILL_FLOW_WHERE_LESS:
        return x < y ? 0 : masked;
    case KVMILL_FLOW_WHERE_LESS_EQUAL:
        return x <= y ? 0 : masked;
    default: {
        float first = step->alpha * x, second = step->beta * y;
        return first + second;
    }
    }
}

/* A dim of 1 is repeated. */
static float element(const struct flow_matrix *matrix, int64_t i, int64_t j) {
    int64_t row = matrix->rows == 1 ? 0 : i, column = matrix->columns == 1 ? 0 : j;
    return matrix->data[row * matrix->columns + column];
}

static void eval_binary(const struct flow_eval *eval) {
    for (int64_t i = 0; i < eval->rows; i++)
        for (int64_t j = 0; j < eval->columns; j++)
            eval->out[i * eval->columns + j] =
                combine(eval->step, element(&eval->in[0], i, j), element(&eval->in[1], i, j));
}

static void eval_kron(const struct flow_eval *eval) {
    const struct flow_matrix *x = &eval->in[0], *y = &eval->in[1];
    bool rows = eval->step->dims >> 1 & 1, columns = eval->step->dims >> 2 & 1;
    for (int64_t i = 0; i < eval->rows; i++)
        for (int64_t j = 0; j < eval->columns; j++)
            eval->out[i * eval->columns + j] =
                element(x, rows ? i / y->rows : i, columns ? j / y->columns : j) *
                element(y, rows ? i % y->rows : i, columns ? j % y->columns : j);
}

/* ---- One input ---- */

static float map(const struct kvmill_flow_step *step, float x) {
    float product = step->beta * x, affine = product + step->alpha;
    switch (step->code) {
    case KVMILL_FLOW_RELU:
        return x >= step->alpha ? x : step->beta;
    case KVMILL_FLOW_SIGMOID:
        return 1 / (1 + kvmill_exp(affine));
    case KVMILL_FLOW_SILU:
        return x / (1 + kvmill_exp(affine));
    case KVMILL_FLOW_ABS:
        return affine < 0 ? -affine : affine;
    case KVMILL_FLOW_LOG:
        return kvmill_log(affine);
    case KVMILL_FLOW_EXP:
        return kvmill_exp(affine);
    default:
        return affine;
    }
}

static void eval_unary(const struct flow_eval *eval) {
    for (int64_t i = 0; i < eval->rows * eval->columns; i++)
        eval->out[i] = map(eval->step, eval->in[0].data[i]);
}

static void eval_copy(const struct flow_eval *eval) {
    memcpy(eval->out, eval->in[0].data, (size_t)(eval->rows * eval->columns) * sizeof *eval->out);
}

static void eval_transpose(const struct flow_eval *eval) {
    for (int64_t i = 0; i < eval->rows; i++)
        for (int64_t j = 0; j < eval->columns; j++)
            eval->out[i * eval->columns + j] = eval->in[0].data[j * eval->rows + i];
}

static void eval_slice(const struct flow_eval *eval) {
    const struct kvmill_flow_step *step = eval->step;
    for (int64_t i = 0; i < eval->rows; i++)
        for (int64_t j = 0; j < eval->columns; j++) {
            int64_t number = step->dims >> 1 & 1 ? i : j;
            bool inside = step->start <= number && number < step->end;
            eval->out[i * eval->columns + j] = inside ? step->alpha : step->beta;
        }
}

static void eval_fill(const struct flow_eval *eval) {
    for (int64_t i = 0; i < eval->rows * eval->columns; i++)
        eval->out[i] = eval->step->alpha;
}

/* ---- The table ---- */

typedef void eval_op(const struct flow_eval *eval);

static eval_op *const ops[KVMILL_FLOW_CODES] = {
    [KVMILL_FLOW_GEMM] = eval_gemm,
    [KVMILL_FLOW_SUM] = eval_reduction,
    [KVMILL_FLOW_MEAN] = eval_reduction,
    [KVMILL_FLOW_MAX] = eval_reduction,
    [KVMILL_FLOW_MIN] = eval_reduction,
    [KVMILL_FLOW_L2NORM] = eval_reduction,
    [KVMILL_FLOW_MEAN_INTERLEAVE] = eval_reduction,
    [KVMILL_FLOW_MAX_INTERLEAVE] = eval_reduction,
    [KVMILL_FLOW_MIN_INTERLEAVE] = eval_reduction,
    [KVMILL_FLOW_L2NORM_INTERLEAVE] = eval_reduction,
    [KVMILL_FLOW_MULTIPLY] = eval_binary,
    [KVMILL_FLOW_MAXIMUM] = eval_binary,
    [KVMILL_FLOW_MINIMUM] = eval_binary,
    [KVMILL_FLOW_ADD] = eval_binary,
    [KVMILL_FLOW_WHERE_EQUAL] = eval_binary,
    [KVMILL_FLOW_WHERE_NOT_EQUAL] = eval_binary,
    [KVMILL_FLOW_WHERE_GREATER] = eval_binary,
    [KVMILL_FLOW_WHERE_GREATER_EQUAL] = eval_binary,
    [KVMILL_FLOW_WHERE_LESS] = eval_binary,
    [KVMILL_FLOW_WHERE_LESS_EQUAL] = eval_binary,
    [KVMILL_FLOW_KRON] = eval_kron,
    [KVMILL_FLOW_RELU] = eval_unary,
    [KVMILL_FLOW_SIGMOID] = eval_unary,
    [KVMILL_FLOW_SILU] = eval_unary,
    [KVMILL_FLOW_ADD_MUL] = eval_unary,
    [KVMILL_FLOW_ABS] = eval_unary,
    [KVMILL_FLOW_LOG] = eval_unary,
    [KVMILL_FLOW_EXP] = eval_unary,
    [KVMILL_FLOW_TRANSPOSE] = eval_transpose,
    [KVMILL_FLOW_RESHAPE] = eval_copy,
    [KVMILL_FLOW_MASK_SLICE] = eval_slice,
    [KVMILL_FLOW_FILL] = eval_fill,
    [KVMILL_FLOW_LOAD] = eval_copy,
};

void kvmill_flow_eval(const struct flow_eval *eval) {
    ops[eval->step->code](eval);
}

/* ---- Over pages ---- */

static struct run run_of_pages(const struct flow_eval *eval, int64_t pages, int64_t e) {
    return (struct run){eval->in[0].data + e, pages, eval->rows * eval->columns, LANES};
}

static void reduce_pages(const struct flow_eval *eval, int64_t pages, int64_t e) {
    struct run run = run_of_pages(eval, pages, e);
    eval->out[e] = reductions[eval->step->code](&run);
}

static void softmax_pages(const struct flow_eval *eval, int64_t pages, int64_t e) {
    struct run run = run_of_pages(eval, pages, e), weights = run;
    float scale = eval->step->scale, *out = eval->out + e;
    for (int64_t s = 0; s < pages; s++)
        out[s * run.step] = scale * run.data[s * run.step];
    weights.data = out;
    float largest = largest_of(&weights);
    for (int64_t s = 0; s < pages; s++)
        out[s * run.step] = kvmill_exp(out[s * run.step] - largest);
    float sum = sum_of(&weights);
    for (int64_t s = 0; s < pages; s++)
        out[s * run.step] /= sum;
}

static void normalize_pages(const struct flow_eval *eval, int64_t pages, int64_t e) {
    struct run run = run_of_pages(eval, pages, e);
    float norm = norm_of(&run);
    for (int64_t s = 0; s < pages; s++)
        eval->out[s * run.step + e] = run.data[s * run.step] / norm;
}

/* Taps outside of the row count as 0. */
static void conv_pages(const struct flow_eval *eval, int64_t pages, int64_t e, int64_t taps) {
    struct run run = run_of_pages(eval, pages, e);
    const float *weights = eval->in[1].data + e;
    for (int64_t s = 0; s < pages; s++) {
        float sum = 0;
        for (int64_t t = 0; t < taps; t++) {
            int64_t page = s + t - taps / 2;
            float product =
                page < 0 || page >= pages ? 0 : weights[t * run.step] * run.data[page * run.step];
            sum += product;
        }
        eval->out[s * run.step + e] = sum;
    }
}

void kvmill_flow_eval_pages(const struct flow_eval *eval, int64_t pages, int64_t taps) {
    for (int64_t e = 0; e < eval->rows * eval->columns; e++) {
        if (eval->step->code == KVMILL_FLOW_SOFTMAX)
            softmax_pages(eval, pages, e);
        else if (eval->step->code == KVMILL_FLOW_NORMALIZE)
            normalize_pages(eval, pages, e);
        else if (eval->step->code == KVMILL_FLOW_CONV1D)
            conv_pages(eval, pages, e, taps);
        else
            reduce_pages(eval, pages, e);
    }
}
