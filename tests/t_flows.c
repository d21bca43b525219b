/* Flows against the oracle, step by step: the shipped flows with several caches, page sizes and
   head sizes, and every op.

   SPDX-License-Identifier: Apache-2.0 */
#include "../runtime/flow/flow_portable.h"
#include "common.h"
#include "flow_file.h"
#include "flow_step.h"
#include "oracle/oracle_flow.h"
#include "packs.h"

/* ---- Pages of a row ---- */

TEST(rows) {
    const int64_t most = INT32_MAX;
    const struct kvmill_flow_budget sixteenth = {29, 1, 2, 1, 16, 0, 0};
    const struct kvmill_flow_budget all = {most, most, most, most, most, 0, 0};
    struct flow_row row = kvmill_flow_row_of(&sixteenth, 1, most);
    ok(row.pages == most && row.selected == most / 16, "2^31 - 1 pages, a sixteenth");
    row = kvmill_flow_row_of(&all, 1, most);
    ok(flow_is_whole(&row), "budgets do not overflow");
    bool right = true;
    for (int64_t size = 1; size <= 5; size++)
        for (int64_t length = 0; length <= 4 * size; length++) {
            int64_t pages = (length + size - 1) / size;
            row = kvmill_flow_row_of(&sixteenth, size, length);
            right = right && row.pages == pages &&
                    row.last_rows == length - (pages > 0 ? pages - 1 : 0) * size;
        }
    ok(right, "pages of rows, and what the last one has");
}

/* Ids of pages and heads that do not fit 32 bits. */
TEST(many_ids) {
    struct kvmill_flow_problem problem = {
        .budget = {1, 1, 1, 0, 0, 0, 0}, .block_size = 4, .page_blocks = 1};
    const int64_t indptr[] = {0, 1}, length[] = {4};
    const int32_t ids[] = {0};
    const struct flow_batch batch = {1, INT32_MAX / 3 + 1, indptr, ids, length, 1, NULL};
    kvmill_error error;
    problem.geometry.page_size = 4;
    problem.geometry.kv_heads = 3;
    kvmill_status status = kvmill_flow_check_batch(&problem, &batch, &error);
    ok_status(status, KVMILL_E_OVERFLOW, &error,
              "715827883 blocks of 3 kv heads; accepted: less than 2^31", "ids beyond 32 bits");
}

/* ---- Steps of a flow ---- */

/* Fills tokens with eighths: dots of a few are exact in float32, means of sixteen in float16. */
static void fill_tokens(struct flow_step *step, struct dice *dice) {
    const int64_t tokens = step->attention.seqstarts[step->attention.sequences];
    const int64_t dims[] = {step->attention.op.head_dim, step->value_dim};
    for (int v = 0; v < 2; v++) {
        int which = KVMILL_CACHE_ATTENTION_CURRENT_KEY + v;
        if (step->attention.dense[which] == NULL)
            continue;
        for (int64_t i = 0; i < tokens * step->kv_heads * dims[v]; i++)
            oracle_put(attention_type(step->attention.op.T1), step->attention.dense[which], i,
                       (double)dice_range(dice, -16, 16) / 8);
        attention_refresh(&step->attention, which);
    }
}

/* Gets the second scores of Union: swaps its inputs, because a run returns the scores of the first
   input. */
static bool takes_second(struct flow_step *step, const kvmill_plan_options *options,
                         struct dice *dice) {
    const kvmill_flow kept = step->flow;
    kvmill_flow_op index[KVMILL_MOST_FLOW_OPS];
    if (oracle_second(&step->flow) == 0)
        return true;
    memcpy(index, kept.index, kept.index_count * sizeof *index);
    kvmill_flow_op *last = &index[kept.index_count - 1];
    *last = (kvmill_flow_op){
        .op = last->op, .inputs = {last->inputs[1], last->inputs[0]}, .group = last->group};
    step->flow.index = index;
    flow_step_give(step, OP_FLOW_INDEX, true);
    bool right = flow_step_runs(step, OP_FLOW_INDEX, options, 2, dice);
    step->second = flow_step_copy(step, KVMILL_FLOW_SCORES);
    step->flow = kept;
    return right;
}

