/* SPDX-License-Identifier: Apache-2.0 */
#include "convert_known.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "oracle/convert.h"

bool convert_is_writer(const struct kvmill_kernel *kernel) {
    return kernel->family == KVMILL_WRITE_ROWS;
}

/* ---- The reference's own numbers ---- */

/* A group, for every kernel that has such groups: all of its row are this one. */
struct known {
    const char *name;
    int activation, element, scale, group;
    double input[16];
    uint32_t scale_bits;
    int code[16];
    double back[16]; /* what is read; all 0: not looked at */
};

/* clang-format off */
static const struct known known[] = {
    {"Q1", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {127, -127, 63.5, .5, 1.5, 2.5, -.5, -2.5},
     0x3f800000, {127, -127, 64, 0, 2, 2, 0, -2}, {0}},
    {"Q1", KVMILL_F16, KVMILL_I8, KVMILL_F16, 8, {127, -127, 63.5, .5, 1.5, 2.5, -.5, -2.5},
     0x3c00, {127, -127, 64, 0, 2, 2, 0, -2}, {0}},
    {"Q2", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {31.75, -31.75, .125, .375, -.125, 10, -7.9, 0},
     0x3e800000, {127, -127, 0, 2, 0, 40, -32, 0}, {31.75, -31.75, 0, .5, 0, 10, -8, 0}},
    {"Q3", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {0}, 0x3727c5ac, {0}, {0}},
    {"Q3", KVMILL_F16, KVMILL_I8, KVMILL_F16, 8, {0}, 0x00a8, {0}, {0}},
    {"Q4", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {1e-4, -5e-5, 2.4e-5, 4e-6, 6e-6, -1e-4, 1e-5, 0},
     0x3727c5ac, {10, -5, 2, 0, 1, -10, 1, 0}, {0}},
    {"Q4", KVMILL_F16, KVMILL_I8, KVMILL_F16, 8, {1e-4, -5e-5, 2.4e-5, 4e-6, 6e-6, -1e-4, 1e-5, 0},
     0x00a8, {10, -5, 2, 0, 1, -10, 1, 0}, {0}},
    {"Q5", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {1, 2, 3, 4, 5, 6, 7, 8},
     0x3d810204, {16, 32, 48, 64, 79, 95, 111, 127}, {0}},
    {"Q5", KVMILL_F16, KVMILL_I8, KVMILL_F16, 8, {1, 2, 3, 4, 5, 6, 7, 8},
     0x2c08, {16, 32, 48, 64, 79, 95, 111, 127}, {0}},
    {"Q6", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {18, 9, -9, -18, 4.5, 1, 0, 2},
     0x3e112245, {127, 63, -63, -127, 32, 7, 0, 14}, {0}},
    {"Q7", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {30, 15, -15, -30, 7.5, 1, 0, 2},
     0x3e71e3c8, {127, 64, -64, -127, 32, 4, 0, 8}, {0}},
    {"Q8", KVMILL_F16, KVMILL_I8, KVMILL_F16, 8, {17, 16, 8.5, -17, -16, 1, 0, 2},
     0x3049, {127, 120, 63, -127, -120, 7, 0, 15}, {0}},
    {"Q9", KVMILL_F32, KVMILL_I8, KVMILL_F32, 16,
     {127, -127, 63.5, .5, 1.5, 2.5, -.5, -2.5, 31.75, -31.75, .125, .375, -.125, 10, -7.9, 0},
     0x3f800000, {127, -127, 64, 0, 2, 2, 0, -2, 32, -32, 0, 0, 0, 10, -8, 0}, {0}},
    {"Q10", KVMILL_F32, KVMILL_I8, KVMILL_F16, 8, {1, -.5, .25, 0, .1, .2, .3, .4},
     0x2008, {127, -64, 32, 0, 13, 25, 38, 51},
     {1, -.50390625, .251953125, 0, .10235595703125, .19677734375, .29931640625, .401611328125}},
    {"I1", KVMILL_F32, KVMILL_I4, KVMILL_F32, 8, {7, -7, 3.5, .5, 1.5, 2.5, -3.5, -6.5},
     0x3f800000, {7, -7, 4, 0, 2, 2, -4, -6}, {0}},
    {"I2", KVMILL_F32, KVMILL_I4, KVMILL_F32, 8, {1, 2, 3, 4, 5, 6, 7, 8},
     0x3f924925, {1, 2, 3, 3, 4, 5, 6, 7}, {0}},
    {"I2", KVMILL_F16, KVMILL_I4, KVMILL_F16, 8, {1, 2, 3, 4, 5, 6, 7, 8},
     0x3c92, {1, 2, 3, 4, 4, 5, 6, 7}, {0}},
    {"I3", KVMILL_F32, KVMILL_I4, KVMILL_F32, 8, {-8, 7, 1, 0, 0, 0, 0, 0},
     0x3f924925, {-7, 6, 1, 0, 0, 0, 0, 0}, {0}},
};
/* clang-format on */

