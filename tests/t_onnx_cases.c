/* ONNX Attention and TensorScatterAttention, case by case: who sees what, what was decided where
   the standard leaves it open, tensors in place, and everything that is refused, with its message.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_problem.h"
#include "tap.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};
static const DLDataType f32 = {kDLFloat, 32, 1}, f16 = {kDLFloat, 16, 1}, f64 = {kDLFloat, 64, 1};
static const DLDataType i64 = {kDLInt, 64, 1}, boolean = {KVMILL_DL_BOOL, 8, 1};

static struct dice dice;

/* ---- Who sees what ---- */

/* Keys of zeros weigh the same, and value j is 2^j: so Y says which keys a query sees. */
struct view {
    const char *name;
    bool step, circular;
    int64_t queries, past, keys;
    int64_t nonpad, start; /* -1: not given */
    int64_t opset, is_causal, left, right;
    int64_t mask; /* columns of a mask that shows all; 0: none */
    unsigned seen[4];
};

static const struct view views[] = {
    {"all", 0, 0, 2, 0, 4, -1, -1, 23, 0, -1, -1, 0, {15, 15}},
    {"causal, more keys than queries: from the top left",
     0,
     0,
     2,
     0,
     4,
     -1,
     -1,
     23,
     1,
     -1,
     -1,
     0,
     {1, 3}},
    {"causal with a past", 0, 0, 2, 2, 2, -1, -1, 23, 1, -1, -1, 0, {7, 15}},
    {"valid keys", 0, 0, 2, 0, 4, 3, -1, 24, 0, -1, -1, 0, {7, 7}},
    {"causal, valid keys", 0, 0, 2, 0, 4, 3, -1, 24, 1, -1, -1, 0, {3, 7}},
    {"causal, fewer valid keys than queries", 0, 0, 3, 0, 4, 1, -1, 24, 1, -1, -1, 0, {0, 0, 1}},
    {"no valid key", 0, 0, 2, 0, 4, 0, -1, 24, 0, -1, -1, 0, {0, 0}},
    {"a window of one to the left keeps two", 0, 0, 2, 2, 2, -1, -1, 25, 1, 1, -1, 0, {6, 12}},
    {"a window of none", 0, 0, 2, 2, 2, -1, -1, 25, 0, 0, 0, 0, {4, 8}},
    {"a window to the right", 0, 0, 3, 0, 4, -1, -1, 25, 0, -1, 1, 0, {3, 7, 15}},
    {"a window to both sides", 0, 0, 3, 0, 4, -1, -1, 25, 0, 1, 1, 0, {3, 7, 14}},
    {"a window of valid keys", 0, 0, 2, 0, 4, 3, -1, 25, 0, 0, 1, 0, {6, 4}},
    {"a causal window to the right is causal", 0, 0, 2, 0, 4, -1, -1, 25, 1, -1, 3, 0, {1, 3}},
    {"a mask of too few columns", 0, 0, 2, 0, 4, -1, -1, 24, 0, -1, -1, 3, {7, 7}},
    {"a mask of one column: the first key alone", 0, 0, 2, 0, 4, -1, -1, 24, 0, -1, -1, 1, {1, 1}},
    {"a mask across past and new keys", 0, 0, 2, 2, 2, -1, -1, 24, 1, -1, -1, 3, {7, 7}},
    {"no keys", 0, 0, 2, 0, 0, -1, -1, 24, 1, -1, -1, 0, {0, 0}},
    {"a step's first tokens", 1, 0, 2, 4, 2, -1, -1, 24, 1, -1, -1, 0, {1, 3}},
    {"a step", 1, 0, 2, 4, 2, -1, 1, 24, 1, -1, -1, 0, {3, 7}},
    {"a step of one real token", 1, 0, 2, 4, 2, 2, 1, 24, 1, -1, -1, 0, {3, 0}},
    {"a step of padding", 1, 0, 2, 4, 2, 1, 1, 24, 1, -1, -1, 0, {0, 0}},
    {"a step that is not causal", 1, 0, 2, 4, 2, -1, 1, 24, 0, -1, -1, 0, {7, 7}},
    {"a step with a mask", 1, 0, 2, 4, 2, -1, 1, 24, 1, -1, -1, 2, {3, 3}},
    {"a ring that is not full", 1, 1, 2, 4, 2, -1, 1, 24, 1, -1, -1, 0, {3, 7}},
    {"a ring that is full: what a step evicts is seen before",
     1,
     1,
     2,
     4,
     2,
     -1,
     6,
     24,
     1,
     -1,
     -1,
     0,
     {0x78, 0xf0}},
    {"a ring, not causal: what is there afterwards",
     1,
     1,
     2,
     4,
     2,
     -1,
     6,
     24,
     0,
     -1,
     -1,
     0,
     {0xf0, 0xf0}},
    {"a ring with a window", 1, 1, 2, 4, 2, -1, 6, 25, 1, 1, -1, 0, {0x60, 0xc0}},
    {"a ring, a real token of two", 1, 1, 2, 4, 2, 7, 6, 24, 1, -1, -1, 0, {0x78, 0}},
    {"a ring that a step fills", 1, 1, 4, 4, 4, -1, 5, 24, 1, -1, -1, 0, {0x3c, 0x78, 0xf0, 0x1e0}},
};

static struct onnx_problem problem_of(const struct view *view) {
    struct onnx_problem problem = {
        .step = view->step,
        .circular = view->circular,
        .T1 = f32,
        .T2 = f32,
        .U = boolean,
        .batch = 1,
        .heads = 2,
        .kv_heads = 1,
        .queries = view->queries,
        .dim = 3,
        .value_dim = 1,
        .past = view->past,
        .keys = view->keys,
        .has_nonpad = view->nonpad >= 0,
        .nonpad = {view->nonpad},
        .has_starts = view->start >= 0,
        .starts = {view->start},
        .mask_rank = view->mask > 0,
        .mask_dims = {view->mask},
    };
    kvmill_attention_init(&problem.op, sizeof problem.op);
    problem.op.opset = view->opset;
    problem.op.is_causal = view->is_causal;
    problem.op.left_window_size = view->left;
    problem.op.right_window_size = view->right;
    return problem;
}

/* The position of a row of a step's cache. */
static int64_t position_of(const struct view *view, int64_t slot) {
    int64_t start = view->start < 0 ? 0 : view->start;
    int64_t turns = view->circular && slot < start ? (start - 1 - slot) / view->past : 0;
    return slot + turns * view->past;
}

