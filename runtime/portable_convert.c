/* WRITE_ROWS and READ_ROWS for every format.  Every step has one right result, to the bit.

   SPDX-License-Identifier: Apache-2.0 */
#include "portable.h"

#include "cache_row.h"
#include "numbers.h"

/* ---- Numbers ---- */

/* The largest magnitude of some elements; NaN if one of them is. */
static float largest_of(int activation, const unsigned char *data, int64_t from, int64_t count) {
    uint32_t largest = 0;
    for (int64_t i = from; i < from + count; i++) {
        uint32_t bits = kvmill_bits_of_float(kvmill_load_float(activation, data, i)) & 0x7fffffff;
        largest = bits > largest ? bits : largest; /* NaNs are above infinity */
    }
    return kvmill_float_of_bits(largest > 0x7f800000 ? 0x7fc00000 : largest);
}

static float clamp(float value, float limit) {
    return value > limit ? limit : value < -limit ? -limit : value;
}

/* At magnitudes of 2^23 floats are the integers. */
static int round_to_even(float value) {
    float moved = value + 0x1.8p23f;
    return (int)(moved - 0x1.8p23f);
}

static int round_from_zero(float value) {
    int whole = (int)value;
    float rest = value - (float)whole;
    return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

/* ---- Groups that share a scale ---- */

/* Every step is rounded to the type of the activations; what is not finite stays. */
static float scale_of(float largest, float limit, int activation) {
    float scale = kvmill_round_as(activation, largest / limit);
    float least = kvmill_round_as(activation, 1e-5f);
    return scale < least ? least : scale;
}

static int code_of(float value, float scale, float limit, int activation) {
    if (!kvmill_is_finite(scale))
        return 0;
    return round_to_even(clamp(kvmill_round_as(activation, value / scale), limit));
}

static void set_code(int element, unsigned char *data, int64_t i, int code) {
    if (element == KVMILL_I8)
        data[i] = (unsigned char)code;
    else if (i % 2 == 0)
        data[i / 2] = code & 0xf;
    else
        data[i / 2] |= (unsigned char)((code & 0xf) << 4);
}

static void write_groups(const struct kvmill_convert_shape *shape, const unsigned char *from,
                         unsigned char *data, unsigned char *scales) {
    const struct kvmill_format *format = &shape->format;
    float limit = format->element == KVMILL_I8 ? 127 : 7;
    for (int64_t begin = 0; begin < format->dim; begin += format->group) {
        float largest = largest_of(shape->activation, from, begin, format->group);
        float scale = scale_of(largest, limit, shape->activation);
        kvmill_store_float(format->scale, scales, begin / format->group, scale);
        for (int64_t i = begin; i < begin + format->group; i++) {
            float value = kvmill_load_float(shape->activation, from, i);
            set_code(format->element, data, i, code_of(value, scale, limit, shape->activation));
        }
    }
}

/* ---- Blocks of llama.cpp, quantised as its reference functions do ---- */

static float inverse_of(float scale) {
    return scale == 0 ? 0 : 1 / scale;
}

/* Where the reference leaves the result open: 0 for what is not a number (as all elements beside
   one that is not finite), no codes out of range where the inverse overflowed. */
static float block_quotient(float value, float inverse, float limit) {
    float product = value * inverse;
    return inverse == 0 || product != product ? 0 : clamp(product, limit);
}

static void write_q8_0(const struct kvmill_convert_shape *shape, const unsigned char *from,
                       unsigned char *block, unsigned char *unused) {
    (void)unused;
    for (int64_t begin = 0; begin < shape->format.dim; begin += KVMILL_BLOCK) {
        float scale = largest_of(shape->activation, from, begin, KVMILL_BLOCK) / 127;
        float inverse = kvmill_is_finite(scale) ? inverse_of(scale) : 0;
        kvmill_store_float(KVMILL_F16, block, 0, scale);
        for (int i = 0; i < KVMILL_BLOCK; i++) {
            float value = kvmill_load_float(shape->activation, from, begin + i);
            block[KVMILL_BLOCK_SCALE + i] =
                (unsigned char)round_from_zero(block_quotient(value, inverse, 127));
        }
        block += KVMILL_Q8_0_BYTES;
    }
}

/* The first element that has the largest magnitude, 0 where that is 0; NaN if there is one. */
static float extreme_of(int activation, const unsigned char *from, int64_t begin) {
    float largest = largest_of(activation, from, begin, KVMILL_BLOCK);
    for (int64_t i = begin; i < begin + KVMILL_BLOCK; i++) {
        float value = kvmill_load_float(activation, from, i);
        if (value == largest || value == -largest)
            return value == largest ? largest : -largest;
    }
    return largest;
}

static int q4_0_code(int activation, const unsigned char *from, int64_t i, float inverse) {
    float moved = block_quotient(kvmill_load_float(activation, from, i), inverse, 8) + 8.5f;
    return moved < 15 ? (int)moved : 15;
}

static void write_q4_0(const struct kvmill_convert_shape *shape, const unsigned char *from,
                       unsigned char *block, unsigned char *unused) {
    (void)unused;
    for (int64_t begin = 0; begin < shape->format.dim; begin += KVMILL_BLOCK) {
        float scale = extreme_of(shape->activation, from, begin) / -8;
        float inverse = kvmill_is_finite(scale) ? inverse_of(scale) : 0;
        kvmill_store_float(KVMILL_F16, block, 0, scale);
        for (int i = 0; i < KVMILL_BLOCK / 2; i++) {
            int low = q4_0_code(shape->activation, from, begin + i, inverse);
            int high = q4_0_code(shape->activation, from, begin + i + KVMILL_BLOCK / 2, inverse);
            block[KVMILL_BLOCK_SCALE + i] = (unsigned char)(low | high << 4);
        }
        block += KVMILL_Q4_0_BYTES;
    }
}

/* ---- Rows ---- */

typedef void write_row(const struct kvmill_convert_shape *shape, const unsigned char *from,
                       unsigned char *data, unsigned char *scales);

static void write_plain(const struct kvmill_convert_shape *shape, const unsigned char *from,
                        unsigned char *data, unsigned char *unused) {
    (void)unused;
    for (int64_t i = 0; i < shape->format.dim; i++)
        kvmill_store_float(shape->format.element, data, i,
                           kvmill_load_float(shape->activation, from, i));
}

static write_row *const writers[] = {
    [KVMILL_F32] = write_plain, [KVMILL_F16] = write_plain, [KVMILL_BF16] = write_plain,
    [KVMILL_I8] = write_groups, [KVMILL_I4] = write_groups, [KVMILL_Q8_0] = write_q8_0,
    [KVMILL_Q4_0] = write_q4_0,
};

/* Products are rounded to the type of the scales, then to that of the activations. */
static void read_row(const struct kvmill_convert_shape *shape, unsigned char *to,
                     const unsigned char *data, const unsigned char *scales) {
    enum { PIECE = 2 * KVMILL_BLOCK };
    const struct kvmill_format *format = &shape->format;
    float piece[PIECE];
    for (int64_t from = 0; from < format->dim; from += PIECE) {
        int64_t count = format->dim - from < PIECE ? format->dim - from : PIECE;
        kvmill_load_cache_row(format, data, scales, from, count, piece);
        for (int64_t i = 0; i < count; i++)
            kvmill_store_float(shape->activation, to, from + i,
                               kvmill_round_as(format->scale, piece[i]));
    }
}

static bool is_copy(const struct kvmill_convert_shape *shape) {
    return shape->activation == shape->format.element;
}

static int64_t activation_row_bytes(const struct kvmill_convert_shape *shape) {
    int64_t dim = shape->format.dim;
    return shape->activation == KVMILL_I8 ? dim : dim * kvmill_activation_bytes(shape->activation);
}

struct place {
    unsigned char *activation, *data, *scale;
};

/* Where token t of a kv head, which is `head` of the activations, lies. */
static struct place place_of(const struct kvmill_convert *problem, int64_t t, int64_t kv_head,
                             int64_t head) {
    const struct kvmill_cache_rows *cache = &problem->cache;
    int64_t row = problem->slot[t];
    int64_t scale = row * cache->scale_row_stride + kv_head * cache->scale_head_stride;
    return (struct place){problem->activation + t * problem->token_stride +
                              head * problem->head_stride,
                          cache->data + row * cache->row_stride + kv_head * cache->head_stride,
                          cache->scale == NULL ? NULL : cache->scale + scale};
}

static void write_head(const struct kvmill_convert *problem, int64_t t, int64_t head) {
    const struct kvmill_convert_shape *shape = problem->shape;
    struct place place = place_of(problem, t, head, head);
    if (is_copy(shape))
        memcpy(place.data, place.activation, (size_t)activation_row_bytes(shape));
    else
        writers[shape->format.element](shape, place.activation, place.data, place.scale);
}

static void read_head(const struct kvmill_convert *problem, int64_t t, int64_t head) {
    const struct kvmill_convert_shape *shape = problem->shape;
    size_t bytes = (size_t)activation_row_bytes(shape);
    struct place place = place_of(problem, t, head, head * problem->repeat);
    if (is_copy(shape))
        memcpy(place.activation, place.data, bytes);
    else
        read_row(shape, place.activation, place.data, place.scale);
    for (int64_t r = 1; r < problem->repeat; r++)
        memcpy(place.activation + r * problem->head_stride, place.activation, bytes);
}

static void write_rows(const void *argument, int64_t first, int64_t last) {
    const struct kvmill_convert *problem = argument;
    for (int64_t t = first; t < last; t++)
        for (int64_t head = 0; head < problem->heads; head++)
            write_head(problem, t, head);
}

static void read_rows(const void *argument, int64_t first, int64_t last) {
    const struct kvmill_convert *problem = argument;
    for (int64_t t = first; t < last; t++)
        for (int64_t head = 0; head < problem->heads; head++)
            read_head(problem, t, head);
}

const struct kvmill_kernel kvmill_portable_write_rows = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_WRITE_ROWS,
    .symbol = "kvmill_write_rows__portable",
    .isa = "scalar",
    .run = write_rows,
};

const struct kvmill_kernel kvmill_portable_read_rows = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_READ_ROWS,
    .symbol = "kvmill_read_rows__portable",
    .isa = "scalar",
    .run = read_rows,
};
