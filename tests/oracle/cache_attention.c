/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_attention.h"

#include <math.h>
#include <stdlib.h>

/* ---- Store and load ---- */

int64_t oracle_slot_of_head(const struct oracle_attention *problem, int64_t sequence,
                            int64_t kv_head, int64_t position) {
    int64_t list = problem->lists > 0 ? sequence * problem->lists + kv_head : sequence;
    if (problem->ring > 0)
        position %= problem->ring;
    if (!problem->cache.dynamic)
        return position;
    if (problem->pages == 0)
        return problem->cachestarts[sequence] + position;
    return problem->cachestarts[list * problem->pages + position / problem->page_size] +
           position % problem->page_size;
}

int64_t oracle_slot(const struct oracle_attention *problem, int64_t sequence, int64_t position) {
    return oracle_slot_of_head(problem, sequence, 0, position);
}

static int64_t row_at(const struct oracle_attention *problem, bool value, int64_t sequence,
                      int64_t position, int64_t kv_head) {
    int64_t side = value && problem->cache.sides == 2;
    return oracle_row(&problem->cache, sequence, problem->layer, side,
                      oracle_slot_of_head(problem, sequence, kv_head, position), kv_head);
}

static void get_row(enum oracle_type type, const unsigned char *array, int64_t row, int64_t dim,
                    double *numbers) {
    for (int64_t i = 0; i < dim; i++)
        numbers[i] = oracle_get(type, array, row * dim + i);
}

/* The token's number is among all. */
static void store_side(const struct oracle_attention *problem, bool value, int64_t sequence,
                       int64_t t) {
    const struct oracle_side *side = value ? &problem->value : &problem->key;
    const unsigned char *current = value ? problem->current_value : problem->current_key;
    double *numbers = malloc((size_t)side->dim * sizeof *numbers);
    int64_t position = problem->start_pos[sequence] + t - problem->seqstarts[sequence];
    for (int64_t h = 0; h < problem->kv_heads; h++) {
        get_row(problem->activation, current, t * problem->kv_heads + h, side->dim, numbers);
        oracle_write_row(side, problem->activation, row_at(problem, value, sequence, position, h),
                         numbers);
    }
    free(numbers);
}

static void store_token(const struct oracle_attention *problem, int64_t sequence, int64_t t) {
    store_side(problem, false, sequence, t);
    if (!problem->value_view)
        store_side(problem, true, sequence, t);
}

static void store_sequence(const struct oracle_attention *problem, int64_t sequence) {
    for (int64_t t = problem->seqstarts[sequence]; t < problem->seqstarts[sequence + 1]; t++)
        store_token(problem, sequence, t);
}

void oracle_store(const struct oracle_attention *problem) {
    for (int64_t b = 0; b < problem->sequences; b++)
        store_sequence(problem, b);
}

static int64_t length_of(const struct oracle_attention *problem, int64_t sequence) {
    return problem->kvstarts[sequence + 1] - problem->kvstarts[sequence];
}

/* Positions that the cache no longer has. */
static int64_t lost_of(const struct oracle_attention *problem, int64_t sequence) {
    int64_t length = length_of(problem, sequence), ring = problem->ring;
    return ring > 0 && length > ring ? length - ring : 0;
}

/* `to`: the first row of the output. */
static void load_side(const struct oracle_attention *problem, bool value, int64_t sequence,
                      int64_t to, unsigned char *output) {
    const struct oracle_side *side = value ? &problem->value : &problem->key;
    double *numbers = malloc((size_t)side->dim * sizeof *numbers);
    int64_t heads = problem->kv_heads * problem->repeat;
    for (int64_t j = lost_of(problem, sequence); j < length_of(problem, sequence); j++)
        for (int64_t h = 0; h < heads; h++, to++) {
            oracle_read_row(side, problem->activation,
                            row_at(problem, value, sequence, j, h / problem->repeat), numbers);
            for (int64_t i = 0; i < side->dim; i++)
                oracle_put(problem->activation, output, to * side->dim + i, numbers[i]);
        }
    free(numbers);
}

void oracle_load(const struct oracle_attention *problem, unsigned char *key, unsigned char *value) {
    int64_t to = 0, heads = problem->kv_heads * problem->repeat;
    for (int64_t b = 0; b < problem->sequences; b++) {
        load_side(problem, false, b, to, key);
        load_side(problem, true, b, to, value);
        to += (length_of(problem, b) - lost_of(problem, b)) * heads;
    }
}

