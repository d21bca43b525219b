/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is seen ---- */

/* The mask's number for a key of a query; keys behind the mask are hidden. */
static double bias_of(const struct oracle_onnx *problem, const int64_t place[4]) {
    const struct oracle_mask *mask = &problem->mask;
    int64_t number = 0;
    if (mask->rank == 0)
        return 0;
    if (place[3] >= mask->dims[mask->rank - 1])
        return -INFINITY;
    for (int d = 0; d < mask->rank; d++) {
        bool last = d == mask->rank - 1;
        int64_t at = mask->dims[d] == 1 && !last ? 0 : place[4 - mask->rank + d];
        number = number * mask->dims[d] + at;
    }
    double x = mask->numbers[number];
    if (mask->is_bool)
        return x != 0 ? 0 : -INFINITY;
    return problem->wide ? x : oracle_round(problem->type, x);
}

/* A key at position j, for a query at position p. */
static bool is_in_reach(const struct oracle_onnx *problem, int64_t p, int64_t j) {
    if (problem->is_causal && j > p)
        return false;
    if (problem->left >= 0 && j < p - problem->left)
        return false;
    return problem->right < 0 || j <= p + problem->right;
}

/* ---- One query ---- */

/* Keys that a query may see or not: addresses of their rows, and what is added to their scores. */
struct keys {
    int64_t count;
    const double **k, **v;
    double *bias;
    double *score, *error, *weight; /* filled by attend */
    double *raw, *capped, *raw_error;
};

/* Units that a sum of n terms may err by, in whatever order it is taken. */
static double summing(int64_t n) {
    return (double)n;
}

/* Products and sums as in float arithmetic; tanh is good to 8 units of the cap; a mask is added
   with one rounding. */
static void find_scores(const struct oracle_onnx *problem, const double *q, struct keys *keys) {
    for (int64_t j = 0; j < keys->count; j++) {
        double sum = 0, magnitude = 0;
        for (int64_t i = 0; keys->k[j] != NULL && i < problem->dim; i++) {
            sum += q[i] * keys->k[j][i] * problem->scale;
            magnitude += fabs(q[i] * keys->k[j][i] * problem->scale);
        }
        keys->raw[j] = keys->capped[j] = sum;
        keys->raw_error[j] = (summing(problem->dim) + 4) * problem->unit * magnitude;
        keys->error[j] = keys->raw_error[j];
        if (problem->softcap != 0) {
            keys->capped[j] = problem->softcap * tanh(sum / problem->softcap);
            keys->error[j] += 8 * problem->unit * problem->softcap;
        }
        keys->score[j] = keys->capped[j] + keys->bias[j];
        if (keys->bias[j] == -INFINITY)
            keys->score[j] = -INFINITY;
        else
            keys->error[j] += 4 * problem->unit * fabs(keys->bias[j]);
    }
}

/* Decided by the biases alone. */
static bool sees_nothing(const struct keys *keys) {
    for (int64_t j = 0; j < keys->count; j++)
        if (keys->bias[j] != -INFINITY)
            return false;
    return true;
}

/* An absolute error of a score is a relative one of its weight; exp, what is subtracted and
   rescaled err by no more than 64 units and 2 of the scores' magnitudes. */
static void find_weights(const struct oracle_onnx *problem, struct keys *keys) {
    double largest = -INFINITY, total = 0;
    for (int64_t j = 0; j < keys->count; j++)
        largest = isnan(keys->score[j]) || keys->score[j] > largest ? keys->score[j] : largest;
    for (int64_t j = 0; j < keys->count; j++) {
        bool hidden = keys->score[j] == -INFINITY;
        keys->weight[j] = hidden ? 0 : exp(keys->score[j] - largest);
        if (!hidden)
            keys->error[j] += problem->unit * (64 + 2 * (fabs(keys->score[j]) + fabs(largest)));
        total += keys->weight[j];
    }
    for (int64_t j = 0; j < keys->count; j++)
        keys->weight[j] = total == 0 ? 0 : keys->weight[j] / total;
}

/* Errors of weights move the result by sum of w e |v - y|; sums and division by some units. */
static void weigh(const struct oracle_onnx *problem, const struct keys *keys, double *y,
                  double *error) {
    double units = (summing(keys->count) + 4) * problem->unit;
    for (int64_t d = 0; d < problem->value_dim; d++) {
        y[d] = error[d] = 0;
        for (int64_t j = 0; j < keys->count; j++)
            y[d] += keys->weight[j] != 0 ? keys->weight[j] * keys->v[j][d] : 0;
        for (int64_t j = 0; j < keys->count; j++)
            if (keys->weight[j] != 0)
                error[d] += keys->weight[j] * (units * fabs(keys->v[j][d]) +
                                               keys->error[j] * fabs(keys->v[j][d] - y[d]));
        error[d] += units * fabs(y[d]);
    }
}

