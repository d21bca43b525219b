/* Writes and reads rows of caches.

   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle_cache_attention.h"

/* ---- Rows ---- */

int64_t oracle_row(const struct oracle_cache *cache, int64_t b, int64_t l, int64_t kv, int64_t s,
                   int64_t h) {
    int64_t B = cache->batch, L = cache->layers, K = cache->sides, N = cache->capacity,
            H = cache->heads, P = cache->page_size;
    switch (cache->layout + (cache->dynamic ? 2 : 0)) {
    case 0:
        return (((b * L + l) * K + kv) * N + s) * H + h;
    case 1:
        return (((l * B + b) * K + kv) * H + h) * N + s;
    case 2:
        return ((s * L + l) * K + kv) * H + h;
    case 3:
        return ((l * N + s) * K + kv) * H + h;
    case 4:
        return ((l * K + kv) * N + s) * H + h;
    case 5:
        return ((l * K + kv) * H + h) * N + s;
    default:
        return (((l * K + kv) * (N / P) + s / P) * H + h) * P + s % P;
    }
}

static unsigned char *row_of(const struct oracle_side *side, int64_t row) {
    return side->data + row * oracle_bytes(side->type, side->dim);
}

/* Returns the largest magnitude, or NaN if any element is NaN. */
static double largest_magnitude(const double *x, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (isnan(x[i]) || fabs(x[i]) > largest)
            largest = fabs(x[i]);
    for (int64_t i = 0; i < count; i++)
        if (isnan(x[i]))
            largest = NAN;
    return largest;
}

/* Returns the scale that is stored and used for codes. */
static double saturated(const struct oracle_side *side, double scale) {
    double most = side->scale_type == ORACLE_F16 ? 65504 : INFINITY;
    bool overflows = isfinite(scale) && !isfinite(oracle_round(side->scale_type, scale));
    return side->saturates && overflows ? most : scale;
}

/* Returns a group's scale.  Each step is rounded to the type of the activations; a group that is
   not finite has codes 0.  A double quotient of two short numbers, rounded again, is rounded
   correctly. */
static double scale_of_group(enum oracle_type activation, int most, const double *x,
                             int64_t count) {
    double largest = largest_magnitude(x, count);
    if (!isfinite(largest))
        return largest;
    double least = oracle_round(activation, 1e-5);
    double scale = oracle_round(activation, largest / most);
    return scale > least ? scale : least;
}

static double code_of(enum oracle_type activation, int most, double x, double scale) {
    if (!isfinite(scale))
        return 0;
    double code = nearbyint(oracle_round(activation, x / scale));
    return code > most ? most : code < -most ? -most : code;
}

static void write_groups(const struct oracle_side *side, enum oracle_type activation, int64_t row,
                         const double *x) {
    int most = side->type == ORACLE_I8 ? 127 : 7;
    int64_t groups = side->dim / side->group;
    for (int64_t g = 0; g < groups; g++) {
        double scale =
            saturated(side, scale_of_group(activation, most, x + g * side->group, side->group));
        for (int64_t i = g * side->group; i < (g + 1) * side->group; i++)
            oracle_put(side->type, side->data, row * side->dim + i,
                       code_of(activation, most, x[i], scale));
        oracle_put(side->scale_type, side->scale, row * groups + g, scale);
    }
}

/* ---- llama.cpp's blocks: every step in float32 ---- */

static double f32(double x) {
    return oracle_round(ORACLE_F32, x);
}

static double inverse(double x) {
    return x == 0 ? 0 : f32(1 / x);
}

static void write_q8_0(unsigned char *block, const double *x) {
    double scale = f32(largest_magnitude(x, ORACLE_BLOCK) / 127), factor = inverse(scale);
    oracle_put(ORACLE_F16, block, 0, scale);
    for (int i = 0; i < ORACLE_BLOCK; i++)
        oracle_put(ORACLE_I8, block + 2, i, round(f32(x[i] * factor)));
}

