/* Refusals by plans of sparse flows and their runs, after which nothing may be written: fields,
   every overlap, names and counts.  The other refusals are in tests/tables/refusals/flow.tsv.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "flow_step.h"

DICE("errors");
static struct flow_step step;

static const char *name_of_step(int kind) {
    return kvmill_flow_steps[kind].name;
}

static const char *name_of(int which) {
    if (which >= KVMILL_FLOW_FIELDS)
        return step.fields[which - KVMILL_FLOW_FIELDS].name;
    return which < TENSORS ? attention_tensor_name(which)
                           : kvmill_op_tensor(&kvmill_flow_steps[0], which)->name;
}

/* ---- A valid step ---- */

/* Opens requests of 8, 3, 3 and 0 pages.  The first has 9 new tokens in rows 32 to 40, the third 5
   in rows 16 to 20. */
static void open_step(const char *more) {
    char settings[256];
    snprintf(settings, sizeof settings,
             "start=118,47,33,0 tokens=9,0,5,0 topk_val=2 reserved_bos=1 field=float16 partial=1 "
             "quant_bit=8 T2=int8 T3=float16 sinks=1 %s",
             more);
    flow_step_set(&step, settings);
    step.has_topk = true;
    memset(step.topk, 0xff, sizeof step.topk); /* as the flow says */
    flow_step_open(&step, &dice);
    flow_step_expect(&step, false);
    flow_step_put_lists(&step);
    int64_t *slot = flow_step_data(&step, KVMILL_FLOW_SLOT_MAPPING);
    for (int64_t t = 0; t < 14; t++)
        slot[t] = t < 9 ? 32 + t : t + 7;
}

static bool is_accepted(int kind) {
    const kvmill_plan_options options = {.struct_size = sizeof options, .threads = 2};
    return flow_step_runs(&step, kind, &options, 0, &dice);
}

/* Whether a run of step.given is refused; changes of memory by the test stay. */
static bool is_refused(int kind, const char *status, const char *what) {
    const kvmill_plan_options options = {.struct_size = sizeof options, .threads = 2};
    kvmill_error error;
    flow_step_keep(&step, &dice);
    kvmill_status found =
        flow_step_run(&step, kind, &options, (int)dice_range(&dice, 0, 2), &dice, &error);
    return (strcmp(kvmill_status_name(found), status) == 0 && strstr(error.message, what) != NULL &&
            flow_step_is_kept(&step)) ||
           diag("%s: %s: \"%s\", wanted %s: \"%s\"", name_of_step(kind), kvmill_status_name(found),
                error.message, status, what);
}

/* The changed tensors of the next run. */
static struct bent bent[FLOW_STEP_TENSORS];

static struct bent *bend(int which) {
    struct bent *b = &bent[which];
    if (step.given[which] != &b->dl)
        bent_from(b, &flow_step_tensor(&step, which)->dl);
    step.given[which] = &b->dl;
    return b;
}

/* Whether the step accesses a tensor: index does not access caches that its program does not
   read. */
static bool is_looked_at(int kind, int which) {
    bool is_cache =
        which >= KVMILL_CACHE_ATTENTION_CACHE && which <= KVMILL_CACHE_ATTENTION_VALUE_SCALE;
    return step.given[which] != NULL && !(kind == OP_FLOW_INDEX && is_cache);
}

/* ---- Fields ---- */

TEST(fields) {
    static const struct {
        int kind;
        int field, dim, more;
        const char *status, *what;
    } rows[] = {{OP_FLOW_APPEND, 0, 1, -1, "KVMILL_E_SHAPE", "kmax has shape ["},
                {OP_FLOW_SUMMARISE, 0, 1, -1, "KVMILL_E_SHAPE", "kmax has shape ["},
                {OP_FLOW_DECODE, 1, 3, -1, "KVMILL_E_SHAPE", "kmin has shape ["},
                {OP_FLOW_INDEX, 1, 2, 1, "KVMILL_E_SHAPE", "kmin has shape ["},
                {OP_FLOW_DECODE, 1, 0, -14, "KVMILL_E_INDEX_RANGE", "; accepted: 0 to "}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        flow_step_give(&step, rows[i].kind, true);
        bend(KVMILL_FLOW_FIELDS + rows[i].field)->shape[rows[i].dim] += rows[i].more;
        ok(is_refused(rows[i].kind, rows[i].status, rows[i].what), "%s: dim %d of a field",
           name_of_step(rows[i].kind), rows[i].dim);
    }
    flow_step_give(&step, OP_FLOW_DECODE, true);
    struct bent *b = bend(KVMILL_FLOW_FIELDS);
    memcpy(b->strides, flow_step_tensor(&step, KVMILL_FLOW_FIELDS)->strides, sizeof(int64_t[4]));
    b->dl.strides = b->strides;
    b->strides[0]++, b->shape[0]--;
    ok(is_refused(OP_FLOW_DECODE, "KVMILL_E_STRIDE",
                  "kmax has strides; accepted: row-major without gaps"),
       "decode: a field with gaps");
}

