/* Flow files: the shipped ones, refusals and their words, and the members of a flow.

   SPDX-License-Identifier: Apache-2.0 */
#include "../defs/dtype.h"
#include "../defs/op_tables.h"
#include "../ops/flow_atom.h"
#include "common.h"
#include "flow_file.h"

/* ---- Shipped flows ---- */

/* Whether the fraction is `wanted`, "33/16". */
static bool is_fraction(kvmill_fraction fraction, const char *wanted) {
    char text[64];
    snprintf(text, sizeof text, "%" PRId64 "/%" PRId64, fraction.numerator, fraction.denominator);
    if (strcmp(text, wanted) != 0)
        diag("%s, wanted %s", text, wanted);
    return strcmp(text, wanted) == 0;
}

static void test_found_atoms(const struct kvmill_flow_problem *problem, int atoms, int steps) {
    const struct kvmill_flow_program *program = &problem->programs[KVMILL_INDEX_PROGRAM];
    struct kvmill_flow_atoms found;
    int left = 0;
    kvmill_flow_find_atoms(problem, &found);
    for (int n = 0; n < program->step_count; n++)
        left += !found.elsewhere[n] && !kvmill_flow_is_selection(program->steps[n].code);
    if (!ok(found.count == atoms && left == steps, "  its atoms"))
        diag("%d atoms, %d steps are left", found.count, left);
}

static int shipped; /* rows so far */

/* Reads and checks a flow, writes it and reads it again. */
ROWS(shipped, 8) {
    OWN(spec_list_free) struct spec_list specs, again = {0};
    struct kvmill_flow_problem problem;
    struct error error;
    json_auto_t *given = flow_json(cells[0]);
    const kvmill_flow *flow = flow_open_json(given, &specs);
    kvmill_flow_layout layout = {.struct_size = sizeof layout};
    shipped++;
    ok((int)flow->field_count == atoi(cells[1]) && (int)flow->cache_count == atoi(cells[2]) &&
           (int)flow->index_count == atoi(cells[3]),
       "%s: its fields and ops", cells[0]);
    bool told = kvmill_flow_describe(flow, &layout, NULL) == KVMILL_OK &&
                kvmill_flow_verify(flow, &problem, NULL) == KVMILL_OK;
    ok(told && kvmill_flow_scores(&problem.budget) == (strcmp(cells[5], "true") == 0),
       "  whether pages are scored");
    ok(told && is_fraction(layout.ratio_elements, cells[4]), "  its token ratio");
    ok(layout.kv_heads == flow->attention->num_kv_heads &&
           layout.group * layout.kv_heads == flow->attention->num_heads,
       "  heads");
    test_found_atoms(&problem, atoi(cells[6]), atoi(cells[7]));
    json_auto_t *first = specs_write(&specs);
    FREED char *text = json_dumps(first, 0);
    bool read = flow_read(text, &again, &error);
    json_auto_t *second = read ? specs_write(&again) : NULL;
    ok(read && json_equal(first, second), "  is written as it is read");
}

TABLE(flows);

TEST(all_shipped) {
    const char *const *names = flows_shipped();
    int files = 0;
    while (names[files] != NULL)
        files++;
    ok(files == shipped, "each of %d flows has its row", files);
}

/* ---- Atoms ---- */

/* Returns an atom in words: "bound of 0 1, 4 x 1, channels 8 to 128, Max of heads"; NONE: "". */
static const char *words_of(const struct kvmill_flow_atom *atom) {
    static const char *const overs[] = {"", "heads", "blocks", "all"};
    static char text[200];
    if (atom->kind == KVMILL_ATOM_NONE)
        return "";
    bool is_bound = atom->kind == KVMILL_ATOM_BOUND;
    int at = snprintf(text, sizeof text, "%s of %d %d%s, %d x %d, channels %d to %d",
                      is_bound         ? "bound"
                      : atom->positive ? "positive dot"
                                       : "dot",
                      atom->field[0], atom->field[1], atom->mean_query ? " by the mean" : "",
                      (int)atom->heads, (int)atom->blocks, (int)atom->first, (int)atom->last);
    if (atom->weight >= 0)
        at += snprintf(text + at, sizeof text - (size_t)at, ", weighted");
    for (int i = 0; i < atom->folds; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, ", %s of %s",
                       kvmill_flow_kind_at(atom->fold[i].code)->name, overs[atom->fold[i].over]);
    return text;
}

/* Checks the atom of an op's result in the index program, or of what it selects by. */
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

ROWS(atom, 3) {
    OWN(spec_list_free) struct spec_list specs;
    json_auto_t *json = flow_json(cells[0]);
    test_atom(flow_open_json(json, &specs), atoi(cells[1]), cells[2], cells[0]);
}

ROWS(folds, 3) {
    OWN(spec_list_free) struct spec_list specs;
    FREED char *text = flow_text(cells[0], cells[1], "");
    test_atom(flow_open(text, &specs), 3, cells[2], cells[1]);
}

/* ---- Refusals ---- */

/* "fine" instead of a place: the file is valid, so that the other rows are refused only for their
   own error. */
