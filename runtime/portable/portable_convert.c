/* WRITE_ROWS and READ_ROWS for every format.  Every step has one right result, to the bit.

   SPDX-License-Identifier: Apache-2.0 */
#include "portable.h"

#include <math.h>

#include "../../defs/codes.h"
#include "../core/numbers.h"
#include "cache_row.h"

/* ---- Numbers ---- */

/* The largest magnitude of some elements; NaN if one of them is NaN. */
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

/* From magnitudes of 2^23 on, every float is an integer. */
static int round_to_even(float value) {
    float moved = value + 0x1.8p23f;
    return (int)(moved - 0x1.8p23f);
}

static int round_from_zero(float value) {
    int whole = (int)value;
    float rest = value - (float)whole;
    return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

/* Elements that are converted together; blocks are whole. */
enum { PIECE = 2 * KVMILL_MOST_BLOCK };

static void load(int activation, const unsigned char *data, int64_t from, int64_t count, float *x) {
    for (int64_t i = 0; i < count; i++)
        x[i] = kvmill_load_float(activation, data, from + i);
}

/* ---- Groups that share a scale ---- */

/* Every step is rounded to the type of the activations; numbers that are not finite stay. */
static float scale_of(float largest, float limit, int activation) {
    float scale = kvmill_round_as(activation, largest / limit);
    float least = kvmill_round_as(activation, 1e-5f);
    return scale < least ? least : scale;
}

/* The largest number of a type, if a finite scale becomes infinite in it; otherwise the scale. */
static float saturated(float scale, int type) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(type);
    if (!kvmill_is_finite(scale) || kvmill_is_finite(kvmill_round_as(type, scale)))
        return scale;
    return kvmill_number_of_bits(parts->real, kvmill_first_not_finite(parts->real) - 1);
}

static int code_of(float value, float scale, float limit, int activation) {
    if (!kvmill_is_finite(scale))
        return 0;
    return round_to_even(clamp(kvmill_round_as(activation, value / scale), limit));
}

/* A group, PIECE elements at a time. */
static void write_group(const struct kvmill_convert_shape *shape, const unsigned char *from,
                        int64_t begin, float scale, unsigned char *data) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(shape->format.element);
    int codes[PIECE];
    float x[PIECE], limit = (float)kvmill_format_most_code(parts);
    for (int64_t at = begin, end = begin + shape->format.quant_group, count; at < end;
         at += count) {
        count = end - at < PIECE ? end - at : PIECE;
        load(shape->activation, from, at, count, x);
        for (int64_t i = 0; i < count; i++)
            codes[i] = code_of(x[i], scale, limit, shape->activation);
        kvmill_pack_codes(parts, codes, at, count, data);
    }
}

static void write_groups(const struct kvmill_convert_shape *shape, const unsigned char *from,
                         unsigned char *data, unsigned char *scales, bool saturates) {
    const struct kvmill_format *format = &shape->format;
    float limit = (float)kvmill_format_most_code(kvmill_format_parts(format->element));
    for (int64_t begin = 0; begin < format->dim; begin += format->quant_group) {
        float largest = largest_of(shape->activation, from, begin, format->quant_group);
        float scale = scale_of(largest, limit, shape->activation);
        scale = saturates ? saturated(scale, format->scale) : scale;
        kvmill_store_float(format->scale, scales, begin / format->quant_group, scale);
        write_group(shape, from, begin, scale, data);
    }
}

/* ---- Blocks of llama.cpp, quantised as its reference functions do ---- */

/* A block before its codes are packed, with scale and minimum as they are used for codes. */
struct block {
    float scale, minimum;
    int codes[KVMILL_MOST_BLOCK];
};

/* Where the reference leaves the result open: the code of 0 for NaN (as for all elements of a block
   that is not finite), and no code out of range if the inverse has overflowed. */
static float quotient(float value, float inverse, float least, float most) {
    float product = value * inverse;
    if (inverse == 0 || product != product)
        return 0;
    return product > most ? most : product < least ? least : product;
}

static float inverse_of(float scale) {
    return scale == 0 || !kvmill_is_finite(scale) ? 0 : 1 / scale;
}

static float largest_in(const float *x, int count) {
    return largest_of(KVMILL_F32, (const unsigned char *)x, 0, count);
}

