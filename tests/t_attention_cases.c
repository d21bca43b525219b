/* The acceptance cases and the checklist of the cache attention reference, item by item.  t_convert
   has those about quantising, tests/tables/refusals/ those about refusals.

   SPDX-License-Identifier: Apache-2.0 */
#include "attention_scenes.h"
#include "common.h"
#include "packs.h"

DICE("attention cases");

enum {
    CACHE = KVMILL_CACHE_ATTENTION_CACHE,
    STARTS = KVMILL_CACHE_ATTENTION_CACHESTARTS,
    NEW_KEY = KVMILL_CACHE_ATTENTION_CURRENT_KEY,
    NEW_VALUE = KVMILL_CACHE_ATTENTION_CURRENT_VALUE,
    KEY = KVMILL_CACHE_ATTENTION_KEY,
    QUERY = KVMILL_CACHE_ATTENTION_QUERY,
    OUTPUT = KVMILL_CACHE_ATTENTION_ATTN_OUTPUT,
    LSE = KVMILL_CACHE_ATTENTION_LSE
};

#define ONE "num_heads=1 num_kv_heads=1 "

static const char ops[] = "SsKkMm"; /* in the order of their bits */

/* Runs the opened scene with and without packs, on one thread and on several, and compares with the
   oracle; keeps the outputs of the last run.  Slow runs take two of these four for each scene, in
   turn. */
static bool attention_runs(struct attention *a) {
    static int scenes;
    bool good = true, crossed = scenes++ % 2 != 0;
    attention_expect(a, &dice);
    for (int i = 0; good && i < 4; i++) {
        bool use_packs = i / 2 != 0, on_threads = i % 2 != 0;
        if (is_slow_run() && (use_packs != on_threads) != crossed)
            continue;
        tensors_restore(a->tensor, a->before, TENSORS);
        good = attention_runs_right(a, &two_threads[use_packs], on_threads ? 3 : 0, &dice);
    }
    return good;
}

/* ---- Parameters, item by item: each value in each op that has it ---- */

/* The number of the wanted combination, and how many exist so far. */
struct combination {
    int64_t number, count;
};

static int64_t pick(void *context, int64_t alternatives) {
    struct combination *combination = context;
    int64_t picked = combination->number / combination->count % alternatives;
    combination->count *= alternatives;
    return picked;
}

/* Chooses one of the combinations; returns how many exist. */
static int64_t choose(const char *settings, int64_t number, char chosen[256]) {
    struct combination combination = {number, 1};
    setting_choose(settings, pick, &combination, chosen, 256);
    return combination.count;
}

static bool agrees(unsigned op, const char *settings) {
    static const char usual[] = "num_heads=6 num_kv_heads=2 head_dim=16 num_layer=2 layer_idx=1 "
                                "page_size=4";
    OWN(attention_close) struct attention a = attention_scene(op, usual);
    attention_say(&a,
                  op & (D | KD | MD) ? "start=7,0,12 tokens=3,5,1" : "batch=2 start=7 tokens=3");
    attention_say(&a, settings);
    attention_open(&a, &dice);
    return attention_runs(&a);
}

/* ROW: name, ops, settings.  Slow runs take one combination in each op, a different one each
   time. */
EACH_ROW(cache_attention, 3) {
    char chosen[256];
    bool good = true;
    int64_t count = choose(cells[2], 0, chosen);
    for (int op = 0; op < OPS; op++)
        for (int64_t n = 0; n < count && good && strchr(cells[1], ops[op]) != NULL; n++) {
            if (is_slow_run() && n != op % count)
                continue;
            choose(cells[2], n, chosen);
            good = agrees(1u << op, chosen);
            if (!good)
                diag("%s", chosen);
        }
    ok(good, "checklist %s", cells[0]);
}

/* ---- Numbers ---- */

