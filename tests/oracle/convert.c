/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_cache_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum oracle_type oracle_of_element(int element) {
    static const enum oracle_type types[] = {
        [KVMILL_F32] = ORACLE_F32,     [KVMILL_F16] = ORACLE_F16,       [KVMILL_BF16] = ORACLE_BF16,
        [KVMILL_I8] = ORACLE_I8,       [KVMILL_I4] = ORACLE_I4,         [KVMILL_Q8_0] = ORACLE_Q8_0,
        [KVMILL_Q4_0] = ORACLE_Q4_0,   [KVMILL_E4M3] = ORACLE_E4M3,     [KVMILL_E5M2] = ORACLE_E5M2,
        [KVMILL_Q5_1] = ORACLE_Q5_1,   [KVMILL_I8KT] = ORACLE_I8,       [KVMILL_I4KT] = ORACLE_I4,
        [KVMILL_I8VT] = ORACLE_I8,     [KVMILL_I4VT] = ORACLE_I4,       [KVMILL_Q4_1] = ORACLE_Q4_1,
        [KVMILL_Q5_0] = ORACLE_Q5_0,   [KVMILL_IQ4_NL] = ORACLE_IQ4_NL, [KVMILL_Q6_0] = ORACLE_Q6_0,
        [KVMILL_Q8_KV] = ORACLE_Q8_KV, [KVMILL_F32T] = ORACLE_F32,      [KVMILL_F16T] = ORACLE_F16,
        [KVMILL_BF16T] = ORACLE_BF16};
    return types[element];
}

bool oracle_is_transposed(const struct kvmill_format *format) {
    return format->element >= KVMILL_F32T && format->element <= KVMILL_BF16T;
}

/* Returns the tiles of a format; a transposed page is a tile of single elements. */
struct oracle_tiles oracle_tiles_of(const struct kvmill_format *format) {
    int element = format->element;
    if (oracle_is_transposed(format))
        return (struct oracle_tiles){format->quant_group, element == KVMILL_F32T ? 4 : 2};
    return element == KVMILL_I8KT || element == KVMILL_I4KT   ? (struct oracle_tiles){16, 4}
           : element == KVMILL_I8VT || element == KVMILL_I4VT ? (struct oracle_tiles){4, 1}
                                                              : (struct oracle_tiles){0};
}

int64_t oracle_group(const struct kvmill_format *format) {
    return format->scale != 0 ? format->quant_group : 0;
}

int64_t oracle_data_bytes(const struct kvmill_format *format) {
    return oracle_bytes(oracle_of_element(format->element), format->dim);
}

int64_t oracle_scale_bytes(const struct kvmill_format *format) {
    return oracle_group(format) > 0
               ? oracle_bytes(oracle_of_element(format->scale), format->dim / format->quant_group)
               : 0;
}

int64_t oracle_activation_bytes(const struct kvmill_convert_shape *shape) {
    return oracle_bytes(oracle_of_element(shape->activation), shape->format.dim);
}

/* ---- Cases that the reference of llama.cpp leaves open ---- */

static float scale_of_block(int element, const double *x, int64_t count) {
    double extreme = 0;
    bool is_nan = false;
    for (int64_t i = 0; i < count; i++) {
        is_nan |= isnan(x[i]);
        extreme = fabs(x[i]) > fabs(extreme) ? x[i] : extreme;
    }
    float number = (float)(is_nan ? NAN : extreme);
    int middle = oracle_middle(oracle_of_element(element));
    return middle == 0 ? fabsf(number / 127.0f) : number / -(float)middle;
}

/* Writes a block that is not finite, with codes 0, or a block whose scale's inverse overflows, with
   the codes farthest from 0.  Returns false for all other blocks. */
static bool write_open_block(int element, const double *x, unsigned char *block) {
    float scale = scale_of_block(element, x, ORACLE_BLOCK);
    enum oracle_type type = oracle_of_element(element);
    int middle = oracle_middle(type);
    if (scale == 0 || (isfinite(scale) && isfinite(1 / scale)))
        return false;
    memset(block, 0, (size_t)oracle_bytes(type, ORACLE_BLOCK));
    oracle_put(ORACLE_F16, block, 0, isnan(scale) ? (double)NAN : (double)scale);
    for (int i = 0; i < ORACLE_BLOCK; i++) {
        bool same = (x[i] < 0) == (scale < 0), none = !isfinite(scale) || x[i] == 0;
        if (element == KVMILL_Q8_0)
            block[2 + i] = (unsigned char)(none ? 0 : same ? 127 : -127);
        else
            oracle_put_code(type, block, i, none ? middle : same ? 2 * middle - 1 : 0);
    }
    return true;
}

