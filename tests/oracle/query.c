/* SPDX-License-Identifier: Apache-2.0 */
#include "query.h"

#include <math.h>
#include <stddef.h>

double oracle_alibi_slope(int64_t heads, int64_t head) {
    int64_t power = 1;
    while (power * 2 <= heads)
        power *= 2;
    if (head < power)
        return pow(2, -8.0 * (double)(head + 1) / (double)power);
    return pow(2, -4.0 * (double)(2 * (head - power) + 1) / (double)power);
}

/* Returns the error of a sum of n terms: in units, half the distance between 1 and its neighbour,
   and as a share of the sum of magnitudes.  The bound that always holds, n, is useless for long
   caches: it would hide a lost token.  Rounding errors are independent enough that 8 * sqrt(n) is
   not exceeded either (Higham and Mary, 2019). */
static double summing(int64_t n) {
    double root = 8 * sqrt((double)n);
    return (double)n < root ? (double)n : root;
}

/* Computes a score and the bound of its error in float arithmetic:
   - sum over dim, with roundings of query * scale, code * scale and each product: summing(dim) + 4
     units of the sum of magnitudes;
   - softcap: tanh is at most as steep as the identity, and errs by at most 8 units of the cap;
   - bias (slope, product and sum): 4 units of each magnitude that is added;
   - subtraction of the largest score: relative() counts a unit of either. */
static void find_score(const struct oracle_query *query, struct oracle_key *key) {
    bool wanted = key->k != NULL && (!key->hidden || query->all_scores);
    double magnitude = 0;
    key->raw = 0;
    for (int64_t i = 0; wanted && i < query->dim; i++) {
        double product = query->numbers[i] * key->k[i] * query->scale;
        key->raw += product;
        magnitude += fabs(product);
    }
    key->capped = key->raw;
    key->raw_error = key->error = (summing(query->dim) + 4) * query->unit * magnitude;
    if (query->softcap != 0) {
        key->capped = query->softcap * tanh(key->raw / query->softcap);
        key->error += 8 * query->unit * query->softcap;
    }
    key->error += key->hidden || isinf(key->size) ? 0 : 4 * query->unit * key->size;
    key->score = key->hidden ? -INFINITY : key->capped + key->bias;
}

/* Computes the scores of all keys; returns the largest, also of the sink. */
static double find_scores(const struct oracle_query *query) {
    double largest = query->sink;
    for (int64_t j = 0; j < query->count; j++) {
        struct oracle_key *key = &query->keys[j];
        find_score(query, key);
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

/* Sums up the output.  An error e of a weight w moves the result y by w e |v - y|; sums and
   division err by summing(n) + 4 units of the sum of w |v| and of |y|. */
static void sum_up(const struct oracle_query *query, double sink_moves, double *output,
                   double *error) {
    double units = (summing(query->count) + 4) * query->unit;
    for (int64_t d = 0; d < query->value_dim; d++)
        output[d] = error[d] = 0;
    for (int64_t j = 0; j < query->count; j++) {
        const struct oracle_key *key = &query->keys[j];
        for (int64_t d = 0; d < query->value_dim && key->weight != 0; d++)
            output[d] += key->weight * key->v[d];
    }
    for (int64_t j = 0; j < query->count; j++) {
        const struct oracle_key *key = &query->keys[j];
        double of_value = units * key->weight, of_weight = key->weight * key->error;
        for (int64_t d = 0; d < query->value_dim && key->weight != 0; d++)
            error[d] += of_value * fabs(key->v[d]) + of_weight * fabs(key->v[d] - output[d]);
    }
    for (int64_t d = 0; d < query->value_dim; d++)
        error[d] += (units + sink_moves) * fabs(output[d]);
}

/* Like fmax, without a call. */
static double larger(double x, double largest) {
    return x > largest ? x : largest;
}

/* Returns the largest weight times value, which is 127 scales. */
static double largest_share(const struct oracle_query *query, int64_t from) {
    double largest = 0;
    for (int64_t j = 0; j < query->count; j++) {
        const struct oracle_key *key = &query->keys[j];
        double extreme = query->least;
        for (int64_t d = from; d < from + query->group && key->weight != 0; d++)
            extreme = larger(fabs(key->v[d]), extreme);
        largest = larger(key->weight * extreme, largest);
    }
    return largest;
}

/* Adds the error of weights that are integers, in units of 2^-24 of the largest weight times scale:
   dims of small codes lose a share of the larger dims of their group. */
static void count_digits(const struct oracle_query *query, double *error) {
    for (int64_t from = 0; query->group > 0 && from < query->value_dim; from += query->group) {
        double lost = summing(query->count) * query->unit * largest_share(query, from);
        for (int64_t d = from; d < from + query->group; d++)
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
    sum_up(query, moved, answer->output, answer->error);
    count_digits(query, answer->error);
    for (int64_t j = 0; j < query->count; j++)
        moved += query->keys[j].weight * query->keys[j].error;
    answer->lse = largest + log(total);
    answer->lse_error = moved + query->unit * (summing(query->count) + 8 + 4 * fabs(answer->lse));
    return true;
}
