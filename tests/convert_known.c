/* SPDX-License-Identifier: Apache-2.0 */
#include "convert_known.h"

#include "../defs/format.h"
#include "common.h"

bool convert_is_writer(const struct kvmill_kernel *kernel) {
    return kernel->family == KVMILL_WRITE_ROWS;
}

/* ---- The reference's own numbers ---- */

/* Rows of tests/tables/known_rows.tsv. */
static struct known {
    char name[8];
    int activation, element, scale, group;
    double input[16], code[16], back[16];
    unsigned char scale_bits[4]; /* as in memory */
    bool is_read_back;
} known[24];
static size_t known_count;

static struct known_block {
    int element;
    double input[ORACLE_BLOCK], read[ORACLE_BLOCK], block[40];
} known_blocks[8];
static size_t block_count;

int convert_element(const char *name) {
    for (int i = 0; kvmill_format_name(i) != NULL; i++)
        if (strcmp(kvmill_format_name(i), name) == 0)
            return i;
    bail_out("there is no element %s", name);
}

/* The bits of a scale, as the processor stores them. */
static void put_scale(const char *cell, int scale, unsigned char bits[4]) {
    uint32_t word = (uint32_t)strtoul(cell, NULL, 16);
    uint16_t half = (uint16_t)word;
    memcpy(bits, scale == KVMILL_F32 ? (const void *)&word : &half, scale == KVMILL_F32 ? 4 : 2);
}

ROWS(row, 9) {
    struct known *k = &known[known_count++];
    if (known_count > COUNT(known))
        bail_out("more than %zu known rows", COUNT(known));
    snprintf(k->name, sizeof k->name, "%s", cells[0]);
    k->activation = convert_element(cells[1]);
    k->element = convert_element(cells[2]);
    k->scale = convert_element(cells[3]);
    k->group = atoi(cells[4]);
    put_scale(cells[6], k->scale, k->scale_bits);
    numbers_in(cells[5], 10, k->input, k->group);
    numbers_in(cells[7], 10, k->code, k->group);
    k->is_read_back = numbers_in(cells[8], 10, k->back, k->group) > 0;
}

/* The table has little-endian numbers: one or two float16, or a float32 and the sum of codes. */
static void order_bytes(struct known_block *k) {
    static const uint16_t one = 1;
    int size = k->element == KVMILL_Q8_KV ? 4 : 2;
    bool has_two = size == 4 || oracle_has_minimum(oracle_of_element(k->element));
    if (*(const unsigned char *)&one == 1)
        return;
    for (int i = 0; i < size / 2; i++)
        for (int at = 0; at <= has_two * size; at += size) {
            double low = k->block[at + i];
            k->block[at + i] = k->block[at + size - 1 - i];
            k->block[at + size - 1 - i] = low;
        }
}

ROWS(block, 4) {
    struct known_block *k = &known_blocks[block_count++];
    if (block_count > COUNT(known_blocks))
        bail_out("more than %zu known blocks", COUNT(known_blocks));
    k->element = convert_element(cells[0]);
    numbers_in(cells[1], 10, k->input, ORACLE_BLOCK);
    numbers_in(cells[2], 10, k->read, ORACLE_BLOCK);
    numbers_in(cells[3], 16, k->block, COUNT(k->block));
    order_bytes(k);
}

