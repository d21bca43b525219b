/* The acceptance cases and the checklist of the cache attention reference, item by item, and every
   refusal it asks for: with which status and words, and that it changes no byte of any tensor.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "tap.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};
static const kvmill_plan_options options_of[] = {
    {.struct_size = sizeof(kvmill_plan_options), .threads = 2},
    {.struct_size = sizeof(kvmill_plan_options), .packs = packs, .pack_count = 2, .threads = 2}};

static const DLDataType f32 = {kDLFloat, 32, 1}, f16 = {kDLFloat, 16, 1}, f64 = {kDLFloat, 64, 1},
                        bf16 = {kDLBfloat, 16, 1}, i8 = {kDLInt, 8, 1}, i4 = {kDLInt, 4, 1},
                        u8 = {kDLUInt, 8, 1}, i32 = {kDLInt, 32, 1};

static struct dice dice;

#define NUMBERS(...)  ((const int64_t[]){__VA_ARGS__})
#define COUNT_OF(...) (sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define WORDS(...)    ((const char *const[]){__VA_ARGS__, NULL})

/* ---- Scenes ---- */

static struct attention empty_scene(enum cache_op which) {
    struct attention a = {.which = which, .decoding_rank = 1, .query_size = 3};
    kvmill_cache_attention_init(&a.op, sizeof a.op);
    a.op.T1 = a.op.T2 = a.op.T3 = f32;
    return a;
}

/* One sequence of new tokens behind others, one kv head. */
static struct attention small_scene(enum cache_op which, int64_t start, int64_t tokens,
                                    int64_t dim) {
    struct attention a = empty_scene(which);
    a.op.num_kv_heads = a.op.num_heads = 1;
    a.op.head_dim = dim;
    a.sequences = 1;
    a.tokens[0] = tokens;
    a.start[0] = start;
    return a;
}

static void set_format(struct attention *a, int64_t bits, int64_t group) {
    a->op.quant_bit = bits;
    a->op.quant_group = group;
    a->op.T2 = bits == 8 ? i8 : bits == 4 ? i4 : a->op.T2;
}

static void set_numbers(struct attention *a, int tensor, int64_t first, int64_t count,
                        const double *x) {
    for (int64_t i = 0; i < count; i++)
        attention_set(a, tensor, first + i, x[i]);
}

/* ---- Running a scene in every way ---- */

static kvmill_status run_way(const struct attention *a, const kvmill_plan *plan, int threads,
                             kvmill_error *error) {
    struct fence workspace;
    fence_open(&workspace, (kvmill_plan_workspace_size(plan) + 63) / 64 * 64, 0, FENCE_ABOVE,
               &dice);
    kvmill_status status = attention_run(a, plan, workspace.data, threads, &dice, error);
    fence_close(&workspace);
    return status;
}

/* The opened scene with and without packs; leaves the outputs of the last run. */
static bool runs(struct attention *a) {
    bool good = true;
    attention_expect(a, &dice);
    for (int i = 0; good && i < 4; i++) {
        kvmill_error error;
        kvmill_plan *plan;
        attention_restore(a);
        kvmill_status status = attention_plan(a, &options_of[i / 2], &plan, &error);
        if (status == KVMILL_OK)
            status = run_way(a, plan, i % 2 ? 3 : 0, &error);
        if (status != KVMILL_OK)
            diag("%s: %s", kvmill_status_name(status), error.message);
        good = status == KVMILL_OK && *error.message == '\0' && attention_is_right(a);
        if (!good)
            diag("%s, %s", i / 2 ? "packs" : "no packs", a->words);
        kvmill_plan_destroy(plan);
    }
    return good;
}

static bool agrees(struct attention a) {
    attention_open(&a, &dice);
    bool good = runs(&a);
    attention_close(&a);
    return good;
}

static bool are_near(const struct attention *a, int tensor, int64_t first, int64_t count,
                     const double *want, double tolerance) {
    for (int64_t i = 0; i < count; i++) {
        double have = attention_get(a, tensor, first + i);
        if (!(fabs(have - want[i]) <= tolerance)) {
            diag("%s[%" PRId64 "]: have %.9g, want %.9g", attention_tensor_name(tensor), first + i,
                 have, want[i]);
            return false;
        }
    }
    return true;
}

/* ---- Quantisation ---- */

struct quantised {
    const char *name;
    const DLDataType *T1, *T3;
    int64_t bits, dim, group;
    double x[16], codes[16];
    uint32_t scales[2];
    double back[16]; /* all 0: not known */
};

static const struct quantised quantised[] = {
    {"Q1 ties, float32",
     &f32,
     &f32,
     8,
     8,
     8,
     {127, -127, 63.5, 0.5, 1.5, 2.5, -0.5, -2.5},
     {127, -127, 64, 0, 2, 2, 0, -2},
     {0x3f800000},
     {0}},
    {"Q1 ties, float16",
     &f16,
     &f16,
     8,
     8,
     8,
     {127, -127, 63.5, 0.5, 1.5, 2.5, -0.5, -2.5},
     {127, -127, 64, 0, 2, 2, 0, -2},
     {0x3c00},
     {0}},
    {"Q2 read back",
     &f32,
     &f32,
     8,
     8,
     8,
     {31.75, -31.75, 0.125, 0.375, -0.125, 10, -7.9, 0},
     {127, -127, 0, 2, 0, 40, -32, 0},
     {0x3e800000},
     {31.75, -31.75, 0, 0.5, 0, 10, -8, 0}},
    {"Q3 zeros, float32", &f32, &f32, 8, 8, 8, {0}, {0}, {0x3727c5ac}, {0}},
    {"Q3 zeros, float16", &f16, &f16, 8, 8, 8, {0}, {0}, {0x00a8}, {0}},
    {"Q4 least scale, float32",
     &f32,
     &f32,
     8,
     8,
     8,
     {1e-4, -5e-5, 2.4e-5, 4e-6, 6e-6, -1e-4, 1e-5, 0},
     {10, -5, 2, 0, 1, -10, 1, 0},
     {0x3727c5ac},
     {0}},
    {"Q4 least scale, float16",
     &f16,
     &f16,
     8,
     8,
     8,
     {1e-4, -5e-5, 2.4e-5, 4e-6, 6e-6, -1e-4, 1e-5, 0},
     {10, -5, 2, 0, 1, -10, 1, 0},
     {0x00a8},
     {0}},
    {"Q5 one to eight, float32",
     &f32,
     &f32,
     8,
     8,
     8,
     {1, 2, 3, 4, 5, 6, 7, 8},
     {16, 32, 48, 64, 79, 95, 111, 127},
     {0x3d810204},
     {0}},
    {"Q5 one to eight, float16",
     &f16,
     &f16,
     8,
     8,
     8,
     {1, 2, 3, 4, 5, 6, 7, 8},
     {16, 32, 48, 64, 79, 95, 111, 127},
     {0x2c08},
     {0}},
    {"Q6 divides",
     &f32,
     &f32,
     8,
     8,
     8,
     {18, 9, -9, -18, 4.5, 1, 0, 2},
     {127, 63, -63, -127, 32, 7, 0, 14},
     {0x3e112245},
     {0}},
    {"Q7 divides, the other way",
     &f32,
     &f32,
     8,
     8,
     8,
     {30, 15, -15, -30, 7.5, 1, 0, 2},
     {127, 64, -64, -127, 32, 4, 0, 8},
     {0x3e71e3c8},
     {0}},
    {"Q8 rounds the quotient to float16",
     &f16,
     &f16,
     8,
     8,
     8,
     {17, 16, 8.5, -17, -16, 1, 0, 2},
     {127, 120, 63, -127, -120, 7, 0, 15},
     {0x3049},
     {0}},
    {"Q9 two groups",
     &f32,
     &f32,
     8,
     16,
     8,
     {127, -127, 63.5, 0.5, 1.5, 2.5, -0.5, -2.5, 31.75, -31.75, 0.125, 0.375, -0.125, 10, -7.9, 0},
     {127, -127, 64, 0, 2, 2, 0, -2, 127, -127, 0, 2, 0, 40, -32, 0},
     {0x3f800000, 0x3e800000},
     {0}},
    {"Q9 one group",
     &f32,
     &f32,
     8,
     16,
     16,
     {127, -127, 63.5, 0.5, 1.5, 2.5, -0.5, -2.5, 31.75, -31.75, 0.125, 0.375, -0.125, 10, -7.9, 0},
     {127, -127, 64, 0, 2, 2, 0, -2, 32, -32, 0, 0, 0, 10, -8, 0},
     {0x3f800000},
     {0}},
    {"Q10 float16 scales",
     &f32,
     &f16,
     8,
     8,
     8,
     {1, -0.5, 0.25, 0, 0.1, 0.2, 0.3, 0.4},
     {127, -64, 32, 0, 13, 25, 38, 51},
     {0x2008},
     {1, -0.50390625, 0.251953125, 0, 0.10235595703125, 0.19677734375, 0.29931640625,
      0.401611328125}},
    {"I1 int4",
     &f32,
     &f32,
     4,
     8,
     8,
     {7, -7, 3.5, 0.5, 1.5, 2.5, -3.5, -6.5},
     {7, -7, 4, 0, 2, 2, -4, -6},
     {0x3f800000},
     {0}},
    {"I2 int4, one to eight, float32",
     &f32,
     &f32,
     4,
     8,
     8,
     {1, 2, 3, 4, 5, 6, 7, 8},
     {1, 2, 3, 3, 4, 5, 6, 7},
     {0x3f924925},
     {0}},
    {"I2 int4, one to eight, float16",
     &f16,
     &f16,
     4,
     8,
     8,
     {1, 2, 3, 4, 5, 6, 7, 8},
     {1, 2, 3, 4, 4, 5, 6, 7},
     {0x3c92},
     {0}},
    {"I3 int4 has no code -8",
     &f32,
     &f32,
     4,
     8,
     8,
     {-8, 7, 1, 0, 0, 0, 0, 0},
     {-7, 6, 1, 0, 0, 0, 0, 0},
     {0x3f924925},
     {0}},
};

static bool has_back(const struct quantised *q) {
    for (int64_t i = 0; i < q->dim; i++)
        if (q->back[i] != 0)
            return true;
    return false;
}

