/* The portable kernels that write, read and attend rows: every half-precision number, the
   quantisation of known rows to the bit, attention against plain sums.

   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../runtime/core/numbers.h"
#include "../runtime/portable/cache_row.h"
#include "../runtime/portable/portable.h"
#include "fence.h"
#include "tap.h"

static uint64_t seed;

/* ---- Numbers ---- */

/* A type of 16 bits: a sign, an exponent and `mantissa` bits. */
struct half_type {
    const char *name;
    int mantissa, bias;
    float (*widen)(uint16_t half);
    uint16_t (*round)(float value);
};

static const struct half_type half_types[] = {
    {"float16", 10, 15, kvmill_f16_to_f32, kvmill_f32_to_f16},
    {"bfloat16", 7, 127, kvmill_bf16_to_f32, kvmill_f32_to_bf16},
};

static unsigned infinity_of(const struct half_type *type) {
    return 0x8000u - (1u << type->mantissa);
}

/* From infinity's bits on: what the number would be if exponents went on. */
static double value_of(const struct half_type *type, unsigned bits) {
    int exponent = (int)(bits >> type->mantissa),
        fraction = (int)(bits & ((1u << type->mantissa) - 1));
    int whole = exponent == 0 ? fraction : fraction + (1 << type->mantissa);
    return ldexp(whole, (exponent == 0 ? 1 : exponent) - type->bias - type->mantissa);
}

static bool is_widened(const struct half_type *type, unsigned bits) {
    unsigned magnitude = bits & 0x7fff, infinity = infinity_of(type);
    float value = type->widen((uint16_t)bits);
    if (!signbit(value) != !(bits & 0x8000))
        return false;
    if (magnitude > infinity)
        return isnan(value) && (kvmill_bits_of_float(value) & 0x400000) &&
               isnan(type->widen(type->round(value)));
    bool is_right = magnitude == infinity ? isinf(value) != 0
                                          : fabs((double)value) == value_of(type, magnitude);
    return is_right && type->round(value) == bits;
}

/* Halfway to the next number: to even; a hair beside it: to the nearer. */
static bool is_rounded(const struct half_type *type, unsigned bits) {
    float half = (float)((value_of(type, bits) + value_of(type, bits + 1)) / 2);
    unsigned even = bits + (bits & 1);
    return type->round(half) == even && type->round(nextafterf(half, 0)) == bits &&
           type->round(nextafterf(half, INFINITY)) == bits + 1 &&
           type->round(-half) == (even | 0x8000);
}

/* The last number of bfloat16 has no neighbour that is a float. */
static void test_half_type(const struct half_type *type) {
    unsigned wrong = 0, misrounded = 0, last = infinity_of(type) - (type->bias == 127);
    for (unsigned bits = 0; bits < 0x10000; bits++)
        wrong += !is_widened(type, bits);
    for (unsigned bits = 0; bits < last; bits++)
        misrounded += !is_rounded(type, bits);
    ok(wrong == 0, "%s: all 65536 widened and back (%u wrong)", type->name, wrong);
    ok(misrounded == 0, "%s: halves to even, others to the nearest (%u wrong)", type->name,
       misrounded);
    ok(type->round(FLT_MAX) == infinity_of(type), "%s: what is too large is infinite", type->name);
}

/* ---- Known rows ---- */

struct known_row {
    const char *name;
    struct kvmill_convert_shape shape;
    float in[16];
    uint32_t scales[2];
    int codes[16];
    float read[16];
};

#define ROW(activation, element, dim, scale, group)                                                \
    {                                                                                              \
        KVMILL_##activation, {                                                                     \
            KVMILL_##element, dim, KVMILL_##scale, group                                           \
        }                                                                                          \
    }
#define ONE_TO_8                                                                                   \
    { 1, 2, 3, 4, 5, 6, 7, 8 }
#define TIES     127, -127, 63.5, 0.5, 1.5, 2.5, -0.5, -2.5
#define QUARTERS 31.75, -31.75, 0.125, 0.375, -0.125, 10, -7.9f, 0
#define SMALL                                                                                      \
    { 1e-4f, -5e-5f, 2.4e-5f, 4e-6f, 6e-6f, -1e-4f, 1e-5f, 0 }

