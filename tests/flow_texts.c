/* Random flows, in the words of flow_file.h with ' for ": ops are added to a program one by one,
   and removed again if the checks of flows refuse them.  At the end, unused values are added to the
   score, or their means are stored in a field.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_file.h"

#include "../base/text.h"
#include "common.h"

enum { MOST_OPS = 8, MOST_NAMES = 24 };

/* The accepted ops of a program, and the names that they may read, inputs first. */
struct program {
    char op[MOST_OPS][200];
    int ops;
    char name[MOST_NAMES][16];
    bool used[MOST_NAMES];
    int names, inputs;
};

enum { CACHE, INDEX };

struct draft {
    struct program program[2];
    const char *attention, *summary;
    const char *layout; /* of fields; NULL: apart */
    const char *temporaries;
    int block_size;       /* 0: a page */
    bool unites;          /* ends in Union */
    bool rewrites;        /* rows of K and V */
    const char *types[3]; /* of the fields f, h and n */
    const char *codes;    /* of the field c, and how its scales are rounded */
    const char *groups;   /* of its columns */
    int taps;
};

/* ---- Ops and alternatives from random_flows.tsv ---- */

/* An op: how many inputs it has, and its attributes with alternatives, from random_flows.tsv. */
struct form {
    char op[24], more[200];
    int inputs;
};

static struct {
    char attention[16][256];
    struct form form[2][48];
    int attentions, forms[2];
} given;

static void add_form(int which, char *const *cell) {
    struct form *form = &given.form[which][given.forms[which]++];
    snprintf(form->op, sizeof form->op, "%s", cell[0]);
    snprintf(form->more, sizeof form->more, "%s", cell[2]);
    form->inputs = atoi(cell[1]);
}

ROWS(cache, 3) {
    add_form(CACHE, cells);
}

ROWS(index, 3) {
    add_form(INDEX, cells);
}

ROWS(attention, 1) {
    snprintf(given.attention[given.attentions++], sizeof *given.attention, "%s", cells[0]);
}

#define ANY(DICE, LIST) ((LIST)[dice_range(DICE, 0, (int64_t)COUNT(LIST) - 1)])

static void add_name(struct program *program, const char *name) {
    snprintf(program->name[program->names], sizeof *program->name, "%s", name);
    program->used[program->names++] = false;
}

/* ---- A random op ---- */

static const char *pick(struct dice *dice, struct program *program) {
    int at = (int)dice_range(dice, 0, program->names - 1);
    program->used[at] = true;
    return program->name[at];
}

static void add_op(struct dice *dice, struct program *program, int which) {
    char name[16], more[200], op[sizeof *program->op];
    const struct form *form = &given.form[which][dice_range(dice, 0, given.forms[which] - 1)];
    const char *x = pick(dice, program), *y = form->inputs == 2 ? pick(dice, program) : "";
    setting_choose(form->more, setting_roll, dice, more, sizeof more);
    snprintf(name, sizeof name, "t%d", program->ops);
    must(snprintf(op, sizeof op, "<%s = %s %s%s%s%s%s>", name, form->op, x, *y ? " " : "", y,
                  *more ? " " : "", more) < (int)sizeof op,
         "a random op is too long");
    memcpy(program->op[program->ops++], op, sizeof op);
    add_name(program, name);
}

/* ---- A whole flow ---- */

