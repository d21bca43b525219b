/* New tokens of sparse flows: appended in any chunks, where others were, they leave the rows and
   the summaries that the oracles say, and no other byte changes; several tokens at a time attend
   with the bits of MultiHeadCacheAttention; and what is attended to in two parts can be merged.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_step.h"
#include "oracle/flow.h"
#include "tap.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};
static const kvmill_plan_options options_of[] = {
    {.struct_size = sizeof(kvmill_plan_options), .threads = 2},
    {.struct_size = sizeof(kvmill_plan_options), .packs = packs, .pack_count = 2, .threads = 2}};

static void *take(int64_t count, size_t bytes) {
    void *memory = calloc((size_t)count + 1, bytes);
    if (memory == NULL)
        bail_out("out of memory");
    return memory;
}

/* NULL where there is no tensor. */
static void *copy_of(const struct fenced_tensor *tensor) {
    if (tensor->fence.pages == NULL)
        return NULL;
    void *copy = take((int64_t)tensor->fence.size, 1);
    memcpy(copy, tensor->fence.data, tensor->fence.size);
    return copy;
}

static bool has_bytes(const struct fenced_tensor *tensor, const void *bytes) {
    return bytes == NULL || memcmp(tensor->fence.data, bytes, tensor->fence.size) == 0;
}

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

/* ---- Rows and summaries as they must be ---- */

/* Rows that are in each page of the pool; what a field holds is in its tensor's place. */
struct pool {
    struct flow_step *step;
    int64_t pages, *rows;
    unsigned char *field[FLOW_STEP_FIELDS];
};

static void pool_open(struct flow_step *step, struct pool *pool) {
    *pool = (struct pool){.step = step, .pages = step->limits.cache_pages};
    pool->rows = take(pool->pages, sizeof *pool->rows);
    for (int i = 0; i < FLOW_STEP_FIELDS; i++)
        pool->field[i] = copy_of(flow_step_tensor(step, KVMILL_FLOW_FIELDS + i));
}

static void pool_close(struct pool *pool) {
    free(pool->rows);
    for (int i = 0; i < FLOW_STEP_FIELDS; i++)
        free(pool->field[i]);
}

/* What the rows of the pages of requests hold was there before. */
static void count_old_rows(struct pool *pool) {
    struct flow_step *step = pool->step;
    int64_t size = step->attention.op.page_size;
    for (int64_t b = 0; b < step->attention.sequences; b++)
        for (int64_t t = 0; t < step->attention.start[b]; t++)
            pool->rows[*flow_step_page(step, b, t / size)] = t % size + 1;
}

static void write_row(const struct oracle_attention *problem, int64_t token, int64_t slot,
                      int64_t head) {
    for (int v = 0; v < 2; v++) {
        const struct oracle_side *side = v ? &problem->value : &problem->key;
        const unsigned char *current = v ? problem->current_value : problem->current_key;
        double numbers[512];
        for (int64_t i = 0; i < side->dim; i++)
            numbers[i] = oracle_get(problem->activation, current,
                                    (token * problem->kv_heads + head) * side->dim + i);
        int64_t row = oracle_row(&problem->cache, 0, problem->layer, v && problem->cache.sides == 2,
                                 slot, head);
        oracle_write_row(side, problem->activation, row, numbers);
    }
}

/* K of a page as float32 arithmetic sees it. */
static double *read_page(const struct oracle_attention *problem, int64_t first, int64_t rows,
                         int64_t head) {
    int64_t dim = problem->key.dim;
    double *numbers = take(rows * dim, sizeof *numbers);
    for (int64_t r = 0; r < rows; r++)
        oracle_read_row_exact(&problem->key,
                              oracle_row(&problem->cache, 0, problem->layer, 0, first + r, head),
                              numbers + r * dim);
    for (int64_t i = 0; i < rows * dim; i++)
        numbers[i] = (float)numbers[i];
    return numbers;
}