static void set_rows(struct onnx_problem *problem, const struct view *view, int tensor,
                     int64_t rows, int64_t first) {
    for (int64_t r = 0; r < rows; r++) {
        bool cache = view->step && tensor >= KVMILL_ATTENTION_PAST_KEY;
        int64_t position = cache ? position_of(view, r) : first + r;
        for (int64_t d = 0; d < 3; d++)
            onnx_put(problem, tensor, 0, 0, r, d, 0);
        onnx_put(problem, tensor + 1, 0, 0, r, 0, ldexp(1, (int)position));
    }
}

static double expected(unsigned seen) {
    double sum = 0, count = 0;
    for (int j = 0; j < 16; j++) {
        sum += seen >> j & 1 ? ldexp(1, j) : 0;
        count += seen >> j & 1;
    }
    return count == 0 ? 0 : sum / count;
}

static void test_view(const struct view *view, bool portable) {
    struct onnx_problem problem = problem_of(view);
    int64_t first = view->step ? view->start < 0 ? 0 : view->start : view->past;
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = 2, .portable = portable};
    kvmill_plan *plan;
    kvmill_error error = {""};
    onnx_open(&problem, &dice);
    set_rows(&problem, view, KVMILL_ATTENTION_K, view->keys, first);
    if (problem.given[KVMILL_ATTENTION_PAST_KEY] != NULL)
        set_rows(&problem, view, KVMILL_ATTENTION_PAST_KEY, view->past, 0);
    bool good = onnx_plan(&problem, &options, &plan, &error) == KVMILL_OK &&
                onnx_run(&problem, plan, 0, &dice, &error) == KVMILL_OK;
    for (int64_t i = 0; good && i < 2 * view->queries; i++) {
        double y = onnx_get(&problem, KVMILL_ATTENTION_Y, 0, i % 2, i / 2, 0);
        double want = expected(view->seen[i / 2]);
        good = fabs(y - want) <= 1e-6 * fabs(want);
        if (!good)
            diag("query %" PRId64 ": %.9g, not %.9g", i / 2, y, want);
    }
    ok(good, "%s (%s)", view->name, portable ? "portable" : "packs");
    if (error.message[0])
        diag("%s", error.message);
    kvmill_plan_destroy(plan);
    onnx_close(&problem);
}

/* ---- Decisions ---- */

static struct onnx_problem some_problem(DLDataType T1) {
    struct onnx_problem problem = {
        .T1 = T1,
        .T2 = T1,
        .U = boolean,
        .batch = 2,
        .heads = 6,
        .kv_heads = 2,
        .queries = 3,
        .dim = 24,
        .value_dim = 10,
        .keys = 9,
    };
    kvmill_attention_init(&problem.op, sizeof problem.op);
    return problem;
}

/* Plan with packs or without, run, and compare with the oracle unless `judge` is given. */
static bool run(struct onnx_problem *problem, bool portable, int threads) {
    const kvmill_plan_options options = {.struct_size = sizeof options,
                                         .packs = packs,
                                         .pack_count = 2,
                                         .portable = portable,
                                         .threads = 2};
    kvmill_plan *plan;
    kvmill_error error;
    kvmill_status status = onnx_plan(problem, &options, &plan, &error);
    if (status == KVMILL_OK)
        status = onnx_run(problem, plan, threads, &dice, &error);
    if (status != KVMILL_OK)
        diag("%s: %s", problem->words, error.message);
    kvmill_plan_destroy(plan);
    return status == KVMILL_OK;
}

static bool is_row(const struct onnx_problem *problem, int64_t query, bool (*like)(double x)) {
    bool good = true;
    for (int64_t b = 0; b < problem->batch; b++)
        for (int64_t h = 0; h < problem->heads; h++)
            for (int64_t d = 0; d < problem->value_dim; d++)
                good = good && like(onnx_get(problem, KVMILL_ATTENTION_Y, b, h, query, d));
    return good;
}

static bool is_zero(double x) {
    return x == 0;
}

static bool is_nan(double x) {
    return isnan(x);
}

static bool is_finite(double x) {
    return isfinite(x);
}

/* A mask of [queries, keys] that hides all keys from query 1. */
static void open_masked(struct onnx_problem *problem, DLDataType U, double hidden) {
    problem->U = U;
    problem->mask_rank = 2;
    problem->mask_dims[0] = problem->queries;
    problem->mask_dims[1] = problem->past + problem->keys;
    onnx_open(problem, &dice);
    for (int64_t n = 0; n < problem->mask_dims[0] * problem->mask_dims[1]; n++)
        onnx_put_mask(problem, n, n / problem->mask_dims[1] == 1 ? hidden : U.code == boolean.code);
}

/* Keys of NaN or infinity in front of a row that sees none of them. */
static void test_hidden_rows(DLDataType T1, const char *type) {
    const double poisons[] = {NAN, INFINITY};
    const struct {
        DLDataType U;
        double hidden;
    } masks[] = {{boolean, 0}, {T1, -INFINITY}};
    bool good = true;
    for (int i = 0; i < 8; i++) {
        struct onnx_problem problem = some_problem(T1);
        problem.qk = true;
        problem.op.qk_matmul_output_mode = 3;
        open_masked(&problem, masks[i % 2].U, masks[i % 2].hidden);
        for (int64_t b = 0; b < 2; b++)
            for (int64_t h = 0; h < 2; h++)
                onnx_put(&problem, KVMILL_ATTENTION_K, b, h, 4, 0, poisons[i / 4]);
        good = good && run(&problem, i / 2 % 2, 0) && is_row(&problem, 1, is_zero);
        for (int64_t j = 0; j < problem.keys; j++)
            good = good && onnx_get(&problem, KVMILL_ATTENTION_QK_MATMUL_OUTPUT, 1, 5, 1, j) == 0;
        onnx_close(&problem);
    }
    ok(good, "%s: a row that masks hide from all keys is 0, whatever its scores are", type);
}

static void test_infinite_masks(void) {
    bool good = true;
    for (int i = 0; i < 4; i++) {
        struct onnx_problem problem = some_problem(i / 2 ? f64 : f32);
        open_masked(&problem, problem.T1, INFINITY);
        good = good && run(&problem, i % 2, 0) && is_row(&problem, 1, is_nan) &&
               is_row(&problem, 0, is_finite);
        onnx_close(&problem);
    }
    ok(good, "infinity in a mask becomes NaN in its row alone");
}

