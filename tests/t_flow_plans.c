/* Index, attend and decode of sparse flows over caches of every type, shape and layout: lists and
   sums against the oracles; decode is attend along the lists of index, to the bit, whatever runs it
   in whatever order; what the budget covers has the bits of dense attention.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "flow_step.h"
#include "packs.h"
#include "walk.h"

static kvmill_plan_options options_with(bool has_packs, int threads) {
    return (kvmill_plan_options){.struct_size = sizeof(kvmill_plan_options),
                                 .packs = packs,
                                 .pack_count = has_packs ? 2 : 0,
                                 .threads = threads};
}

/* ---- Bits ---- */

/* The output of a run as that of another: nothing but what is written is left. */
static bool runs_to(struct flow_step *step, enum flow_step_kind kind,
                    const kvmill_plan_options *options, int threads, const unsigned char *output,
                    struct dice *dice) {
    flow_step_restore(step);
    return flow_step_runs(step, kind, options, threads, dice) &&
           flow_step_has_bytes(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, output);
}

/* ---- What is right ---- */

static bool indexes(struct flow_step *step, const kvmill_plan_options *options, struct dice *dice) {
    flow_step_restore(step);
    flow_step_give(step, STEP_INDEX, true);
    return flow_step_runs(step, STEP_INDEX, options, (int)dice_range(dice, 0, 3), dice) &&
           flow_step_lists_are_right(step) &&
           flow_step_is_same(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
}

static bool decodes(struct flow_step *step, const kvmill_plan_options *options, struct dice *dice) {
    flow_step_restore(step);
    flow_step_give(step, STEP_DECODE, true);
    return flow_step_runs(step, STEP_DECODE, options, 0, dice) && flow_step_lists_are_right(step) &&
           flow_step_output_is_right(step);
}

/* Without the lists, and along them as index gave them: the bits of decode. */
static bool attends_likewise(struct flow_step *step, const kvmill_plan_options *options,
                             struct dice *dice) {
    unsigned char *output = flow_step_copy(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
    flow_step_give(step, STEP_DECODE, false);
    bool same = runs_to(step, STEP_DECODE, options, 0, output, dice);
    flow_step_restore(step);
    flow_step_put_lists(step);
    flow_step_keep(step, dice);
    flow_step_give(step, STEP_ATTEND, true);
    same = same && runs_to(step, STEP_ATTEND, options, 0, output, dice);
    free(output);
    return same;
}

/* Any order, more and fewer threads than there is room for. */
static bool threads_agree(struct flow_step *step, bool has_packs, struct dice *dice) {
    static const int counts[][2] = {{1, 1}, {2, 2}, {1, 3}, {3, 2}, {2, 8}, {8, 8}};
    unsigned char *output = flow_step_copy(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
    bool same = true;
    flow_step_give(step, STEP_DECODE, true);
    for (int64_t i = 0; same && i < (is_slow_run() ? 3 : 6); i++) {
        const kvmill_plan_options options = options_with(has_packs, counts[i][0]);
        same = runs_to(step, STEP_DECODE, &options, counts[i][1], output, dice) &&
               flow_step_lists_are_right(step);
    }
    free(output);
    return same;
}

static bool is_whole(const struct flow_step *step, int64_t request) {
    const int64_t *starts = step->starts + request * step->rows;
    return starts[1] - starts[0] == flow_step_pages(step, request);
}

static unsigned char *request_at(struct flow_step *step, int64_t request, size_t *size) {
    const struct fenced_tensor *output = flow_step_tensor(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
    size_t bytes = output->dl.dtype.bits / 8;
    *size = (size_t)((output->shape[1] - 1) * output->strides[1] + output->shape[2]) * bytes;
    return (unsigned char *)flow_step_data(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT) +
           (size_t)(request * output->strides[0]) * bytes;
}

/* Dense attention is right, and a request that is whole has its bits. */
static bool dense_agrees(struct flow_step *step, const kvmill_plan_options *options, int *whole,
                         struct dice *dice) {
    unsigned char *output = flow_step_copy(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
    size_t before = 0, size;
    flow_step_restore(step);
    flow_step_give(step, STEP_ATTEND, false);
    bool right = flow_step_runs(step, STEP_ATTEND, options, 2, dice);
    for (int64_t b = 0; right && b < step->attention.sequences; b++) {
        unsigned char *row = request_at(step, b, &size);
        before =
            (size_t)(row - flow_step_tensor(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT)->fence.data);
        right = !is_whole(step, b) || memcmp(row, output + before, size) == 0;
        *whole += is_whole(step, b) && step->length[b] > 0;
    }
    if (!right)
        diag("dense attention has other bits; %s", step->attention.words);
    free(output);
    flow_step_expect(step, true);
    return right && flow_step_output_is_right(step);
}

/* ---- A case ---- */

enum { LISTS, OUTPUT, ALONG, THREADS, DENSE_ONES, TESTS };

static const char *const names[TESTS] = {
    "index lists the best pages", "decode lists them and sums over them",
    "attending along the lists has the bits of decode", "threads, in any order, change no bit",
    "dense attention is right, and has the bits of rows that are whole"};

static void test_with(struct flow_step *step, bool has_packs, bool passed[TESTS], int *whole,
                      struct dice *dice) {
    const kvmill_plan_options options = options_with(has_packs, 2);
    flow_step_keep(step, dice);
    flow_step_expect(step, false);
    passed[LISTS] = indexes(step, &options, dice) && passed[LISTS];
    passed[OUTPUT] = decodes(step, &options, dice) && passed[OUTPUT];
    passed[ALONG] = attends_likewise(step, &options, dice) && passed[ALONG];
    passed[THREADS] = threads_agree(step, has_packs, dice) && passed[THREADS];
    passed[DENSE_ONES] = dense_agrees(step, &options, whole, dice) && passed[DENSE_ONES];
}

static void test_cases(uint64_t seed) {
    int64_t count = is_slow_run() ? few_cases(14) : 98;
    bool passed[TESTS] = {true, true, true, true, true};
    int whole = 0;
    for (int64_t i = 0; i < count; i++) {
        struct flow_step step;
        char words[32];
        snprintf(words, sizeof words, "case %" PRId64, i);
        struct dice dice = dice_for(seed, words);
        flow_step_choose(&step, i, &dice);
        flow_step_open(&step, &dice);
        test_with(&step, i % 3 != 0, passed, &whole, &dice);
        flow_step_close(&step);
    }
    for (int t = 0; t < TESTS; t++)
        ok(passed[t], "%s: %" PRId64 " cases", names[t], count);
    ok(whole > count / 4, "of which %d requests were whole", whole);
}

/* ---- Instruction sets ---- */

static bool is_right_with(const char *isa, int64_t number, uint64_t seed) {
    struct dice dice = dice_for(seed, "instruction sets");
    struct flow_step step;
    kvmill_plan_options options = options_with(true, 2);
    options.isa = isa;
    flow_step_choose(&step, number, &dice);
    flow_step_open(&step, &dice);
    flow_step_keep(&step, &dice);
    flow_step_expect(&step, false);
    bool right = indexes(&step, &options, &dice) && decodes(&step, &options, &dice);
    flow_step_close(&step);
    return right;
}

static void test_isas(uint64_t seed) {
    const char *isa;
    for (size_t i = 0; (isa = kvmill_isa_name(i)) != NULL; i++) {
        bool right = true;
        if (!isa_is_allowed(isa))
            continue;
        for (int64_t n = 0; n < (is_slow_run() ? 3 : 21); n++)
            right = is_right_with(isa, n, seed) && right;
        ok(right, "%s: the same lists", isa);
    }
}

/* ---- Long rows beside short ones ---- */

/* Dense attention cuts long rows; a short one beside them must not notice. */
static void test_long_rows(uint64_t seed) {
    struct dice dice = dice_for(seed, "long rows");
    const kvmill_flow_select select = {
        .topk_val = 20, .reserved_bos = 1, .reserved_eos = 1, .dense_below = 6000};
    struct flow_step step = {.select = select, .field_type = {kDLFloat, 32, 1}};
    struct attention *a = &step.attention;
    kvmill_cache_attention_init(&a->op, sizeof a->op);
    a->op.dynamic_batching = a->op.cache_mode = 1;
    a->op.num_heads = 4;
    a->op.num_kv_heads = 1;
    a->op.head_dim = 32;
    a->op.page_size = 64;
    a->op.T1 = a->op.T2 = a->op.T3 = step.field_type;
    a->sequences = 5;
    memcpy(a->start, (int64_t[]){5999, 0, 40000, 6001, 300}, 5 * sizeof *a->start);
    bool passed[TESTS] = {true, true, true, true, true};
    int whole = 0;
    for (int layout = 0; layout < (is_slow_run() ? 1 : 4); layout++) {
        struct flow_step copy = step;
        copy.attention.op.cache_layout = layout;
        flow_step_open(&copy, &dice);
        test_with(&copy, layout != 2, passed, &whole, &dice);
        flow_step_close(&copy);
    }
    for (int t = 0; t < TESTS; t++)
        ok(passed[t], "%s: rows of 40000 tokens beside short ones", names[t]);
}

int main(void) {
    uint64_t seed = dice_seed();
    test_cases(seed);
    test_isas(seed);
    test_long_rows(seed);
    return done_testing();
}
