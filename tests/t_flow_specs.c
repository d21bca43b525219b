/* Flow files: those that ship, what is refused and in which words, and what a flow keeps.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../defs/dtype.h"
#include "../ops/flow_atom.h"
#include "common.h"
#include "flow_file.h"
#include "table.h"

/* ---- What ships ---- */

/* ratio: of elements; atoms: of those that have scores to give; left: steps except these and topK.
 */
struct shipped {
    const char *name;
    int fields, cache, index;
    kvmill_fraction ratio;
    bool scores; /* whether a page ever is scored */
    int atoms, left;
};

static const struct shipped shipped[] = {
    {"block_sparse", 1, 1, 3, {33, 16}, true, 1, 1},
    {"gqa_block_sparse", 1, 1, 4, {33, 16}, true, 1, 2},
    {"gqa_quest", 2, 2, 6, {17, 8}, true, 1, 0},
    {"lserve_sparse", 2, 2, 6, {17, 8}, true, 1, 0},
    {"lserve_centroid", 1, 1, 4, {33, 16}, true, 1, 1},
    {"masked_quest", 2, 2, 8, {17, 8}, true, 1, 2},
    {"centered_block_sparse", 1, 1, 5, {33, 16}, true, 1, 2},
    {"running_avg_block_sparse", 2, 2, 6, {4225, 2048}, true, 1, 4},
    {"venergy_gated_centroid", 2, 3, 4, {4225, 2048}, true, 1, 2},
    {"h2o_sparse", 3, 3, 8, {35, 16}, true, 2, 2},
    {"gqa_h2o", 3, 3, 9, {35, 16}, true, 2, 3},
    {"h2o_token", 1, 1, 7, {257, 128}, true, 0, 6},
    {"gqa_h2o_token", 1, 1, 7, {257, 128}, true, 0, 6},
    {"infllm", 1, 1, 4, {9, 4}, true, 1, 1},
    {"token_index", 0, 0, 5, {2, 1}, true, 0, 4},
    {"quest_growing", 2, 2, 6, {17, 8}, true, 1, 0},
    {"sinks_and_window", 0, 0, 0, {2, 1}, false, 0, 0},
    {"dense", 0, 0, 0, {2, 1}, false, 0, 0},
};

static bool fractions_equal(kvmill_fraction a, kvmill_fraction b) {
    return a.numerator == b.numerator && a.denominator == b.denominator;
}

static void test_found_atoms(const struct kvmill_flow_problem *problem, const struct shipped *row) {
    const struct kvmill_flow_program *program = &problem->programs[KVMILL_INDEX_PROGRAM];
    struct kvmill_flow_atoms found;
    int left = 0;
    kvmill_flow_find_atoms(problem, &found);
    for (int n = 0; n < program->step_count; n++)
        left += !found.elsewhere[n] && program->steps[n].code != KVMILL_FLOW_TOPK;
    if (!ok(found.count == row->atoms && left == row->left, "  its atoms"))
        diag("%d atoms, %d steps are left", found.count, left);
}

/* Read, checked, and written as it is read. */
static void test_one_shipped(const struct shipped *row) {
    struct spec_list specs, again = {0};
    struct kvmill_flow_problem problem;
    struct error error;
    json_t *given = flow_json(row->name);
    const kvmill_flow *flow = flow_open_json(given, &specs);
    kvmill_flow_layout layout = {.struct_size = sizeof layout};
    ok((int)flow->field_count == row->fields && (int)flow->cache_count == row->cache &&
           (int)flow->index_count == row->index,
       "%s: its fields and ops", row->name);
    bool told = kvmill_flow_describe(flow, &layout, NULL) == KVMILL_OK &&
                kvmill_flow_verify(flow, &problem, NULL) == KVMILL_OK;
    ok(told && kvmill_flow_scores(&problem.budget) == row->scores, "  whether pages are scored");
    if (!ok(told && fractions_equal(layout.ratio_elements, row->ratio), "  its token ratio"))
        diag("%" PRId64 "/%" PRId64, layout.ratio_elements.numerator,
             layout.ratio_elements.denominator);
    ok(layout.group == 4 && layout.kv_heads == 8, "  heads");
    test_found_atoms(&problem, row);
    json_t *first = specs_write(&specs);
    char *text = json_dumps(first, 0);
    bool read = flow_read(text, &again, &error);
    json_t *second = read ? specs_write(&again) : NULL;
    ok(read && json_equal(first, second), "  is written as it is read");
    json_decref(given);
    json_decref(first);
    json_decref(second);
    free(text);
    spec_list_free(&specs);
    spec_list_free(&again);
}