/* ---- Overlaps ---- */

static bool is_output(int kind, int which) {
    bool is_cache =
        which >= KVMILL_CACHE_ATTENTION_CACHE && which <= KVMILL_CACHE_ATTENTION_VALUE_SCALE;
    bool is_list = which >= KVMILL_FLOW_SEL_INDPTR && which <= KVMILL_FLOW_SCORES;
    if (kind == OP_FLOW_APPEND || kind == OP_FLOW_SUMMARISE)
        return which >= KVMILL_FLOW_FIELDS || (kind == OP_FLOW_APPEND && is_cache);
    return which == KVMILL_CACHE_ATTENTION_ATTN_OUTPUT || which == KVMILL_CACHE_ATTENTION_LSE ||
           (is_list && kind != OP_FLOW_ATTEND);
}

/* Puts the smaller of the two tensors in the memory of the other, and expects a refusal. */
static bool overlap_is_refused(int kind, int output, int other) {
    char what[128];
    bool is_smaller =
        flow_step_tensor(&step, other)->fence.size < flow_step_tensor(&step, output)->fence.size;
    bool is_second = is_output(kind, other) && other < output;
    flow_step_give(&step, kind, true);
    struct bent *b = bend(is_smaller ? other : output);
    b->dl.data = flow_step_data(&step, is_smaller ? output : other);
    b->dl.byte_offset = 0;
    snprintf(what, sizeof what, "%s overlaps %s; accepted: separate memory",
             name_of(is_second ? output : other), name_of(is_second ? other : output));
    return is_refused(kind, "KVMILL_E_ALIAS", what);
}

/* If both tensors are outputs, the message is about the first. */
static void test_step(int kind) {
    bool refused = true;
    int pairs = 0;
    flow_step_give(&step, kind, true);
    for (int output = 0; output < FLOW_STEP_TENSORS; output++)
        for (int other = 0; other < FLOW_STEP_TENSORS; other++)
            if (output != other && step.given[output] != NULL && is_output(kind, output) &&
                is_looked_at(kind, other)) {
                refused = overlap_is_refused(kind, output, other) && refused;
                pairs++;
            }
    ok(refused, "%s: overlaps of an output, %d pairs", name_of_step(kind), pairs);
}

TEST(overlaps) {
    for (int kind = 0; kind < OP_FLOW_STEPS; kind++)
        test_step(kind);
}

/* ---- Names and counts ---- */

/* A field must not have the name of a tensor that callers pass. */
TEST(names) {
    kvmill_error error;
    char words[96];
    const char *own = step.fields[1].name;
    for (int which = 0; which < KVMILL_FLOW_FIELDS; which++) {
        step.fields[1].name = name_of(which);
        snprintf(words, sizeof words, "fields[1]: the name is \"%s\"", name_of(which));
        kvmill_status status = kvmill_flow_describe(&step.flow, NULL, &error);
        ok_status(status, KVMILL_E_ATTRIBUTE, &error, words, "a field %s", name_of(which));
    }
    step.fields[1].name = own;
    ok(kvmill_flow_describe(&step.flow, NULL, &error) == KVMILL_OK, "with its own");
}