static void summarise(struct pool *pool, const struct oracle_attention *problem, int64_t page,
                      int64_t head) {
    const kvmill_flow *flow = &pool->step->flow;
    int64_t dim = problem->key.dim, number = (page * problem->kv_heads + head) * dim;
    double *key = read_page(problem, page * flow->attention->page_size, pool->rows[page], head);
    double *fields[] = {take(dim, sizeof(double)), take(dim, sizeof(double))};
    oracle_summarise(flow, pool->rows[page], key, NULL, fields);
    for (int f = 0; f < FLOW_STEP_FIELDS; f++) {
        for (int64_t i = 0; i < dim; i++)
            oracle_put(attention_type(pool->step->field_type), pool->field[f], number + i,
                       fields[f][i]);
        free(fields[f]);
    }
    free(key);
}

/* All tokens of a call one by one. */
static void expect_append(struct pool *pool, const int64_t *slot, int64_t tokens) {
    struct flow_step *step = pool->step;
    int64_t size = step->attention.op.page_size;
    const struct oracle_attention problem = attention_problem(&step->attention);
    bool grows = strcmp(step->summary, "incremental") == 0;
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t h = 0; slot[t] >= 0 && h < problem.kv_heads; h++) {
            write_row(&problem, t, slot[t], h);
            pool->rows[slot[t] / size] = slot[t] % size + 1;
        }
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t h = 0; slot[t] >= 0 && !step->skipped && h < problem.kv_heads; h++)
            if (grows || pool->rows[slot[t] / size] == size)
                summarise(pool, &problem, slot[t] / size, h);
}

/* ---- Appending ---- */

/* Tokens to any pages, each continued, or begun anew somewhere before its end; some go nowhere. */
static void choose_slots(struct pool *pool, int64_t *slot, int64_t tokens, struct dice *dice) {
    int64_t size = pool->step->attention.op.page_size, done = 0;
    int64_t *order = take(pool->pages, sizeof *order);
    dice_order(dice, order, pool->pages);
    for (int64_t p = 0; done < tokens; p++) {
        int64_t page = p < pool->pages ? order[p] : -1, rows = page < 0 ? size : pool->rows[page];
        int64_t first = rows == size || dice_once_in(dice, 4) ? dice_range(dice, 0, rows) : rows;
        int64_t count = dice_once_in(dice, 2) ? size - first : dice_range(dice, 0, size - first);
        for (int64_t i = 0; i < count && done < tokens; i++)
            slot[done++] = page < 0 ? -1 : page * size + first + i;
        if (done < tokens && (page < 0 || dice_once_in(dice, 3)))
            slot[done++] = -1;
    }
    free(order);
}

enum { CACHES = KVMILL_CACHE_ATTENTION_VALUE_SCALE - KVMILL_CACHE_ATTENTION_CACHE + 1 };

/* Rows are put where they must be into what was there before; leaves all as it was before. */
static bool are_rows_right(struct flow_step *step) {
    void *have[CACHES];
    bool right = true;
    for (int i = 0; i < CACHES; i++)
        have[i] = copy_of(&step->attention.tensor[KVMILL_CACHE_ATTENTION_CACHE + i]);
    flow_step_restore(step);
    for (int i = 0; i < CACHES; i++) {
        const struct fenced_tensor *tensor =
            &step->attention.tensor[KVMILL_CACHE_ATTENTION_CACHE + i];
        if (have[i] != NULL)
            attention_refresh(&step->attention, KVMILL_CACHE_ATTENTION_CACHE + i);
        if (!has_bytes(tensor, have[i])) {
            diag("%s is not as wanted", attention_tensor_name(KVMILL_CACHE_ATTENTION_CACHE + i));
            right = false;
        }
        free(have[i]);
    }
    return right;
}

static bool are_fields_right(struct pool *pool) {
    bool right = true;
    for (int i = 0; i < FLOW_STEP_FIELDS; i++)
        if (!has_bytes(flow_step_tensor(pool->step, KVMILL_FLOW_FIELDS + i), pool->field[i])) {
            diag("%s is not as wanted", pool->step->fields[i].name);
            right = false;
        }
    return right;
}

