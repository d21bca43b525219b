/* What a step that appends must write, by the oracles: the rows of the cache, and the fields of its
   pages.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_step.h"
#include "oracle/oracle_flow.h"

enum { CACHES = KVMILL_CACHE_ATTENTION_VALUE_SCALE - KVMILL_CACHE_ATTENTION_CACHE + 1 };

void flow_pool_open(struct flow_step *step, struct flow_pool *pool) {
    *pool = (struct flow_pool){.step = step,
                               .blocks = step->limits.cache_pages * flow_step_page_blocks(step)};
    pool->rows = take(pool->blocks, sizeof *pool->rows);
    for (size_t i = 0; i < step->flow.field_count; i++)
        pool->field[i] = flow_step_copy(step, KVMILL_FLOW_FIELDS + (int)i);
}

void flow_pool_close(struct flow_pool *pool) {
    free(pool->rows);
    for (int i = 0; i < MOST_STEP_FIELDS; i++)
        free(pool->field[i]);
}

/* ---- Rows ---- */

void flow_step_read_floats(const struct oracle_attention *problem, int v, int64_t slot,
                           int64_t head, double *numbers) {
    oracle_see_row(problem, v, 0, slot, head, numbers);
    for (int64_t i = 0; i < (v ? problem->value.dim : problem->key.dim); i++)
        numbers[i] = (float)numbers[i];
}

/* ---- Fields ---- */

/* Writes row `row` of a field from activations, and its scales. */
static void put_codes(struct flow_pool *pool, int f, int64_t row, const unsigned char *from) {
    const struct flow_step *step = pool->step;
    int scales = oracle_scales_field(&step->flow, (size_t)f);
    int64_t groups = step->fields[scales].columns, group = step->fields[f].columns / groups;
    enum oracle_type type = attention_type(step->fields[f].dtype);
    FREED double *x = take(group, 8), *codes = take(group, 8);
    for (int64_t g = 0; g < groups; g++) {
        for (int64_t i = 0; i < group; i++)
            x[i] = oracle_get(attention_type(step->attention.op.T1), from, g * group + i);
        double scale =
            oracle_quantise(step->fields[f].dtype, step->flow.powers >> f & 1, x, group, codes);
        oracle_put(ORACLE_F32, pool->field[scales], row * groups + g, scale);
        for (int64_t i = 0; i < group; i++)
            oracle_put(type, pool->field[f], (row * groups + g) * group + i, codes[i]);
    }
}

/* Writes the rows of fields that come with a token. */
static void put_new_rows(struct flow_pool *pool, int64_t token, int64_t slot, int64_t head) {
    struct flow_step *step = pool->step;
    int64_t size = flow_step_block_size(step);
    for (int f = 0; f < (int)step->flow.field_count; f++) {
        int64_t bytes = step->fields[f].columns * step->fields[f].dtype.bits / 8;
        int64_t row = flow_step_matrix(step, f, slot / size, head) * size + slot % size;
        if (!(step->flow.appended >> f & 1) || step->skipped)
            continue;
        if (oracle_scales_field(&step->flow, (size_t)f) >= 0)
            put_codes(pool, f, row, flow_step_new_row(step, f, token, head));
        else
            memcpy(pool->field[f] + row * bytes, flow_step_new_row(step, f, token, head),
                   (size_t)bytes);
    }
}

static double *read_block(const struct flow_pool *pool, const struct oracle_attention *problem,
                          int v, int64_t block, int64_t head) {
    int64_t dim = v ? problem->value.dim : problem->key.dim;
    int64_t first = block * flow_step_block_size(pool->step);
    double *numbers = take(pool->rows[block] * dim, sizeof *numbers);
    for (int64_t r = 0; r < pool->rows[block]; r++)
        flow_step_read_floats(problem, v, first + r, head, numbers + r * dim);
    return numbers;
}

/* The place of rows that the program writes. */
struct rows_keeper {
    struct oracle_keeper keeper;
    const struct oracle_attention *problem;
    int64_t slot, rows, head;
};