static bool oracle_agrees(const struct attention *a, const struct quantised *q) {
    for (int64_t i = 0; i < q->dim; i++)
        if (oracle_get(attention_type(a->op.T2), a->dense[KVMILL_CACHE_ATTENTION_CACHE], i) !=
            q->codes[i]) {
            diag("the oracle's code %" PRId64 " is wrong", i);
            return false;
        }
    return true;
}

/* Layout 0 with one of everything: K's row is the first. */
static void test_quantised(const struct quantised *q) {
    struct attention a = small_scene(KEY_VALUE_CACHE, 0, 1, q->dim);
    double scales[2] = {0};
    a.op.T1 = *q->T1;
    a.op.T3 = *q->T3;
    set_format(&a, q->bits, q->group);
    for (int64_t g = 0; g < q->dim / q->group; g++)
        scales[g] = oracle_decode(attention_type(*q->T3), q->scales[g]);
    attention_open(&a, &dice);
    set_numbers(&a, KVMILL_CACHE_ATTENTION_CURRENT_KEY, 0, q->dim, q->x);
    set_numbers(&a, KVMILL_CACHE_ATTENTION_CURRENT_VALUE, 0, q->dim, q->x);
    bool good = runs(&a) && oracle_agrees(&a, q) &&
                are_near(&a, KVMILL_CACHE_ATTENTION_CACHE, 0, q->dim, q->codes, 0) &&
                are_near(&a, KVMILL_CACHE_ATTENTION_SCALE, 0, q->dim / q->group, scales, 0) &&
                are_near(&a, KVMILL_CACHE_ATTENTION_CACHE, q->dim, q->dim, q->codes, 0) &&
                (!has_back(q) || are_near(&a, KVMILL_CACHE_ATTENTION_KEY, 0, q->dim, q->back, 0));
    attention_close(&a);
    ok(good, "%s", q->name);
}

static const unsigned char *bytes_of(const struct attention *a, int tensor) {
    return (const unsigned char *)a->tensor[tensor].dl.data + a->tensor[tensor].dl.byte_offset;
}

static void test_nibbles(void) {
    static const double x[] = {7, -7, 3.5, 0.5, 1.5, 2.5, -3.5, -6.5};
    static const unsigned char want[] = {0x97, 0x04, 0x22, 0xac};
    struct attention a = small_scene(KEY_VALUE_CACHE, 0, 1, 8);
    set_format(&a, 4, 8);
    attention_open(&a, &dice);
    set_numbers(&a, KVMILL_CACHE_ATTENTION_CURRENT_KEY, 0, 8, x);
    bool good =
        runs(&a) && memcmp(bytes_of(&a, KVMILL_CACHE_ATTENTION_CACHE), want, sizeof want) == 0;
    attention_close(&a);
    ok(good, "I1 bytes 97 04 22 ac");
}

/* llama.cpp's blocks: scale 1 in both, codes that its definitions give. */
static void test_blocks(const char *format, double extreme, const unsigned char *want) {
    struct attention a = small_scene(KEY_VALUE_CACHE, 0, 1, 32);
    double x[32] = {extreme, 1, 2.5, -2.5, 0.4, -0.5};
    x[17] = 3;
    a.op.cache_format = format;
    a.op.T2 = u8;
    attention_open(&a, &dice);
    set_numbers(&a, KVMILL_CACHE_ATTENTION_CURRENT_KEY, 0, 32, x);
    bool good = runs(&a) && memcmp(bytes_of(&a, KVMILL_CACHE_ATTENTION_CACHE), want, 10) == 0;
    attention_close(&a);
    ok(good, "%s blocks as llama.cpp has them", format);
}

static void test_quantisation(void) {
    for (size_t i = 0; i < sizeof quantised / sizeof *quantised; i++)
        test_quantised(&quantised[i]);
    test_nibbles();
    /* Halves away from zero; code + 8, element 17 above element 1. */
    test_blocks("q8_0", 127, (const unsigned char[]){0x00, 0x3c, 127, 1, 3, 0xfd, 0, 0xff, 0, 0});
    test_blocks(
        "q4_0", -8,
        (const unsigned char[]){0x00, 0x3c, 0x80, 0xb9, 0x8b, 0x86, 0x88, 0x88, 0x88, 0x88});
}

/* ---- Addresses ---- */

/* The op writes `marker` where the reference says. */
static bool lands_at(struct attention *a, int64_t from, int64_t element, int64_t scale) {
    attention_open(a, &dice);
    attention_set(a, KVMILL_CACHE_ATTENTION_CURRENT_VALUE, from, 100);
    bool good = runs(a);
    if (a->op.quant_bit == 0)
        good =
            good && are_near(a, KVMILL_CACHE_ATTENTION_CACHE, element, 1, (const double[]){100}, 0);
    else
        good = good &&
               are_near(a, KVMILL_CACHE_ATTENTION_CACHE, element, 1, (const double[]){127}, 0) &&
               are_near(a, KVMILL_CACHE_ATTENTION_SCALE, scale, 1,
                        (const double[]){(double)(100.0f / 127)}, 0);
    attention_close(a);
    return good;
}

static void test_static_address(int64_t layout, int64_t element, int64_t scale) {
    bool good = true;
    for (int64_t bits = 0; bits <= 8; bits += 8) {
        struct attention a = small_scene(KEY_VALUE_CACHE, 2, 1, 8);
        a.op.num_kv_heads = a.op.num_layer = a.sequences = 2;
        a.op.layer_idx = 1;
        a.op.cache_layout = layout;
        a.tokens[1] = 1;
        a.start[1] = 2;
        a.spare_rows = 1;
        set_format(&a, bits, 8);
        good = good && lands_at(&a, 1 * 16 + 1 * 8 + 3, element, scale);
    }
    ok(good, "A1 layout %" PRId64 ": element %" PRId64 ", scale %" PRId64, layout, element, scale);
}

/* A sequence whose only token is row 5 of 16. */
static bool is_dynamic_address(int64_t layout, int64_t bits, int64_t element, int64_t scale) {
    struct attention a = small_scene(KEY_VALUE_CACHE, 0, 1, 8);
    a.op.dynamic_batching = 1;
    a.op.num_kv_heads = a.op.num_layer = 2;
    a.op.layer_idx = 1;
    a.op.cache_layout = layout;
    set_format(&a, bits, 8);
    struct oracle_cache cache = {
        .dynamic = true, .layout = layout, .layers = 2, .sides = 2, .capacity = 16, .heads = 2};
    int64_t row = oracle_row(&cache, 0, 1, 1, 5, 1);
    if (row * 8 + 3 != element || row != scale)
        return false;
    for (a.spare_rows = 15; a.spare_rows > 0; a.spare_rows--) {
        struct attention trial = a;
        struct dice saved = dice;
        attention_open(&trial, &dice);
        bool fits = trial.capacity == 16;
        attention_close(&trial);
        dice = saved;
        if (fits)
            break;
    }
    attention_open(&a, &dice);
    attention_set(&a, KVMILL_CACHE_ATTENTION_CACHESTARTS, 0, 5);
    attention_set(&a, KVMILL_CACHE_ATTENTION_CURRENT_VALUE, 11, 100);
    bool good = a.capacity == 16 && runs(&a) &&
                are_near(&a, KVMILL_CACHE_ATTENTION_CACHE, element, 1,
                         (const double[]){bits ? 127 : 100}, 0);
    attention_close(&a);
    return good;
}

static void test_dynamic_address(int64_t layout, int64_t element, int64_t scale) {
    ok(is_dynamic_address(layout, 0, element, scale) &&
           is_dynamic_address(layout, 8, element, scale),
       "A2 layout %" PRId64 ": element %" PRId64 ", scale %" PRId64, layout, element, scale);
}

/* Every row of the cache knows its number. */
static void number_rows(struct attention *a) {
    for (int64_t row = 0; row < a->capacity; row++)
        for (int64_t i = 0; i < 8; i++)
            attention_set(a, KVMILL_CACHE_ATTENTION_CACHE, row * 8 + i, (double)row);
}

static void test_pages(void) {
    static const int64_t table[] = {8, 0, 4, 12}, loaded[] = {8, 9, 10, 11, 0, 4, 5, 6, 7, 12, 13};
    struct attention a = small_scene(KEY_VALUE_CACHE, 3, 2, 4);
    a.op.dynamic_batching = a.op.cache_mode = 1;
    a.op.page_size = 4;
    a.sequences = 2;
    a.tokens[1] = 1;
    a.start[1] = 5;
    a.spare_rows = 16;
    attention_open(&a, &dice);
    bool good = a.capacity >= 16;
    for (int64_t i = 0; i < 4; i++)
        attention_set(&a, KVMILL_CACHE_ATTENTION_CACHESTARTS, i / 2 * a.pages + i % 2,
                      (double)table[i]);
    number_rows(&a);
    for (int64_t t = 0; t < 3; t++)
        for (int64_t i = 0; i < 4; i++)
            attention_set(&a, KVMILL_CACHE_ATTENTION_CURRENT_KEY, t * 4 + i,
                          (double)(t == 0   ? 11
                                   : t == 1 ? 0
                                            : 13));
    good = good && runs(&a);
    for (int64_t j = 0; j < 11; j++)
        good = good && are_near(&a, KVMILL_CACHE_ATTENTION_KEY, j * 4, 1,
                                (const double[]){(double)loaded[j]}, 0);
    for (int64_t row = 0; row < 14; row++)
        good = good && are_near(&a, KVMILL_CACHE_ATTENTION_CACHE, row * 8, 1,
                                (const double[]){(double)row}, 0);
    attention_close(&a);
    ok(good, "A3 pages: stores at rows 11, 0, 13, loads in order");
}

static void test_addresses(void) {
    test_static_address(0, 491, 61);
    test_static_address(1, 499, 62);
    test_dynamic_address(0, 379, 47);
    test_dynamic_address(1, 699, 87);
    test_dynamic_address(2, 859, 107);
    test_dynamic_address(3, 939, 117);
    test_pages();
}

/* ---- ALiBi ---- */

