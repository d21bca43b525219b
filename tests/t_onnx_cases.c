/* ONNX Attention and TensorScatterAttention, case by case: which keys a query attends to, decisions
   that the standard leaves open, tensors in place.  Refusals are in tests/tables/refusals/.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "onnx_problem.h"
#include "packs.h"

DICE("ONNX Attention, case by case");

/* Plans with or without packs, and runs. */
static bool run(struct onnx_problem *problem, bool portable, int threads) {
    OWN_PLAN kvmill_plan *plan;
    kvmill_error error;
    kvmill_status status = onnx_plan(problem, &two_threads[!portable], &plan, &error);
    if (status == KVMILL_OK)
        status = onnx_run(problem, plan, threads, &dice, &error);
    if (status != KVMILL_OK)
        diag("%s: %s", problem->words, error.message);
    return status == KVMILL_OK;
}

/* ---- Visible keys ---- */

static int64_t start_of(const struct onnx_problem *problem) {
    return problem->has_starts ? problem->starts[0] : 0;
}

/* Returns the position of a row of a step's cache. */
static int64_t position_of(const struct onnx_problem *problem, int64_t slot) {
    int64_t start = start_of(problem);
    bool turns = problem->circular && slot < start;
    return slot + (turns ? (start - 1 - slot) / problem->past * problem->past : 0);
}

static void set_rows(struct onnx_problem *problem, int tensor, int64_t rows, int64_t first) {
    for (int64_t r = 0; r < rows; r++) {
        bool cache = problem->step && tensor >= KVMILL_ATTENTION_PAST_KEY;
        int64_t position = cache ? position_of(problem, r) : first + r;
        for (int64_t d = 0; d < 3; d++)
            onnx_put(problem, tensor, 0, 0, r, d, 0);
        onnx_put(problem, tensor + 1, 0, 0, r, 0, ldexp(1, (int)position));
    }
}

/* Returns the expected Y for visible keys.  Keys are zeros, so they have the same weight, and value
   j is 2^j: Y shows which keys a query attends to. */
static double expected(const char *seen) {
    double sum = 0, count = 0;
    for (; *seen >= '0' && *seen <= '9'; seen++, count++)
        sum += ldexp(1, *seen - '0');
    return count == 0 ? 0 : sum / count;
}

/* NAME SETTINGS SEEN: a word for each query, the keys that it attends to. */
static bool is_view(char *const *cell, bool portable) {
    OWN(onnx_close)
    struct onnx_problem problem = onnx_problem("heads=2 kv_heads=1 dim=3 value_dim=1 U=bool");
    const char *seen = cell[2];
    onnx_say(&problem, cell[1], NULL);
    onnx_open(&problem, &dice);
    set_rows(&problem, KVMILL_ATTENTION_K, problem.keys,
             problem.step ? start_of(&problem) : problem.past);
    if (problem.given[KVMILL_ATTENTION_PAST_KEY] != NULL)
        set_rows(&problem, KVMILL_ATTENTION_PAST_KEY, problem.past, 0);
    bool good = run(&problem, portable, 0);
    for (int64_t i = 0; good && i < problem.queries; i++) {
        for (int64_t h = 0; h < 2; h++) {
            double y = onnx_get(&problem, KVMILL_ATTENTION_Y, 0, h, i, 0), want = expected(seen);
            good = good && fabs(y - want) <= 1e-6 * fabs(want);
            if (!good)
                diag("query %" PRId64 ": %.9g, not %.9g", i, y, want);
        }
        seen += strcspn(seen, " ");
        seen += *seen == ' ';
    }
    return good;
}

ROWS(view, 3) {
    for (int portable = 0; portable < 2; portable++)
        ok(is_view(cells, portable), "%s (%s)", cells[0], portable ? "portable" : "packs");
}

/* ---- Decisions ---- */

#define SOME "batch=2 heads=6 kv_heads=2 queries=3 dim=24 value_dim=10 keys=9 opset=25 U=bool "

/* Returns a problem with this type of Q, K and V. */
static struct onnx_problem some_problem(const char *type, const char *settings) {
    char text[256];
    snprintf(text, sizeof text, SOME "T1=%s T2=%s %s", type, type, settings);
    return onnx_problem(text);
}

/* Opens a problem with a mask of [queries, keys] that hides all keys from query 1. */
static void open_masked(struct onnx_problem *problem, const char *U, double hidden) {
    problem->U = setting_type(U);
    problem->mask_rank = 2;
    problem->mask_dims[0] = problem->queries;
    problem->mask_dims[1] = problem->past + problem->keys;
    onnx_open(problem, &dice);
    for (int64_t n = 0; n < problem->mask_dims[0] * problem->mask_dims[1]; n++)
        onnx_put_mask(problem, n, n / problem->mask_dims[1] == 1 ? hidden : strcmp(U, "bool") == 0);
}