static void attend(const struct oracle_onnx *problem, const double *q, struct keys *keys, double *y,
                   double *error) {
    find_scores(problem, q, keys);
    if (sees_nothing(keys)) {
        memset(keys->weight, 0, (size_t)keys->count * sizeof(double));
        memset(y, 0, (size_t)problem->value_dim * sizeof(double));
        memset(error, 0, (size_t)problem->value_dim * sizeof(double));
        return;
    }
    find_weights(problem, keys);
    weigh(problem, keys, y, error);
}

static struct keys open_keys(int64_t count) {
    size_t size = (size_t)count + 1;
    return (struct keys){
        .count = count,
        .k = calloc(size, sizeof(double *)),
        .v = calloc(size, sizeof(double *)),
        .bias = calloc(size, sizeof(double)),
        .score = calloc(size, sizeof(double)),
        .error = calloc(size, sizeof(double)),
        .weight = calloc(size, sizeof(double)),
        .raw = calloc(size, sizeof(double)),
        .capped = calloc(size, sizeof(double)),
        .raw_error = calloc(size, sizeof(double)),
    };
}

static void close_keys(struct keys *keys) {
    free(keys->k);
    free(keys->v);
    free(keys->bias);
    free(keys->score);
    free(keys->error);
    free(keys->weight);
    free(keys->raw);
    free(keys->capped);
    free(keys->raw_error);
}

/* ---- Attention ---- */

static int64_t length_of(const struct oracle_onnx *problem, int64_t b) {
    return problem->nonpad != NULL ? problem->nonpad[b] : problem->past + problem->keys;
}

static int64_t offset_of(const struct oracle_onnx *problem, int64_t b) {
    if (problem->past > 0)
        return problem->past;
    return problem->nonpad != NULL ? problem->nonpad[b] - problem->queries : 0;
}

/* Element j of qk_matmul_output; what is no valid key has no product. */
static void put_qk(const struct oracle_onnx *problem, const struct keys *keys, int64_t j,
                   double *qk, double *error) {
    const double of_mode[] = {keys->raw[j], keys->capped[j], keys->score[j], keys->weight[j]};
    *qk = of_mode[problem->qk_mode];
    *error = problem->qk_mode == 0   ? keys->raw_error[j]
             : problem->qk_mode == 3 ? keys->weight[j] * (keys->error[j] + 64 * problem->unit)
                                     : keys->error[j];
}

static void attend_query(const struct oracle_onnx *problem, int64_t b, int64_t h, int64_t i,
                         const struct oracle_onnx_result *result) {
    int64_t all = problem->past + problem->keys, g = h / (problem->heads / problem->kv_heads);
    int64_t row = (b * problem->heads + h) * problem->queries + i;
    struct keys keys = open_keys(all);
    for (int64_t j = 0; j < all; j++) {
        const int64_t place[] = {b, h, i, j}, of_key = (b * problem->kv_heads + g) * all + j;
        bool valid = j < length_of(problem, b);
        keys.k[j] = valid ? problem->k + of_key * problem->dim : NULL;
        keys.v[j] = problem->v + of_key * problem->value_dim;
        keys.bias[j] = valid && is_in_reach(problem, offset_of(problem, b) + i, j)
                           ? bias_of(problem, place)
                           : -INFINITY;
    }
    attend(problem, problem->q + row * problem->dim, &keys, result->y + row * problem->value_dim,
           result->y_error + row * problem->value_dim);
    for (int64_t j = 0; result->qk != NULL && j < all; j++)
        put_qk(problem, &keys, j, result->qk + row * all + j, result->qk_error + row * all + j);
    close_keys(&keys);
}

void oracle_onnx_attend(const struct oracle_onnx *problem,
                        const struct oracle_onnx_result *result) {
    for (int64_t b = 0; b < problem->batch; b++)
        for (int64_t h = 0; h < problem->heads; h++)
            for (int64_t i = 0; i < problem->queries; i++)
                attend_query(problem, b, h, i, result);
}

/* ---- Steps ---- */

/* What is in the slots of a batch entry's cache, token after token. */
struct slots {
    int64_t *position; /* -1: nothing */
    int64_t *fresh;    /* number of the new row, or -1 */
};

static int64_t start_of(const struct oracle_step *step, int64_t b) {
    return step->starts != NULL ? step->starts[b] : 0;
}