/* Query 0 over two positions: lse = log (1 + exp (-slope)). */
static void test_slopes(int64_t heads, const double *exponents) {
    struct attention a = small_scene(MULTI_HEAD_ATTENTION, 1, 1, 4);
    a.op.num_heads = heads;
    a.op.num_kv_heads = 0;
    a.op.is_alibi = a.op.partial = 1;
    a.query_size = 0;
    attention_open(&a, &dice);
    bool good = runs(&a);
    for (int64_t h = 0; h < heads && good; h++) {
        double slope = pow(2, exponents[h]), want = log(1 + exp(-slope));
        good = oracle_alibi_slope(heads, h) == slope &&
               are_near(&a, KVMILL_CACHE_ATTENTION_LSE, h, 1, &want, 3e-7);
    }
    attention_close(&a);
    ok(good, "S1 slopes of %" PRId64 " heads", heads);
}

/* One head has slope 2^-8; a factor of 2^8 makes it 1. */
static void test_bias(void) {
    struct attention a = small_scene(MULTI_HEAD_ATTENTION, 3, 2, 4);
    const double want[] = {log(1 + exp(-1) + exp(-2) + exp(-3)),
                           log(1 + exp(-1) + exp(-2) + exp(-3) + exp(-4))};
    a.op.is_alibi = a.op.partial = 1;
    a.op.alibi_scale = 256;
    a.query_size = 0;
    attention_open(&a, &dice);
    bool good = runs(&a) && are_near(&a, KVMILL_CACHE_ATTENTION_LSE, 0, 2, want, 1e-6);
    attention_close(&a);
    ok(good, "S2 bias of two tokens behind three");
}

static void test_alibi(void) {
    test_slopes(1, (const double[]){-8});
    test_slopes(2, (const double[]){-4, -8});
    test_slopes(3, (const double[]){-4, -8, -2});
    test_slopes(4, (const double[]){-2, -4, -6, -8});
    test_slopes(6, (const double[]){-2, -4, -6, -8, -1, -3});
    test_slopes(12, (const double[]){-1, -2, -3, -4, -5, -6, -7, -8, -0.5, -1.5, -2.5, -3.5});
    test_bias();
}

/* ---- Attention ---- */

/* The scene of M1 with heads of size dim and quantised to bits: position 0 holds K = 0 and V = e0.
 */
static void open_attention(struct attention *a, int64_t bits) {
    int64_t dim = bits != 0 ? 8 : 4;
    double ln2 = log(2), *row = calloc(8, sizeof *row);
    set_format(a, bits, 8);
    attention_open(a, &dice);
    struct oracle_attention problem = attention_problem(a);
    oracle_write_row(&problem.key, ORACLE_F32, oracle_row(&problem.cache, 0, 1, 0, 0, 0), row);
    row[0] = 1;
    oracle_write_row(&problem.value, ORACLE_F32, oracle_row(&problem.cache, 0, 1, 1, 0, 0), row);
    attention_refresh(a, KVMILL_CACHE_ATTENTION_CACHE);
    if (bits != 0)
        attention_refresh(a, KVMILL_CACHE_ATTENTION_SCALE);
    for (int64_t t = 0; t < 2; t++)
        for (int64_t i = 0; i < dim; i++) {
            attention_set(a, KVMILL_CACHE_ATTENTION_CURRENT_KEY, t * dim + i,
                          i == 0 ? ln2 * (double)(t + 1) : 0);
            attention_set(a, KVMILL_CACHE_ATTENTION_CURRENT_VALUE, t * dim + i, i == t + 1);
            attention_set(a, KVMILL_CACHE_ATTENTION_QUERY, t * 2 * dim + i,
                          i == 0 ? sqrt((double)dim) : 0);
            attention_set(a, KVMILL_CACHE_ATTENTION_QUERY, (t * 2 + 1) * dim + i, 0);
        }
    free(row);
}

static struct attention attention_scene(int64_t dim) {
    struct attention a = small_scene(MULTI_HEAD_CACHE_ATTENTION, 1, 2, dim);
    a.op.num_heads = a.op.num_layer = 2;
    a.op.layer_idx = 1;
    a.spare_rows = a.spare_batch = 1;
    return a;
}

/* want: rows of token 0 head 0, token 0 head 1, token 1 head 0, token 1 head 1. */
static void check_rows(struct attention *a, const double want[4][4], const char *name) {
    bool good = runs(a);
    for (int64_t row = 0; good && row < 4; row++)
        good = are_near(a, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, row * a->op.head_dim, 4, want[row],
                        1e-6);
    attention_close(a);
    ok(good, "%s", name);
}

static const double m1[4][4] = {{1.0 / 3, 2.0 / 3},
                                {1.0 / 2, 1.0 / 2},
                                {1.0 / 7, 2.0 / 7, 4.0 / 7},
                                {1.0 / 3, 1.0 / 3, 1.0 / 3}};
static const double m2[4][4] = {{1.0 / 7, 2.0 / 7, 4.0 / 7},
                                {1.0 / 3, 1.0 / 3, 1.0 / 3},
                                {1.0 / 7, 2.0 / 7, 4.0 / 7},
                                {1.0 / 3, 1.0 / 3, 1.0 / 3}};

static void test_masked(void) {
    struct attention a = attention_scene(4);
    double added[] = {log(4), log(2), 0};
    a.mask_rank = 2;
    a.mask_padding = 13;
    open_attention(&a, 0);
    for (int64_t j = 0; j < 3; j++) {
        attention_set(&a, KVMILL_CACHE_ATTENTION_ATTN_MASK, j, 0);
        attention_set(&a, KVMILL_CACHE_ATTENTION_ATTN_MASK, 16 + j, added[j]);
    }
    double total = 4 + 2 + 1;
    const double want[4][4] = {{1.0 / 3, 2.0 / 3},
                               {1.0 / 2, 1.0 / 2},
                               {1.0 / 3, 1.0 / 3, 1.0 / 3},
                               {4 / total, 2 / total, 1 / total}};
    check_rows(&a, want, "M3 mask, its padding NaN");
}

static void test_alibi_output(int is_causal) {
    struct attention a = attention_scene(4);
    double s = pow(2, -4), t = pow(2, -8);
    a.op.is_alibi = 1;
    a.op.is_causal = is_causal;
    open_attention(&a, 0);
    for (int64_t i = 0; i < 16; i++)
        attention_set(&a, KVMILL_CACHE_ATTENTION_QUERY, i, 0);
    double n1 = 1 + exp(-s), n2 = 1 + exp(-s) + exp(-2 * s);
    double o1 = 1 + exp(-t), o2 = 1 + exp(-t) + exp(-2 * t);
    const double want[4][4] = {{exp(-s) / n1, 1 / n1},
                               {exp(-t) / o1, 1 / o1},
                               {exp(-2 * s) / n2, exp(-s) / n2, 1 / n2},
                               {exp(-2 * t) / o2, exp(-t) / o2, 1 / o2}};
    bool published = fabs(want[0][0] - 0.484380) < 1e-6 && fabs(want[2][2] - 0.354370) < 1e-6;
    ok(published, "M4 numbers of the reference");
    check_rows(&a, want, is_causal ? "M4 ALiBi, causal" : "M4 ALiBi, not causal: the same");
}

/* Everything that may not change is compared in every case; here once more by name. */
static bool is_kept(const struct attention *a) {
    struct oracle_attention problem = attention_problem(a);
    int64_t rows = 2 * 2 * 2 * a->capacity;
    for (int64_t row = 0; row < rows; row++) {
        const unsigned char *was = a->before[KVMILL_CACHE_ATTENTION_CACHE].fence.data + row * 16;
        bool written = row == oracle_row(&problem.cache, 0, 1, 0, 1, 0) ||
                       row == oracle_row(&problem.cache, 0, 1, 0, 2, 0) ||
                       row == oracle_row(&problem.cache, 0, 1, 1, 1, 0) ||
                       row == oracle_row(&problem.cache, 0, 1, 1, 2, 0);
        if (!written &&
            memcmp(a->tensor[KVMILL_CACHE_ATTENTION_CACHE].fence.data + row * 16, was, 16) != 0)
            return false;
    }
    return true;
}

static void test_kept(void) {
    struct attention a = attention_scene(4);
    open_attention(&a, 0);
    bool good = runs(&a) && is_kept(&a);
    attention_close(&a);
    ok(good, "M9 other layers, batch rows and positions are as before");
}

static void test_attention(void) {
    struct attention a = attention_scene(4);
    open_attention(&a, 0);
    check_rows(&a, m1, "M1 causal");
    a = attention_scene(4);
    a.op.is_causal = 0;
    open_attention(&a, 0);
    check_rows(&a, m2, "M2 not causal");
    test_masked();
    test_alibi_output(1);
    test_alibi_output(0);
    for (int64_t bits = 4; bits <= 8; bits += 4) {
        a = attention_scene(8);
        open_attention(&a, bits);
        check_rows(&a, m1, bits == 8 ? "M5 int8" : "M5 int4");
    }
    test_kept();
}

/* ---- The checklist ---- */

/* The six ops. */
enum { S = 1, D = 2, KS = 4, KD = 8, MS = 16, MD = 32, K = KS | KD, M = MS | MD };

static const struct {
    unsigned flag;
    enum cache_op which;
    int dynamic;
} ops[] = {{S, MULTI_HEAD_CACHE_ATTENTION, 0}, {D, MULTI_HEAD_CACHE_ATTENTION, 1},
           {KS, KEY_VALUE_CACHE, 0},           {KD, KEY_VALUE_CACHE, 1},
           {MS, MULTI_HEAD_ATTENTION, 0},      {MD, MULTI_HEAD_ATTENTION, 1}};
enum { OPS = sizeof ops / sizeof *ops };

static void set_lengths(struct attention *a, int64_t count, const int64_t *start,
                        const int64_t *tokens) {
    a->sequences = count;
    for (int64_t b = 0; b < count; b++) {
        a->start[b] = start[b];
        a->tokens[b] = tokens[b];
    }
}

static struct attention usual(enum cache_op which, int dynamic) {
    struct attention a = empty_scene(which);
    a.op.dynamic_batching = dynamic;
    a.op.num_heads = 6;
    a.op.num_kv_heads = 2;
    a.op.head_dim = 16;
    a.op.num_layer = 2;
    a.op.layer_idx = 1;
    a.op.page_size = 4;
    if (dynamic)
        set_lengths(&a, 3, NUMBERS(7, 0, 12), NUMBERS(3, 5, 1));
    else
        set_lengths(&a, 2, NUMBERS(7, 7), NUMBERS(3, 3));
    return a;
}

typedef void setter(struct attention *a, int64_t value);