/* Masks are numbers of type T1: -1e9 and the least int32 are -infinity in float16. */
static void test_wide_masks(void) {
    const struct {
        DLDataType U;
        double hidden;
    } masks[] = {{f32, -1e9}, {{kDLInt, 32, 1}, -2147483648.}, {f64, -1e300}};
    bool good = true;
    for (int i = 0; i < 12; i++) {
        struct onnx_problem problem = some_problem(f16);
        problem.T2 = i / 6 ? f64 : f16;
        open_masked(&problem, masks[i / 2 % 3].U, masks[i / 2 % 3].hidden);
        onnx_expect(&problem, &dice);
        good = good && run(&problem, i % 2, 0) && onnx_is_right(&problem) &&
               is_row(&problem, 1, is_zero);
        onnx_close(&problem);
    }
    ok(good, "a mask's number that T1 has no place for is infinite");
}

/* 1 + 2^-11 + 2^-40 is nearer to 1 + 2^-10 than to 1, but a float32 between them is not. */
static void test_rounding(void) {
    struct onnx_problem problem = some_problem(f16);
    problem.qk = true;
    problem.op.qk_matmul_output_mode = 2;
    open_masked(&problem, f64, 1 + 0x1p-11 + 0x1p-40);
    for (int64_t d = 0; d < problem.dim; d++)
        onnx_put(&problem, KVMILL_ATTENTION_Q, 0, 0, 1, d, 0);
    bool good = run(&problem, false, 0);
    ok(good && onnx_get(&problem, KVMILL_ATTENTION_QK_MATMUL_OUTPUT, 0, 0, 1, 0) == 1 + 0x1p-10,
       "a mask is rounded to T1 once");
    onnx_close(&problem);
}

/* ---- Sizes ---- */

static bool run_sized(int64_t dim, int64_t keys, int64_t queries, bool packed, int mask_rank,
                      int64_t past, DLDataType T1) {
    struct onnx_problem problem = some_problem(T1);
    problem.batch = 1;
    problem.heads = 4, problem.kv_heads = 2;
    problem.dim = dim, problem.value_dim = dim > 3 ? dim - 3 : dim;
    problem.keys = keys, problem.queries = queries, problem.past = past;
    problem.packed = packed;
    problem.op.is_causal = queries > 1;
    problem.hidden_in = 5;
    problem.mask_rank = mask_rank;
    const int64_t dims[] = {1, 4, queries, past + keys};
    for (int d = 0; d < mask_rank; d++)
        problem.mask_dims[d] = dims[4 - mask_rank + d];
    onnx_open(&problem, &dice);
    onnx_expect(&problem, &dice);
    bool good = run(&problem, false, 2) && onnx_is_right(&problem);
    onnx_restore(&problem);
    good = good && run(&problem, true, 0) && onnx_is_right(&problem);
    if (!good)
        diag("%s", problem.words);
    onnx_close(&problem);
    return good;
}

static void test_sizes(void) {
    static const int64_t dims[] = {1, 2, 7, 64, 128, 512, 576};
    const DLDataType types[] = {f32, f16, f64};
    bool good = true;
    for (int i = 0; i < 7; i++)
        for (int64_t keys = 15; keys <= 17; keys++)
            good = good && run_sized(dims[i], keys, 2, i % 2, 0, 0, types[(i + keys) % 3]);
    ok(good, "head sizes from 1 to 576, 15 to 17 keys");
}

/* Long enough to be cut into pieces, whose partial results are merged. */
static void test_pieces(void) {
    const bool slow = is_slow_run();
    ok(run_sized(16, slow ? 1100 : 2600, 1, true, 0, 0, f32), "pieces, heads side by side");
    ok(run_sized(16, slow ? 1100 : 2600, 1, true, 1, 0, f32), "pieces with a mask");
    ok(run_sized(16, 700, 1, true, 0, 1500, f16), "pieces of a past and of new keys");
    ok(slow || run_sized(8, 4500, 1, false, 4, 300, f32), "pieces, heads one after the other");
    ok(slow || run_sized(8, 3000, 70, true, 3, 33, f32), "pieces of many queries");
    ok(slow || run_sized(40, 700, 90, false, 2, 0, f64), "float64, many queries");
}

/* ---- In place ---- */

/* A present of `rows` rows in which the past is a view of the first and K of the last. */
struct grown {
    float data[2][2][8][3];
    int64_t shape[3][4], strides[4];
    DLTensor past, fresh, present;
};

static void open_grown(struct grown *grown) {
    const int64_t rows[] = {5, 2, 7};
    DLTensor *tensors[] = {&grown->past, &grown->fresh, &grown->present};
    float *first = grown->data[0][0][0];
    for (int64_t i = 0; i < 2 * 2 * 8 * 3; i++)
        first[i] = (float)(i % 13) - 6;
    for (int d = 0; d < 4; d++)
        grown->strides[d] = (int64_t[]){48, 24, 3, 1}[d];
    for (int i = 0; i < 3; i++) {
        memcpy(grown->shape[i], (int64_t[]){2, 2, rows[i], 3}, sizeof grown->shape[i]);
        *tensors[i] = (DLTensor){.data = i == 1 ? grown->data[0][0][5] : first,
                                 .device = {kDLCPU, 0},
                                 .ndim = 4,
                                 .dtype = f32,
                                 .shape = grown->shape[i],
                                 .strides = grown->strides};
    }
}

/* The same problem without anything in place. */
static void test_in_place(void) {
    static struct grown key, value, was;
    float q[2][2][2][3], y[2][2][2][3], other[2][2][2][3];
    int64_t shape[] = {2, 2, 2, 3};
    DLTensor Q = {.data = q, .device = {kDLCPU, 0}, .ndim = 4, .dtype = f32, .shape = shape};
    DLTensor Y = Q;
    kvmill_attention op;
    kvmill_plan *plan;
    kvmill_error error = {""};
    open_grown(&key);
    open_grown(&value);
    was = key;
    for (int i = 0; i < 24; i++)
        (&q[0][0][0][0])[i] = (float)(i % 5) - 2;
    Y.data = y;
    kvmill_attention_init(&op, sizeof op);
    op.Q = &Q, op.K = &key.fresh, op.V = &value.fresh;
    op.past_key = &key.past, op.past_value = &value.past;
    for (int pass = 0; pass < 2; pass++) {
        op.present_key = pass ? &key.present : NULL;
        op.present_value = pass ? &value.present : NULL;
        const DLTensor *tensors[KVMILL_ATTENTION_TENSORS] = {
            &Q,          &key.fresh, &value.fresh, NULL,           &key.past,
            &value.past, NULL,       &Y,           op.present_key, op.present_value};
        kvmill_status status = kvmill_plan_attention(&op, NULL, &plan, &error);
        void *workspace = status == KVMILL_OK
                              ? aligned_alloc(64, (kvmill_plan_workspace_size(plan) + 63) / 64 * 64)
                              : NULL;
        ok(status == KVMILL_OK && kvmill_run(plan, tensors, workspace, &error) == KVMILL_OK,
           pass ? "a present whose parts are where they belong" : "two pieces without a present");
        diag("%s", error.message);
        free(workspace);
        kvmill_plan_destroy(plan);
        memcpy(pass ? other : q, pass ? y : q, sizeof y);
        if (pass == 0)
            memcpy(other, y, sizeof y);
        else
            ok(memcmp(other, y, sizeof y) == 0, "gives the same");
    }
    ok(memcmp(key.data, was.data, sizeof was.data) == 0, "and nothing is moved");
}