static int64_t real_rows(const struct oracle_step *step, int64_t b) {
    const int64_t *nonpad = step->attention.nonpad;
    return nonpad != NULL ? nonpad[b] - start_of(step, b) : step->attention.keys;
}

/* A slot has the last position before the step that fell on it. */
static void fill_slots(const struct oracle_step *step, int64_t b, struct slots *slots) {
    int64_t capacity = step->attention.past, start = start_of(step, b);
    for (int64_t s = 0; s < capacity; s++) {
        slots->fresh[s] = -1;
        slots->position[s] = s < start ? s : -1;
        if (step->circular && s < start)
            slots->position[s] = s + (start - 1 - s) / capacity * capacity;
    }
}

static void append(const struct oracle_step *step, int64_t b, int64_t row, struct slots *slots) {
    int64_t capacity = step->attention.past, start = start_of(step, b);
    int64_t slot = (start % capacity + row) % capacity;
    slots->position[slot] = start + row;
    slots->fresh[slot] = row;
}

static const double *row_of(const double *old, const double *fresh, int64_t capacity, int64_t rows,
                            int64_t dim, int64_t head, int64_t slot, int64_t row) {
    return row >= 0 ? fresh + (head * rows + row) * dim : old + (head * capacity + slot) * dim;
}

/* A query head, when the slots hold what they hold at query i. */
static void attend_slots(const struct oracle_step *step, int64_t b, int64_t h, int64_t i,
                         const struct slots *slots, const struct oracle_onnx_result *result) {
    const struct oracle_onnx *problem = &step->attention;
    int64_t g = b * problem->kv_heads + h / (problem->heads / problem->kv_heads);
    int64_t row = (b * problem->heads + h) * problem->queries + i;
    struct keys keys = open_keys(problem->past);
    for (int64_t s = 0; s < problem->past; s++) {
        const int64_t place[] = {b, h, i, s};
        int64_t position = slots->position[s];
        bool seen = position >= 0 && is_in_reach(problem, start_of(step, b) + i, position);
        keys.k[s] = seen ? row_of(step->k, step->new_k, problem->past, problem->keys, problem->dim,
                                  g, s, slots->fresh[s])
                         : NULL;
        keys.v[s] = row_of(step->v, step->new_v, problem->past, problem->keys, problem->value_dim,
                           g, s, slots->fresh[s]);
        keys.bias[s] = seen && i < real_rows(step, b) ? bias_of(problem, place) : -INFINITY;
    }
    attend(problem, problem->q + row * problem->dim, &keys, result->y + row * problem->value_dim,
           result->y_error + row * problem->value_dim);
    close_keys(&keys);
}

/* Tokens come one by one; a query waits for all that it may see. */
static void step_entry(const struct oracle_step *step, int64_t b,
                       const struct oracle_onnx_result *result) {
    const struct oracle_onnx *problem = &step->attention;
    int64_t right = problem->is_causal ? 0 : problem->right, done = 0, real = real_rows(step, b);
    struct slots slots = {calloc((size_t)problem->past + 1, sizeof(int64_t)),
                          calloc((size_t)problem->past + 1, sizeof(int64_t))};
    fill_slots(step, b, &slots);
    for (int64_t i = 0; i < problem->queries; i++) {
        for (; done < real && (right < 0 || done <= i + right); done++)
            append(step, b, done, &slots);
        for (int64_t h = 0; h < problem->heads; h++)
            attend_slots(step, b, h, i, &slots, result);
    }
    free(slots.position);
    free(slots.fresh);
}

/* New rows of dim numbers into the cache of batch entry b; of padding only in linear caches. */
static void store(const struct oracle_step *step, int64_t b, const double *fresh, double *cache,
                  int64_t dim) {
    const struct oracle_onnx *problem = &step->attention;
    int64_t rows = step->circular ? real_rows(step, b) : problem->keys;
    for (int64_t g = b * problem->kv_heads; g < (b + 1) * problem->kv_heads; g++)
        for (int64_t i = 0; i < rows; i++) {
            int64_t slot = (start_of(step, b) % problem->past + i) % problem->past;
            memcpy(cache + (g * problem->past + slot) * dim, fresh + (g * problem->keys + i) * dim,
                   (size_t)dim * sizeof(double));
        }
}

void oracle_onnx_step(const struct oracle_step *step, const struct oracle_onnx_result *result) {
    for (int64_t b = 0; b < step->attention.batch; b++) {
        step_entry(step, b, result);
        store(step, b, step->new_k, step->k, step->attention.dim);
        store(step, b, step->new_v, step->v, step->attention.value_dim);
    }
}
