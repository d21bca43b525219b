/* The reference interpreter of flows, op by op, against numbers that were worked out by hand.

   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "oracle/flow.h"
#include "tap.h"

/* ---- Ops ---- */

enum { MOST = 24 };

/* A matrix for each page, as text would write it. */
struct given {
    int64_t pages, rows, columns;
    double numbers[MOST];
};

struct hand {
    const char *name;
    kvmill_flow_op op; /* inputs "x" and "y", output "o" */
    int64_t pages;
    struct given x, y, wanted; /* pages 0: there is none */
};

#define ONE(...)                                                                                   \
    { 1, __VA_ARGS__ }
#define TWO(...)                                                                                   \
    { 2, __VA_ARGS__ }
#define THREE(...)                                                                                 \
    { 3, __VA_ARGS__ }
#define X      .inputs = {"x"}, .output = "o"
#define XY     .inputs = {"x", "y"}, .output = "o"
#define DIM(d) .dims = 1u << (d)

static const struct hand hands[] = {
    /* [j, i] is the product of rows i of x and j of y. */
    {"GeMM",
     {.op = "GeMM", XY},
     1,
     ONE(2, 3, {1, 2, 3, -1, 0, 2}),
     ONE(1, 3, {4, 5, 6}),
     ONE(1, 2, {32, 8})},
    {"GeMM of all pages",
     {.op = "GeMM", XY},
     2,
     ONE(1, 2, {1, 10}),
     TWO(2, 2, {1, 2, 3, 4, 5, 6, 7, 8}),
     TWO(2, 1, {21, 43, 65, 87})},
    {"GeMM with pages first",
     {.op = "GeMM", XY},
     2,
     TWO(1, 2, {1, 2, 3, 4}),
     ONE(1, 2, {10, 1}),
     TWO(1, 1, {12, 34})},

    {"Sum of columns",
     {.op = "Sum", X, DIM(1)},
     1,
     ONE(2, 3, {1, 2, 3, 10, 20, 30}),
     {0},
     ONE(1, 3, {11, 22, 33})},
    {"Sum of rows", {.op = "Sum", X, DIM(2)}, 2, TWO(1, 2, {1, 2, 3, 4}), {0}, TWO(1, 1, {3, 7})},
    {"Sum over pages",
     {.op = "Sum", X, DIM(0)},
     3,
     THREE(1, 2, {1, 2, 3, 4, 5, 6}),
     {0},
     ONE(1, 2, {9, 12})},
    {"Mean", {.op = "Mean", X, DIM(1)}, 1, ONE(4, 1, {1, 2, 3, 6}), {0}, ONE(1, 1, {3})},
    {"Mean over pages", {.op = "Mean", X, DIM(0)}, 2, TWO(1, 1, {1, 4}), {0}, ONE(1, 1, {2.5})},
    {"Max",
     {.op = "Max", X, DIM(2)},
     1,
     ONE(2, 3, {1, 7, -3, -5, -9, -4}),
     {0},
     ONE(2, 1, {7, -4})},
    {"Max over pages",
     {.op = "Max", X, DIM(0)},
     3,
     THREE(1, 1, {-3, -1, -2}),
     {0},
     ONE(1, 1, {-1})},
    {"Min", {.op = "Min", X, DIM(1)}, 1, ONE(2, 2, {1, -7, -3, 5}), {0}, ONE(1, 2, {-3, -7})},
    {"Min over pages", {.op = "Min", X, DIM(0)}, 3, THREE(1, 1, {3, 1, 2}), {0}, ONE(1, 1, {1})},
    {"L2Norm", {.op = "L2Norm", X, DIM(2)}, 1, ONE(2, 2, {3, -4, 5, 12}), {0}, ONE(2, 1, {5, 13})},
    {"L2Norm over pages", {.op = "L2Norm", X, DIM(0)}, 2, TWO(1, 1, {8, 15}), {0}, ONE(1, 1, {17})},

    {"MeanInterleave",
     {.op = "MeanInterleave", X, DIM(1), .group = 2},
     1,
     ONE(4, 1, {1, 3, 10, 20}),
     {0},
     ONE(2, 1, {2, 15})},
    {"MaxInterleave",
     {.op = "MaxInterleave", X, DIM(2), .group = 3},
     1,
     ONE(1, 6, {1, 5, 3, -1, -2, -3}),
     {0},
     ONE(1, 2, {5, -1})},
    {"MinInterleave",
     {.op = "MinInterleave", X, DIM(1), .group = 2},
     1,
     ONE(4, 2, {1, 9, 3, 8, 7, 2, 5, 4}),
     {0},
     ONE(2, 2, {1, 8, 5, 2})},
    {"L2NormInterleave",
     {.op = "L2NormInterleave", X, DIM(2), .group = 2},
     1,
     ONE(1, 4, {3, 4, 6, 8}),
     {0},
     ONE(1, 2, {5, 10})},

    {"Multiply",
     {.op = "Multiply", XY},
     2,
     ONE(2, 1, {2, 3}),
     TWO(1, 2, {1, 2, 5, 7}),
     TWO(2, 2, {2, 4, 3, 6, 10, 14, 15, 21})},
    {"Maximum",
     {.op = "Maximum", XY},
     1,
     ONE(1, 3, {1, 2, -3}),
     ONE(1, 3, {0, 2, -2}),
     ONE(1, 3, {1, 2, -2})},
    {"Minimum",
     {.op = "Minimum", XY},
     1,
     ONE(1, 3, {1, 2, -3}),
     ONE(1, 1, {0}),
     ONE(1, 3, {0, 0, -3})},
    {"Add",
     {.op = "Add", XY, .alpha = 2, .beta = -3},
     1,
     ONE(1, 2, {1, 10}),
     ONE(1, 2, {5, 7}),
     ONE(1, 2, {-13, -1})},
    {"WhereEqual",
     {.op = "WhereEqual", XY},
     1,
     ONE(1, 3, {1, 2, 3}),
     ONE(1, 1, {2}),
     ONE(1, 3, {-1e30, 0, -1e30})},
    {"WhereNotEqual",
     {.op = "WhereNotEqual", XY},
     1,
     ONE(1, 3, {1, 2, 3}),
     ONE(1, 1, {2}),
     ONE(1, 3, {0, -1e30, 0})},
    {"WhereGreater",
     {.op = "WhereGreater", XY},
     1,
     ONE(1, 3, {1, 2, 3}),
     ONE(1, 1, {2}),
     ONE(1, 3, {-1e30, -1e30, 0})},
    {"WhereGreaterEqual",
     {.op = "WhereGreaterEqual", XY},
     1,
     ONE(1, 3, {1, 2, 3}),
     ONE(1, 1, {2}),
     ONE(1, 3, {-1e30, 0, 0})},
    {"WhereLess",
     {.op = "WhereLess", XY},
     1,
     ONE(1, 3, {1, 2, 3}),
     ONE(1, 1, {2}),
     ONE(1, 3, {0, -1e30, -1e30})},
    {"WhereLessEqual",
     {.op = "WhereLessEqual", XY},
     1,
     ONE(1, 3, {1, 2, 3}),
     ONE(1, 1, {2}),
     ONE(1, 3, {0, 0, -1e30})},

    /* Row i * 3 + j is row i of x times row j of y. */
    {"Kron of rows",
     {.op = "Kron", XY, DIM(1)},
     1,
     ONE(2, 2, {1, 2, 3, 4}),
     ONE(3, 2, {1, 1, 10, 10, 2, 0}),
     ONE(6, 2, {1, 2, 10, 20, 2, 0, 3, 4, 30, 40, 6, 0})},
    {"Kron of columns",
     {.op = "Kron", XY, DIM(2)},
     2,
     ONE(1, 2, {2, 3}),
     TWO(1, 2, {1, 5, 7, 0}),
     TWO(1, 4, {2, 10, 3, 15, 14, 0, 21, 0})},
    {"Kron of both",
     {.op = "Kron", XY, .dims = 6},
     1,
     ONE(1, 2, {1, 2}),
     ONE(2, 1, {3, 4}),
     ONE(2, 2, {3, 6, 4, 8})},

    {"Relu",
     {.op = "Relu", X, .alpha = 1, .beta = -7},
     1,
     ONE(1, 3, {0.5, 1, 2}),
     {0},
     ONE(1, 3, {-7, 1, 2})},
    {"Sigmoid of no slope",
     {.op = "Sigmoid", X},
     1,
     ONE(1, 2, {-5, 100}),
     {0},
     ONE(1, 2, {0.5, 0.5})},
    {"Sigmoid, logistic",
     {.op = "Sigmoid", X, .beta = -1},
     1,
     ONE(1, 2, {0, M_LN2}),
     {0},
     ONE(1, 2, {0.5, 2 / 3.0})},
    {"Silu",
     {.op = "Silu", X, .beta = -1},
     1,
     ONE(1, 2, {0, M_LN2}),
     {0},
     ONE(1, 2, {0, 2 * M_LN2 / 3})},
    {"Add_Mul",
     {.op = "Add_Mul", X, .alpha = 1, .beta = 2},
     1,
     ONE(1, 2, {3, -4}),
     {0},
     ONE(1, 2, {7, -7})},
    {"Abs", {.op = "Abs", X, .alpha = 1, .beta = 2}, 1, ONE(1, 2, {3, -4}), {0}, ONE(1, 2, {7, 7})},
    {"Log",
     {.op = "Log", X, .alpha = 1, .beta = 1},
     1,
     ONE(1, 2, {0, 1}),
     {0},
     ONE(1, 2, {0, M_LN2})},
    {"Exp",
     {.op = "Exp", X, .alpha = 0, .beta = M_LN2},
     1,
     ONE(1, 3, {0, 1, -2}),
     {0},
     ONE(1, 3, {1, 2, 0.25})},

    {"Softmax",
     {.op = "Softmax", X, DIM(0), .scale = M_LN2},
     3,
     THREE(1, 1, {0, 1, 2}),
     {0},
     THREE(1, 1, {1 / 7.0, 2 / 7.0, 4 / 7.0})},
    {"Softmax of each element by itself",
     {.op = "Softmax", X, DIM(0), .scale = 1},
     2,
     TWO(1, 2, {5, 0, 5, 1000}),
     {0},
     TWO(1, 2, {0.5, 0, 0.5, 1})},
    {"Normalize",
     {.op = "Normalize", X, DIM(0)},
     2,
     TWO(1, 2, {3, 1, 4, 0}),
     {0},
     TWO(1, 2, {0.6, 1, 0.8, 0})},
    {"Conv1d of three taps",
     {.op = "Conv1d", XY, DIM(0)},
     4,
     {4, 1, 1, {1, 2, 3, 4}},
     THREE(1, 1, {100, 10, 1}),
     {4, 1, 1, {12, 123, 234, 340}}},
    {"Conv1d of two taps",
     {.op = "Conv1d", XY, DIM(0)},
     3,
     THREE(1, 1, {1, 2, 3}),
     TWO(1, 1, {10, 1}),
     THREE(1, 1, {1, 12, 23})},

    {"Transpose",
     {.op = "Transpose", X},
     1,
     ONE(2, 3, {1, 2, 3, 4, 5, 6}),
     {0},
     ONE(3, 2, {1, 4, 2, 5, 3, 6})},
    {"Reshape",
     {.op = "Reshape", X, .rows = 3, .columns = 2},
     1,
     ONE(2, 3, {1, 2, 3, 4, 5, 6}),
     {0},
     ONE(3, 2, {1, 2, 3, 4, 5, 6})},
    {"MaskSlice of columns",
     {.op = "MaskSlice", X, DIM(2), .start = 1, .end = 3, .alpha = 5, .beta = -1},
     1,
     ONE(1, 4, {9, 9, 9, 9}),
     {0},
     ONE(1, 4, {-1, 5, 5, -1})},
    {"MaskSlice of rows",
     {.op = "MaskSlice", X, DIM(1), .start = 0, .end = 1, .alpha = 5, .beta = -1},
     1,
     ONE(2, 2, {9, 9, 9, 9}),
     {0},
     ONE(2, 2, {5, 5, -1, -1})},
    {"Load", {.op = "Load", X}, 2, TWO(1, 1, {3, 4}), {0}, TWO(1, 1, {3, 4})},
};