/* ---- Both ops, one after the other ---- */

static void test_composition(void) {
    bool good = true;
    for (int chunk = 0; chunk < 2; chunk++) {
        struct onnx_problem step = some_problem(f32), whole;
        step.step = step.in_place = step.has_starts = true;
        step.queries = step.keys = chunk ? 3 : 1;
        step.past = 12;
        step.starts[0] = 4, step.starts[1] = 9;
        step.op.opset = 24;
        step.op.is_causal = 1;
        onnx_open(&step, &dice);
        onnx_expect(&step, &dice);
        good = good && run(&step, false, 0) && onnx_is_right(&step);
        /* What Attention makes of the caches afterwards. */
        whole = some_problem(f32);
        whole.op = step.op;
        whole.queries = step.queries;
        whole.keys = 12;
        whole.has_nonpad = true;
        for (int b = 0; b < 2; b++)
            whole.nonpad[b] = step.starts[b] + step.keys;
        onnx_open(&whole, &dice);
        for (int64_t n = 0; n < 2 * 6 * step.queries * 24; n++)
            onnx_put(&whole, KVMILL_ATTENTION_Q, n / 24 / step.queries / 6,
                     n / 24 / step.queries % 6, n / 24 % step.queries, n % 24,
                     onnx_get(&step, KVMILL_ATTENTION_Q, n / 24 / step.queries / 6,
                              n / 24 / step.queries % 6, n / 24 % step.queries, n % 24));
        for (int64_t n = 0; n < 2 * 2 * 12 * 24; n++)
            for (int v = 0; v < 2; v++)
                if (v == 0 || n % 24 < 10)
                    onnx_put(&whole, KVMILL_ATTENTION_K + v, n / 24 / 12 / 2, n / 24 / 12 % 2,
                             n / 24 % 12, n % 24,
                             onnx_get(&step, KVMILL_ATTENTION_PAST_KEY + v, n / 24 / 12 / 2,
                                      n / 24 / 12 % 2, n / 24 % 12, n % 24));
        good = good && run(&whole, false, 0);
        for (int64_t n = 0; good && n < 2 * 6 * step.queries * 10; n++) {
            int64_t b = n / 10 / step.queries / 6, h = n / 10 / step.queries % 6;
            double a = onnx_get(&step, KVMILL_ATTENTION_Y, b, h, n / 10 % step.queries, n % 10);
            double c = onnx_get(&whole, KVMILL_ATTENTION_Y, b, h, n / 10 % step.queries, n % 10);
            good = fabs(a - c) < 1e-5;
        }
        onnx_close(&whole);
        onnx_close(&step);
    }
    ok(good, "a step is TensorScatter, then Attention over what is valid");
}

static void set_number(struct onnx_problem *problem, int i, int64_t b, int64_t value) {
    struct fenced_tensor *tensor = &problem->tensor[i];
    unsigned char *at = (unsigned char *)tensor->dl.data + tensor->dl.byte_offset + b * 8;
    memcpy(at, &value, 8);
    memcpy(problem->before[i].fence.data + (at - tensor->fence.data), &value, 8);
}

/* A start is a position modulo the ring; far ones are none else.  The oracle is told near ones. */
static void test_far_starts(void) {
    bool good = true;
    for (int i = 0; i < 4; i++) {
        struct onnx_problem problem = some_problem(f32);
        problem.step = problem.circular = problem.has_starts = true;
        problem.queries = problem.keys = 3;
        problem.past = 5;
        problem.op.opset = i < 2 ? 24 : 25;
        problem.op.is_causal = i < 3;
        problem.op.left_window_size = i == 2 ? 2 : -1;
        problem.starts[0] = 5 + INT64_MAX % 5;
        problem.starts[1] = 5 + ((int64_t)1 << 62) % 5;
        onnx_open(&problem, &dice);
        onnx_expect(&problem, &dice);
        set_number(&problem, KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES, 0, INT64_MAX);
        set_number(&problem, KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES, 1, (int64_t)1 << 62);
        good = good && run(&problem, i % 2, 0) && onnx_is_right(&problem);
        onnx_close(&problem);
    }
    ok(good, "far starts of rings");
}

/* ---- Metamorphic ---- */

/* Batch entries know nothing of each other. */
static void test_swapped_entries(void) {
    struct onnx_problem a = some_problem(f32), b;
    a.op.opset = 24;
    a.has_nonpad = true;
    a.nonpad[0] = 4, a.nonpad[1] = 9;
    b = a;
    b.nonpad[0] = 9, b.nonpad[1] = 4;
    onnx_open(&a, &dice);
    onnx_open(&b, &dice);
    for (int t = KVMILL_ATTENTION_Q; t <= KVMILL_ATTENTION_V; t++) {
        size_t half = a.tensor[t].fence.size / 2;
        memcpy(b.tensor[t].fence.data, a.tensor[t].fence.data + half, half);
        memcpy(b.tensor[t].fence.data + half, a.tensor[t].fence.data, half);
    }
    bool good = run(&a, false, 0) && run(&b, false, 0);
    size_t half = a.tensor[KVMILL_ATTENTION_Y].fence.size / 2;
    const unsigned char *ya = a.tensor[KVMILL_ATTENTION_Y].fence.data;
    const unsigned char *yb = b.tensor[KVMILL_ATTENTION_Y].fence.data;
    ok(good && memcmp(ya, yb + half, half) == 0 && memcmp(ya + half, yb, half) == 0,
       "batch entries that change places");
    onnx_close(&a);
    onnx_close(&b);
}

/* ---- What is refused ---- */