/* ---- Attention ---- */

double oracle_alibi_slope(int64_t heads, int64_t head) {
    int64_t power = 1;
    while (power * 2 <= heads)
        power *= 2;
    if (head < power)
        return pow(2, -8.0 * (double)(head + 1) / (double)power);
    return pow(2, -4.0 * (double)(2 * (head - power) + 1) / (double)power);
}

/* One query row, and what it sees. */
struct query {
    int64_t sequence, token, head; /* the token's number among all */
    int64_t position, length;
    const double *key, *value; /* [length, dim] */
    double *numbers;           /* of the query */
    double *weight, *error;    /* [length + 1], the last one of the sink */
};

/* Later keys are hidden. */
static bool is_causal(const struct oracle_attention *problem, int64_t sequence) {
    int64_t tokens = problem->seqstarts[sequence + 1] - problem->seqstarts[sequence];
    return problem->alibi || (problem->causal && tokens > 1 && sequence >= problem->decoding);
}

static bool is_visible(const struct oracle_attention *problem, const struct query *query,
                       int64_t j) {
    bool causal = is_causal(problem, query->sequence);
    int64_t end = causal ? query->position + 1 : query->length;
    if (j >= end || (problem->ring > 0 && j < end - problem->ring))
        return false;
    return problem->window == 0 || j > query->position - problem->window;
}

static double mask_at(const struct oracle_attention *problem, const struct query *query,
                      int64_t j) {
    if (problem->mask == NULL)
        return 0;
    return oracle_get(problem->activation, problem->mask,
                      query->sequence * problem->mask_sequence + query->head * problem->mask_head +
                          query->token * problem->mask_token +
                          problem->kvstarts[query->sequence] * problem->mask_kv + j);
}

static double alibi_at(const struct oracle_attention *problem, const struct query *query,
                       int64_t j) {
    if (!problem->alibi)
        return 0;
    int64_t heads = problem->alibi_heads != 0 ? problem->alibi_heads : problem->heads;
    int64_t distance = problem->distances != NULL
                           ? problem->distances[problem->kvstarts[query->sequence] + j]
                           : j - query->position;
    return problem->alibi_scale * oracle_alibi_slope(heads, problem->alibi_first + query->head) *
           (double)distance;
}

/* Half the distance of float32 neighbours of 1, and how many of these a sum of n float32 terms may
   err, as a share of the sum of their magnitudes.  The bound that always holds, n, is useless for
   long caches: it would hide a lost token.  Rounding errors are independent enough that sqrt(n)
   with a factor of 8 is not exceeded either (Higham and Mary, 2019). */
static const double unit = 0x1p-24;

static double summing(int64_t n) {
    double root = 8 * sqrt((double)n);
    return (double)n < root ? (double)n : root;
}

/* The score of position j, and what float32 may err in it:
   - the sum over dim, with roundings of query * scale, of code * scale and of the product each
   time: summing(dim)
     + 4 units of the sum of magnitudes;
   - softcap: tanh is steep at most like the identity, and good to 8 units of the cap;
   - bias: slope, product and sum: 4 units of each magnitude that is added;
   - what the largest score is subtracted from it: a unit of either is counted in `share`. */
static double score_at(const struct oracle_attention *problem, const struct query *query, int64_t j,
                       double *error) {
    int64_t dim = problem->key.dim;
    double sum = 0, magnitude = 0;
    for (int64_t i = 0; i < dim; i++) {
        double product = query->numbers[i] * query->key[j * dim + i] * problem->scale;
        sum += product;
        magnitude += fabs(product);
    }
    *error = (summing(dim) + 4) * unit * magnitude;
    if (problem->softcap != 0) {
        sum = problem->softcap * tanh(sum / problem->softcap);
        *error += 8 * unit * problem->softcap;
    }
    double alibi = alibi_at(problem, query, j), mask = mask_at(problem, query, j);
    *error += isinf(mask) ? 0 : 4 * unit * (fabs(alibi) + fabs(mask));
    return sum + alibi + mask;
}

