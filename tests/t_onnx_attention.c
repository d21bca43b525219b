/* ONNX Attention and TensorScatterAttention with random attributes, types, shapes, masks and
   layouts, against the oracle: portable kernels and packs, any number of threads.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "onnx_problem.h"
#include "packs.h"

static const DLDataType types[] = {
    {kDLFloat, 32, 1}, {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 64, 1}};
static const DLDataType mask_types[] = {
    {KVMILL_DL_BOOL, 8, 1}, {kDLFloat, 32, 1}, {kDLFloat, 16, 1}, {kDLBfloat, 16, 1},
    {kDLFloat, 64, 1},      {kDLInt, 8, 1},    {kDLInt, 16, 1},   {kDLInt, 32, 1},
    {kDLInt, 64, 1},        {kDLUInt, 8, 1},   {kDLUInt, 16, 1},  {kDLUInt, 32, 1},
    {kDLUInt, 64, 1}};
enum { TYPES = sizeof types / sizeof *types, MASK_TYPES = sizeof mask_types / sizeof *mask_types };

/* Counts a case of kind "rank 3", ... */
static void saw_number(const char *what, int64_t number) {
    char kind[64];
    snprintf(kind, sizeof kind, "%s %" PRId64, what, number);
    saw(kind, true);
}

/* ---- Choosing ---- */

#define TYPE "{float32|float16|bfloat16|float64}"
#define DIM  "{1|2|5|16|17|40}"

static void choose_types(struct onnx_problem *problem, struct dice *dice) {
    int64_t T1 = dice_range(dice, 0, TYPES - 1);
    problem->T1 = problem->T2 = types[T1];
    problem->U = mask_types[dice_range(dice, 0, MASK_TYPES - 1)];
    onnx_say(problem, "{|| T2=" TYPE "}", dice);
    saw_number("T1", T1);
}

/* Chooses heads and dims that the tests' packs have kernels for, and others. */
static void choose_heads(struct onnx_problem *problem, struct dice *dice) {
    onnx_say(problem,
             "{{heads=6 kv_heads=2 dim=24 value_dim=10|heads=4 kv_heads=4 dim=7 value_dim=7|"
             "heads=5 kv_heads=1 dim=33 value_dim=32|heads=8 kv_heads=2 dim=64 value_dim=64}|"
             "{kv_heads=1 heads={1|2|3|4}|kv_heads=2 heads={2|4|6|8}|kv_heads=3 heads={3|6|9|12}} "
             "dim=" DIM " value_dim=" DIM "}",
             dice);
}

static void choose_attributes(struct onnx_problem *problem, struct dice *dice) {
    onnx_say(problem, problem->step ? "opset={24|25}" : "opset={23|24|25}", dice);
    onnx_say(problem,
             "is_causal={0|1} scale={0|0|0.3} softcap={0|0|1.5} qk_matmul_output_mode={0|1|2|3} "
             "softmax_precision={0|0|0|{0|1|10|11|16}}",
             dice);
    if (problem->op.opset == 25 && dice_once_in(dice, 2)) {
        problem->op.left_window_size = dice_range(dice, -1, 12);
        problem->op.right_window_size = dice_range(dice, -1, 5);
        saw("windows", true);
    }
}

static void choose_mask(struct onnx_problem *problem, struct dice *dice) {
    int64_t all = problem->step ? problem->past : problem->past + problem->keys;
    const int64_t dims[] = {problem->batch, problem->heads, problem->queries, all};
    int rank = (int)dice_range(dice, 1, 4);
    problem->mask_rank = rank;
    problem->hidden_in = dice_range(dice, 0, 4);
    for (int d = 0; d < rank; d++)
        problem->mask_dims[d] = d < rank - 1 && dice_once_in(dice, 3) ? 1 : dims[4 - rank + d];
    if (problem->op.opset >= 24 && all > 0 && dice_once_in(dice, 4)) {
        problem->mask_dims[rank - 1] = dice_range(dice, 0, all);
        saw("short masks", true);
    }
    saw_number("rank", rank);
    for (int i = 0; i < MASK_TYPES; i++)
        if (memcmp(&problem->U, &mask_types[i], sizeof problem->U) == 0)
            saw_number("mask", i);
}

static void choose_shape(struct onnx_problem *problem, struct dice *dice) {
    problem->batch = dice_range(dice, 1, 3);
    problem->queries = dice_once_in(dice, 3) ? 1 : dice_range(dice, 0, 9);
    problem->packed = dice_once_in(dice, 2);
    problem->spread = dice_once_in(dice, 2);
    saw("packed heads", problem->packed);
    saw("strides", problem->spread);
}

/* ---- Attention ---- */

static void choose_attention(struct onnx_problem *problem, struct dice *dice) {
    problem->keys = dice_once_in(dice, 9) ? dice_range(dice, 500, 1300) : dice_range(dice, 0, 60);
    if (dice_once_in(dice, 2)) {
        problem->past = dice_range(dice, 0, 40);
        saw("a past", problem->past > 0);
    } else if (problem->op.opset >= 24 && dice_once_in(dice, 2)) {
        problem->has_nonpad = true;
        for (int64_t b = 0; b < problem->batch; b++)
            problem->nonpad[b] = dice_range(dice, 0, problem->keys);
        saw("nonpad", true);
    }
    problem->present[0] = dice_once_in(dice, 3);
    problem->present[1] = dice_once_in(dice, 3);
    problem->grown = problem->past > 0 && !problem->packed && dice_once_in(dice, 3);
    saw("a past in the present", problem->grown);
    problem->qk = dice_once_in(dice, 4);
    if (problem->qk)
        saw_number("mode", problem->op.qk_matmul_output_mode);
    /* Padding is copied, too, and may be NaN. */
    if (dice_once_in(dice, 2))
        choose_mask(problem, dice);
}

