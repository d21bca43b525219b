/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "group_query.h"
#include "halves.h"

/* ---- Numbers ---- */

static void set_numbers(void *to, bool half, const float *numbers, int64_t count) {
    uint16_t *halves = to;
    if (!half)
        memcpy(to, numbers, (size_t)count * sizeof *numbers);
    for (int64_t i = 0; half && i < count; i++)
        halves[i] = half_of(numbers[i]);
}

static void get_numbers(float *numbers, const void *from, bool half, int64_t count) {
    const uint16_t *halves = from;
    if (!half)
        memcpy(numbers, from, (size_t)count * sizeof *numbers);
    for (int64_t i = 0; half && i < count; i++)
        numbers[i] = half_value(halves[i]);
}

/* Returns head h in a token's row. */
static const unsigned char *head_of(const struct kvmill_group_query_heads *heads,
                                    const unsigned char *rows, int64_t step, int64_t token,
                                    int64_t h) {
    return rows + (token * step + h * heads->dim) * group_query_number_bytes(heads->half);
}

/* ---- Rotary embedding ---- */

/* Sets the turns of a token: cosines, then sines. */
static void set_angles(const struct group_query_call *call, int64_t token) {
    int64_t pairs = call->rotated / 2, place = call->angles[token] * pairs;
    float *to = call->turns + token * call->rotated;
    int64_t at = place * group_query_number_bytes(call->heads.half);
    get_numbers(to, call->cos + at, call->heads.half, pairs);
    get_numbers(to + pairs, call->sin + at, call->heads.half, pairs);
}

/* Rotates pairs.  step: from pair to pair; apart: from a pair's first number to its second. */
static void turn(float *numbers, const float *turns, int64_t pairs, int64_t step, int64_t apart) {
    for (int64_t i = 0; i < pairs; i++) {
        float cosine = turns[i], sine = turns[pairs + i];
        float x = numbers[i * step], y = numbers[i * step + apart];
        numbers[i * step] = x * cosine - y * sine;
        numbers[i * step + apart] = y * cosine + x * sine;
    }
}

/* Rotates, and rounds the results to the type of queries. */
static void rotate(const struct group_query_call *call, int64_t token, float *numbers) {
    const float *turns = call->turns + token * call->rotated;
    int64_t pairs = call->rotated / 2;
    if (call->interleaved)
        turn(numbers, turns, pairs, 2, 1);
    else
        turn(numbers, turns, pairs, 1, pairs);
    for (int64_t i = 0; call->heads.half && i < call->rotated; i++)
        numbers[i] = half_value(half_of(numbers[i]));
}

/* Reads a head into the token's scratch memory. */
static float *read_head(const struct group_query_call *call, const unsigned char *head,
                        int64_t token, bool rotates) {
    float *numbers = call->numbers + token * call->heads.dim;
    get_numbers(numbers, head, call->heads.half, call->heads.dim);
    if (rotates && call->angles != NULL)
        rotate(call, token, numbers);
    return numbers;
}

/* ---- Scales ---- */

/* Returns the scales of a head's channels. */
static const float *scales_of(const struct group_query_side *side, int64_t head) {
    return side->scale + head * side->scale_head;
}

static void multiply(float *numbers, const struct group_query_side *side, int64_t head,
                     int64_t count) {
    const float *scales = scales_of(side, head);
    for (int64_t i = 0; side->by_channel && i < count; i++)
        numbers[i] *= scales[i];
    for (int64_t i = 0; !side->by_channel && i < count; i++)
        numbers[i] *= scales[0];
}

/* Returns the nearest integer from -most - 1 to most, ties to even: adding 1.5 * 2^23 leaves no
   bits for fractions. */
static inline float code_of(float number, float scale, float most) {
    float code = number / scale, whole = 0x1.8p23f;
    code = code > -most - 1 ? code : -most - 1;
    code = code < most ? code : most;
    return (code + whole) - whole;
}

static void quantise(float *numbers, const struct group_query_side *side, int64_t head,
                     int64_t count, float most) {
    const float *scales = scales_of(side, head);
    for (int64_t i = 0; side->by_channel && i < count; i++)
        numbers[i] = code_of(numbers[i], scales[i], most);
    for (int64_t i = 0; !side->by_channel && i < count; i++)
        numbers[i] = code_of(numbers[i], scales[0], most);
}

/* ---- Caches ---- */

static void set_codes(unsigned char *row, const float *codes, int64_t count, int bits) {
    for (int64_t i = 0; bits == 8 && i < count; i++)
        row[i] = (unsigned char)(int)codes[i];
    for (int64_t i = 0; bits == 4 && i < count; i += 2)
        row[i / 2] = (unsigned char)(((int)codes[i] + 8) | ((int)codes[i + 1] + 8) << 4);
}

/* Returns the number of a token's row in the cache. */
static int64_t slot_of(const struct group_query_call *call, int64_t token, int64_t g) {
    int64_t b = token / call->tokens, slot = call->starts[b] + token % call->tokens;
    return (b * call->heads.kv_heads + g) * call->capacity + slot;
}

