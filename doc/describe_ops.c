/* What the descriptions of ops give others: the lists of attributes and tensors in
   kvmill-specs(5), the tables of the Python binding, and PMX's signatures for ONNX Runtime.
   doc/refresh-tables.sh puts all in place.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../defs/dtype.h"
#include "../defs/format.h"
#include "../defs/op.h"

/* ---- roff ---- */

static void print_roff(const char *text) {
    for (; *text != '\0'; text++) {
        bool starts_sentence = text[0] == ' ' && text[1] == ' ';
        if (starts_sentence)
            text++;
        if (starts_sentence)
            putchar('\n');
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
    }
    putchar('\n');
}

/* The ops of a family that a set names; nothing where it names all. */
static void print_ops(enum op_family family, op_set ops) {
    op_set all = 0;
    int count = 0;
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        if (kvmill_ops[i]->family == family)
            all |= kvmill_op_bit(kvmill_ops[i]);
    for (int i = 0; ops != all && kvmill_ops[i] != NULL; i++)
        if (kvmill_ops[i]->family == family && ops & kvmill_op_bit(kvmill_ops[i])) {
            bool dynamic = kvmill_ops[i]->dynamic && ops & 1u << (kvmill_ops[i]->number - 3);
            if (!dynamic)
                printf("%s%s", count++ ? ", " : "For ", kvmill_ops[i]->name);
        }
    fputs(count ? ".\n" : "", stdout);
}

static const char *kind_words(enum op_kind kind) {
    static const char *const words[] = {
        [OP_COUNT] = "integer",    [OP_INTEGER] = "integer", [OP_AXIS] = "integer",
        [OP_FLAG] = "truth value", [OP_REAL] = "number",     [OP_TYPE] = "element type",
        [OP_WORD] = "string",      [OP_DIMS] = "integers",   [OP_POINTER] = "value",
        [OP_STRUCT] = "object",    [OP_OWN] = "value",
    };
    return words[kind];
}

static void print_words(const struct op_member *member) {
    for (int i = 0; member->words[i] != NULL; i++)
        printf("%s%s", i ? ", " : ": ", member->words[i]);
}

static void print_default(const struct op_member *member) {
    if (member->needed != 0)
        printf(", required");
    else if (member->kind == OP_FLAG)
        printf(", default %s", member->initial ? "true" : "false");
    else if (member->initial != 0 || (member->kind == OP_COUNT && member->with == NULL))
        printf(", default %s%" PRId64, member->initial < 0 ? "\\" : "", member->initial);
}

static void print_member(enum op_family family, const struct op_member *member) {
    printf(".TP\n.BR %s \" (%s", member->name, kind_words(member->kind));
    print_default(member);
    if (member->words != NULL && member->kind == OP_WORD && member->words[1] != NULL)
        print_words(member);
    if (member->since != 0)
        printf("; since opset %d", member->since);
    printf(")\"\n");
    print_roff(member->help != NULL ? member->help : "As in StableHLO.");
    print_ops(family, member->ops);
}

/* "B S | " as "(B, S) or ()" */
static void print_shape(const char *shape) {
    putchar('(');
    for (const char *at = shape; *at != '\0'; at++)
        if (at[0] == ' ' && at[1] == '|')
            fputs(") or (", stdout), at += 2;
        else
            fputs(*at == ' ' ? ", " : (char[]){*at, '\0'}, stdout);
    putchar(')');
}

static void print_tensor(const struct op *op, const struct op_tensor *tensor) {
    bool in = tensor->in != 0, out = tensor->out != 0;
    printf(".TP\n.BR %s \" (%s", tensor->name, in && out ? "in, out" : in ? "in" : "out");
    if (tensor->optional != 0)
        printf(", may be left out");
    if (tensor->type != NULL)
        printf("; %s", tensor->type);
    if (tensor->or_type != NULL)
        printf(" or %s", tensor->or_type);
    if (tensor->shape != NULL)
        printf("; ");
    if (tensor->shape != NULL)
        print_shape(tensor->shape);
    if (tensor->dynamic_shape != NULL) {
        printf("; dynamic batching ");
        print_shape(tensor->dynamic_shape);
    }
    printf(")\"\n");
    print_roff(tensor->help);
    if (op->family != OP_FLOW)
        print_ops(op->family, tensor->in | tensor->out);
}

static void print_family(const struct op *op) {
    for (int p = 0; p < OP_PARTS && op->parts[p] != NULL; p++)
        for (int m = 0; m < op->parts[p]->member_count; m++)
            if (op->parts[p]->members[m].ops != 0)
                print_member(op->family, &op->parts[p]->members[m]);
    printf(".PP\nTensors of a run");
    if (op->dims != NULL)
        printf(", where\n");
    print_roff(op->dims ? op->dims : ":");
    for (int i = 0; i < op->tensor_count; i++)
        print_tensor(op, &op->tensors[i]);
}

/* The op of a family that has the most parts tells what all have. */
static bool print_manual(const char *name) {
    const struct op *op = kvmill_op_by_name(name);
    if (op != NULL)
        print_family(op);
    return op != NULL;
}

