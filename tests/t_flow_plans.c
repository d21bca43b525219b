/* Index, attend and decode of sparse flows over caches of every type, shape and layout.  Lists and
   sums are compared with the oracles.  Decode has the bits of index and then attend, on any threads
   in any order; requests within the budget have the bits of dense attention.  Also special cases:
   pages of one token, no requests, no tokens, long rows, any lists; and the time to begin.

   SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "common.h"
#include "flow_step.h"
#include "packs.h"

/* A step and its plan's options. */
struct run {
    struct flow_step step;
    kvmill_plan_options options;
    struct dice dice;
    int *whole; /* how many requests had all pages in their lists, so far */
};

/* ---- Checks ---- */

static bool indexes(struct run *run) {
    struct flow_step *step = &run->step;
    flow_step_keep(step, &run->dice);
    flow_step_expect(step, false);
    flow_step_give(step, OP_FLOW_INDEX, true);
    return flow_step_runs(step, OP_FLOW_INDEX, &run->options, (int)dice_range(&run->dice, 0, 3),
                          &run->dice) &&
           flow_step_lists_are_right(step) &&
           tensors_are_kept(&step->tensor[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT],
                            &step->before[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT], 1, 0, "of index");
}

static bool decodes(struct run *run) {
    struct flow_step *step = &run->step;
    flow_step_restore(step);
    flow_step_give(step, OP_FLOW_DECODE, true);
    return flow_step_runs(step, OP_FLOW_DECODE, &run->options, 0, &run->dice) &&
           flow_step_lists_are_right(step) && flow_step_output_is_right(step);
}

/* Whether a run has the output of another run, and writes nothing else. */
static bool runs_to(struct run *run, int kind, const kvmill_plan_options *options, int threads,
                    const unsigned char *output) {
    flow_step_restore(&run->step);
    return flow_step_runs(&run->step, kind, options, threads, &run->dice) &&
           flow_step_has_bytes(&run->step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, output);
}