/* Slow runs take one value in each op, another in the next one. */
static bool is_taken(size_t op, size_t value, size_t count) {
    return !is_slow_run() || value == op % count;
}

/* Each value in each op that has the parameter. */
static void item(const char *name, unsigned in, setter *set, size_t count, const int64_t *values) {
    bool good = true;
    for (int i = 0; i < OPS; i++)
        for (size_t v = 0; v < count && good && ops[i].flag & in; v++) {
            if (!is_taken((size_t)i, v, count))
                continue;
            struct attention a = usual(ops[i].which, ops[i].dynamic);
            set(&a, values[v]);
            good = agrees(a);
            if (!good)
                diag("value %" PRId64, values[v]);
        }
    ok(good, "checklist %s", name);
}

#define ITEM(name, in, set, ...) item(name, in, set, COUNT_OF(__VA_ARGS__), NUMBERS(__VA_ARGS__))

static void set_heads(struct attention *a, int64_t v) {
    a->op.num_heads = v;
    a->op.num_kv_heads = 0;
    a->op.is_alibi = 1;
}

static void set_dim(struct attention *a, int64_t v) {
    a->op.head_dim = v;
}

static void set_odd_quantised_dim(struct attention *a, int64_t v) {
    a->op.head_dim = v;
    set_format(a, 8, v % 11 == 0 ? 11 : v);
}

static void set_all(struct attention *a, int64_t start, int64_t tokens) {
    for (int64_t b = 0; b < a->sequences; b++) {
        a->start[b] = start;
        a->tokens[b] = tokens;
    }
}

static void set_causal(struct attention *a, int64_t v) {
    a->op.is_causal = v & 1;
    set_all(a, v & 2 ? 6 : 0, v & 4 ? 5 : 1);
}

static void set_alibi(struct attention *a, int64_t v) {
    a->op.is_alibi = v & 1;
    a->op.is_causal = v >> 1 & 1;
    a->mask_rank = v & 4 ? 2 : 0;
}

static void set_kv_heads(struct attention *a, int64_t v) {
    a->op.num_heads = 12;
    a->op.num_kv_heads = v;
}

static void set_layers(struct attention *a, int64_t v) {
    a->op.num_layer = v;
    a->op.layer_idx = v / 2;
}

static void set_layer(struct attention *a, int64_t v) {
    a->op.num_layer = 3;
    a->op.layer_idx = v;
}

static void set_bits(struct attention *a, int64_t v) {
    set_format(a, v, 8);
}

static void set_group_of_8_bits(struct attention *a, int64_t v) {
    a->op.head_dim = 128;
    set_format(a, 8, v);
}

static void set_group_of_4_bits(struct attention *a, int64_t v) {
    a->op.head_dim = 128;
    set_format(a, 4, v);
}

static void set_paged_layout(struct attention *a, int64_t v) {
    a->op.cache_mode = 1;
    a->op.cache_layout = 4;
    a->op.page_size = v;
}

static void set_layout(struct attention *a, int64_t v) {
    a->op.cache_layout = v;
    set_format(a, 8, 8);
}

static void set_mode(struct attention *a, int64_t v) {
    a->op.cache_mode = v;
}

static void set_page_size(struct attention *a, int64_t v) {
    a->op.cache_mode = 1;
    a->op.page_size = v;
    a->start[0] = 300;
}

static void set_ignored_page_size(struct attention *a, int64_t v) {
    a->op.page_size = v;
}

static void set_repeat(struct attention *a, int64_t v) {
    a->op.num_repeat = v;
}

static DLDataType float_type(int64_t v) {
    return v == 0 ? f32 : v == 1 ? f16 : bf16;
}

static void set_T1(struct attention *a, int64_t v) {
    a->op.T1 = float_type(v);
}

static void set_raw(struct attention *a, int64_t v) {
    (void)v;
    a->op.T1 = a->op.T2 = i8;
}

/* Digits: T2, T1. */
static void set_T2(struct attention *a, int64_t v) {
    a->op.T1 = float_type(v % 10);
    a->op.T2 = float_type(v / 10);
}

/* Digits: bits, T3, T1. */
static void set_T3(struct attention *a, int64_t v) {
    a->op.T1 = float_type(v % 10);
    a->op.T3 = float_type(v / 10 % 10);
    set_format(a, v / 100, 8);
}

static void set_start(struct attention *a, int64_t v) {
    a->decoding_rank = v & 1;
    set_all(a, v / 2, 3);
}

static void set_starts(struct attention *a, int64_t v) {
    set_lengths(a, 4, NUMBERS(v, 0, 2 * v, 1), NUMBERS(2, 3, 1, 4));
}

static void set_ragged(struct attention *a, int64_t v) {
    static const int64_t starts[][5] = {{0}, {3, 0, 8, 0, 0}, {9, 9, 9, 9, 9}},
                         tokens[][5] = {{0}, {0, 4, 0, 0, 2}, {1, 2, 3, 4, 20}};
    set_lengths(a, 5, starts[v], tokens[v]);
}

static void set_tables(struct attention *a, int64_t v) {
    a->op.cache_mode = v & 1;
    a->share_prefix = v >> 1 & 1;
    set_lengths(a, 4, NUMBERS(9, 8, 0, 4), NUMBERS(1, 2, 3, 0));
}

static void set_decoding(struct attention *a, int64_t v) {
    a->decoding = v;
}

static void set_slack(struct attention *a, int64_t v) {
    a->max_slack = v;
    a->decoding_rank = v & 1;
}

/* Digits: one batch, padding, rank. */
static void set_mask(struct attention *a, int64_t v) {
    a->mask_rank = (int)(v % 10);
    a->mask_padding = v / 10 % 10;
    a->mask_one_batch = v / 100;
}

static void set_batch(struct attention *a, int64_t v) {
    a->sequences = v % 10;
    a->spare_batch = v / 10;
    for (int b = 0; b < a->sequences; b++) {
        a->start[b] = 7;
        a->tokens[b] = 2;
    }
}

/* Digits: tokens, start. */
static void set_tokens(struct attention *a, int64_t v) {
    set_all(a, v % 100, v / 100);
}

/* Two tokens stand before the first key. */
static void set_tokens_of_all(struct attention *a, int64_t v) {
    set_all(a, -2, v);
}

static void set_softmax_scale(struct attention *a, int64_t v) {
    a->op.softmax_scale = (double)v / 8;
}

static void set_window(struct attention *a, int64_t v) {
    a->op.left_window_size = v - 1;
    set_all(a, 20, 5);
}

static void set_softcap(struct attention *a, int64_t v) {
    a->op.softcap = (double)v;
}

static void set_sinks(struct attention *a, int64_t v) {
    a->has_sinks = true;
    a->sinks_are_activations = v;
    a->op.T1 = f16;
}

static void set_empty(struct attention *a, int64_t v) {
    a->op.empty_is_nan = (int32_t)v;
    a->mask_rank = a->op.dynamic_batching ? 3 : 4; /* many rows, of which a few are empty */
    a->query_size = 1;
}

static void set_partial(struct attention *a, int64_t v) {
    a->op.partial = 1;
    a->op.T1 = float_type(v);
}

/* Few heads and thousands of positions: the runtime cuts them, and merges. */
static void set_long(struct attention *a, int64_t v) {
    a->sequences = 1;
    a->start[0] = is_slow_run() ? 2100 : 5000;
    a->tokens[0] = 1 + v % 2 * 2;
    a->has_sinks = v & 2;
    a->op.partial = v >> 2 & 1;
    a->op.left_window_size = v & 8 ? a->start[0] * 3 / 5 - 1 : -1;
    a->mask_rank = v & 16 ? 2 : 0;
    set_format(a, v & 1 ? 8 : 0, 8);
}

/* int8 K with int4 V of another size. */
static void set_differing(struct attention *a, int64_t v) {
    set_format(a, 8, 8);
    a->op.value_differs = 1;
    a->op.value_head_dim = v;
    a->op.value_quant_bit = 4;
    a->op.value_quant_group = v / 2;
    a->op.value_T2 = i4;
    a->op.value_T3 = f16;
}

static void set_blocks(struct attention *a, int64_t v) {
    a->op.head_dim = 64;
    a->op.T2 = u8;
    a->op.cache_format = v == 8 ? "q8_0" : "q4_0";
}