/* ---- Python ---- */

static const char *const python_kinds[] = {
    [OP_SIZE] = "size",  [OP_COUNT] = "int64",   [OP_INTEGER] = "int64",   [OP_AXIS] = "int64",
    [OP_FLAG] = "int32", [OP_REAL] = "double",   [OP_TYPE] = "type",       [OP_WORD] = "word",
    [OP_DIMS] = "dims",  [OP_TENSOR] = "tensor", [OP_POINTER] = "pointer", [OP_STRUCT] = "struct",
    [OP_OWN] = "",
};

/* The struct's members that begin at or after `offset`, the first of them. */
static const struct op_member *member_from(const struct op_struct *part, size_t offset) {
    const struct op_member *first = NULL;
    for (int i = 0; i < part->member_count; i++) {
        const struct op_member *member = &part->members[i];
        if (member->kind != OP_OWN && member->offset >= offset &&
            (first == NULL || member->offset < first->offset))
            first = member;
    }
    return first;
}

static void print_struct(const struct op_struct *part) {
    const struct op_member *member;
    printf("    \"%s\": (%zu, [\n", part->name, part->size);
    for (size_t at = 0; (member = member_from(part, at)) != NULL; at = member->offset + 1)
        printf("        (\"%s\", \"%s\", %zu),\n", member->name, python_kinds[member->kind],
               member->offset);
    printf("    ]),\n");
}

static bool is_printed(const struct op *const *ops, int count, const struct op_struct *part) {
    for (int i = 0; i < count; i++)
        for (int p = 0; p < OP_PARTS && ops[i]->parts[p] != NULL; p++)
            if (ops[i]->parts[p] == part)
                return true;
    return false;
}

static void print_structs(void) {
    printf("# name: (size, members: (name, kind, offset) in the order of C)\nSTRUCTS = {\n");
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        for (int p = 0; p < OP_PARTS && kvmill_ops[i]->parts[p] != NULL; p++) {
            const struct op_struct *part = kvmill_ops[i]->parts[p];
            if (part->name != NULL && !is_printed(kvmill_ops, i, part))
                print_struct(part);
        }
    printf("}\n\n");
}

static void print_tensor_row(const struct op_tensor *tensor, op_set bit) {
    const char *in = tensor->in & bit ? "in" : "", *out = tensor->out & bit ? "out" : "";
    if (!*in && !*out)
        return;
    printf("        Tensor(\"%s\", %d, \"%s%s\", \"%s\"", tensor->name, tensor->index, in, out,
           tensor->type ? tensor->type : "");
    if (tensor->wide_type != NULL)
        printf(", \"%s\", \"%s\"", tensor->wide_type, tensor->wide_when.names[0]);
    printf("),\n");
}

static void print_op(const struct op *op) {
    printf("    \"%s\": [\n", op->name);
    for (int i = 0; i < op->tensor_count; i++)
        print_tensor_row(&op->tensors[i], kvmill_op_bit(op));
    printf("    ],\n");
}

/* Ranges that hold whatever other members are. */
static void print_ranges(const struct op *op) {
    const struct op_struct *part = op->parts[0];
    printf("    \"%s\": [\n", op->name);
    for (int i = 0; i < part->range_count; i++) {
        const struct op_range *range = &part->ranges[i];
        if (range->ops & kvmill_op_bit(op) && !range->below && !range->when.names[0])
            printf("        (\"%s\", %" PRId64 ", %" PRId64 "),\n", range->name, range->least,
                   range->most);
    }
    printf("    ],\n");
}

static void print_types(void) {
    const struct kvmill_dtype *type;
    printf("# name: (code, bits, ONNX's name where it differs)\nTYPES = {\n");
    for (size_t i = 0; (type = kvmill_dtype_at(i)) != NULL; i++)
        printf("    \"%s\": (%d, %d, \"%s\"),\n", type->name, type->dl.code, type->dl.bits,
               type->alias ? type->alias : "");
    printf("}\n\n");
}

/* Tiles of keys, which are those that positions are multiples of, are the first of their word.
   Transposed keys are chosen by another word. */
static void print_formats(void) {
    const struct kvmill_format_parts *parts;
    printf("# word of a cache format: (element type of rows, bits of a code, \"groups\", "
           "\"blocks\" or\n"
           "# a \"row\" that share a scale or \"\", elements and bytes of a block, bytes of a row "
           "before\n"
           "# its blocks, rows of a tile)\n"
           "FORMATS = {\n");
    for (int i = 1; (parts = kvmill_format_parts(i)) != NULL; i++)
        if (kvmill_format_of_word(parts->word, KVMILL_ANY_SCALES) == i && !parts->transposed)
            printf("    \"%s\": (\"%s\", %d, \"%s\", %d, %d, %d, %d),\n", parts->word,
                   kvmill_dtype_name(parts->dtype), parts->bits,
                   parts->scales == KVMILL_SCALES_OF_GROUPS   ? "groups"
                   : parts->scales == KVMILL_SCALES_IN_BLOCKS ? "blocks"
                   : parts->scales == KVMILL_SCALES_IN_ROWS   ? "row"
                                                              : "",
                   parts->block, parts->block > 0 ? kvmill_format_block_bytes(parts) : 0,
                   kvmill_format_row_head(parts), parts->tile);
    printf("}\n\n");
}