/* A valid op in 23 to 25, whose tensors cases change. */
struct proto {
    DLTensor tensor;
    int64_t shape[5];
};

static struct {
    kvmill_attention op;
    kvmill_tensor_scatter_attention step;
    struct proto t[ONNX_TENSORS];
} draft;

static void shape(int i, DLDataType type, int rank, const int64_t *dims) {
    struct proto *proto = &draft.t[i];
    memcpy(proto->shape, dims, (size_t)rank * sizeof *dims);
    proto->tensor =
        (DLTensor){.device = {kDLCPU, 0}, .ndim = rank, .dtype = type, .shape = proto->shape};
}

#define SHAPE(I, TYPE, ...)                                                                        \
    shape(I, TYPE, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                      \
          (int64_t[]){__VA_ARGS__})

static void fresh_draft(bool step) {
    kvmill_attention_init(&draft.op, sizeof draft.op);
    draft.op.opset = 24;
    SHAPE(KVMILL_ATTENTION_Q, f32, 2, 6, 3, 8);
    SHAPE(KVMILL_ATTENTION_K, f32, 2, 2, step ? 3 : 5, 8);
    SHAPE(KVMILL_ATTENTION_V, f32, 2, 2, step ? 3 : 5, 10);
    SHAPE(KVMILL_ATTENTION_ATTN_MASK, boolean, 3, step ? 9 : 5);
    SHAPE(KVMILL_ATTENTION_PAST_KEY, f32, 2, 2, step ? 9 : 4, 8);
    SHAPE(KVMILL_ATTENTION_PAST_VALUE, f32, 2, 2, step ? 9 : 4, 10);
    SHAPE(KVMILL_ATTENTION_NONPAD_KV_SEQLEN, i64, 2);
    SHAPE(KVMILL_ATTENTION_Y, f32, 2, 6, 3, 10);
    SHAPE(KVMILL_ATTENTION_PRESENT_KEY, f32, 2, 2, step ? 9 : 5, 8);
    SHAPE(KVMILL_ATTENTION_PRESENT_VALUE, f32, 2, 2, step ? 9 : 5, 10);
    SHAPE(KVMILL_ATTENTION_QK_MATMUL_OUTPUT, f32, 2, 6, 3, 5);
    SHAPE(KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES, i64, 2);
    draft.op.Q = &draft.t[0].tensor;
    draft.op.K = &draft.t[1].tensor;
    draft.op.V = &draft.t[2].tensor;
    draft.op.past_key = step ? &draft.t[KVMILL_ATTENTION_PAST_KEY].tensor : NULL;
    draft.op.past_value = step ? &draft.t[KVMILL_ATTENTION_PAST_VALUE].tensor : NULL;
    draft.step = (kvmill_tensor_scatter_attention){
        .struct_size = sizeof draft.step,
        .attention = &draft.op,
        .write_indices = &draft.t[KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES].tensor,
    };
}

static kvmill_status plan_draft(bool step, kvmill_error *error) {
    kvmill_plan *plan;
    kvmill_status status =
        step ? kvmill_plan_tensor_scatter_attention(&draft.step, NULL, &plan, error)
             : kvmill_plan_attention(&draft.op, NULL, &plan, error);
    if (status == KVMILL_OK)
        kvmill_plan_destroy(plan);
    else
        ok(plan == NULL, "no plan");
    return status;
}

/* The draft is refused so, and the message has these words; KVMILL_OK: it is not. */
static void planned(bool step, kvmill_status wanted, const char *words) {
    kvmill_error error = {""};
    kvmill_status status = plan_draft(step, &error);
    bool good = status == wanted && strstr(error.message, words) != NULL;
    ok(good, "%s: %s", kvmill_status_name(wanted), words[0] ? words : "planned");
    if (!good)
        diag("%s: %s", kvmill_status_name(status), error.message);
    fresh_draft(step);
}

static struct proto *proto(int i) {
    return &draft.t[i];
}

static void give(int i) {
    const DLTensor *tensors[ONNX_TENSORS] = {draft.op.Q,
                                             draft.op.K,
                                             draft.op.V,
                                             draft.op.attn_mask,
                                             draft.op.past_key,
                                             draft.op.past_value,
                                             draft.op.nonpad_kv_seqlen,
                                             draft.op.Y,
                                             draft.op.present_key,
                                             draft.op.present_value,
                                             draft.op.qk_matmul_output};
    tensors[i] = &draft.t[i].tensor;
    draft.op.attn_mask = tensors[KVMILL_ATTENTION_ATTN_MASK];
    draft.op.past_key = tensors[KVMILL_ATTENTION_PAST_KEY];
    draft.op.past_value = tensors[KVMILL_ATTENTION_PAST_VALUE];
    draft.op.nonpad_kv_seqlen = tensors[KVMILL_ATTENTION_NONPAD_KV_SEQLEN];
    draft.op.Y = tensors[KVMILL_ATTENTION_Y];
    draft.op.present_key = tensors[KVMILL_ATTENTION_PRESENT_KEY];
    draft.op.present_value = tensors[KVMILL_ATTENTION_PRESENT_VALUE];
    draft.op.qk_matmul_output = tensors[KVMILL_ATTENTION_QK_MATMUL_OUTPUT];
}

