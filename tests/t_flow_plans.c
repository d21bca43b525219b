/* Index, attend and decode of sparse flows over caches of every type, shape and layout: lists and
   sums against the oracles; decode is attend along the lists of index, to the bit, whatever runs it
   in whatever order; what the budget covers has the bits of dense attention.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_step.h"
#include "tap.h"
#include "walk.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};

static kvmill_plan_options options_with(bool has_packs, int threads) {
    return (kvmill_plan_options){.struct_size = sizeof(kvmill_plan_options),
                                 .packs = packs,
                                 .pack_count = has_packs ? 2 : 0,
                                 .threads = threads};
}

/* ---- Cases ---- */

/* What a cache may hold, for which activations and fields. */
static const struct format {
    DLDataType activation, cache, scale, field;
    int64_t bits, group;
    const char *blocks;
} formats[] = {
    {{kDLFloat, 32, 1}, {kDLFloat, 32, 1}, {kDLFloat, 32, 1}, {kDLFloat, 32, 1}, 0, 0, NULL},
    {{kDLFloat, 16, 1}, {kDLFloat, 16, 1}, {kDLFloat, 16, 1}, {kDLFloat, 16, 1}, 0, 0, NULL},
    {{kDLBfloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 32, 1}, {kDLBfloat, 16, 1}, 0, 0, NULL},
    {{kDLFloat, 16, 1}, {kDLInt, 8, 1}, {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, 8, 8, NULL},
    {{kDLFloat, 32, 1}, {kDLInt, 4, 1}, {kDLFloat, 16, 1}, {kDLFloat, 16, 1}, 4, 16, NULL},
    {{kDLFloat, 16, 1}, {kDLUInt, 8, 1}, {kDLFloat, 32, 1}, {kDLFloat, 32, 1}, 0, 0, "q8_0"},
    {{kDLBfloat, 16, 1}, {kDLUInt, 8, 1}, {kDLFloat, 32, 1}, {kDLFloat, 16, 1}, 0, 0, "q4_0"},
    {{kDLFloat, 32, 1}, {kDLFloat, 16, 1}, {kDLFloat, 32, 1}, {kDLBfloat, 16, 1}, 0, 0, NULL},
    {{kDLBfloat, 16, 1}, {kDLInt, 8, 1}, {kDLFloat, 32, 1}, {kDLFloat, 32, 1}, 8, 16, NULL},
};

static const int64_t head_counts[][2] = {{32, 8}, {9, 3}, {8, 8}, {5, 1}, {6, 2}, {71, 1}, {4, 2}};
static const int64_t dims[] = {32, 64, 80, 96, 112, 128, 256};
static const int64_t page_sizes[] = {1, 5, 8, 16, 32, 64, 128};
static const char *const scopes[] = {"kv_head", "query_head", "request"};

#define COUNT(LIST) ((int64_t)(sizeof(LIST) / sizeof *(LIST)))

static void set_format(kvmill_cache_attention *op, const struct format *format) {
    op->T1 = format->activation;
    op->T2 = format->cache;
    op->T3 = format->scale;
    op->quant_bit = format->bits;
    op->quant_group = format->bits ? format->group : 8;
    op->cache_format = format->blocks;
}

/* V of another size, and of another type where that is no matter. */
static void set_value(kvmill_cache_attention *op, const struct format *format, int64_t dim) {
    op->value_differs = 1;
    op->value_head_dim = dim;
    op->value_quant_bit = format->bits;
    op->value_quant_group = format->group;
    op->value_T2 = format->cache;
    op->value_T3 = format->scale;
    op->value_cache_format = format->blocks;
}

/* Blocks are of 32. */
static int64_t dim_for(const struct format *format, int64_t number) {
    int64_t dim = dims[number % COUNT(dims)];
    return format->blocks != NULL ? (dim + 31) / 32 * 32 : dim;
}

static void choose_attention(kvmill_cache_attention *op, int64_t number, struct dice *dice) {
    const struct format *format = &formats[number % COUNT(formats)];
    kvmill_cache_attention_init(op);
    set_format(op, format);
    op->dynamic_batching = op->cache_mode = 1;
    op->num_heads = head_counts[number % COUNT(head_counts)][0];
    op->num_kv_heads = head_counts[number % COUNT(head_counts)][1];
    op->head_dim = dim_for(format, number / 2);
    op->page_size = page_sizes[dice_range(dice, 0, COUNT(page_sizes) - 1)];
    op->cache_layout = number % 4;
    op->num_layer = dice_range(dice, 1, 2);
    op->layer_idx = dice_range(dice, 0, op->num_layer - 1);
    op->window = dice_once_in(dice, 3) ? dice_range(dice, 1, 6 * op->page_size) : 0;
    op->softcap = dice_once_in(dice, 4) ? 3 : 0;
    op->partial = dice_once_in(dice, 3);
    if (dice_once_in(dice, 5))
        set_value(op, format, dim_for(format, dice_range(dice, 0, COUNT(dims) - 1)));
}

static void choose_select(struct flow_step *step, int64_t number, struct dice *dice) {
    kvmill_flow_select *select = &step->select;
    bool by_score = step->attention.op.window == 0 && dice_once_in(dice, 2);
    select->topk_val = dice_once_in(dice, 5) ? 0 : dice_range(dice, 1, 4);
    select->reserved_bos = dice_range(dice, 0, 2);
    select->reserved_eos = dice_range(dice, 1, 2);
    select->ratio_numerator = dice_range(dice, 0, 1);
    select->ratio_denominator = 3;
    select->cap = dice_once_in(dice, 4) ? dice_range(dice, 1, 6) : 0;
    select->dense_below = dice_once_in(dice, 3) ? 9 * step->attention.op.page_size : 0;
    select->order = by_score ? "score" : "logical";
    select->scope = scopes[number % COUNT(scopes)];
    step->few_kinds = dice_once_in(dice, 2) ? 3 : 0;
    step->skipped = dice_once_in(dice, 12);
}

/* Pages' ends, one page, none, and many. */
static int64_t choose_length(int64_t page_size, struct dice *dice) {
    int64_t most = page_size < 32 ? 24 : 12, pages = dice_range(dice, 2, most);
    switch (dice_range(dice, 0, 5)) {
    case 0:
        return 0;
    case 1:
        return dice_range(dice, 1, page_size);
    case 2:
        return pages * page_size;
    case 3:
        return pages * page_size + 1;
    default:
        return pages * page_size - dice_range(dice, 0, page_size - 1);
    }
}

static void open_case(struct flow_step *step, int64_t number, struct dice *dice) {
    struct attention *a = &step->attention;
    *step = (struct flow_step){0};
    choose_attention(&a->op, number, dice);
    choose_select(step, number, dice);
    step->field_type = formats[number % COUNT(formats)].field;
    a->sequences = a->op.num_heads * a->op.head_dim > 3000 ? 2 : dice_range(dice, 1, 5);
    a->has_sinks = dice_once_in(dice, 3);
    a->share_prefix = false;
    a->spread = dice_once_in(dice, 3) ? SPREAD : DENSE;
    a->spare_rows = dice_range(dice, 0, 2 * a->op.page_size);
    for (int64_t b = 0; b < a->sequences; b++)
        a->start[b] = choose_length(a->op.page_size, dice);
    flow_step_open(step, dice);
}

/* ---- Bits ---- */

/* The bytes of a tensor of a step, to be freed. */
static unsigned char *bytes_of(struct flow_step *step, int which) {
    const struct fence *fence = &flow_step_tensor(step, which)->fence;
    unsigned char *bytes = malloc(fence->size + 1);
    if (bytes == NULL)
        bail_out("out of memory");
    memcpy(bytes, fence->data, fence->size);
    return bytes;
}

static bool has_bytes(struct flow_step *step, int which, const unsigned char *bytes) {
    const struct fence *fence = &flow_step_tensor(step, which)->fence;
    bool same = memcmp(bytes, fence->data, fence->size) == 0;
    if (!same)
        diag("tensor %d has other bits; %s", which, step->attention.words);
    return same;
}

/* The output of a run as that of another: nothing but what is written is left. */
static bool runs_to(struct flow_step *step, enum flow_step_kind kind,
                    const kvmill_plan_options *options, int threads, const unsigned char *output,
                    struct dice *dice) {
    flow_step_restore(step);
    return flow_step_runs(step, kind, options, threads, dice) &&
           has_bytes(step, KVMILL_ATTN_OUTPUT, output);
}

/* ---- What is right ---- */

static bool indexes(struct flow_step *step, const kvmill_plan_options *options, struct dice *dice) {
    flow_step_restore(step);
    flow_step_give(step, STEP_INDEX, true);
    return flow_step_runs(step, STEP_INDEX, options, (int)dice_range(dice, 0, 3), dice) &&
           flow_step_lists_are_right(step) && flow_step_is_same(step, KVMILL_ATTN_OUTPUT);
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
    unsigned char *output = bytes_of(step, KVMILL_ATTN_OUTPUT);
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
    unsigned char *output = bytes_of(step, KVMILL_ATTN_OUTPUT);
    bool same = true;
    flow_step_give(step, STEP_DECODE, true);
    for (int64_t i = 0; same && i < (is_slow_run() ? 3 : COUNT(counts)); i++) {
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
    const struct fenced_tensor *output = flow_step_tensor(step, KVMILL_ATTN_OUTPUT);
    size_t bytes = output->dl.dtype.bits / 8;
    *size = (size_t)((output->shape[1] - 1) * output->strides[1] + output->shape[2]) * bytes;
    return (unsigned char *)flow_step_data(step, KVMILL_ATTN_OUTPUT) +
           (size_t)(request * output->strides[0]) * bytes;
}

/* Dense attention is right, and a request that is whole has its bits. */
static bool dense_agrees(struct flow_step *step, const kvmill_plan_options *options, int *whole,
                         struct dice *dice) {
    unsigned char *output = bytes_of(step, KVMILL_ATTN_OUTPUT);
    size_t before = 0, size;
    flow_step_restore(step);
    flow_step_give(step, STEP_ATTEND, false);
    bool right = flow_step_runs(step, STEP_ATTEND, options, 2, dice);
    for (int64_t b = 0; right && b < step->attention.sequences; b++) {
        unsigned char *row = request_at(step, b, &size);
        before = (size_t)(row - flow_step_tensor(step, KVMILL_ATTN_OUTPUT)->fence.data);
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
    int64_t count = is_slow_run() ? 14 : 126;
    bool passed[TESTS] = {true, true, true, true, true};
    int whole = 0;
    for (int64_t i = 0; i < count; i++) {
        struct flow_step step;
        char words[32];
        snprintf(words, sizeof words, "case %" PRId64, i);
        struct dice dice = dice_for(seed, words);
        open_case(&step, i, &dice);
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
    open_case(&step, number, &dice);
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
    struct flow_step step = {
        .select = {.topk_val = 20, .reserved_bos = 1, .reserved_eos = 1, .dense_below = 6000},
        .field_type = {kDLFloat, 32, 1}};
    struct attention *a = &step.attention;
    choose_attention(&a->op, 0, &dice);
    a->op.num_heads = 4;
    a->op.num_kv_heads = 1;
    a->op.head_dim = 32;
    a->op.page_size = 64;
    a->op.value_differs = a->op.partial = 0;
    a->op.window = 0;
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
