/* What the plans of sparse flows and their runs refuse, with which words; nothing is written then.
   The rows of tests/tables/flow_runs.tsv, and every overlap.

   SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE

#include "common.h"
#include "flow_step.h"
#include "settings.h"
#include "table.h"

DICE("errors");
static struct flow_step step;

static const char *const step_names[FLOW_STEP_KINDS] = {"append", "index", "attend", "decode",
                                                        "summarise"};

/* "query", ... "kmin". */
static const char *name_of(int which) {
    static const char *const names[] = {"seq_len",    "page_indptr", "page_ids",  "slot_mapping",
                                        "sel_indptr", "sel",         "block_ids", "scores",
                                        "topk_vals",  "kmax",        "kmin"};
    return which < TENSORS ? attention_tensor_name(which) : names[which - TENSORS];
}

/* ---- A valid step ---- */

/* Requests of 8, 3, 3 and 0 pages, the first with 9 new tokens, the third with 5, in rows 32 to 40
   and 16 to 20. */
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

static bool is_accepted(enum flow_step_kind kind) {
    const kvmill_plan_options options = {.struct_size = sizeof options, .threads = 2};
    return flow_step_runs(&step, kind, &options, 0, &dice);
}

TEST(valid) {
    for (int kind = 0; kind < FLOW_STEP_KINDS; kind++) {
        flow_step_give(&step, (enum flow_step_kind)kind, true);
        ok(is_accepted((enum flow_step_kind)kind), "%s: accepted as it is", step_names[kind]);
        flow_step_close(&step);
        open_step("");
    }
}

/* The run that step.given is for; what a test has changed in memory stays as it is. */
static bool is_refused(enum flow_step_kind kind, const char *status, const char *what) {
    const kvmill_plan_options options = {.struct_size = sizeof options, .threads = 2};
    kvmill_error error;
    flow_step_keep(&step, &dice);
    kvmill_status found =
        flow_step_run(&step, kind, &options, (int)dice_range(&dice, 0, 2), &dice, &error);
    bool refused = strcmp(kvmill_status_name(found), status) == 0 &&
                   strstr(error.message, what) != NULL && flow_step_is_kept(&step);
    if (!refused)
        diag("%s: %s: \"%s\", wanted %s: \"%s\"", step_names[kind], kvmill_status_name(found),
             error.message, status, what);
    return refused;
}

/* ---- Changes ---- */

/* Tensors of the next run that are changed. */
static struct bent {
    DLTensor dl;
    int64_t shape[MOST_DIMS], strides[MOST_DIMS];
} bent[FLOW_STEP_TENSORS];

static struct bent *bend(int which) {
    const struct fenced_tensor *tensor = flow_step_tensor(&step, which);
    struct bent *b = &bent[which];
    if (step.given[which] == &b->dl)
        return b;
    *b = (struct bent){.dl = tensor->dl};
    memcpy(b->shape, tensor->shape, sizeof b->shape);
    memcpy(b->strides, tensor->strides, sizeof b->strides);
    b->dl.shape = b->shape;
    b->dl.strides = which < KVMILL_FLOW_FIELDS ? b->strides : NULL;
    step.given[which] = &b->dl;
    return b;
}

/* Put a number in place of another one, which is returned. */
static int64_t put(int which, int64_t at, int64_t number) {
    int64_t *longs = flow_step_data(&step, which), old;
    int32_t *shorts = flow_step_data(&step, which);
    if (flow_step_tensor(&step, which)->dl.dtype.bits == 32) {
        old = shorts[at];
        shorts[at] = (int32_t)number;
    } else {
        old = longs[at];
        longs[at] = number;
    }
    return old;
}

/* Numbers that were put, until the row's end. */
static struct {
    int which;
    int64_t at, old;
} numbers[4];
static int put_count;

static void bend_as(const char *how, int which) {
    struct bent *b = bend(which);
    if (strcmp(how, "odd") == 0)
        b->dl.byte_offset += 1;
    else if (strcmp(how, "apart") == 0)
        b->strides[0] = 2, b->shape[0] = (b->shape[0] + 1) / 2;
    else if (strcmp(how, "null") == 0)
        step.given[which] = NULL;
    else if (strcmp(how, "given") == 0)
        step.given[which] = &flow_step_tensor(&step, KVMILL_FLOW_SEQ_LEN)->dl;
    else
        bail_out("no tensor is %s", how);
}

static int64_t number_of(const char *word) {
    int64_t pages = step.limits.cache_pages;
    return strcmp(word, "pages") == 0   ? pages
           : strcmp(word, "slots") == 0 ? pages * 16
                                        : setting_integer(word);
}

/* All numbers of seqstarts, which is given then. */
static void give_seqstarts(const char *value) {
    static int64_t starts[MOST_SEQUENCES], count;
    static const DLTensor tensor = {.data = starts,
                                    .device = {kDLCPU, 0},
                                    .ndim = 1,
                                    .dtype = {kDLInt, 64, 1},
                                    .shape = &count};
    count = setting_integers(value, starts, MOST_SEQUENCES);
    step.given[KVMILL_CACHE_ATTENTION_SEQSTARTS] = &tensor;
}

