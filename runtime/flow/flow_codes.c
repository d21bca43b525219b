/* Rows of new tokens that become codes with scales of their own: keys of an indexer.  The rule is
   that of DeepSeek-V3.2's act_quant and vLLM's indexer_k_quant_and_cache, for any codes.

   SPDX-License-Identifier: Apache-2.0 */
#include "../core/numbers.h"
#include "flow.h"

static const float least_magnitude = 1e-4f;

/* The largest number of the codes. */
static float most_of(const struct kvmill_format_parts *parts) {
    if (parts->code != KVMILL_CODE_FLOAT)
        return (float)kvmill_format_most_code(parts);
    uint32_t infinity = kvmill_first_not_finite(parts->real);
    return kvmill_number_of_bits(parts->real, infinity - 1);
}

/* The greater in magnitude of what was found and of some numbers, as bits: NaNs are above all. */
static uint32_t greater(uint32_t largest, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = kvmill_bits_of_float(x[i]) & 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

/* The least power of two that is not below a normal number; what is not finite stays. */
static float round_up_to_power(float scale) {
    uint32_t bits = kvmill_bits_of_float(scale), exponent = bits & 0x7f800000;
    if (exponent == 0x7f800000 || bits == exponent)
        return scale;
    return kvmill_float_of_bits(exponent + 0x800000);
}

static float scale_of(const struct kvmill_flow_field_data *field, uint32_t magnitude, float most) {
    float largest = kvmill_float_of_bits(magnitude);
    float scale = (largest < least_magnitude ? least_magnitude : largest) / most;
    return field->powers ? round_up_to_power(scale) : scale;
}

static float limited(float x, float most) {
    return x > most ? most : x < -most ? -most : x;
}

/* At magnitudes of 2^23 floats are the integers. */
static void store_codes(int element, unsigned char *to, const float *quotient, int64_t count) {
    if (element == KVMILL_I8)
        for (int64_t i = 0; i < count; i++)
            to[i] = (unsigned char)(int8_t)((quotient[i] + 0x1.8p23f) - 0x1.8p23f);
    else
        for (int64_t i = 0; i < count; i++)
            kvmill_store_float(element, to, i, quotient[i]);
}

/* ---- A group ---- */

/* Elements [first, first + count) of a row of activations become as many codes. */
struct group {
    int activation, element;
    const unsigned char *from;
    unsigned char *to;
    int64_t first, count;
};

/* Elements that are converted together. */
enum { PIECE = 128 };

static int64_t load(const struct group *group, int64_t at, float x[PIECE]) {
    int64_t left = group->count - at, count = left < PIECE ? left : PIECE;
    for (int64_t i = 0; i < count; i++)
        x[i] = kvmill_load_float(group->activation, group->from, group->first + at + i);
    return count;
}

static uint32_t largest_of(const struct group *group) {
    uint32_t largest = 0;
    float x[PIECE];
    for (int64_t at = 0, count; at < group->count; at += count) {
        count = load(group, at, x);
        largest = greater(largest, x, count);
    }
    return largest;
}

static void write_group(const struct group *group, float scale, float most) {
    bool finite = kvmill_is_finite(scale);
    float x[PIECE];
    for (int64_t at = 0, count; at < group->count; at += count) {
        count = load(group, at, x);
        for (int64_t i = 0; i < count; i++)
            x[i] = finite ? limited(x[i] / scale, most) : 0;
        store_codes(group->element, group->to + group->first + at, x, count);
    }
}

/* ---- Rows ---- */

static void write_row(const struct kvmill_flow_problem *problem, int field,
                      const unsigned char *from, unsigned char *to, unsigned char *scales) {
    const struct kvmill_flow_field_data *known = &problem->fields[field];
    int64_t groups = problem->fields[known->scales].columns;
    float most = most_of(kvmill_format_parts(known->element));
    struct group group = {problem->geometry.activation, known->element, from, to, 0,
                          known->columns / groups};
    for (int64_t g = 0; g < groups; g++, group.first += group.count) {
        float scale = scale_of(known, largest_of(&group), most);
        kvmill_store_float(KVMILL_F32, scales, g, scale);
        write_group(&group, scale, most);
    }
}

/* The row of a field that a token's is. */
static unsigned char *row_of(const struct kvmill_flow_problem *problem,
                             const struct flow_cache *cache, int field, int64_t slot,
                             int64_t kv_head) {
    const struct kvmill_flow_field_data *known = &problem->fields[field];
    int64_t size = problem->block_size;
    return flow_field_at(problem, cache, field, slot / size, kv_head) +
           slot % size * (known->bytes / known->rows);
}

void kvmill_flow_write_codes(const struct kvmill_flow_problem *problem,
                             const struct flow_cache *cache, const struct flow_tokens *tokens,
                             int field, const struct flow_span *span) {
    const struct kvmill_flow_field_data *known = &problem->fields[field];
    int64_t heads = known->heads, sharers = kvmill_flow_sharers(problem, field);
    int64_t row = known->columns * kvmill_activation_bytes(problem->geometry.activation);
    for (int64_t t = span->first; t < span->last; t++)
        for (int64_t h = 0; h < heads && tokens->slot[t] >= 0; h++)
            write_row(problem, field, tokens->rows[known->appended] + (t * heads + h) * row,
                      row_of(problem, cache, field, tokens->slot[t], h * sharers),
                      row_of(problem, cache, known->scales, tokens->slot[t], h * sharers));
}