/* Like write_open_block, for rows with one scale. */
static bool write_open_row(const double *x, int64_t count, unsigned char *row) {
    float scale = scale_of_block(KVMILL_Q8_KV, x, count);
    if (scale == 0 || (isfinite(scale) && isfinite(1 / scale)))
        return false;
    double *codes = calloc((size_t)count, sizeof *codes);
    for (int64_t i = 0; i < count && isfinite(scale); i++)
        codes[i] = 127 * ((x[i] > 0) - (x[i] < 0));
    oracle_put(ORACLE_F32, row, 0, isnan(scale) ? (double)NAN : (double)scale);
    oracle_put_sum(row, codes, count);
    free(codes);
    return true;
}

/* Like write_open_block, for blocks with a minimum.  An element that is not finite makes scale and
   minimum NaN; a range that is not finite makes codes 0; a range without an inverse makes the
   largest codes above the minimum. */
static bool write_open_range(int element, const double *x, unsigned char *block) {
    enum oracle_type type = oracle_of_element(element);
    int top = (1 << oracle_code_bits(type)) - 1;
    double least = x[0], most = x[0];
    bool finite = true;
    for (int i = 0; i < ORACLE_BLOCK; i++) {
        finite &= isfinite(x[i]) != 0;
        least = fmin(least, x[i]);
        most = fmax(most, x[i]);
    }
    float range = (float)(most - least), scale = finite ? range / (float)top : NAN;
    bool no_inverse = isfinite(scale) && scale != 0 && !isfinite(1 / scale);
    if (isfinite(scale) && !no_inverse)
        return false;
    memset(block, 0, (size_t)oracle_bytes(type, ORACLE_BLOCK));
    oracle_put(ORACLE_F16, block, 0, (double)scale);
    oracle_put(ORACLE_F16, block, 1, finite ? least : (double)NAN);
    for (int i = 0; i < ORACLE_BLOCK && no_inverse; i++)
        oracle_put_code(type, block, i, x[i] > least ? top : 0);
    return true;
}

/* Like write_open_block, for a table: an element that is not finite makes the scale NaN and all
   codes the table's first. */
static bool write_open_places(int element, const double *x, unsigned char *block) {
    bool finite = true;
    for (int i = 0; i < ORACLE_BLOCK; i++)
        finite &= isfinite(x[i]) != 0;
    if (finite)
        return false;
    memset(block, 0, (size_t)oracle_bytes(oracle_of_element(element), ORACLE_BLOCK));
    oracle_put(ORACLE_F16, block, 0, (double)NAN);
    return true;
}

/* ---- Rows ---- */

static struct oracle_side side_of(const struct kvmill_format *format, int64_t dim,
                                  unsigned char *data, unsigned char *scale) {
    return (struct oracle_side){.type = oracle_of_element(format->element),
                                .scale_type =
                                    format->scale ? oracle_of_element(format->scale) : ORACLE_F32,
                                .dim = dim,
                                .group = oracle_group(format),
                                .data = data,
                                .scale = scale};
}

static void write_block(const struct kvmill_convert_shape *shape, const double *x, int64_t count,
                        unsigned char *block) {
    struct oracle_side side = side_of(&shape->format, count, block, NULL);
    int element = shape->format.element;
    if (element == KVMILL_Q8_KV && write_open_row(x, count, block))
        return;
    bool (*write_open)(int, const double *, unsigned char *) =
        element == KVMILL_IQ4_NL        ? write_open_places
        : oracle_has_minimum(side.type) ? write_open_range
                                        : write_open_block;
    if (element == KVMILL_Q8_KV || !write_open(element, x, block))
        oracle_write_row(&side, oracle_of_element(shape->activation), 0, x);
}

void oracle_convert_write(const struct kvmill_convert_shape *shape, bool saturates,
                          const unsigned char *from, unsigned char *data, unsigned char *scale) {
    enum oracle_type activation = oracle_of_element(shape->activation);
    const struct kvmill_format *format = &shape->format;
    struct oracle_side side = side_of(format, format->dim, data, scale);
    int64_t count = oracle_block(side.type, format->dim), block = oracle_bytes(side.type, count);
    double *numbers = malloc((size_t)format->dim * sizeof *numbers);
    side.saturates = saturates;
    for (int64_t i = 0; i < format->dim; i++)
        numbers[i] = oracle_get(activation, from, i);
    if (!oracle_is_blocks(oracle_of_element(format->element)))
        oracle_write_row(&side, activation, 0, numbers);
    for (int64_t i = 0; oracle_is_blocks(oracle_of_element(format->element)) && i < format->dim;
         i += count)
        write_block(shape, numbers + i, count, data + i / count * block);
    free(numbers);
}

void oracle_convert_read(const struct kvmill_convert_shape *shape, unsigned char *to,
                         unsigned char *data, unsigned char *scale) {
    enum oracle_type activation = oracle_of_element(shape->activation);
    struct oracle_side side = side_of(&shape->format, shape->format.dim, data, scale);
    double *numbers = malloc((size_t)shape->format.dim * sizeof *numbers);
    oracle_read_row(&side, activation, 0, numbers);
    for (int64_t i = 0; i < shape->format.dim; i++)
        oracle_put(activation, to, i, numbers[i]);
    free(numbers);
}