static void test_shipped(void) {
    const char *const *names = flows_shipped();
    int files = 0;
    for (size_t i = 0; i < COUNT(shipped); i++)
        test_one_shipped(&shipped[i]);
    while (names[files] != NULL)
        files++;
    ok(files == COUNT(shipped), "each of %d flows has its row", files);
}

/* ---- Atoms ---- */

/* "bound of 0 1, 4 x 1, channels 8 to 128, Max of heads"; NONE: nothing. */
static const char *words_of(const struct kvmill_flow_atom *atom) {
    static const char *const overs[] = {"", "heads", "blocks", "all"};
    static char text[200];
    if (atom->kind == KVMILL_ATOM_NONE)
        return "";
    bool is_bound = atom->kind == KVMILL_ATOM_BOUND;
    int at = snprintf(text, sizeof text, "%s of %d %d%s, %d x %d, channels %d to %d",
                      is_bound ? "bound" : "dot", atom->field[0], atom->field[1],
                      atom->mean_query ? " by the mean" : "", (int)atom->heads, (int)atom->blocks,
                      (int)atom->first, (int)atom->last);
    for (int i = 0; i < atom->folds; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, ", %s of %s",
                       kvmill_flow_kind_at(atom->fold[i].code)->name, overs[atom->fold[i].over]);
    return text;
}

/* What an op of the index program gives, or selects by. */
static void test_atom(const kvmill_flow *flow, int op, const char *wanted, const char *name) {
    struct kvmill_flow_problem problem;
    struct kvmill_flow_atom atom;
    if (kvmill_flow_verify(flow, &problem, NULL) != KVMILL_OK)
        bail_out("%s is not valid", name);
    const struct kvmill_flow_step *step = &problem.programs[KVMILL_INDEX_PROGRAM].steps[op];
    int value = step->output >= 0 ? step->output : step->input[0];
    bool found = kvmill_flow_match_atom(&problem, value, &atom);
    ok(found == (*wanted != '\0'), "op %d of %s is an atom, or none", op, name);
    ok_text(words_of(&atom), wanted, "  %s", wanted);
}