/* A first element of `read` that is 0 leaves it out. */
static const struct known_row known_rows[] = {
    {"Q1 float32",
     ROW(F32, I8, 8, F32, 8),
     {TIES},
     {0x3f800000},
     {127, -127, 64, 0, 2, 2, 0, -2},
     {127, -127, 64, 0, 2, 2, 0, -2}},
    {"Q1 float16",
     ROW(F16, I8, 8, F16, 8),
     {TIES},
     {0x3c00},
     {127, -127, 64, 0, 2, 2, 0, -2},
     {127, -127, 64, 0, 2, 2, 0, -2}},
    {"Q2",
     ROW(F32, I8, 8, F32, 8),
     {QUARTERS},
     {0x3e800000},
     {127, -127, 0, 2, 0, 40, -32, 0},
     {31.75, -31.75, 0, 0.5, 0, 10, -8, 0}},
    {"Q3 float32", ROW(F32, I8, 8, F32, 8), {0}, {0x3727c5ac}, {0}, {0}},
    {"Q3 float16", ROW(F16, I8, 8, F16, 8), {0}, {0x00a8}, {0}, {0}},
    {"Q4 float32", ROW(F32, I8, 8, F32, 8), SMALL, {0x3727c5ac}, {10, -5, 2, 0, 1, -10, 1, 0}, {0}},
    {"Q4 float16", ROW(F16, I8, 8, F16, 8), SMALL, {0x00a8}, {10, -5, 2, 0, 1, -10, 1, 0}, {0}},
    {"Q5 float32",
     ROW(F32, I8, 8, F32, 8),
     ONE_TO_8,
     {0x3d810204},
     {16, 32, 48, 64, 79, 95, 111, 127},
     {0}},
    {"Q5 float16",
     ROW(F16, I8, 8, F16, 8),
     ONE_TO_8,
     {0x2c08},
     {16, 32, 48, 64, 79, 95, 111, 127},
     {0}},
    {"Q6",
     ROW(F32, I8, 8, F32, 8),
     {18, 9, -9, -18, 4.5, 1, 0, 2},
     {0x3e112245},
     {127, 63, -63, -127, 32, 7, 0, 14},
     {0}},
    {"Q7",
     ROW(F32, I8, 8, F32, 8),
     {30, 15, -15, -30, 7.5, 1, 0, 2},
     {0x3e71e3c8},
     {127, 64, -64, -127, 32, 4, 0, 8},
     {0}},
    {"Q8",
     ROW(F16, I8, 8, F16, 8),
     {17, 16, 8.5, -17, -16, 1, 0, 2},
     {0x3049},
     {127, 120, 63, -127, -120, 7, 0, 15},
     {0}},
    {"Q9 group 8",
     ROW(F32, I8, 16, F32, 8),
     {TIES, QUARTERS},
     {0x3f800000, 0x3e800000},
     {127, -127, 64, 0, 2, 2, 0, -2, 127, -127, 0, 2, 0, 40, -32, 0},
     {0}},
    {"Q9 group 16",
     ROW(F32, I8, 16, F32, 16),
     {TIES, QUARTERS},
     {0x3f800000},
     {127, -127, 64, 0, 2, 2, 0, -2, 32, -32, 0, 0, 0, 10, -8, 0},
     {0}},
    {"Q10",
     ROW(F32, I8, 8, F16, 8),
     {1, -0.5, 0.25, 0, 0.1f, 0.2f, 0.3f, 0.4f},
     {0x2008},
     {127, -64, 32, 0, 13, 25, 38, 51},
     {1, -0.50390625, 0.251953125, 0, 0.10235595703125, 0.19677734375, 0.29931640625,
      0.401611328125}},
    {"I1",
     ROW(F32, I4, 8, F32, 8),
     {7, -7, 3.5, 0.5, 1.5, 2.5, -3.5, -6.5},
     {0x3f800000},
     {7, -7, 4, 0, 2, 2, -4, -6},
     {7, -7, 4, 0, 2, 2, -4, -6}},
    {"I2 float32", ROW(F32, I4, 8, F32, 8), ONE_TO_8, {0x3f924925}, {1, 2, 3, 3, 4, 5, 6, 7}, {0}},
    {"I2 float16", ROW(F16, I4, 8, F16, 8), ONE_TO_8, {0x3c92}, {1, 2, 3, 4, 4, 5, 6, 7}, {0}},
    {"I3",
     ROW(F32, I4, 8, F32, 8),
     {-8, 7, 1, 0, 0, 0, 0, 0},
     {0x3f924925},
     {-7, 6, 1, 0, 0, 0, 0, 0},
     {0}},
    {"bfloat16",
     ROW(BF16, I8, 8, BF16, 8),
     ONE_TO_8,
     {0x3d81},
     {16, 32, 48, 64, 80, 96, 111, 127},
     {0}},
    {"infinite",
     ROW(F32, I8, 8, F32, 8),
     {1, -INFINITY, 3},
     {0x7f800000},
     {0},
     {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}},
    {"not a number",
     ROW(F16, I4, 16, F32, 8),
     {1, INFINITY, NAN, 4, 5, 6, 7, 8, 7, -7},
     {0x7fc00000, 0x3f800000},
     {0, 0, 0, 0, 0, 0, 0, 0, 7, -7},
     {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 7, -7}},
};