void oracle_put_sum(unsigned char *row, const double *codes, int64_t count) {
    int32_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        oracle_put(ORACLE_I8, row + 8, i, codes[i]);
        sum += (int32_t)codes[i];
    }
    memcpy(row + 4, &sum, sizeof sum);
}

static void write_q8_kv(unsigned char *row, const double *x, int64_t count) {
    double scale = f32(largest_magnitude(x, count) / 127), factor = inverse(scale);
    double *codes = malloc((size_t)count * sizeof *codes);
    for (int64_t i = 0; i < count; i++)
        codes[i] = nearbyint(f32(x[i] * factor));
    oracle_put(ORACLE_F32, row, 0, scale);
    oracle_put_sum(row, codes, count);
    free(codes);
}

static double first_extreme(const double *x) {
    double extreme = 0;
    for (int i = 0; i < ORACLE_BLOCK; i++)
        if (fabs(x[i]) > fabs(extreme))
            extreme = x[i];
    return extreme;
}

/* Returns the nibble of an element.  The nibbles are the last 16 bytes of a block; before them are
   4 bytes of fifth bits, or 8 bytes of two bits for each element. */
static int nibble_of(int i) {
    int half = ORACLE_BLOCK / 2;
    return i < half ? 2 * i : 2 * (i - half) + 1;
}

/* The bits above a nibble: their byte, counted from the nibbles, the first bit, and a mask. */
struct above {
    int byte, bit, mask;
};

static struct above above_of(enum oracle_type type, int i) {
    static const int bit_of_quarter[] = {0, 4, 2, 6};
    if (oracle_code_bits(type) == 5)
        return (struct above){i / 8 - 4, i % 8, 1};
    if (oracle_code_bits(type) == 6)
        return (struct above){i % 8 - 8, bit_of_quarter[i / 8], 3};
    return (struct above){0, 0, 0};
}

void oracle_put_code(enum oracle_type type, unsigned char *block, int i, int code) {
    unsigned char *nibbles = block + oracle_bytes(type, ORACLE_BLOCK) - 16;
    struct above above = above_of(type, i);
    oracle_put_nibble(nibbles, nibble_of(i), code & 15);
    if (above.mask != 0)
        nibbles[above.byte] = (unsigned char)((nibbles[above.byte] & ~(above.mask << above.bit)) |
                                              (code >> 4) << above.bit);
}

static int get_code(enum oracle_type type, const unsigned char *block, int i) {
    const unsigned char *nibbles = block + oracle_bytes(type, ORACLE_BLOCK) - 16;
    struct above above = above_of(type, i);
    return oracle_get_nibble(nibbles, nibble_of(i)) +
           16 * (nibbles[above.byte] >> above.bit & above.mask);
}

/* Writes a block in which the extreme has code 0, and 0 has the middle code.  The numbers are
   finite. */
static void write_extreme(enum oracle_type type, unsigned char *block, const double *x) {
    int middle = oracle_middle(type), most = 2 * middle - 1;
    double scale = f32(first_extreme(x) / -middle), factor = inverse(scale);
    oracle_put(ORACLE_F16, block, 0, scale);
    for (int i = 0; i < ORACLE_BLOCK; i++) {
        int code = (int)f32(f32(x[i] * factor) + middle + 0.5);
        oracle_put_code(type, block, i, code < most ? code : most);
    }
}

