/* The acceptance cases and the checklist of the cache attention reference, item by item; those of
   quantising are t_convert's.  What is refused is in tests/tables/refusals/.

   SPDX-License-Identifier: Apache-2.0 */
#include "attention_scenes.h"
#include "common.h"
#include "packs.h"
#include "plans.h"
#include "table.h"

DICE("attention cases");

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

/* ---- Numbers ---- */

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
        good = good && attention_runs(&a, &dice) &&
               are_near(&a, CACHE, element, 1, &(double){bits ? 127 : 100}, 0);
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

TEST(addresses) {
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
    double exponent[32];
    bool good = numbers_in(exponents, 10, exponent, COUNT(exponent)) == heads;
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

TEST(alibi) {
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

TEST(attention) {
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
    check_rows(&a, m1, "M1 causal; M9 other layers, batch rows and positions are as before");
    open_attention(&a, "is_causal=0");
    check_rows(&a, m2, "M2 not causal");
    test_masked();
    test_alibi_output("is_alibi=1", "M4 ALiBi, causal");
    test_alibi_output("is_alibi=1 is_causal=0", "M4 ALiBi, not causal: the same");
    open_attention(&a, I4 "head_dim=8");
    check_rows(&a, m1, "M5 int4");
    open_attention(&a, I8 "head_dim=8");
    check_rows(&a, m1, "M5 int8");
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

TEST(groups) {
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

static bool describes(const char *settings, int with, const char *words, bool wanted) {
    struct attention a = attention_scene(S, SIX_HEADS);
    kvmill_plan *plan;
    attention_say(&a, settings);
    if (attention_plan(&a, &two_threads[with], &plan, NULL) != KVMILL_OK)
        return false;
    bool good = plan_says(plan, words) == wanted && !plan_says(plan, "_fast__") &&
                !plan_says(plan, "_near__");
    if (!good)
        diag("%s", plan_text(plan));
    kvmill_plan_destroy(plan);
    return good;
}

/* The tests' packs have no kernel for heads of 44. */
TEST(descriptions) {
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

/* ---- Tiles ---- */

#define TILES                                                                                      \
    "T1=float16 T3=float16 T2=int8 quant_bit=8 quant_group=32 cache_format=tiles head_dim=64 "

/* Byte `from + slot` of a head's row is there in K and in V, worked out by hand; int8 and int4. */
TEST(places_in_tiles) {
    const struct {
        const char *settings;
        int64_t element, key, value; /* of the row of slot 18; codes in the cache */
    } places[] = {
        {TILES, 5, 16 * 64 + (1 * 16 + 2) * 4 + 1, 16 * 64 + 5 * 4 + 2},
        {TILES "quant_bit=4 T2=int4", 21, 2 * (16 * 32 + (2 * 16 + 2) * 4 + 2) + 1,
         2 * (16 * 32 + 10 * 4 + 2) + 1},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct attention a =
            attention_scene(KS, ONE "cache_layout=1 start=18 tokens=1 rows=32 query_size=0");
        attention_say(&a, places[i].settings);
        attention_open(&a, &dice);
        for (int64_t d = 0; d < 64; d++) {
            attention_set(&a, NEW_KEY, d, d == places[i].element ? 5 : 0);
            attention_set(&a, NEW_VALUE, d, d == places[i].element ? 5 : 0);
        }
        double most = a.op.quant_bit == 8 ? 127 : 7;
        int64_t side = 32 * 64;
        bool good = attention_runs(&a, &dice) && attention_get(&a, CACHE, places[i].key) == most &&
                    attention_get(&a, CACHE, side + places[i].value) == most;
        ok(good, "tiles of int%" PRId64 ": element %" PRId64 " of slot 18 is where it should be",
           a.op.quant_bit, places[i].element);
        attention_close(&a);
    }
}

/* Kernels that are in the packs, on lengths around tiles; a window that begins within one, in
   several calls of a kernel. */
TEST(lengths_in_tiles) {
    static const char *const lengths[] = {"start=15 tokens=1",
                                          "start=16 tokens=1",
                                          "start=0 tokens=17",
                                          "start=61 tokens=4",
                                          "start=64 tokens=33",
                                          "start=2450 tokens=1 left_window_size=2300",
                                          "start=70 tokens=1 left_window_size=37"};
    bool good = true;
    for (size_t i = 0; good && i < sizeof lengths / sizeof *lengths; i++) {
        struct attention a = attention_scene(
            S, TILES "num_heads=8 num_kv_heads=2 cache_layout=1 value_T2=int4 value_T3=float16 "
                     "value_quant_bit=4 value_cache_format=tiles math=near");
        a.op.value_differs = 1;
        attention_say(&a, lengths[i]);
        attention_open(&a, &dice);
        if (a.op.left_window_size == 37) /* position 32 is in the tile of the first that is seen */
            attention_set(&a, KVMILL_CACHE_ATTENTION_VALUE_SCALE, 64, NAN);
        good = attention_runs(&a, &dice);
        attention_close(&a);
    }
    ok(good, "tiles: parts of them at the end, and at the begin of a window");
}