/* What a spec file cannot say. */
TEST(members) {
    static const int64_t below = -1;
    static const kvmill_flow_op unnamed = {.op = NULL}, one_input = {.op = "Abs", .output = "kmax"};
    static const kvmill_flow_constant untapped = {.name = "w", .rows = 1, .columns = 1};
    const kvmill_flow flow = step.flow;
#define REFUSED(STATUS, WHAT, ...)                                                                 \
    do {                                                                                           \
        __VA_ARGS__;                                                                               \
        ok_status(kvmill_flow_describe(&step.flow, NULL, &error), STATUS, &error, WHAT, WHAT);     \
        step.flow = flow;                                                                          \
    } while (0)
    kvmill_error error;
    REFUSED(KVMILL_E_NULL, "attention is NULL", step.flow.attention = NULL);
    REFUSED(KVMILL_E_ATTRIBUTE, "has layer -1; accepted: 0 or more",
            (step.flow.layers_skip = &below, step.flow.layers_skip_count = 1));
    REFUSED(KVMILL_E_ATTRIBUTE, "is 16; accepted: bits of the 2 fields", step.flow.appended = 16);
    REFUSED(KVMILL_E_ATTRIBUTE, "is -1; accepted: bits of the 2 fields", step.flow.powers = -1);
    REFUSED(KVMILL_E_NULL, "op is NULL", (step.flow.cache = &unnamed, step.flow.cache_count = 1));
    REFUSED(KVMILL_E_NULL, "Abs has 0 inputs; accepted: 1",
            (step.flow.cache = &one_input, step.flow.cache_count = 1));
    REFUSED(KVMILL_E_SHAPE, "taps is 0; accepted: 1 to",
            (step.flow.constants = &untapped, step.flow.constant_count = 1));
#undef REFUSED
}

/* A caller counts before a run. */
TEST(count) {
    const kvmill_flow_select select = step.flow.select;
    int64_t lengths[] = {5, 900}, topk[] = {-1, 3}, starts[2 * 4 + 1] = {7},
            index = step.flow.index_count;
    kvmill_error error;
#define COUNTED(BATCH, LENGTHS, STARTS, STATUS, WORDS)                                             \
    ok_status(kvmill_flow_count(&step.flow, BATCH, LENGTHS, topk, STARTS, &error), STATUS, &error, \
              WORDS, "counting: %s", WORDS)
    COUNTED(-1, lengths, starts, KVMILL_E_SHAPE, "batch is -1; accepted: 0 to 2147483647");
    COUNTED(2, NULL, starts, KVMILL_E_NULL, "seq_len is NULL; an array is required");
    COUNTED(2, lengths, NULL, KVMILL_E_NULL, "sel_indptr is NULL; an array is required");
    topk[1] = -2;
    COUNTED(2, lengths, starts, KVMILL_E_INDEX_RANGE,
            "topk_vals[1] is -2; accepted: -1 to 2147483647");
    lengths[1] = INT64_MAX;
    COUNTED(2, lengths, starts, KVMILL_E_OVERFLOW, "accepted: less than 2^31 - 1 pages of 16");
    lengths[1] = -3;
    COUNTED(2, lengths, starts, KVMILL_E_INDEX_NEGATIVE, "seq_len[1] is -3; accepted: 0 or more");
    lengths[1] = topk[1] = 3;
    step.flow.index_count = step.flow.select.topk_val = 0;
    COUNTED(2, lengths, starts, KVMILL_E_INDEX_RANGE,
            "topk_vals[1] is 3; accepted: in a flow without index program -1, 0, 2147483647");
    ok(starts[0] == 7, "  and nothing is written");
    step.flow.index_count = (size_t)index;
    step.flow.select = select;
}

/* Four blocks to a page: a field without all blocks of a page, scores without room for the last
   block. */
TEST(blocks) {
    flow_step_close(&step);
    open_step("block_size=4");
    int64_t most = 0, pages = step.indptr[4];
    for (int64_t p = 0; p < pages; p++)
        most = *flow_step_page(&step, 0, p) > most ? *flow_step_page(&step, 0, p) : most;
    flow_step_give(&step, OP_FLOW_DECODE, true);
    bend(KVMILL_FLOW_FIELDS + 1)->shape[0] = 4 * most + 3;
    ok(is_refused(OP_FLOW_DECODE, "KVMILL_E_INDEX_RANGE", "page_ids["),
       "decode: a page of which a field has three blocks of four");
    flow_step_give(&step, OP_FLOW_DECODE, true);
    bend(KVMILL_FLOW_SCORES)->shape[0] = 4 * pages * step.rows - 1;
    ok(is_refused(OP_FLOW_DECODE, "KVMILL_E_SHAPE", "scores has "),
       "decode: scores of all blocks but one");
    flow_step_give(&step, OP_FLOW_DECODE, true);
    ok(is_accepted(OP_FLOW_DECODE), "decode: blocks, accepted as they are");
    flow_step_close(&step);
}