/* Runs index, then decode twice, because of saved fields. */
static bool steps_are_right(struct flow_step *step, struct flow_pool *pool,
                            const kvmill_plan_options *options, struct dice *dice) {
    bool right = takes_second(step, options, dice);
    for (int n = 0; right && n < 3; n++) {
        int kind = n == 0 ? OP_FLOW_INDEX : OP_FLOW_DECODE;
        flow_step_expect_scores(step, pool->field);
        flow_step_give(step, kind, true);
        right = flow_step_runs(step, kind, options, (int)dice_range(dice, 0, 3), dice) &&
                flow_pool_fields_are_right(pool, true);
        flow_step_expect(step, false);
        right =
            right && flow_step_lists_are_right(step) && (n == 0 || flow_step_output_is_right(step));
    }
    return right;
}

/* ---- Rows that append quantises ---- */

/* Returns 0, a number below the least magnitude, one that is not finite, one that needs all codes
   of a type, or one that is too large for it. */
static double strange_number(int64_t row, struct dice *dice) {
    static const double all[] = {0, 3e-6, 1, 1, 448, 127, 57344, 1e4};
    static const double rare[] = {NAN, INFINITY, -INFINITY};
    int64_t kind = row % (int64_t)COUNT(all);
    if (kind == 2 && dice_once_in(dice, 4))
        return rare[dice_range(dice, 0, 2)];
    return all[kind] * (double)dice_range(dice, -4, 4) / 4;
}

static void fill_strange_rows(struct flow_step *step, int field, struct dice *dice) {
    const kvmill_flow_field *known = &step->fields[field];
    int64_t rows =
        step->attention.seqstarts[step->attention.sequences] * flow_step_field_heads(step, field);
    unsigned char *data = (unsigned char *)(uintptr_t)flow_step_new_row(step, field, 0, 0);
    for (int64_t i = 0; i < rows * known->columns; i++)
        oracle_put(attention_type(flow_step_row_type(step, field)), data, i,
                   strange_number(i / known->columns, dice));
}

static void test_codes(struct flow_step *step, struct flow_pool *pool,
                       const kvmill_plan_options *options, const char *name, struct dice *dice) {
    for (int f = 0; f < (int)step->flow.field_count; f++)
        if (oracle_scales_field(&step->flow, (size_t)f) >= 0) {
            fill_strange_rows(step, f, dice);
            ok(flow_pool_appends(pool, options, dice), "%s: strange rows", name);
        }
}

/* ---- A flow ---- */

/* Tests summaries of tokens, scores, lists and outputs; then uses the pages again. */
static void test_flow(const kvmill_flow *given, const kvmill_flow_select *select, const char *name,
                      int number) {
    const kvmill_plan_options *options = &two_threads[number % 3 != 0];
    struct dice dice = dice_for(name);
    int64_t size = given->attention->page_size;
    OWN(flow_pool_close) struct flow_pool pool;
    OWN(flow_step_close)
    struct flow_step step = {.select = *select, .summary = given->summary, .own = given};
    step.attention.op = *given->attention;
    step.attention.op.cache_layout =
        is_transposed(step.attention.op.cache_format) ? 3 + number % 2 : number % 5;
    step.attention.sequences = 4;
    step.attention.tokens[1] = dice_range(&dice, 1, size);
    for (int b = 2; b < 4; b++)
        step.attention.tokens[b] = dice_range(&dice, 2 * size, (size < 32 ? 9 : 5) * size);
    step.attention.tokens[3] |= 1; /* so that the last page is mostly not full */
    flow_step_open(&step, &dice);
    fill_tokens(&step, &dice);
    flow_pool_open(&step, &pool);
    ok(flow_pool_appends(&pool, options, &dice), "%s: rows and summaries", name);
    ok(steps_are_right(&step, &pool, options, &dice), "%s: scores, lists and sums", name);
    ok(flow_pool_appends(&pool, options, &dice), "%s: pages that are used again", name);
    test_codes(&step, &pool, options, name, &dice);
}

