/* The acceptance cases and the checklist of the cache attention reference, item by item.  What is
   refused is in tests/tables/refusals/.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_scenes.h"
#include "tap.h"

static struct dice dice;

enum {
    CACHE = KVMILL_CACHE_ATTENTION_CACHE,
    SCALE = KVMILL_CACHE_ATTENTION_SCALE,
    STARTS = KVMILL_CACHE_ATTENTION_CACHESTARTS,
    NEW_KEY = KVMILL_CACHE_ATTENTION_CURRENT_KEY,
    NEW_VALUE = KVMILL_CACHE_ATTENTION_CURRENT_VALUE,
    KEY = KVMILL_CACHE_ATTENTION_KEY,
    QUERY = KVMILL_CACHE_ATTENTION_QUERY,
    MASK = KVMILL_CACHE_ATTENTION_ATTN_MASK,
    OUTPUT = KVMILL_CACHE_ATTENTION_ATTN_OUTPUT,
    LSE = KVMILL_CACHE_ATTENTION_LSE
};

#define ONE "num_heads=1 num_kv_heads=1 "

/* ---- Numbers in text ---- */

enum { MOST_NUMBERS = 32 };

static int64_t parse(const char *text, double *x) {
    int64_t count = 0;
    for (char *end; count < MOST_NUMBERS; text = end) {
        double number = strtod(text, &end);
        if (end == text)
            break;
        x[count++] = number;
    }
    return count;
}