/* ---- Adjacent fields ---- */

/* What is wrong with the second field, or, for IN_ORDER, with the first. */
static const struct wrong {
    const char *what, *message;
    kvmill_status status;
    enum { OFFSET, DIM, STRIDE, APART, IN_ORDER } how;
    int dim, by;
} wrongs[] = {
    {"that begins elsewhere", "kmin begins 66 bytes after kmax; accepted, if fields are adjacent",
     KVMILL_E_ALIAS, OFFSET, 0, 0},
    {"of fewer pages", "kmin has ", KVMILL_E_SHAPE, DIM, 0, 0},
    {"whose pages are further apart",
     "in dim 0; accepted, if fields are adjacent: ", KVMILL_E_STRIDE, STRIDE, 0, 2},
    {"whose heads are further apart", "in dim 1; accepted", KVMILL_E_STRIDE, STRIDE, 1, 2},
    {"whose columns are further apart", "kmin has stride 2 in dim 3; accepted", KVMILL_E_STRIDE,
     STRIDE, 3, 1},
    {"in memory of its own", "kmin begins ", KVMILL_E_ALIAS, APART, 0, 0},
    {"after one without strides", "kmax has stride ", KVMILL_E_STRIDE, IN_ORDER, 0, 0},
};

static void bend_views(struct flow_beside *beside, const struct wrong *wrong) {
    int64_t *strides = beside->strides[1];
    bool inner = wrong->dim == 0 && strides[0] < strides[1];
    if (wrong->how == OFFSET)
        beside->view[1].byte_offset += 2;
    else if (wrong->how == DIM)
        beside->dims[1][wrong->dim]--;
    else if (wrong->how == STRIDE)
        strides[wrong->dim] += wrong->by, strides[1] *= inner ? 2 : 1; /* no overlap of elements */
    else if (wrong->how == APART)
        beside->view[1] = beside->apart[1];
    else
        beside->view[0].strides = NULL;
}

/* Runs with views that have the layout `layout`, changed by `wrong` unless it is NULL. */
static kvmill_status run_on_views(const char *layout, int kind, const struct wrong *wrong,
                                  kvmill_error *error) {
    struct flow_beside beside;
    OWN_PLAN kvmill_plan *plan = NULL;
    must(plan_flow_step(kind, &step.flow, &step.limits, NULL, &plan, error) == KVMILL_OK,
         error->message);
    flow_step_give(&step, kind, true);
    flow_step_keep(&step, &dice);
    flow_beside_open(&beside, layout, step.given + KVMILL_FLOW_FIELDS, FLOW_STEP_FIELDS, &dice);
    const struct flow_beside before = beside;
    if (wrong != NULL)
        bend_views(&beside, wrong);
    kvmill_status status = run_with_workspace(plan, step.given, 0, &dice, error);
    beside = before;
    must(flow_beside_close(&beside), "the fields' memory was left");
    return status;
}

static void test_layout(const char *layout) {
    char settings[32];
    kvmill_error error;
    snprintf(settings, sizeof settings, "field_layout=%s", layout);
    open_step(settings);
    for (size_t i = 0; i < 2 * COUNT(wrongs); i++) {
        const struct wrong *wrong = &wrongs[i / 2];
        int kind = i % 2 ? OP_FLOW_APPEND : OP_FLOW_INDEX;
        kvmill_status status = run_on_views(layout, kind, wrong, &error);
        ok_status(status, wrong->status, &error, wrong->message, "%s, %s: a field %s", layout,
                  name_of_step(kind), wrong->what);
        ok(flow_step_is_kept(&step), "  and nothing is written");
    }
    flow_step_close(&step);
}

/* A flow with separate fields does not take views. */
TEST(views) {
    kvmill_error error;
    test_layout("page");
    test_layout("head");
    open_step("");
    ok_status(run_on_views("page", OP_FLOW_INDEX, NULL, &error), KVMILL_E_STRIDE, &error,
              "kmax has strides; accepted: row-major", "apart: views of one piece");
    flow_step_close(&step);
}

void before_tests(void) {
    open_step("");
}