/* The fields first: comparing caches puts all back. */
static bool appends(struct pool *pool, const kvmill_plan_options *options, struct dice *dice) {
    struct flow_step *step = pool->step;
    int64_t tokens = step->attention.seqstarts[step->attention.sequences];
    int64_t *slot = flow_step_data(step, KVMILL_FLOW_SLOT_MAPPING);
    choose_slots(pool, slot, tokens, dice);
    flow_step_keep(step, dice);
    expect_append(pool, slot, tokens);
    flow_step_give(step, STEP_APPEND, true);
    bool right = flow_step_runs(step, STEP_APPEND, options, (int)dice_range(dice, 0, 3), dice) &&
                 are_fields_right(pool);
    right = are_rows_right(step) && right;
    for (int i = 0; i < FLOW_STEP_FIELDS; i++) {
        struct fence *field = &flow_step_tensor(step, KVMILL_FLOW_FIELDS + i)->fence;
        memcpy(field->data, pool->field[i], field->size);
    }
    return right;
}

static void test_append(uint64_t seed) {
    int64_t count = is_slow_run() ? few_cases(9) : 63, chunks = 0;
    bool right = true;
    for (int64_t n = 0; n < count; n++) {
        struct flow_step step;
        struct pool pool;
        char words[32];
        snprintf(words, sizeof words, "append %" PRId64, n);
        struct dice dice = dice_for(seed, words);
        open_case(&step, n, &dice);
        pool_open(&step, &pool);
        count_old_rows(&pool);
        for (int chunk = 0; chunk < 4; chunk++, chunks++)
            if (!appends(&pool, &options_of[n % 3 != 0], &dice)) {
                diag("case %" PRId64 ", chunk %d: %s", n, chunk, step.attention.words);
                right = false;
            }
        pool_close(&pool);
        flow_step_close(&step);
    }
    ok(right, "rows and summaries of tokens, %" PRId64 " chunks", chunks);
}

/* ---- Several tokens at a time ---- */

/* The bits of what the step of a flow put there, and of what MultiHeadCacheAttention did. */
static bool is_same_output(struct flow_step *step, void *const outputs[2]) {
    bool same = true;
    for (int i = 0; i < 2; i++)
        if (outputs[i] != NULL)
            same = has_bytes(&step->attention.tensor[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT + i],
                             outputs[i]) &&
                   same;
    return same;
}

/* It leaves the new tokens in the cache, where the flow finds them. */
static bool runs_dense(struct attention *a, const kvmill_plan_options *options, struct dice *dice) {
    kvmill_error error;
    kvmill_plan *plan;
    struct fence room;
    attention_expect(a, dice);
    if (attention_plan(a, options, &plan, &error) != KVMILL_OK)
        bail_out("%s", error.message);
    fence_open(&room, (kvmill_plan_workspace_size(plan) + 63) / 64 * 64, 0, FENCE_ABOVE, dice);
    bool ran = attention_run(a, plan, room.data, 0, dice, &error) == KVMILL_OK;
    fence_close(&room);
    kvmill_plan_destroy(plan);
    return ran && attention_is_right(a);
}

static bool prefills(struct flow_step *step, const kvmill_plan_options *options,
                     struct dice *dice) {
    static const int theirs[] = {KVMILL_CACHE_ATTENTION_QUERY, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT,
                                 KVMILL_CACHE_ATTENTION_LSE};
    struct attention *a = &step->attention;
    void *outputs[2] = {NULL, NULL};
    bool right = runs_dense(a, options, dice);
    for (int i = 0; i < 1 + a->op.partial; i++) {
        outputs[i] = copy_of(&a->tensor[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT + i]);
        memcpy(a->tensor[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT + i].fence.data,
               a->before[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT + i].fence.data,
               a->tensor[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT + i].fence.size);
    }
    flow_step_give(step, STEP_ATTEND, false);
    for (int i = 0; i < 2 + a->op.partial; i++)
        step->given[theirs[i]] = &a->tensor[theirs[i]].dl;
    step->given[KVMILL_CACHE_ATTENTION_SEQSTARTS] =
        &step->tensor[KVMILL_CACHE_ATTENTION_SEQSTARTS].dl;
    right = right &&
            flow_step_runs(step, STEP_ATTEND, options, (int)dice_range(dice, 0, 3), dice) &&
            is_same_output(step, outputs);
    free(outputs[0]);
    free(outputs[1]);
    return right;
}