static void test_atoms(void) {
    static const struct {
        const char *flow;
        int op;
        const char *wanted;
    } rows[] = {
        {"block_sparse", 2, "dot of 0 0 by the mean, 1 x 1, channels 0 to 128"},
        {"gqa_block_sparse", 0, "dot of 0 0, 4 x 1, channels 0 to 128"},
        {"gqa_quest", 5, "bound of 0 1, 4 x 1, channels 0 to 128, Max of heads"},
        {"gqa_quest", 3, "bound of 0 1, 4 x 1, channels 0 to 128"},
        {"lserve_sparse", 5, "bound of 0 1, 4 x 4, channels 0 to 128, Max of all"},
        {"lserve_centroid", 3, "dot of 0 0 by the mean, 1 x 4, channels 0 to 128, Max of blocks"},
        {"masked_quest", 7, "bound of 0 1, 4 x 1, channels 8 to 128, Max of heads"},
        {"centered_block_sparse", 1, "dot of 0 0, 4 x 1, channels 0 to 128, Mean of heads"},
        {"infllm", 3, "dot of 0 0 by the mean, 1 x 4, channels 0 to 128, Sum of blocks"},
        {"h2o_sparse", 5, "bound of 1 2 by the mean, 1 x 1, channels 0 to 128"},
        {"venergy_gated_centroid", 1, "dot of 0 0 by the mean, 1 x 1, channels 0 to 128"},
        {"venergy_gated_centroid", 3, ""},
        {"gqa_block_sparse", 3, ""},
        {"centered_block_sparse", 4, ""},
        {"h2o_token", 1, ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct spec_list specs;
        json_t *json = flow_json(rows[i].flow);
        test_atom(flow_open_json(json, &specs), rows[i].op, rows[i].wanted, rows[i].flow);
        json_decref(json);
        spec_list_free(&specs);
    }
}

/* Heads first or blocks first, not the same where one is a mean; what looks like a bound and is
   none. */
static void test_two_folds(void) {
    static const struct {
        const char *word, *folds, *wanted;
    } rows[] = {
        {"folds", "<e = Mean d dim=2>, <s = Max e dim=1>",
         "dot of 0 0, 4 x 2, channels 0 to 16, Mean of heads, Max of blocks"},
        {"folds", "<e = Max d dim=1>, <s = Mean e dim=2>",
         "dot of 0 0, 4 x 2, channels 0 to 16, Max of blocks, Mean of heads"},
        {"index", "<d = GeMM q c>, <e = Max d dim=2>, <s = Sum e dim=2>, $topk",
         "dot of 0 0, 4 x 1, channels 0 to 16, Max of heads"},
        {"folds", "<e = Min d dim=1>, <s = Mean e dim=2>", ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct spec_list specs;
        char *text = flow_text(rows[i].word, rows[i].folds, "");
        test_atom(flow_open(text, &specs), 3, rows[i].wanted, rows[i].folds);
        spec_list_free(&specs);
        free(text);
    }
}

/* ---- Refusals ---- */

/* "fine" in place of a place: what is refused elsewhere is refused for what is wrong alone. */
static void test_refusal(char **cell) {
    struct spec_list specs;
    struct error error;
    char place[512];
    char *text = flow_text(cell[1], cell[2], "");
    snprintf(place, sizeof place, "%s: %s: ", flow_file(), cell[3]);
    bool done = flow_read(text, &specs, &error);
    if (strcmp(cell[3], "fine") == 0)
        ok_text(error.text, "", "accepted: %s", cell[0]);
    else
        ok_failed(done, &error, EXIT_USER, place, cell[4], "refused: %s", cell[0]);
    spec_list_free(&specs);
    free(text);
}

static void test_refusals(void) {
    each_row("flow_refusals", 5, test_refusal);
}

/* ---- What is read whole ---- */

static bool is_skipped(const kvmill_flow *flow, int64_t layer) {
    kvmill_cache_attention attention = *flow->attention;
    kvmill_flow own = *flow;
    struct kvmill_flow_problem problem;
    kvmill_error reason;
    attention.num_layer = 8;
    attention.layer_idx = layer;
    own.attention = &attention;
    if (kvmill_flow_verify(&own, &problem, &reason) != KVMILL_OK)
        bail_out("%s", reason.message);
    return problem.skipped;
}

static void test_whole(void) {
    struct spec_list specs;
    struct text words = {0};
    char *text = flow_text("and", "\"layers_skip\": [2, 7], \"select\": {\"dense_below\": 99}", "");
    const kvmill_flow *flow = flow_open(text, &specs);
    ok(flow->layers_skip_count == 2 && flow->layers_skip[0] == 2 && flow->layers_skip[1] == 7,
       "layers that read all pages");
    ok(is_skipped(flow, 2) && is_skipped(flow, 7) && !is_skipped(flow, 3), "  are these alone");
    ok(flow->select.dense_below == 99, "and rows of fewer tokens");
    flow_words(&specs.items[0], &words);
    static const char wanted[] =
        "1 + 30 + 1; rows of fewer than 99 tokens whole; layers 2, 7 whole";
    ok(words.data != NULL && strstr(words.data, wanted) != NULL, "  in words");
    text_free(&words);
    spec_list_free(&specs);
    free(text);
}

/* ---- Fields and ratios ---- */

static void make_attention(kvmill_cache_attention *attention, int64_t page, int64_t dim) {
    kvmill_cache_attention_init(attention, sizeof *attention);
    attention->dynamic_batching = 1;
    attention->cache_mode = 1;
    attention->num_heads = attention->num_kv_heads = 1;
    attention->head_dim = dim;
    attention->page_size = page;
    attention->T1 = attention->T2 = bf16;
}

static bool field_is(const kvmill_flow *flow, size_t i, const char *name, int64_t rows,
                     int64_t columns, DLDataType type) {
    kvmill_flow_field field;
    return kvmill_flow_field_at(flow, i, &field) && strcmp(field.name, name) == 0 &&
           field.rows == rows && field.columns == columns && kvmill_dtype_equal(field.dtype, type);
}

static void test_fields(void) {
    kvmill_cache_attention attention;
    kvmill_flow flow;
    kvmill_flow_field field;
    const kvmill_flow_field fields[] = {{"b", 1, 128, bf16}, {"a", 4, 2, f32}};
    make_attention(&attention, 16, 128);
    attention.value_differs = 1;
    attention.value_head_dim = 64;
    attention.value_T2 = f32;
    kvmill_flow_init(&flow, sizeof flow);
    flow.attention = &attention;
    flow.fields = fields;
    flow.field_count = 2;
    ok(field_is(&flow, 0, "b", 1, 128, bf16) && field_is(&flow, 1, "a", 4, 2, f32),
       "fields are in their order");
    ok(field_is(&flow, 2, "k", 16, 128, bf16) && field_is(&flow, 3, "v", 16, 64, f32),
       "then k and v, of the cache's dims and types");
    ok(!kvmill_flow_field_at(&flow, 4, &field), "and none after them");
    flow.field_count = 0;
    ok(field_is(&flow, 0, "k", 16, 128, bf16), "without fields k is the first");
}

/* The layout of a flow that was checked; fields of one element type. */
static kvmill_flow_layout layout_of(int64_t page, int64_t dim, int element, int fields,
                                    int64_t rows, int64_t columns) {
    static struct kvmill_flow_problem problem;
    kvmill_flow_layout layout;
    problem = (struct kvmill_flow_problem){.field_count = fields};
    problem.geometry.page_size = page;
    problem.geometry.key = problem.geometry.value =
        (struct kvmill_format){element, (int32_t)dim, 0, 0};
    for (int i = 0; i < fields; i++)
        problem.fields[i] =
            (struct kvmill_flow_field_data){KVMILL_BF16, rows, columns, 2 * rows * columns, false};
    kvmill_flow_layout_of(&problem, &layout);
    return layout;
}

/* The exact rationals of vFlow's first version, and the bytes of its second. */
static void test_ratios(void) {
    static const struct {
        const char *name;
        int64_t page, dim;
        int fields;
        int64_t rows, columns;
        double ratio;
        kvmill_fraction exact;
    } table[] = {
        {"centroid", 16, 128, 1, 1, 128, 2.0625, {33, 16}},
        {"Quest", 16, 128, 2, 1, 128, 2.125, {17, 8}},
        {"H2O by pages", 16, 128, 3, 1, 128, 2.1875, {35, 16}},
        {"LServe", 64, 128, 2, 4, 128, 2.125, {17, 8}},
        {"H2O by tokens, of 64", 1, 64, 1, 1, 1, 2 + 1 / 64.0, {129, 64}},
        {"H2O by tokens, of 80", 1, 80, 1, 1, 1, 2 + 1 / 80.0, {161, 80}},
        {"none", 7, 13, 0, 0, 0, 2, {2, 1}},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        kvmill_flow_layout layout = layout_of(table[i].page, table[i].dim, KVMILL_BF16,
                                              table[i].fields, table[i].rows, table[i].columns);
        kvmill_fraction found = layout.ratio_elements;
        ok(fractions_equal(found, table[i].exact) &&
               (double)found.numerator / (double)found.denominator == table[i].ratio,
           "the ratio of elements of %s is %g", table[i].name, table[i].ratio);
        ok(fractions_equal(layout.ratio_bytes, found), "and that of bytes, all of two");
    }
    kvmill_flow_layout layout = layout_of(16, 128, KVMILL_I8, 2, 1, 128);
    ok(fractions_equal(layout.ratio_bytes, (kvmill_fraction){9, 4}) &&
           fractions_equal(layout.ratio_fields, (kvmill_fraction){1, 4}) &&
           fractions_equal(layout.ratio_elements, (kvmill_fraction){17, 8}) &&
           layout.page_bytes == 2 * 16 * 128 + 2 * 2 * 128,
       "with bytes in the cache Quest's fields are a quarter, its ratio 2.25");
}

/* ---- The library's check ---- */

/* A flow of the caller's own, and what may become of it. */
struct own {
    kvmill_cache_attention attention;
    kvmill_flow_field fields[2];
    kvmill_flow_op cache[1], index[2];
    kvmill_flow flow;
    kvmill_flow_layout layout;
};

static void make_own(struct own *own) {
    *own = (struct own){.fields = {{"c", 1, 8, f32}, {NULL, 1, 8, f32}},
                        .cache = {{.op = "Max", .inputs = {"k"}, .output = "c", .dims = 1 << 1}},
                        .index = {{.op = "GeMM", .inputs = {"q", "c"}, .output = "s"},
                                  {.op = "topK", .inputs = {"s"}}},
                        .layout = {.struct_size = sizeof own->layout}};
    make_attention(&own->attention, 4, 8);
    kvmill_flow_init(&own->flow, sizeof own->flow);
    own->flow.attention = &own->attention;
    own->flow.fields = own->fields;
    own->flow.cache = own->cache;
    own->flow.index = own->index;
    own->flow.field_count = own->flow.cache_count = 1;
    own->flow.index_count = 2;
    own->flow.select = (kvmill_flow_select){.topk_val = 3, .reserved_bos = 1, .reserved_eos = 1};
}

#define PUT(MEMBER, VALUE)                                                                         \
    offsetof(struct own, MEMBER), sizeof((struct own *)NULL)->MEMBER, (intptr_t)(VALUE)

static void test_describe(void) {
    const struct {
        size_t at, size;
        intptr_t value;
        kvmill_status status;
        const char *words;
    } rows[] = {
        {PUT(flow.attention, 0), KVMILL_E_NULL, "flow.attention is NULL"},
        {PUT(flow.struct_size, 4), KVMILL_E_ATTRIBUTE, "flow.struct_size is 4; accepted: "},
        {PUT(layout.struct_size, 4), KVMILL_E_ATTRIBUTE, "layout.struct_size is 4; accepted: "},
        {PUT(flow.field_count, 2), KVMILL_E_NULL, "fields[1]: the name is NULL"},
        {PUT(flow.field_count, 33), KVMILL_E_ATTRIBUTE, "fields: the count is 33; accepted: 0 to"},
        {PUT(cache[0].op, 0), KVMILL_E_NULL, "cache[0]: op is NULL"},
        {PUT(cache[0].inputs[1], "v"), KVMILL_E_ATTRIBUTE, "cache[0]: Max has more than 1 input"},
        {PUT(cache[0].dims, 0), KVMILL_E_ATTRIBUTE, "cache[0]: dim of Max; accepted: 1, 2"},
        {PUT(flow.select.order, "none"), KVMILL_E_ATTRIBUTE, "select/order: is \"none\""},
        {PUT(attention.dynamic_batching, 0), KVMILL_E_ATTRIBUTE, "dynamic_batching is 0"},
    };
    struct own own;
    kvmill_error error;
    make_own(&own);
    ok(kvmill_flow_describe(&own.flow, &own.layout, &error) == KVMILL_OK &&
           error.message[0] == '\0' && own.layout.page_bytes == 2 * 4 * 8 * 2 + 8 * 4 &&
           own.layout.group == 1 && own.layout.kv_heads == 1,
       "a flow of the caller's own");
    for (size_t i = 0; i < COUNT(rows); i++) {
        make_own(&own);
        memcpy((char *)&own + rows[i].at, &rows[i].value, rows[i].size);
        kvmill_status status = kvmill_flow_describe(&own.flow, &own.layout, &error);
        ok_status(status, rows[i].status, &error, rows[i].words, "refused: %s", rows[i].words);
    }
}

int main(int count, char **words) {
    static const struct test tests[] = {
        {"shipped", test_shipped},   {"atoms", test_atoms},       {"folds", test_two_folds},
        {"refusals", test_refusals}, {"whole", test_whole},       {"fields", test_fields},
        {"ratios", test_ratios},     {"describe", test_describe}, {NULL, NULL},
    };
    (void)count;
    return run_tests(tests, words);
}
