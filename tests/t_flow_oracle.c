/* The reference interpreter of flows, op by op, compared with numbers computed by hand.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "oracle/oracle_flow.h"

/* ---- Ops ---- */

enum { MOST = 24 };

/* A matrix for each page; rows 0: absent. */
struct given {
    int64_t pages, rows, columns;
    double numbers[MOST];
};

/* Reads "2x1x2: 1 2 3 4", or "-". */
static struct given read_given(const char *cell) {
    struct given given = {0};
    int pages, rows, columns, length = 0;
    if (sscanf(cell, "%dx%dx%d:%n", &pages, &rows, &columns, &length) == 3) {
        given = (struct given){pages, rows, columns, {0}};
        if (numbers_in(cell + length, 10, given.numbers, MOST) != pages * rows * columns)
            bail_out("not so many numbers: %s", cell);
    }
    return given;
}

static bool is_near(double a, double b) {
    return a == b || fabs(a - b) <= 1e-15 * fabs(b);
}

static bool is_matrix(const struct oracle_matrix *matrix, const struct given *wanted) {
    if (matrix == NULL || matrix->pages != wanted->pages || matrix->rows != wanted->rows ||
        matrix->columns != wanted->columns)
        return false;
    for (int64_t i = 0; i < wanted->pages * wanted->rows * wanted->columns; i++)
        if (!is_near(matrix->data[i], wanted->numbers[i]))
            return diag("element %d is %.17g", (int)i, matrix->data[i]);
    return true;
}

static void add_given(struct oracle_values *values, const char *name, const struct given *given) {
    if (given->rows > 0)
        oracle_add_value(values, name, given->pages, given->rows, given->columns, given->numbers);
}

/* Inputs "x" and "y", output "o". */
EACH_ROW(oracle_ops, 5) {
    char name[32];
    const char *more = cells[1];
    struct given x = read_given(cells[2]), y = read_given(cells[3]), wanted = read_given(cells[4]);
    struct oracle_values values = {.rounds = number_in(more, "rounds") != 0};
    sscanf(cells[1], "%31s", name);
    const kvmill_flow_op op = {
        .op = name,
        .inputs = {"x", y.pages > 0 ? "y" : NULL},
        .output = "o",
        .alpha = number_in(more, "alpha"),
        .beta = number_in(more, "beta"),
        .scale = number_in(more, "scale"),
        .dims = (uint32_t)number_in(more, "dims"),
        .group = (int64_t)number_in(more, "group"),
        .start = (int64_t)number_in(more, "start"),
        .end = (int64_t)number_in(more, "end"),
        .rows = (int64_t)number_in(more, "rows"),
        .columns = (int64_t)number_in(more, "columns"),
    };
    bool taps = strcmp(name, "Conv1d") == 0;
    add_given(&values, "x", &x);
    add_given(&values, "y", &y);
    oracle_run_ops(&op, 1, taps || x.pages > y.pages ? x.pages : y.pages, &values, NULL);
    ok(is_matrix(oracle_find_value(&values, "o"), &wanted), "%s", cells[0]);
    oracle_free_values(&values);
}

/* ---- Fields ---- */

/* TYPE OP X WANTED: a result of an op, and the number that a field stores. */
EACH_ROW(oracle_rounding, 4) {
    DLDataType type = strcmp(cells[0], "bf16") == 0  ? bf16
                      : strcmp(cells[0], "f16") == 0 ? f16
                                                     : f32;
    double x = strtod(cells[2], NULL), wanted = strtod(cells[3], NULL);
    ok(oracle_round_field(type, cells[1], x) == wanted, "%s of %s in %s is %s", cells[1], cells[2],
       cells[0], cells[3]);
}

/* A page of three rows of two numbers; two rows exist. */
TEST(summary) {
    const kvmill_cache_attention attention = {.head_dim = 2, .page_size = 3};
    const kvmill_flow_field fields[] = {{"m", 1, 2, f32}, {"h", 1, 2, bf16}, {"z", 1, 1, f32}};
    const kvmill_flow_op cache[] = {
        {.op = "Mean", .inputs = {"k"}, .output = "m", .dims = 2},
        {.op = "Abs", .inputs = {"v"}, .output = "a", .beta = 1},
        {.op = "Max", .inputs = {"a"}, .output = "h", .dims = 2},
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
    oracle_summarise(&flow, 2, k, v, out, NULL);
    ok(m[0] == 2 && m[1] == 5 && h[0] == 258 && h[1] == 4 && z[0] == 3,
       "the summary of the two rows of a page");
    oracle_summarise(&flow, 3, k, v, out, NULL);
    ok(m[0] == 104 / 3.0f && m[1] == 110 / 3.0f && h[0] == 1000, "and of all three");
}

/* The state r becomes r / 2 + x, for three steps. */
TEST(state) {
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

EACH_ROW(oracle_lists, 4) {
    const kvmill_flow_select select = {
        .topk_val = (int64_t)number_in(cells[1], "k"),
        .reserved_bos = (int64_t)number_in(cells[1], "bos"),
        .reserved_eos = (int64_t)number_in(cells[1], "eos"),
        .ratio_numerator = (int64_t)number_in(cells[1], "numerator"),
        .ratio_denominator = (int64_t)number_in(cells[1], "denominator"),
        .cap = (int64_t)number_in(cells[1], "cap"),
        .order = number_in(cells[1], "by_score") != 0 ? "score" : NULL,
    };
    int64_t second = (int64_t)number_in(cells[1], "second");
    double scores[MOST], wanted[MOST];
    float score[MOST];
    int32_t list[MOST];
    int64_t pages = numbers_in(cells[2], 10, scores, MOST),
            count = numbers_in(cells[3], 10, wanted, MOST);
    for (int i = 0; i < pages; i++)
        score[i] = (float)scores[i];
    pages = second > 0 ? pages / 2 : pages;
    bool same = oracle_unite(&select, second, pages, score, score + pages, list) == count &&
                oracle_selected(&select, pages) == count;
    for (int i = 0; same && i < count; i++)
        same = list[i] == (int32_t)wanted[i];
    ok(same, "selected: %s", cells[0]);
}