/* Writes rows as append does, and reads them back. */
static void keep_rows(const struct oracle_keeper *keeper, int v, double *numbers) {
    const struct rows_keeper *known = (const struct rows_keeper *)(const void *)keeper;
    const struct oracle_side *side = v ? &known->problem->value : &known->problem->key;
    for (int64_t r = 0; r < known->rows; r++, numbers += side->dim) {
        for (int64_t i = 0; i < side->dim; i++)
            numbers[i] = oracle_round(known->problem->activation, numbers[i]);
        oracle_write_row(side, known->problem->activation,
                         oracle_row_of(known->problem, v, 0, known->slot + r, known->head),
                         numbers);
        flow_step_read_floats(known->problem, v, known->slot + r, known->head, numbers);
    }
}

static void summarise(struct flow_pool *pool, const struct oracle_attention *problem, int64_t block,
                      int64_t head) {
    const struct rows_keeper keeper = {
        {keep_rows}, problem, block * flow_step_block_size(pool->step), pool->rows[block], head};
    const kvmill_flow *flow = &pool->step->flow;
    double *key = read_block(pool, problem, 0, block, head), *fields[MOST_STEP_FIELDS];
    FREED double *value = read_block(pool, problem, 1, block, head);
    for (size_t f = 0; f < flow->field_count; f++) {
        int64_t count = flow->fields[f].rows * flow->fields[f].columns;
        fields[f] = take(count, 8);
        for (int64_t i = 0; oracle_grows(flow, f) && i < count; i++)
            fields[f][i] =
                oracle_get(attention_type(flow->fields[f].dtype), pool->field[f],
                           flow_step_matrix(pool->step, (int)f, block, head) * count + i);
    }
    oracle_summarise(flow, pool->rows[block], key, value, fields, &keeper.keeper);
    for (size_t f = 0; f < flow->field_count; f++) {
        int64_t count = flow->fields[f].rows * flow->fields[f].columns;
        for (int64_t i = 0; !oracle_grows(flow, f) && i < count; i++)
            oracle_put(attention_type(flow->fields[f].dtype), pool->field[f],
                       flow_step_matrix(pool->step, (int)f, block, head) * count + i, fields[f][i]);
        free(fields[f]);
    }
    free(key);
}

/* Computes the summaries of the blocks whose last rows are new. */
static void expect_summaries(struct flow_pool *pool, const int64_t *slot, int64_t tokens) {
    struct flow_step *step = pool->step;
    int64_t size = flow_step_block_size(step);
    const struct oracle_attention problem = attention_problem(&step->attention);
    bool grows = step->summary != NULL && strcmp(step->summary, "incremental") == 0;
    for (int64_t t = 0; t < tokens; t++) {
        bool ends = t + 1 == tokens || slot[t + 1] < 0 || slot[t + 1] / size != slot[t] / size;
        for (int64_t h = 0; slot[t] >= 0 && ends && !step->skipped && h < problem.kv_heads; h++)
            if (grows || pool->rows[slot[t] / size] == size)
                summarise(pool, &problem, slot[t] / size, h);
    }
}

/* Appends all tokens of a call one by one. */
static void expect_append(struct flow_pool *pool, const int64_t *slot, int64_t tokens) {
    struct flow_step *step = pool->step;
    int64_t size = flow_step_block_size(step);
    const struct oracle_attention problem = attention_problem(&step->attention);
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t h = 0; slot[t] >= 0 && h < problem.kv_heads; h++) {
            oracle_store_row(&problem, 0, t, h, slot[t]);
            put_new_rows(pool, t, slot[t], h);
            pool->rows[slot[t] / size] = slot[t] % size + 1;
        }
    expect_summaries(pool, slot, tokens);
}

/* ---- Judging ---- */

/* Computes the rows from the tensors' previous contents, compares them, and restores the
   tensors. */
static bool are_rows_right(struct flow_step *step) {
    void *have[CACHES];
    bool right = true;
    for (int i = 0; i < CACHES; i++)
        have[i] = flow_step_copy(step, KVMILL_CACHE_ATTENTION_CACHE + i);
    flow_step_restore(step);
    attention_refresh_caches(&step->attention);
    for (int i = 0; i < CACHES; i++) {
        right = flow_step_has_bytes(step, KVMILL_CACHE_ATTENTION_CACHE + i, have[i]) && right;
        free(have[i]);
    }
    return right;
}

/* Whether a field has the pool's numbers: exactly for Quest, within the error of the largest number
   for scores. */