/* Scores of all visible positions, -infinity of the others, and of the sink; the largest. */
static double find_scores(const struct oracle_attention *problem, const struct query *query) {
    double largest = -INFINITY;
    int64_t sink = query->length;
    for (int64_t j = 0; j < query->length; j++) {
        query->weight[j] = -INFINITY;
        query->error[j] = 0;
        if (is_visible(problem, query, j))
            query->weight[j] = score_at(problem, query, j, &query->error[j]);
    }
    query->error[sink] = 0;
    query->weight[sink] = problem->sinks == NULL
                              ? -INFINITY
                              : oracle_get(problem->sinks_type, problem->sinks, query->head);
    for (int64_t j = 0; j <= sink; j++)
        if (isnan(query->weight[j]) || query->weight[j] > largest)
            largest = query->weight[j];
    return largest;
}

/* Scores become shares of the whole; their error becomes relative: exp turns an absolute error into
   that, and itself, its argument's subtraction and rescaling when a larger score comes err by no
   more than 64 units and 2 of the scores' magnitudes. */
static double share(const struct query *query, double largest) {
    double total = 0;
    for (int64_t j = 0; j <= query->length; j++) {
        double *weight = &query->weight[j], magnitude = fabs(*weight) + fabs(largest);
        query->error[j] += isinf(*weight) ? 0 : unit * (64 + 2 * magnitude);
        *weight = *weight == -INFINITY ? 0 : exp(*weight - largest);
        total += *weight;
    }
    for (int64_t j = 0; j <= query->length; j++)
        query->weight[j] /= total;
    return total;
}

/* Errors of the weights w move the result y by sum of w e |v - y|, sums and division by summing(n)
   + 4 units of sum of w |v| and of |y|. */
static void weigh(const struct oracle_attention *problem, const struct query *query, double *output,
                  double *error) {
    int64_t dim = problem->value.dim, sink = query->length;
    double units = (summing(query->length) + 4) * unit;
    for (int64_t d = 0; d < dim; d++)
        output[d] = error[d] = 0;
    for (int64_t j = 0; j < query->length; j++)
        for (int64_t d = 0; d < dim && query->weight[j] != 0; d++) {
            output[d] += query->weight[j] * query->value[j * dim + d];
            error[d] += units * query->weight[j] * fabs(query->value[j * dim + d]);
        }
    for (int64_t j = 0; j < query->length; j++)
        for (int64_t d = 0; d < dim && query->weight[j] != 0; d++)
            error[d] +=
                query->weight[j] * query->error[j] * fabs(query->value[j * dim + d] - output[d]);
    for (int64_t d = 0; d < dim; d++)
        error[d] += (units + query->weight[sink] * query->error[sink]) * fabs(output[d]);
}

/* Elements that share a scale; 0 where there are no scales. */
static int64_t group_of(const struct oracle_side *side) {
    return oracle_is_blocks(side->type)    ? ORACLE_BLOCK
           : oracle_is_integer(side->type) ? side->group
                                           : 0;
}

/* Like fmax, no call. */
static double larger(double x, double largest) {
    return x > largest ? x : largest;
}

/* The largest weight times value, which is 127 scales; no scale is below 1e-5. */
static double largest_share(const struct oracle_attention *problem, const struct query *query,
                            int64_t from, int64_t count) {
    double largest = 0, least = oracle_is_integer(problem->value.type) ? 127e-5 : 0;
    for (int64_t j = 0; j < query->length; j++) {
        const double *value = query->value + j * problem->value.dim + from;
        double extreme = least;
        for (int64_t d = 0; d < count && query->weight[j] != 0; d++)
            extreme = larger(fabs(value[d]), extreme);
        largest = larger(query->weight[j] * extreme, largest);
    }
    return largest;
}

/* Weights of codes may be integers, a unit being 2^-24 of the largest weight times scale there is:
   what dims of small codes lose is a share of what others of their group have. */
static void count_digits(const struct oracle_attention *problem, const struct query *query,
                         double *error) {
    int64_t group = group_of(&problem->value);
    for (int64_t from = 0; group > 0 && from < problem->value.dim; from += group) {
        double lost = summing(query->length) * unit * largest_share(problem, query, from, group);
        for (int64_t d = from; d < from + group; d++)
            error[d] += lost;
    }
}