/* Writes a block with a minimum.  The numbers are finite, and their range has an inverse. */
static void write_range(enum oracle_type type, unsigned char *block, const double *x) {
    int top = (1 << oracle_code_bits(type)) - 1;
    double least = x[0], most = x[0];
    for (int i = 1; i < ORACLE_BLOCK; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    double scale = f32(f32(most - least) / top), factor = inverse(scale);
    oracle_put(ORACLE_F16, block, 0, scale);
    oracle_put(ORACLE_F16, block, 1, least);
    for (int i = 0; i < ORACLE_BLOCK; i++)
        oracle_put_code(type, block, i, (int)f32(f32(f32(x[i] - least) * factor) + 0.5));
}

static const double iq4_nl[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};

/* Returns the index of the nearest number of the table; of two that are equally near, the
   greater. */
static int nearest(double x) {
    int best = 0;
    for (int n = 1; n < 16; n++)
        if (fabs(x - iq4_nl[n]) <= fabs(x - iq4_nl[best]))
            best = n;
    return best;
}

/* Writes an IQ4_NL block.  The numbers are finite.  Sums are in the order of elements, each step
   rounded. */
static void write_iq4_nl(unsigned char *block, const double *x) {
    double extreme = first_extreme(x), products = 0, squares = 0;
    memset(block, 0, (size_t)oracle_bytes(ORACLE_IQ4_NL, ORACLE_BLOCK));
    if (fabs(extreme) < (double)1e-15f)
        return;
    double factor = f32(1 / f32(extreme / iq4_nl[0]));
    for (int i = 0; i < ORACLE_BLOCK; i++) {
        int code = nearest(f32(factor * x[i]));
        double weighted = f32(f32(x[i] * x[i]) * iq4_nl[code]);
        products = f32(products + f32(weighted * x[i]));
        squares = f32(squares + f32(weighted * iq4_nl[code]));
        oracle_put_code(ORACLE_IQ4_NL, block, i, code);
    }
    oracle_put(ORACLE_F16, block, 0, f32(products / squares));
}

static double read_block(enum oracle_type type, const unsigned char *block, int i) {
    double scale = oracle_get(oracle_block_scale(type), block, 0);
    if (type == ORACLE_Q8_KV)
        return f32(scale * oracle_get(ORACLE_I8, block + 8, i));
    if (type == ORACLE_Q8_0)
        return scale * oracle_get(ORACLE_I8, block + 2, i);
    int code = get_code(type, block, i);
    if (oracle_has_minimum(type))
        return f32(code * scale + oracle_get(ORACLE_F16, block, 1));
    return scale * (type == ORACLE_IQ4_NL ? iq4_nl[code] : code - oracle_middle(type));
}

static bool are_finite(const double *x, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static void write_nan(enum oracle_type type, unsigned char *block, int64_t count) {
    memset(block, 0, (size_t)oracle_bytes(type, count));
    oracle_put(oracle_block_scale(type), block, 0, NAN);
}

static void write_block(enum oracle_type type, unsigned char *block, const double *x,
                        int64_t count) {
    if (!are_finite(x, count))
        write_nan(type, block, count);
    else if (type == ORACLE_Q8_KV)
        write_q8_kv(block, x, count);
    else if (type == ORACLE_Q8_0)
        write_q8_0(block, x);
    else if (type == ORACLE_IQ4_NL)
        write_iq4_nl(block, x);
    else
        (oracle_has_minimum(type) ? write_range : write_extreme)(type, block, x);
}

static void write_blocks(const struct oracle_side *side, int64_t row, const double *x) {
    unsigned char *block = row_of(side, row);
    int64_t count = oracle_block(side->type, side->dim);
    for (int64_t i = 0; i < side->dim; i += count) {
        write_block(side->type, block, x + i, count);
        block += oracle_bytes(side->type, count);
    }
}

/* ---- Rows of any type ---- */

enum { MOST_TILED_BYTES = 4096 };

/* Returns the place of byte i of a row. */
static int64_t byte_at(const struct oracle_tiles *tiles, int64_t row, int64_t count, int64_t i) {
    if (tiles->rows == 0)
        return row * count + i;
    int64_t tile = row / tiles->rows, in_tile = row % tiles->rows, piece = i / tiles->piece;
    return tile * tiles->rows * count + (piece * tiles->rows + in_tile) * tiles->piece +
           i % tiles->piece;
}

void oracle_take_row(const struct oracle_tiles *tiles, const unsigned char *array, int64_t row,
                     int64_t count, unsigned char *bytes) {
    for (int64_t i = 0; i < count; i++)
        bytes[i] = array[byte_at(tiles, row, count, i)];
}

void oracle_put_row(const struct oracle_tiles *tiles, unsigned char *array, int64_t row,
                    int64_t count, const unsigned char *bytes) {
    for (int64_t i = 0; i < count; i++)
        array[byte_at(tiles, row, count, i)] = bytes[i];
}

/* Returns a row of a tile as the only row of a side. */
static struct oracle_side row_alone(const struct oracle_side *side, int64_t row,
                                    unsigned char *bytes) {
    struct oracle_side alone = *side;
    alone.tiles = (struct oracle_tiles){0};
    if (side->group > 0)
        alone.scale += oracle_bytes(side->scale_type, row * (side->dim / side->group));
    alone.data = bytes;
    oracle_take_row(&side->tiles, side->data, row, oracle_bytes(side->type, side->dim), bytes);
    return alone;
}

void oracle_write_row(const struct oracle_side *side, enum oracle_type activation, int64_t row,
                      const double *numbers) {
    unsigned char bytes[MOST_TILED_BYTES];
    if (side->tiles.rows > 0) {
        const struct oracle_side alone = row_alone(side, row, bytes);
        oracle_write_row(&alone, activation, 0, numbers);
        oracle_put_row(&side->tiles, side->data, row, oracle_bytes(side->type, side->dim), bytes);
        return;
    }
    if (oracle_is_blocks(side->type))
        write_blocks(side, row, numbers);
    else if (oracle_is_integer(side->type) && side->group != 0)
        write_groups(side, activation, row, numbers);
    else
        for (int64_t i = 0; i < side->dim; i++)
            oracle_put(side->type, side->data, row * side->dim + i, numbers[i]);
}

static void read_blocks(const struct oracle_side *side, int64_t row, double *numbers) {
    int64_t count = oracle_block(side->type, side->dim), step = oracle_bytes(side->type, count);
    const unsigned char *first = row_of(side, row);
    for (int64_t i = 0; i < side->dim; i++)
        numbers[i] = read_block(side->type, first + i / count * step, (int)(i % count));
}

static void scale_groups(const struct oracle_side *side, int64_t row, double *numbers) {
    int64_t groups = side->dim / side->group;
    for (int64_t g = 0; g < groups; g++) {
        double scale = oracle_get(side->scale_type, side->scale, row * groups + g);
        for (int64_t i = g * side->group; i < (g + 1) * side->group; i++)
            numbers[i] *= scale;
    }
}

void oracle_read_row_exact(const struct oracle_side *side, int64_t row, double *numbers) {
    unsigned char bytes[MOST_TILED_BYTES];
    if (side->tiles.rows > 0) {
        const struct oracle_side alone = row_alone(side, row, bytes);
        oracle_read_row_exact(&alone, 0, numbers);
        return;
    }
    if (oracle_is_blocks(side->type)) {
        read_blocks(side, row, numbers);
        return;
    }
    for (int64_t i = 0; i < side->dim; i++)
        numbers[i] = oracle_get(side->type, side->data, row * side->dim + i);
    if (oracle_is_integer(side->type) && side->group != 0)
        scale_groups(side, row, numbers);
}

void oracle_read_row(const struct oracle_side *side, enum oracle_type activation, int64_t row,
                     double *numbers) {
    oracle_read_row_exact(side, row, numbers);
    bool scaled = oracle_is_integer(side->type) && side->group != 0;
    for (int64_t i = 0; i < side->dim; i++) {
        if (scaled)
            numbers[i] = oracle_round(side->scale_type, numbers[i]);
        if (activation != ORACLE_I8)
            numbers[i] = oracle_round(activation, numbers[i]);
    }
}