static bool fits(const struct known *k, const struct kvmill_convert_shape *shape) {
    return shape->activation == k->activation && shape->format.element == k->element &&
           shape->format.scale == k->scale && shape->format.quant_group == k->group;
}

static bool is_read_back(const struct known *k) {
    return k->back[0] != 0;
}

struct known_row {
    unsigned char *activation, *data, *scale;
};

static void run_known(const struct kvmill_kernel *kernel, const struct known_row *row) {
    static const int64_t slot;
    struct kvmill_convert convert = {.shape = kernel->shape,
                                     .activation = row->activation,
                                     .cache = {.data = row->data, .scale = row->scale},
                                     .slot = &slot,
                                     .heads = 1,
                                     .repeat = 1};
    kernel->run(&convert, 0, 1);
}

static size_t scale_bytes(const struct known *k) {
    return k->scale == KVMILL_F32 ? 4 : 2;
}

/* Codes and scales are where the definition says: written without the oracle. */
static bool codes_are(const struct known *k, const struct known_row *row, int64_t dim) {
    static const unsigned char i1[] = {0x97, 0x04, 0x22, 0xac};
    bool good = strcmp(k->name, "I1") != 0 || memcmp(row->data, i1, sizeof i1) == 0;
    for (int64_t i = 0; i < dim; i++) {
        int code = row->data[i / (k->element == KVMILL_I4 ? 2 : 1)];
        if (k->element == KVMILL_I4)
            code = code >> i % 2 * 4 & 15;
        good &= code == (k->code[i % k->group] & (k->element == KVMILL_I4 ? 15 : 255));
    }
    for (int64_t g = 0; g < dim / k->group; g++)
        good &=
            memcmp(row->scale + g * (int64_t)scale_bytes(k), &k->scale_bits, scale_bytes(k)) == 0;
    return good;
}

static bool reads_back(const struct known *k, const struct known_row *row, int64_t dim) {
    for (int64_t i = 0; i < dim; i++)
        if (oracle_get(oracle_of_element(k->activation), row->activation, i) !=
            k->back[i % k->group])
            return false;
    return true;
}

static void set_codes(const struct known *k, const struct known_row *row, int64_t dim) {
    for (int64_t g = 0; g < dim / k->group; g++)
        memcpy(row->scale + g * (int64_t)scale_bytes(k), &k->scale_bits, scale_bytes(k));
    for (int64_t i = 0; i < dim; i++)
        oracle_put(oracle_of_element(k->element), row->data, i, k->code[i % k->group]);
}

/* The oracle's judgement is judged, too. */
static bool writes_known(const struct known *k, const struct kvmill_kernel *kernel,
                         const struct known_row *row, int64_t dim) {
    for (int64_t i = 0; i < dim; i++)
        oracle_put(oracle_of_element(k->activation), row->activation, i, k->input[i % k->group]);
    run_known(kernel, row);
    bool good = codes_are(k, row, dim);
    memset(row->data, 0, (size_t)dim);
    oracle_convert_write(kernel->shape, row->activation, row->data, row->scale);
    return good && codes_are(k, row, dim);
}

