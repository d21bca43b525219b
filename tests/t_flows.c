/* Flows against the oracle, by their steps: those that ship with several caches, sizes of pages and
   heads, and every op.

   SPDX-License-Identifier: Apache-2.0 */
#include "../runtime/flow/flow.h"
#include "common.h"
#include "flow_file.h"
#include "flow_step.h"
#include "oracle/flow.h"
#include "packs.h"
#include "table.h"

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

/* Ids of pages and heads that 32 bits do not count. */
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
    ok_status(status, KVMILL_E_OVERFLOW, &error, "accepted: less than 2^31", "ids beyond 32 bits");
}

/* ---- A flow whose scores can be seen: they are saved in a field of their own ---- */

struct seen {
    const kvmill_flow *given;
    kvmill_flow flow;
    kvmill_flow_field fields[MOST_STEP_FIELDS];
    int64_t field_heads[MOST_STEP_FIELDS];
    kvmill_flow_op cache[KVMILL_MOST_FLOW_OPS], index[KVMILL_MOST_FLOW_OPS];
    size_t added; /* fields: one for each score */
    bool has_state;
};

/* Save the score that the selection takes as input `i`, and give it what is saved. */
static void see_score(struct seen *seen, int i, kvmill_flow_op *selection) {
    static const char *const names[2][4] = {
        {"seen", "seen_old", "seen_zero", "seen_score"},
        {"seen_2", "seen_old_2", "seen_zero_2", "seen_score_2"},
    };
    const char *const *name = names[i];
    const kvmill_flow_op more[] = {
        {.op = "Load", .inputs = {name[0]}, .output = name[1]}, /* a field has to be read */
        {.op = "WhereEqual", .inputs = {name[1], name[1]}, .output = name[2]},
        {.op = "Add",
         .inputs = {selection->inputs[i], name[2]},
         .output = name[3],
         .alpha = 1,
         .beta = 1},
        {.op = "Save", .inputs = {name[3]}, .output = name[0]}};
    seen->fields[seen->flow.field_count++] = (kvmill_flow_field){name[0], 1, 1, f32};
    seen->cache[seen->flow.cache_count++] = (kvmill_flow_op){.op = "Fill", .output = name[0]};
    memcpy(seen->index + seen->flow.index_count, more, sizeof more);
    seen->flow.index_count += COUNT(more);
    selection->inputs[i] = name[3];
    seen->added++;
}

static void see(struct seen *seen, const kvmill_flow *given, const kvmill_flow_select *select) {
    const kvmill_cache_attention *op = given->attention;
    bool shares = select->scope != NULL && select->scope[0] == 'q' && op->num_kv_heads != 0 &&
                  op->num_heads != op->num_kv_heads;
    *seen = (struct seen){.given = given, .flow = *given};
    for (size_t i = 0; i < given->index_count; i++)
        seen->has_state = seen->has_state || strcmp(given->index[i].op, "Save") == 0;
    if (given->index_count == 0 || shares)
        return;
    kvmill_flow_op selection = given->index[--seen->flow.index_count];
    memcpy(seen->fields, given->fields, given->field_count * sizeof *seen->fields);
    if (given->field_heads != NULL)
        memcpy(seen->field_heads, given->field_heads, given->field_count * sizeof(int64_t));
    memcpy(seen->cache, given->cache, given->cache_count * sizeof *seen->cache);
    memcpy(seen->index, given->index, seen->flow.index_count * sizeof *seen->index);
    for (int i = 0; i < 2 && selection.inputs[i] != NULL; i++)
        see_score(seen, i, &selection);
    seen->index[seen->flow.index_count++] = selection;
    seen->flow.fields = seen->fields;
    seen->flow.field_heads = seen->field_heads;
    seen->flow.cache = seen->cache;
    seen->flow.index = seen->index;
}

/* The sums of what kv heads saved in a field, in their order. */
static void take_field(struct flow_step *step, int field, int64_t request, int64_t row,
                       float *scores) {
    int64_t kinds = step->kv_heads / step->rows, last = flow_step_blocks(step, request);
    for (int64_t p = step->select.reserved_bos; p < last - step->select.reserved_eos; p++)
        for (int64_t n = 0; n < kinds; n++) {
            float own;
            memcpy(&own,
                   flow_step_field(step, field, flow_step_block(step, request, p), row * kinds + n),
                   sizeof own);
            scores[p] = n == 0 ? own : scores[p] + own;
        }
}

static void take_seen(struct flow_step *step, int64_t request, int64_t row, float *scores) {
    int fields = oracle_second(&step->flow) > 0 ? 2 : 1;
    for (int i = 0; i < fields; i++)
        take_field(step, (int)step->flow.field_count - fields + i, request, row,
                   scores + i * flow_step_blocks(step, request));
}