static int code_at(int element, const unsigned char *data, int i) {
    return element == KVMILL_I8 ? (int8_t)data[i] : ((data[i / 2] >> (i % 2 * 4) & 0xf) ^ 8) - 8;
}

static uint32_t scale_at(int type, const unsigned char *scale, int group) {
    uint32_t bits = 0;
    size_t bytes = type == KVMILL_F32 ? 4 : 2;
    memcpy(&bits, scale + (size_t)group * bytes, bytes);
    return bits;
}

static bool is_same(float a, float b) {
    return a == b || (isnan(a) && isnan(b));
}

/* One row of one head in fenced buffers. */
struct one_row {
    struct fence activation, data, scale;
    int64_t slot;
    struct kvmill_convert problem;
};

static int64_t data_bytes(const struct kvmill_format *format) {
    static const int per_block[] = {
        [KVMILL_F32] = 128, [KVMILL_F16] = 64,  [KVMILL_BF16] = 64, [KVMILL_I8] = 32,
        [KVMILL_I4] = 16,   [KVMILL_Q8_0] = 34, [KVMILL_Q4_0] = 18};
    return format->dim * per_block[format->element] / 32;
}

static int64_t scale_bytes(const struct kvmill_format *format) {
    return format->scale == 0
               ? 0
               : format->dim / format->quant_group * (format->scale == KVMILL_F32 ? 4 : 2);
}

static void one_row_open(struct one_row *row, const struct kvmill_convert_shape *shape,
                         const float *in, struct dice *dice) {
    *row = (struct one_row){0};
    fence_open(&row->activation,
               (size_t)(shape->format.dim * (shape->activation == KVMILL_F32 ? 4 : 2)), FENCE_FLUSH,
               FENCE_ABOVE, dice);
    fence_open(&row->data, (size_t)data_bytes(&shape->format), FENCE_FLUSH, FENCE_ABOVE, dice);
    fence_open(&row->scale, (size_t)scale_bytes(&shape->format), FENCE_FLUSH, FENCE_ABOVE, dice);
    for (int i = 0; i < shape->format.dim; i++)
        kvmill_store_float(shape->activation, row->activation.data, i, in[i]);
    row->problem =
        (struct kvmill_convert){.shape = shape,
                                .activation = row->activation.data,
                                .cache = {.data = row->data.data, .scale = row->scale.data},
                                .slot = &row->slot,
                                .heads = 1,
                                .repeat = 1};
}

static bool one_row_close(struct one_row *row) {
    int64_t where;
    bool good = fence_is_intact(&row->activation, &where) && fence_is_intact(&row->data, &where) &&
                fence_is_intact(&row->scale, &where);
    fence_close(&row->activation);
    fence_close(&row->data);
    fence_close(&row->scale);
    return good;
}

static bool is_written(const struct known_row *known, const struct one_row *row) {
    const struct kvmill_format *format = &known->shape.format;
    for (int i = 0; i < format->dim; i++)
        if (code_at(format->element, row->data.data, i) != known->codes[i]) {
            diag("%s: code %d is %d, not %d", known->name, i,
                 code_at(format->element, row->data.data, i), known->codes[i]);
            return false;
        }
    for (int g = 0; g < format->dim / format->quant_group; g++)
        if (scale_at(format->scale, row->scale.data, g) != known->scales[g]) {
            diag("%s: scale %d is %#x, not %#x", known->name, g,
                 scale_at(format->scale, row->scale.data, g), known->scales[g]);
            return false;
        }
    return true;
}