/* ---- Steps ---- */

static void choose_step(struct onnx_problem *problem, struct dice *dice) {
    problem->circular = dice_once_in(dice, 2);
    problem->keys = problem->queries;
    problem->past = dice_once_in(dice, 9) ? dice_range(dice, 500, 1300)
                                          : problem->keys + dice_range(dice, 1, 30);
    problem->in_place = dice_once_in(dice, 2);
    problem->has_starts = !dice_once_in(dice, 5);
    for (int64_t b = 0; b < problem->batch; b++)
        problem->starts[b] = problem->circular ? dice_range(dice, 0, 4 * problem->past)
                                               : dice_range(dice, 0, problem->past - problem->keys);
    problem->has_nonpad = dice_once_in(dice, 2);
    for (int64_t b = 0; b < problem->batch; b++)
        problem->nonpad[b] =
            (problem->has_starts ? problem->starts[b] : 0) + dice_range(dice, 0, problem->keys);
    if (!problem->circular && dice_once_in(dice, 3))
        choose_mask(problem, dice);
    saw("padding", problem->has_nonpad);
    saw("results in place", problem->in_place);
    saw("wrapped rings",
        problem->circular && problem->has_starts && problem->starts[0] > problem->past);
}

/* ---- One case ---- */

static bool run_once(struct onnx_problem *problem, const kvmill_plan *plan, int threads,
                     struct dice *dice) {
    kvmill_error error;
    kvmill_status status = onnx_run(problem, plan, threads, dice, &error);
    if (status != KVMILL_OK)
        diag("%s: %s", kvmill_status_name(status), error.message);
    return status == KVMILL_OK && onnx_is_right(problem);
}

/* Repeats the run with other parts and threads; the bytes must be the same. */
static bool repeat(struct onnx_problem *problem, const kvmill_plan *plan, struct dice *dice) {
    struct fenced_tensor *y = &problem->tensor[KVMILL_ATTENTION_Y];
    FREED unsigned char *first = malloc(y->fence.size + 1);
    memcpy(first, y->fence.data, y->fence.size);
    tensors_restore(problem->tensor, problem->before, ONNX_TENSORS);
    return run_once(problem, plan, (int)dice_range(dice, 1, 3), dice) &&
           memcmp(first, y->fence.data, y->fence.size) == 0;
}

static bool run_problem(struct onnx_problem *problem, bool use_packs, struct dice *dice) {
    kvmill_plan_options options = two_threads[use_packs];
    OWN_PLAN kvmill_plan *plan;
    kvmill_error error;
    options.threads = (int)dice_range(dice, 1, 3);
    onnx_open(problem, dice);
    onnx_expect(problem, dice);
    bool planned = onnx_plan(problem, &options, &plan, &error) == KVMILL_OK;
    bool right = planned && run_once(problem, plan, 0, dice) && repeat(problem, plan, dice);
    if (!right)
        diag("%s\n%s", problem->words, planned ? plan_text(plan) : error.message);
    saw("kernels of packs", planned && plan_says(plan, "(pack "));
    onnx_close(problem);
    return right;
}

static bool run_case(bool step, bool use_packs, struct dice *dice) {
    struct onnx_problem problem = onnx_problem(step ? "step=1" : "");
    choose_types(&problem, dice);
    choose_heads(&problem, dice);
    choose_shape(&problem, dice);
    choose_attributes(&problem, dice);
    if (step)
        choose_step(&problem, dice);
    else
        choose_attention(&problem, dice);
    return run_problem(&problem, use_packs, dice);
}

static void test_random(bool step, bool use_packs) {
    const char *what = step ? "steps" : "Attention", *how = use_packs ? "packs" : "portable";
    char words[64];
    int cases = is_slow_run() ? 40 : 400, done = 0;
    snprintf(words, sizeof words, "%s, %s", what, how);
    struct dice dice = dice_for(words);
    while (done < cases && run_case(step, use_packs, &dice))
        done++;
    ok(done == cases, "%s: %d random cases (%s)", what, done, how);
}

TEST(random_cases) {
    for (int i = 0; i < 4; i++)
        test_random(i / 2, i % 2);
}

TEST(coverage) {
    if (!is_slow_run())
        expect_seen("windows; short masks; packed heads; strides; a past; nonpad; padding; "
                    "a past in the present; results in place; wrapped rings; kernels of packs; "
                    "rank 1; rank 2; rank 3; rank 4; mode 0; mode 1; mode 2; mode 3; "
                    "T1 0; T1 1; T1 2; T1 3; mask 0; mask 1; mask 2; mask 3; mask 4; mask 5; "
                    "mask 6; mask 7; mask 8; mask 9; mask 10; mask 11; mask 12");
}
