/* SPDX-License-Identifier: Apache-2.0 */
#include "query.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include <kvmill_kernel.h>

double oracle_alibi_slope(int64_t heads, int64_t head) {
    int64_t power = 1;
    while (power * 2 <= heads)
        power *= 2;
    if (head < power)
        return pow(2, -8.0 * (double)(head + 1) / (double)power);
    return pow(2, -4.0 * (double)(2 * (head - power) + 1) / (double)power);
}

/* ---- Roundings ---- */

struct oracle_rounding oracle_rounding_of(int math, bool key_codes, bool value_codes) {
    bool exact = math == KVMILL_MATH_F32, halves = math == KVMILL_MATH_FAST;
    return (struct oracle_rounding){.query = !key_codes ? 0
                                             : exact    ? 6.1e-8
                                                        : 1.6e-5,
                                    .weight = !value_codes ? 0
                                              : exact      ? 3e-8
                                                           : 1.6e-5,
                                    .sum = halves ? 0.033 : 0,
                                    .least = halves ? 6e-8 : 0};
}

double oracle_usual_error(int math) {
    return math == KVMILL_MATH_F32 ? 5e-6 : math == KVMILL_MATH_NEAR ? 5e-4 : 8e-3;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double oracle_reach(const double *numbers, int64_t dim) {
    double *sizes = malloc((size_t)(dim + 1) * sizeof *sizes), reach;
    int64_t count = 0;
    for (int64_t i = 0; i < dim; i++)
        if (numbers[i] != 0)
            sizes[count++] = fabs(numbers[i]);
    qsort(sizes, (size_t)count, sizeof *sizes, compare);
    reach = count == 0 ? 0 : fmin(sizes[count - 1], 64 * sizes[count / 4]);
    free(sizes);
    return reach;
}

/* Returns the error of a sum of n terms: in units, half the distance between 1 and its neighbour,
   and as a share of the sum of magnitudes.  The bound that always holds, n, is useless for long
   caches: it would hide a lost token.  Rounding errors are independent enough that 8 * sqrt(n) is
   not exceeded either (Higham and Mary, 2019), unless inputs were searched for. */
static double summing(const struct oracle_query *query, int64_t n) {
    double root = query->rounding.worst ? INFINITY : 8 * sqrt((double)n);
    return (double)n < root ? (double)n : root;
}

/* ---- Scores ---- */

/* Computes a score and the bound of its error in float arithmetic:
   - sum over dim, with roundings of query * scale, code * scale and each product: summing(dim) + 4
     units of the sum of magnitudes;
   - each element of a query is rounded by a share of its reach.  Independent errors add up to less
     than 4 times the root of the sum of squares, 7 standard deviations;
   - softcap: tanh is at most as steep as the identity, and errs by at most 8 units of the cap;
   - bias (slope, product and sum): 4 units of each magnitude that is added;
   - subtraction of the largest score: relative() counts a unit of either. */
static void find_score(const struct oracle_query *query, double reach, struct oracle_key *key) {
    bool wanted = key->k != NULL && (!key->hidden || query->all_scores);
    double magnitude = 0, size = 0, square = 0;
    key->raw = 0;
    for (int64_t i = 0; wanted && i < query->dim; i++) {
        double product = query->numbers[i] * key->k[i] * query->scale;
        key->raw += product;
        magnitude += fabs(product);
        size += fabs(key->k[i]);
        square += key->k[i] * key->k[i];
    }
    size = query->rounding.worst ? size : fmin(size, 4 * sqrt(square));
    key->capped = key->raw;
    key->raw_error = key->error = (summing(query, query->dim) + 4) * query->unit * magnitude +
                                  query->rounding.query * reach * fabs(query->scale) * size;
    if (query->softcap != 0) {
        key->capped = query->softcap * tanh(key->raw / query->softcap);
        key->error += 8 * query->unit * query->softcap;
    }
    key->error += key->hidden || isinf(key->size) ? 0 : 4 * query->unit * key->size;
    key->score = key->hidden ? -INFINITY : key->capped + key->bias;
}

/* Computes the scores of all keys; returns the largest, also of the sink. */
static double find_scores(const struct oracle_query *query) {
    double largest = query->sink, reach = oracle_reach(query->numbers, query->dim);
    for (int64_t j = 0; j < query->count; j++) {
        struct oracle_key *key = &query->keys[j];
        find_score(query, reach, key);
        if (isnan(key->score) || key->score > largest)
            largest = key->score;
    }
    return largest;
}

/* Returns the relative error of exp(score - largest).  exp turns an absolute error into a relative
   one.  exp itself, the subtraction before it and rescaling when a larger score comes err by at
   most 64 units and 2 units of the scores' magnitudes. */
static double relative(const struct oracle_query *query, double score, double largest) {
    return isinf(score) ? 0 : query->unit * (64 + 2 * (fabs(score) + fabs(largest)));
}

/* Turns scores into shares of the whole; returns the whole. */
static double share(const struct oracle_query *query, double largest, double *sink) {
    double total = *sink = query->sink == -INFINITY ? 0 : exp(query->sink - largest);
    for (int64_t j = 0; j < query->count; j++) {
        struct oracle_key *key = &query->keys[j];
        key->error += relative(query, key->score, largest);
        key->weight = key->score == -INFINITY ? 0 : exp(key->score - largest);
        total += key->weight;
    }
    for (int64_t j = 0; j < query->count; j++)
        query->keys[j].weight /= total;
    *sink /= total;
    return total;
}

/* Returns the largest error of the score of a key that has a weight. */
static double largest_error(const struct oracle_query *query) {
    double largest = 0;
    for (int64_t j = 0; j < query->count; j++)
        if (query->keys[j].weight != 0)
            largest = fmax(largest, query->keys[j].error);
    return largest;
}

/* Errors e of scores turn a weight w into at most w' = w exp (e + largest e), and move the result y
   by at most the sum of (w' - w exp (largest e)) |v - y|.  By logarithms, because a weight that is
   0 in double may not be if scores have large errors. */
static void move_weights(const struct oracle_query *query, double largest, double total) {
    double error = largest_error(query), whole = largest + log(total);
    for (int64_t j = 0; j < query->count; j++) {
        struct oracle_key *key = &query->keys[j];
        bool counts = key->score != -INFINITY;
        key->most = counts ? exp(fmin(key->score - whole + key->error + error, 600)) : 0;
        key->moved = counts ? key->most * -expm1(-key->error) : 0;
    }
}

/* Sums up the output; sums and division err by summing(n) + 4 units of the sum of w |v| and of |y|,
   and weights below 2^-126 may become 0. */
static void sum_up(const struct oracle_query *query, double sink_moves, double *output,
                   double *error) {
    double units = (summing(query, query->count) + 4) * query->unit;
    for (int64_t d = 0; d < query->value_dim; d++)
        output[d] = error[d] = 0;
    for (int64_t j = 0; j < query->count; j++) {
        const struct oracle_key *key = &query->keys[j];
        for (int64_t d = 0; d < query->value_dim && key->weight != 0; d++)
            output[d] += key->weight * key->v[d];
    }
    for (int64_t j = 0; j < query->count; j++) {
        const struct oracle_key *key = &query->keys[j];
        for (int64_t d = 0; d < query->value_dim && key->most != 0; d++)
            error[d] += (units * key->most + 0x1p-125) * fabs(key->v[d]) +
                        key->moved * fabs(key->v[d] - output[d]);
    }
    for (int64_t d = 0; d < query->value_dim; d++)
        error[d] += (units + sink_moves) * fabs(output[d]);
}

/* Like fmax, without a call. */
static double larger(double x, double largest) {
    return x > largest ? x : largest;
}

/* Returns the largest magnitude that values of a group can have: with codes, that of the largest
   code. */
static double extreme_of(const struct oracle_query *query, const double *v, int64_t from,
                         int64_t group) {
    double extreme = query->least;
    for (int64_t d = from; d < from + group; d++)
        extreme = larger(fabs(v[d]), extreme);
    return extreme;
}

/* Adds the roundings of weights and sums, group by group, because dims of small codes lose a share
   of the larger dims of their group. */
static void count_roundings(const struct oracle_query *query, double sink, double *error) {
    const struct oracle_rounding *rounding = &query->rounding;
    bool codes = query->group > 0 && rounding->weight > 0;
    int64_t group = codes ? query->group : 1;
    for (int64_t from = 0; (codes || rounding->sum > 0) && from < query->value_dim; from += group) {
        double all = 0, most = 0, heaviest = sink, size = 0;
        for (int64_t j = 0; j < query->count; j++) {
            const struct oracle_key *key = &query->keys[j];
            double extreme = key->most != 0 ? extreme_of(query, key->v, from, group) : 0;
            all += key->most * extreme;
            most = larger(key->most * extreme, most);
            heaviest = larger(key->most, heaviest);
            size = larger(extreme, size);
        }
        double lost = rounding->weight * fmin(64 * all, summing(query, query->count) * most) +
                      rounding->sum * all +
                      rounding->least * (double)query->count * heaviest * (1 + size);
        for (int64_t d = from; d < from + group; d++)
            error[d] += lost;
    }
}

static void see_nothing(const struct oracle_query *query, struct oracle_answer *answer) {
    for (int64_t j = 0; j < query->count; j++)
        query->keys[j].weight = 0;
    for (int64_t d = 0; d < query->value_dim; d++)
        answer->output[d] = answer->error[d] = 0;
    answer->lse = -INFINITY;
    answer->lse_error = 0;
}

bool oracle_query_attend(const struct oracle_query *query, struct oracle_answer *answer) {
    double largest = find_scores(query), sink;
    if (largest == -INFINITY) {
        see_nothing(query, answer);
        return false;
    }
    double total = share(query, largest, &sink);
    double moved = sink * relative(query, query->sink, largest);
    move_weights(query, largest, total);
    sum_up(query, moved, answer->output, answer->error);
    count_roundings(query, sink, answer->error);
    for (int64_t j = 0; j < query->count; j++)
        moved += query->keys[j].moved;
    answer->lse = largest + log(total);
    answer->lse_error =
        moved + query->unit * (summing(query, query->count) + 8 + 4 * fabs(answer->lse));
    return true;
}
