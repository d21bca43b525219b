/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_cache_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Store and load ---- */

int64_t oracle_slot(const struct oracle_attention *problem, int64_t sequence, int64_t kv_head,
                    int64_t position) {
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

int64_t oracle_row_of(const struct oracle_attention *problem, bool value, int64_t sequence,
                      int64_t slot, int64_t kv_head) {
    return oracle_row(&problem->cache, sequence, problem->layer, value && problem->cache.sides == 2,
                      slot, kv_head);
}

static int64_t row_at(const struct oracle_attention *problem, bool value, int64_t sequence,
                      int64_t position, int64_t kv_head) {
    return oracle_row_of(problem, value, sequence,
                         oracle_slot(problem, sequence, kv_head, position), kv_head);
}

static void get_row(enum oracle_type type, const unsigned char *array, int64_t row, int64_t dim,
                    double *numbers) {
    for (int64_t i = 0; i < dim; i++)
        numbers[i] = oracle_get(type, array, row * dim + i);
}

void oracle_store_row(const struct oracle_attention *problem, int64_t sequence, int64_t t,
                      int64_t kv_head, int64_t slot) {
    for (int v = 0; v < 2 - problem->value_view; v++) {
        const struct oracle_side *side = v ? &problem->value : &problem->key;
        double *numbers = malloc((size_t)side->dim * sizeof *numbers);
        get_row(problem->activation, v ? problem->current_value : problem->current_key,
                t * problem->kv_heads + kv_head, side->dim, numbers);
        oracle_write_row(side, problem->activation,
                         oracle_row_of(problem, v, sequence, slot, kv_head), numbers);
        free(numbers);
    }
}

static void store_token(const struct oracle_attention *problem, int64_t sequence, int64_t t) {
    int64_t position = problem->start_pos[sequence] + t - problem->seqstarts[sequence];
    for (int64_t h = 0; h < problem->kv_heads; h++)
        oracle_store_row(problem, sequence, t, h, oracle_slot(problem, sequence, h, position));
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

/* Returns how many positions the cache has lost. */
static int64_t lost_of(const struct oracle_attention *problem, int64_t sequence) {
    int64_t length = length_of(problem, sequence), ring = problem->ring;
    return ring > 0 && length > ring ? length - ring : 0;
}

/* Loads K or V of a sequence to the output from row `to` on. */
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

/* One query row and its keys. */
struct query {
    int64_t sequence, token, head; /* the token's number among all */
    int64_t position, length;
    double *numbers;
    struct oracle_key *keys; /* [length] */
};

/* Whether later keys are hidden. */
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

double oracle_alibi(const struct oracle_attention *problem, int64_t head, int64_t distance) {
    int64_t heads = problem->alibi_heads != 0 ? problem->alibi_heads : problem->heads;
    return problem->alibi
               ? problem->alibi_scale * oracle_alibi_slope(heads, problem->alibi_first + head) *
                     (double)distance
               : 0;
}

/* Sets which positions the query attends to, and what is added to their scores. */
static void look(const struct oracle_attention *problem, const struct query *query) {
    for (int64_t j = 0; j < query->length; j++) {
        struct oracle_key *key = &query->keys[j];
        key->hidden = !is_visible(problem, query, j);
        key->bias = key->size = 0;
        if (key->hidden)
            continue;
        double alibi = oracle_alibi(problem, query->head, j - query->position),
               mask = mask_at(problem, query, j);
        key->bias = alibi + mask;
        key->size = fabs(alibi) + fabs(mask);
    }
}

int64_t oracle_group_of(const struct oracle_side *side) {
    return oracle_is_blocks(side->type)    ? oracle_block(side->type, side->dim)
           : oracle_is_integer(side->type) ? side->group
                                           : 0;
}

void oracle_attend_keys(const struct oracle_attention *problem, int64_t head, const double *query,
                        struct oracle_key *keys, int64_t count, struct oracle_answer *answer) {
    const struct oracle_query asked = {
        .dim = problem->key.dim,
        .value_dim = problem->value.dim,
        .count = count,
        .numbers = query,
        .keys = keys,
        .scale = problem->scale,
        .softcap = problem->softcap,
        .sink = problem->sinks == NULL ? -INFINITY
                                       : oracle_get(problem->sinks_type, problem->sinks, head),
        .unit = 0x1p-24,
        .rounding = oracle_rounding_of(problem->math, oracle_group_of(&problem->key) > 0,
                                       oracle_group_of(&problem->value) > 0),
        .group = oracle_group_of(&problem->value),
        .least = oracle_is_integer(problem->value.type) ? 127e-5 : 0, /* 1e-5: the least scale */
    };
    bool empty = !oracle_query_attend(&asked, answer);
    for (int64_t d = 0; d < problem->value.dim && empty && problem->empty_is_nan; d++)
        answer->output[d] = NAN;
}

static void attend_row(const struct oracle_attention *problem, const struct query *query,
                       const struct oracle_result *result) {
    int64_t row = query->token * problem->heads + query->head, dim = problem->value.dim;
    struct oracle_answer answer = {result->output + row * dim, result->output_error + row * dim, 0,
                                   0};
    look(problem, query);
    oracle_attend_keys(problem, query->head, query->numbers, query->keys, query->length, &answer);
    result->lse[row] = answer.lse;
    result->lse_error[row] = answer.lse_error;
}

void oracle_see_row(const struct oracle_attention *problem, bool value, int64_t sequence,
                    int64_t slot, int64_t kv_head, double *numbers) {
    const struct oracle_side *side =
        value && !problem->value_view ? &problem->value : &problem->key;
    int64_t dim = value ? problem->value.dim : problem->key.dim;
    double *row = malloc((size_t)side->dim * sizeof *row);
    oracle_read_row_exact(side, oracle_row_of(problem, value, sequence, slot, kv_head), row);
    memcpy(numbers, row, (size_t)dim * sizeof *row);
    free(row);
}

static double *read_rows(const struct oracle_attention *problem, bool value, int64_t sequence,
                         int64_t kv_head) {
    int64_t length = length_of(problem, sequence);
    int64_t dim = value ? problem->value.dim : problem->key.dim;
    double *numbers = malloc((size_t)(length * dim + 1) * sizeof *numbers);
    for (int64_t j = 0; j < length; j++)
        oracle_see_row(problem, value, sequence, oracle_slot(problem, sequence, kv_head, j),
                       kv_head, numbers + j * dim);
    return numbers;
}

/* Attends for tokens [first, last); they count through all sequences. */
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

/* Attends for all query heads of a kv head. */
static void attend_group(const struct oracle_attention *problem, int64_t sequence, int64_t kv_head,
                         int64_t first, int64_t last, const struct oracle_result *result) {
    int64_t length = length_of(problem, sequence), ratio = problem->heads / problem->kv_heads;
    double *key = read_rows(problem, false, sequence, kv_head);
    double *value = read_rows(problem, true, sequence, kv_head);
    struct query query = {.sequence = sequence,
                          .length = length,
                          .numbers = malloc((size_t)problem->key.dim * sizeof *query.numbers),
                          .keys = calloc((size_t)length + 1, sizeof *query.keys)};
    for (int64_t j = 0; j < length; j++) {
        query.keys[j].k = key + j * problem->key.dim;
        query.keys[j].v = value + j * problem->value.dim;
    }
    for (query.head = kv_head * ratio; query.head < (kv_head + 1) * ratio; query.head++)
        attend_head(problem, &query, first, last, result);
    free(query.keys);
    free(query.numbers);
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