/* "limits.batch", "topk_val": what plans are made with. */
static bool change_plan(const struct setting *setting, int64_t number) {
    static const struct wanted limits[] = {
        {"limits.batch", offsetof(kvmill_flow_limits, batch)},
        {"limits.pages", offsetof(kvmill_flow_limits, pages)},
        {"limits.cache_pages", offsetof(kvmill_flow_limits, cache_pages)},
        {.name = NULL}};
    struct setting name = *setting;
    size_t length = strlen(name.name) - 1;
    if (strcmp(name.name, "topk_val") == 0) {
        step.flow.select.topk_val = number;
        return true;
    }
    if (name.name[length] != '+')
        return setting_want(setting, limits, &step.limits);
    name.name[length] = '\0';
    for (int i = 0; limits[i].name != NULL; i++)
        if (strcmp(limits[i].name, name.name) == 0) {
            *(int64_t *)(void *)((char *)&step.limits + limits[i].offset) += number;
            return true;
        }
    return false;
}

/* "seq_len[1]=7", "query.0+=-1" (a dim), "query/0=0" (a stride), "query:type". */
static void change_tensor(const struct setting *setting, int which) {
    const char *how = setting->name + strcspn(setting->name, "[./:");
    int at = atoi(how + 1);
    if (how[0] == ':') {
        bend_as(how + 1, which);
        return;
    }
    int64_t number = number_of(setting->value);
    if (how[0] == '[') {
        numbers[put_count].which = which;
        numbers[put_count].at = at;
        numbers[put_count++].old = put(which, at, number);
        return;
    }
    struct bent *b = bend(which);
    int64_t *place = how[0] == '.' ? &b->shape[at] : &b->strides[at];
    if (how[0] == '/')
        b->dl.strides = b->strides;
    *place = how[strlen(how) - 1] == '+' ? *place + number : number;
}

/* ---- Which tensors ---- */

/* Index does not look at caches that its program does not read. */
static bool is_looked_at(enum flow_step_kind kind, int which) {
    bool is_cache =
        which >= KVMILL_CACHE_ATTENTION_CACHE && which <= KVMILL_CACHE_ATTENTION_VALUE_SCALE;
    return step.given[which] != NULL && !(kind == STEP_INDEX && is_cache);
}

static bool is_of_integers(int which) {
    return which == KVMILL_CACHE_ATTENTION_SEQSTARTS ||
           (which >= KVMILL_FLOW_SEQ_LEN && which < KVMILL_FLOW_FIELDS &&
            which != KVMILL_FLOW_BLOCK_IDS);
}

/* Whether the first word of a change means that tensor, by its name or by its kind. */
static bool is_meant(const char *change, int which) {
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(change, "[./:="), change);
    if (strcmp(word, "vector") == 0)
        return step.given[which] != NULL && is_of_integers(which);
    return strcmp(word, name_of(which)) == 0;
}

static void change_one(const struct setting *setting, int which) {
    const char *more = setting->name + strcspn(setting->name, "[./:");
    bool of_tensor = *more != '\0' && strncmp(setting->name, "limits", 6) != 0;
    if (strcmp(setting->name, "seqstarts") == 0)
        give_seqstarts(setting->value);
    else if (!of_tensor && !change_plan(setting, number_of(setting->value)))
        bail_out("a run has no %s", setting->name);
    else if (of_tensor) {
        for (int i = 0; i < FLOW_STEP_TENSORS; i++)
            if (is_meant(setting->name, i) && (which < 0 || which == i))
                change_tensor(setting, i);
    }
}

/* ---- Rows ---- */

/* The run with all changes, of which those that mean kinds of tensors mean that one. */
static bool is_row_refused(char **cell, enum flow_step_kind kind, int which) {
    char what[256];
    const kvmill_flow_limits limits = step.limits;
    const char *changes = cell[1], *gap = strchr(cell[3], '%');
    bool dense = strncmp(changes, "dense ", 6) == 0;
    flow_step_give(&step, kind, !dense);
    changes += dense ? 6 : 0;
    for (struct setting setting; setting_next(&changes, &setting);)
        change_one(&setting, which);
    snprintf(what, sizeof what, "%.*s%s%s", gap ? (int)(gap - cell[3]) : 255, cell[3],
             gap ? name_of(which) : "", gap ? gap + 1 : "");
    bool refused = is_refused(kind, cell[2], what);
    while (put_count-- > 0)
        put(numbers[put_count].which, numbers[put_count].at, numbers[put_count].old);
    put_count = 0;
    step.limits = limits;
    step.flow.select = step.select;
    return refused;
}