static bool is_near(double a, double b) {
    return a == b || fabs(a - b) <= 1e-15 * fabs(b);
}

static bool is_matrix(const struct oracle_matrix *matrix, const struct given *wanted) {
    if (matrix == NULL || matrix->pages != wanted->pages || matrix->rows != wanted->rows ||
        matrix->columns != wanted->columns)
        return false;
    for (int64_t i = 0; i < wanted->pages * wanted->rows * wanted->columns; i++)
        if (!is_near(matrix->data[i], wanted->numbers[i])) {
            diag("element %d is %.17g", (int)i, matrix->data[i]);
            return false;
        }
    return true;
}

static void add_given(struct oracle_values *values, const char *name, const struct given *given) {
    if (given->pages > 0)
        oracle_add_value(values, name, given->pages, given->rows, given->columns, given->numbers);
}

static void test_ops(void) {
    for (size_t i = 0; i < sizeof hands / sizeof *hands; i++) {
        struct oracle_values values = {.count = 0};
        add_given(&values, "x", &hands[i].x);
        add_given(&values, "y", &hands[i].y);
        oracle_run_ops(&hands[i].op, 1, hands[i].pages, &values, NULL);
        ok(is_matrix(oracle_find_value(&values, "o"), &hands[i].wanted), "%s", hands[i].name);
        oracle_free_values(&values);
    }
}