static void test_prefill(uint64_t seed) {
    int64_t count = is_slow_run() ? few_cases(9) : 54;
    bool right = true;
    for (int64_t n = 0; n < count; n++) {
        struct flow_step step;
        char words[32];
        snprintf(words, sizeof words, "prefill %" PRId64, n);
        struct dice dice = dice_for(seed, words);
        open_case(&step, n, &dice);
        if (!prefills(&step, &options_of[n % 3 != 0], &dice)) {
            diag("case %" PRId64 ": %s, scope %s", n, step.attention.words, step.select.scope);
            right = false;
        }
        flow_step_close(&step);
    }
    ok(right, "several tokens have the bits of MultiHeadCacheAttention, %" PRId64 " cases", count);
}

/* ---- In two parts ---- */

/* A list of a request of its own: its first `count` pages, or those behind them. */
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

static DLTensor tensor_of(void *data, DLDataType type, int64_t *count, int rank) {
    return (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = type, .shape = count};
}

static bool attend_half(struct flow_step *step, struct half *half, struct dice *dice) {
    const DLDataType f32 = {kDLFloat, 32, 1}, i64 = {kDLInt, 64, 1}, i32 = {kDLInt, 32, 1};
    int64_t one = 1, two = 2, shape[] = {1, HALF_HEADS, HALF_DIM};
    const DLTensor length = tensor_of(&half->length, i64, &one, 1),
                   indptr = tensor_of(half->indptr, i64, &two, 1),
                   ids = tensor_of(half->ids, i32, &half->indptr[1], 1),
                   output = tensor_of(half->output, f32, shape, 3),
                   lse = tensor_of(half->lse, f32, shape, 2);
    flow_step_give(step, STEP_ATTEND, false);
    step->given[KVMILL_FLOW_SEQ_LEN] = &length;
    step->given[KVMILL_FLOW_PAGE_INDPTR] = &indptr;
    step->given[KVMILL_FLOW_PAGE_IDS] = &ids;
    step->given[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT] = &output;
    step->given[KVMILL_CACHE_ATTENTION_LSE] = &lse;
    return flow_step_runs(step, STEP_ATTEND, &options_of[1], 0, dice);
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

static void test_halves(uint64_t seed) {
    struct dice dice = dice_for(seed, "halves");
    struct flow_step step = {
        .select = {.topk_val = 9, .reserved_bos = 1, .reserved_eos = 1, .scope = "request"},
        .field_type = {kDLFloat, 32, 1}};
    kvmill_cache_attention *op = &step.attention.op;
    kvmill_cache_attention_init(op, sizeof *op);
    op->dynamic_batching = op->cache_mode = op->partial = 1;
    op->num_heads = HALF_HEADS;
    op->num_kv_heads = 2;
    op->head_dim = HALF_DIM;
    op->page_size = 16;
    op->T1 = op->T2 = op->T3 = step.field_type;
    step.attention.sequences = 1;
    step.attention.start[0] = 311;
    flow_step_open(&step, &dice);
    flow_step_expect(&step, false);
    bool right = step.starts[1] == 11;
    for (int64_t cut = 0; right && cut <= 11; cut++)
        right = merges(&step, cut, &dice);
    ok(right, "two parts of a list, merged, are the whole");
    flow_step_close(&step);
}

int main(void) {
    uint64_t seed = dice_seed();
    test_append(seed);
    test_prefill(seed);
    test_halves(seed);
    return done_testing();
}