static void test_parameters(void) {
    ITEM("1 num_heads", S | D | M, set_heads, 1, 2, 3, 6, 12, 71);
    ITEM("2 head_dim", S | D | K | M, set_dim, 1, 3, 32, 64, 80, 96, 128, 160, 192, 256);
    ITEM("2 head_dim, odd, quantised", S | D | K, set_odd_quantised_dim, 1, 3, 33);
    ITEM("3 is_causal, from the start and behind others, one token and more", S | D | M, set_causal,
         0, 1, 2, 3, 4, 5, 6, 7);
    ITEM("4 is_alibi, with is_causal and a mask", S | D | M, set_alibi, 0, 1, 2, 3, 4, 5, 6, 7);
    ITEM("5 num_kv_heads", S | D | M, set_kv_heads, 0, 1, 3, 4, 12);
    ITEM("6 num_layer", S | D | K, set_layers, 1, 2, 5);
    ITEM("7 layer_idx", S | D | K, set_layer, 0, 1, 2);
    ITEM("8 quant_bit", S | D | K, set_bits, 0, 8, 4);
    ITEM("9 quant_group, int8", S | D | K, set_group_of_8_bits, 8, 16, 32, 64, 128, 1, 2, 4);
    ITEM("9 quant_group, int4", S | D | K, set_group_of_4_bits, 8, 16, 32, 64, 128, 2, 4);
    ITEM("10 cache_layout, static", S | KS, set_layout, 0, 1);
    ITEM("11 cache_layout, dynamic", D | KD, set_layout, 0, 1, 2, 3);
    ITEM("11 cache_layout, pages", D | KD, set_paged_layout, 1, 3, 16);
    ITEM("12 cache_mode", D | KD, set_mode, 0, 1);
    ITEM("13 page_size", D | KD, set_page_size, 1, 3, 16, 32, 64, 128, 256);
    ITEM("13 page_size, ignored in mode 0", D | KD, set_ignored_page_size, 0, -1);
    ITEM("14 num_repeat", K, set_repeat, 1, 2, 3, 7);
    ITEM("15 T1", S | D | K | M, set_T1, 0, 1, 2);
    ITEM("15 T1 int8: a raw copy", K, set_raw, 0);
    ITEM("16 T2, from every T1", S | D | K, set_T2, 0, 1, 2, 10, 11, 12, 20, 21, 22);
    ITEM("17 T3, with every T1, int8", S | D | K, set_T3, 800, 801, 802, 810, 811, 812, 820, 821,
         822);
    ITEM("17 T3, with every T1, int4", S | D | K, set_T3, 400, 401, 402, 410, 411, 412, 420, 421,
         422);
    ITEM("18 start_pos, static, a number or one element", S | KS, set_start, 0, 1, 2, 3, 40, 41);
    ITEM("19 start_pos, dynamic, of every sequence", D | KD, set_starts, 0, 1, 9, 30);
    ITEM("20 seqstarts, kvstarts, sequences without tokens", D | KD | MD, set_ragged, 0, 1, 2);
    ITEM("21 cachestarts, in both modes, shared prefixes", D | KD, set_tables, 0, 1, 3);
    ITEM("22 decoding_batches", D | MD, set_decoding, 0, 1, 2, 3);
    ITEM("23 max_seqlen and max_kvlen, upper bounds", D | KD | MD, set_slack, 0, 1, 1000);
    ITEM("25 attn_mask, static", S | MS, set_mask, 2, 3, 4, 52, 53, 54, 104, 154);
    ITEM("26 attn_mask, dynamic", D | MD, set_mask, 2, 3, 52, 53);
    ITEM("27 batch, fewer than the cache has", S | KS, set_batch, 1, 2, 5, 21, 32);
    ITEM("28 new tokens: decode, prefill, chunks", S | D | M, set_tokens, 100, 107, 900, 907, 3330);
    ITEM("29 slots that are not written keep their bytes", S | D | K, set_bits, 0, 8, 4);
    ITEM("30 softmax_scale", S | D | M, set_softmax_scale, 0, 1, 8);
    ITEM("32 no tokens, no sequences", S | KS, set_batch, 0, 10);
    ITEM("32 no tokens", S | D | K, set_tokens, 0, 5);
    ITEM("fewer keys than queries: aligned at the end", M, set_tokens_of_all, 5, 7);
    ITEM("ours: window", S | D | M, set_window, 1, 2, 5, 19, 25, 1000);
    ITEM("ours: softcap", S | D | M, set_softcap, 1, 20);
    ITEM("ours: sinks", S | D | M, set_sinks, 0, 1);
    ITEM("ours: rows that see nothing", S | D | M, set_empty, 0, 1);
    ITEM("ours: partial", S | D | M, set_partial, 0, 1, 2);
    ITEM("long caches in pieces", S | D | M, set_long, 0, 1, 2, 3, 4, 6, 8, 15, 16, 22);
    ITEM("ours: V of another size and type", S | D | K, set_differing, 8, 16, 36);
    ITEM("ours: llama.cpp's blocks", S | D | K, set_blocks, 8, 4);
}

/* ---- Scale and mask, absent and empty ---- */

static const DLTensor empty_tensor = {
    .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = (int64_t[]){0}};

static bool runs_with(unsigned flag, int64_t bits, int mask_rank, int tensor,
                      const DLTensor *given) {
    bool good = true;
    for (int i = 0; i < OPS; i++)
        if (ops[i].flag & flag) {
            struct attention a = usual(ops[i].which, ops[i].dynamic);
            set_format(&a, bits, 8);
            a.mask_rank = mask_rank;
            attention_open(&a, &dice);
            a.given[tensor] = given;
            good = good && runs(&a);
            attention_close(&a);
        }
    return good;
}

/* A scale where none is needed is neither read nor written. */
static bool ignores_scale(void) {
    struct attention a = usual(MULTI_HEAD_CACHE_ATTENTION, 0);
    struct fenced_tensor scale;
    int64_t where;
    attention_open(&a, &dice);
    tensor_open(&scale, f16, 1, NUMBERS(3), NULL, &dice);
    fence_protect(&scale.fence, true);
    a.given[KVMILL_CACHE_ATTENTION_SCALE] = &scale.dl;
    bool good = runs(&a) && fence_is_intact(&scale.fence, &where);
    tensor_close(&scale);
    attention_close(&a);
    return good;
}

static void test_absence(void) {
    ok(runs_with(S | D | K, 0, 0, KVMILL_CACHE_ATTENTION_SCALE, NULL),
       "checklist 24 no scale with quant_bit 0");
    ok(runs_with(S | D | K, 0, 0, KVMILL_CACHE_ATTENTION_SCALE, &empty_tensor),
       "checklist 24 an empty scale with quant_bit 0");
    ok(ignores_scale(), "checklist 24 a scale with quant_bit 0 is ignored");
    ok(runs_with(S | D | M, 0, 0, KVMILL_CACHE_ATTENTION_ATTN_MASK, &empty_tensor),
       "checklist 25, 26 an empty attn_mask is none");
}

/* ---- NaN and infinity in a group ---- */

/* The token's own output is NaN in the heads that use the group, and nowhere else. */
static bool is_nan_where_visible(const struct attention *a, int64_t token, int64_t heads) {
    int64_t dim = a->op.head_dim, ratio = heads / 2;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t d = 0; d < dim; d++) {
            double x =
                attention_get(a, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, (token * heads + h) * dim + d);
            bool poisoned = h / ratio == 0 && d < 8;
            if ((isnan(x) != 0) != poisoned) {
                diag("head %" PRId64 ", element %" PRId64 " is %g", h, d, x);
                return false;
            }
        }
    return true;
}

static void test_not_finite(double poison, int64_t bits, const char *name) {
    bool good = true;
    for (int packed = 0; packed < 2 && good; packed++) {
        struct attention a = usual(MULTI_HEAD_CACHE_ATTENTION, 0);
        kvmill_plan *plan;
        set_all(&a, 7, 1);
        set_format(&a, bits, 8);
        attention_open(&a, &dice);
        attention_set(&a, KVMILL_CACHE_ATTENTION_CURRENT_VALUE, 3, poison);
        attention_expect(&a, &dice);
        good = attention_plan(&a, &options_of[packed], &plan, NULL) == KVMILL_OK &&
               run_way(&a, plan, 2, NULL) == KVMILL_OK && attention_is_right(&a) &&
               is_nan_where_visible(&a, 0, a.op.num_heads);
        kvmill_plan_destroy(plan);
        attention_close(&a);
    }
    ok(good, "%s in a group of %" PRId64 " bits: codes 0, read back as NaN", name, bits);
}

static void test_not_finite_kept(double poison, int64_t bits, const char *name) {
    struct attention a = usual(KEY_VALUE_CACHE, 0);
    set_format(&a, bits, 8);
    attention_open(&a, &dice);
    attention_set(&a, KVMILL_CACHE_ATTENTION_CURRENT_KEY, 5, poison);
    attention_set(&a, KVMILL_CACHE_ATTENTION_CURRENT_KEY, 6, 1);
    bool good = runs(&a);
    attention_close(&a);
    ok(good, "KeyValueCache: %s in a group of %" PRId64 " bits", name, bits);
}

/* A NaN in the last key: what sees it is NaN, the token before it does not; in pieces of a long
   cache, too. */
static void test_not_finite_key(int64_t start) {
    struct attention a = usual(MULTI_HEAD_CACHE_ATTENTION, 0);
    set_all(&a, start, 2);
    a.sequences = 1;
    set_format(&a, 8, 8);
    attention_open(&a, &dice);
    attention_set(&a, KVMILL_CACHE_ATTENTION_CURRENT_KEY, 2 * 16 + 3, NAN);
    bool good = runs(&a) && isnan(attention_get(&a, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, 6 * 16)) &&
                !isnan(attention_get(&a, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, 0)) &&
                !isnan(attention_get(&a, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, 9 * 16));
    attention_close(&a);
    ok(good, "NaN in the last key of %" PRId64 ": NaN where it is visible", start + 2);
}

static void test_groups(void) {
    test_not_finite_key(7);
    test_not_finite_key(3000);
    for (int64_t bits = 4; bits <= 8; bits += 4) {
        test_not_finite(NAN, bits, "NaN");
        test_not_finite(INFINITY, bits, "infinity");
        test_not_finite(-INFINITY, bits, "-infinity");
        test_not_finite_kept(NAN, bits, "NaN");
        test_not_finite_kept(-INFINITY, bits, "-infinity");
    }
}

/* ---- Refusals ---- */

static bool says(const char *message, const char *const *words) {
    for (; *words != NULL; words++)
        if (strstr(message, *words) == NULL) {
            diag("\"%s\" does not say \"%s\"", message, *words);
            return false;
        }
    return true;
}

static bool is_refusal(kvmill_status have, kvmill_status want, const kvmill_error *error,
                       const char *const *words) {
    if (have == want)
        return says(error->message, words);
    diag("have %s, want %s: %s", kvmill_status_name(have), kvmill_status_name(want),
         error->message);
    return false;
}

static void plan_refused(struct attention a, kvmill_status status, const char *name,
                         const char *const *words) {
    bool good = true;
    for (int i = 0; good && i < 2; i++) {
        kvmill_plan *plan = (kvmill_plan *)(void *)&good;
        kvmill_error error = {""};
        kvmill_status have = attention_plan(&a, &options_of[i], &plan, &error);
        good = is_refusal(have, status, &error, words) && plan == NULL;
        if (have == KVMILL_OK)
            kvmill_plan_destroy(plan);
    }
    ok(good, "refused: %s", name);
}

/* The scene is open and expected; closes it. */
static void run_refused(struct attention *a, kvmill_status status, const char *name,
                        const char *const *words) {
    bool good = true;
    for (int i = 0; good && i < 4; i++) {
        kvmill_plan *plan;
        kvmill_error error = {""};
        kvmill_status have = attention_plan(a, &options_of[i / 2], &plan, &error);
        if (have == KVMILL_OK)
            have = run_way(a, plan, i % 2, &error);
        good = is_refusal(have, status, &error, words) && attention_is_untouched(a);
        kvmill_plan_destroy(plan);
    }
    attention_close(a);
    ok(good, "refused: %s", name);
}