static bool fits(const struct known *k, const struct kvmill_convert_shape *shape) {
    return shape->activation == k->activation && shape->format.element == k->element &&
           shape->format.scale == k->scale && shape->format.quant_group == k->group;
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

/* Whether codes and scales have the bytes that the definition says; they are written here without
   the oracle. */
static bool codes_are(const struct known *k, const struct known_row *row, int64_t dim) {
    static const unsigned char i1[] = {0x97, 0x04, 0x22, 0xac};
    bool good = strcmp(k->name, "I1") != 0 || memcmp(row->data, i1, sizeof i1) == 0;
    for (int64_t i = 0; i < dim; i++) {
        int code = row->data[i / (k->element == KVMILL_I4 ? 2 : 1)];
        if (k->element == KVMILL_I4)
            code = code >> i % 2 * 4 & 15;
        good &= code == ((int)k->code[i % k->group] & (k->element == KVMILL_I4 ? 15 : 255));
    }
    for (int64_t g = 0; g < dim / k->group; g++)
        good &=
            memcmp(row->scale + g * (int64_t)scale_bytes(k), k->scale_bits, scale_bytes(k)) == 0;
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
        memcpy(row->scale + g * (int64_t)scale_bytes(k), k->scale_bits, scale_bytes(k));
    for (int64_t i = 0; i < dim; i++)
        oracle_put(oracle_of_element(k->element), row->data, i, k->code[i % k->group]);
}

/* Whether the kernel writes the known row, and the oracle, too. */
static bool writes_known(const struct known *k, const struct kvmill_kernel *kernel,
                         const struct known_row *row, int64_t dim) {
    for (int64_t i = 0; i < dim; i++)
        oracle_put(oracle_of_element(k->activation), row->activation, i, k->input[i % k->group]);
    run_known(kernel, row);
    bool good = codes_are(k, row, dim);
    memset(row->data, 0, (size_t)dim);
    oracle_convert_write(kernel->shape, false, row->activation, row->data, row->scale);
    return good && codes_are(k, row, dim);
}

static void test_known(const struct known *k, const struct kvmill_kernel *kernel) {
    int64_t dim = ((const struct kvmill_convert_shape *)kernel->shape)->format.dim;
    FREED unsigned char *memory = calloc((size_t)dim, 3 * 4);
    const struct known_row row = {memory, memory + 4 * dim, memory + 8 * dim};
    if (!convert_is_writer(kernel)) {
        set_codes(k, &row, dim);
        run_known(kernel, &row);
    }
    ok(convert_is_writer(kernel) ? writes_known(k, kernel, &row, dim) : reads_back(k, &row, dim),
       "%s of the reference: %s", k->name, kernel->symbol);
}

static void give_block(const struct known_block *known, bool writes, const struct known_row *row) {
    for (int i = 0; i < ORACLE_BLOCK && writes; i++)
        oracle_put(ORACLE_F32, row->activation, i, known->input[i]);
    for (size_t i = 0; i < COUNT(known->block) && !writes; i++)
        row->data[i] = (unsigned char)known->block[i];
}

static bool is_block(const struct known_block *known, bool writes, const struct known_row *row) {
    int64_t bytes = oracle_bytes(oracle_of_element(known->element), ORACLE_BLOCK);
    bool good = true;
    for (int64_t i = 0; i < bytes && writes; i++)
        good = good && row->data[i] == (unsigned char)known->block[i];
    for (int i = 0; i < ORACLE_BLOCK && !writes; i++)
        good = good && oracle_get(ORACLE_F32, row->activation, i) == (double)(float)known->read[i];
    return good;
}

static void test_known_block(const struct known_block *known, const struct kvmill_kernel *kernel) {
    const struct kvmill_convert_shape *shape = kernel->shape;
    bool writes = convert_is_writer(kernel);
    if (shape->format.element != known->element || shape->activation != KVMILL_F32 ||
        (known->element == KVMILL_Q8_KV && shape->format.dim != ORACLE_BLOCK))
        return;
    size_t dim = (size_t)shape->format.dim;
    FREED unsigned char *memory = calloc(dim, 2 * 4);
    const struct known_row row = {memory, memory + 4 * dim, NULL};
    give_block(known, writes, &row);
    run_known(kernel, &row);
    ok(is_block(known, writes, &row), "a known block: %s", kernel->symbol);
}

/* ---- Scales of the 16-bit types ---- */

enum { HALVES = 127, NEIGHBOURS = 3 };

/* Returns a number next to a half of codes, if that is below the peak. */
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
    oracle_convert_write(shape, false, have->activation, want->data, want->scale);
    return memcmp(have->data, want->data, (size_t)oracle_data_bytes(&shape->format)) == 0 &&
           memcmp(have->scale, want->scale, (size_t)oracle_scale_bytes(&shape->format)) == 0;
}

/* Converts elements around all halves of codes, for one largest magnitude in seven. */
static bool sweeps(const struct kvmill_kernel *kernel) {
    const struct kvmill_convert_shape *shape = kernel->shape;
    enum oracle_type type = oracle_of_element(shape->activation);
    int64_t dim = shape->format.dim;
    FREED unsigned char *memory = calloc((size_t)dim, 5 * 4);
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
    return good;
}

/* Tests one kernel of each instruction set, and the portable one. */
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
    if (known_count == 0)
        run_table("known_rows");
    for (size_t i = 0; i < known_count; i++)
        if (fits(&known[i], kernel->shape) && (convert_is_writer(kernel) || known[i].is_read_back))
            test_known(&known[i], kernel);
    for (size_t i = 0; i < block_count; i++)
        test_known_block(&known_blocks[i], kernel);
    test_sweep(kernel);
}