/* Whether decode without lists, and attend with the lists of index, have the bits of decode. */
static bool attends_likewise(struct run *run) {
    struct flow_step *step = &run->step;
    FREED unsigned char *output = flow_step_copy(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
    flow_step_give(step, OP_FLOW_DECODE, false);
    bool same = runs_to(run, OP_FLOW_DECODE, &run->options, 0, output);
    flow_step_restore(step);
    flow_step_put_lists(step);
    flow_step_keep(step, &run->dice);
    flow_step_give(step, OP_FLOW_ATTEND, true);
    same = same && runs_to(run, OP_FLOW_ATTEND, &run->options, 0, output);
    return same;
}

/* Runs in any order, on more and on fewer threads than planned. */
static bool threads_agree(struct run *run) {
    static const int counts[][2] = {{1, 1}, {2, 8}, {3, 2}, {2, 2}, {1, 3}, {8, 8}};
    bool same = true;
    FREED unsigned char *output = flow_step_copy(&run->step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
    flow_step_give(&run->step, OP_FLOW_DECODE, true);
    for (int64_t i = 0; same && i < (is_slow_run() ? 3 : 6); i++) {
        kvmill_plan_options options = run->options;
        options.threads = counts[i][0];
        same = runs_to(run, OP_FLOW_DECODE, &options, counts[i][1], output) &&
               flow_step_lists_are_right(&run->step);
    }
    return same;
}

static bool is_whole(const struct flow_step *step, int64_t request) {
    const int64_t *starts = step->starts + request * step->rows;
    return starts[1] - starts[0] == flow_step_blocks(step, request);
}

/* Whether dense attention is right, and requests with all pages have its bits. */
static bool dense_agrees(struct run *run) {
    struct flow_step *step = &run->step;
    const struct fenced_tensor *output = flow_step_tensor(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
    size_t bytes = tensor_bytes(&output->dl, output->shape[1] * output->shape[2]);
    FREED unsigned char *sparse = tensor_gather(output);
    flow_step_restore(step);
    flow_step_give(step, OP_FLOW_ATTEND, false);
    bool right = flow_step_runs(step, OP_FLOW_ATTEND, &run->options, 2, &run->dice);
    FREED unsigned char *dense = tensor_gather(output);
    for (int64_t b = 0; right && b < step->attention.sequences; b++) {
        size_t at = (size_t)b * bytes;
        right = !is_whole(step, b) || memcmp(dense + at, sparse + at, bytes) == 0;
        *run->whole += is_whole(step, b) && step->length[b] > 0;
    }
    flow_step_expect(step, true);
    return right && flow_step_output_is_right(step);
}

static const struct {
    const char *name;
    bool (*holds)(struct run *run);
} checks[] = {{"index lists the best pages", indexes},
              {"decode lists them and sums over them", decodes},
              {"attending along the lists has the bits of decode", attends_likewise},
              {"threads, in any order, change no bit", threads_agree},
              {"dense attention is right, and has the bits of rows that are whole", dense_agrees}};
enum { CHECKS = COUNT(checks) };

/* Runs the first `count` checks on a step; returns whether all passed. */
static bool check(struct run *run, int count, bool passed[CHECKS]) {
    bool all = true;
    flow_step_open(&run->step, &run->dice);
    for (int i = 0; i < count; i++) {
        bool holds = checks[i].holds(run);
        if (!holds)
            diag("not so: %s; %s", checks[i].name, run->step.attention.words);
        passed[i] = passed[i] && holds;
        all = all && holds;
    }
    flow_step_close(&run->step);
    return all;
}

/* ---- Cases ---- */

TEST(cases) {
    int64_t count = is_slow_run() ? few_cases(14) : 98;
    bool passed[CHECKS] = {true, true, true, true, true};
    int whole = 0;
    for (int64_t i = 0; i < count; i++) {
        char words[32];
        snprintf(words, sizeof words, "case %" PRId64, i);
        struct run run = {
            .options = two_threads[i % 3 != 0], .dice = dice_for(words), .whole = &whole};
        flow_step_choose(&run.step, i, &run.dice);
        flow_step_choose_topk(&run.step, &run.dice);
        check(&run, CHECKS, passed);
    }
    for (int t = 0; t < CHECKS; t++)
        ok(passed[t], "%s: %" PRId64 " cases", checks[t].name, count);
    ok(whole > count / 4, "of which %d requests were whole", whole);
}

TEST(isas) {
    const char *isa;
    for (size_t i = 0; (isa = kvmill_isa_name(i)) != NULL; i++) {
        bool right = true, passed[CHECKS];
        if (!isa_is_allowed(isa))
            continue;
        for (int64_t n = 0; n < (is_slow_run() ? 3 : 21); n++) {
            struct run run = {.options = two_threads[1], .dice = dice_for("isas")};
            run.options.isa = isa;
            flow_step_choose(&run.step, n, &run.dice);
            flow_step_choose_topk(&run.step, &run.dice);
            right = check(&run, 2, passed) && right;
        }
        ok(right, "%s: the same lists", isa);
    }
}

EACH_ROW(flow_scenes, 3) {
    bool passed[CHECKS];
    const char *slow = strstr(cells[2], "slow"), *instead = strchr(cells[2], '=');
    int whole = 0;
    char settings[256];
    struct run run = {.options = two_threads[1], .dice = dice_for(cells[0]), .whole = &whole};
    if (slow != NULL && is_slow_run() && instead == NULL)
        return;
    snprintf(settings, sizeof settings, "%s %s", cells[1],
             slow != NULL && is_slow_run() ? slow + strlen("slow ") : "");
    flow_step_set(&run.step, settings);
    ok(check(&run, strstr(cells[2], "long") ? 3 : CHECKS, passed), "%s", cells[0]);
}

/* ---- A caller's own lists ---- */

/* Makes lists of any pages in any order, with repetitions, of different lengths for each head, or
   empty; the request's last page is at the end. */
static void choose_lists(struct flow_step *step, struct dice *dice) {
    int64_t next = 0;
    for (int64_t row = 0; row < step->attention.sequences * step->rows; row++) {
        int64_t pages = flow_step_blocks(step, row / step->rows),
                count = dice_range(dice, 0, pages);
        step->starts[row] = next;
        for (int64_t i = 0; i < count; i++)
            step->list[next++] =
                (int32_t)(i + 1 == count ? pages - 1 : dice_range(dice, 0, pages - 2));
    }
    step->starts[step->attention.sequences * step->rows] = next;
}

TEST(any_lists) {
    static const char *const scopes[] = {"kv_head", "query_head", "request"};
    struct dice dice = dice_for("lists");
    for (int i = 0; i < 3; i++) {
        OWN(flow_step_close) struct flow_step step;
        bool right = true;
        flow_step_set(&step, is_slow_run() ? "start=500,1,0,16,100 topk_val=1 partial=1"
                                           : "start=500,1,0,16,9000,100 topk_val=1 partial=1");
        step.select.scope = scopes[i];
        flow_step_open(&step, &dice);
        flow_step_expect(&step, true);
        for (int n = 0; n < (is_slow_run() ? 2 : 5); n++) {
            choose_lists(&step, &dice);
            flow_step_expect_output(&step);
            flow_step_put_lists(&step);
            flow_step_give(&step, OP_FLOW_ATTEND, true);
            right = flow_step_runs(&step, OP_FLOW_ATTEND, &two_threads[n % 2], 2, &dice) &&
                    flow_step_output_is_right(&step) && right;
        }
        ok(right, "attend along any lists, scope %s", scopes[i]);
    }
}

/* ---- Plans ---- */

static kvmill_plan *plan_of(const struct flow_step *step, int kind) {
    kvmill_plan *plan;
    kvmill_error error;
    must(plan_flow_step(kind, &step->flow, &step->limits, &two_threads[0], &plan, &error) ==
             KVMILL_OK,
         error.message);
    return plan;
}

/* A plan copies constants: the caller's may be freed. */
TEST(constants) {
    static const kvmill_flow_op ops[] = {
        {.op = "Multiply", .inputs = {"q", "kmax"}, .output = "a"},
        {.op = "Multiply", .inputs = {"q", "kmin"}, .output = "b"},
        {.op = "Multiply", .inputs = {"b", "w"}, .output = "c"},
        {.op = "Maximum", .inputs = {"a", "c"}, .output = "d"}, /* NaN if c is */
        {.op = "Sum", .inputs = {"d"}, .output = "e", .dims = 4},
        {.op = "Max", .inputs = {"e"}, .output = "f", .dims = 2},
        {.op = "topK", .inputs = {"f"}},
    };
    float values[32];
    const kvmill_flow_constant constant = {"w", 1, 1, 32, values};
    struct dice dice = dice_for("constants");
    OWN(flow_step_close) struct flow_step step;
    flow_step_set(&step, "start=500 topk_val=5");
    flow_step_open(&step, &dice);
    flow_step_expect(&step, false);
    step.flow.index = ops;
    step.flow.index_count = COUNT(ops);
    step.flow.constants = &constant;
    step.flow.constant_count = 1;
    for (int i = 0; i < 32; i++)
        values[i] = 1;
    OWN_PLAN kvmill_plan *plan = plan_of(&step, OP_FLOW_INDEX);
    memset(values, 0xff, sizeof values);
    flow_step_give(&step, OP_FLOW_INDEX, true);
    ok(run_with_workspace(plan, step.given, 0, &dice, NULL) == KVMILL_OK &&
           flow_step_lists_are_right(&step),
       "a plan keeps its constants");
}

/* A plan's description says what it runs. */
TEST(words) {
    static const struct {
        const char *const words;
        bool in[OP_FLOW_STEPS];
    } says[] = {
        {"; write K with ", {[OP_FLOW_APPEND] = true}},
        {"; summarise with ", {[OP_FLOW_APPEND] = true, [OP_FLOW_SUMMARISE] = true}},
        {"; index with ", {[OP_FLOW_INDEX] = true, [OP_FLOW_DECODE] = true}},
        {"; attend with ", {[OP_FLOW_ATTEND] = true, [OP_FLOW_DECODE] = true}},
    };
    struct dice dice = dice_for("words");
    OWN(flow_step_close) struct flow_step step;
    flow_step_set(&step, "start=40");
    flow_step_open(&step, &dice);
    for (int kind = 0; kind < OP_FLOW_STEPS; kind++) {
        OWN_PLAN kvmill_plan *plan = plan_of(&step, kind);
        for (size_t i = 0; i < COUNT(says); i++)
            ok(plan_says(plan, says[i].words) == says[i].in[kind], "step %d%s: %s", kind,
               says[i].words, says[i].in[kind] ? "said" : "not said");
    }
}

/* ---- Time ---- */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Returns the least seconds that beginning a run takes, of many measurements. */
static double time_begin(const kvmill_plan *plan, struct flow_step *step) {
    FREED void *workspace = aligned_alloc(64, (kvmill_plan_workspace_size(plan) + 63) / 64 * 64);
    double best = 1;
    for (int i = 0; i < 300; i++) {
        kvmill_call call;
        double start = now();
        must(kvmill_begin(&call, plan, step->given, kvmill_plan_tensor_count(plan), workspace,
                          NULL) == KVMILL_OK,
             "begin fails");
        double took = now() - start;
        best = took < best ? took : best;
    }
    return best;
}

/* Allows 20 microseconds, a generous limit, and prints the time. */
TEST(time) {
    static const int kinds[] = {OP_FLOW_INDEX, OP_FLOW_ATTEND, OP_FLOW_DECODE};
    static const char *const names[] = {"index", "attend along lists", "decode"};
    struct dice dice = dice_for("time");
    struct flow_step step;
    if (is_slow_run())
        return;
    flow_step_set(&step, "num_heads=32 num_kv_heads=8 head_dim=128 T1=float16 T2=float16 "
                         "start=32768 topk_val=126 reserved_bos=1");
    flow_step_open(&step, &dice);
    flow_step_give(&step, OP_FLOW_INDEX, true);
    must(flow_step_runs(&step, OP_FLOW_INDEX, &two_threads[1], 0, &dice), "no lists");
    for (size_t i = 0; i < COUNT(kinds); i++) {
        OWN_PLAN kvmill_plan *plan = plan_of(&step, kinds[i]);
        flow_step_give(&step, kinds[i], true);
        double took = time_begin(plan, &step);
        ok(took < 20e-6, "%s of 2048 pages begins in %.2f microseconds", names[i], took * 1e6);
    }
    flow_step_close(&step);
}