EACH_ROW(flow_refusals, 5) {
    OWN(spec_list_free) struct spec_list specs;
    struct error error;
    char place[512];
    FREED char *text = flow_text(cells[1], cells[2], "");
    snprintf(place, sizeof place, "%s: %s: ", flow_file(), cells[3]);
    bool done = flow_read(text, &specs, &error);
    if (strcmp(cells[3], "fine") == 0)
        ok_text(error.text, "", "accepted: %s", cells[0]);
    else
        ok_failed(done, &error, EXIT_USER, place, cells[4], "refused: %s", cells[0]);
}

/* ---- Members ---- */

static bool is_skipped(const kvmill_flow *flow, int64_t layer) {
    kvmill_cache_attention attention = *flow->attention;
    kvmill_flow own = *flow;
    struct kvmill_flow_problem problem;
    kvmill_error reason;
    attention.num_layer = 8;
    attention.layer_idx = layer;
    own.attention = &attention;
    must(kvmill_flow_verify(&own, &problem, &reason) == KVMILL_OK, reason.message);
    return problem.skipped;
}

TEST(whole) {
    OWN(spec_list_free) struct spec_list specs;
    OWN(text_free) struct text words = {0};
    FREED char *text =
        flow_text("and", "\"layers_skip\": [2, 7], \"select\": {\"dense_below\": 99}", "");
    const kvmill_flow *flow = flow_open(text, &specs);
    ok(flow->layers_skip_count == 2 && flow->layers_skip[0] == 2 && flow->layers_skip[1] == 7,
       "layers that read all pages");
    ok(is_skipped(flow, 2) && is_skipped(flow, 7) && !is_skipped(flow, 3), "  are these alone");
    ok(flow->select.dense_below == 99, "and rows of fewer tokens");
    flow_words(&specs.items[0], &words);
    static const char wanted[] =
        "1 + 30 + 1; rows of fewer than 99 tokens whole; layers 2, 7 whole";
    ok(words.data != NULL && strstr(words.data, wanted) != NULL, "  in words");
}

/* ---- Fields and ratios ---- */

/* ATTENTION MORE WANTED: fields in order, then K and V. */
ROWS(listed, 3) {
    OWN(spec_list_free) struct spec_list specs;
    OWN(text_free) struct text words = {0};
    kvmill_flow_field field;
    FREED char *text = flow_text("listed", cells[0], cells[1]);
    const kvmill_flow *flow = flow_open(text, &specs);
    for (size_t i = 0; kvmill_flow_field_at(flow, i, &field); i++)
        text_print(&words, "%s%s %dx%d %s", i > 0 ? ", " : "", field.name, (int)field.rows,
                   (int)field.columns, kvmill_dtype_name(field.dtype));
    ok_text(words.data, cells[2], "fields: %s", cells[2]);
}

/* Returns the layout of a checked flow with fields of one element type. */
static kvmill_flow_layout layout_of(int64_t page, int64_t dim, int element, int fields,
                                    int64_t rows, int64_t columns) {
    static struct kvmill_flow_problem problem;
    kvmill_flow_layout layout;
    problem =
        (struct kvmill_flow_problem){.block_size = page, .page_blocks = 1, .field_count = fields};
    problem.geometry.page_size = page;
    problem.geometry.kv_heads = 1;
    problem.geometry.key = problem.geometry.value =
        (struct kvmill_format){element, (int32_t)dim, 0, 0};
    for (int i = 0; i < fields; i++)
        problem.fields[i] = (struct kvmill_flow_field_data){.element = KVMILL_BF16,
                                                            .rows = rows,
                                                            .columns = columns,
                                                            .bytes = 2 * rows * columns,
                                                            .heads = 1};
    kvmill_flow_layout_of(&problem, &layout);
    return layout;
}

ROWS(ratio, 7) {
    kvmill_flow_layout layout = layout_of(atoi(cells[1]), atoi(cells[2]), KVMILL_BF16,
                                          atoi(cells[3]), atoi(cells[4]), atoi(cells[5]));
    ok(is_fraction(layout.ratio_elements, cells[6]) && is_fraction(layout.ratio_bytes, cells[6]),
       "the ratio of %s is %s, in elements of two bytes as in bytes", cells[0], cells[6]);
}

/* The sizes in bytes of vFlow's second version. */
TEST(bytes) {
    kvmill_flow_layout layout = layout_of(16, 128, KVMILL_I8, 2, 1, 128);
    ok(is_fraction(layout.ratio_bytes, "9/4") && is_fraction(layout.ratio_fields, "1/4") &&
           is_fraction(layout.ratio_elements, "17/8") &&
           layout.page_bytes == 2 * 16 * 128 + 2 * 2 * 128,
       "with bytes in the cache Quest's fields are a quarter, its ratio 2.25");
}

/* ---- The library's check ---- */

/* A caller's own flow, and room for its layout. */
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
    setting_fill(&kvmill_cache_attention_attributes, &own->attention,
                 "cache_mode=1 num_heads=1 num_kv_heads=1 head_dim=8 page_size=4 T1=bfloat16 "
                 "T2=bfloat16",
                 NULL);
    own->attention.dynamic_batching = 1;
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

TEST(describe) {
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