/* Whether each number of a query's Y is as wanted. */
static bool is_row(const struct onnx_problem *problem, int64_t query, const char *wanted) {
    bool good = true;
    for (int64_t n = 0; n < problem->batch * problem->heads * problem->value_dim; n++) {
        int64_t head = n / problem->value_dim;
        double y = onnx_get(problem, KVMILL_ATTENTION_Y, head / problem->heads,
                            head % problem->heads, query, n % problem->value_dim);
        good = good && (wanted == NULL               ? isfinite(y)
                        : strcmp(wanted, "nan") == 0 ? isnan(y)
                                                     : y == strtod(wanted, NULL));
    }
    return good;
}

static bool is_masked(char *const *cell, bool portable) {
    OWN(onnx_close) struct onnx_problem problem = some_problem(cell[1], cell[2]);
    bool has_key = strcmp(cell[5], "any") != 0;
    open_masked(&problem, cell[3], strtod(cell[4], NULL));
    for (int64_t bh = 0; bh < 4 && has_key; bh++)
        onnx_put(&problem, KVMILL_ATTENTION_K, bh / 2, bh % 2, 4, 0, strtod(cell[5], NULL));
    onnx_expect(&problem, &dice);
    return run(&problem, portable, 0) && onnx_is_right(&problem) && is_row(&problem, 1, cell[6]) &&
           (has_key || is_row(&problem, 0, NULL));
}

ROWS(masked, 7) {
    ok(is_masked(cells, true) && is_masked(cells, false), "%s: %s, %s %s", cells[0], cells[1],
       cells[3], cells[4]);
}

TABLE(onnx_views);

/* 1 + 2^-11 + 2^-40 is nearer to 1 + 2^-10 than to 1; a float32 in between would be a tie. */
TEST(rounding) {
    OWN(onnx_close)
    struct onnx_problem problem = some_problem("float16", "qk=1 qk_matmul_output_mode=2");
    open_masked(&problem, "float64", 1 + 0x1p-11 + 0x1p-40);
    for (int64_t d = 0; d < problem.dim; d++)
        onnx_put(&problem, KVMILL_ATTENTION_Q, 0, 0, 1, d, 0);
    bool good = run(&problem, false, 0);
    ok(good && onnx_get(&problem, KVMILL_ATTENTION_QK_MATMUL_OUTPUT, 0, 0, 1, 0) == 1 + 0x1p-10,
       "a mask is rounded to T1 once");
}

/* ---- Sizes ---- */

static bool run_sized(const char *type, const char *settings) {
    OWN(onnx_close)
    struct onnx_problem problem = some_problem(type, "batch=1 heads=4 kv_heads=2 hidden_in=5");
    onnx_say(&problem, settings, NULL);
    const int64_t dims[] = {1, 4, problem.queries, problem.past + problem.keys};
    for (int d = 0; d < problem.mask_rank; d++)
        problem.mask_dims[d] = dims[4 - problem.mask_rank + d];
    onnx_open(&problem, &dice);
    onnx_expect(&problem, &dice);
    bool good = run(&problem, false, 2) && onnx_is_right(&problem);
    tensors_restore(problem.tensor, problem.before, ONNX_TENSORS);
    good = good && run(&problem, true, 0) && onnx_is_right(&problem);
    return good || diag("%s", problem.words);
}

ROWS(sized, 3) {
    if (!is_slow_run() || cells[3] == NULL)
        ok(run_sized(cells[1], cells[2]), "%s", cells[0]);
}

/* ---- Rings ---- */

static void set_number(struct onnx_problem *problem, int i, int64_t b, int64_t value) {
    struct fenced_tensor *tensor = &problem->tensor[i];
    unsigned char *at = tensor_element(tensor, b);
    memcpy(at, &value, 8);
    memcpy(problem->before[i].fence.data + (at - tensor->fence.data), &value, 8);
}

/* A start is a position modulo the ring, however large.  The oracle gets small starts. */
TEST(far_starts) {
    static const char *const rows[] = {"opset=24 is_causal=1", "opset=24 is_causal=1",
                                       "opset=25 is_causal=1 left=2", "opset=25"};
    bool good = true;
    for (int i = 0; i < 4; i++) {
        OWN(onnx_close)
        struct onnx_problem problem =
            some_problem("float32", "step=1 circular=1 queries=3 keys=3 past=5 starts=0");
        onnx_say(&problem, rows[i], NULL);
        problem.starts[0] = 5 + INT64_MAX % 5;
        problem.starts[1] = 5 + ((int64_t)1 << 62) % 5;
        onnx_open(&problem, &dice);
        onnx_expect(&problem, &dice);
        set_number(&problem, KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES, 0, INT64_MAX);
        set_number(&problem, KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES, 1, (int64_t)1 << 62);
        good = good && run(&problem, i % 2, 0) && onnx_is_right(&problem);
    }
    ok(good, "far starts of rings");
}