/* No candidate: reductions over pages are 0. */
static void test_no_pages(void) {
    static const char *const names[] = {"Sum", "Mean", "Max", "Min", "L2Norm"};
    static const struct given zeros = ONE(1, 2, {0, 0});
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct oracle_values values = {.count = 0};
        const kvmill_flow_op op = {.op = names[i], X, DIM(0)};
        oracle_add_value(&values, "x", 0, 1, 2, NULL);
        oracle_run_ops(&op, 1, 0, &values, NULL);
        ok(is_matrix(oracle_find_value(&values, "o"), &zeros), "%s of no pages is 0", names[i]);
        oracle_free_values(&values);
    }
}

/* ---- Fields ---- */

static const DLDataType f32 = {kDLFloat, 32, 1}, f16 = {kDLFloat, 16, 1}, bf16 = {kDLBfloat, 16, 1};

static void test_rounding(void) {
    ok(oracle_round_field(bf16, "Mean", 257) == 256 && oracle_round_field(bf16, "Mean", 259) == 260,
       "bfloat16 has eight bits, and ties go to even");
    ok(oracle_round_field(bf16, "Max", 257) == 258 && oracle_round_field(bf16, "Max", -257) == -256,
       "a maximum goes up");
    ok(oracle_round_field(bf16, "MinInterleave", 257) == 256 &&
           oracle_round_field(bf16, "Min", -257) == -258,
       "a minimum goes down");
    ok(oracle_round_field(f16, "Max", 65519) == INFINITY &&
           oracle_round_field(f16, "Min", 70000) == 65504 &&
           oracle_round_field(f16, "Max", -70000) == -65504,
       "to infinity on the far side alone");
    ok(oracle_round_field(f16, "Max", 1e-9) == 0x1p-24 && oracle_round_field(f16, "Min", 1e-9) == 0,
       "and from 0 to the least number");
    ok(oracle_round_field(f32, "Max", 1.5) == 1.5 && oracle_round_field(f16, "Max", -2048) == -2048,
       "what the type has stays");
}

