/* Random flows, in JSON with ' for ": ops are added to a program one by one; what the checks of
   flows do not let pass is taken back.  What nothing uses at the end is summed up into the score,
   or meant into a field.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_texts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    char fields[1024], constants[256];
};

/* ---- What is given ---- */

static const char *const attentions[] = {
    "'num_heads': 6, 'num_kv_heads': 2, 'head_dim': 20, 'page_size': 5, 'T1': 'float32'",
    "'num_heads': 4, 'num_kv_heads': 1, 'head_dim': 71, 'page_size': 16, 'T1': 'float16'",
    "'num_heads': 3, 'num_kv_heads': 3, 'head_dim': 80, 'page_size': 6, 'T1': 'bfloat16', 'T2': "
    "'float16'",
    "'num_heads': 2, 'num_kv_heads': 2, 'head_dim': 7, 'page_size': 1, 'T1': 'float32', 'T2': "
    "'bfloat16'",
    "'num_heads': 10, 'num_kv_heads': 2, 'head_dim': 24, 'page_size': 4, 'T1': 'float16', "
    "'quant_bit': 8, 'quant_group': 12",
    "'num_heads': 2, 'num_kv_heads': 1, 'head_dim': 36, 'page_size': 8, 'T1': 'float32', "
    "'quant_bit': 4, 'quant_group': 18, 'value_quant_bit': 8, 'value_quant_group': 9, 'T3': "
    "'float16'",
    "'num_heads': 4, 'num_kv_heads': 2, 'head_dim': 64, 'page_size': 16, 'T1': 'float16', "
    "'cache_format': 'q8_0', 'value_cache_format': 'q4_0'",
    "'num_heads': 4, 'num_kv_heads': 4, 'head_dim': 32, 'page_size': 128, 'T1': 'bfloat16', "
    "'quant_bit': 8, 'quant_group': 32, 'T3': 'bfloat16'",
};
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

/* Ops, how many inputs they have, and attributes: a alpha and beta, s scale, d one dim, k dims of
   Kron, 0 dim 0, g group, m start and end, r a shape. */
static const char *const forms[2] = {
    [CACHE] =
        "Mean 1 d|Max 1 d|Min 1 d|L2Norm 1 d|MeanInterleave 1 dg|MaxInterleave 1 dg|MinInterleave "
        "1 dg|L2NormInterleave 1 dg|GeMM 2|Multiply 2|Maximum 2|Minimum 2|Add 2 a|WhereEqual "
        "2|WhereNotEqual 2|WhereGreater 2|WhereGreaterEqual 2|WhereLess 2|WhereLessEqual 2|Relu 1 "
        "a|Sigmoid 1 a|Silu 1 a|Add_Mul 1 a|Abs 1 a|Log 1 a|Exp 1 a|MaskSlice 1 dma|Reshape 1 r|",
    [INDEX] = "Sum 1 d|Mean 1 d|Max 1 d|Min 1 d|L2Norm 1 d|Sum 1 0|Mean 1 0|Max 1 0|Min 1 0|L2Norm "
              "1 0|Softmax 1 0s|Normalize 1 0|Conv1d 2 0|GeMM 2|Multiply 2|Maximum 2|Minimum 2|Add "
              "2 a|WhereEqual 2|WhereNotEqual 2|WhereGreater 2|WhereGreaterEqual 2|WhereLess "
              "2|WhereLessEqual 2|Kron 2 k|Relu 1 a|Sigmoid 1 a|Silu 1 a|Add_Mul 1 a|Abs 1 a|Log 1 "
              "a|Exp 1 a|MaskSlice 1 dma|Reshape 1 r|Transpose 1|Load 1|"};

struct form {
    char op[24], more[8];
    int inputs;
};

static struct form random_form(struct dice *dice, int which) {
    struct form form = {.more = ""};
    const char *at = forms[which];
    int count = 0;
    for (const char *end = at; (end = strchr(end, '|')) != NULL; end++)
        count++;
    for (int64_t n = dice_range(dice, 0, count - 1); n > 0; n--)
        at = strchr(at, '|') + 1;
    sscanf(at, "%23s %d %7[a-z0]", form.op, &form.inputs, form.more);
    return form;
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
        "'alpha': 0.5, 'output': 'h'}%s],\n'index': [",
        cache.text);
    write_index(draft, spec);
    add(spec, "],\n'select': {'topk_val': 1}}");
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
    *draft = (struct draft){.attention = ANY(dice, attentions), .summary = ANY(dice, summaries)};
    snprintf(draft->fields, sizeof draft->fields,
             "{'name': 'f', 'shape': [1, 'head_dim'], 'dtype': '%s'}, {'name': 'h', 'shape': [1, "
             "1], 'dtype': '%s'}",
             ANY(dice, types), ANY(dice, types));
    snprintf(draft->constants, sizeof draft->constants,
             "{'name': 'w', 'shape': [1, 1], 'values': 0.75}, {'name': 'x', 'shape': [1, "
             "'head_dim'], 'values': -0.5}, {'name': 'y', 'shape': [%d, 1, 1], 'values': 0.3}",
             (int)dice_range(dice, 2, 5));
    static const char *const given[2][8] = {{"k", "v", "f"}, {"f", "q", "k", "v", "w", "h"}};
    for (int which = 0; which < 2; which++) {
        struct program *program = &draft->program[which];
        for (int i = 0; given[which][i] != NULL; i++)
            add_name(program, given[which][i]);
        program->inputs = program->names;
    }
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
    printf("{'kernels': [\n");
    for (int i = 0; i < count; i++) {
        print_flow(dice);
        printf("%s\n", i + 1 < count ? "," : "");
    }
    printf("]}\n");
    return 0;
}