static void open_usual(struct attention *a, enum cache_op which, int dynamic, int64_t bits) {
    *a = usual(which, dynamic);
    set_format(a, bits, 8);
    attention_open(a, &dice);
    attention_expect(a, &dice);
}

static void open_paged(struct attention *a) {
    *a = usual(MULTI_HEAD_CACHE_ATTENTION, 1);
    a->op.cache_mode = 1;
    attention_open(a, &dice);
    attention_expect(a, &dice);
}

/* One number of a tensor is another one; this is how it is "before" then. */
static void poke(struct attention *a, int tensor, int64_t number, int64_t value) {
    struct fenced_tensor *at = &a->tensor[tensor];
    memcpy(a->dense[tensor] + number * 8, &value, 8);
    attention_refresh(a, tensor);
    memcpy(a->before[tensor].fence.data, at->fence.data, at->fence.size);
}

/* A tensor is handed over with another dim, type or rank. */
struct disguise {
    DLTensor dl;
    int64_t shape[MOST_DIMS];
};

static struct disguise *disguise(struct attention *a, int tensor) {
    static struct disguise disguise;
    disguise.dl = a->tensor[tensor].dl;
    memcpy(disguise.shape, a->tensor[tensor].shape, sizeof disguise.shape);
    disguise.dl.shape = disguise.shape;
    a->given[tensor] = &disguise.dl;
    return &disguise;
}

static void refuse_dim(int dynamic, int tensor, int dim, int64_t value, const char *name,
                       const char *const *words) {
    struct attention a = usual(MULTI_HEAD_CACHE_ATTENTION, dynamic);
    a.mask_rank = 3;
    a.mask_padding = 2;
    set_format(&a, 8, 8);
    attention_open(&a, &dice);
    attention_expect(&a, &dice);
    disguise(&a, tensor)->shape[dim] = value;
    run_refused(&a, KVMILL_E_SHAPE, name, words);
}

static void refuse_rank(int tensor, int rank, const char *name, const char *const *words) {
    struct attention a = usual(MULTI_HEAD_CACHE_ATTENTION, 0);
    a.mask_rank = 3;
    attention_open(&a, &dice);
    attention_expect(&a, &dice);
    struct disguise *other = disguise(&a, tensor);
    for (int d = other->dl.ndim; d < rank; d++)
        other->shape[d] = 1;
    other->dl.ndim = rank;
    run_refused(&a, KVMILL_E_SHAPE, name, words);
}

static void refuse_type(int tensor, DLDataType type, const char *name, const char *const *words) {
    struct attention a = usual(MULTI_HEAD_CACHE_ATTENTION, 0);
    a.mask_rank = 2;
    a.has_sinks = true;
    set_format(&a, 8, 8);
    attention_open(&a, &dice);
    attention_expect(&a, &dice);
    disguise(&a, tensor)->dl.dtype = type;
    run_refused(&a, KVMILL_E_DTYPE, name, words);
}

static void refuse_missing(int tensor, const DLTensor *given, kvmill_status status,
                           const char *name) {
    struct attention a = usual(MULTI_HEAD_CACHE_ATTENTION, 1);
    a.op.partial = 1;
    set_format(&a, 8, 8);
    attention_open(&a, &dice);
    attention_expect(&a, &dice);
    a.given[tensor] = given;
    run_refused(&a, status, name, WORDS(attention_tensor_name(tensor)));
}

static void refuse_number(int dynamic, int tensor, int64_t number, int64_t value,
                          kvmill_status status, const char *name, const char *const *words) {
    struct attention a;
    open_usual(&a, MULTI_HEAD_CACHE_ATTENTION, dynamic, 0);
    poke(&a, tensor, number, value);
    run_refused(&a, status, name, words);
}

static void refuse_page(int64_t number, int64_t value, const char *name, kvmill_status status,
                        const char *const *words) {
    struct attention a;
    open_paged(&a);
    poke(&a, KVMILL_CACHE_ATTENTION_CACHESTARTS, number, value);
    run_refused(&a, status, name, words);
}

