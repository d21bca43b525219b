/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_onnx_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "query.h"

/* ---- Visible keys ---- */

/* Returns the mask's number for a key of a query; keys beyond the mask are hidden. */
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

/* Whether a query at position p reaches a key at position j. */
static bool is_in_reach(const struct oracle_onnx *problem, int64_t p, int64_t j) {
    if (problem->is_causal && j > p)
        return false;
    if (problem->left >= 0 && j < p - problem->left)
        return false;
    return problem->right < 0 || j <= p + problem->right;
}

/* ---- One query ---- */

/* Attends for query `row`, counted through all; a bias of -infinity hides a key. */
static void attend(const struct oracle_onnx *problem, int64_t row, struct oracle_key *keys,
                   int64_t count, const struct oracle_onnx_result *result) {
    struct oracle_answer answer = {result->y + row * problem->value_dim,
                                   result->y_error + row * problem->value_dim, 0, 0};
    for (int64_t j = 0; j < count; j++) {
        keys[j].hidden = keys[j].bias == -INFINITY;
        keys[j].size = fabs(keys[j].bias);
    }
    oracle_query_attend(&(struct oracle_query){.dim = problem->dim,
                                               .value_dim = problem->value_dim,
                                               .count = count,
                                               .numbers = problem->q + row * problem->dim,
                                               .keys = keys,
                                               .all_scores = result->qk != NULL,
                                               .scale = problem->scale,
                                               .softcap = problem->softcap,
                                               .sink = -INFINITY,
                                               .unit = problem->unit},
                        &answer);
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

/* Sets an element of qk_matmul_output; an invalid key has no product. */
static void put_qk(const struct oracle_onnx *problem, const struct oracle_key *key, double *qk,
                   double *error) {
    const double of_mode[] = {key->raw, key->capped, key->score, key->weight};
    *qk = of_mode[problem->qk_mode];
    *error = problem->qk_mode == 0  ? key->raw_error
             : problem->qk_mode < 3 ? key->error
             : key->weight == 0     ? 0
                                    : key->weight * (key->error + 64 * problem->unit);
}

static void attend_query(const struct oracle_onnx *problem, int64_t b, int64_t h, int64_t i,
                         const struct oracle_onnx_result *result) {
    int64_t all = problem->past + problem->keys, g = h / (problem->heads / problem->kv_heads);
    int64_t row = (b * problem->heads + h) * problem->queries + i;
    struct oracle_key *keys = calloc((size_t)all + 1, sizeof *keys);
    for (int64_t j = 0; j < all; j++) {
        const int64_t place[] = {b, h, i, j}, of_key = (b * problem->kv_heads + g) * all + j;
        bool valid = j < length_of(problem, b);
        keys[j].k = valid ? problem->k + of_key * problem->dim : NULL;
        keys[j].v = problem->v + of_key * problem->value_dim;
        keys[j].bias = valid && is_in_reach(problem, offset_of(problem, b) + i, j)
                           ? bias_of(problem, place)
                           : -INFINITY;
    }
    attend(problem, row, keys, all, result);
    for (int64_t j = 0; result->qk != NULL && j < all; j++)
        put_qk(problem, &keys[j], result->qk + row * all + j, result->qk_error + row * all + j);
    free(keys);
}

void oracle_onnx_attend(const struct oracle_onnx *problem,
                        const struct oracle_onnx_result *result) {
    for (int64_t b = 0; b < problem->batch; b++)
        for (int64_t h = 0; h < problem->heads; h++)
            for (int64_t i = 0; i < problem->queries; i++)
                attend_query(problem, b, h, i, result);
}

/* ---- Steps ---- */

/* The contents of the slots of a batch entry's cache while tokens are stored one by one. */
struct slots {
    int64_t *position; /* -1: empty */
    int64_t *fresh;    /* number of the new row, or -1 */
};

static int64_t start_of(const struct oracle_step *step, int64_t b) {
    return step->starts != NULL ? step->starts[b] : 0;
}

static int64_t real_rows(const struct oracle_step *step, int64_t b) {
    const int64_t *nonpad = step->attention.nonpad;
    return nonpad != NULL ? nonpad[b] - start_of(step, b) : step->attention.keys;
}

/* Fills the slots with the positions before the step; a slot has the last position that it was
   given. */
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

/* Attends for a query head with the slots' contents at query i. */
static void attend_slots(const struct oracle_step *step, int64_t b, int64_t h, int64_t i,
                         const struct slots *slots, const struct oracle_onnx_result *result) {
    const struct oracle_onnx *problem = &step->attention;
    int64_t g = b * problem->kv_heads + h / (problem->heads / problem->kv_heads);
    int64_t row = (b * problem->heads + h) * problem->queries + i;
    struct oracle_key *keys = calloc((size_t)problem->past + 1, sizeof *keys);
    for (int64_t s = 0; s < problem->past; s++) {
        const int64_t place[] = {b, h, i, s};
        int64_t position = slots->position[s];
        bool seen = position >= 0 && is_in_reach(problem, start_of(step, b) + i, position);
        keys[s].k = seen ? row_of(step->k, step->new_k, problem->past, problem->keys, problem->dim,
                                  g, s, slots->fresh[s])
                         : NULL;
        keys[s].v = row_of(step->v, step->new_v, problem->past, problem->keys, problem->value_dim,
                           g, s, slots->fresh[s]);
        keys[s].bias = seen && i < real_rows(step, b) ? bias_of(problem, place) : -INFINITY;
    }
    attend(problem, row, keys, problem->past, result);
    free(keys);
}

/* Stores tokens one by one; each query attends when all keys that it may attend to are stored. */
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

/* Stores new rows of dim numbers in the cache of batch entry b; rows of padding, too, in a linear
   cache. */
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