static bool is_field_right(struct flow_pool *pool, int f, bool is_score) {
    const kvmill_flow_field *field = &pool->step->fields[f];
    enum oracle_type type = attention_type(field->dtype);
    int64_t count =
        pool->blocks * flow_step_field_heads(pool->step, f) * field->rows * field->columns;
    double size = is_score ? flow_step_largest(type, pool->field[f], count) : 0.01;
    bool rounds = type == ORACLE_BF16 || oracle_rounds(&pool->step->flow);
    double error = rounds ? 0x1p-7 : type == ORACLE_F16 ? 0x1p-10 : 2e-5;
    const void *have = flow_step_data(pool->step, KVMILL_FLOW_FIELDS + f);
    if (pool->step->own == NULL || oracle_grows(&pool->step->flow, (size_t)f))
        return flow_step_has_bytes(pool->step, KVMILL_FLOW_FIELDS + f, pool->field[f]);
    if (!flow_step_are_near(pool->step, field->name, type, have, pool->field[f], count, size,
                            error))
        return false;
    memcpy(pool->field[f], have, (size_t)oracle_bytes(type, count));
    return true;
}

bool flow_pool_fields_are_right(struct flow_pool *pool, bool are_scores) {
    bool right = true;
    for (size_t f = 0; f < pool->step->flow.field_count; f++)
        right = is_field_right(pool, (int)f, are_scores) && right;
    return right;
}

/* Runs the program once more, on the rows that it wrote. */
static bool summarises_again(struct flow_pool *pool, const kvmill_plan_options *options,
                             struct dice *dice) {
    struct flow_step *step = pool->step;
    expect_summaries(pool, flow_step_data(step, KVMILL_FLOW_SLOT_MAPPING),
                     step->attention.seqstarts[step->attention.sequences]);
    flow_step_give(step, OP_FLOW_SUMMARISE, true);
    return flow_step_runs(step, OP_FLOW_SUMMARISE, options, (int)dice_range(dice, 0, 3), dice) &&
           flow_pool_fields_are_right(pool, false);
}

/* Runs the program on the rows of the cache, with the fields' previous contents: the result must be
   append's. */
static bool summarises(struct flow_pool *pool, const kvmill_plan_options *options,
                       struct dice *dice) {
    struct flow_step *step = pool->step;
    void *have[MOST_STEP_FIELDS];
    for (size_t f = 0; f < step->flow.field_count; f++) {
        int which = KVMILL_FLOW_FIELDS + (int)f;
        have[f] = flow_step_copy(step, which);
        if (!oracle_grows(&step->flow, f))
            memcpy(step->tensor[which].fence.data, step->before[which].fence.data,
                   step->before[which].fence.size);
    }
    flow_step_give(step, OP_FLOW_SUMMARISE, true);
    bool right =
        flow_step_runs(step, OP_FLOW_SUMMARISE, options, (int)dice_range(dice, 0, 3), dice);
    for (size_t f = 0; f < step->flow.field_count; f++) {
        right = flow_step_has_bytes(step, KVMILL_FLOW_FIELDS + (int)f, have[f]) && right;
        free(have[f]);
    }
    return right;
}

bool flow_pool_appends(struct flow_pool *pool, const kvmill_plan_options *options,
                       struct dice *dice) {
    struct flow_step *step = pool->step;
    flow_step_keep(step, dice);
    expect_append(pool, flow_step_data(step, KVMILL_FLOW_SLOT_MAPPING),
                  step->attention.seqstarts[step->attention.sequences]);
    flow_step_give(step, OP_FLOW_APPEND, true);
    bool right = flow_step_runs(step, OP_FLOW_APPEND, options, (int)dice_range(dice, 0, 3), dice);
    right = flow_pool_fields_are_right(pool, false) && right;
    right =
        (flow_step_writes_rows(step) ? summarises_again : summarises)(pool, options, dice) && right;
    right = are_rows_right(step) && right; /* restores all */
    for (size_t f = 0; f < step->flow.field_count; f++) {
        struct fence *fence = &step->tensor[KVMILL_FLOW_FIELDS + f].fence;
        memcpy(fence->data, pool->field[f], fence->size);
    }
    return right;
}