/* Writes the cache program: fields of one number, and a mean of every unused value. */
static void write_cache(const struct draft *draft, struct text *ops, struct text *fields) {
    static const char *const last[] = {"Max", "Min", "Mean"}, *const types[] = {
                                                                  "float16", "bfloat16", "float32"};
    const struct program *program = &draft->program[CACHE];
    text_print(ops, "<f = Max k dim=1>, <h = Fill alpha=0.5>");
    if (draft->rewrites) /* rows of K and V */
        text_print(ops, ", <k = Add_Mul k alpha=0.25 beta=0.5>, <v = Abs v>");
    text_print(
        fields,
        "{'name': 'f', 'shape': [1, 'head_dim'], 'dtype': '%s'}, "
        "{'name': 'h', 'shape': [1, 1], 'dtype': '%s'}, {'name': 'n', 'shape': ['block_size', "
        "'head_dim'], 'dtype': '%s', 'appended': true}, {'name': 'c', 'shape': ['block_size', "
        "'head_dim'], 'dtype': %s, 'appended': true, 'scales': 'cs'}, {'name': 'cs', 'shape': "
        "['block_size', %s], 'dtype': 'float32'}",
        draft->types[0], draft->types[1], draft->types[2], draft->codes, draft->groups);
    for (int i = 0; i < program->ops; i++)
        text_print(ops, ", %s", program->op[i]);
    for (int i = program->inputs; i < program->names; i++) {
        if (program->used[i])
            continue;
        text_print(ops, ", <m%d = Mean %s dim=1>, <g%d = %s m%d dim=2>", i, program->name[i], i,
                   last[i % 3], i);
        text_print(fields, ", {'name': 'g%d', 'shape': [1, 1], 'dtype': '%s'}", i, types[i % 3]);
    }
}

static void sum_up(struct text *ops, const char *name, int *sums) {
    text_print(ops, "<a%d = Max %s dim=1>, <b%d = Sum a%d dim=2>, ", *sums, name, *sums, *sums);
    if (*sums == 0)
        text_print(ops, "<s0 = Add_Mul b0>, ");
    else
        text_print(ops, "<s%d = Add b%d s%d>, ", *sums, *sums, *sums - 1);
    ++*sums;
}

/* Writes the index program: the sum of all fields and unused values. */
static void write_index(const struct draft *draft, struct text *ops) {
    const struct program *program = &draft->program[INDEX], *cache = &draft->program[CACHE];
    char name[16];
    int sums = 0;
    for (int i = 0; i < program->ops; i++)
        text_print(ops, "%s, ", program->op[i]);
    for (int i = program->inputs; i < program->names; i++)
        if (!program->used[i])
            sum_up(ops, program->name[i], &sums);
    for (int i = cache->inputs; i < cache->names; i++) {
        snprintf(name, sizeof name, "g%d", i);
        if (!cache->used[i])
            sum_up(ops, name, &sums);
    }
    sum_up(ops, "f", &sums);
    sum_up(ops, "h", &sums);
    sum_up(ops, "w", &sums);
    text_print(ops, "<cm = Mean c dim=2>, <cx = Max cs dim=2>, <cp = Multiply cm cx>, ");
    sum_up(ops, "cp", &sums);
    text_print(ops, "<h = Save s%d>, <%s s%d%s>", sums - 1, draft->unites ? "Union" : "topK",
               sums - 1, draft->unites ? " h second=1" : "");
}

/* Returns the flow as JSON. */
static char *write_spec(const struct draft *draft) {
    static const char *const weights[] = {[2] = "0.3, -1.2",
                                          [3] = "0.3, -1.2, 2",
                                          [4] = "0.3, -1.2, 2, 0.7",
                                          [5] = "0.3, -1.2, 2, 0.7, -0.4"};
    struct text fields = {0}, cache = {0}, index = {0}, spec = {0};
    write_cache(draft, &cache, &fields);
    write_index(draft, &index);
    text_print(&spec,
               "{'op': 'flow', 'attention': {%s, 'cache_layout': 3}, 'summary': '%s',\n'fields': "
               "[%s],\n'constants': [{'name': 'w', 'shape': [1, 1], 'values': 0.75}, {'name': 'x', "
               "'shape': [1, 'head_dim'], 'values': -0.5}, {'name': 'y', 'shape': [%d, 1, 1], "
               "'values': [%s]}],\n'cache': [%s],\n'index': [%s],\n",
               draft->attention, draft->summary, fields.data, draft->taps, weights[draft->taps],
               cache.data, index.data);
    if (draft->block_size > 0)
        text_print(&spec, "'block_size': %d,\n", draft->block_size);
    if (draft->layout != NULL)
        text_print(&spec, "'field_layout': '%s',\n", draft->layout);
    text_print(&spec, "'temporaries': '%s',\n'select': {'topk_val': 1}}", draft->temporaries);
    for (char *at = spec.data; (at = strchr(at, '\'')) != NULL;)
        *at = '"';
    char *json = flow_text("whole", spec.data, "");
    struct text *const all[] = {&fields, &cache, &index, &spec};
    for (size_t i = 0; i < COUNT(all); i++)
        text_free(all[i]);
    return json;
}