static void test_known(const struct known *k, const struct kvmill_kernel *kernel) {
    int64_t dim = ((const struct kvmill_convert_shape *)kernel->shape)->format.dim;
    unsigned char *memory = calloc((size_t)dim, 3 * 4);
    const struct known_row row = {memory, memory + 4 * dim, memory + 8 * dim};
    if (!convert_is_writer(kernel)) {
        set_codes(k, &row, dim);
        run_known(kernel, &row);
    }
    ok(convert_is_writer(kernel) ? writes_known(k, kernel, &row, dim) : reads_back(k, &row, dim),
       "%s of the reference: %s", k->name, kernel->symbol);
    free(memory);
}

/* A block each of llama.cpp's, for kernels of float32.  Of Q8_0 the scale is 1 and halves go away
   from zero; of Q4_0 it is -1, for the extreme is 8, and element 16 is above element 0; of Q5_0
   too, with an extreme of 16, and fifth bits in turn; of Q6_0 with one of 32; of Q4_1 it is 2, the
   minimum -3. */
static const struct known_block {
    int element;
    float input[32], read[32];
    unsigned char block[34];
} known_blocks[] = {
    {KVMILL_Q8_0,
     {-127, 0.5f, -1.5f, 2.5f, 0.49999997f, 100},
     {-127, 1, -2, 3, 0, 100},
     {0, 0x3c, 0x81, 1, 0xfe, 3, 0, 100}},
    {KVMILL_Q4_0,
     {8, -8, 0.5f, 0.75f, -0.5f, 3, [16] = -2, [17] = 7},
     {8, -7, 0, 1, -1, 3, [16] = -2, [17] = 7},
     {0, 0xbc, 0xa0, 0x1f, 0x88, 0x87, 0x89, 0x85, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88,
      0x88, 0x88}},
    {KVMILL_Q5_0,
     {16, -16, 0.5f, 0.75f, -7.5f, [9] = -9, [16] = -2, [31] = 15},
     {16, -15, 0, 1, -8, [9] = -9, [16] = -2, [31] = 15},
     {0, 0xbc, 0xf6, 0xff, 0xff, 0x7f, 0x20, 0x0f, 0x00, 0x0f, 0x08,
      0, 0,    0,    0,    0x09, 0,    0,    0,    0,    0,    0x10}},
    /* Above the nibbles of elements 0, 16, 8 and 24 are 0, 1, 2 and 3: a byte of 0xe4. */
    {KVMILL_Q6_0,
     {32, -31, 0.5f, 0.75f, [8] = -8, [16] = 16, [24] = -20, [31] = 31},
     {32, -31, 0, 1, [8] = -8, [16] = 16, [24] = -20, [31] = 31},
     {0,    0xbc, 0xe4, 0xab, 0xaa, 0xa9, 0xaa, 0xaa, 0xaa, 0x2a, 0, 0x0f, 0,
      0x0f, 0,    0,    0,    0,    0x48, 0,    0,    0,    0,    0, 0,    0x10}},
    {KVMILL_Q4_1,
     {-3, 27, 0, 1, 2, -2, [16] = 5, [17] = 6},
     {-3, 27, 1, 1, 3, -1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
      5,  7,  1, 1, 1, 1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
     {0,    0x40, 0,    0xc2, 0x40, 0x5f, 0x22, 0x22, 0x23, 0x21,
      0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22}},
    {KVMILL_IQ4_NL,
     {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
      1,    1,    1,   1,   1,   1,   1,   1,   1, 1,  1,  1,  1,  1,  1,  1},
     {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
      1,    1,    1,   1,   1,   1,   1,   1,   1, 1,  1,  1,  1,  1,  1,  1},
     {0, 0x3c, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d,
      0x8e, 0x8f}},
};

static bool are_equal(const float *a, const float *b) {
    for (int i = 0; i < ORACLE_BLOCK; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

static void test_known_block(const struct known_block *known, const struct kvmill_kernel *kernel) {
    const struct kvmill_convert_shape *shape = kernel->shape;
    if (shape->format.element != known->element || shape->activation != KVMILL_F32)
        return;
    size_t dim = (size_t)shape->format.dim,
           bytes = (size_t)oracle_bytes(oracle_of_element(known->element), ORACLE_BLOCK);
    unsigned char *memory = calloc(dim, 2 * 4);
    const struct known_row row = {memory, memory + 4 * dim, NULL};
    memcpy(convert_is_writer(kernel) ? row.activation : row.data,
           convert_is_writer(kernel) ? (const void *)known->input : known->block,
           convert_is_writer(kernel) ? sizeof known->input : bytes);
    run_known(kernel, &row);
    ok(convert_is_writer(kernel)
           ? memcmp(row.data, known->block, bytes) == 0
           : are_equal((const float *)(const void *)row.activation, known->read),
       "a known block: %s", kernel->symbol);
    free(memory);
}

/* ---- Scales of the 16-bit types ---- */

enum { HALVES = 127, NEIGHBOURS = 3 };

/* Beside one of the halves of codes, where that is below the peak. */
static double around_half(enum oracle_type type, double peak, int number) {
    double scale = fmax(oracle_round(type, peak / 127), oracle_round(type, 1e-5));
    uint32_t bits = oracle_encode(type, (number / NEIGHBOURS + 0.5) * scale);
    double x = oracle_decode(type, bits + (uint32_t)(number % NEIGHBOURS - 1));
    return x < peak ? x : 0;
}

static bool is_row_right(const struct kvmill_kernel *kernel, const struct known_row *have,
                         const struct known_row *want) {
    const struct kvmill_convert_shape *shape = kernel->shape;
    run_known(kernel, have);
    oracle_convert_write(shape, have->activation, want->data, want->scale);
    return memcmp(have->data, want->data, (size_t)oracle_data_bytes(&shape->format)) == 0 &&
           memcmp(have->scale, want->scale, (size_t)oracle_scale_bytes(&shape->format)) == 0;
}

/* Elements around all halves of codes, for one largest magnitude in seven. */
static bool sweeps(const struct kvmill_kernel *kernel) {
    const struct kvmill_convert_shape *shape = kernel->shape;
    enum oracle_type type = oracle_of_element(shape->activation);
    int64_t dim = shape->format.dim;
    unsigned char *memory = calloc((size_t)dim, 5 * 4);
    struct known_row have = {memory, memory + 4 * dim, memory + 8 * dim};
    struct known_row want = {memory, memory + 12 * dim, memory + 16 * dim};
    bool good = true;
    double peak;
    for (uint32_t bits = 0; good && (peak = oracle_decode(type, bits)) < INFINITY;
         bits += is_slow_run() ? 997 : 7)
        for (int number = 0; good && number < HALVES * NEIGHBOURS;) {
            for (int64_t i = 0; i < dim; i++)
                oracle_put(type, memory, i,
                           i % shape->format.quant_group == 0 ? peak
                                                              : around_half(type, peak, number++));
            good = is_row_right(kernel, &have, &want);
        }
    free(memory);
    return good;
}

/* One kernel of each instruction set will do, and the portable one. */
static void test_sweep(const struct kvmill_kernel *kernel) {
    enum { MOST_SWEEPS = 24 };
    static char done[MOST_SWEEPS][32];
    static int count;
    const struct kvmill_convert_shape *shape = kernel->shape;
    char what[32];
    if (!convert_is_writer(kernel) || shape->format.element != KVMILL_I8 ||
        shape->format.quant_group < 8 ||
        (shape->activation != KVMILL_F16 && shape->activation != KVMILL_BF16))
        return;
    snprintf(what, sizeof what, "%d%.24s", shape->activation, strstr(kernel->symbol, "__"));
    for (int i = 0; i < count; i++)
        if (strcmp(done[i], what) == 0)
            return;
    if (count < MOST_SWEEPS)
        strcpy(done[count++], what);
    ok(sweeps(kernel), "around all codes: %s", kernel->symbol);
}

void convert_test_known(const struct kvmill_kernel *kernel) {
    for (size_t i = 0; i < COUNT(known); i++)
        if (fits(&known[i], kernel->shape) &&
            (convert_is_writer(kernel) || is_read_back(&known[i])))
            test_known(&known[i], kernel);
    for (size_t i = 0; i < COUNT(known_blocks); i++)
        test_known_block(&known_blocks[i], kernel);
    test_sweep(kernel);
}