/* Returns the place of a new row: in the cache, or among the rows that are converted to blocks. */
static unsigned char *row_of(const struct group_query_call *call,
                             const struct group_query_side *side, int64_t token, int64_t g) {
    const struct kvmill_group_query_heads *heads = &call->heads;
    if (side->fresh != NULL)
        return side->fresh +
               (token * heads->kv_heads + g) * heads->dim * group_query_number_bytes(heads->half);
    return side->present + slot_of(call, token, g) * side->row_bytes;
}

static void store_head(const struct group_query_call *call, const struct group_query_side *side,
                       int64_t token, int64_t g, bool rotates) {
    const struct kvmill_group_query_heads *heads = &call->heads;
    unsigned char *row = row_of(call, side, token, g);
    const unsigned char *head = head_of(heads, side->rows, side->row_step, token, g);
    if (side->scale == NULL && (!rotates || call->angles == NULL)) {
        memcpy(row, head, (size_t)(heads->dim * group_query_number_bytes(heads->half)));
        return;
    }
    float *numbers = read_head(call, head, token, rotates);
    if (side->scale == NULL) {
        set_numbers(row, heads->half, numbers, heads->dim);
        return;
    }
    quantise(numbers, side, g, heads->dim, (float)((1 << (heads->bits - 1)) - 1));
    set_codes(row, numbers, heads->dim, heads->bits);
}

/* Prepares a head of a query: rotates it, and multiplies it by the scales of keys. */
static void ready_head(const struct group_query_call *call, int64_t token, int64_t h) {
    const struct kvmill_group_query_heads *heads = &call->heads;
    const struct group_query_side *key = &call->key;
    bool half = heads->half && key->scale == NULL;
    unsigned char *to =
        call->ready + (token * heads->heads + h) * heads->dim * group_query_number_bytes(half);
    float *numbers =
        read_head(call, head_of(heads, call->query, call->query_step, token, h), token, true);
    if (key->scale != NULL)
        multiply(numbers, key, h / (heads->heads / heads->kv_heads), heads->dim);
    set_numbers(to, half, numbers, heads->dim);
}

void group_query_store(void *data, int64_t token) {
    const struct group_query_call *call = data;
    int64_t b = token / call->tokens;
    bool is_new = call->fresh > 0 && call->starts[b] + token % call->tokens < call->lengths[b];
    if (call->angles != NULL)
        set_angles(call, token);
    for (int64_t g = 0; call->slots != NULL && g < call->heads.kv_heads; g++)
        call->slots[token * call->heads.kv_heads + g] = is_new ? slot_of(call, token, g) : -1;
    for (int64_t g = 0; is_new && g < call->heads.kv_heads; g++) {
        store_head(call, &call->key, token, g, true);
        store_head(call, &call->value, token, g, false);
    }
    for (int64_t h = 0; call->ready != NULL && h < call->heads.heads; h++)
        ready_head(call, token, h);
}

static void keep_side(const struct group_query_call *call, const struct group_query_side *side,
                      int64_t part) {
    int64_t b = part / call->heads.kv_heads, row = side->row_bytes;
    unsigned char *present = side->present + part * call->capacity * row;
    if (side->past != NULL && call->kept[b] > 0)
        memmove(present, side->past + (part * call->past_rows + call->dropped[b]) * row,
                (size_t)(call->kept[b] * row));
    if (side->past == side->present)
        return;
    memset(present + call->lengths[b] * row, 0,
           (size_t)((call->capacity - call->lengths[b]) * row));
}

void group_query_keep(void *data, int64_t part) {
    const struct group_query_call *call = data;
    keep_side(call, &call->key, part);
    keep_side(call, &call->value, part);
}

/* The runtime adds 8 to 4-bit codes, and kvmill's are signed: the highest bit of each code is
   inverted. */
void group_query_decode(void *data, int64_t part) {
    const struct group_query_call *call = data;
    int64_t row = call->key.row_bytes, first = part * call->capacity * row;
    int64_t end = first + call->lengths[part / call->heads.kv_heads] * row;
    for (int64_t i = first; i < end; i++) {
        call->codes[0][i] = call->key.present[i] ^ 0x88;
        call->codes[1][i] = call->value.present[i] ^ 0x88;
    }
}

/* Multiplies results by the scales of values of kv head g, and converts them to the output's
   type. */
static void finish_head(const struct group_query_call *call, int64_t first, int64_t g) {
    const struct kvmill_group_query_heads *heads = &call->heads;
    float *results = call->results + first;
    multiply(results, &call->value, g, heads->dim);
    set_numbers(call->output + first * group_query_number_bytes(heads->half), heads->half, results,
                heads->dim);
}

void group_query_finish(void *data, int64_t token) {
    const struct group_query_call *call = data;
    const struct kvmill_group_query_heads *heads = &call->heads;
    int64_t ratio = heads->heads / heads->kv_heads;
    for (int64_t h = 0; h < heads->heads; h++)
        finish_head(call, (token * heads->heads + h) * heads->dim, h / ratio);
}