static bool is_read(const struct known_row *known, const struct one_row *row) {
    if (known->read[0] == 0)
        return true;
    for (int i = 0; i < known->shape.format.dim; i++)
        if (!is_same(kvmill_load_float(known->shape.activation, row->activation.data, i),
                     known->read[i]))
            return false;
    return true;
}

static void test_known_row(const struct known_row *known) {
    struct dice dice = dice_for(seed, known->name);
    struct one_row row;
    one_row_open(&row, &known->shape, known->in, &dice);
    kvmill_portable_write_rows.run(&row.problem, 0, 1);
    ok(is_written(known, &row), "%s: codes and scales", known->name);
    kvmill_portable_read_rows.run(&row.problem, 0, 1);
    bool good = is_read(known, &row);
    ok(one_row_close(&row) && good, "%s: read back", known->name);
}

/* ---- Blocks ---- */

static void run_block(int element, const float *in, float *out, unsigned char *block) {
    struct kvmill_convert_shape shape = {KVMILL_F32, {element, 32, 0, 0}};
    struct dice dice = dice_for(seed, "blocks");
    struct one_row row;
    one_row_open(&row, &shape, in, &dice);
    row.problem.cache.scale = NULL;
    kvmill_portable_write_rows.run(&row.problem, 0, 1);
    memcpy(block, row.data.data, row.data.size);
    kvmill_portable_read_rows.run(&row.problem, 0, 1);
    memcpy(out, row.activation.data, row.activation.size);
    ok(one_row_close(&row), "block in its bounds");
}

static void test_q8_0(void) {
    float in[32] = {-127, 0.5f, -1.5f, 2.5f, 0.49999997f, 100}, out[32];
    static const int codes[32] = {-127, 1, -2, 3, 0, 100};
    unsigned char block[34];
    run_block(KVMILL_Q8_0, in, out, block);
    bool good = block[0] == 0 && block[1] == 0x3c;
    for (int i = 0; i < 32; i++)
        good = good && (int8_t)block[2 + i] == codes[i] && out[i] == (float)codes[i];
    ok(good, "Q8_0: scale 1, halves away from zero");
}

/* The extreme is 8, so the scale is -1: 0.5 goes to 0 * -1, for the codes are cut off. */
static void test_q4_0(void) {
    float in[32] = {8, -8, 0.5f, 0.75f, -0.5f, 3}, out[32];
    static const float read[32] = {8, -7, 0, 1, -1, 3};
    unsigned char block[18];
    in[16] = -2, in[17] = 7;
    run_block(KVMILL_Q4_0, in, out, block);
    bool good = block[0] == 0 && block[1] == 0xbc && block[2] == 0xa0 && block[3] == 0x1f;
    for (int i = 0; i < 32; i++)
        good = good && out[i] == (i == 16 ? -2 : i == 17 ? 7 : read[i]);
    ok(good, "Q4_0: scale -1, element 16 above element 0");
}

static void test_empty_blocks(void) {
    float in[32] = {-0.0f, 0}, out[32];
    unsigned char block[34];
    run_block(KVMILL_Q4_0, in, out, block);
    ok(block[0] == 0 && block[1] == 0x80 && block[2] == 0x88 && out[0] == 0, "Q4_0: zeros");
    run_block(KVMILL_Q8_0, in, out, block);
    ok(block[0] == 0 && block[1] == 0 && block[2] == 0 && out[0] == 0, "Q8_0: zeros");
    in[9] = NAN;
    run_block(KVMILL_Q4_0, in, out, block);
    ok(isnan(out[0]) && block[2] == 0x88, "Q4_0: NaN");
    run_block(KVMILL_Q8_0, in, out, block);
    ok(isnan(out[0]) && block[2] == 0, "Q8_0: NaN");
    in[9] = 1e-41f;
    run_block(KVMILL_Q4_0, in, out, block);
    ok(out[9] == 0, "Q4_0: a scale that has no inverse");
}

/* ---- Rows of any length: read in pieces as in one ---- */