static bool is_valid(const struct draft *draft) {
    OWN(spec_list_free) struct spec_list specs = {0};
    struct error error = {0};
    FREED char *spec = write_spec(draft);
    return flow_read(spec, &specs, &error);
}

static void begin(struct dice *dice, struct draft *draft) {
    static const char *const summaries[] = {"on_complete", "incremental"};
    static const char *const types[] = {"float16", "bfloat16", "float32"};
    static const char *const of_tokens[] = {"float16", "float32", "float8e4m3fn", "float8e5m2"};
    static const char *const codes[] = {"'float8e4m3fn'", "'int8'", "'float8e5m2'",
                                        "'int8', 'powers_of_two': true",
                                        "'float8e4m3fn', 'powers_of_two': true"};
    static const char *const groups[] = {"1", "'head_dim'"};
    static const char *const layouts[] = {NULL, "page", "head"};
    static const char *const temporaries[] = {"float32", "bfloat16"};
    static const int blocks[] = {0, 0, 1, 2, 4, 8};
    *draft = (struct draft){.attention = given.attention[dice_range(dice, 0, given.attentions - 1)],
                            .summary = ANY(dice, summaries),
                            .unites = dice_once_in(dice, 3),
                            .rewrites = dice_once_in(dice, 3),
                            .block_size = ANY(dice, blocks),
                            .layout = ANY(dice, layouts),
                            .temporaries = ANY(dice, temporaries),
                            .types = {ANY(dice, types), ANY(dice, types), ANY(dice, of_tokens)},
                            .codes = ANY(dice, codes),
                            .groups = ANY(dice, groups),
                            .taps = (int)dice_range(dice, 2, 5)};
    static const char *const given[2][10] = {{"k", "v", "f", "n", "c", "cs"},
                                             {"f", "q", "k", "v", "w", "h", "n", "c", "cs"}};
    for (int which = 0; which < 2; which++) {
        struct program *program = &draft->program[which];
        for (int i = 0; given[which][i] != NULL; i++)
            add_name(program, given[which][i]);
        program->inputs = program->names;
    }
}

/* Whether the block size divides the page. */
static bool is_block(const struct draft *draft) {
    int page = atoi(strstr(draft->attention, "'page_size': ") + strlen("'page_size': "));
    return draft->block_size > 0 && page % draft->block_size == 0;
}

/* Prints a flow; constants of several numbers need an op of their own. */
static void print_flow(struct dice *dice) {
    struct draft draft;
    begin(dice, &draft);
    snprintf(draft.program[INDEX].op[0], sizeof *draft.program[INDEX].op,
             "<tx = Multiply f x>, <z = Sum tx dim=2>, <smooth = Conv1d z y dim=0>");
    draft.program[INDEX].ops = 1;
    add_name(&draft.program[INDEX], "smooth");
    draft.block_size = is_block(&draft) ? draft.block_size : 0;
    draft.rewrites = draft.rewrites && is_valid(&draft);
    draft.layout = is_valid(&draft) ? draft.layout : NULL;
    must(is_valid(&draft), "no flow");
    for (int tries = (int)dice_range(dice, 10, 60); tries > 0; tries--) {
        int which = (int)dice_range(dice, 0, 1);
        const struct draft before = draft;
        if (draft.program[which].ops == MOST_OPS)
            continue;
        add_op(dice, &draft.program[which], which);
        if (!is_valid(&draft))
            draft = before;
    }
    FREED char *spec = write_spec(&draft);
    printf("%s", spec);
}

int print_random_flows(struct dice *dice, int count) {
    run_table("random_flows");
    printf("{\"kernels\": [\n");
    for (int i = 0; i < count; i++) {
        print_flow(dice);
        printf("%s\n", i + 1 < count ? "," : "");
    }
    printf("]}\n");
    return 0;
}