static void test_refused_attributes(void) {
    static const struct {
        const char *name;
        unsigned op;
        size_t offset;
        int64_t value;
        const char *words[3];
    } rows[] = {
        {"num_heads 0", S, offsetof(kvmill_cache_attention, num_heads), 0, {"num_heads", "0"}},
        {"head_dim 0", S, offsetof(kvmill_cache_attention, head_dim), 0, {"head_dim", "0"}},
        {"head_dim -4", KS, offsetof(kvmill_cache_attention, head_dim), -4, {"head_dim", "-4"}},
        {"num_kv_heads 4 of 6",
         S,
         offsetof(kvmill_cache_attention, num_kv_heads),
         4,
         {"num_kv_heads", "4", "6"}},
        {"num_kv_heads 7 of 6",
         MS,
         offsetof(kvmill_cache_attention, num_kv_heads),
         7,
         {"num_kv_heads", "7"}},
        {"num_kv_heads -1",
         D,
         offsetof(kvmill_cache_attention, num_kv_heads),
         -1,
         {"num_kv_heads", "-1"}},
        {"num_kv_heads 0 of KeyValueCache",
         KS,
         offsetof(kvmill_cache_attention, num_kv_heads),
         0,
         {"num_kv_heads", "0"}},
        {"num_layer 0", S, offsetof(kvmill_cache_attention, num_layer), 0, {"num_layer", "0"}},
        {"layer_idx 2 of 2",
         S,
         offsetof(kvmill_cache_attention, layer_idx),
         2,
         {"layer_idx", "2", "0 to 1"}},
        {"layer_idx -1", KD, offsetof(kvmill_cache_attention, layer_idx), -1, {"layer_idx", "-1"}},
        {"quant_bit 1", S, offsetof(kvmill_cache_attention, quant_bit), 1, {"quant_bit", "1"}},
        {"quant_bit 16", KS, offsetof(kvmill_cache_attention, quant_bit), 16, {"quant_bit", "16"}},
        {"quant_bit -8", D, offsetof(kvmill_cache_attention, quant_bit), -8, {"quant_bit", "-8"}},
        {"cache_layout 2, static",
         S,
         offsetof(kvmill_cache_attention, cache_layout),
         2,
         {"cache_layout", "2", "0 to 1"}},
        {"cache_layout 4, dynamic",
         D,
         offsetof(kvmill_cache_attention, cache_layout),
         4,
         {"cache_layout", "4", "0 to 3"}},
        {"cache_layout -1",
         KS,
         offsetof(kvmill_cache_attention, cache_layout),
         -1,
         {"cache_layout", "-1"}},
        {"cache_mode 2", D, offsetof(kvmill_cache_attention, cache_mode), 2, {"cache_mode", "2"}},
        {"num_repeat 0", KS, offsetof(kvmill_cache_attention, num_repeat), 0, {"num_repeat", "0"}},
        {"left_window_size -2",
         S,
         offsetof(kvmill_cache_attention, left_window_size),
         -2,
         {"left_window_size", "-2"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int o = 0; o < OPS; o++)
            if (ops[o].flag == rows[i].op) {
                struct attention a = usual(ops[o].which, ops[o].dynamic);
                memcpy((char *)&a.op + rows[i].offset, &rows[i].value, sizeof rows[i].value);
                plan_refused(
                    a, KVMILL_E_ATTRIBUTE, rows[i].name,
                    WORDS(rows[i].words[0], rows[i].words[1], "accepted", rows[i].words[2]));
            }
}

static void refuse_format(int64_t bits, int64_t dim, int64_t group, const char *name) {
    char text[24];
    struct attention a = usual(MULTI_HEAD_CACHE_ATTENTION, 0);
    a.op.head_dim = dim;
    set_format(&a, bits, group);
    snprintf(text, sizeof text, "%" PRId64, group);
    plan_refused(a, KVMILL_E_ATTRIBUTE, name, WORDS("quant_group", text, "accepted"));
}

static void test_refused_formats(void) {
    struct attention a = usual(MULTI_HEAD_CACHE_ATTENTION, 1);
    a.op.cache_mode = 1;
    a.op.page_size = 0;
    plan_refused(a, KVMILL_E_ATTRIBUTE, "page_size 0, paged", WORDS("page_size", "0", "accepted"));
    refuse_format(8, 16, 3, "quant_group 3 of 16");
    refuse_format(8, 16, 32, "quant_group 32 of 16");
    refuse_format(8, 16, 0, "quant_group 0");
    refuse_format(8, 16, -8, "quant_group -8");
    refuse_format(4, 12, 3, "quant_group 3 of 12, int4");
    a = usual(MULTI_HEAD_CACHE_ATTENTION, 0);
    a.op.math = "fats";
    plan_refused(a, KVMILL_E_ATTRIBUTE, "math fats", WORDS("math", "fats", "fast"));
    a = usual(MULTI_HEAD_CACHE_ATTENTION, 0);
    a.op.T2 = u8;
    a.op.cache_format = "q9_0";
    plan_refused(a, KVMILL_E_ATTRIBUTE, "cache_format q9_0", WORDS("cache_format", "q9_0", "q8_0"));
    a.op.cache_format = "q8_0";
    plan_refused(a, KVMILL_E_ATTRIBUTE, "q8_0 with head_dim 16", WORDS("head_dim", "16", "32"));
}

static void refuse_types(enum cache_op which, DLDataType T1, DLDataType T2, DLDataType T3,
                         int64_t bits, const char *name, const char *argument) {
    struct attention a = usual(which, 0);
    a.op.T1 = T1;
    a.op.T3 = T3;
    a.op.T2 = T2;
    a.op.quant_bit = bits;
    plan_refused(a, KVMILL_E_DTYPE, name, WORDS(argument, "accepted"));
}

static void test_refused_types(void) {
    refuse_types(MULTI_HEAD_CACHE_ATTENTION, f64, f32, f32, 0, "T1 float64", "T1");
    refuse_types(MULTI_HEAD_CACHE_ATTENTION, i8, i8, f32, 0, "T1 int8, attending", "T1");
    refuse_types(MULTI_HEAD_ATTENTION, i32, f32, f32, 0, "T1 int32", "T1");
    refuse_types(MULTI_HEAD_CACHE_ATTENTION, f32, i8, f32, 0, "T2 int8 with quant_bit 0", "T2");
    refuse_types(MULTI_HEAD_CACHE_ATTENTION, f32, f32, f32, 8, "T2 float32 with quant_bit 8", "T2");
    refuse_types(KEY_VALUE_CACHE, f32, i8, f32, 4, "T2 int8 with quant_bit 4", "T2");
    refuse_types(KEY_VALUE_CACHE, f32, i4, f32, 8, "T2 int4 with quant_bit 8", "T2");
    refuse_types(KEY_VALUE_CACHE, f32, i8, i8, 8, "T3 int8", "T3");
    refuse_types(KEY_VALUE_CACHE, i8, f32, f32, 0, "T1 int8 with T2 float32", "T2");
    struct attention a = usual(KEY_VALUE_CACHE, 0);
    a.op.T1 = a.op.T2 = i8;
    a.op.quant_bit = 8;
    plan_refused(a, KVMILL_E_ATTRIBUTE, "T1 int8 with quant_bit 8", WORDS("quant_bit", "8"));
}

static void test_refused_positions(void) {
    refuse_number(0, KVMILL_CACHE_ATTENTION_START_POS, 0, -1, KVMILL_E_INDEX_NEGATIVE,
                  "start_pos -1", WORDS("start_pos", "-1", "accepted"));
    refuse_number(0, KVMILL_CACHE_ATTENTION_START_POS, 0, 8, KVMILL_E_INDEX_RANGE,
                  "start_pos + S beyond capacity", WORDS("start_pos", "8", "accepted"));
    refuse_number(0, KVMILL_CACHE_ATTENTION_START_POS, 0, INT64_MAX, KVMILL_E_INDEX_RANGE,
                  "start_pos 2^63 - 1", WORDS("start_pos", "9223372036854775807", "accepted"));
    refuse_number(1, KVMILL_CACHE_ATTENTION_START_POS, 1, -1, KVMILL_E_INDEX_NEGATIVE,
                  "start_pos[1] -1", WORDS("start_pos", "-1"));
    refuse_number(1, KVMILL_CACHE_ATTENTION_START_POS, 2, 11, KVMILL_E_SHAPE,
                  "kvlen other than start_pos + seqlen", WORDS("kvstarts", "12"));
    refuse_number(1, KVMILL_CACHE_ATTENTION_KVSTARTS, 1, 9, KVMILL_E_SHAPE,
                  "kvstarts that disagree", WORDS("kvstarts"));
    refuse_number(1, KVMILL_CACHE_ATTENTION_KVSTARTS, 0, 1, KVMILL_E_SHAPE, "kvstarts[0] 1",
                  WORDS("kvstarts"));
    refuse_number(1, KVMILL_CACHE_ATTENTION_SEQSTARTS, 0, 1, KVMILL_E_SHAPE, "seqstarts[0] 1",
                  WORDS("seqstarts"));
    refuse_number(1, KVMILL_CACHE_ATTENTION_SEQSTARTS, 2, 2, KVMILL_E_SHAPE, "seqstarts that fall",
                  WORDS("seqstarts", "2"));
    refuse_number(1, KVMILL_CACHE_ATTENTION_DECODING_BATCHES, 0, 4, KVMILL_E_INDEX_RANGE,
                  "decoding_batches 4 of 3", WORDS("decoding_batches", "4", "3"));
    refuse_number(1, KVMILL_CACHE_ATTENTION_DECODING_BATCHES, 0, -1, KVMILL_E_INDEX_NEGATIVE,
                  "decoding_batches -1", WORDS("decoding_batches", "-1"));
    refuse_number(1, KVMILL_CACHE_ATTENTION_MAX_SEQLEN, 0, 4, KVMILL_E_INDEX_RANGE,
                  "max_seqlen 4 of 5", WORDS("max_seqlen", "4", "5"));
    refuse_number(1, KVMILL_CACHE_ATTENTION_MAX_KVLEN, 0, 12, KVMILL_E_INDEX_RANGE,
                  "max_kvlen 12 of 13", WORDS("max_kvlen", "12", "13"));
    struct attention a;
    open_usual(&a, MULTI_HEAD_CACHE_ATTENTION, 1, 0);
    poke(&a, KVMILL_CACHE_ATTENTION_SEQSTARTS, 3, 10);
    poke(&a, KVMILL_CACHE_ATTENTION_START_POS, 2, 11);
    run_refused(&a, KVMILL_E_SHAPE, "seqstarts beyond query", WORDS("seqstarts", "10", "9"));
}

static void test_refused_tables(void) {
    refuse_number(1, KVMILL_CACHE_ATTENTION_CACHESTARTS, 0, -1, KVMILL_E_INDEX_NEGATIVE,
                  "cachestarts[0] -1", WORDS("cachestarts", "-1", "accepted"));
    refuse_number(1, KVMILL_CACHE_ATTENTION_CACHESTARTS, 2, 1000, KVMILL_E_INDEX_RANGE,
                  "cachestarts[2] 1000", WORDS("cachestarts", "1000", "accepted"));
    refuse_number(1, KVMILL_CACHE_ATTENTION_CACHESTARTS, 1, INT64_MAX, KVMILL_E_INDEX_RANGE,
                  "cachestarts 2^63 - 1", WORDS("cachestarts", "9223372036854775807"));
    refuse_page(0, -1, "a page that is used is -1", KVMILL_E_INDEX_NEGATIVE,
                WORDS("cachestarts", "-1", "accepted"));
    refuse_page(1, 4000, "a page begins beyond the cache", KVMILL_E_INDEX_RANGE,
                WORDS("cachestarts", "4000", "accepted"));
    refuse_page(0, INT64_MAX - 1, "a page ends beyond 2^63", KVMILL_E_INDEX_RANGE,
                WORDS("cachestarts", "9223372036854775806"));
    struct attention a;
    open_paged(&a);
    poke(&a, KVMILL_CACHE_ATTENTION_CACHESTARTS, 1, a.capacity - 3);
    run_refused(&a, KVMILL_E_INDEX_RANGE, "a full page ends beyond the cache",
                WORDS("cachestarts", "accepted"));
    open_paged(&a);
    disguise(&a, KVMILL_CACHE_ATTENTION_CACHESTARTS)->shape[1] = 2;
    run_refused(&a, KVMILL_E_SHAPE, "a table of too few pages", WORDS("cachestarts", "2"));
}

static void open_split_pages(struct attention *a) {
    *a = usual(MULTI_HEAD_CACHE_ATTENTION, 1);
    set_paged_layout(a, 4);
    attention_open(a, &dice);
    attention_expect(a, &dice);
}

static void test_refused_pages(void) {
    static int64_t strides[6];
    static unsigned char room[1 << 20];
    struct attention a;
    int64_t start;
    open_split_pages(&a);
    memcpy(&start, a.dense[KVMILL_CACHE_ATTENTION_CACHESTARTS], sizeof start);
    poke(&a, KVMILL_CACHE_ATTENTION_CACHESTARTS, 0, start > 0 ? start - 1 : 1);
    run_refused(&a, KVMILL_E_INDEX_RANGE, "a page begins within one",
                WORDS("cachestarts", "multiples of page_size, 4"));
    open_split_pages(&a);
    memcpy(strides, a.tensor[KVMILL_CACHE_ATTENTION_CACHE].strides, sizeof strides);
    strides[0] *= 4, strides[1] *= 2, strides[2] += 1;
    struct disguise *cache = disguise(&a, KVMILL_CACHE_ATTENTION_CACHE);
    cache->dl.strides = strides;
    cache->dl.data = room;
    run_refused(&a, KVMILL_E_STRIDE, "rows do not fit between pages",
                WORDS("cache", "for pages", "for rows"));
    open_split_pages(&a);
    disguise(&a, KVMILL_CACHE_ATTENTION_CACHE)->shape[4] = 3;
    run_refused(&a, KVMILL_E_SHAPE, "pages of other rows", WORDS("cache", "3", "4"));
}

static void test_refused_shapes(void) {
    refuse_dim(0, KVMILL_CACHE_ATTENTION_CACHE, 0, 1, "batch 2, cache for 1", WORDS("cache", "1"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_CACHE, 1, 3, "cache of 3 layers, num_layer 2",
               WORDS("cache", "3", "2"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_CACHE, 2, 1, "cache without V", WORDS("cache", "1"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_CACHE, 4, 6, "cache of num_heads", WORDS("cache", "6"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_CACHE, 5, 8, "cache of rows of 8", WORDS("cache", "8"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_SCALE, 5, 1, "scale for another quant_group",
               WORDS("scale"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_SCALE, 3, 9, "scale of fewer rows than the cache",
               WORDS("scale"));
    refuse_dim(1, KVMILL_CACHE_ATTENTION_SCALE, 0, 9, "scale of fewer rows, dynamic",
               WORDS("scale"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_QUERY, 2, 4, "query of 4 heads", WORDS("query", "4"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_QUERY, 3, 8, "query of size 8", WORDS("query", "8"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_CURRENT_KEY, 1, 2, "current_key of fewer tokens",
               WORDS("current_key"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_CURRENT_VALUE, 0, 1, "current_value of another batch",
               WORDS("current_value"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, 1, 2, "attn_output of fewer tokens",
               WORDS("attn_output"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_ATTN_MASK, 2, 9, "attn_mask narrower than the keys",
               WORDS("attn_mask", "9"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_ATTN_MASK, 1, 2, "attn_mask of fewer tokens",
               WORDS("attn_mask"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_ATTN_MASK, 0, 3, "attn_mask of 3 heads",
               WORDS("attn_mask", "3"));
    refuse_dim(0, KVMILL_CACHE_ATTENTION_ATTN_MASK, 0, 1, "attn_mask of 1 head of 6",
               WORDS("attn_mask", "1", "6"));
    refuse_dim(1, KVMILL_CACHE_ATTENTION_ATTN_MASK, 1, 2, "attn_mask of fewer tokens, dynamic",
               WORDS("attn_mask"));
    refuse_dim(1, KVMILL_CACHE_ATTENTION_ATTN_MASK, 2, 9, "attn_mask narrower, dynamic",
               WORDS("attn_mask"));
    refuse_dim(1, KVMILL_CACHE_ATTENTION_KVSTARTS, 0, 3, "kvstarts of another batch",
               WORDS("kvstarts", "3"));
    refuse_dim(1, KVMILL_CACHE_ATTENTION_START_POS, 0, 2, "start_pos of another batch",
               WORDS("start_pos", "2"));
    refuse_dim(1, KVMILL_CACHE_ATTENTION_CACHESTARTS, 0, 2, "cachestarts of another batch",
               WORDS("cachestarts", "2"));
    refuse_rank(KVMILL_CACHE_ATTENTION_ATTN_MASK, 1, "attn_mask of 1 dimension",
                WORDS("attn_mask"));
    refuse_rank(KVMILL_CACHE_ATTENTION_ATTN_MASK, 5, "attn_mask of 5 dimensions",
                WORDS("attn_mask"));
    refuse_rank(KVMILL_CACHE_ATTENTION_QUERY, 3, "query of 3 dimensions", WORDS("query"));
    refuse_rank(KVMILL_CACHE_ATTENTION_CACHE, 5, "cache of 5 dimensions", WORDS("cache"));
}

static void refuse_dim_of(enum cache_op which, int dynamic, int tensor, int dim, int64_t value,
                          const char *name, const char *const *words) {
    struct attention a;
    open_usual(&a, which, dynamic, 0);
    disguise(&a, tensor)->shape[dim] = value;
    run_refused(&a, KVMILL_E_SHAPE, name, words);
}

static void test_refused_shapes_of_parts(void) {
    refuse_dim_of(KEY_VALUE_CACHE, 0, KVMILL_CACHE_ATTENTION_KEY, 1, 9,
                  "KeyValueCache: key of fewer positions", WORDS("key", "9", "10"));
    refuse_dim_of(KEY_VALUE_CACHE, 0, KVMILL_CACHE_ATTENTION_VALUE, 2, 1,
                  "KeyValueCache: value of fewer heads", WORDS("value", "1", "2"));
    refuse_dim_of(KEY_VALUE_CACHE, 1, KVMILL_CACHE_ATTENTION_KEY, 0, 4,
                  "dynamic KeyValueCache: key too short", WORDS("kvstarts", "28", "4"));
    refuse_dim_of(MULTI_HEAD_ATTENTION, 0, KVMILL_CACHE_ATTENTION_KEY, 0, 1,
                  "MultiHeadAttention: key of another batch", WORDS("key", "1", "2"));
    refuse_dim_of(MULTI_HEAD_ATTENTION, 0, KVMILL_CACHE_ATTENTION_VALUE, 1, 5,
                  "MultiHeadAttention: value of other positions", WORDS("value", "5", "10"));
    refuse_dim_of(MULTI_HEAD_ATTENTION, 1, KVMILL_CACHE_ATTENTION_KEY, 1, 3,
                  "dynamic MultiHeadAttention: key of 3 heads", WORDS("key", "3", "2"));
}

static void test_refused_tensors(void) {
    refuse_type(KVMILL_CACHE_ATTENTION_QUERY, f16, "query float16, planned float32",
                WORDS("query", "float16"));
    refuse_type(KVMILL_CACHE_ATTENTION_CURRENT_KEY, i32, "current_key int32",
                WORDS("current_key", "int32"));
    refuse_type(KVMILL_CACHE_ATTENTION_CACHE, u8, "cache uint8, planned int8",
                WORDS("cache", "uint8"));
    refuse_type(KVMILL_CACHE_ATTENTION_SCALE, f16, "scale float16, planned float32",
                WORDS("scale", "float16"));
    refuse_type(KVMILL_CACHE_ATTENTION_ATTN_MASK, f16, "attn_mask float16, T1 float32",
                WORDS("attn_mask", "float16", "float32"));
    refuse_type(KVMILL_CACHE_ATTENTION_START_POS, f64, "start_pos float64",
                WORDS("start_pos", "float64"));
    refuse_type(KVMILL_CACHE_ATTENTION_SINKS, i32, "sinks int32", WORDS("sinks", "int32"));
    refuse_type(KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, i32, "attn_output int32",
                WORDS("attn_output", "int32"));
    static const int required[] = {
        KVMILL_CACHE_ATTENTION_QUERY,         KVMILL_CACHE_ATTENTION_CURRENT_KEY,
        KVMILL_CACHE_ATTENTION_CURRENT_VALUE, KVMILL_CACHE_ATTENTION_START_POS,
        KVMILL_CACHE_ATTENTION_SEQSTARTS,     KVMILL_CACHE_ATTENTION_KVSTARTS,
        KVMILL_CACHE_ATTENTION_CACHESTARTS,   KVMILL_CACHE_ATTENTION_DECODING_BATCHES,
        KVMILL_CACHE_ATTENTION_MAX_SEQLEN,    KVMILL_CACHE_ATTENTION_MAX_KVLEN,
        KVMILL_CACHE_ATTENTION_CACHE,         KVMILL_CACHE_ATTENTION_SCALE,
        KVMILL_CACHE_ATTENTION_ATTN_OUTPUT,   KVMILL_CACHE_ATTENTION_LSE};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        char name[64];
        snprintf(name, sizeof name, "no %s", attention_tensor_name(required[i]));
        refuse_missing(required[i], NULL, KVMILL_E_NULL, name);
    }
    refuse_missing(KVMILL_CACHE_ATTENTION_SCALE, &empty_tensor, KVMILL_E_NULL,
                   "an empty scale with quant_bit 8");
}

static void refuse_overlap(int tensor, int over, const char *name) {
    struct attention a;
    open_usual(&a, MULTI_HEAD_CACHE_ATTENTION, 0, 0);
    struct disguise *other = disguise(&a, tensor);
    other->dl.data = a.tensor[over].dl.data;
    other->dl.byte_offset = a.tensor[over].dl.byte_offset;
    memset(a.tensor[over].fence.data, 0, 64);
    memset(a.before[over].fence.data, 0, 64);
    run_refused(&a, KVMILL_E_ALIAS, name, WORDS(attention_tensor_name(tensor)));
}

static void test_refused_overlaps(void) {
    refuse_overlap(KVMILL_CACHE_ATTENTION_CURRENT_KEY, KVMILL_CACHE_ATTENTION_CACHE,
                   "current_key in the cache");
    refuse_overlap(KVMILL_CACHE_ATTENTION_QUERY, KVMILL_CACHE_ATTENTION_CACHE,
                   "query in the cache");
    refuse_overlap(KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, KVMILL_CACHE_ATTENTION_CACHE,
                   "attn_output in the cache");
    refuse_overlap(KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, KVMILL_CACHE_ATTENTION_QUERY,
                   "attn_output over query");
    refuse_overlap(KVMILL_CACHE_ATTENTION_START_POS, KVMILL_CACHE_ATTENTION_CACHE,
                   "start_pos in the cache");
}

static void test_refused_workspace(void) {
    struct attention a;
    kvmill_plan *plan;
    kvmill_error error = {""};
    open_usual(&a, MULTI_HEAD_CACHE_ATTENTION, 0, 8);
    bool good = attention_plan(&a, &options_of[0], &plan, &error) == KVMILL_OK;
    if (good && kvmill_plan_workspace_size(plan) == 0)
        good = false;
    unsigned char *const wrong[] = {NULL, (unsigned char *)&a + 1}; /* none, and not aligned */
    for (int i = 0; good && i < 4; i++) {
        kvmill_status status = attention_run(&a, plan, wrong[i / 2], i % 2, &dice, &error);
        good = is_refusal(status, KVMILL_E_WORKSPACE, &error, WORDS("workspace")) &&
               attention_is_untouched(&a);
    }
    kvmill_plan_destroy(plan);
    attention_close(&a);
    ok(good, "refused: no workspace, a workspace that is not aligned");
}

static void test_refused_device(void) {
    struct attention a;
    open_usual(&a, MULTI_HEAD_CACHE_ATTENTION, 0, 0);
    disguise(&a, KVMILL_CACHE_ATTENTION_CACHE)->dl.device.device_type = kDLCUDA;
    run_refused(&a, KVMILL_E_DEVICE, "cache on another device", WORDS("cache"));
}

/* The tests' packs have no kernel for heads of 44. */
static void test_other_geometry(void) {
    static char text[16384];
    struct attention a = usual(MULTI_HEAD_CACHE_ATTENTION, 0);
    kvmill_plan *plan;
    a.op.head_dim = 44;
    bool planned = attention_plan(&a, &options_of[1], &plan, NULL) == KVMILL_OK;
    if (planned)
        kvmill_plan_describe(plan, text, sizeof text);
    kvmill_plan_destroy(plan);
    ok(planned && strstr(text, "portable") != NULL,
       "a pack of other geometry: the portable kernels, and the description says so");
    if (planned && strstr(text, "portable") == NULL)
        diag("%s", text);
    ok(agrees(a), "and they are right");
}

/* The description of a plan of these heads says that no kernel has fast arithmetic, if so. */
static bool says_fast(const char *math, int64_t head_dim, const kvmill_plan_options *options,
                      bool wanted) {
    static char text[16384];
    struct attention a = usual(MULTI_HEAD_CACHE_ATTENTION, 0);
    kvmill_plan *plan;
    a.op.head_dim = head_dim;
    a.op.math = math;
    if (attention_plan(&a, options, &plan, NULL) != KVMILL_OK)
        return false;
    kvmill_plan_describe(plan, text, sizeof text);
    kvmill_plan_destroy(plan);
    bool is_fast = strstr(text, "_fast__") != NULL;
    return !is_fast && (strstr(text, "no kernel of math fast") != NULL) == wanted;
}

static void test_math_words(void) {
    ok(says_fast("fast", 16, &options_of[0], true),
       "math fast without packs: the description says that no kernel has it");
    ok(says_fast("fast", 44, &options_of[1], true), "  and of a pack of other geometry");
    ok(says_fast("f32", 16, &options_of[0], false) && says_fast(NULL, 16, &options_of[0], false),
       "  but not where it is not asked for");
}

static void test_refusals(void) {
    test_refused_attributes();
    test_refused_formats();
    test_refused_types();
    test_refused_positions();
    test_refused_tables();
    test_refused_pages();
    test_refused_shapes();
    test_refused_shapes_of_parts();
    test_refused_tensors();
    test_refused_overlaps();
    test_refused_workspace();
    test_refused_device();
    test_other_geometry();
}

int main(void) {
    dice = dice_for(dice_seed(), "attention cases");
    test_quantisation();
    test_addresses();
    test_alibi();
    test_attention();
    test_parameters();
    test_absence();
    test_groups();
    test_refusals();
    test_math_words();
    return done_testing();
}
