/* Quantises rows of new tokens to codes with scales: the keys of an indexer.  The rule is that of
   DeepSeek-V3.2's act_quant and vLLM's indexer_k_quant_and_cache, for any codes.

   SPDX-License-Identifier: Apache-2.0 */
#include "../core/numbers.h"
#include "flow_portable.h"

static const float least_magnitude = 1e-4f;

/* The largest number of the type of codes. */
static float most_of(const struct kvmill_format_parts *parts) {
    if (parts->code != KVMILL_CODE_FLOAT)
        return (float)kvmill_format_most_code(parts);
    uint32_t infinity = kvmill_first_not_finite(parts->real);
    return kvmill_number_of_bits(parts->real, infinity - 1);
}

/* The smallest power of two that is not below a normal number; a number that is not finite stays.
 */
static float round_up_to_power(float scale) {
    uint32_t bits = kvmill_bits_of_float(scale), exponent = bits & 0x7f800000;
    if (exponent == 0x7f800000 || bits == exponent)
        return scale;
    return kvmill_float_of_bits(exponent + 0x800000);
}

static float scale_of(const struct kvmill_flow_field_data *field, float largest, float most) {
    float scale = (largest < least_magnitude ? least_magnitude : largest) / most;
    return field->powers ? round_up_to_power(scale) : scale;
}

/* ---- Pieces: loops with a constant length, which compilers vectorise ---- */

enum { PIECE = 128 };

/* Elements that are converted together: as loaded, and as floats; 0 after the last one. */
struct piece {
    int activation;
    int64_t count;
    uint16_t half[PIECE];
    float x[PIECE];
};

static void load(struct piece *piece, const unsigned char *from) {
    void *to = piece->activation == KVMILL_F32 ? (void *)piece->x : piece->half;
    if (piece->count < PIECE)
        memset(to, 0, (size_t)(PIECE * kvmill_activation_bytes(piece->activation)));
    memcpy(to, from, (size_t)(piece->count * kvmill_activation_bytes(piece->activation)));
}

/* Magnitudes are ordered like integers, with NaNs after all others. */
static float largest_half(const struct piece *piece) {
    int16_t largest = 0;
    for (int i = 0; i < PIECE; i++) {
        int16_t magnitude = piece->half[i] & 0x7fff;
        largest = magnitude > largest ? magnitude : largest;
    }
    return piece->activation == KVMILL_F16 ? kvmill_f16_to_f32((uint16_t)largest)
                                           : kvmill_bf16_to_f32((uint16_t)largest);
}

static float largest_float(const struct piece *piece) {
    int32_t largest = 0;
    for (int i = 0; i < PIECE; i++) {
        int32_t magnitude = (int32_t)(kvmill_bits_of_float(piece->x[i]) & 0x7fffffff);
        largest = magnitude > largest ? magnitude : largest;
    }
    return kvmill_float_of_bits((uint32_t)largest);
}

static void widen(struct piece *piece) {
    if (piece->activation == KVMILL_F16)
        for (int i = 0; i < PIECE; i++)
            piece->x[i] = kvmill_finite_f16_to_f32(piece->half[i]);
    else if (piece->activation == KVMILL_BF16)
        for (int i = 0; i < PIECE; i++)
            piece->x[i] = kvmill_finite_bf16_to_f32(piece->half[i]);
}

/* Division by a power of two is an exact product.  A quotient exceeds the largest number by less
   than would round up. */
static void divide(struct piece *piece, float scale, bool is_power) {
    float inverse = 1 / scale;
    if (is_power)
        for (int i = 0; i < PIECE; i++)
            piece->x[i] *= inverse;
    else
        for (int i = 0; i < PIECE; i++)
            piece->x[i] /= scale;
}

/* From magnitudes of 2^23 on floats are integers, whose last bits are the codes. */
static void make_integers(const struct piece *piece, unsigned char codes[PIECE]) {
    for (int i = 0; i < PIECE; i++)
        codes[i] = (unsigned char)kvmill_bits_of_float(piece->x[i] + 0x1.8p23f);
}