static const struct kvmill_format formats[] = {
    {KVMILL_F32, 33, 0, 0},          {KVMILL_F16, 64, 0, 0},
    {KVMILL_BF16, 7, 0, 0},          {KVMILL_I8, 96, KVMILL_F16, 12},
    {KVMILL_I4, 96, KVMILL_F32, 48}, {KVMILL_Q8_0, 96, 0, 0},
    {KVMILL_Q4_0, 1024, 0, 0},       {KVMILL_I8, 130, KVMILL_BF16, 130},
};

static float any_float(struct dice *dice, float most) {
    return (float)dice_range(dice, -1000, 1000) * most / 1000;
}

static void test_long_row(const struct kvmill_format *format) {
    struct kvmill_convert_shape shape = {KVMILL_F16, *format};
    struct dice dice = dice_for(seed, "long rows");
    struct one_row row;
    float in[1024], whole[1024];
    bool good = true;
    for (int i = 0; i < format->dim; i++)
        in[i] = any_float(&dice, (float)(1 + i));
    one_row_open(&row, &shape, in, &dice);
    kvmill_portable_write_rows.run(&row.problem, 0, 1);
    memset(row.activation.data, 0xff, row.activation.size);
    kvmill_portable_read_rows.run(&row.problem, 0, 1);
    kvmill_load_cache_row(format, row.data.data, row.scale.data, 0, format->dim, whole);
    for (int i = 0; i < format->dim; i++) {
        float read = kvmill_load_float(KVMILL_F16, row.activation.data, i);
        float rounded = kvmill_round_as(format->scale, whole[i]);
        good = good && read == kvmill_round_as(KVMILL_F16, rounded) &&
               fabsf(read - in[i]) <= 0.16f * (float)(1 + i + format->dim);
    }
    ok(one_row_close(&row) && good, "%d elements of type %d", format->dim, format->element);
}

/* ---- Addresses ---- */

enum { TOKENS = 2, HEADS = 2, SLOTS = 4, DIM = 3, REPEAT = 2 };

static void test_addresses(void) {
    struct kvmill_convert_shape shape = {KVMILL_F32, {KVMILL_F16, DIM, 0, 0}};
    float in[TOKENS][HEADS][DIM], out[TOKENS][HEADS * REPEAT][DIM];
    uint16_t cache[HEADS][SLOTS][DIM];
    const int64_t slot[TOKENS] = {2, 0};
    bool good = true;
    for (int i = 0; i < TOKENS * HEADS * DIM; i++)
        (&in[0][0][0])[i] = (float)i;
    memset(cache, 0xff, sizeof cache);
    struct kvmill_convert problem = {.shape = &shape,
                                     .activation = (unsigned char *)in,
                                     .token_stride = sizeof in[0],
                                     .head_stride = sizeof in[0][0],
                                     .cache = {.data = (unsigned char *)cache,
                                               .row_stride = sizeof cache[0][0],
                                               .head_stride = sizeof cache[0]},
                                     .slot = slot,
                                     .heads = HEADS,
                                     .repeat = REPEAT};
    kvmill_portable_write_rows.run(&problem, 0, 1);
    kvmill_portable_write_rows.run(&problem, 1, 2);
    problem.activation = (unsigned char *)out;
    problem.token_stride = sizeof out[0];
    kvmill_portable_read_rows.run(&problem, 0, 2);
    for (int t = 0; t < TOKENS; t++)
        for (int h = 0; h < HEADS * REPEAT; h++)
            good = good && memcmp(out[t][h], in[t][h / REPEAT], sizeof out[t][h]) == 0;
    ok(good, "tokens of all heads, repeated");
    for (int h = 0; h < HEADS; h++)
        for (int d = 0; d < DIM; d++)
            good = good && cache[h][1][d] == 0xffff && cache[h][3][d] == 0xffff;
    ok(good, "other slots stay");
}

static void test_raw_copy(void) {
    struct kvmill_convert_shape shape = {KVMILL_I8, {KVMILL_I8, 5, 0, 0}};
    unsigned char in[5] = {0x80, 1, 255, 4, 127}, cache[5], out[5];
    int64_t slot = 0;
    struct kvmill_convert problem = {.shape = &shape,
                                     .activation = in,
                                     .cache = {.data = cache},
                                     .slot = &slot,
                                     .heads = 1,
                                     .repeat = 1};
    kvmill_portable_write_rows.run(&problem, 0, 1);
    problem.activation = out;
    kvmill_portable_read_rows.run(&problem, 0, 1);
    ok(memcmp(in, cache, 5) == 0 && memcmp(in, out, 5) == 0, "int8 is copied as it is");
}

