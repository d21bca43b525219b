/* Attention that no family of kernels computes: in float64, and with qk_matmul_output.  A part is a
   query row; its scores are computed once for their max and sum, and again for the softmax weights.

   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "../../defs/dtype.h"
#include "../core/numbers.h"
#include "onnx_attention_plan.h"

/* Elements that are multiplied, and added up, at a time. */
enum { PIECE = 64, SUMS = 512 };

/* A query row. */
struct wide_row {
    const struct attend_view *view;
    const struct onnx_run *run;
    int64_t b, head, query;
    struct attend_sequence sequence;
    int64_t first, last; /* the keys that it sees */
    const unsigned char *q;
    kvmill_reader read_q, read_v;
};

/* The sums so far; the total is in units of exp (largest). */
struct softmax {
    double largest, total;
};

static struct wide_row row_of_part(const struct onnx_call *call, int64_t part) {
    const struct onnx_run *run = call->run;
    const struct kvmill_attention_geometry *geometry = &run->geometry;
    struct wide_row row = {
        .view = &call->base.view,
        .run = run,
        .b = part / geometry->queries / geometry->heads,
        .head = part / geometry->queries % geometry->heads,
        .query = part % geometry->queries,
        .read_q = kvmill_reader_of(run->plan->types[KVMILL_ATTENTION_Q]),
        .read_v = kvmill_reader_of(run->plan->types[KVMILL_ATTENTION_V]),
    };
    row.q = row_at(&call->base.view, &call->base.view.query, row.b, row.head, row.query);
    call->base.view.look(&call->base.view, row.b, row.head, &row.sequence);
    kvmill_see(&row.sequence, row.query, &row.first, &row.last);
    return row;
}

/* Row `key` of K (v = 0) or V. */
static const unsigned char *key_row(const struct wide_row *row, int v, int64_t key) {
    int64_t joint = row->sequence.joint, head = row->head / row->run->geometry.ratio;
    bool second = key >= joint;
    const struct cache_side *side = &row->view->side[second][v];
    int64_t slot =
        kvmill_extent_at(&row->sequence.pages[second], second ? key - joint : key, 1).slot;
    return side->rows.data + row->b * side->batch + head * side->rows.head_stride +
           slot * side->rows.row_stride;
}

/* ---- Scores ---- */

static double product(const struct wide_row *row, int64_t key) {
    double q[PIECE], k[PIECE], sum = 0;
    int64_t dim = row->run->geometry.key_dim;
    int64_t bytes = row->run->plan->types[KVMILL_ATTENTION_Q].bits / 8;
    const unsigned char *of_key = key_row(row, 0, key);
    for (int64_t at = 0; at < dim; at += PIECE) {
        int64_t count = dim - at < PIECE ? dim - at : PIECE;
        row->read_q(row->q + at * bytes, bytes, count, q);
        row->read_q(of_key + at * bytes, bytes, count, k);
        for (int64_t i = 0; i < count; i++)
            sum += q[i] * k[i];
    }
    return sum * row->run->geometry.scale;
}

static double cap(const struct wide_row *row, double score) {
    double softcap = row->run->plan->op.softcap;
    return softcap > 0 ? softcap * tanh(score / softcap) : score;
}

/* The bias of one key, rounded to T1. */
static double mask_at(const struct wide_row *row, int64_t key) {
    const struct mask_view *mask = &row->view->mask;
    DLDataType T1 = row->run->plan->types[KVMILL_ATTENTION_Q];
    unsigned char rounded[sizeof(double)];
    double bias;
    if (!row->run->plan->has[KVMILL_ATTENTION_ATTN_MASK])
        return 0;
    mask->read(row_at(row->view, &mask->rows, row->b, row->head, row->query) + key * mask->key,
               mask->key, 1, &bias);
    kvmill_writer_of(T1)(&bias, 1, rounded);
    kvmill_reader_of(T1)(rounded, 0, 1, &bias);
    return bias;
}

static double bias_of(const struct wide_row *row, int64_t key) {
    return key < row->first || key >= row->last ? -(double)INFINITY : mask_at(row, key);
}

/* A score with all terms; hidden keys stay hidden, whatever their product is. */
static double score_of(const struct wide_row *row, int64_t key) {
    double bias = bias_of(row, key);
    return bias == -(double)INFINITY ? bias : cap(row, product(row, key)) + bias;
}