static void test_row(char **cell) {
    char steps[64], *rest = steps;
    snprintf(steps, sizeof steps, "%s", cell[0]);
    for (const char *name; (name = strsep(&rest, ",")) != NULL;) {
        enum flow_step_kind kind = (enum flow_step_kind)place_of(name, step_names, FLOW_STEP_KINDS);
        bool each = strchr(cell[3], '%') != NULL, refused = each || is_row_refused(cell, kind, -1);
        for (int which = 0; each && which < FLOW_STEP_TENSORS; which++) {
            flow_step_give(&step, kind, true);
            if (is_meant(cell[1], which))
                refused = is_row_refused(cell, kind, which) && refused;
        }
        ok(refused, "%s, %s: %s", name, cell[1], cell[3]);
    }
}

/* ---- Overlaps ---- */

static bool is_output(enum flow_step_kind kind, int which) {
    bool is_cache =
        which >= KVMILL_CACHE_ATTENTION_CACHE && which <= KVMILL_CACHE_ATTENTION_VALUE_SCALE;
    bool is_list = which >= KVMILL_FLOW_SEL_INDPTR && which <= KVMILL_FLOW_SCORES;
    if (kind == STEP_APPEND || kind == STEP_SUMMARISE)
        return which >= KVMILL_FLOW_FIELDS || (kind == STEP_APPEND && is_cache);
    return which == KVMILL_CACHE_ATTENTION_ATTN_OUTPUT || which == KVMILL_CACHE_ATTENTION_LSE ||
           (is_list && kind != STEP_ATTEND);
}

/* The smaller of the two in the memory of the other. */
static bool overlap_is_refused(enum flow_step_kind kind, int output, int other) {
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

/* Where both would do, the message is of the first output. */
static void test_overlaps(enum flow_step_kind kind) {
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
    ok(refused, "%s: overlaps of an output, %d pairs", step_names[kind], pairs);
}

TEST(runs) {
    each_row("flow_runs", 4, test_row);
    for (int kind = 0; kind < FLOW_STEP_KINDS; kind++)
        test_overlaps((enum flow_step_kind)kind);
}

/* ---- Workspaces, names, and lists in order ---- */

TEST(workspace) {
    static _Alignas(64) unsigned char memory[128];
    kvmill_error error;
    kvmill_plan *plan;
    flow_step_give(&step, STEP_DECODE, true);
    must(flow_step_plan(&step, STEP_DECODE, NULL, &plan, &error) == KVMILL_OK, error.message);
    ok_status(kvmill_run(plan, step.given, kvmill_plan_tensor_count(plan), memory + 8, &error),
              KVMILL_E_WORKSPACE, &error, "workspace is at 0x", "decode: an odd workspace");
    ok_status(kvmill_run(plan, step.given, kvmill_plan_tensor_count(plan), NULL, &error),
              KVMILL_E_WORKSPACE, &error, "workspace is NULL; ", "decode: no workspace");
    kvmill_plan_destroy(plan);
}

/* A field may not have the name of a tensor that callers pass. */
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

/* What a caller counts with before it runs. */
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

TEST(as_it_was) {
    flow_step_give(&step, STEP_APPEND, true);
    ok(is_accepted(STEP_APPEND), "append: accepted as it was");
    flow_step_close(&step);
}

/* With a window, lists ascend; without one, pages may come in any order, and again. */
TEST(order) {
    open_step("");
    put(KVMILL_FLOW_SEL, 2, step.list[1]);
    flow_step_give(&step, STEP_ATTEND, true);
    ok(is_accepted(STEP_ATTEND), "attend: a page twice");
    flow_step_close(&step);
    open_step("left_window_size=39");
    put(KVMILL_FLOW_SEL, 1, 5);
    test_row(
        (char *[]){"attend", "sel[2]=5", "KVMILL_E_INDEX_RANGE", "sel[2] is 5; accepted: 6 to 6"});
    flow_step_close(&step);
}

/* Four to a page: pages that a field has not all blocks of, scores without the room of the last. */
TEST(blocks) {
    open_step("block_size=4");
    int64_t most = 0, pages = step.indptr[4];
    for (int64_t p = 0; p < pages; p++)
        most = *flow_step_page(&step, 0, p) > most ? *flow_step_page(&step, 0, p) : most;
    flow_step_give(&step, STEP_DECODE, true);
    bend(KVMILL_FLOW_FIELDS + 1)->shape[0] = 4 * most + 3;
    ok(is_refused(STEP_DECODE, "KVMILL_E_INDEX_RANGE", "page_ids["),
       "decode: a page of which a field has three blocks of four");
    flow_step_give(&step, STEP_DECODE, true);
    bend(KVMILL_FLOW_SCORES)->shape[0] = 4 * pages * step.rows - 1;
    ok(is_refused(STEP_DECODE, "KVMILL_E_SHAPE", "scores has "),
       "decode: scores of all blocks but one");
    flow_step_give(&step, STEP_DECODE, true);
    ok(is_accepted(STEP_DECODE), "decode: blocks, accepted as they are");
    flow_step_close(&step);
}

void before_tests(void) {
    open_step("");
}