/* ---- Steps of a flow ---- */

/* Eighths: dots of a few are exact in float32, means of sixteen are in float16. */
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

/* Index, then decode twice, for what is saved. */
static bool steps_are_right(struct flow_step *step, struct flow_pool *pool,
                            const kvmill_plan_options *options, struct dice *dice) {
    bool right = true;
    for (int n = 0; right && n < 3; n++) {
        enum flow_step_kind kind = n == 0 ? STEP_INDEX : STEP_DECODE;
        flow_pool_expect_scores(pool);
        flow_step_give(step, kind, true);
        right = flow_step_runs(step, kind, options, (int)dice_range(dice, 0, 3), dice) &&
                flow_pool_scores_are_right(pool);
        flow_step_expect(step, false);
        right =
            right && flow_step_lists_are_right(step) && (n == 0 || flow_step_output_is_right(step));
    }
    return right;
}

/* The flow as it is given, whose scores nobody sees, makes the same lists. */
static bool is_like_given(struct flow_step *step, const struct seen *seen,
                          const kvmill_plan_options *options, struct dice *dice) {
    const kvmill_flow kept = step->flow;
    step->flow.field_count -= seen->added;
    step->flow.cache = seen->given->cache;
    step->flow.cache_count -= seen->added;
    step->flow.index = seen->given->index;
    step->flow.index_count = seen->given->index_count;
    flow_step_give(step, STEP_INDEX, true);
    for (size_t i = 0; i < seen->added; i++)
        step->given[KVMILL_FLOW_FIELDS + step->flow.field_count + i] = NULL;
    bool right =
        flow_step_runs(step, STEP_INDEX, options, 2, dice) && flow_step_lists_are_right(step);
    step->flow = kept;
    return right;
}

/* Summaries of tokens, scores, lists, outputs; then pages are used again. */
static void test_flow(const kvmill_flow *given, const kvmill_flow_select *select, const char *name,
                      int number) {
    const kvmill_plan_options *options = &two_threads[number % 3 != 0];
    struct dice dice = dice_for(name);
    int64_t size = given->attention->page_size;
    struct seen *seen = flow_step_take(1, sizeof *seen);
    struct flow_pool pool;
    struct flow_step step = {.select = *select, .summary = given->summary, .own = &seen->flow};
    see(seen, given, select);
    step.attention.op = *given->attention;
    step.attention.op.cache_layout = number % 5;
    step.attention.sequences = 4;
    step.attention.tokens[1] = dice_range(&dice, 1, size);
    for (int b = 2; b < 4; b++)
        step.attention.tokens[b] = dice_range(&dice, 2 * size, (size < 32 ? 9 : 5) * size);
    flow_step_open(&step, &dice);
    step.scores_of = seen->added > 0 ? take_seen : NULL;
    fill_tokens(&step, &dice);
    flow_pool_open(&step, &pool);
    ok(flow_pool_appends(&pool, options, &dice), "%s: rows and summaries", name);
    bool right = steps_are_right(&step, &pool, options, &dice);
    if (right && seen->added > 0 && !seen->has_state)
        right = is_like_given(&step, seen, options, &dice);
    ok(right, "%s: scores, lists and sums", name);
    ok(flow_pool_appends(&pool, options, &dice), "%s: pages that are used again", name);
    flow_pool_close(&pool);
    flow_step_close(&step);
    free(seen);
}

static void test_json(json_t *json, const char *name, int number) {
    struct spec_list specs;
    const kvmill_flow *flow = flow_open_json(json, &specs);
    test_flow(flow, &flow->select, name, number);
    spec_list_free(&specs);
    json_decref(json);
}

/* ---- Flows that ship ---- */

/* Heads, dims and types of a cache. */
static const struct setting {
    const char *name, *attention;
} settings[] = {
    {"one head of float32", "'num_heads': 1, 'num_kv_heads': 1, 'head_dim': 32, 'T1': 'float32'"},
    {"3 on 1 of float16", "'num_heads': 3, 'num_kv_heads': 1, 'head_dim': 80, 'T1': 'float16'"},
    {"8 on 2 of bfloat16", "'num_heads': 8, 'num_kv_heads': 2, 'head_dim': 96, 'T1': 'bfloat16'"},
    {"4 on 2, values of another dim", "'num_heads': 4, 'num_kv_heads': 2, 'head_dim': 48, "
                                      "'T1': 'float32', 'value_head_dim': 20"},
    {"int8", "'num_heads': 4, 'num_kv_heads': 2, 'head_dim': 64, 'T1': 'float32', "
             "'quant_bit': 8, 'quant_group': 16"},
    {"int4", "'num_heads': 5, 'num_kv_heads': 1, 'head_dim': 32, 'T1': 'float16', "
             "'quant_bit': 4, 'quant_group': 8"},
    {"a view, bfloat16", "'num_heads': 6, 'num_kv_heads': 1, 'head_dim': 48, 'T1': 'bfloat16', "
                         "'value_head_dim': 32, 'value_view': true"},
    {"a view, int8", "'num_heads': 4, 'num_kv_heads': 2, 'head_dim': 48, 'T1': 'float32', "
                     "'value_head_dim': 32, 'value_view': true, 'quant_bit': 8, "
                     "'quant_group': 16"},
    {"q8_0", "'num_heads': 2, 'num_kv_heads': 2, 'head_dim': 64, 'T1': 'float16', "
             "'cache_format': 'q8_0'"},
};