static void print_python(void) {
    printf("\"\"\"Structs, tensors and limits of ops, from their descriptions in defs/.\n\n"
           "Printed by doc/describe_ops; do not edit.\n\n"
           "SPDX-License-Identifier: Apache-2.0\n\"\"\"\n\n"
           "from typing import NamedTuple\n\n\n"
           "class Tensor(NamedTuple):\n"
           "    name: str\n"
           "    place: int  # the index in the plan's list, or -1\n"
           "    use: str  # \"in\", \"out\" or \"inout\"\n"
           "    type: str  # a type, the attribute that sets it, or empty\n"
           "    wide: str = \"\"  # the type if attribute wide_when is set\n"
           "    wide_when: str = \"\"\n\n\n");
    print_types();
    print_formats();
    print_structs();
    printf("# op: attributes with a limited range: (name, least, most)\nRANGES = {\n");
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        if (kvmill_ops[i]->parts[0]->range_count > 0)
            print_ranges(kvmill_ops[i]);
    printf("}\n\n"
           "# op: tensors\n"
           "TENSORS = {\n");
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        if (kvmill_ops[i]->family != OP_FLOW)
            print_op(kvmill_ops[i]);
    for (int i = 0; i < OP_FLOW_STEPS; i++)
        print_op(&kvmill_flow_steps[i]);
    printf("}\n");
}

/* ---- C, for nodes of PMX's domains ---- */

static void print_places(const struct op *op, bool out) {
    const struct op_tensor *tensor;
    int count = 0;
    while (kvmill_op_source_tensor(op, out, count) != NULL)
        count++;
    printf(".%s = {%d, {", out ? "outputs" : "inputs", count);
    for (int i = 0; (tensor = kvmill_op_source_tensor(op, out, i)) != NULL; i++)
        printf("%s%d", i ? ", " : "", tensor->index);
    printf("}}");
}

static void print_signature(const struct op *op) {
    const struct op_tensor *tensor;
    unsigned required = 0;
    for (int i = 0; (tensor = kvmill_op_source_tensor(op, false, i)) != NULL; i++)
        if (kvmill_op_source_needs(op, tensor))
            required |= 1u << tensor->index;
    const char *dot = strchr(op->name, '.');
    printf("#define PMX_SIGNATURE_%d .name = \"%s\", .required = 0x%x, ", op->number,
           dot != NULL ? dot + 1 : op->name, required);
    print_places(op, false);
    printf(", ");
    print_places(op, true);
    printf("\n");
}

/* The ops that have an attribute, a bit for the number of each. */
static op_set ops_with(const struct op_member *member) {
    op_set ops = 0;
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        if (kvmill_ops[i]->family == OP_CACHE_ATTENTION &&
            kvmill_op_source_has(kvmill_ops[i], member))
            ops |= kvmill_op_bit(kvmill_ops[i]);
    return ops;
}

static void print_pmx(void) {
    const struct op_struct *part = kvmill_op_of(OP_CACHE_ATTENTION, 0)->parts[0];
    printf("/* PMX's ops and their attributes as nodes of its domains have them, from the "
           "descriptions in\n"
           "   defs/.  Printed by doc/describe_ops; not edited.\n\n"
           "   SPDX-License-Identifier: Apache-2.0 */\n"
           "#ifndef KVMILL_ONNXRUNTIME_PMX_SIGNATURES_H\n"
           "#define KVMILL_ONNXRUNTIME_PMX_SIGNATURES_H\n\n"
           "/* clang-format off */\n"
           "/* Members of struct node_op, by the number of an op; those from 3 on are of dynamic "
           "batching. */\n");
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        if (kvmill_ops[i]->family == OP_CACHE_ATTENTION)
            print_signature(kvmill_ops[i]);
    printf("\n/* Members of kvmill_cache_attention; the ops that have it, a bit for the number of "
           "each. */\n"
           "#define PMX_ATTRIBUTES");
    for (int i = 0; i < part->member_count; i++)
        if (ops_with(&part->members[i]) != 0)
            printf(" \\\n    PMX_%s(%s, 0x%x),",
                   part->members[i].kind == OP_FLAG ? "FLAG" : "INTEGER", part->members[i].name,
                   ops_with(&part->members[i]));
    printf("\n/* clang-format on */\n\n#endif\n");
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "python") == 0) {
        print_python();
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "pmx") == 0) {
        print_pmx();
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "manual") == 0 && print_manual(argv[2]))
        return 0;
    fprintf(stderr, "usage: describe_ops python | describe_ops pmx | describe_ops manual OP\n");
    return 1;
}