/* A page of three rows of two, of which two are there. */
static void test_summary(void) {
    const kvmill_cache_attention attention = {.head_dim = 2, .page_size = 3};
    const kvmill_flow_field fields[] = {{"m", 1, 2, f32}, {"h", 1, 2, bf16}, {"z", 1, 1, f32}};
    const kvmill_flow_op cache[] = {
        {.op = "Mean", .inputs = {"k"}, .output = "m", DIM(1)},
        {.op = "Abs", .inputs = {"v"}, .output = "a", .beta = 1},
        {.op = "Max", .inputs = {"a"}, .output = "h", DIM(1)},
        {.op = "Fill", .output = "z", .alpha = 3},
    };
    const kvmill_flow flow = {.attention = &attention,
                              .fields = fields,
                              .field_count = 3,
                              .cache = cache,
                              .cache_count = 4};
    const double k[] = {1, 2, 3, 8, 100, 100}, v[] = {-257, 1, 3, -4, 1000, 1000};
    double m[2], h[2], z[1];
    double *const out[] = {m, h, z};
    oracle_summarise(&flow, 2, k, v, out);
    ok(m[0] == 2 && m[1] == 5 && h[0] == 258 && h[1] == 4 && z[0] == 3,
       "the summary of the two rows of a page");
    oracle_summarise(&flow, 3, k, v, out);
    ok(m[0] == 104 / 3.0f && m[1] == 110 / 3.0f && h[0] == 1000, "and of all three");
}

