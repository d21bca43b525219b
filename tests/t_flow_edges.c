/* Steps of sparse flows at the ends of what there is: pages of one token, rows that are read whole,
   no requests, no tokens, more pages than 16 bits count, limits beyond any memory; and how long it
   takes to begin.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common.h"
#include "flow_step.h"

static const kvmill_plan_options two_threads = {.struct_size = sizeof two_threads, .threads = 2};

static struct dice dice;

/* ---- Steps ---- */

/* Few heads, and as many requests as there are lengths before the first that is negative. */
static void set_step(struct flow_step *step, int64_t page_size, int64_t dim,
                     const int64_t *lengths) {
    kvmill_cache_attention *op = &step->attention.op;
    kvmill_cache_attention_init(op, sizeof *op);
    op->dynamic_batching = op->cache_mode = 1;
    op->num_heads = 4;
    op->num_kv_heads = 2;
    op->head_dim = dim;
    op->page_size = page_size;
    op->cache_layout = 3;
    op->T1 = op->T2 = op->T3 = step->field_type = f32;
    for (; lengths[step->attention.sequences] >= 0; step->attention.sequences++)
        step->attention.start[step->attention.sequences] = lengths[step->attention.sequences];
}

/* Index, decode and attend: lists, sums, and the same bits along the lists. */
static bool is_right(struct flow_step *step) {
    flow_step_keep(step, &dice);
    flow_step_expect(step, false);
    flow_step_give(step, STEP_INDEX, true);
    bool right =
        flow_step_runs(step, STEP_INDEX, &two_threads, 2, &dice) && flow_step_lists_are_right(step);
    flow_step_restore(step);
    flow_step_give(step, STEP_DECODE, false);
    right = flow_step_runs(step, STEP_DECODE, &two_threads, 0, &dice) &&
            flow_step_output_is_right(step) && right;
    flow_step_keep(step, &dice);
    flow_step_put_lists(step);
    flow_step_give(step, STEP_ATTEND, true);
    right = flow_step_runs(step, STEP_ATTEND, &two_threads, 3, &dice) && right;
    return right && flow_step_is_same(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
}

static void check(struct flow_step *step, const char *what) {
    flow_step_open(step, &dice);
    ok(is_right(step), "%s", what);
    flow_step_close(step);
}

/* ---- Pages of one token ---- */

static void test_tokens_as_pages(void) {
    static const int64_t lengths[] = {200, 0, 7, 33, -1};
    const kvmill_flow_select few = {.topk_val = 3, .reserved_bos = 1, .reserved_eos = 1};
    struct flow_step skipped = {.select = few, .skipped = true};
    set_step(&skipped, 1, 32, lengths);
    check(&skipped, "pages of a token, in a layer that is skipped");
    struct flow_step endless = {.select = few};
    endless.select.dense_below = INT64_MAX;
    set_step(&endless, 1, 32, lengths);
    check(&endless, "pages of a token, rows of any length whole");
    struct flow_step free_end = {.select = few, .summary = "incremental"};
    free_end.select.reserved_eos = 0;
    set_step(&free_end, 1, 32, lengths);
    check(&free_end, "pages of a token, of which the last need not be listed");
    struct flow_step windowed = {.select = few, .summary = "incremental"};
    windowed.select.reserved_eos = 0;
    set_step(&windowed, 1, 32, lengths);
    windowed.attention.op.left_window_size = 89;
    check(&windowed, "  nor with a window");
}

/* ---- Nothing, all ---- */

static void test_nothing(void) {
    static const int64_t none[] = {-1}, empty[] = {0, 0, 0, -1};
    struct flow_step nobody = {.select = {.topk_val = 3, .reserved_eos = 1}};
    set_step(&nobody, 16, 32, none);
    check(&nobody, "no requests");
    struct flow_step silent = {.select = {.topk_val = 3, .reserved_eos = 1}};
    set_step(&silent, 16, 32, empty);
    silent.attention.op.partial = 1;
    check(&silent, "requests without a token");
    struct flow_step sinks = {.select = {.topk_val = 3, .reserved_eos = 1}};
    set_step(&sinks, 16, 32, empty);
    sinks.attention.has_sinks = true;
    sinks.attention.op.partial = 1;
    check(&sinks, "  but with sinks");
}

/* The bits of dense attention, which reads all. */
static bool is_dense(struct flow_step *step) {
    flow_step_give(step, STEP_DECODE, false);
    bool right = flow_step_runs(step, STEP_DECODE, &two_threads, 0, &dice);
    flow_step_keep(step, &dice);
    flow_step_give(step, STEP_ATTEND, false);
    right = right && flow_step_runs(step, STEP_ATTEND, &two_threads, 2, &dice);
    return right && flow_step_is_same(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
}

static void test_all(void) {
    static const int64_t lengths[] = {500, 1, 0, 16, 9000, -1};
    const kvmill_flow_select all[] = {
        {.topk_val = KVMILL_FLOW_ALL, .reserved_eos = 1},
        {.topk_val = KVMILL_FLOW_ALL,
         .reserved_bos = KVMILL_FLOW_ALL,
         .reserved_eos = KVMILL_FLOW_ALL},
        {.reserved_eos = 1, .ratio_numerator = INT32_MAX, .ratio_denominator = INT32_MAX},
        {.reserved_eos = 1, .dense_below = 9001}};
    static const char *const names[] = {"k of all pages", "all pages at both ends", "all of n",
                                        "rows whole below the longest and one"};
    for (int i = 0; i < 4; i++) {
        struct flow_step step = {.select = all[i]};
        set_step(&step, 16, 32, lengths);
        flow_step_open(&step, &dice);
        ok(is_dense(&step), "%s: the bits of dense attention", names[i]);
        flow_step_close(&step);
    }
}

/* ---- Lists of a caller's own ---- */

/* Any pages in any order, some of them again, more for one head than for another, or none; the last
   one of the request at the end. */
static void choose_lists(struct flow_step *step) {
    int64_t next = 0;
    for (int64_t row = 0; row < step->attention.sequences * step->rows; row++) {
        int64_t pages = flow_step_pages(step, row / step->rows),
                count = dice_range(&dice, 0, pages);
        step->starts[row] = next;
        for (int64_t i = 0; i < count; i++)
            step->list[next++] =
                (int32_t)(i + 1 == count ? pages - 1 : dice_range(&dice, 0, pages - 2));
    }
    step->starts[step->attention.sequences * step->rows] = next;
}

static void test_any_lists(void) {
    static const int64_t lengths[] = {500, 1, 0, 16, 9000, 100, -1};
    static const char *const scopes[] = {"kv_head", "query_head", "request"};
    for (int i = 0; i < 3; i++) {
        struct flow_step step = {.select = {.topk_val = 1, .reserved_eos = 1, .scope = scopes[i]}};
        set_step(&step, 16, 32, lengths);
        step.attention.op.partial = 1;
        flow_step_open(&step, &dice);
        flow_step_expect(&step, true);
        bool right = true;
        for (int n = 0; n < 5; n++) {
            choose_lists(&step);
            flow_step_expect_output(&step);
            flow_step_put_lists(&step);
            flow_step_give(&step, STEP_ATTEND, true);
            right = flow_step_runs(&step, STEP_ATTEND, &two_threads, 2, &dice) &&
                    flow_step_output_is_right(&step) && right;
        }
        ok(right, "attend along any lists, scope %s", scopes[i]);
        flow_step_close(&step);
    }
}

/* ---- What a plan keeps ---- */

/* Constants are the plan's own: the caller's may go. */
static void test_constants(void) {
    static const kvmill_flow_op ops[] = {
        {.op = "Multiply", .inputs = {"q", "kmax"}, .output = "a"},
        {.op = "Multiply", .inputs = {"a", "w"}, .output = "b"},
        {.op = "Multiply", .inputs = {"q", "kmin"}, .output = "c"},
        {.op = "Maximum", .inputs = {"c", "b"}, .output = "d"}, /* NaN if b is */
        {.op = "Sum", .inputs = {"d"}, .output = "e", .dims = 4},
        {.op = "Max", .inputs = {"e"}, .output = "f", .dims = 2},
        {.op = "topK", .inputs = {"f"}},
    };
    static const int64_t lengths[] = {500, -1};
    float values[32];
    const kvmill_flow_constant constant = {"w", 1, 1, 32, values};
    struct flow_step step = {.select = {.topk_val = 5, .reserved_eos = 1}};
    kvmill_plan *plan;
    kvmill_error error;
    set_step(&step, 16, 32, lengths);
    flow_step_open(&step, &dice);
    flow_step_expect(&step, false);
    step.flow.index = ops;
    step.flow.index_count = sizeof ops / sizeof *ops;
    step.flow.constants = &constant;
    step.flow.constant_count = 1;
    for (int i = 0; i < 32; i++)
        values[i] = 1;
    if (flow_step_plan(&step, STEP_INDEX, NULL, &plan, &error) != KVMILL_OK)
        bail_out("%s", error.message);
    memset(values, 0xff, sizeof values);
    void *workspace = aligned_alloc(64, (kvmill_plan_workspace_size(plan) + 63) / 64 * 64);
    flow_step_give(&step, STEP_INDEX, true);
    ok(kvmill_run(plan, step.given, workspace, &error) == KVMILL_OK &&
           flow_step_lists_are_right(&step),
       "a plan keeps its constants");
    free(workspace);
    kvmill_plan_destroy(plan);
    flow_step_close(&step);
}

/* ---- Long rows ---- */

static void test_long_rows(void) {
    static const int64_t lengths[] = {600000, 40, -1};
    static const int64_t sizes[] = {1, 16};
    for (int i = is_slow_run(); i < 2; i++) {
        struct flow_step step = {.select = {.topk_val = 100, .reserved_bos = 1, .reserved_eos = 1}};
        set_step(&step, sizes[i], 8, lengths);
        step.attention.op.num_heads = step.attention.op.num_kv_heads = 1;
        step.attention.op.T1 = step.attention.op.T2 = f16;
        step.attention.start[0] = is_slow_run() ? few_cases(40000) * sizes[i] : lengths[0];
        flow_step_open(&step, &dice);
        ok(is_right(&step), "a row of %" PRId64 " pages", flow_step_pages(&step, 0));
        flow_step_close(&step);
    }
}

/* ---- Limits beyond any memory ---- */

static void test_huge_limits(void) {
    static const int64_t lengths[] = {40, -1};
    struct flow_step step = {.select = {.topk_val = 3, .reserved_eos = 1}};
    kvmill_plan *plan;
    kvmill_error error;
    set_step(&step, 16, 32, lengths);
    flow_step_open(&step, &dice);
    step.select.dense_below = INT64_MAX;
    step.flow.select = step.select;
    for (int kind = 0; kind < FLOW_STEP_KINDS; kind++) {
        step.limits = (kvmill_flow_limits){sizeof step.limits, INT32_MAX, INT32_MAX, INT32_MAX};
        kvmill_status status =
            flow_step_plan(&step, (enum flow_step_kind)kind, &two_threads, &plan, &error);
        bool refused = status == KVMILL_E_OVERFLOW && plan == NULL &&
                       strstr(error.message, "limits.batch is 2147483647 and limits.pages") != NULL;
        if (!ok(kind == STEP_INDEX || kind == STEP_DECODE ? refused : status == KVMILL_OK,
                "limits of 2^31 - 1, step %d", kind))
            diag("%s: %s", kvmill_status_name(status), error.message);
        kvmill_plan_destroy(plan);
    }
    flow_step_close(&step);
}

/* ---- Time ---- */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Seconds that beginning takes, the least of many times. */
static double time_begin(const kvmill_plan *plan, struct flow_step *step, void *workspace) {
    double best = 1;
    for (int i = 0; i < 300; i++) {
        kvmill_call call;
        double start = now();
        if (kvmill_begin(&call, plan, step->given, workspace, NULL) != KVMILL_OK)
            bail_out("begin fails");
        double took = now() - start;
        best = took < best ? took : best;
    }
    return best;
}

/* A generous limit: 20 microseconds; what it is on an idle machine is said. */
static void test_time(void) {
    static const int64_t lengths[] = {32768, -1};
    static const char *const names[] = {"", "index", "attend along lists", "decode"};
    struct flow_step step = {.select = {.topk_val = 126, .reserved_bos = 1, .reserved_eos = 1}};
    kvmill_error error;
    set_step(&step, 16, 128, lengths);
    step.attention.op.num_heads = 32;
    step.attention.op.num_kv_heads = 8;
    step.attention.op.T1 = step.attention.op.T2 = f16;
    flow_step_open(&step, &dice);
    flow_step_expect(&step, false);
    flow_step_put_lists(&step);
    for (int kind = STEP_INDEX; kind <= STEP_DECODE; kind++) {
        kvmill_plan *plan;
        if (flow_step_plan(&step, (enum flow_step_kind)kind, &two_threads, &plan, &error) != 0)
            bail_out("%s", error.message);
        void *workspace = aligned_alloc(64, (kvmill_plan_workspace_size(plan) + 63) / 64 * 64);
        flow_step_give(&step, (enum flow_step_kind)kind, true);
        double took = time_begin(plan, &step, workspace);
        ok(took < 20e-6, "%s of 2048 pages begins in %.2f microseconds", names[kind], took * 1e6);
        free(workspace);
        kvmill_plan_destroy(plan);
    }
    flow_step_close(&step);
}

int main(void) {
    dice = dice_for(dice_seed(), "edges");
    test_tokens_as_pages();
    test_nothing();
    test_all();
    test_any_lists();
    test_constants();
    test_huge_limits();
    test_long_rows();
    if (!is_slow_run())
        test_time();
    return done_testing();
}