/* ---- Attention ---- */

enum { MOST_POSITIONS = 60, MOST_ROWS = 5 };

struct attention {
    struct kvmill_attend_shape shape;
    struct fence key, value, key_scale, value_scale, workspace;
    struct kvmill_extent extent[MOST_POSITIONS + 1]; /* a row each */
    int64_t positions;
    unsigned char *query, *mask, *output;
    struct kvmill_query_row row[MOST_ROWS];
    struct kvmill_attend problem;
    bool has_mask;
};

/* Slots 2 * i hold rows, others poison. */
static void fill_cache(const struct kvmill_format *format, int activation, struct fence *data,
                       struct fence *scale, int64_t rows, struct dice *dice) {
    struct kvmill_convert_shape shape = {activation, *format};
    unsigned char *token = malloc((size_t)format->dim * 4);
    fence_open(data, (size_t)(data_bytes(format) * 2 * rows), FENCE_FLUSH, FENCE_ABOVE, dice);
    fence_open(scale, (size_t)(scale_bytes(format) * 2 * rows), FENCE_FLUSH, FENCE_ABOVE, dice);
    memset(data->data, 0xff, data->size);
    memset(scale->data, 0xff, scale->size);
    for (int64_t r = 0; r < rows; r++) {
        int64_t slot = 2 * r;
        for (int i = 0; i < format->dim; i++)
            kvmill_store_float(activation, token, i, any_float(dice, 2));
        struct kvmill_convert problem = {
            .shape = &shape,
            .activation = token,
            .slot = &slot,
            .heads = 1,
            .cache = {data->data, scale->data, data_bytes(format), 0, scale_bytes(format), 0}};
        kvmill_portable_write_rows.run(&problem, 0, 1);
    }
    free(token);
}

static void choose_rows(struct attention *a, struct dice *dice) {
    int64_t size = a->shape.activation == KVMILL_F32 ? 4 : 2, n = a->positions;
    for (int r = 0; r < a->problem.rows; r++) {
        int64_t first = dice_once_in(dice, 2) ? 0 : dice_range(dice, 0, n);
        a->row[r] = (struct kvmill_query_row){
            .query = a->query + r * a->shape.key.dim * size,
            .output = a->output + r * a->shape.value.dim * size,
            .mask = a->has_mask ? a->mask + r * n * size : NULL,
            .first = first,
            .last = dice_range(dice, first, n),
            .origin = n - 1,
            .slope = dice_once_in(dice, 2) ? any_float(dice, 0.1f) : 0,
            .sink = dice_once_in(dice, 2) ? any_float(dice, 3) : -INFINITY};
    }
}

static void fill(unsigned char *data, int element, int64_t count, struct dice *dice) {
    for (int64_t i = 0; i < count; i++)
        kvmill_store_float(element, data, i, any_float(dice, 1));
}

