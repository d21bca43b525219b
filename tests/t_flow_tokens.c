/* New tokens of sparse flows: appended in any chunks, where others were, they leave the rows and
   the summaries that the oracles say, and no other byte changes; several tokens at a time attend
   with the bits of MultiHeadCacheAttention; and what is attended to in two parts can be merged.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "flow_step.h"
#include "packs.h"
#include "plans.h"

/* ---- Cases ---- */

/* Some of each request's tokens are new. */
static void open_case(struct flow_step *step, int64_t number, struct dice *dice) {
    struct attention *a = &step->attention;
    flow_step_choose(step, number, dice);
    a->query_size = 3;
    for (int64_t b = 0; b < a->sequences; b++) {
        int64_t most = a->start[b] < 40 ? a->start[b] : 40;
        a->tokens[b] = dice_once_in(dice, 4) ? most : dice_range(dice, 0, most);
        a->start[b] -= a->tokens[b];
    }
    step->summary = number % 2 ? "incremental" : "on_complete";
    flow_step_open(step, dice);
}

/* ---- Appending ---- */

/* What the rows of the pages of requests hold was there before. */
static void count_old_rows(struct flow_pool *pool) {
    struct flow_step *step = pool->step;
    int64_t size = flow_step_block_size(step);
    for (int64_t b = 0; b < step->attention.sequences; b++)
        for (int64_t t = 0; t < step->attention.start[b]; t++)
            pool->rows[flow_step_block(step, b, t / size)] = t % size + 1;
}

/* Rows that are there from the page's first on, as far as its blocks are whole. */
static int64_t rows_of_page(const struct flow_pool *pool, int64_t page) {
    int64_t size = flow_step_block_size(pool->step), blocks = flow_step_page_blocks(pool->step);
    int64_t rows = 0;
    for (int64_t i = 0; i < blocks && rows == i * size; i++)
        rows += pool->rows[page * blocks + i];
    return rows;
}

/* Tokens to any pages, each continued, or begun anew somewhere before its end; some go nowhere. */
static void choose_slots(struct flow_pool *pool, int64_t *slot, int64_t tokens, struct dice *dice) {
    int64_t size = pool->step->attention.op.page_size, done = 0;
    int64_t pages = pool->step->limits.cache_pages;
    int64_t *order = take(pages, sizeof *order);
    dice_order(dice, order, pages);
    for (int64_t p = 0; done < tokens; p++) {
        int64_t page = p < pages ? order[p] : -1;
        int64_t rows = page < 0 ? size : rows_of_page(pool, page);
        int64_t first = rows == size || dice_once_in(dice, 4) ? dice_range(dice, 0, rows) : rows;
        int64_t count = dice_once_in(dice, 2) ? size - first : dice_range(dice, 0, size - first);
        for (int64_t i = 0; i < count && done < tokens; i++)
            slot[done++] = page < 0 ? -1 : page * size + first + i;
        if (done < tokens && (page < 0 || dice_once_in(dice, 3)))
            slot[done++] = -1;
    }
    free(order);
}

static bool appends(struct flow_step *step, const kvmill_plan_options *options, struct dice *dice) {
    struct flow_pool pool;
    bool right = true;
    flow_pool_open(step, &pool);
    count_old_rows(&pool);
    for (int chunk = 0; right && chunk < 4; chunk++) {
        choose_slots(&pool, flow_step_data(step, KVMILL_FLOW_SLOT_MAPPING),
                     step->attention.seqstarts[step->attention.sequences], dice);
        right = flow_pool_appends(&pool, options, dice);
        if (!right)
            diag("chunk %d", chunk);
    }
    flow_pool_close(&pool);
    return right;
}

/* ---- Several tokens at a time ---- */

/* It leaves the new tokens in the cache, where the flow finds them. */
static bool runs_dense(struct attention *a, const kvmill_plan_options *options, struct dice *dice) {
    attention_expect(a, dice);
    kvmill_plan *plan = attention_plan_and_run(a, options, 0, dice);
    kvmill_plan_destroy(plan);
    return plan != NULL && attention_is_right(a);
}

/* The same tensors as MultiHeadCacheAttention's, with what was in its outputs before. */
static bool prefills(struct flow_step *step, const kvmill_plan_options *options,
                     struct dice *dice) {
    static const int theirs[] = {KVMILL_CACHE_ATTENTION_QUERY, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT,
                                 KVMILL_CACHE_ATTENTION_LSE};
    struct attention *a = &step->attention;
    void *outputs[3] = {NULL};
    bool right = runs_dense(a, options, dice);
    flow_step_give(step, STEP_ATTEND, false);
    for (int i = 0; i < 2 + a->op.partial; i++) {
        struct fence *fence = &a->tensor[theirs[i]].fence;
        outputs[i] = take((int64_t)fence->size, 1);
        memcpy(outputs[i], fence->data, fence->size);
        memcpy(fence->data, a->before[theirs[i]].fence.data, fence->size);
        step->given[theirs[i]] = &a->tensor[theirs[i]].dl;
    }
    step->given[KVMILL_CACHE_ATTENTION_SEQSTARTS] =
        &step->tensor[KVMILL_CACHE_ATTENTION_SEQSTARTS].dl;
    right = right && flow_step_runs(step, STEP_ATTEND, options, (int)dice_range(dice, 0, 3), dice);
    for (int i = 0; i < 2 + a->op.partial; i++) {
        const struct fence *fence = &a->tensor[theirs[i]].fence;
        right = right && memcmp(fence->data, outputs[i], fence->size) == 0;
        free(outputs[i]);
    }
    return right;
}