/* r becomes r / 2 + x, for three steps. */
static void test_state(void) {
    const kvmill_cache_attention attention = {.head_dim = 1, .page_size = 1};
    const kvmill_flow_field fields[] = {{"r", 1, 1, f32}};
    const kvmill_flow_op index[] = {
        {.op = "GeMM", .inputs = {"q", "k"}, .output = "x"},
        {.op = "Load", .inputs = {"r"}, .output = "old"},
        {.op = "Add", .inputs = {"x", "old"}, .output = "s", .alpha = 1, .beta = 0.5},
        {.op = "Save", .inputs = {"s"}, .output = "r"},
        {.op = "Load", .inputs = {"r"}, .output = "again"},
        {.op = "Add", .inputs = {"s", "again"}, .output = "t", .alpha = 1, .beta = 0},
        {.op = "topK", .inputs = {"t"}},
    };
    const kvmill_flow flow = {.attention = &attention,
                              .fields = fields,
                              .field_count = 1,
                              .index = index,
                              .index_count = 7};
    const double k[] = {1, 3}, wanted[3][2] = {{2, 6}, {5, 15}, {0.5, 1.5}};
    const double queries[] = {2, 4, -2};
    double r[] = {0, 0}, score[2];
    double *const state[] = {r};
    for (int step = 0; step < 3; step++) {
        oracle_score(&flow, 1, 2, &queries[step], k, k, state, score, state);
        ok(score[0] == wanted[step][0] && score[1] == wanted[step][1] && r[0] == score[0] &&
               r[1] == score[1],
           "state after step %d", step + 1);
    }
}

/* ---- Selection ---- */

struct chosen {
    const char *name;
    kvmill_flow_select select;
    int64_t pages;
    float score[12];
    int64_t count;
    int32_t list[12];
};

#define BUDGET(k, bos, eos) .topk_val = (k), .reserved_bos = (bos), .reserved_eos = (eos)
#define RATIO(n, d)         .ratio_numerator = (n), .ratio_denominator = (d)

static const struct chosen choices[] = {
    {"no pages", {BUDGET(2, 1, 1)}, 0, {0}, 0, {0}},
    {"all pages", {BUDGET(2, 1, 1)}, 4, {0}, 4, {0, 1, 2, 3}},
    {"the best two", {BUDGET(2, 1, 1)}, 6, {99, 1, 3, 2, 0, 99}, 4, {0, 2, 3, 5}},
    {"by score", {BUDGET(2, 1, 1), .order = "score"}, 6, {99, 1, 2, 3, 0, 99}, 4, {0, 3, 2, 5}},
    {"of equal ones the first", {BUDGET(2, 0, 1)}, 6, {1, 7, 7, 7, 1, 9}, 3, {1, 2, 5}},
    {"both zeros are equal", {BUDGET(1, 0, 1)}, 4, {-0.0f, 0, 0, 0}, 2, {0, 3}},
    {"infinities", {BUDGET(2, 0, 1)}, 5, {-INFINITY, 0, INFINITY, -1e30f, 0}, 3, {1, 2, 4}},
    {"NaN is the least", {BUDGET(2, 0, 1)}, 4, {NAN, -INFINITY, -1e30f, 0}, 3, {0, 2, 3}},
    {"no k", {BUDGET(0, 1, 2)}, 6, {0}, 3, {0, 4, 5}},
    {"a share of ten",
     {BUDGET(0, 1, 1), RATIO(1, 2)},
     10,
     {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
     5,
     {0, 6, 7, 8, 9}},
    {"a share rounded down",
     {BUDGET(0, 1, 1), RATIO(1, 3)},
     11,
     {0, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
     3,
     {0, 1, 10}},
    {"a cap", {BUDGET(8, 1, 1), .cap = 3}, 11, {0, 1, 2, 9, 3, 4}, 3, {0, 3, 10}},
    {"a cap below what is kept", {BUDGET(8, 2, 2), .cap = 3}, 11, {0}, 4, {0, 1, 9, 10}},
};

static void test_choices(void) {
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const struct chosen *row = &choices[i];
        int32_t list[12];
        int64_t count = oracle_select(&row->select, row->pages, row->score, list);
        bool same = count == row->count && count == oracle_selected(&row->select, row->pages) &&
                    memcmp(list, row->list, (size_t)count * sizeof *list) == 0;
        ok(same, "selected: %s", row->name);
    }
}

int main(void) {
    test_ops();
    test_no_pages();
    test_rounding();
    test_summary();
    test_state();
    test_choices();
    return done_testing();
}