static json_t *attention_of(const struct setting *setting) {
    char text[256];
    snprintf(text, sizeof text, "{%s}", setting->attention);
    for (char *at = text; (at = strchr(at, '\'')) != NULL;)
        *at = '"';
    return json_loads(text, 0, NULL);
}

static bool has_save(const json_t *json) {
    char *text = json_dumps(json, 0);
    bool has = strstr(text, "\"Save\"") != NULL;
    free(text);
    return has;
}

/* With few pages kept, so that some are scored; with scopes that their state allows. */
TEST(shipped) {
    static const char *const scopes[] = {"kv_head", "query_head", "request"};
    const char *const *names = flows_shipped();
    for (int i = 0; names[i] != NULL; i++)
        for (int s = 0; s < (int)COUNT(settings); s++) {
            char name[128];
            json_t *json = flow_json(names[i]), *select = json_object_get(json, "select");
            json_t *attention = attention_of(&settings[s]);
            const char *scope = scopes[(i + s) / 3 % 3];
            bool saves = has_save(json);
            if ((i + s) % (is_slow_run() ? 7 : 3) != 0 || (saves && scope[0] == 'q')) {
                json_decref(attention);
                json_decref(json);
                continue;
            }
            json_object_set(attention, "page_size",
                            json_object_get(json_object_get(json, "attention"), "page_size"));
            json_object_set_new(json, "attention", attention);
            json_object_set_new(select, "reserved_bos", json_integer(1));
            json_object_set_new(select, "reserved_eos", json_integer(2));
            if (json_integer_value(json_object_get(select, "topk_val")) > 0)
                json_object_set_new(select, "topk_val", json_integer(saves ? s % 2 : 1 + s % 3));
            json_object_set_new(select, "scope", json_string(scope));
            json_object_set_new(select, "order", json_string(s % 2 ? "score" : "logical"));
            snprintf(name, sizeof name, "%s, %s, %s", names[i], settings[s].name, scope);
            test_json(json, name, i + s);
        }
}

/* Page sizes, head sizes and group sizes, odd ones too; one of each at least once. */
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

/* ---- Flows that mean the same ---- */

/* Index on tokens that only `number` decides. */
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
    flow_step_give(step, STEP_INDEX, true);
    return flow_step_runs(step, STEP_INDEX, &two_threads[1], 0, &dice) && right;
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
    json_t *json = flow_json(name);
    json_object_set_new(json, "attention",
                        json_pack("{s:i, s:i, s:i, s:i, s:s}", "num_heads", heads, "num_kv_heads",
                                  2, "head_dim", 64, "page_size", page_size, "T1", "float16"));
    json_object_set_new(json_object_get(json, "select"), "topk_val", json_integer(3));
    json_object_set_new(json_object_get(json, "select"), "topk_ratio", json_integer(0));
    const kvmill_flow *flow = flow_open_json(json, specs);
    json_decref(json);
    return flow;
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

static void test_op(char **cell) {
    static int number;
    struct spec_list specs;
    char *text = flow_text(cell[1], cell[3], cell[2]);
    const kvmill_flow *flow = flow_open(text, &specs);
    test_flow(flow, &flow->select, cell[0], 2 * number++ + 1);
    if (strlen(ops_text) + strlen(text) < sizeof ops_text)
        strcat(ops_text, text);
    spec_list_free(&specs);
    free(text);
}

/* No op of the library is left out; Load and Save are those of flows that ship. */
TEST(every_op) {
    each_row("flow_ops", 4, test_op);
    for (int code = 0; code < KVMILL_FLOW_CODES; code++) {
        char words[64];
        snprintf(words, sizeof words, "\"op\": \"%s\"", kvmill_flow_kind_at(code)->name);
        ok(code == KVMILL_FLOW_LOAD || code == KVMILL_FLOW_SAVE || strstr(ops_text, words) != NULL,
           "%s is tried", kvmill_flow_kind_at(code)->name);
    }
}