static void attention_open(struct attention *a, struct dice *dice) {
    int most = sizeof formats / sizeof *formats - 1;
    *a = (struct attention){.positions = dice_range(dice, 0, MOST_POSITIONS),
                            .has_mask = dice_once_in(dice, 2)};
    a->shape = (struct kvmill_attend_shape){.activation =
                                                (int32_t)dice_range(dice, KVMILL_F32, KVMILL_BF16),
                                            .key = formats[dice_range(dice, 0, most)],
                                            .value = formats[dice_range(dice, 0, most)]};
    fill_cache(&a->shape.key, a->shape.activation, &a->key, &a->key_scale, a->positions, dice);
    fill_cache(&a->shape.value, a->shape.activation, &a->value, &a->value_scale, a->positions,
               dice);
    fence_open(&a->workspace, (size_t)kvmill_portable_attend_workspace(&a->shape), 0, FENCE_ABOVE,
               dice);
    a->query = malloc((size_t)(MOST_ROWS * a->shape.key.dim * 4));
    a->output = malloc((size_t)(MOST_ROWS * a->shape.value.dim * 4));
    a->mask = malloc((size_t)(MOST_ROWS * a->positions * 4 + 1));
    fill(a->query, a->shape.activation, MOST_ROWS * a->shape.key.dim, dice);
    fill(a->mask, a->shape.activation, MOST_ROWS * a->positions, dice);
    for (int64_t i = 0; i < a->positions; i++) {
        a->extent[i] = (struct kvmill_extent){2 * i, 1};
        if (dice_once_in(dice, 6))
            kvmill_store_float(a->shape.activation, a->mask, i, -INFINITY);
    }
    a->problem = (struct kvmill_attend){.shape = &a->shape,
                                        .row = a->row,
                                        .rows = dice_range(dice, 1, MOST_ROWS),
                                        .key = a->key.data,
                                        .value = a->value.data,
                                        .key_scale = a->key_scale.data,
                                        .value_scale = a->value_scale.data,
                                        .key_stride = data_bytes(&a->shape.key),
                                        .value_stride = data_bytes(&a->shape.value),
                                        .key_scale_stride = scale_bytes(&a->shape.key),
                                        .value_scale_stride = scale_bytes(&a->shape.value),
                                        .scale = 0.05f,
                                        .softcap = dice_once_in(dice, 3) ? 2 : 0,
                                        .empty = 42,
                                        .workspace = a->workspace.data};
    choose_rows(a, dice);
}

static bool attention_close(struct attention *a) {
    struct fence *const fences[] = {&a->key, &a->value, &a->key_scale, &a->value_scale,
                                    &a->workspace};
    bool good = true;
    for (size_t i = 0; i < sizeof fences / sizeof *fences; i++) {
        int64_t where;
        good = fence_is_intact(fences[i], &where) && good;
        fence_close(fences[i]);
    }
    free(a->query);
    free(a->output);
    free(a->mask);
    return good;
}

static double true_score(const struct attention *a, const struct kvmill_query_row *row,
                         int64_t position, const float *key) {
    double score = 0;
    for (int i = 0; i < a->shape.key.dim; i++)
        score += (double)kvmill_load_float(a->shape.activation, row->query, i) * key[i];
    score *= a->problem.scale;
    if (a->problem.softcap > 0)
        score = a->problem.softcap * tanh(score / a->problem.softcap);
    score += (double)row->slope * (double)(position - row->origin);
    return score + (row->mask ? kvmill_load_float(a->shape.activation, row->mask, position) : 0);
}

/* Scores are small: no need to take the largest away.  Returns the total. */
static double true_sums(const struct attention *a, const struct kvmill_query_row *row,
                        double *sum) {
    float buffer[1024];
    double total = exp(row->sink);
    for (int i = 0; i < a->shape.value.dim; i++)
        sum[i] = 0;
    for (int64_t j = row->first; j < row->last; j++) {
        kvmill_load_cache_row(&a->shape.key, a->key.data + a->extent[j].slot * a->problem.key_stride,
                              a->key_scale.data + a->extent[j].slot * a->problem.key_scale_stride, 0,
                              a->shape.key.dim, buffer);
        double weight = exp(true_score(a, row, j, buffer));
        kvmill_load_cache_row(&a->shape.value, a->value.data + a->extent[j].slot * a->problem.value_stride,
                              a->value_scale.data + a->extent[j].slot * a->problem.value_scale_stride, 0,
                              a->shape.value.dim, buffer);
        for (int i = 0; i < a->shape.value.dim; i++)
            sum[i] += weight * buffer[i];
        total += weight;
    }
    return total;
}

static const double precision[] = {
    [KVMILL_F32] = 0x1p-18, [KVMILL_F16] = 0x1p-11, [KVMILL_BF16] = 0x1p-8};

static bool is_close(double value, double truth, double relative) {
    return fabs(value - truth) <= relative * (1 + fabs(truth));
}

static bool is_output_right(const struct attention *a) {
    double sum[1024];
    for (int r = 0; r < a->problem.rows; r++) {
        double total = true_sums(a, &a->row[r], sum);
        for (int i = 0; i < a->shape.value.dim; i++) {
            double truth = total == 0 ? a->problem.empty : sum[i] / total;
            if (!is_close(kvmill_load_float(a->shape.activation, a->row[r].output, i), truth,
                          precision[a->shape.activation]))
                return false;
        }
    }
    return true;
}