static void test_attributes(void) {
    const struct {
        int64_t *attribute, value;
        const char *words;
    } cases[] = {
        {&draft.op.opset, 22, "opset is 22; accepted: 23 to 25"},
        {&draft.op.opset, 26, "opset is 26"},
        {&draft.op.is_causal, 2, "is_causal is 2; accepted: 0 to 1"},
        {&draft.op.is_causal, -1, "is_causal is -1"},
        {&draft.op.qk_matmul_output_mode, 4, "qk_matmul_output_mode is 4"},
        {&draft.op.softmax_precision, 7, "softmax_precision is 7; accepted: 1 (float)"},
        {&draft.op.left_window_size, 3, "left_window_size is 3; accepted: -1, in opset 24"},
        {&draft.op.right_window_size, 0, "right_window_size is 0"},
        {&draft.op.q_num_heads, -1, "q_num_heads is -1"},
        {&draft.op.q_num_heads, 5, "dim 1 of Q is 6 and q_num_heads 5"},
        {&draft.op.kv_num_heads, 3, "dim 1 of K is 2 and kv_num_heads 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        *cases[i].attribute = cases[i].value;
        planned(false, KVMILL_E_ATTRIBUTE, cases[i].words);
    }
    draft.op.q_num_heads = 6, draft.op.kv_num_heads = 2;
    planned(false, KVMILL_OK, "");
    draft.op.opset = 25, draft.op.q_num_heads = 6;
    planned(false, KVMILL_E_ATTRIBUTE, "q_num_heads is 6; accepted in opset 25 with tensors of");
    draft.op.opset = 25, draft.op.left_window_size = -2;
    planned(false, KVMILL_E_ATTRIBUTE, "left_window_size is -2; accepted: -1 or more");
    const double factors[] = {-1, NAN, INFINITY, 1e39};
    for (int i = 0; i < 4; i++) {
        draft.op.scale = factors[i];
        planned(false, KVMILL_E_ATTRIBUTE, "scale is ");
        draft.op.softcap = factors[i];
        planned(false, KVMILL_E_ATTRIBUTE, "softcap is ");
    }
    draft.op.struct_size = 4;
    planned(false, KVMILL_E_ATTRIBUTE, "op.struct_size is 4");
}

static void test_presence(void) {
    draft.op.Q = NULL;
    planned(false, KVMILL_E_NULL, "Q is NULL; a tensor is required");
    draft.op.V = NULL;
    planned(false, KVMILL_E_NULL, "V is NULL");
    give(KVMILL_ATTENTION_PAST_KEY);
    planned(false, KVMILL_E_NULL, "past_value is NULL; accepted: past_key and past_value, or none");
    give(KVMILL_ATTENTION_PAST_VALUE);
    planned(false, KVMILL_E_NULL, "past_key is NULL");
    give(KVMILL_ATTENTION_NONPAD_KV_SEQLEN);
    draft.op.opset = 23;
    planned(false, KVMILL_E_ATTRIBUTE, "nonpad_kv_seqlen is given; accepted: NULL in opset 23");
    give(KVMILL_ATTENTION_NONPAD_KV_SEQLEN);
    give(KVMILL_ATTENTION_PAST_KEY);
    give(KVMILL_ATTENTION_PAST_VALUE);
    planned(false, KVMILL_E_ATTRIBUTE, "nonpad_kv_seqlen is given; accepted: NULL, with past_key");
    give(KVMILL_ATTENTION_NONPAD_KV_SEQLEN);
    give(KVMILL_ATTENTION_PRESENT_KEY);
    planned(false, KVMILL_OK, "");
}

static void test_types(void) {
    const struct {
        int tensor;
        DLDataType type;
        const char *words;
    } cases[] = {
        {KVMILL_ATTENTION_Q, {kDLInt, 8, 1}, "Q has type int8; accepted: float16"},
        {KVMILL_ATTENTION_K, {kDLFloat, 16, 1}, "K has type float16; accepted: float32"},
        {KVMILL_ATTENTION_V, {kDLInt, 32, 1}, "V has type int32; accepted: float16"},
        {KVMILL_ATTENTION_ATTN_MASK,
         {kDLComplex, 64, 1},
         "attn_mask has type complex64; accepted: bool"},
        {KVMILL_ATTENTION_ATTN_MASK, {kDLInt, 4, 1}, "attn_mask has type int4"},
        {KVMILL_ATTENTION_NONPAD_KV_SEQLEN, {kDLInt, 32, 1}, "nonpad_kv_seqlen has type int32"},
        {KVMILL_ATTENTION_Y, {kDLFloat, 64, 1}, "Y has type float64; accepted: float32"},
        {KVMILL_ATTENTION_PRESENT_VALUE, {kDLFloat, 16, 1}, "present_value has type float16"},
        {KVMILL_ATTENTION_QK_MATMUL_OUTPUT, {kDLBfloat, 16, 1}, "qk_matmul_output has type bf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        give(cases[i].tensor);
        proto(cases[i].tensor)->tensor.dtype = cases[i].type;
        planned(false, KVMILL_E_DTYPE, cases[i].words);
    }
}

static void test_shapes(void) {
    const struct {
        int tensor, dim;
        int64_t value;
        const char *words;
    } cases[] = {
        {KVMILL_ATTENTION_Q, 1, 5, "there are 2 kv heads; accepted: a divisor of the 5"},
        {KVMILL_ATTENTION_Q, 1, KVMILL_DYNAMIC, "dim 1 of Q is -1"},
        {KVMILL_ATTENTION_Q, 3, KVMILL_DYNAMIC, "dim 3 of Q is -1; accepted: a known number"},
        {KVMILL_ATTENTION_Q, 3, 0, "dim 3 of Q is 0"},
        {KVMILL_ATTENTION_Q, 2, -7, "dim 2 of Q is -7; accepted: 0 or more, or dynamic"},
        {KVMILL_ATTENTION_K, 3, 9, "K has shape [2, 2, 5, 9]; accepted: [2, 2, 5, 8]"},
        {KVMILL_ATTENTION_K, 0, 1, "K has shape [1, 2, 5, 8]"},
        {KVMILL_ATTENTION_V, 2, 4, "V has shape [2, 2, 4, 10]; accepted: [2, 2, 5, 10]"},
        {KVMILL_ATTENTION_V, 1, 1, "V has shape [2, 1, 5, 10]"},
        {KVMILL_ATTENTION_V, 3, 1 << 20, "dim 3 of V is 1048576"},
        {KVMILL_ATTENTION_NONPAD_KV_SEQLEN, 0, 3, "nonpad_kv_seqlen has shape [3]; accepted: [2]"},
        {KVMILL_ATTENTION_Y, 3, 8, "Y has shape [2, 6, 3, 8]; accepted: [2, 6, 3, 10]"},
        {KVMILL_ATTENTION_PRESENT_KEY, 2, 6, "present_key has shape [2, 2, 6, 8]"},
        {KVMILL_ATTENTION_QK_MATMUL_OUTPUT, 3, 6, "qk_matmul_output has shape [2, 6, 3, 6]"},
        {KVMILL_ATTENTION_ATTN_MASK, 1, 6,
         "attn_mask has shape [3, 6]; accepted: [2, 6, 3, 5], or its"},
        {KVMILL_ATTENTION_ATTN_MASK, 0, 2, "attn_mask has shape [2, 5]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        give(cases[i].tensor);
        proto(cases[i].tensor)->shape[cases[i].dim] = cases[i].value;
        planned(false, KVMILL_E_SHAPE, cases[i].words);
    }
    for (int i = 0; i < 2; i++) {
        give(KVMILL_ATTENTION_PAST_KEY);
        give(KVMILL_ATTENTION_PAST_VALUE);
        proto(KVMILL_ATTENTION_PAST_KEY + i)->shape[2 + i] = 3;
        planned(false, KVMILL_E_SHAPE, i ? "past_value has shape [2, 2, 4, 3]" : "past_value has");
    }
    proto(KVMILL_ATTENTION_Q)->shape[2] = (int64_t)1 << 50;
    proto(KVMILL_ATTENTION_Q)->shape[0] = 1 << 20;
    planned(false, KVMILL_E_OVERFLOW, "Q has shape [1048576, 6, 1125899906842624, 8]");
}

static void test_ranks(void) {
    const int ranks[] = {2, 5};
    for (int i = 0; i < 2; i++) {
        proto(KVMILL_ATTENTION_Q)->tensor.ndim = ranks[i];
        planned(false, KVMILL_E_SHAPE, "; accepted: 3 or 4");
        give(KVMILL_ATTENTION_ATTN_MASK);
        proto(KVMILL_ATTENTION_ATTN_MASK)->tensor.ndim = i ? 5 : 0;
        planned(false, KVMILL_E_SHAPE, "attn_mask has shape");
    }
    proto(KVMILL_ATTENTION_K)->tensor.ndim = 3;
    planned(false, KVMILL_E_SHAPE, "K has rank 3; accepted: Q's, 4");
    SHAPE(KVMILL_ATTENTION_Q, f32, 2, 3, 48);
    SHAPE(KVMILL_ATTENTION_K, f32, 2, 5, 16);
    SHAPE(KVMILL_ATTENTION_V, f32, 2, 5, 20);
    planned(false, KVMILL_E_ATTRIBUTE, "q_num_heads is 0; accepted: 1 or more, with tensors of");
    SHAPE(KVMILL_ATTENTION_Q, f32, 2, 3, 47);
    SHAPE(KVMILL_ATTENTION_K, f32, 2, 5, 16);
    SHAPE(KVMILL_ATTENTION_V, f32, 2, 5, 20);
    draft.op.q_num_heads = 6, draft.op.kv_num_heads = 2;
    planned(false, KVMILL_E_SHAPE, "dim 2 of Q is 47; accepted: a known number, 6 times 1 to");
    give(KVMILL_ATTENTION_ATTN_MASK);
    SHAPE(KVMILL_ATTENTION_ATTN_MASK, boolean, 4);
    draft.op.opset = 23;
    planned(false, KVMILL_E_SHAPE, "attn_mask has shape [4]; accepted: [2, 6, 3, 5], or its last");
    give(KVMILL_ATTENTION_ATTN_MASK);
    SHAPE(KVMILL_ATTENTION_ATTN_MASK, boolean, 1);
    draft.op.opset = 23;
    planned(false, KVMILL_E_SHAPE, "attn_mask has shape [1]");
}

static void test_steps(void) {
    planned(true, KVMILL_OK, "");
    draft.step.mode = "Circular";
    planned(true, KVMILL_E_ATTRIBUTE, "mode is \"Circular\"; accepted: \"linear\", \"circular\"");
    draft.step.mode = "circular";
    give(KVMILL_ATTENTION_ATTN_MASK);
    planned(true, KVMILL_E_ATTRIBUTE, "attn_mask is given; accepted: NULL, with mode \"circular\"");
    give(KVMILL_ATTENTION_QK_MATMUL_OUTPUT);
    planned(true, KVMILL_E_ATTRIBUTE, "qk_matmul_output is given");
    draft.op.opset = 23;
    planned(true, KVMILL_E_ATTRIBUTE, "opset is 23; accepted: 24 to 25");
    draft.op.past_key = draft.op.past_value = NULL;
    planned(true, KVMILL_E_NULL, "past_key is NULL; accepted: past_key and past_value");
    draft.step.attention = NULL;
    planned(true, KVMILL_E_NULL, "op.attention is NULL");
    draft.step.struct_size = 4;
    planned(true, KVMILL_E_ATTRIBUTE, "op.struct_size is 4");
    proto(KVMILL_ATTENTION_Q)->shape[2] = 4;
    planned(true, KVMILL_E_SHAPE, "K has 3 rows; accepted: Q's, 4");
    for (int i = 0; i < 2; i++)
        proto(KVMILL_ATTENTION_PAST_KEY + i)->shape[2] = 2;
    planned(true, KVMILL_E_SHAPE, "K has 3 rows; accepted: at most the 2 of past_key");
    proto(KVMILL_ATTENTION_PAST_KEY)->shape[1] = 6;
    planned(true, KVMILL_E_SHAPE, "past_key has shape [2, 6, 9, 8]; accepted: [2, 2, 9, 8]");
    proto(KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES)->tensor.dtype.bits = 32;
    planned(true, KVMILL_E_DTYPE, "write_indices has type int32; accepted: int64");
    proto(KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES)->shape[0] = 1;
    planned(true, KVMILL_E_SHAPE, "write_indices has shape [1]; accepted: [2]");
}

/* ---- Runs that are refused ---- */

static kvmill_plan *refusing;

static void refused(struct onnx_problem *problem, kvmill_status wanted, const char *words) {
    kvmill_error error = {""};
    kvmill_status status = onnx_run(problem, refusing, 0, &dice, &error);
    bool good = status == wanted && strstr(error.message, words) != NULL;
    ok(good && onnx_is_untouched(problem), "%s: %s", kvmill_status_name(wanted), words);
    if (!good)
        diag("%s: %s", kvmill_status_name(status), error.message);
}

/* With `tensor` in place of that of the problem. */
static void refused_with(struct onnx_problem *problem, int i, const DLTensor *tensor,
                         kvmill_status wanted, const char *words) {
    const DLTensor *kept = problem->given[i];
    problem->given[i] = tensor;
    refused(problem, wanted, words);
    problem->given[i] = kept;
}

static void open_refusing(struct onnx_problem *problem) {
    kvmill_error error = {""};
    onnx_open(problem, &dice);
    onnx_expect(problem, &dice);
    if (onnx_plan(problem, NULL, &refusing, &error) != KVMILL_OK)
        bail_out("no plan: %s", error.message);
}

static void close_refusing(struct onnx_problem *problem) {
    kvmill_plan_destroy(refusing);
    onnx_close(problem);
}

static void test_numbers(void) {
    struct onnx_problem problem = some_problem(f32);
    const int nonpad = KVMILL_ATTENTION_NONPAD_KV_SEQLEN;
    problem.has_nonpad = problem.qk = true;
    problem.nonpad[0] = problem.nonpad[1] = 9;
    open_refusing(&problem);
    set_number(&problem, nonpad, 1, -1);
    refused(&problem, KVMILL_E_INDEX_NEGATIVE, "nonpad_kv_seqlen[1] is -1; accepted: 0 to 9");
    set_number(&problem, nonpad, 1, 10);
    refused(&problem, KVMILL_E_INDEX_RANGE, "nonpad_kv_seqlen[1] is 10; accepted: 0 to 9");
    set_number(&problem, nonpad, 1, INT64_MIN);
    refused(&problem, KVMILL_E_INDEX_NEGATIVE, "nonpad_kv_seqlen[1] is -9223372036854775808");
    close_refusing(&problem);
}

static void test_step_numbers(bool circular) {
    struct onnx_problem problem = some_problem(f32);
    const int nonpad = KVMILL_ATTENTION_NONPAD_KV_SEQLEN,
              starts = KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES;
    problem.step = problem.has_starts = problem.has_nonpad = true;
    problem.circular = circular;
    problem.queries = problem.keys = 3;
    problem.past = 8;
    problem.op.opset = 24;
    problem.nonpad[0] = problem.nonpad[1] = 2;
    open_refusing(&problem);
    set_number(&problem, starts, 1, -1);
    refused(&problem, KVMILL_E_INDEX_NEGATIVE, "write_indices[1] is -1; accepted: 0 to");
    set_number(&problem, starts, 1, 6);
    refused(&problem, KVMILL_E_INDEX_RANGE,
            circular ? "nonpad_kv_seqlen[1] is 2; accepted: 6 to 9"
                     : "write_indices[1] is 6; accepted: 0 to 5");
    set_number(&problem, starts, 1, 3);
    set_number(&problem, nonpad, 1, 7);
    refused(&problem, KVMILL_E_INDEX_RANGE, "nonpad_kv_seqlen[1] is 7; accepted: 3 to 6");
    set_number(&problem, nonpad, 1, 2);
    refused(&problem, KVMILL_E_INDEX_RANGE, "nonpad_kv_seqlen[1] is 2; accepted: 3 to 6");
    close_refusing(&problem);
}

static void test_tensors(void) {
    struct onnx_problem problem = some_problem(f32);
    problem.present[0] = true;
    problem.past = 2;
    open_refusing(&problem);
    const DLTensor *given = problem.given[KVMILL_ATTENTION_Q];
    int64_t dims[4], strides[] = {1000, 100, 30, 2};
    DLTensor other = *given;
    refused_with(&problem, KVMILL_ATTENTION_K, NULL, KVMILL_E_NULL, "K is NULL");
    refused_with(&problem, KVMILL_ATTENTION_Y, NULL, KVMILL_E_NULL, "Y is NULL");
    refused_with(&problem, KVMILL_ATTENTION_QK_MATMUL_OUTPUT, given, KVMILL_E_SHAPE,
                 "qk_matmul_output is given; accepted: NULL, this Attention has none");
    memcpy(dims, given->shape, sizeof dims);
    dims[2] = 2;
    other.shape = dims;
    refused_with(&problem, KVMILL_ATTENTION_Q, &other, KVMILL_E_SHAPE, "Y has shape");
    other = *given;
    other.dtype = f16;
    refused_with(&problem, KVMILL_ATTENTION_Q, &other, KVMILL_E_DTYPE, "Q has type float16");
    other = *given;
    other.strides = strides;
    refused_with(&problem, KVMILL_ATTENTION_Q, &other, KVMILL_E_STRIDE,
                 "the last dim of Q has stride 2; accepted: 1");
    other = *given;
    other.device.device_type = kDLCUDA;
    refused_with(&problem, KVMILL_ATTENTION_Q, &other, KVMILL_E_DEVICE, "Q is on device type 2");
    other = *given;
    other.data = NULL;
    other.byte_offset = 0;
    refused_with(&problem, KVMILL_ATTENTION_Q, &other, KVMILL_E_NULL, "the data of Q is NULL");
    other = *problem.given[KVMILL_ATTENTION_Y];
    other.data = given->data;
    other.byte_offset = given->byte_offset;
    refused_with(&problem, KVMILL_ATTENTION_Y, &other, KVMILL_E_ALIAS, "Q overlaps Y");
    other = *problem.given[KVMILL_ATTENTION_PAST_KEY];
    other.data = problem.given[KVMILL_ATTENTION_PRESENT_KEY]->data;
    other.byte_offset = problem.given[KVMILL_ATTENTION_PRESENT_KEY]->byte_offset;
    refused_with(&problem, KVMILL_ATTENTION_PAST_KEY, &other, KVMILL_E_ALIAS,
                 "past_key overlaps present_key");
    other = *problem.given[KVMILL_ATTENTION_K];
    other.data = problem.given[KVMILL_ATTENTION_PRESENT_KEY]->data;
    other.byte_offset = problem.given[KVMILL_ATTENTION_PRESENT_KEY]->byte_offset;
    refused_with(&problem, KVMILL_ATTENTION_K, &other, KVMILL_E_ALIAS, "K overlaps present_key");
    kvmill_error error;
    ok(kvmill_run(refusing, problem.given, NULL, &error) == KVMILL_E_WORKSPACE, "no workspace");
    close_refusing(&problem);
}

/* Fewer rows than the plan was made for, of all tensors. */
static void test_other_sizes(void) {
    struct onnx_problem planned = some_problem(f32), smaller = planned;
    smaller.queries = 2;
    open_refusing(&planned);
    onnx_open(&smaller, &dice);
    onnx_expect(&smaller, &dice);
    refused(&smaller, KVMILL_E_SHAPE, "the number of queries is 2; the plan was made for 3");
    onnx_close(&smaller);
    close_refusing(&planned);
}

int main(void) {
    dice = dice_for(dice_seed(), "ONNX Attention, case by case");
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        for (int portable = 0; portable < 2; portable++)
            test_view(&views[i], portable);
    test_hidden_rows(f32, "float32");
    test_hidden_rows(f16, "float16");
    test_hidden_rows(f64, "float64");
    test_infinite_masks();
    test_wide_masks();
    test_rounding();
    test_sizes();
    test_pieces();
    test_in_place();
    test_composition();
    test_far_starts();
    test_swapped_entries();
    fresh_draft(false);
    planned(false, KVMILL_OK, "");
    test_attributes();
    test_presence();
    test_types();
    test_shapes();
    test_ranks();
    fresh_draft(true);
    test_steps();
    test_numbers();
    test_step_numbers(false);
    test_step_numbers(true);
    test_tensors();
    test_other_sizes();
    return done_testing();
}