static void test_cases(const char *word, const char *name, int64_t count,
                       bool holds(struct flow_step *, const kvmill_plan_options *, struct dice *)) {
    bool right = true;
    count = is_slow_run() ? few_cases(9) : count;
    for (int64_t n = 0; n < count; n++) {
        struct flow_step step;
        char words[32];
        snprintf(words, sizeof words, "%s %" PRId64, word, n);
        struct dice dice = dice_for(words);
        open_case(&step, n, &dice);
        if (!holds(&step, &two_threads[n % 3 != 0], &dice)) {
            diag("case %" PRId64 ": %s, scope %s", n, step.attention.words, step.select.scope);
            right = false;
        }
        flow_step_close(&step);
    }
    ok(right, "%s, %" PRId64 " cases", name, count);
}

/* ---- In two parts ---- */

/* Part of a list as a request of its own: its first `count` pages, or those after them. */
struct half {
    int64_t length, indptr[2], starts[2];
    int32_t ids[64], list[64];
    float output[8 * 64], lse[8];
};

enum { HALF_HEADS = 8, HALF_DIM = 64 };

/* Pages of the list as a request: but for the last of all, all of them are whole. */
static void set_half(struct flow_step *step, int64_t first, int64_t last, struct half *half) {
    int64_t size = step->attention.op.page_size;
    *half = (struct half){.indptr = {0, last - first}};
    for (int64_t i = first; i < last; i++) {
        int64_t page = step->list[i], rows = step->length[0] - page * size;
        half->ids[i - first] = *flow_step_page(step, 0, page);
        half->length += rows < size ? rows : size;
    }
}

static bool attend_half(struct flow_step *step, struct half *half, struct dice *dice) {
    int64_t one = 1, two = 2, shape[] = {1, HALF_HEADS, HALF_DIM};
    const DLTensor length = dense_tensor(i64, 1, &one, &half->length),
                   indptr = dense_tensor(i64, 1, &two, half->indptr),
                   ids = dense_tensor(i32, 1, &half->indptr[1], half->ids),
                   output = dense_tensor(f32, 3, shape, half->output),
                   lse = dense_tensor(f32, 2, shape, half->lse);
    flow_step_give(step, STEP_ATTEND, false);
    step->given[KVMILL_FLOW_SEQ_LEN] = &length;
    step->given[KVMILL_FLOW_PAGE_INDPTR] = &indptr;
    step->given[KVMILL_FLOW_PAGE_IDS] = &ids;
    step->given[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT] = &output;
    step->given[KVMILL_CACHE_ATTENTION_LSE] = &lse;
    return flow_step_runs(step, STEP_ATTEND, &two_threads[1], 0, dice);
}

/* A list cut in two anywhere: both halves together are what the oracle says of the whole. */
static bool merges(struct flow_step *step, int64_t cut, struct dice *dice) {
    struct half half[2];
    const float *outputs[] = {half[0].output, half[1].output};
    const float *lses[] = {half[0].lse, half[1].lse};
    float output[HALF_HEADS * HALF_DIM], lse[HALF_HEADS];
    set_half(step, 0, cut, &half[0]);
    set_half(step, cut, step->starts[1], &half[1]);
    if (!attend_half(step, &half[0], dice) || !attend_half(step, &half[1], dice))
        return false;
    kvmill_merge_partials(2, outputs, lses, HALF_HEADS, HALF_DIM, output, lse);
    for (int64_t n = 0; n < HALF_HEADS; n++) {
        for (int64_t d = 0; d < HALF_DIM; d++)
            if (!(fabs(output[n * HALF_DIM + d] - step->result.output[n * HALF_DIM + d]) <=
                  4 * step->result.output_error[n * HALF_DIM + d]))
                return false;
        if (!(fabs(lse[n] - step->result.lse[n]) <= 4 * step->result.lse_error[n] + 1e-7))
            return false;
    }
    return true;
}

TEST(halves) {
    struct dice dice = dice_for("halves");
    struct flow_step step;
    flow_step_set(&step, "num_heads=8 head_dim=64 cache_layout=0 partial=1 start=311 topk_val=9 "
                         "reserved_bos=1 scope=request");
    flow_step_open(&step, &dice);
    flow_step_expect(&step, false);
    bool right = step.starts[1] == 11;
    for (int64_t cut = 0; right && cut <= 11; cut++)
        right = merges(&step, cut, &dice);
    ok(right, "two parts of a list, merged, are the whole");
    flow_step_close(&step);
}

TEST(all_cases) {
    test_cases("append", "rows and summaries of tokens in four chunks", 63, appends);
    test_cases("prefill", "several tokens have the bits of MultiHeadCacheAttention", 45, prefills);
}