static bool are_near(const struct attention *a, int tensor, int64_t first, int64_t count,
                     const double *want, double tolerance) {
    for (int64_t i = 0; i < count; i++) {
        double have = attention_get(a, tensor, first + i);
        if (!(fabs(have - want[i]) <= tolerance) && !(isnan(have) && isnan(want[i])))
            return diag("%s[%" PRId64 "]: have %.9g, want %.9g", attention_tensor_name(tensor),
                        first + i, have, want[i]);
    }
    return true;
}

enum { MOST = 16 }; /* numbers of a word */

static int tensor_named(const char *name, size_t length) {
    for (int i = 0; i < TENSORS; i++)
        if (strncmp(attention_tensor_name(i), name, length) == 0 &&
            attention_tensor_name(i)[length] == '\0')
            return i;
    bail_out("there is no tensor %s", name);
}

/* Sets numbers: "query[3]=0.5,1/3" from index 3 on, "query[*]=0" all of them. */
static void set_numbers(struct attention *a, const char *said) {
    double numbers[MOST];
    for (struct setting setting; setting_next(&said, &setting);) {
        size_t name = strcspn(setting.name, "[");
        int tensor = tensor_named(setting.name, name);
        bool all = setting.name[name + 1] == '*';
        int64_t count = numbers_in(setting.value, 10, numbers, MOST),
                first = atoll(setting.name + name + 1);
        count = all ? tensor_count(&a->tensor[tensor].dl) : count;
        for (int64_t i = 0; i < count; i++)
            attention_set(a, tensor, first + i, numbers[all ? 0 : i]);
    }
}

static int64_t count_nan(const struct attention *a, int tensor) {
    int64_t count = 0;
    for (int64_t i = 0; i < tensor_count(&a->tensor[tensor].dl); i++)
        count += isnan(attention_get(a, tensor, i)) != 0;
    return count;
}

/* Whether a tensor has these numbers; "lse[nan]=3": 3 of them are NaN. */
static bool has_numbers(const struct attention *a, const char *said, double tolerance) {
    double numbers[MOST];
    bool good = true;
    for (struct setting setting; good && setting_next(&said, &setting);) {
        size_t name = strcspn(setting.name, "[");
        int tensor = tensor_named(setting.name, name);
        int64_t count = numbers_in(setting.value, 10, numbers, MOST);
        for (int64_t i = 0; i < count; i++)
            numbers[i] = tolerance == 0 ? (float)numbers[i] : numbers[i];
        if (strcmp(setting.name + name, "[nan]") == 0)
            good = count_nan(a, tensor) == atoll(setting.value);
        else
            good = are_near(a, tensor, atoll(setting.name + name + 1), count, numbers, tolerance);
    }
    return good;
}

ROWS(numbers, 6) {
    OWN(attention_close)
    struct attention a = attention_scene(1u << (strchr(ops, cells[1][0]) - ops), cells[2]);
    attention_open(&a, &dice);
    set_numbers(&a, cells[3]);
    ok(attention_runs(&a) && has_numbers(&a, cells[4], atof(cells[5])), "%s", cells[0]);
}

/* ---- Addresses ---- */

TEST(pages) {
    static const int64_t table[] = {8, 0, 4, 12}, loaded[] = {8, 9, 10, 11, 0, 4, 5, 6, 7, 12, 13},
                         stored[] = {11, 0, 13};
    OWN(attention_close)
    struct attention a = attention_scene(KD, ONE "head_dim=4 cache_mode=1 page_size=4 tokens=2,1 "
                                                 "start=3,5 spare_rows=16");
    attention_open(&a, &dice);
    bool good = a.capacity >= 16;
    for (int64_t i = 0; i < 4; i++)
        attention_set(&a, STARTS, i / 2 * a.pages + i % 2, (double)table[i]);
    for (int64_t i = 0; i < a.capacity * 8; i++)
        attention_set(&a, CACHE, i, (double)(i / 8)); /* every row has its number */
    for (int64_t i = 0; i < 12; i++)
        attention_set(&a, NEW_KEY, i, (double)stored[i / 4]);
    good = good && attention_runs(&a);
    for (int64_t j = 0; j < 11; j++)
        good = good && attention_get(&a, KEY, j * 4) == (double)loaded[j];
    for (int64_t row = 0; row < 14; row++)
        good = good && attention_get(&a, CACHE, row * 8) == (double)row;
    ok(good, "A3 pages: stores at rows 11, 0, 13, loads in order");
}