static bool is_partial_right(const struct attention *a, const float *partial) {
    double sum[1024];
    int64_t dim = a->shape.value.dim;
    for (int r = 0; r < a->problem.rows; r++, partial += 2 + dim) {
        double total = true_sums(a, &a->row[r], sum), unit = exp(partial[0]);
        if (!is_close(partial[1] * unit, total, precision[KVMILL_F32]))
            return false;
        for (int i = 0; i < dim; i++)
            if (!is_close(partial[2 + i] * unit, sum[i], precision[KVMILL_F32] * (1 + total)))
                return false;
    }
    return true;
}

/* In calls of any number of positions. */
static void run_in_pieces(struct attention *a, float *partial, struct dice *dice) {
    int64_t at = 0, next;
    a->problem.partial = partial;
    do {
        next = dice_range(dice, at, a->positions);
        a->problem.first = at;
        a->problem.extent = a->extent + at;
        a->problem.count = next - at;
        a->problem.begin = at == 0;
        a->problem.end = next == a->positions;
        if (next > at || a->positions == 0)
            kvmill_portable_attend.run(&a->problem, 0, 1);
        at = next;
    } while (at < a->positions);
}

static bool run_attention(struct dice *dice) {
    struct attention a;
    attention_open(&a, dice);
    float *partial = malloc((size_t)(MOST_ROWS * (2 + a.shape.value.dim)) * sizeof(float));
    run_in_pieces(&a, NULL, dice);
    bool good = is_output_right(&a);
    run_in_pieces(&a, partial, dice);
    good = is_partial_right(&a, partial) && good;
    free(partial);
    return attention_close(&a) && good;
}

static void test_attention(void) {
    struct dice dice = dice_for(seed, "attention");
    int cases = is_slow_run() ? 10 : 400, wrong = 0;
    for (int i = 0; i < cases; i++)
        wrong += !run_attention(&dice);
    ok(wrong == 0, "attention: %d problems, %d wrong", cases, wrong);
}

/* A position that nobody sees may hold anything; one that is seen speaks up. */
static void test_poison(void) {
    struct kvmill_attend_shape shape = {
        KVMILL_F32, {KVMILL_F32, 1, 0, 0}, {KVMILL_F32, 1, 0, 0}, 0, 0, 0, 0};
    float key[3] = {1, 1, NAN}, value[3] = {5, INFINITY, NAN}, query = 1, output[2];
    const struct kvmill_extent extents[2] = {{0, 3}};
    struct kvmill_query_row row[2] = {{.query = (unsigned char *)&query,
                                       .output = (unsigned char *)&output[0],
                                       .last = 1,
                                       .sink = -INFINITY},
                                      {.query = (unsigned char *)&query,
                                       .output = (unsigned char *)&output[1],
                                       .first = 1,
                                       .last = 2,
                                       .sink = -INFINITY}};
    void *workspace = aligned_alloc(64, (size_t)kvmill_portable_attend_workspace(&shape));
    struct kvmill_attend problem = {.shape = &shape,
                                    .row = row,
                                    .rows = 2,
                                    .key = (unsigned char *)key,
                                    .value = (unsigned char *)value,
                                    .key_stride = 4,
                                    .value_stride = 4,
                                    .extent = extents,
                                    .count = 3,
                                    .scale = 1,
                                    .begin = 1,
                                    .end = 1,
                                    .workspace = workspace};
    kvmill_portable_attend.run(&problem, 0, 1);
    ok(output[0] == 5 && output[1] == INFINITY, "what a row does not see does not reach it");
    row[1].last = 3;
    kvmill_portable_attend.run(&problem, 0, 1);
    ok(output[0] == 5 && isnan(output[1]), "NaN reaches who sees it");
    free(workspace);
}

int main(void) {
    seed = dice_seed();
    for (size_t i = 0; i < sizeof half_types / sizeof *half_types; i++)
        test_half_type(&half_types[i]);
    for (size_t i = 0; i < sizeof known_rows / sizeof *known_rows; i++)
        test_known_row(&known_rows[i]);
    test_q8_0();
    test_q4_0();
    test_empty_blocks();
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        test_long_row(&formats[i]);
    test_addresses();
    test_raw_copy();
    test_attention();
    test_poison();
    return done_testing();
}
