/* Flow files: those that ship, what is refused and in which words, and what a flow keeps.

   SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../gen/flow.h"
#include "../defs/dtype.h"
#include "../ops/flow_atom.h"
#include "tap.h"

static char file[] = "/tmp/t_flow_specs.XXXXXX";

static bool read_text(const char *text, struct spec_list *specs, struct error *error) {
    FILE *stream = fopen(file, "wb");
    if (stream == NULL || fputs(text, stream) < 0 || fclose(stream) != 0)
        bail_out("cannot write %s: %s", file, strerror(errno));
    *specs = (struct spec_list){0};
    *error = (struct error){0};
    return specs_read(file, specs, error);
}

/* ---- What ships ---- */

static const char *flow_path(const char *name, char path[512]) {
    const char *srcdir = getenv("srcdir");
    snprintf(path, 512, "%s/configs/flows/%s", srcdir != NULL ? srcdir : ".", name);
    return path;
}

/* ratio: of elements; scores: whether a page ever is. */
struct shipped {
    const char *name;
    int fields, cache, index;
    kvmill_fraction ratio;
    bool scores;
};

static const struct shipped shipped[] = {
    {"block_sparse.json", 1, 1, 3, {33, 16}, true},
    {"gqa_block_sparse.json", 1, 1, 4, {33, 16}, true},
    {"gqa_quest.json", 2, 2, 6, {17, 8}, true},
    {"lserve_sparse.json", 2, 2, 6, {17, 8}, true},
    {"lserve_centroid.json", 1, 1, 4, {33, 16}, true},
    {"masked_quest.json", 2, 2, 8, {17, 8}, true},
    {"centered_block_sparse.json", 1, 1, 5, {33, 16}, true},
    {"running_avg_block_sparse.json", 2, 2, 6, {4225, 2048}, true},
    {"venergy_gated_centroid.json", 2, 3, 4, {4225, 2048}, true},
    {"h2o_sparse.json", 3, 3, 8, {35, 16}, true},
    {"gqa_h2o.json", 3, 3, 9, {35, 16}, true},
    {"h2o_token.json", 1, 1, 7, {257, 128}, true},
    {"gqa_h2o_token.json", 1, 1, 7, {257, 128}, true},
    {"infllm.json", 1, 1, 4, {9, 4}, true},
    {"token_index.json", 0, 0, 5, {2, 1}, true},
    {"quest_growing.json", 2, 2, 6, {17, 8}, true},
    {"sinks_and_window.json", 0, 0, 0, {2, 1}, false},
    {"dense.json", 0, 0, 0, {2, 1}, false},
};
enum { SHIPPED = sizeof shipped / sizeof *shipped };

static bool fractions_equal(kvmill_fraction a, kvmill_fraction b) {
    return a.numerator == b.numerator && a.denominator == b.denominator;
}

static void test_one_shipped(const struct shipped *row) {
    char path[512];
    struct spec_list specs = {0};
    struct error error = {0};
    kvmill_error reason;
    kvmill_flow_layout layout = {.struct_size = sizeof layout};
    if (!ok(specs_read(flow_path(row->name, path), &specs, &error) && specs.count == 1,
            "%s is read", row->name)) {
        diag("%s", error.text);
        spec_list_free(&specs);
        return;
    }
    const kvmill_flow *flow = flow_of_spec(&specs.items[0]);
    ok((int)flow->field_count == row->fields && (int)flow->cache_count == row->cache &&
           (int)flow->index_count == row->index,
       "with its fields and ops");
    struct kvmill_flow_problem problem;
    bool told = kvmill_flow_describe(flow, &layout, &reason) == KVMILL_OK &&
                kvmill_flow_verify(flow, &problem, &reason) == KVMILL_OK;
    ok(told && kvmill_flow_scores(&problem.budget) == row->scores, "whether pages are scored");
    if (!ok(told && fractions_equal(layout.ratio_elements, row->ratio), "and its token ratio"))
        diag("%" PRId64 "/%" PRId64, layout.ratio_elements.numerator,
             layout.ratio_elements.denominator);
    ok(layout.group == 4 && layout.kv_heads == 8, "and heads");
    spec_list_free(&specs);
}

static int count_files(void) {
    char path[512];
    int count = 0;
    DIR *directory = opendir(flow_path("", path));
    if (directory == NULL)
        bail_out("cannot open %s", path);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        size_t length = strlen(entry->d_name);
        count += length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
    }
    closedir(directory);
    return count;
}

static void test_shipped(void) {
    for (int i = 0; i < SHIPPED; i++)
        test_one_shipped(&shipped[i]);
    int files = count_files();
    ok(files == SHIPPED, "each of %d flows has its row (%d)", files, SHIPPED);
}

/* What is written is read again as the same. */
static void test_round_trip(void) {
    for (int i = 0; i < SHIPPED; i++) {
        char path[512];
        struct spec_list specs = {0}, again = {0};
        struct error error = {0};
        if (!specs_read(flow_path(shipped[i].name, path), &specs, &error))
            bail_out("%s", error.text);
        json_t *first = specs_write(&specs);
        char *text = json_dumps(first, 0);
        bool read = read_text(text, &again, &error);
        json_t *second = read ? specs_write(&again) : NULL;
        if (!ok(read && json_equal(first, second), "%s is written as it is read", shipped[i].name))
            diag("%s", error.text);
        json_decref(first);
        json_decref(second);
        free(text);
        spec_list_free(&specs);
        spec_list_free(&again);
    }
}

/* ---- Atoms ---- */

/* The value that the op of that number of the index program gives, or selects by. */
struct atom_row {
    const char *flow;
    int op;
    struct kvmill_flow_atom atom;
};