/* ---- ALiBi ---- */

/* Exponents of 2 with a slope for each head: for query 0 over two positions, lse = log (1 + exp
   (-slope)). */
ROWS(slopes, 1) {
    OWN(attention_close)
    struct attention a =
        attention_scene(MS, "head_dim=4 start=1 is_alibi=1 partial=1 query_size=0");
    double exponent[MOST];
    int64_t heads = a.op.num_heads = numbers_in(cells[0], 10, exponent, MOST);
    bool good = true;
    attention_open(&a, &dice);
    good = good && attention_runs(&a);
    for (int64_t h = 0; h < heads && good; h++) {
        double slope = pow(2, exponent[h]), want = log(1 + exp(-slope));
        good = oracle_alibi_slope(heads, h) == slope && are_near(&a, LSE, h, 1, &want, 3e-7);
    }
    ok(good, "S1 slopes of %" PRId64 " heads", heads);
}

/* ---- Attention ---- */

/* Opens the scene of M1: position 0 has K = 0 and V = e0. */
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
    attention_refresh_caches(a);
    for (int64_t t = 0; t < 2; t++)
        for (int64_t i = 0; i < dim; i++) {
            attention_set(a, NEW_KEY, t * dim + i, i == 0 ? ln2 * (double)(t + 1) : 0);
            attention_set(a, NEW_VALUE, t * dim + i, i == t + 1);
            attention_set(a, QUERY, t * 2 * dim + i, i == 0 ? sqrt((double)dim) : 0);
            attention_set(a, QUERY, (t * 2 + 1) * dim + i, 0);
        }
}

ROWS(attention, 4) {
    OWN(attention_close) struct attention a;
    double want[MOST];
    const char *said = cells[3];
    open_attention(&a, cells[1]);
    set_numbers(&a, cells[2]);
    bool good = attention_runs(&a);
    for (struct setting row; setting_next(&said, &row);)
        good =
            good && numbers_in(row.value, 10, want, MOST) == 4 &&
            are_near(&a, OUTPUT, atoll(row.name + strlen("row[")) * a.op.head_dim, 4, want, 1e-6);
    ok(good, "%s", cells[0]);
}

TABLE(attention_cases);

/* ---- Descriptions of plans ---- */

#define SIX_HEADS "num_heads=6 num_kv_heads=2 num_layer=2 layer_idx=1 head_dim=16 batch=2 start=7 "

static bool describes(const char *settings, int with, const char *words, bool wanted) {
    struct attention a = attention_scene(S, SIX_HEADS);
    OWN_PLAN kvmill_plan *plan = NULL;
    attention_say(&a, settings);
    if (attention_plan(&a, &two_threads[with], &plan, NULL) != KVMILL_OK)
        return false;
    return (plan_says(plan, words) == wanted && !plan_says(plan, "_fast__") &&
            !plan_says(plan, "_near__")) ||
           diag("%s", plan_text(plan));
}

/* The tests' packs have no kernel for heads of 44. */
TEST(descriptions) {
    static const char none[] = "no kernel of math fast";
    OWN(attention_close) struct attention a = attention_scene(S, SIX_HEADS "head_dim=44 tokens=3");
    ok(describes("head_dim=44", 1, "portable", true),
       "a pack of other geometry: the portable kernels, and the description says so");
    attention_open(&a, &dice);
    ok(attention_runs(&a), "and they are right");
    ok(describes("math=fast", 0, none, true) && describes("math=fast head_dim=44", 1, none, true),
       "math fast: without packs, or of another geometry, no kernel has it");
    ok(describes("math=f32", 0, none, false) && describes("", 0, none, false),
       "  which is not said where it is not asked for");
}