/* The element with the largest magnitude, the first of equals; 0 if all are 0, NaN if one is NaN.
 */
static float extreme_of(const float *x, int count) {
    float largest = largest_in(x, count);
    for (int i = 0; i < count; i++)
        if (x[i] == largest || x[i] == -largest)
            return x[i] == largest ? largest : -largest;
    return largest;
}

static void quantise_outwards(const struct kvmill_format_parts *parts, const float *x,
                              struct block *block) {
    float most = (float)kvmill_format_most_code(parts);
    block->scale = largest_in(x, parts->block) / most;
    float inverse = inverse_of(block->scale);
    for (int i = 0; i < parts->block; i++)
        block->codes[i] = round_from_zero(quotient(x[i], inverse, -most, most));
}

/* Codes before their offset is added: rounded half up, counted from the least code. */
static void quantise_extreme(const struct kvmill_format_parts *parts, const float *x,
                             struct block *block) {
    int offset = kvmill_format_code_offset(parts), most = kvmill_format_most_code(parts);
    float half = (float)offset;
    block->scale = extreme_of(x, parts->block) / -half;
    float inverse = inverse_of(block->scale);
    for (int i = 0; i < parts->block; i++) {
        float moved = quotient(x[i], inverse, -half, half) + (half + 0.5f);
        block->codes[i] = (moved < (float)most ? (int)moved : most) - offset;
    }
}

/* The least element, the first of equals, because the sign of a zero counts; NaN if one is not
 * finite. */
static float least_of(const float *x, int count) {
    float least = x[0];
    for (int i = 0; i < count; i++) {
        least = x[i] < least ? x[i] : least;
        if (!kvmill_is_finite(x[i]))
            return kvmill_float_of_bits(0x7fc00000);
    }
    return least;
}

static float most_of(const float *x, int count) {
    float most = x[0];
    for (int i = 0; i < count; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

static void quantise_range(const struct kvmill_format_parts *parts, const float *x,
                           struct block *block) {
    float most = (float)kvmill_format_most_code(parts);
    block->minimum = least_of(x, parts->block);
    float range = most_of(x, parts->block) - block->minimum;
    block->scale = block->minimum != block->minimum ? block->minimum : range / most;
    float inverse = inverse_of(block->scale);
    for (int i = 0; i < parts->block; i++) {
        float moved = quotient(x[i] - block->minimum, inverse, 0, most) + 0.5f;
        block->codes[i] = moved < most ? (int)moved : (int)most;
    }
}

/* The index of the nearest number in the table; of two, the greater one. */
static int nearest_place(const struct kvmill_format_parts *parts, float x) {
    int place = 0;
    for (int i = 1; i < 1 << parts->bits; i++)
        place += 2 * x >= (float)(parts->table[i - 1] + parts->table[i]);
    return place;
}

/* Squared errors are weighted by the squares of the elements.  Below 1e-15 all elements count as 0.
 */
static void quantise_squares(const struct kvmill_format_parts *parts, const float *x,
                             struct block *block) {
    float extreme = extreme_of(x, parts->block), products = 0, squares = 0;
    bool finite = kvmill_is_finite(extreme), empty = !finite || fabsf(extreme) < 1e-15f;
    float inverse = empty ? 0 : 1 / (extreme / (float)parts->table[0]);
    for (int i = 0; i < parts->block; i++) {
        int place = empty ? 0 : nearest_place(parts, inverse * x[i]);
        float number = (float)parts->table[place], weight = x[i] * x[i];
        block->codes[i] = parts->table[place];
        products += weight * number * x[i];
        squares += weight * number * number;
    }
    block->scale = !finite ? kvmill_float_of_bits(0x7fc00000) : empty ? 0 : products / squares;
}

typedef void quantise(const struct kvmill_format_parts *parts, const float *x, struct block *block);

static quantise *const rules[] = {
    [KVMILL_RULE_OUTWARDS] = quantise_outwards,
    [KVMILL_RULE_EXTREME] = quantise_extreme,
    [KVMILL_RULE_RANGE] = quantise_range,
    [KVMILL_RULE_SQUARES] = quantise_squares,
};

static void write_blocks(const struct kvmill_convert_shape *shape, const unsigned char *from,
                         unsigned char *data, unsigned char *unused) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(shape->format.element);
    float x[KVMILL_MOST_BLOCK];
    struct block block;
    (void)unused;
    for (int64_t begin = 0; begin < shape->format.dim; begin += parts->block) {
        load(shape->activation, from, begin, parts->block, x);
        rules[parts->rule](parts, x, &block);
        kvmill_store_float(KVMILL_F16, data, 0, block.scale);
        if (parts->minimum)
            kvmill_store_float(KVMILL_F16, data, 1, block.minimum);
        kvmill_pack_codes(parts, block.codes, 0, parts->block,
                          data + kvmill_format_codes_at(parts));
        data += kvmill_format_block_bytes(parts);
    }
}

/* ---- Rows with one scale, quantised as ik_llama.cpp does ---- */

static void write_with_head(const struct kvmill_convert_shape *shape, const unsigned char *from,
                            unsigned char *data, unsigned char *unused) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(shape->format.element);
    int64_t dim = shape->format.dim;
    float most = (float)kvmill_format_most_code(parts), x[PIECE];
    float scale = largest_of(shape->activation, from, 0, dim) / most;
    uint32_t sum = 0;
    int codes[PIECE];
    (void)unused;
    for (int64_t at = 0, count; at < dim; at += count) {
        count = dim - at < PIECE ? dim - at : PIECE;
        load(shape->activation, from, at, count, x);
        for (int64_t i = 0; i < count; i++) {
            codes[i] = round_to_even(quotient(x[i], inverse_of(scale), -most, most));
            sum += (uint32_t)codes[i];
        }
        kvmill_pack_codes(parts, codes, at, count, data + kvmill_format_codes_at(parts));
    }
    kvmill_store_float(KVMILL_F32, data, 0, scale);
    memcpy(data + sizeof scale, &sum, sizeof sum);
}