#define FOLD(over, code)                                                                           \
    { KVMILL_OVER_##over, KVMILL_FLOW_##code }
#define BOTH(code)                                                                                 \
    { KVMILL_OVER_HEADS | KVMILL_OVER_BLOCKS, KVMILL_FLOW_##code }

static const struct atom_row atoms[] = {
    {"block_sparse.json", 2, {KVMILL_ATOM_DOT, {0, 0}, true, 1, 1, 0, 128, 0, {{0, 0}}, 0, 0}},
    {"gqa_block_sparse.json", 0, {KVMILL_ATOM_DOT, {0, 0}, false, 4, 1, 0, 128, 0, {{0, 0}}, 0, 0}},
    {"gqa_quest.json",
     5,
     {KVMILL_ATOM_BOUND, {0, 1}, false, 4, 1, 0, 128, 1, {FOLD(HEADS, MAX)}, 0, 0}},
    {"gqa_quest.json", 3, {KVMILL_ATOM_BOUND, {0, 1}, false, 4, 1, 0, 128, 0, {{0, 0}}, 0, 0}},
    {"lserve_sparse.json",
     5,
     {KVMILL_ATOM_BOUND, {0, 1}, false, 4, 4, 0, 128, 1, {BOTH(MAX)}, 0, 0}},
    {"lserve_centroid.json",
     3,
     {KVMILL_ATOM_DOT, {0, 0}, true, 1, 4, 0, 128, 1, {FOLD(BLOCKS, MAX)}, 0, 0}},
    {"masked_quest.json",
     7,
     {KVMILL_ATOM_BOUND, {0, 1}, false, 4, 1, 8, 128, 1, {FOLD(HEADS, MAX)}, 0, 0}},
    {"centered_block_sparse.json",
     1,
     {KVMILL_ATOM_DOT, {0, 0}, false, 4, 1, 0, 128, 1, {FOLD(HEADS, MEAN)}, 0, 0}},
    {"infllm.json", 3, {KVMILL_ATOM_DOT, {0, 0}, true, 1, 4, 0, 128, 1, {FOLD(BLOCKS, SUM)}, 0, 0}},
    {"h2o_sparse.json", 5, {KVMILL_ATOM_BOUND, {1, 2}, true, 1, 1, 0, 128, 0, {{0, 0}}, 0, 0}},
    {"venergy_gated_centroid.json",
     1,
     {KVMILL_ATOM_DOT, {0, 0}, true, 1, 1, 0, 128, 0, {{0, 0}}, 0, 0}},
    {"venergy_gated_centroid.json", 3, {.kind = KVMILL_ATOM_NONE}},
    {"gqa_block_sparse.json", 3, {.kind = KVMILL_ATOM_NONE}},
    {"centered_block_sparse.json", 4, {.kind = KVMILL_ATOM_NONE}},
    {"h2o_token.json", 1, {.kind = KVMILL_ATOM_NONE}},
};

static bool atoms_equal(const struct kvmill_flow_atom *a, const struct kvmill_flow_atom *b) {
    bool equal = a->kind == b->kind && a->field[0] == b->field[0] && a->field[1] == b->field[1] &&
                 a->mean_query == b->mean_query && a->heads == b->heads && a->blocks == b->blocks &&
                 a->first == b->first && a->last == b->last && a->folds == b->folds;
    for (int i = 0; equal && i < a->folds; i++)
        equal = a->fold[i].over == b->fold[i].over && a->fold[i].code == b->fold[i].code;
    return equal;
}

static void test_atom(const struct spec_list *specs, const struct atom_row *row, const char *name) {
    struct kvmill_flow_problem problem;
    struct kvmill_flow_atom atom;
    kvmill_error error;
    if (kvmill_flow_verify(flow_of_spec(&specs->items[0]), &problem, &error) != KVMILL_OK)
        bail_out("%s", error.message);
    const struct kvmill_flow_step *step = &problem.programs[KVMILL_INDEX_PROGRAM].steps[row->op];
    int value = step->output >= 0 ? step->output : step->input[0];
    bool found = kvmill_flow_match_atom(&problem, value, &atom);
    if (!ok(found == (row->atom.kind != KVMILL_ATOM_NONE) && atoms_equal(&atom, &row->atom),
            "what op %d of %s gives", row->op, name))
        diag("kind %d, fields %d %d, heads %d, blocks %d, channels %d to %d, %d folds", atom.kind,
             atom.field[0], atom.field[1], (int)atom.heads, (int)atom.blocks, (int)atom.first,
             (int)atom.last, atom.folds);
}

/* Atoms of a flow, and steps that are left but for topK; atoms are those that have scores to give.
 */
static void test_found_atoms(void) {
    static const struct {
        const char *flow;
        int atoms, steps;
    } rows[] = {
        {"block_sparse.json", 1, 1},
        {"gqa_block_sparse.json", 1, 2},
        {"gqa_quest.json", 1, 0},
        {"lserve_sparse.json", 1, 0},
        {"masked_quest.json", 1, 2},
        {"centered_block_sparse.json", 1, 2},
        {"venergy_gated_centroid.json", 1, 2},
        {"sinks_and_window.json", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[512];
        struct spec_list specs = {0};
        struct error error;
        struct kvmill_flow_problem problem;
        struct kvmill_flow_atoms found;
        int left = 0;
        if (!specs_read(flow_path(rows[i].flow, path), &specs, &error) ||
            kvmill_flow_verify(flow_of_spec(&specs.items[0]), &problem, NULL) != KVMILL_OK)
            bail_out("%s", error.text);
        kvmill_flow_find_atoms(&problem, &found);
        const struct kvmill_flow_program *program = &problem.programs[KVMILL_INDEX_PROGRAM];
        for (int n = 0; n < program->step_count; n++)
            left += !found.elsewhere[n] && program->steps[n].code != KVMILL_FLOW_TOPK;
        if (!ok(found.count == rows[i].atoms && left == rows[i].steps, "atoms of %s", rows[i].flow))
            diag("%d atoms, %d steps are left", found.count, left);
        spec_list_free(&specs);
    }
}

static void test_atoms(void) {
    for (size_t i = 0; i < sizeof atoms / sizeof *atoms; i++) {
        char path[512];
        struct spec_list specs = {0};
        struct error error;
        if (!specs_read(flow_path(atoms[i].flow, path), &specs, &error))
            bail_out("%s", error.text);
        test_atom(&specs, &atoms[i], atoms[i].flow);
        spec_list_free(&specs);
    }
}

/* ---- Refusals ---- */

#define ATTENTION(more)                                                                            \
    "\"attention\": {\"num_heads\": 8, \"num_kv_heads\": 2, \"head_dim\": 16, \"page_size\": 4, "  \
    "\"T1\": \"float32\"" more "}"
#define FLOW(more) "{\"op\": \"flow\", " ATTENTION("") ", " more "}"
#define CENTROID   "{\"name\": \"c\", \"shape\": [1, \"head_dim\"]}"
#define MEAN       "{\"op\": \"Mean\", \"inputs\": [\"k\"], \"dim\": 1, \"output\": \"c\"}"
#define DOT                                                                                        \
    "{\"op\": \"Mean\", \"inputs\": [\"q\"], \"dim\": 1, \"output\": \"mq\"}, "                    \
    "{\"op\": \"GeMM\", \"inputs\": [\"mq\", \"c\"], \"output\": \"s\"}"
#define TOPK "{\"op\": \"topK\", \"inputs\": [\"s\"]}"
#define PARTS(fields, cache, index)                                                                \
    "\"fields\": [" fields "], \"cache\": [" cache "], \"index\": [" index "]"
#define GOOD           PARTS(CENTROID, MEAN, DOT ", " TOPK)
#define FIELDS(fields) FLOW(PARTS(fields, MEAN, DOT ", " TOPK))
#define CACHE(cache)   FLOW(PARTS(CENTROID, cache, DOT ", " TOPK))
#define INDEX(index)   FLOW(PARTS(CENTROID, MEAN, index))
#define SELECT(select) FLOW(GOOD ", \"select\": {" select "}")
#define GROWING(fields, cache, index)                                                              \
    FLOW(PARTS(fields, cache, index) ", \"summary\": \"incremental\"")
#define OF_K(op, more) "{\"op\": \"" op "\", \"inputs\": [\"k\"], " more "}"

struct refusal {
    const char *name, *text;
    const char *where, *what;
};

static const struct refusal refusals[] = {
    /* The whole */
    {"a key like a known one", FLOW("\"filds\": []"), "/filds: ", "did you mean \"fields\"?"},
    {"no attention", "{\"op\": \"flow\"}", "/attention: ", "is missing; accepted: an object"},
    {"a purpose that is too long",
     FLOW("\"purpose\": \"0123456789012345678901234567890123456789012345678901234567890123\""),
     "/purpose: ", "accepted: at most 63"},
    {"fields that are no array", FLOW("\"fields\": 1"), "/fields: ", "accepted: an array"},
    {"a field that is no object", FIELDS("7"), "/fields/0: ", "accepted: an object"},
    {"an op that is no object", INDEX("7"), "/index/0: ", "accepted: an object"},
    {"a constant that is no object", FLOW(GOOD ", \"constants\": [7]"),
     "/constants/0: ", "accepted: an object"},
    {"layers that are no array", FLOW(GOOD ", \"layers_skip\": 7"),
     "/layers_skip: ", "accepted: an array"},
    {"a layer that is no number", FLOW(GOOD ", \"layers_skip\": [0, \"1\"]"),
     "/layers_skip/1: ", "accepted: an integer from 0"},
    {"a layer below 0", FLOW(GOOD ", \"layers_skip\": [-1]"),
     "/layers_skip/0: ", "is -1; accepted: 0 to"},
    {"a name of other letters", FLOW(GOOD ", \"name\": \"A\""), "/name: ", "small letters"},

    /* Declarations */
    {"a field k", FIELDS("{\"name\": \"k\", \"shape\": [1, 16]}"),
     "/fields/0: ", "\"k\", which is reserved"},
    {"a field v", FIELDS(CENTROID ", {\"name\": \"v\", \"shape\": [1, 16]}"),
     "/fields/1: ", "\"v\", which is reserved"},
    {"a field q", FIELDS("{\"name\": \"q\", \"shape\": [1, 16]}"), "/fields/0: ", "reserved"},
    {"a field that has the name of a tensor", FIELDS("{\"name\": \"cache\", \"shape\": [1, 16]}"),
     "/fields/0: ", "the name is \"cache\", which is another tensor's"},
    {"two fields of a name", FIELDS(CENTROID ", " CENTROID), "/fields/1: ", "given already"},
    {"a field without name", FIELDS("{\"shape\": [1, 1]}"), "/fields/0/name: ", "is missing"},
    {"a name of other letters", FIELDS("{\"name\": \"c-1\", \"shape\": [1, 1]}"),
     "/fields/0: ", "letters, digits and underscores"},
    {"a name that begins with a digit", FIELDS("{\"name\": \"1c\", \"shape\": [1, 1]}"),
     "/fields/0: ", "no digit first"},
    {"a name of the templates", FIELDS("{\"name\": \"km_c\", \"shape\": [1, 1]}"),
     "/fields/0: ", "nor km_ or m4_ (after any underscores)"},
    {"a macro of the templates", FIELDS("{\"name\": \"_km_each\", \"shape\": [1, 1]}"),
     "/fields/0: ", "letters, digits and underscores, no digit first, nor km_ or m4_"},
    {"a macro of m4's", FIELDS("{\"name\": \"__m4_dnl\", \"shape\": [1, 1]}"),
     "/fields/0: ", "nor km_ or m4_ (after any underscores)"},
    {"a control character", FIELDS("{\"name\": \"c\\u001b[2J\", \"shape\": [1, 1]}"),
     "/fields/0/name: ", "has a control character; accepted: text"},
    {"a field of no rows", FIELDS("{\"name\": \"c\", \"shape\": [0, 16]}"),
     "/fields/0: ", "[0, 16]; accepted: positive dims"},
    {"a field of -1 columns", FIELDS("{\"name\": \"c\", \"shape\": [1, -1]}"),
     "/fields/0: ", "[1, -1]; accepted: positive dims"},
    {"a field of too many elements", FIELDS("{\"name\": \"c\", \"shape\": [65536, 65536]}"),
     "/fields/0: ", "elements at most"},
    {"a field of one dim", FIELDS("{\"name\": \"c\", \"shape\": [16]}"),
     "/fields/0/shape: ", "has 1 dims; accepted: 2"},
    {"a dim that is another word", FIELDS("{\"name\": \"c\", \"shape\": [1, \"head\"]}"),
     "/fields/0/shape/1: ", "is \"head\"; accepted: a number, \"head_dim\""},
    {"a word that is not divided", FIELDS("{\"name\": \"c\", \"shape\": [1, \"head_dim/3\"]}"),
     "/fields/0/shape/1: ", "a divisor"},
    {"a word divided by 0", FIELDS("{\"name\": \"c\", \"shape\": [1, \"head_dim/0\"]}"),
     "/fields/0/shape/1: ", "a divisor"},
    {"a field of integers", FIELDS("{\"name\": \"c\", \"shape\": [1, 16], \"dtype\": \"int8\"}"),
     "/fields/0/dtype: ", "is \"int8\"; accepted: float32, float16, bfloat16"},
    {"a dtype like a known one",
     FIELDS("{\"name\": \"c\", \"shape\": [1, 16], \"dtype\": \"floot32\"}"),
     "/fields/0/dtype: ", "did you mean \"float32\"?"},
    {"a write to k", CACHE("{\"op\": \"Max\", \"inputs\": [\"k\"], \"dim\": 1, \"output\": \"k\"}"),
     "/cache/0: ", "writes to \"k\"; accepted: what is neither q, k nor v"},
    {"a write to v", INDEX("{\"op\": \"Save\", \"inputs\": [\"c\"], \"output\": \"v\"}"),
     "/index/0: ", "writes to \"v\""},

    /* Constants */
    {"a constant that is a field",
     FLOW(GOOD ", \"constants\": [{\"name\": \"c\", \"shape\": "
               "[1, 1], \"values\": 1}]"),
     "/constants/0: ", "given already"},
    {"a constant of no rows",
     FLOW(GOOD ", \"constants\": [{\"name\": \"w\", \"shape\": [0, 1], \"values\": 1}]"),
     "/constants/0/shape: ", "positive dims"},
    {"a constant of other values",
     FLOW(GOOD ", \"constants\": [{\"name\": \"w\", \"shape\": [1, 2], \"values\": [1]}]"),
     "/constants/0/values: ", "has 1 numbers; accepted: one for all, or 2"},
    {"a constant that is a word",
     FLOW(GOOD ", \"constants\": [{\"name\": \"w\", \"shape\": [1, 1], \"values\": [\"x\"]}]"),
     "/constants/0/values/0: ", "is no number"},
    {"a constant beyond float32",
     FLOW(GOOD ", \"constants\": [{\"name\": \"w\", \"shape\": [1, 2], \"values\": [1, -1e39]}]"),
     "/constants/0/values/1: ", "is -1e+39; accepted: a finite float32"},
    {"a constant that nobody uses",
     FLOW(GOOD ", \"constants\": [{\"name\": \"w\", \"shape\": [1, 1], \"values\": 1}]"),
     "/constants/0: ", "\"w\" is never used"},
    {"taps outside Conv1d",
     FLOW("\"fields\": [" CENTROID "], \"cache\": [" MEAN "], \"constants\": [{\"name\": \"w\", "
          "\"shape\": [3, 1, 16], \"values\": 1}], \"index\": [{\"op\": \"Multiply\", \"inputs\": "
          "[\"c\", \"w\"], \"output\": \"s\"}]"),
     "/index/0: ", "has several taps; accepted: Conv1d"},

    /* Ops */
    {"an op like a known one", CACHE("{\"op\": \"Maxi\"}"), "/cache/0/op: ", "did you mean \"Max"},
    {"an op like none", INDEX("{\"op\": \"Convolution\"}"), "/index/0/op: ", "is no op of a flow"},
    {"an attribute of other ops", CACHE(OF_K("Mean", "\"dim\": 1, \"alpha\": 1")),
     "/cache/0/alpha: ", "accepted: op, inputs, output, dim"},
    {"a field that is not there",
     CACHE("{\"op\": \"Max\", \"inputs\": [\"x\"], \"dim\": 1, "
           "\"output\": \"c\"}"),
     "/cache/0: ", "reads \"x\", which is no field, constant or output of an op before"},
    {"an output of a later op",
     INDEX("{\"op\": \"Abs\", \"inputs\": [\"s\"], \"output\": \"t\"}, " DOT ", " TOPK),
     "/index/0: ", "reads \"s\""},
    {"q in the cache program",
     CACHE("{\"op\": \"Max\", \"inputs\": [\"q\"], \"dim\": 1, \"output\": \"c\"}"),
     "/cache/0: ", "reads \"q\""},
    {"one input of two", INDEX("{\"op\": \"GeMM\", \"inputs\": [\"q\"], \"output\": \"s\"}"),
     "/index/0/inputs: ", "has 1 names; accepted for GeMM: 2"},
    {"an output that is missing", CACHE(OF_K("Mean", "\"dim\": 1")),
     "/cache/0: ", "output of Mean is missing; accepted: a name"},
    {"an output of topK", INDEX(DOT ", {\"op\": \"topK\", \"inputs\": [\"s\"], \"output\": \"o\"}"),
     "/index/2: ", "accepted: no output"},
    {"an output of a name that is given",
     INDEX(DOT ", {\"op\": \"Abs\", \"inputs\": [\"s\"], \"output\": \"mq\"}"),
     "/index/2: ", "accepted: a name that is not given yet"},
    {"a field as an output of the index program",
     INDEX("{\"op\": \"Abs\", \"inputs\": [\"c\"], \"output\": \"c\"}"),
     "/index/0: ", "Save writes fields"},

    /* Shapes */
    {"GeMM of other columns",
     INDEX("{\"op\": \"Mean\", \"inputs\": [\"q\"], \"dim\": 2, \"output\": \"mq\"}, "
           "{\"op\": \"GeMM\", \"inputs\": [\"mq\", \"c\"], \"output\": \"s\"}, " TOPK),
     "/index/1: ", "GeMM of [4, 1] and [S, 1, 16]; accepted: equal columns"},
    {"dims that do not go together",
     INDEX("{\"op\": \"Multiply\", \"inputs\": [\"q\", \"k\"], \"output\": \"a\"}, "
           "{\"op\": \"Sum\", \"inputs\": [\"a\"], \"dim\": 1, \"output\": \"b\"}, "
           "{\"op\": \"MaskSlice\", \"inputs\": [\"b\"], \"dim\": 2, \"start\": 1, \"end\": 17, "
           "\"alpha\": 1, \"beta\": 0, \"output\": \"s\"}"),
     "/index/2: ", "MaskSlice from 1 to 17; accepted: 0 <= start <= end <= 16"},
    {"other rows",
     FLOW(PARTS("{\"name\": \"c\", \"shape\": [3, 16]}", "{\"op\": \"Fill\", \"output\": \"c\"}",
                "{\"op\": \"Multiply\", \"inputs\": [\"q\", \"c\"], \"output\": \"s\"}, " TOPK)),
     "/index/0: ", "Multiply of [4, 16] and [S, 3, 16]; accepted: equal dims, or 1"},
    {"a field of another shape", CACHE(OF_K("Mean", "\"dim\": 2, \"output\": \"c\"")),
     "/cache/0: ", "Mean gives [4, 1], field \"c\" is [1, 16]"},
    {"Reshape to other elements", CACHE(OF_K("Reshape", "\"shape\": [3, 16], \"output\": \"x\"")),
     "/cache/0: ", "Reshape to [3, 16]; accepted: dims of 64 elements"},
    {"a dim beyond 2", CACHE(OF_K("Max", "\"dim\": 3, \"output\": \"c\"")),
     "/cache/0/dim: ", "is 3; accepted: 0 to 2"},
    {"a negative dim", CACHE(OF_K("Max", "\"dim\": -1, \"output\": \"c\"")),
     "/cache/0/dim: ", "is -1; accepted: 0 to 2"},
    {"no dim", CACHE(OF_K("Max", "\"output\": \"c\"")), "/cache/0/dim: ", "is missing"},
    {"two dims of a reduction", CACHE(OF_K("Max", "\"dim\": [1, 2], \"output\": \"c\"")),
     "/cache/0: ", "dim of Max; accepted: 1, 2"},
    {"dim 0 in the cache program", CACHE(OF_K("Max", "\"dim\": 0, \"output\": \"c\"")),
     "/cache/0: ", "dim of Max; accepted: 1, 2"},
    {"dim 1 of Softmax",
     INDEX(DOT ", {\"op\": \"Softmax\", \"inputs\": [\"s\"], \"dim\": 1, \"output\": \"t\"}"),
     "/index/2: ", "dim of Softmax; accepted: 0"},
    {"dim 0 of what is the same for all pages",
     INDEX("{\"op\": \"Max\", \"inputs\": [\"q\"], \"dim\": 0, \"output\": \"s\"}"),
     "/index/0: ", "Max of [4, 16]; accepted: over dim 0: a matrix for each page"},
    {"Sum in the cache program", CACHE(OF_K("Sum", "\"dim\": 1, \"output\": \"c\"")),
     "/cache/0: ", "Sum is an op of the index program alone"},
    {"Fill in the index program", INDEX("{\"op\": \"Fill\", \"output\": \"c\"}"),
     "/index/0: ", "Fill is an op of the cache program alone"},
    {"groups that do not divide",
     CACHE(OF_K("MaxInterleave", "\"dim\": 1, \"group\": 3, \"output\": \"c\"")),
     "/cache/0: ", "group is 3; accepted: divisors of 4"},
    {"groups of 0", CACHE(OF_K("MaxInterleave", "\"dim\": 1, \"group\": 0, \"output\": \"c\"")),
     "/cache/0: ", "group is 0; accepted: divisors of 4"},
    {"Conv1d of other columns",
     FLOW("\"fields\": [" CENTROID "], \"cache\": [" MEAN "], \"constants\": [{\"name\": \"w\", "
          "\"shape\": [3, 1, 8], \"values\": 1}], \"index\": [{\"op\": \"Conv1d\", \"inputs\": "
          "[\"c\", \"w\"], \"output\": \"s\"}]"),
     "/index/0: ",
     "Conv1d of [S, 1, 16] and [3, 1, 8]; accepted: a matrix for each page, and a "
     "constant"},

    /* Attributes */
    {"Sigmoid without beta",
     INDEX(DOT ", {\"op\": \"Sigmoid\", \"inputs\": [\"s\"], \"output\": \"t\"}"),
     "/index/2/beta: ", "is missing; accepted: a number"},
    {"a factor that is no number",
     INDEX(DOT ", {\"op\": \"Exp\", \"inputs\": [\"s\"], \"alpha\": \"x\", \"output\": \"t\"}"),
     "/index/2/alpha: ", "is no number"},
    {"a factor beyond float32",
     INDEX(DOT ", {\"op\": \"Exp\", \"inputs\": [\"s\"], \"alpha\": 1e39, \"output\": \"t\"}"),
     "/index/2: ", "alpha is 1e+39; accepted: a finite float32"},

    /* Selection */
    {"a score for each head",
     INDEX("{\"op\": \"GeMM\", \"inputs\": [\"q\", \"c\"], \"output\": \"s\"}, " TOPK),
     "/index/1: ", "topK of [S, 1, 4]; accepted: a score for each page, [S, 1, 1]"},
    {"a score that is the same for all pages",
     INDEX("{\"op\": \"Mean\", \"inputs\": [\"q\"], \"dim\": 1, \"output\": \"m\"}, "
           "{\"op\": \"Mean\", \"inputs\": [\"m\"], \"dim\": 2, \"output\": \"s\"}, " TOPK),
     "/index/2: ", "topK of [1, 1]; accepted: a score for each page"},
    {"no topK", INDEX(""), "/index: ", "there is no topK"},
    {"a second topK", INDEX(DOT ", " TOPK ", " TOPK), "/index/3: ", "a second topK"},
    {"Save without Fill",
     INDEX(DOT ", {\"op\": \"Load\", \"inputs\": [\"c\"], \"output\": \"old\"}, {\"op\": \"Add\", "
               "\"inputs\": [\"old\", \"c\"], \"output\": \"new\"}, {\"op\": \"Save\", "
               "\"inputs\": [\"new\"], \"output\": \"c\"}, " TOPK),
     "/index/4: ", "Save to \"c\", which the cache program does not Fill"},
    {"Save of what is the same for all pages",
     FLOW(PARTS(CENTROID, "{\"op\": \"Fill\", \"output\": \"c\"}",
                DOT ", {\"op\": \"Save\", \"inputs\": [\"mq\"], \"output\": \"c\"}, " TOPK)),
     "/index/2: ", "Save of what is the same for all pages"},
    {"Save for query heads that share fields",
     FLOW(PARTS(
         CENTROID, "{\"op\": \"Fill\", \"output\": \"c\"}",
         "{\"op\": \"Abs\", \"inputs\": [\"c\"], \"output\": \"s\"}, {\"op\": \"Save\", "
         "\"inputs\": [\"s\"], \"output\": \"c\"}") ", \"select\": {\"scope\": \"query_head\"}"),
     "/index/1: ", "query heads of a group share their fields"},
    {"Save to no field", INDEX(DOT ", {\"op\": \"Save\", \"inputs\": [\"s\"], \"output\": \"x\"}"),
     "/index/2: ", "Save writes to \"x\"; accepted: a field"},
    {"Load of no field", INDEX(DOT ", {\"op\": \"Load\", \"inputs\": [\"s\"], \"output\": \"x\"}"),
     "/index/2: ", "Load of \"s\"; accepted: a field"},

    /* What nobody uses */
    {"an output that nobody uses",
     INDEX(DOT ", {\"op\": \"Abs\", \"inputs\": [\"s\"], \"output\": \"t\"}, " TOPK),
     "/index/2: ", "\"t\" is never used"},
    {"a temporary that nobody uses", CACHE(MEAN ", " OF_K("Max", "\"dim\": 1, \"output\": \"t\"")),
     "/cache/1: ", "\"t\" is never used"},
    {"a field that nobody writes", FIELDS(CENTROID ", {\"name\": \"d\", \"shape\": [1, 1]}"),
     "/fields/1: ", "\"d\" is never written"},
    {"a field that nobody reads",
     FLOW(PARTS(CENTROID ", {\"name\": \"d\", \"shape\": [1, 16]}",
                MEAN ", " OF_K("Max", "\"dim\": 1, \"output\": \"d\""), DOT ", " TOPK)),
     "/fields/1: ", "\"d\" is never read"},
    {"a field that is read before it is written",
     CACHE("{\"op\": \"Abs\", \"inputs\": [\"c\"], \"output\": \"c\"}"),
     "/cache/0: ", "reads field \"c\", which the cache program has not written yet"},
    {"a field that is written twice", CACHE(MEAN ", " MEAN), "/cache/1: ", "a second time"},

    /* Parameters */
    {"heads that do not divide",
     "{\"op\": \"flow\", \"attention\": {\"num_heads\": 8, \"num_kv_heads\": 3, \"head_dim\": 16, "
     "\"T1\": \"float32\"}}",
     "/attention: ", "num_kv_heads is 3; accepted: 0, or a divisor of num_heads, 8"},
    {"pages of 0 tokens",
     "{\"op\": \"flow\", \"attention\": {\"num_heads\": 8, \"head_dim\": 16, \"page_size\": 0, "
     "\"T1\": \"float32\"}}",
     "/attention: ", "page_size is 0; accepted: 1 or more"},
    {"pages of too many tokens",
     "{\"op\": \"flow\", \"attention\": {\"num_heads\": 8, \"head_dim\": 16, \"page_size\": 65537, "
     "\"T1\": \"float32\"}}",
     "/attention: ", "page_size is 65537; accepted: 1 to 65536"},
    {"a cache without pages",
     "{\"op\": \"flow\", \"attention\": {\"num_heads\": 8, \"head_dim\": 16, \"cache_mode\": 0, "
     "\"T1\": \"float32\"}}",
     "/attention: ", "cache_mode is 0; accepted: 1 to 1"},
    {"ALiBi",
     "{\"op\": \"flow\", \"attention\": {\"num_heads\": 8, \"head_dim\": 16, \"is_alibi\": 1, "
     "\"T1\": \"float32\"}}",
     "/attention: ", "is_alibi is 1; accepted: 0 to 0"},
    {"types that do not go together",
     "{\"op\": \"flow\", \"attention\": {\"num_heads\": 8, \"head_dim\": 16, \"T1\": \"float16\", "
     "\"T2\": \"int8\"}}",
     "/attention: ", "T2 is int8; accepted"},
    {"a negative k", SELECT("\"topk_val\": -1"),
     "/select/topk_val: ", "topk_val is -1; accepted: 0 to"},
    {"a k that is another word", SELECT("\"topk_val\": \"most\""),
     "/select/topk_val: ", "is \"most\"; accepted: a count, \"all\""},
    {"a k beyond 32 bits", SELECT("\"topk_val\": 4294967296"),
     "/select/topk_val: ", "accepted: -2147483648 to 2147483647"},
    {"a negative bos", SELECT("\"reserved_bos\": -1"),
     "/select/reserved_bos: ", "reserved_bos is -1; accepted: 0 to"},
    {"a negative eos", SELECT("\"reserved_eos\": -1"),
     "/select/reserved_eos: ", "reserved_eos is -1; accepted: 0 to"},
    {"no eos", SELECT("\"reserved_eos\": 0"),
     "/select/reserved_eos: ", "reserved_eos is 0; accepted: 1 or more"},
    {"no eos with incremental summaries",
     FLOW(GOOD ", \"summary\": \"incremental\", \"select\": {\"reserved_eos\": 0}"),
     "/select/reserved_eos: ", "reserved_eos is 0; accepted: 1 or more"},
    {"a negative cap", SELECT("\"cap\": -1"), "/select/cap: ", "cap is -1; accepted: 0 to"},
    {"a ratio above 1", SELECT("\"topk_ratio\": \"17/16\""),
     "/select/topk_ratio: ", "the numerator of topk_ratio is 17; accepted: 0 to 16"},
    {"a negative ratio", SELECT("\"topk_ratio\": \"-1/16\""),
     "/select/topk_ratio: ", "the numerator of topk_ratio is -1; accepted: 0 to 16"},
    {"a ratio over 0", SELECT("\"topk_ratio\": \"1/0\""),
     "/select/topk_ratio: ", "the denominator of topk_ratio is 0; accepted: 1 to"},
    {"a ratio of 2", SELECT("\"topk_ratio\": 2"), "/select/topk_ratio: ", "accepted: 0 to 1"},
    {"a ratio that is a float", SELECT("\"topk_ratio\": 0.0625"),
     "/select/topk_ratio: ", "is no fraction; accepted: \"1/16\""},
    {"a ratio with something behind", SELECT("\"topk_ratio\": \"1/16/\""),
     "/select/topk_ratio: ", "is no fraction"},
    {"an order that is another word", SELECT("\"order\": \"random\""),
     "/select/order: ", "is \"random\"; accepted: \"logical\", \"score\""},
    {"a scope that is another word", SELECT("\"scope\": \"head\""),
     "/select/scope: ", "is \"head\"; accepted: \"kv_head\", \"query_head\", \"request\""},
    {"a key of select like a known one", SELECT("\"topk\": 3"),
     "/select/topk: ", "is not a known key"},
    {"a summary that is another word", FLOW(GOOD ", \"summary\": \"late\""),
     "/summary: ", "is \"late\"; accepted: on_complete, incremental"},

    /* Summaries of a part of a page */
    {"groups of a partial page",
     GROWING("{\"name\": \"c\", \"shape\": [2, 16]}",
             OF_K("MaxInterleave", "\"dim\": 1, \"group\": 2, \"output\": \"c\""), DOT),
     "/cache/0: ", "no op that needs a page's last row"},
    {"another shape of a partial page",
     GROWING(CENTROID, OF_K("Reshape", "\"shape\": [1, 64], \"output\": \"x\""), DOT),
     "/cache/0: ", "no op that needs a page's last row"},
    {"a row for each of a partial page",
     GROWING("{\"name\": \"c\", \"shape\": [4, 16]}",
             "{\"op\": \"Abs\", \"inputs\": [\"k\"], \"output\": \"c\"}", DOT),
     "/cache/0: ", "has a row for each of the page's"},
};

static void test_refusal(const struct refusal *refusal) {
    struct spec_list specs;
    struct error error;
    char where[256];
    snprintf(where, sizeof where, "%s: %s", file, refusal->where);
    bool refused = !read_text(refusal->text, &specs, &error);
    bool told = refused && error.exit_code == EXIT_USER &&
                strncmp(error.text, where, strlen(where)) == 0 &&
                strstr(error.text, refusal->what) != NULL;
    if (!ok(told, "refused: %s", refusal->name))
        diag("wanted %s...%s, got %s", where, refusal->what, refused ? error.text : "success");
    spec_list_free(&specs);
}

static void test_refusals(void) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        test_refusal(&refusals[i]);
}

/* Heads first or blocks first, not the same where one is a mean; what looks like a bound and is
   none. */
static void test_two_folds(void) {
#define HALVES                                                                                     \
    "{\"op\": \"MeanInterleave\", \"inputs\": [\"k\"], \"dim\": 1, \"group\": 2, \"output\": "     \
    "\"c\"}"
#define FOLDS(a, b)                                                                                \
    FLOW(PARTS("{\"name\": \"c\", \"shape\": [2, 16]}", HALVES,                                    \
               "{\"op\": \"GeMM\", \"inputs\": [\"q\", \"c\"], \"output\": \"d\"}, {" a            \
               ", \"inputs\": [\"d\"], \"output\": \"e\"}, {" b                                    \
               ", \"inputs\": [\"e\"], \"output\": \"s\"}, " TOPK))
    static const struct {
        const char *text;
        struct atom_row row;
    } rows[] = {
        {FOLDS("\"op\": \"Mean\", \"dim\": 2", "\"op\": \"Max\", \"dim\": 1"),
         {"",
          3,
          {KVMILL_ATOM_DOT,
           {0, 0},
           false,
           4,
           2,
           0,
           16,
           2,
           {FOLD(HEADS, MEAN), FOLD(BLOCKS, MAX)},
           0,
           0}}},
        {FOLDS("\"op\": \"Max\", \"dim\": 1", "\"op\": \"Mean\", \"dim\": 2"),
         {"",
          3,
          {KVMILL_ATOM_DOT,
           {0, 0},
           false,
           4,
           2,
           0,
           16,
           2,
           {FOLD(BLOCKS, MAX), FOLD(HEADS, MEAN)},
           0,
           0}}},
        {INDEX(
             "{\"op\": \"GeMM\", \"inputs\": [\"q\", \"c\"], \"output\": \"d\"}, {\"op\": \"Max\", "
             "\"inputs\": [\"d\"], \"dim\": 2, \"output\": \"e\"}, {\"op\": \"Sum\", \"inputs\": "
             "[\"e\"], \"dim\": 2, \"output\": \"s\"}, " TOPK),
         {"", 3, {KVMILL_ATOM_DOT, {0, 0}, false, 4, 1, 0, 16, 1, {FOLD(HEADS, MAX)}, 0, 0}}},
        {FOLDS("\"op\": \"Min\", \"dim\": 1", "\"op\": \"Mean\", \"dim\": 2"),
         {"", 3, {.kind = KVMILL_ATOM_NONE}}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct spec_list specs;
        struct error error;
        if (!read_text(rows[i].text, &specs, &error))
            bail_out("%s", error.text);
        test_atom(&specs, &rows[i].row, "two folds");
        spec_list_free(&specs);
    }
}

/* The texts of the refusals are refused for what is wrong with them alone. */
static void test_accepted(void) {
    static const char *const texts[] = {
        FLOW(GOOD),
        SELECT("\"topk_val\": 0, \"reserved_bos\": 0, \"topk_ratio\": 1, \"cap\": 7"),
        SELECT("\"topk_val\": \"all\", \"order\": \"score\", \"scope\": \"query_head\""),
        GROWING(CENTROID, MEAN, DOT ", " TOPK),
        "{\"kernels\": [" FLOW(GOOD) ", " FLOW(GOOD) "]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct spec_list specs;
        struct error error;
        if (!ok(read_text(texts[i], &specs, &error), "accepted: text %zu", i))
            diag("%s", error.text);
        spec_list_free(&specs);
    }
    struct spec_list specs;
    struct error error;
    char wanted[256];
    snprintf(wanted, sizeof wanted, "%s: /kernels/1/select/cap: ", file);
    bool refused =
        !read_text("{\"kernels\": [" FLOW(GOOD) ", " SELECT("\"cap\": -1") "]}", &specs, &error);
    ok(refused && strncmp(error.text, wanted, strlen(wanted)) == 0, "the place in a list of specs");
    spec_list_free(&specs);
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
    struct error error;
    if (!read_text(FLOW(GOOD ", \"layers_skip\": [2, 7], \"select\": {\"dense_below\": 99}"),
                   &specs, &error))
        bail_out("%s", error.text);
    const kvmill_flow *flow = flow_of_spec(&specs.items[0]);
    ok(flow->layers_skip_count == 2 && flow->layers_skip[0] == 2 && flow->layers_skip[1] == 7,
       "layers that read all pages");
    ok(is_skipped(flow, 2) && is_skipped(flow, 7) && !is_skipped(flow, 3), "  are these alone");
    ok(flow->select.dense_below == 99, "and rows of fewer tokens");
    struct text words = {0};
    flow_words(&specs.items[0], &words);
    static const char wanted[] =
        "1 + 30 + 1; rows of fewer than 99 tokens whole; layers 2, 7 whole";
    ok(words.data != NULL && strstr(words.data, wanted) != NULL, "  in words");
    text_free(&words);
    spec_list_free(&specs);
}

/* ---- Fields and ratios ---- */

static const DLDataType f32 = {kDLFloat, 32, 1}, bf16 = {kDLBfloat, 16, 1};

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
    ok(!kvmill_flow_field_at(&flow, 4, &field), "and none behind them");
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
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
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

/* Adding a field adds rows * columns / (page * dim). */
static void test_adding(void) {
    for (int fields = 0; fields < 4; fields++) {
        kvmill_fraction less = layout_of(6, 10, KVMILL_F32, fields, 3, 4).ratio_elements;
        kvmill_fraction more = layout_of(6, 10, KVMILL_F32, fields + 1, 3, 4).ratio_elements;
        ok((more.numerator * less.denominator - less.numerator * more.denominator) * 60 ==
               12 * more.denominator * less.denominator,
           "one field more than %d adds its share", fields);
    }
}

/* ---- The library's check ---- */

static void refused_by(const kvmill_flow *flow, kvmill_flow_layout *layout, kvmill_status status,
                       const char *what) {
    kvmill_error error;
    kvmill_status found = kvmill_flow_describe(flow, layout, &error);
    if (!ok(found == status && strstr(error.message, what) != NULL, "refused: %s", what))
        diag("%s: %s", kvmill_status_name(found), error.message);
}

static void test_describe(void) {
    kvmill_cache_attention attention;
    kvmill_flow_layout layout = {.struct_size = sizeof layout};
    kvmill_flow flow;
    kvmill_error error;
    kvmill_flow_field fields[2] = {{"c", 1, 8, f32}, {NULL, 1, 8, f32}};
    kvmill_flow_op cache[] = {{.op = "Max", .inputs = {"k"}, .output = "c", .dims = 1 << 1}};
    const kvmill_flow_op index[] = {{.op = "GeMM", .inputs = {"q", "c"}, .output = "s"},
                                    {.op = "topK", .inputs = {"s"}}};
    kvmill_flow_init(&flow, sizeof flow);
    refused_by(NULL, NULL, KVMILL_E_NULL, "flow is NULL");
    refused_by(&flow, NULL, KVMILL_E_NULL, "flow.attention is NULL");
    make_attention(&attention, 4, 8);
    flow.attention = &attention;
    flow.fields = fields;
    flow.cache = cache;
    flow.index = index;
    flow.field_count = flow.cache_count = 1;
    flow.index_count = 2;
    flow.select = (kvmill_flow_select){.topk_val = 3, .reserved_bos = 1, .reserved_eos = 1};
    ok(kvmill_flow_describe(&flow, &layout, &error) == KVMILL_OK && error.message[0] == '\0' &&
           layout.page_bytes == 2 * 4 * 8 * 2 + 8 * 4 && layout.group == 1 && layout.kv_heads == 1,
       "a flow of the caller's own");
    ok(kvmill_flow_describe(&flow, NULL, NULL) == KVMILL_OK, "without a layout");
    flow.struct_size = 4;
    refused_by(&flow, NULL, KVMILL_E_ATTRIBUTE, "flow.struct_size is 4; accepted: ");
    flow.struct_size = sizeof flow;
    layout.struct_size = 4;
    refused_by(&flow, &layout, KVMILL_E_ATTRIBUTE, "layout.struct_size is 4; accepted: ");
    flow.field_count = 2;
    refused_by(&flow, NULL, KVMILL_E_NULL, "fields[1]: the name is NULL");
    flow.field_count = 33;
    refused_by(&flow, NULL, KVMILL_E_ATTRIBUTE, "fields: the count is 33; accepted: 0 to 32");
    flow.field_count = 1;
    cache[0].op = NULL;
    refused_by(&flow, NULL, KVMILL_E_NULL, "cache[0]: op is NULL");
    cache[0].op = "Max";
    cache[0].inputs[1] = "v";
    refused_by(&flow, NULL, KVMILL_E_ATTRIBUTE, "cache[0]: Max has more than 1 input");
    cache[0].inputs[1] = NULL;
    cache[0].dims = 0;
    refused_by(&flow, NULL, KVMILL_E_ATTRIBUTE, "cache[0]: dim of Max; accepted: 1, 2");
    cache[0].dims = 1 << 1;
    flow.select.order = "none";
    refused_by(&flow, NULL, KVMILL_E_ATTRIBUTE, "select/order: is \"none\"");
    flow.select.order = NULL;
    attention.dynamic_batching = 0;
    refused_by(&flow, NULL, KVMILL_E_ATTRIBUTE, "attention: dynamic_batching is 0");
}

int main(void) {
    int descriptor = mkstemp(file);
    if (descriptor < 0)
        bail_out("cannot make %s: %s", file, strerror(errno));
    close(descriptor);
    test_shipped();
    test_round_trip();
    test_atoms();
    test_found_atoms();
    test_two_folds();
    test_refusals();
    test_accepted();
    test_whole();
    test_fields();
    test_ratios();
    test_adding();
    test_describe();
    unlink(file);
    return done_testing();
}