static void test_json(json_t *json, const char *name, int number) {
    OWN(spec_list_free) struct spec_list specs;
    const kvmill_flow *flow = flow_open_json(json, &specs);
    test_flow(flow, &flow->select, name, number);
    json_decref(json);
}

/* ---- Shipped flows ---- */

static bool has_save(const json_t *json) {
    FREED char *text = json_dumps(json, 0);
    return strstr(text, "\"Save\"") != NULL;
}

/* Returns a flow with few reserved pages, so that some are scored. */
static json_t *flow_on(const char *name, const char *attention, const char *scope, int s) {
    json_t *json = flow_json(name), *select = json_object_get(json, "select"),
           *own = json_loads(attention, 0, NULL);
    json_object_set(own, "page_size",
                    json_object_get(json_object_get(json, "attention"), "page_size"));
    json_object_set_new(json, "attention", own);
    json_object_set_new(select, "reserved_bos", json_integer(1));
    json_object_set_new(select, "reserved_eos", json_integer(2));
    if (json_integer_value(json_object_get(select, "topk_val")) > 0)
        json_object_set_new(select, "topk_val", json_integer(has_save(json) ? s % 2 : 1 + s % 3));
    json_object_set_new(select, "scope", json_string(scope));
    json_object_set_new(select, "order", json_string(s % 2 ? "score" : "logical"));
    return json;
}

/* A cache for some of the flows, with the scopes that their state allows. */
EACH_ROW(flow_caches, 2) {
    static const char *const scopes[] = {"kv_head", "query_head", "request"};
    static int s;
    const char *const *names = flows_shipped();
    for (int i = 0; names[i] != NULL; i++) {
        char name[128];
        const char *scope = scopes[(i + s) / 3 % 3];
        if ((i + s) % (is_slow_run() ? 7 : 3) != 0)
            continue;
        json_t *json = flow_on(names[i], cells[1], scope, s);
        snprintf(name, sizeof name, "%s, %s, %s", names[i], cells[0], scope);
        if (has_save(json) && scope[0] == 'q')
            json_decref(json);
        else
            test_json(json, name, i + s);
    }
    s++;
}

/* Page sizes, head sizes and group sizes, odd ones, too; each at least once. */
TEST(grid) {
    static const char *const flows[] = {"block_sparse", "gqa_quest", "quest_growing",
                                        "centered_block_sparse"};
    static const int sizes[] = {1, 5, 8, 16, 32, 64, 128}, groups[] = {1, 2, 3, 5, 7, 16, 4};
    static const int dims[] = {32, 64, 80, 96, 112, 128, 256, 33};
    for (int i = 0; i < (is_slow_run() ? few_cases(4) : 28); i++) {
        char name[128];
        int group = groups[(i + i / 7) % 7], dim = dims[i % 8], size = sizes[i % 7];
        json_t *json = flow_json(flows[i % 4]), *select = json_object_get(json, "select");
        snprintf(name, sizeof name, "%s, pages of %d, heads of %d, %d on one", flows[i % 4], size,
                 dim, group);
        json_t *attention =
            json_pack("{s:i, s:i, s:i, s:i, s:s}", "num_heads", 2 * group, "num_kv_heads", 2,
                      "head_dim", dim, "page_size", size, "T1", i % 3 ? "float16" : "float32");
        json_object_set_new(json, "attention", attention);
        json_object_set_new(select, "reserved_eos", json_integer(1));
        json_object_set_new(select, "topk_val", json_integer(2));
        test_json(json, name, 2 * i);
    }
}

/* ---- Flows with the same meaning ---- */