/* ---- Rows ---- */

static void write_plain(const struct kvmill_convert_shape *shape, const unsigned char *from,
                        unsigned char *data, unsigned char *unused) {
    (void)unused;
    int element = kvmill_format_alone(&shape->format);
    int64_t step = kvmill_format_step(&shape->format);
    for (int64_t i = 0; i < shape->format.dim; i++)
        kvmill_store_float(element, data, i * step, kvmill_load_float(shape->activation, from, i));
}

static void write_row(const struct kvmill_convert_shape *shape, const unsigned char *from,
                      unsigned char *data, unsigned char *scales, bool saturates) {
    int of = kvmill_format_parts(shape->format.element)->scales;
    if (of == KVMILL_SCALES_OF_GROUPS)
        write_groups(shape, from, data, scales, saturates);
    else
        (of == KVMILL_SCALES_IN_BLOCKS ? write_blocks
         : of == KVMILL_SCALES_IN_ROWS ? write_with_head
                                       : write_plain)(shape, from, data, scales);
}

/* Products are rounded to the type of the scales, then to that of the activations. */
static void read_row(const struct kvmill_convert_shape *shape, unsigned char *to,
                     const unsigned char *data, const unsigned char *scales) {
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

/* Where the activations of token t and head `head` are. */
static struct place place_of(const struct kvmill_convert *problem, int64_t t, int64_t kv_head,
                             int64_t head) {
    const struct kvmill_cache_rows *cache = &problem->cache;
    int64_t row = problem->slot[t];
    int64_t at = kvmill_format_row_at(&problem->shape->format, row, cache->row_stride);
    int64_t scale = row * cache->scale_row_stride + kv_head * cache->scale_head_stride;
    return (struct place){problem->activation + t * problem->token_stride +
                              head * problem->head_stride,
                          cache->data + at + kv_head * cache->head_stride,
                          cache->scale == NULL ? NULL : cache->scale + scale};
}

static void write_head(const struct kvmill_convert *problem, int64_t t, int64_t head) {
    const struct kvmill_convert_shape *shape = problem->shape;
    struct place place = place_of(problem, t, head, head);
    if (is_copy(shape))
        memcpy(place.data, place.activation, (size_t)activation_row_bytes(shape));
    else
        write_row(shape, place.activation, place.data, place.scale, problem->saturate != 0);
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
    .isa = "portable",
    .run = write_rows,
};

const struct kvmill_kernel kvmill_portable_read_rows = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_READ_ROWS,
    .symbol = "kvmill_read_rows__portable",
    .isa = "portable",
    .run = read_rows,
};