static void attend_row(const struct oracle_attention *problem, const struct query *query,
                       const struct oracle_result *result) {
    int64_t row = query->token * problem->heads + query->head, dim = problem->value.dim;
    double largest = find_scores(problem, query);
    bool empty = largest == -INFINITY;
    double total = empty ? 0 : share(query, largest), moved = 0;
    if (!empty)
        weigh(problem, query, result->output + row * dim, result->output_error + row * dim);
    if (!empty)
        count_digits(problem, query, result->output_error + row * dim);
    for (int64_t d = 0; d < dim && empty; d++) {
        result->output[row * dim + d] = problem->empty_is_nan ? NAN : 0;
        result->output_error[row * dim + d] = 0;
    }
    for (int64_t j = 0; j <= query->length && !empty; j++)
        moved += query->weight[j] * query->error[j];
    result->lse[row] = empty ? -INFINITY : largest + log(total);
    result->lse_error[row] =
        empty ? 0 : moved + unit * (summing(query->length) + 8 + 4 * fabs(result->lse[row]));
}

static double *read_rows(const struct oracle_attention *problem, bool value, int64_t sequence,
                         int64_t kv_head) {
    const struct oracle_side *side = value ? &problem->value : &problem->key;
    int64_t length = length_of(problem, sequence);
    double *numbers = malloc((size_t)(length * side->dim + 1) * sizeof *numbers);
    for (int64_t j = 0; j < length; j++)
        oracle_read_row_exact(side, row_at(problem, value, sequence, j, kv_head),
                              numbers + j * side->dim);
    return numbers;
}

/* The first elements of each row of keys. */
static double *view_rows(const struct oracle_attention *problem, int64_t sequence,
                         const double *key) {
    int64_t length = length_of(problem, sequence), dim = problem->value.dim;
    double *numbers = malloc((size_t)(length * dim + 1) * sizeof *numbers);
    for (int64_t i = 0; i < length * dim; i++)
        numbers[i] = key[i / dim * problem->key.dim + i % dim];
    return numbers;
}

/* Tokens [first, last) of all. */
static void attend_head(const struct oracle_attention *problem, struct query *query, int64_t first,
                        int64_t last, const struct oracle_result *result) {
    int64_t end = problem->seqstarts[query->sequence + 1];
    for (query->token = first; query->token < last; query->token++) {
        query->position = query->length - (end - query->token);
        get_row(problem->activation, problem->query, query->token * problem->heads + query->head,
                problem->key.dim, query->numbers);
        attend_row(problem, query, result);
    }
}

/* All query heads of a kv head. */
static void attend_group(const struct oracle_attention *problem, int64_t sequence, int64_t kv_head,
                         int64_t first, int64_t last, const struct oracle_result *result) {
    int64_t length = length_of(problem, sequence), ratio = problem->heads / problem->kv_heads;
    double *key = read_rows(problem, false, sequence, kv_head);
    double *value = problem->value_view ? view_rows(problem, sequence, key)
                                        : read_rows(problem, true, sequence, kv_head);
    double *scratch = malloc((size_t)(problem->key.dim + 2 * (length + 1)) * sizeof *scratch);
    struct query query = {.sequence = sequence,
                          .length = length,
                          .key = key,
                          .value = value,
                          .numbers = scratch,
                          .weight = scratch + problem->key.dim,
                          .error = scratch + problem->key.dim + length + 1};
    for (query.head = kv_head * ratio; query.head < (kv_head + 1) * ratio; query.head++)
        attend_head(problem, &query, first, last, result);
    free(scratch);
    free(value);
    free(key);
}

static void attend_tokens(const struct oracle_attention *problem, int64_t sequence, int64_t first,
                          int64_t last, const struct oracle_result *result) {
    for (int64_t h = 0; h < problem->kv_heads; h++)
        attend_group(problem, sequence, h, first, last, result);
}

void oracle_attend(const struct oracle_attention *problem, const struct oracle_result *result) {
    for (int64_t b = 0; b < problem->sequences; b++)
        attend_tokens(problem, b, problem->seqstarts[b], problem->seqstarts[b + 1], result);
}

static void step_by_token(const struct oracle_attention *problem, int64_t sequence,
                          const struct oracle_result *result) {
    for (int64_t t = problem->seqstarts[sequence]; t < problem->seqstarts[sequence + 1]; t++) {
        store_token(problem, sequence, t);
        attend_tokens(problem, sequence, t, t + 1, result);
    }
}

void oracle_step(const struct oracle_attention *problem, const struct oracle_result *result) {
    for (int64_t b = 0; b < problem->sequences; b++)
        if (problem->ring > 0 && is_causal(problem, b)) {
            step_by_token(problem, b, result);
        } else {
            store_sequence(problem, b);
            attend_tokens(problem, b, problem->seqstarts[b], problem->seqstarts[b + 1], result);
        }
}