static void put(struct attention *a, int tensor, int64_t first, const char *text) {
    double x[MOST_NUMBERS];
    int64_t count = parse(text, x);
    for (int64_t i = 0; i < count; i++)
        attention_set(a, tensor, first + i, x[i]);
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

static bool holds(const struct attention *a, int tensor, int64_t first, const char *text) {
    double want[MOST_NUMBERS];
    return are_near(a, tensor, first, parse(text, want), want, 0);
}

/* ---- Quantisation ---- */

#define TIES  "127 -127 63.5 0.5 1.5 2.5 -0.5 -2.5 "
#define BACK  "31.75 -31.75 0.125 0.375 -0.125 10 -7.9 0 "
#define LEAST "1e-4 -5e-5 2.4e-5 4e-6 6e-6 -1e-4 1e-5 0 "
#define COUNT "1 2 3 4 5 6 7 8 "
#define ZEROS "0 0 0 0 0 0 0 0 "
#define MIXED "1 -0.5 0.25 0 0.1 0.2 0.3 0.4 "

static const struct {
    const char *name, *settings, *x, *codes;
    uint32_t scale, second; /* bits */
    const char *back;       /* what is read, where the reference says */
} quantised[] = {
    {"Q1 ties, float32", I8, TIES, "127 -127 64 0 2 2 0 -2", 0x3f800000, 0, ""},
    {"Q1 ties, float16", F16 I8, TIES, "127 -127 64 0 2 2 0 -2", 0x3c00, 0, ""},
    {"Q2 read back", I8, BACK, "127 -127 0 2 0 40 -32 0", 0x3e800000, 0,
     "31.75 -31.75 0 0.5 0 10 -8 0"},
    {"Q3 zeros, float32", I8, ZEROS, ZEROS, 0x3727c5ac, 0, ""},
    {"Q3 zeros, float16", F16 I8, ZEROS, ZEROS, 0x00a8, 0, ""},
    {"Q4 least scale, float32", I8, LEAST, "10 -5 2 0 1 -10 1 0", 0x3727c5ac, 0, ""},
    {"Q4 least scale, float16", F16 I8, LEAST, "10 -5 2 0 1 -10 1 0", 0x00a8, 0, ""},
    {"Q5 one to eight, float32", I8, COUNT, "16 32 48 64 79 95 111 127", 0x3d810204, 0, ""},
    {"Q5 one to eight, float16", F16 I8, COUNT, "16 32 48 64 79 95 111 127", 0x2c08, 0, ""},
    {"Q6 divides", I8, "18 9 -9 -18 4.5 1 0 2", "127 63 -63 -127 32 7 0 14", 0x3e112245, 0, ""},
    {"Q7 divides, the other way", I8, "30 15 -15 -30 7.5 1 0 2", "127 64 -64 -127 32 4 0 8",
     0x3e71e3c8, 0, ""},
    {"Q8 rounds the quotient to float16", F16 I8, "17 16 8.5 -17 -16 1 0 2",
     "127 120 63 -127 -120 7 0 15", 0x3049, 0, ""},
    {"Q9 two groups", I8 "head_dim=16", TIES BACK, "127 -127 64 0 2 2 0 -2 127 -127 0 2 0 40 -32 0",
     0x3f800000, 0x3e800000, ""},
    {"Q9 one group", I8 "head_dim=16 quant_group=16", TIES BACK,
     "127 -127 64 0 2 2 0 -2 32 -32 0 0 0 10 -8 0", 0x3f800000, 0, ""},
    {"Q10 float16 scales", I8 "T3=float16", MIXED, "127 -64 32 0 13 25 38 51", 0x2008, 0,
     "1 -0.50390625 0.251953125 0 0.10235595703125 0.19677734375 0.29931640625 0.401611328125"},
    {"I1 int4", I4, "7 -7 3.5 0.5 1.5 2.5 -3.5 -6.5", "7 -7 4 0 2 2 -4 -6", 0x3f800000, 0, ""},
    {"I2 int4, one to eight, float32", I4, COUNT, "1 2 3 3 4 5 6 7", 0x3f924925, 0, ""},
    {"I2 int4, one to eight, float16", F16 I4, COUNT, "1 2 3 4 4 5 6 7", 0x3c92, 0, ""},
    {"I3 int4 has no code -8", I4, "-8 7 1 0 0 0 0 0", "-7 6 1 0 0 0 0 0", 0x3f924925, 0, ""},
};

/* The dense arrays are the oracle's. */
static bool oracle_holds(const struct attention *a, const char *codes) {
    double want[MOST_NUMBERS];
    int64_t count = parse(codes, want);
    for (int64_t i = 0; i < count; i++)
        if (oracle_get(attention_type(a->op.T2), a->dense[CACHE], i) != want[i]) {
            diag("the oracle's code %" PRId64 " is wrong", i);
            return false;
        }
    return true;
}

/* Layout 0 with one of everything: K's row is the first. */
static void test_quantised(size_t i) {
    struct attention a = attention_scene(KS, ONE "head_dim=8");
    attention_say(&a, quantised[i].settings);
    double scales[] = {oracle_decode(attention_type(a.op.T3), quantised[i].scale),
                       oracle_decode(attention_type(a.op.T3), quantised[i].second)};
    attention_open(&a, &dice);
    put(&a, NEW_KEY, 0, quantised[i].x);
    put(&a, NEW_VALUE, 0, quantised[i].x);
    bool good = attention_runs(&a, &dice) && oracle_holds(&a, quantised[i].codes) &&
                holds(&a, CACHE, 0, quantised[i].codes) &&
                are_near(&a, SCALE, 0, a.op.head_dim / a.op.quant_group, scales, 0) &&
                holds(&a, CACHE, a.op.head_dim, quantised[i].codes) &&
                holds(&a, KEY, 0, quantised[i].back);
    attention_close(&a);
    ok(good, "%s", quantised[i].name);
}

/* The first bytes of K's row. */
static void test_bytes(const char *settings, const char *x, int count, const unsigned char *want,
                       const char *name) {
    struct attention a = attention_scene(KS, ONE);
    attention_say(&a, settings);
    attention_open(&a, &dice);
    put(&a, NEW_KEY, 0, x);
    const DLTensor *cache = &a.tensor[CACHE].dl;
    bool good = attention_runs(&a, &dice) &&
                memcmp((char *)cache->data + cache->byte_offset, want, (size_t)count) == 0;
    attention_close(&a);
    ok(good, "%s", name);
}

/* llama.cpp's blocks: scale 1, halves away from zero; of q4_0 code + 8, element 17 above 1. */
static void test_quantisation(void) {
    static const unsigned char i4[] = {0x97, 0x04, 0x22, 0xac},
                               q8[] = {0x00, 0x3c, 127, 1, 3, 0xfd, 0, 0xff, 0, 0},
                               q4[] = {0x00, 0x3c, 0x80, 0xb9, 0x8b, 0x86, 0x88, 0x88, 0x88, 0x88};
    for (size_t i = 0; i < sizeof quantised / sizeof *quantised; i++)
        test_quantised(i);
    test_bytes(I4 "head_dim=8", "7 -7 3.5 0.5 1.5 2.5 -3.5 -6.5", 4, i4, "I1 bytes 97 04 22 ac");
#define REST ZEROS "0 0 0 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0"
    test_bytes("head_dim=32 T2=uint8 cache_format=q8_0", "127 1 2.5 -2.5 0.4 -0.5 " REST, 10, q8,
               "q8_0 blocks as llama.cpp has them");
    test_bytes("head_dim=32 T2=uint8 cache_format=q4_0", "-8 1 2.5 -2.5 0.4 -0.5 " REST, 10, q4,
               "q4_0 blocks as llama.cpp has them");
}

/* ---- Addresses ---- */

/* The op writes 100 where the reference says; without scales, and with. */
static void test_address(unsigned op, const char *settings, int64_t from, int64_t element,
                         int64_t scale, const char *name) {
    bool good = true;
    for (int bits = 0; bits <= 8; bits += 8) {
        struct attention a =
            attention_scene(op, "num_kv_heads=2 num_layer=2 layer_idx=1 head_dim=8");
        attention_say(&a, settings);
        attention_say(&a, bits ? I8 : "");
        attention_open(&a, &dice);
        if (op == KD)
            attention_set(&a, STARTS, 0, 5);
        attention_set(&a, NEW_VALUE, from, 100);
        good = good && attention_runs(&a, &dice) && holds(&a, CACHE, element, bits ? "127" : "100");
        double want = (double)(100.0f / 127);
        good = good && (bits == 0 || are_near(&a, SCALE, scale, 1, &want, 0));
        attention_close(&a);
    }
    ok(good, "%s: element %" PRId64 ", scale %" PRId64, name, element, scale);
}

static void test_pages(void) {
    static const int64_t table[] = {8, 0, 4, 12}, loaded[] = {8, 9, 10, 11, 0, 4, 5, 6, 7, 12, 13},
                         stored[] = {11, 0, 13};
    struct attention a = attention_scene(KD, ONE "head_dim=4 cache_mode=1 page_size=4 tokens=2,1 "
                                                 "start=3,5 spare_rows=16");
    attention_open(&a, &dice);
    bool good = a.capacity >= 16;
    for (int64_t i = 0; i < 4; i++)
        attention_set(&a, STARTS, i / 2 * a.pages + i % 2, (double)table[i]);
    for (int64_t i = 0; i < a.capacity * 8; i++)
        attention_set(&a, CACHE, i, (double)(i / 8)); /* every row knows its number */
    for (int64_t i = 0; i < 12; i++)
        attention_set(&a, NEW_KEY, i, (double)stored[i / 4]);
    good = good && attention_runs(&a, &dice);
    for (int64_t j = 0; j < 11; j++)
        good = good && attention_get(&a, KEY, j * 4) == (double)loaded[j];
    for (int64_t row = 0; row < 14; row++)
        good = good && attention_get(&a, CACHE, row * 8) == (double)row;
    attention_close(&a);
    ok(good, "A3 pages: stores at rows 11, 0, 13, loads in order");
}

static void test_addresses(void) {
    static const char at[] = "batch=2 start=2 tokens=1 spare_rows=1 cache_layout=";
    char settings[80];
    for (int layout = 0; layout < 2; layout++) {
        snprintf(settings, sizeof settings, "%s%d", at, layout);
        test_address(KS, settings, 1 * 16 + 1 * 8 + 3, layout ? 499 : 491, layout ? 62 : 61,
                     layout ? "A1 layout 1" : "A1 layout 0");
    }
    test_address(KD, "rows=16", 11, 379, 47, "A2 layout 0");
    test_address(KD, "rows=16 cache_layout=1", 11, 699, 87, "A2 layout 1");
    test_address(KD, "rows=16 cache_layout=2", 11, 859, 107, "A2 layout 2");
    test_address(KD, "rows=16 cache_layout=3", 11, 939, 117, "A2 layout 3");
    test_pages();
}

/* ---- ALiBi ---- */

/* Query 0 over two positions: lse = log (1 + exp (-slope)). */
static void test_slopes(int64_t heads, const char *exponents) {
    struct attention a =
        attention_scene(MS, "head_dim=4 start=1 is_alibi=1 partial=1 query_size=0");
    double exponent[MOST_NUMBERS];
    bool good = parse(exponents, exponent) == heads;
    a.op.num_heads = heads;
    attention_open(&a, &dice);
    good = good && attention_runs(&a, &dice);
    for (int64_t h = 0; h < heads && good; h++) {
        double slope = pow(2, exponent[h]), want = log(1 + exp(-slope));
        good = oracle_alibi_slope(heads, h) == slope && are_near(&a, LSE, h, 1, &want, 3e-7);
    }
    attention_close(&a);
    ok(good, "S1 slopes of %" PRId64 " heads", heads);
}

/* One head has slope 2^-8; a factor of 2^8 makes it 1. */
static void test_bias(void) {
    struct attention a = attention_scene(MS, ONE "head_dim=4 start=3 tokens=2 is_alibi=1 partial=1 "
                                                 "alibi_scale=256 query_size=0");
    const double want[] = {log(1 + exp(-1) + exp(-2) + exp(-3)),
                           log(1 + exp(-1) + exp(-2) + exp(-3) + exp(-4))};
    attention_open(&a, &dice);
    ok(attention_runs(&a, &dice) && are_near(&a, LSE, 0, 2, want, 1e-6),
       "S2 bias of two tokens behind three");
    attention_close(&a);
}

static void test_alibi(void) {
    test_slopes(1, "-8");
    test_slopes(2, "-4 -8");
    test_slopes(3, "-4 -8 -2");
    test_slopes(4, "-2 -4 -6 -8");
    test_slopes(6, "-2 -4 -6 -8 -1 -3");
    test_slopes(12, "-1 -2 -3 -4 -5 -6 -7 -8 -0.5 -1.5 -2.5 -3.5");
    test_bias();
}

/* ---- Attention ---- */

/* The scene of M1: position 0 holds K = 0 and V = e0. */
static void open_attention(struct attention *a, const char *settings) {
    double ln2 = log(2), row[8] = {0};
    *a = attention_scene(S, "num_heads=2 num_kv_heads=1 num_layer=2 layer_idx=1 head_dim=4 start=1 "
                            "tokens=2 spare_rows=1 spare_batch=1");
    attention_say(a, settings);
    attention_open(a, &dice);
    struct oracle_attention problem = attention_problem(a);
    int64_t dim = a->op.head_dim;
    oracle_write_row(&problem.key, ORACLE_F32, oracle_row(&problem.cache, 0, 1, 0, 0, 0), row);
    row[0] = 1;
    oracle_write_row(&problem.value, ORACLE_F32, oracle_row(&problem.cache, 0, 1, 1, 0, 0), row);
    attention_refresh(a, CACHE);
    if (a->op.quant_bit != 0)
        attention_refresh(a, SCALE);
    for (int64_t t = 0; t < 2; t++)
        for (int64_t i = 0; i < dim; i++) {
            attention_set(a, NEW_KEY, t * dim + i, i == 0 ? ln2 * (double)(t + 1) : 0);
            attention_set(a, NEW_VALUE, t * dim + i, i == t + 1);
            attention_set(a, QUERY, t * 2 * dim + i, i == 0 ? sqrt((double)dim) : 0);
            attention_set(a, QUERY, (t * 2 + 1) * dim + i, 0);
        }
}

/* want: rows of token 0 head 0, token 0 head 1, token 1 head 0, token 1 head 1. */
static void check_rows(struct attention *a, const double want[4][4], const char *name) {
    bool good = attention_runs(a, &dice);
    for (int64_t row = 0; good && row < 4; row++)
        good = are_near(a, OUTPUT, row * a->op.head_dim, 4, want[row], 1e-6);
    attention_close(a);
    ok(good, "%s", name);
}

static const double thirds[4] = {1.0 / 3, 1.0 / 3, 1.0 / 3};

static void test_masked(void) {
    struct attention a;
    const double added[] = {log(4), log(2), 0}, total = 4 + 2 + 1;
    open_attention(&a, "mask=2 mask_padding=13");
    for (int64_t j = 0; j < 3; j++) {
        attention_set(&a, MASK, j, 0);
        attention_set(&a, MASK, 16 + j, added[j]);
    }
    const double want[4][4] = {{1.0 / 3, 2.0 / 3},
                               {1.0 / 2, 1.0 / 2},
                               {thirds[0], thirds[1], thirds[2]},
                               {4 / total, 2 / total, 1 / total}};
    check_rows(&a, want, "M3 mask, its padding NaN");
}

static void test_alibi_output(const char *settings, const char *name) {
    struct attention a;
    double s = pow(2, -4), t = pow(2, -8);
    open_attention(&a, settings);
    for (int64_t i = 0; i < 16; i++)
        attention_set(&a, QUERY, i, 0);
    double n1 = 1 + exp(-s), n2 = 1 + exp(-s) + exp(-2 * s);
    double o1 = 1 + exp(-t), o2 = 1 + exp(-t) + exp(-2 * t);
    const double want[4][4] = {{exp(-s) / n1, 1 / n1},
                               {exp(-t) / o1, 1 / o1},
                               {exp(-2 * s) / n2, exp(-s) / n2, 1 / n2},
                               {exp(-2 * t) / o2, exp(-t) / o2, 1 / o2}};
    ok(fabs(want[0][0] - 0.484380) < 1e-6 && fabs(want[2][2] - 0.354370) < 1e-6,
       "M4 numbers of the reference");
    check_rows(&a, want, name);
}

/* Everything that may not change is compared in every case; here once more by name. */
static void test_kept(void) {
    struct attention a;
    open_attention(&a, "");
    bool good = attention_runs(&a, &dice);
    struct oracle_attention problem = attention_problem(&a);
    for (int64_t row = 0; good && row < 2 * 2 * 2 * a.capacity; row++) {
        bool written = false;
        for (int i = 0; i < 4; i++)
            written |= row == oracle_row(&problem.cache, 0, 1, i / 2, 1 + i % 2, 0);
        good = written || memcmp(a.tensor[CACHE].fence.data + row * 16,
                                 a.before[CACHE].fence.data + row * 16, 16) == 0;
    }
    attention_close(&a);
    ok(good, "M9 other layers, batch rows and positions are as before");
}

static void test_attention(void) {
    static const double m1[4][4] = {{1.0 / 3, 2.0 / 3},
                                    {1.0 / 2, 1.0 / 2},
                                    {1.0 / 7, 2.0 / 7, 4.0 / 7},
                                    {1.0 / 3, 1.0 / 3, 1.0 / 3}};
    static const double m2[4][4] = {{1.0 / 7, 2.0 / 7, 4.0 / 7},
                                    {1.0 / 3, 1.0 / 3, 1.0 / 3},
                                    {1.0 / 7, 2.0 / 7, 4.0 / 7},
                                    {1.0 / 3, 1.0 / 3, 1.0 / 3}};
    struct attention a;
    open_attention(&a, "");
    check_rows(&a, m1, "M1 causal");
    open_attention(&a, "is_causal=0");
    check_rows(&a, m2, "M2 not causal");
    test_masked();
    test_alibi_output("is_alibi=1", "M4 ALiBi, causal");
    test_alibi_output("is_alibi=1 is_causal=0", "M4 ALiBi, not causal: the same");
    open_attention(&a, I4 "head_dim=8");
    check_rows(&a, m1, "M5 int4");
    open_attention(&a, I8 "head_dim=8");
    check_rows(&a, m1, "M5 int8");
    test_kept();
}

/* ---- NaN and infinity in a group ---- */

/* The token's own output is NaN in the heads that use the group, and nowhere else. */
static bool is_nan_where_visible(const struct attention *a) {
    for (int64_t i = 0; i < a->op.num_heads * a->op.head_dim; i++) {
        bool poisoned = i / a->op.head_dim < 3 && i % a->op.head_dim < 8;
        if ((isnan(attention_get(a, OUTPUT, i)) != 0) != poisoned) {
            diag("element %" PRId64 " is %g", i, attention_get(a, OUTPUT, i));
            return false;
        }
    }
    return true;
}

#define SIX_HEADS "num_heads=6 num_kv_heads=2 num_layer=2 layer_idx=1 head_dim=16 batch=2 start=7 "

static void test_not_finite(double poison, const char *format, const char *name) {
    struct attention a = attention_scene(S, SIX_HEADS "tokens=1");
    attention_say(&a, format);
    attention_open(&a, &dice);
    attention_set(&a, NEW_VALUE, 3, poison);
    ok(attention_runs(&a, &dice) && is_nan_where_visible(&a),
       "%s in a group of %" PRId64 " bits: codes 0, read back as NaN", name, a.op.quant_bit);
    attention_close(&a);
    a = attention_scene(KS, SIX_HEADS "tokens=3");
    attention_say(&a, format);
    attention_open(&a, &dice);
    attention_set(&a, NEW_KEY, 5, poison);
    attention_set(&a, NEW_KEY, 6, 1);
    ok(attention_runs(&a, &dice), "KeyValueCache: %s in a group of %" PRId64 " bits", name,
       a.op.quant_bit);
    attention_close(&a);
}

/* A NaN in the last key: what sees it is NaN, the token before it does not; in pieces of a long
   cache, too. */
static void test_not_finite_key(int64_t start) {
    struct attention a = attention_scene(S, SIX_HEADS I8 "batch=1 tokens=2");
    a.start[0] = start;
    attention_open(&a, &dice);
    attention_set(&a, NEW_KEY, 2 * 16 + 3, NAN);
    ok(attention_runs(&a, &dice) && isnan(attention_get(&a, OUTPUT, 6 * 16)) &&
           !isnan(attention_get(&a, OUTPUT, 0)) && !isnan(attention_get(&a, OUTPUT, 9 * 16)),
       "NaN in the last key of %" PRId64 ": NaN where it is visible", start + 2);
    attention_close(&a);
}

static void test_groups(void) {
    static const char *const formats[] = {I4, I8};
    test_not_finite_key(7);
    test_not_finite_key(3000);
    for (int i = 0; i < 2; i++) {
        test_not_finite(NAN, formats[i], "NaN");
        test_not_finite(INFINITY, formats[i], "infinity");
        test_not_finite(-INFINITY, formats[i], "-infinity");
    }
}

/* ---- What a plan says ---- */

static bool describes(const char *settings, int packs, const char *words, bool wanted) {
    static char text[16384];
    struct attention a = attention_scene(S, SIX_HEADS);
    kvmill_plan *plan;
    attention_say(&a, settings);
    if (attention_plan(&a, &attention_options[packs], &plan, NULL) != KVMILL_OK)
        return false;
    kvmill_plan_describe(plan, text, sizeof text);
    kvmill_plan_destroy(plan);
    bool good = (strstr(text, words) != NULL) == wanted && strstr(text, "_fast__") == NULL &&
                strstr(text, "_near__") == NULL;
    if (!good)
        diag("%s", text);
    return good;
}

/* The tests' packs have no kernel for heads of 44. */
static void test_descriptions(void) {
    static const char none[] = "no kernel of math fast";
    struct attention a = attention_scene(S, SIX_HEADS "head_dim=44 tokens=3");
    ok(describes("head_dim=44", 1, "portable", true),
       "a pack of other geometry: the portable kernels, and the description says so");
    attention_open(&a, &dice);
    ok(attention_runs(&a, &dice), "and they are right");
    attention_close(&a);
    ok(describes("math=fast", 0, none, true) && describes("math=fast head_dim=44", 1, none, true),
       "math fast: without packs, or of another geometry, no kernel has it");
    ok(describes("math=f32", 0, none, false) && describes("", 0, none, false),
       "  which is not said where it is not asked for");
}

int main(void) {
    dice = dice_for(dice_seed(), "attention cases");
    test_quantisation();
    test_addresses();
    test_alibi();
    test_attention();
    test_checklist(&dice);
    test_groups();
    test_descriptions();
    return done_testing();
}