/* Opens a step with tokens that depend only on `number`, and runs index. */
static bool open_listed(struct flow_step *step, const kvmill_flow *flow, int64_t number) {
    struct flow_pool pool;
    struct dice dice = dice_for("the same lists");
    dice.state += (uint64_t)number;
    *step = (struct flow_step){.select = flow->select, .summary = flow->summary, .own = flow};
    step->attention.op = *flow->attention;
    step->attention.sequences = 3;
    for (int b = 0; b < 3; b++)
        step->attention.tokens[b] = dice_range(&dice, 4, 20) * flow->attention->page_size;
    flow_step_open(step, &dice);
    dice = dice_for("their tokens");
    fill_tokens(step, &dice);
    flow_pool_open(step, &pool);
    bool right = flow_pool_appends(&pool, &two_threads[1], &dice);
    flow_pool_close(&pool);
    flow_step_give(step, OP_FLOW_INDEX, true);
    return flow_step_runs(step, OP_FLOW_INDEX, &two_threads[1], 0, &dice) && right;
}

static bool lists_are_same(const kvmill_flow *const flows[2], int64_t number) {
    struct flow_step step[2];
    bool same = open_listed(&step[0], flows[0], number);
    same = open_listed(&step[1], flows[1], number) && same;
    const int64_t *starts = flow_step_data(&step[0], KVMILL_FLOW_SEL_INDPTR);
    size_t rows = (size_t)(step[0].attention.sequences * step[0].rows);
    same =
        same &&
        memcmp(starts, flow_step_data(&step[1], KVMILL_FLOW_SEL_INDPTR),
               (rows + 1) * sizeof *starts) == 0 &&
        memcmp(flow_step_data(&step[0], KVMILL_FLOW_SEL), flow_step_data(&step[1], KVMILL_FLOW_SEL),
               (size_t)starts[rows] * sizeof(int32_t)) == 0;
    flow_step_close(&step[0]);
    flow_step_close(&step[1]);
    return same;
}

static const kvmill_flow *open_on(const char *name, int heads, int page_size,
                                  struct spec_list *specs) {
    json_auto_t *json = flow_json(name);
    json_object_set_new(json, "attention",
                        json_pack("{s:i, s:i, s:i, s:i, s:s}", "num_heads", heads, "num_kv_heads",
                                  2, "head_dim", 64, "page_size", page_size, "T1", "float16"));
    json_object_set_new(json_object_get(json, "select"), "topk_val", json_integer(3));
    json_object_set_new(json_object_get(json, "select"), "topk_ratio", json_integer(0));
    return flow_open_json(json, specs);
}

TEST(same) {
    static const struct {
        const char *name, *flows[2];
        int heads, page_size;
    } pairs[] = {{"pages of one token: Quest lists what mean keys list",
                  {"gqa_quest", "block_sparse"},
                  2,
                  1},
                 {"centred scores list what those that are not list",
                  {"centered_block_sparse", "block_sparse"},
                  8,
                  16}};
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct spec_list specs[2];
        const kvmill_flow *flows[2];
        bool same = true;
        for (int f = 0; f < 2; f++)
            flows[f] = open_on(pairs[i].flows[f], pairs[i].heads, pairs[i].page_size, &specs[f]);
        for (int64_t n = 0; n < few_cases(9); n++)
            same = lists_are_same(flows, n) && same;
        ok(same, "%s", pairs[i].name);
        spec_list_free(&specs[0]);
        spec_list_free(&specs[1]);
    }
}

/* ---- Every op ---- */

static char ops_text[1 << 16];

EACH_ROW(flow_ops, 4) {
    static int number;
    OWN(spec_list_free) struct spec_list specs;
    FREED char *text = flow_text(cells[1], cells[3], cells[2]);
    const kvmill_flow *flow = flow_open(text, &specs);
    test_flow(flow, &flow->select, cells[0], 2 * number++ + 1);
    if (strlen(ops_text) + strlen(text) < sizeof ops_text)
        strcat(ops_text, text);
}

/* Every op of the library is tested; Load and Save are tested by shipped flows. */
TEST(every_op) {
    for (int code = 0; code < KVMILL_FLOW_CODES; code++) {
        char words[64];
        snprintf(words, sizeof words, "\"op\": \"%s\"", kvmill_flow_kind_at(code)->name);
        ok(code == KVMILL_FLOW_LOAD || code == KVMILL_FLOW_SAVE || strstr(ops_text, words) != NULL,
           "%s is tried", kvmill_flow_kind_at(code)->name);
    }
}
