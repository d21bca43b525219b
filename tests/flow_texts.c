/* Random flows, in JSON with ' for ": ops are added to a program one by one; what the checks of
   flows do not let pass is taken back.  What nothing uses at the end is summed up into the score,
   or meant into a field.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_texts.h"

#include <stdarg.h>

#include "case_table.h"
#include "common.h"
#include "flow_file.h"

enum { MOST_OPS = 8, MOST_NAMES = 24, TEXT = 8192 };

struct buffer {
    char text[TEXT];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void add(struct buffer *buffer, const char *format,
                                                      ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(buffer->text + buffer->length, TEXT - buffer->length, format, arguments);
    va_end(arguments);
    buffer->length += (size_t)length;
    if (buffer->length >= TEXT)
        bail_out("a random flow is too long");
}

/* An op that has been accepted, and names it may read, from the inputs on. */
struct program {
    char op[MOST_OPS][400];
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
    int block_size; /* 0: a page */
    bool unites;    /* ends in Union */
    bool rewrites;  /* rows of K and V */
    char fields[1024], constants[256];
};

/* ---- What is given ---- */

/* Ops, how many inputs they have, and letters of attributes, a, d, g and others, as
   random_flows.tsv says them. */
struct form {
    char op[24], more[8];
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

static double number(struct dice *dice) {
    return dice_once_in(dice, 4) ? (double)dice_range(dice, -1, 1)
                                 : (double)dice_range(dice, -300, 300) / 100;
}

static struct form random_form(struct dice *dice, int which) {
    return given.form[which][dice_range(dice, 0, given.forms[which] - 1)];
}

static void add_attribute(struct dice *dice, struct buffer *op, char which) {
    static const char *const kron[] = {"1", "2", "[1, 2]"};
    static const int groups[] = {2, 3, 4, 5, 8, 16}, dims[] = {1, 2, 4, 5, 10, 16, 20, 40, 64};
    int64_t start = dice_range(dice, 0, 3);
    switch (which) {
    case 'a':
        add(op, ", 'alpha': %.9g, 'beta': %.9g", number(dice), number(dice));
        break;
    case 's':
        add(op, ", 'scale': %.9g", number(dice));
        break;
    case 'd':
        add(op, ", 'dim': %d", (int)dice_range(dice, 1, 2));
        break;
    case '0':
        add(op, ", 'dim': 0");
        break;
    case 'k':
        add(op, ", 'dim': %s", ANY(dice, kron));
        break;
    case 'g':
        add(op, ", 'group': %d", ANY(dice, groups));
        break;
    case 'm':
        add(op, ", 'start': %d, 'end': %d", (int)start, (int)(start + dice_range(dice, 0, 5)));
        break;
    default:
        add(op, ", 'shape': [%d, %d]", ANY(dice, dims), ANY(dice, dims));
    }
}

static void add_op(struct dice *dice, struct program *program, int which) {
    struct buffer op = {.length = 0};
    char name[16];
    const struct form form = random_form(dice, which);
    add(&op, "{'op': '%s', 'inputs': ['%s'", form.op, pick(dice, program));
    if (form.inputs == 2)
        add(&op, ", '%s'", pick(dice, program));
    add(&op, "]");
    for (const char *more = form.more; *more != '\0'; more++)
        add_attribute(dice, &op, *more);
    snprintf(name, sizeof name, "t%d", program->ops);
    add(&op, ", 'output': '%s'}", name);
    if (op.length >= sizeof *program->op)
        bail_out("a random op is too long");
    memcpy(program->op[program->ops++], op.text, op.length + 1);
    add_name(program, name);
}

/* ---- The whole ---- */

/* Fields of one number, a mean of every value that nothing reads. */
static void write_cache(const struct draft *draft, struct buffer *spec, struct buffer *fields) {
    static const char *const last[] = {"Max", "Min", "Mean"}, *const types[] = {
                                                                  "float16", "bfloat16", "float32"};
    const struct program *program = &draft->program[CACHE];
    add(fields, "%s", draft->fields);
    for (int i = 0; i < program->ops; i++)
        add(spec, ", %s", program->op[i]);
    for (int i = program->inputs; i < program->names; i++) {
        if (program->used[i])
            continue;
        add(spec, ", {'op': 'Mean', 'inputs': ['%s'], 'dim': 1, 'output': 'm%d'}", program->name[i],
            i);
        add(spec, ", {'op': '%s', 'inputs': ['m%d'], 'dim': 2, 'output': 'g%d'}", last[i % 3], i,
            i);
        add(fields, ", {'name': 'g%d', 'shape': [1, 1], 'dtype': '%s'}", i, types[i % 3]);
    }
}

static void sum_up(struct buffer *spec, const char *name, int *sums) {
    add(spec, "{'op': 'Max', 'inputs': ['%s'], 'dim': 1, 'output': 'a%d'}, ", name, *sums);
    add(spec, "{'op': 'Sum', 'inputs': ['a%d'], 'dim': 2, 'output': 'b%d'}, ", *sums, *sums);
    if (*sums == 0)
        add(spec, "{'op': 'Add_Mul', 'inputs': ['b0'], 'output': 's0'}, ");
    else
        add(spec, "{'op': 'Add', 'inputs': ['b%d', 's%d'], 'output': 's%d'}, ", *sums, *sums - 1,
            *sums);
    ++*sums;
}

/* The sum of all fields, and of what nothing reads. */
static void write_index(const struct draft *draft, struct buffer *spec) {
    const struct program *program = &draft->program[INDEX], *cache = &draft->program[CACHE];
    char name[16];
    int sums = 0;
    for (int i = 0; i < program->ops; i++)
        add(spec, "%s, ", program->op[i]);
    for (int i = program->inputs; i < program->names; i++)
        if (!program->used[i])
            sum_up(spec, program->name[i], &sums);
    for (int i = cache->inputs; i < cache->names; i++) {
        snprintf(name, sizeof name, "g%d", i);
        if (!cache->used[i])
            sum_up(spec, name, &sums);
    }
    sum_up(spec, "f", &sums);
    sum_up(spec, "h", &sums);
    sum_up(spec, "w", &sums);
    add(spec, "{'op': 'Save', 'inputs': ['s%d'], 'output': 'h'}, ", sums - 1);
    if (draft->unites)
        add(spec, "{'op': 'Union', 'inputs': ['s%d', 'h'], 'second': 1}", sums - 1);
    else
        add(spec, "{'op': 'topK', 'inputs': ['s%d']}", sums - 1);
}

static void write_spec(const struct draft *draft, struct buffer *spec) {
    struct buffer fields = {.length = 0}, cache = {.length = 0};
    write_cache(draft, &cache, &fields);
    *spec = (struct buffer){.length = 0};
    add(spec, "{'op': 'flow', 'attention': {%s, 'cache_layout': 3}, 'summary': '%s',\n",
        draft->attention, draft->summary);
    add(spec, "'fields': [%s],\n'constants': [%s],\n", fields.text, draft->constants);
    add(spec,
        "'cache': [{'op': 'Max', 'inputs': ['k'], 'dim': 1, 'output': 'f'}, {'op': 'Fill', "
        "'alpha': 0.5, 'output': 'h'}%s%s],\n'index': [",
        draft->rewrites ? ", {'op': 'Add_Mul', 'inputs': ['k'], 'alpha': 0.25, 'beta': 0.5, "
                          "'output': 'k'}, {'op': 'Abs', 'inputs': ['v'], 'output': 'v'}"
                        : "",
        cache.text);
    write_index(draft, spec);
    add(spec, "],\n");
    if (draft->block_size > 0)
        add(spec, "'block_size': %d,\n", draft->block_size);
    if (draft->layout != NULL)
        add(spec, "'field_layout': '%s',\n", draft->layout);
    add(spec, "'select': {'topk_val': 1}}");
    for (char *at = spec->text; (at = strchr(at, '\'')) != NULL;)
        *at = '"';
}

static bool is_valid(const struct draft *draft, struct buffer *spec) {
    struct spec_list specs = {0};
    struct error error = {0};
    write_spec(draft, spec);
    bool valid = flow_read(spec->text, &specs, &error);
    spec_list_free(&specs);
    return valid;
}

static void begin(struct dice *dice, struct draft *draft) {
    static const char *const summaries[] = {"on_complete", "incremental"};
    static const char *const types[] = {"float16", "bfloat16", "float32"};
    static const char *const of_tokens[] = {"float16", "float32", "float8e4m3fn", "float8e5m2"};
    static const char *const layouts[] = {NULL, "page", "head"};
    static const int blocks[] = {0, 0, 1, 2, 4, 8};
    *draft = (struct draft){.attention = given.attention[dice_range(dice, 0, given.attentions - 1)],
                            .summary = ANY(dice, summaries),
                            .unites = dice_once_in(dice, 3),
                            .rewrites = dice_once_in(dice, 3),
                            .block_size = ANY(dice, blocks),
                            .layout = ANY(dice, layouts)};
    snprintf(draft->fields, sizeof draft->fields,
             "{'name': 'f', 'shape': [1, 'head_dim'], 'dtype': '%s'}, {'name': 'h', 'shape': [1, "
             "1], 'dtype': '%s'}, {'name': 'n', 'shape': ['block_size', 'head_dim'], 'dtype': "
             "'%s', 'appended': true}",
             ANY(dice, types), ANY(dice, types), ANY(dice, of_tokens));
    snprintf(draft->constants, sizeof draft->constants,
             "{'name': 'w', 'shape': [1, 1], 'values': 0.75}, {'name': 'x', 'shape': [1, "
             "'head_dim'], 'values': -0.5}, {'name': 'y', 'shape': [%d, 1, 1], 'values': 0.3}",
             (int)dice_range(dice, 2, 5));
    static const char *const given[2][8] = {{"k", "v", "f", "n"},
                                            {"f", "q", "k", "v", "w", "h", "n"}};
    for (int which = 0; which < 2; which++) {
        struct program *program = &draft->program[which];
        for (int i = 0; given[which][i] != NULL; i++)
            add_name(program, given[which][i]);
        program->inputs = program->names;
    }
}

/* Whether it divides the page. */
static bool is_block(const struct draft *draft) {
    int page = atoi(strstr(draft->attention, "'page_size': ") + strlen("'page_size': "));
    return draft->block_size > 0 && page % draft->block_size == 0;
}

/* Constants of several numbers need an op of their own. */
static void print_flow(struct dice *dice) {
    struct draft draft;
    struct buffer spec;
    begin(dice, &draft);
    snprintf(draft.program[INDEX].op[0], sizeof *draft.program[INDEX].op,
             "{'op': 'Multiply', 'inputs': ['f', 'x'], 'output': 'tx'}, {'op': 'Sum', 'inputs': "
             "['tx'], 'dim': 2, 'output': 'z'}, {'op': 'Conv1d', 'inputs': ['z', 'y'], 'dim': 0, "
             "'output': 'smooth'}");
    draft.program[INDEX].ops = 1;
    add_name(&draft.program[INDEX], "smooth");
    draft.block_size = is_block(&draft) ? draft.block_size : 0;
    draft.rewrites = draft.rewrites && is_valid(&draft, &spec);
    draft.layout = is_valid(&draft, &spec) ? draft.layout : NULL;
    if (!is_valid(&draft, &spec))
        bail_out("no flow: %s", spec.text);
    for (int tries = (int)dice_range(dice, 10, 60); tries > 0; tries--) {
        int which = (int)dice_range(dice, 0, 1);
        const struct draft before = draft;
        if (draft.program[which].ops == MOST_OPS)
            continue;
        add_op(dice, &draft.program[which], which);
        if (!is_valid(&draft, &spec))
            draft = before;
    }
    is_valid(&draft, &spec);
    printf("%s", spec.text);
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
