/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "group_query.h"
#include "halves.h"

/* ---- Numbers ---- */

static void set_number(void *numbers, bool half, int64_t i, float number) {
    if (half)
        ((uint16_t *)numbers)[i] = half_of(number);
    else
        ((float *)numbers)[i] = number;
}

static int64_t number_bytes(bool half) {
    return half ? 2 : 4;
}

/* Head h of a token's row. */
static const unsigned char *head_of(const struct group_query_heads *heads,
                                    const unsigned char *rows, int64_t step, int64_t token,
                                    int64_t h) {
    return rows + (token * step + h * heads->dim) * number_bytes(heads->half);
}

/* ---- Rotary embedding ---- */

struct angle {
    float cos, sin;
};

static struct angle angle_of(const struct group_query_call *call, int64_t token, int64_t pair) {
    int64_t at = call->angles[token] * (call->rotated / 2) + pair;
    return (struct angle){number_at(call->cos, call->heads.half, at),
                          number_at(call->sin, call->heads.half, at)};
}

/* Element i of a token's head, rotated: a number of the type. */
static float rotated_at(const struct group_query_call *call, const unsigned char *head,
                        int64_t token, int64_t i) {
    bool half = call->heads.half;
    if (call->angles == NULL || i >= call->rotated)
        return number_at(head, half, i);
    int64_t pairs = call->rotated / 2;
    int64_t pair = call->interleaved ? i / 2 : i % pairs;
    int64_t first = call->interleaved ? pair * 2 : pair;
    int64_t second = call->interleaved ? first + 1 : first + pairs;
    struct angle angle = angle_of(call, token, pair);
    float x = number_at(head, half, first), y = number_at(head, half, second);
    float result = i == first ? x * angle.cos - y * angle.sin : y * angle.cos + x * angle.sin;
    return half ? half_value(half_of(result)) : result;
}

/* ---- Caches ---- */

static int64_t row_bytes(const struct group_query_heads *heads) {
    return heads->dim * heads->bits / 8;
}

static float scale_at(const struct group_query_side *side, int64_t head, int64_t i) {
    return side->scale[head * side->scale_head + i * side->scale_channel];
}

static int code_of(const struct group_query_side *side, int64_t head, int64_t i, float number,
                   int bits) {
    float most = (float)((1 << (bits - 1)) - 1), code = rintf(number / scale_at(side, head, i));
    return (int)(code >= most ? most : code > -most - 1 ? code : -most - 1);
}

static void set_element(const struct group_query_call *call, const struct group_query_side *side,
                        unsigned char *row, int64_t head, int64_t i, float number) {
    int bits = call->heads.bits;
    if (side->scale == NULL) {
        set_number(row, call->heads.half, i, number);
        return;
    }
    int code = code_of(side, head, i, number, bits);
    if (bits == 8)
        row[i] = (unsigned char)code;
    else if (i % 2 == 0)
        row[i / 2] = (unsigned char)(code + 8);
    else
        row[i / 2] |= (unsigned char)((code + 8) << 4);
}

static void store_head(const struct group_query_call *call, const struct group_query_side *side,
                       int64_t token, int64_t g, bool rotates) {
    int64_t b = token / call->tokens, slot = call->starts[b] + token % call->tokens;
    unsigned char *row = side->present + ((b * call->heads.kv_heads + g) * call->capacity + slot) *
                                             row_bytes(&call->heads);
    const unsigned char *head = head_of(&call->heads, side->rows, side->row_step, token, g);
    bool same = side->scale == NULL && (!rotates || call->angles == NULL);
    if (same)
        memcpy(row, head, (size_t)row_bytes(&call->heads));
    for (int64_t i = 0; !same && i < call->heads.dim; i++)
        set_element(call, side, row, g, i,
                    rotates ? rotated_at(call, head, token, i)
                            : number_at(head, call->heads.half, i));
}

/* Scales of keys go into the queries. */
static void ready_head(const struct group_query_call *call, int64_t token, int64_t h) {
    const struct group_query_heads *heads = &call->heads;
    const unsigned char *head = head_of(heads, call->query, call->query_step, token, h);
    const struct group_query_side *key = &call->key;
    bool half = heads->half && key->scale == NULL;
    unsigned char *to = call->ready + (token * heads->heads + h) * heads->dim * number_bytes(half);
    int64_t g = h / (heads->heads / heads->kv_heads);
    for (int64_t i = 0; i < heads->dim; i++) {
        float number = rotated_at(call, head, token, i);
        set_number(to, half, i, key->scale != NULL ? number * scale_at(key, g, i) : number);
    }
}

void group_query_store(void *data, int64_t token) {
    const struct group_query_call *call = data;
    int64_t b = token / call->tokens;
    bool is_new = call->starts[b] + token % call->tokens < call->lengths[b];
    for (int64_t g = 0; is_new && g < call->heads.kv_heads; g++) {
        store_head(call, &call->key, token, g, true);
        store_head(call, &call->value, token, g, false);
    }
    for (int64_t h = 0; call->ready != NULL && h < call->heads.heads; h++)
        ready_head(call, token, h);
}

static void keep_side(const struct group_query_call *call, const struct group_query_side *side,
                      int64_t part) {
    int64_t b = part / call->heads.kv_heads, row = row_bytes(&call->heads);
    unsigned char *present = side->present + part * call->capacity * row;
    if (side->past == side->present)
        return;
    if (side->past != NULL)
        memcpy(present, side->past + part * call->past_rows * row, (size_t)(call->starts[b] * row));
    memset(present + call->lengths[b] * row, 0,
           (size_t)((call->capacity - call->lengths[b]) * row));
}

void group_query_keep(void *data, int64_t part) {
    const struct group_query_call *call = data;
    keep_side(call, &call->key, part);
    keep_side(call, &call->value, part);
}

/* The runtime's codes are 8 more than the number, kvmill's have its sign: a bit is turned. */
void group_query_decode(void *data, int64_t part) {
    const struct group_query_call *call = data;
    int64_t row = row_bytes(&call->heads), first = part * call->capacity * row;
    int64_t end = first + call->lengths[part / call->heads.kv_heads] * row;
    for (int64_t i = first; i < end; i++) {
        call->codes[0][i] = call->key.present[i] ^ 0x88;
        call->codes[1][i] = call->value.present[i] ^ 0x88;
    }
}

/* Scales of values, of kv head g. */
static void finish_head(const struct group_query_call *call, int64_t first, int64_t g) {
    for (int64_t i = 0; i < call->heads.dim; i++)
        set_number(call->output, call->heads.half, first + i,
                   call->results[first + i] * scale_at(&call->value, g, i));
}

void group_query_finish(void *data, int64_t token) {
    const struct group_query_call *call = data;
    const struct group_query_heads *heads = &call->heads;
    int64_t ratio = heads->heads / heads->kv_heads;
    for (int64_t h = 0; h < heads->heads; h++)
        finish_head(call, (token * heads->heads + h) * heads->dim, h / ratio);
}
