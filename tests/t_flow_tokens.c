/* New tokens of sparse flows.  Appending in any chunks, over older tokens, too, leaves the oracles'
   rows and summaries, and changes no other byte; several tokens at a time attend with the bits of
   MultiHeadCacheAttention.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "flow_step.h"
#include "packs.h"

/* ---- Cases ---- */

/* Opens case `number`; some tokens of each request are new. */
static void open_case(struct flow_step *step, int64_t number, struct dice *dice) {
    struct attention *a = &step->attention;
    flow_step_choose(step, number, dice);
    a->query_size = 3;
    for (int64_t b = 0; b < a->sequences; b++) {
        int64_t most = a->start[b] < 40 ? a->start[b] : 40;
        a->tokens[b] = dice_once_in(dice, 4) ? most : dice_range(dice, 0, most);
        a->start[b] -= a->tokens[b];
    }
    if (step->select.reserved_eos > 0)
        step->summary = number % 2 ? "incremental" : "on_complete";
    flow_step_open(step, dice);
}

/* ---- Appending ---- */

/* Counts the rows of requests' pages that exist before the new tokens. */
static void count_old_rows(struct flow_pool *pool) {
    struct flow_step *step = pool->step;
    int64_t size = flow_step_block_size(step);
    for (int64_t b = 0; b < step->attention.sequences; b++)
        for (int64_t t = 0; t < step->attention.start[b]; t++)
            pool->rows[flow_step_block(step, b, t / size)] = t % size + 1;
}

/* Returns how many rows a page has from its first on, without gaps. */
static int64_t rows_of_page(const struct flow_pool *pool, int64_t page) {
    int64_t size = flow_step_block_size(pool->step), blocks = flow_step_page_blocks(pool->step);
    int64_t rows = 0;
    for (int64_t i = 0; i < blocks && rows == i * size; i++)
        rows += pool->rows[page * blocks + i];
    return rows;
}

/* Chooses slots in any pages: each page is continued, or begun again before its end; some tokens
   have no slot. */
static void choose_slots(struct flow_pool *pool, int64_t *slot, int64_t tokens, struct dice *dice) {
    int64_t size = pool->step->attention.op.page_size, done = 0;
    int64_t pages = pool->step->limits.cache_pages;
    FREED int64_t *order = take(pages, sizeof *order);
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
}

static bool appends(struct flow_step *step, const kvmill_plan_options *options, struct dice *dice) {
    OWN(flow_pool_close) struct flow_pool pool;
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
    return right;
}

/* ---- Several tokens at a time ---- */

/* Runs dense attention.  The cache keeps its new tokens, for the flow, and `expected` its outputs'
   bits. */
static bool runs_dense(struct attention *a, const kvmill_plan_options *options, struct dice *dice) {
    attention_expect(a, dice);
    return attention_runs_right(a, options, 0, dice);
}

/* Attends with the tensors of MultiHeadCacheAttention; its outputs have their previous contents. */
static bool prefills(struct flow_step *step, const kvmill_plan_options *options,
                     struct dice *dice) {
    enum { OUTPUT = KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, OUTPUTS = 2 };
    static const int theirs[] = {KVMILL_CACHE_ATTENTION_QUERY, OUTPUT, KVMILL_CACHE_ATTENTION_LSE};
    struct attention *a = &step->attention;
    bool right = runs_dense(a, options, dice);
    tensors_restore(&a->tensor[OUTPUT], &a->before[OUTPUT], OUTPUTS);
    flow_step_give(step, OP_FLOW_ATTEND, false);
    for (int i = 0; i < 2 + a->op.partial; i++)
        step->given[theirs[i]] = &a->tensor[theirs[i]].dl;
    step->given[KVMILL_CACHE_ATTENTION_SEQSTARTS] =
        &step->tensor[KVMILL_CACHE_ATTENTION_SEQSTARTS].dl;
    return right &&
           flow_step_runs(step, OP_FLOW_ATTEND, options, (int)dice_range(dice, 0, 3), dice) &&
           tensors_are_kept(&a->tensor[OUTPUT], &a->expected[OUTPUT], OUTPUTS, 0, a->words);
}

static void test_cases(const char *word, const char *name, int64_t count,
                       bool holds(struct flow_step *, const kvmill_plan_options *, struct dice *)) {
    bool right = true;
    count = is_slow_run() ? few_cases(9) : count;
    for (int64_t n = 0; n < count; n++) {
        OWN(flow_step_close) struct flow_step step;
        char words[32];
        snprintf(words, sizeof words, "%s %" PRId64, word, n);
        struct dice dice = dice_for(words);
        open_case(&step, n, &dice);
        if (!holds(&step, &two_threads[n % 3 != 0], &dice)) {
            diag("case %" PRId64 ": %s, scope %s", n, step.attention.words, step.select.scope);
            right = false;
        }
    }
    ok(right, "%s, %" PRId64 " cases", name, count);
}

TEST(all_cases) {
    test_cases("append", "rows and summaries of tokens in four chunks", 63, appends);
    test_cases("prefill", "several tokens have the bits of MultiHeadCacheAttention", 45, prefills);
}