/* Compilers that narrow in the same loop narrow every term alone. */
static void make_floats(struct kvmill_float_parts parts, const struct piece *piece,
                        unsigned char codes[PIECE]) {
    uint32_t wide[PIECE];
    for (int i = 0; i < PIECE; i++)
        wide[i] = kvmill_bits_of_finite(parts, piece->x[i]);
    for (int i = 0; i < PIECE; i++)
        codes[i] = (unsigned char)wide[i];
}

/* ---- A group ---- */

/* Quantise elements [first, first + count) of a row of activations. */
struct group {
    int activation, element;
    const unsigned char *from;
    unsigned char *to;
    int64_t first, count;
};

static void load_piece(const struct group *group, int64_t at, struct piece *piece) {
    int64_t bytes = kvmill_activation_bytes(group->activation);
    piece->activation = group->activation;
    piece->count = kvmill_min(group->count - at, PIECE);
    load(piece, group->from + (group->first + at) * bytes);
}

/* The largest magnitude, or NaN.  The last piece stays loaded, because most groups have only one.
 */
static float largest_of(const struct group *group, struct piece *piece) {
    uint32_t largest = 0;
    for (int64_t at = 0; at < group->count; at += PIECE) {
        load_piece(group, at, piece);
        uint32_t found = kvmill_bits_of_float(
            group->activation == KVMILL_F32 ? largest_float(piece) : largest_half(piece));
        largest = found > largest ? found : largest;
    }
    return kvmill_float_of_bits(largest);
}

static void write_codes(const struct group *group, int64_t at, const struct piece *piece) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(group->element);
    unsigned char codes[PIECE];
    if (parts->code == KVMILL_CODE_FLOAT)
        make_floats(parts->real, piece, codes);
    else
        make_integers(piece, codes);
    memcpy(group->to + group->first + at, codes, (size_t)piece->count);
}

static void write_group(const struct group *group, struct piece *piece, float scale,
                        bool is_power) {
    if (!kvmill_is_finite(scale)) {
        memset(group->to + group->first, 0, (size_t)group->count);
        return;
    }
    for (int64_t at = 0; at < group->count; at += PIECE) {
        if (group->count > PIECE)
            load_piece(group, at, piece);
        widen(piece);
        divide(piece, scale, is_power);
        write_codes(group, at, piece);
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
    struct piece piece;
    for (int64_t g = 0; g < groups; g++, group.first += group.count) {
        float scale = scale_of(known, largest_of(&group, &piece), most);
        kvmill_store_float(KVMILL_F32, scales, g, scale);
        write_group(&group, &piece, scale, known->powers);
    }
}

/* How many tokens ahead lines are prefetched: a row takes longer to compute than processors look
   ahead. */
enum { AHEAD = 8, LINE = 64 };

/* GCC takes a function that only fetches for one without effects, and drops calls of it that are
   not inlined early. */
static inline __attribute__((always_inline)) void fetch_rows(const struct flow_field_rows *codes,
                                                             const struct flow_field_rows *scales,
                                                             int64_t slot) {
    if (slot < 0)
        return;
    for (int64_t at = 0; at < codes->row; at += LINE)
        __builtin_prefetch(flow_field_row(codes, slot) + at, 1);
    __builtin_prefetch(flow_field_row(scales, slot), 1);
}

void kvmill_flow_write_codes(const struct kvmill_flow_problem *problem,
                             const struct flow_cache *cache, const struct flow_tokens *tokens,
                             int field, const struct flow_span *span) {
    const struct kvmill_flow_field_data *known = &problem->fields[field];
    const struct flow_field_rows codes = flow_field_rows_of(problem, cache, field);
    const struct flow_field_rows scales = flow_field_rows_of(problem, cache, known->scales);
    int64_t heads = known->heads, fetched = span->first;
    int64_t row = known->columns * kvmill_activation_bytes(problem->geometry.activation);
    for (int64_t t = span->first; t < span->last; t++) {
        for (; fetched < kvmill_min(span->last, t + AHEAD); fetched++)
            fetch_rows(&codes, &scales, tokens->slot[fetched]);
        for (int64_t h = 0; h < heads && tokens->slot[t] >= 0; h++)
            write_row(problem, field, tokens->rows[known->appended] + (t * heads + h) * row,
                      flow_field_row(&codes, tokens->slot[t]) + h * codes.head,
                      flow_field_row(&scales, tokens->slot[t]) + h * scales.head);
    }
}