static struct softmax look(const struct wide_row *row) {
    struct softmax softmax = {-(double)INFINITY, 0};
    for (int64_t key = row->first; key < row->last; key++) {
        double score = score_of(row, key);
        if (score == -(double)INFINITY)
            continue;
        if (score > softmax.largest) {
            softmax.total *= exp(softmax.largest - score);
            softmax.largest = score;
        }
        softmax.total += exp(score - softmax.largest);
    }
    return softmax;
}

/* The weight of a key; 0 if nothing is seen. */
static double probability(const struct softmax *softmax, double score) {
    if (score == -(double)INFINITY || softmax->total == 0)
        return 0;
    return exp(score - softmax->largest) / softmax->total;
}

/* ---- Y ---- */

/* Elements [from, from + count) of the output. */
static void sum_up(const struct wide_row *row, const struct softmax *softmax, int64_t from,
                   int64_t count, double *sums) {
    double v[SUMS];
    int64_t bytes = row->run->plan->types[KVMILL_ATTENTION_V].bits / 8;
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (int64_t key = row->first; key < row->last; key++) {
        double weight = probability(softmax, score_of(row, key));
        if (weight == 0)
            continue;
        row->read_v(key_row(row, 1, key) + from * bytes, bytes, count, v);
        for (int64_t i = 0; i < count; i++)
            sums[i] += weight * v[i];
    }
}

static void wide_part(const struct call *call, int64_t part) {
    const struct wide_row row = row_of_part(onnx_call_of(call), part);
    const struct softmax softmax = look(&row);
    DLDataType T1 = row.run->plan->types[KVMILL_ATTENTION_Y];
    int64_t dim = row.run->geometry.value_dim;
    unsigned char *to = row_at(row.view, &row.view->output, row.b, row.head, row.query);
    double sums[SUMS];
    for (int64_t from = 0; from < dim; from += SUMS) {
        int64_t count = dim - from < SUMS ? dim - from : SUMS;
        sum_up(&row, &softmax, from, count, sums);
        kvmill_writer_of(T1)(sums, count, to + from * (T1.bits / 8));
    }
}

static int64_t count_rows(const struct onnx_run *run) {
    return run->geometry.batch * run->geometry.heads * run->geometry.queries;
}

/* In double precision, element by element. */
static double wide_work(const struct call *call) {
    const struct kvmill_attention_geometry *geometry = &onnx_call_of(call)->run->geometry;
    double scores =
        (double)count_rows(onnx_call_of(call)->run) * (double)(geometry->past + geometry->keys);
    return scores * (double)(geometry->key_dim + geometry->value_dim) * sizeof(double);
}

static int64_t wide_parts(const struct call *call) {
    const struct onnx_run *run = onnx_call_of(call)->run;
    return run->geometry.is_wide ? count_rows(run) : 0;
}

/* ---- qk_matmul_output ---- */

/* Keys that are not valid are not read. */
static double valid_product(const struct wide_row *row, int64_t key) {
    return key < kvmill_onnx_length(row->run, row->b) ? product(row, key) : 0;
}

/* Element `key` of the row, in the requested mode. */
static double element_of(const struct wide_row *row, const struct softmax *softmax, int64_t key) {
    switch (row->run->plan->op.qk_matmul_output_mode) {
    case 0:
        return valid_product(row, key);
    case 1:
        return cap(row, valid_product(row, key));
    case 2:
        return score_of(row, key);
    default:
        return probability(softmax, score_of(row, key));
    }
}

static void scores_part(const struct call *call, int64_t part) {
    const struct wide_row row = row_of_part(onnx_call_of(call), part);
    const struct onnx_run *run = row.run;
    const struct softmax softmax =
        run->plan->op.qk_matmul_output_mode == 3 ? look(&row) : (struct softmax){0, 0};
    DLDataType T1 = run->plan->types[KVMILL_ATTENTION_QK_MATMUL_OUTPUT];
    unsigned char *to = row_at(row.view, &run->scores, row.b, row.head, row.query);
    double elements[PIECE];
    int64_t keys = run->geometry.past + run->geometry.keys;
    for (int64_t from = 0; from < keys; from += PIECE) {
        int64_t count = keys - from < PIECE ? keys - from : PIECE;
        for (int64_t i = 0; i < count; i++)
            elements[i] = element_of(&row, &softmax, from + i);
        kvmill_writer_of(T1)(elements, count, to + from * (T1.bits / 8));
    }
}

static int64_t scores_parts(const struct call *call) {
    const struct onnx_run *run = onnx_call_of(call)->run;
    return run->scores.data != NULL ? count_rows(run) : 0;
}

const struct phase kvmill_wide_phase = {wide_parts, wide_part, wide_work};
const struct phase kvmill_scores_phase = {scores_parts, scores_part, wide_work};
