/* Ops of MLIR text whose form is not known: what they use, define and contain.

   Dialects print their ops as they like.  But all of them write operands, types and regions in the
   same way, so brackets and a few tokens tell what is what, and where an op ends.

   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "mlir_reader.h"

struct unknown_op {
    struct mlir_reader *reader;
    struct mlir_op *op;
    struct mlir_signature types; /* before and after the last arrow, as they are written */
    bool has_types;
};

/* ---- Where an op ends ---- */

/* Whether "%a:2, %b =" comes next. */
static bool is_definition(struct mlir_reader ahead) {
    struct mlir_word name;
    do {
        if (mlir_peek(&ahead) != '%' || !mlir_accept_sigil(&ahead, '%', &name))
            return false;
        if (mlir_accept(&ahead, ":") && mlir_accept_number(&ahead).length == 0)
            return false;
    } while (mlir_accept(&ahead, ","));
    return mlir_accept(&ahead, "=");
}

/* Whether "name"( comes next. */
static bool is_generic_op(struct mlir_reader ahead) {
    struct mlir_word name;
    return mlir_peek(&ahead) == '"' && mlir_accept_string(&ahead, &name) &&
           mlir_peek(&ahead) == '(';
}

/* Whether "^name:" or "^name(" comes next. */
static bool is_label(struct mlir_reader ahead) {
    struct mlir_word name;
    return mlir_peek(&ahead) == '^' && mlir_accept_sigil(&ahead, '^', &name) &&
           (mlir_accept(&ahead, "(") || mlir_accept(&ahead, ":"));
}

static bool is_alias(struct mlir_reader ahead) {
    struct mlir_word name;
    int sigil = mlir_peek(&ahead);
    return (sigil == '#' || sigil == '!') && mlir_accept_sigil(&ahead, (char)sigil, &name) &&
           mlir_accept(&ahead, "=");
}

/* Whether what comes next can only be another op; `ahead` is a copy. */
static bool is_next_op(struct mlir_reader ahead) {
    struct error ignored = {0};
    ahead.error = &ignored;
    return is_definition(ahead) || is_generic_op(ahead) || is_label(ahead) || is_alias(ahead) ||
           mlir_is_op_word(mlir_accept_word(&ahead));
}

static bool is_location(struct mlir_reader ahead) {
    return mlir_accept(&ahead, "loc") && mlir_peek(&ahead) == '(';
}

/* An op ends with its block, or where another begins: on a new line, or after its types or regions.
   Before these, a name such as stablehlo.add may belong to the op. */
static bool ends_here(const struct unknown_op *unknown) {
    struct mlir_reader *reader = unknown->reader;
    int c = mlir_peek(reader);
    if (c == 0 || c == '}' || is_location(*reader) || mlir_next_is(reader, "func.func"))
        return true;
    bool may_end =
        unknown->has_types || unknown->op->region_count > 0 || mlir_at_line_start(reader);
    return may_end && is_next_op(*reader);
}

/* ---- Types ---- */

static const struct mlir_type no_type = {.word = {"not stated", 10}, .is_missing = true};

/* Parses type {, type}, or the same in parentheses. */
static bool parse_list(struct mlir_reader *reader, const struct mlir_type ***types, int *count) {
    *types = NULL;
    *count = 0;
    if (!mlir_accept(reader, "("))
        return mlir_parse_types(reader, types, count);
    return mlir_accept(reader, ")") ||
           (mlir_parse_types(reader, types, count) && mlir_expect(reader, ")"));
}

static bool parse_results(struct unknown_op *unknown) {
    unknown->has_types = true;
    return parse_list(unknown->reader, &unknown->types.results, &unknown->types.result_count);
}

static bool is_type(struct mlir_reader *reader) {
    int c = mlir_peek(reader);
    return isalpha(c) || c == '!' || c == '(';
}

/* Parses what follows a colon, if it is types: T, U, or T -> U. */
static bool parse_types(struct unknown_op *unknown) {
    struct mlir_signature *types = &unknown->types;
    if (!is_type(unknown->reader))
        return mlir_peek(unknown->reader) != ':' || mlir_skip_token(unknown->reader); /* @a::@b */
    *types = (struct mlir_signature){0};
    unknown->has_types = true;
    return parse_list(unknown->reader, &types->operands, &types->operand_count) &&
           (!mlir_accept(unknown->reader, "->") || parse_results(unknown));
}

/* Returns the type of result i of `results`: after the arrow, or one for each, or one for all. */
static const struct mlir_type *result_type(const struct unknown_op *unknown, int i, int results) {
    const struct mlir_signature *types = &unknown->types;
    if (types->results != NULL)
        return types->result_count == results ? types->results[i] : &no_type;
    if (types->operand_count == results)
        return types->operands[i];
    return types->operand_count > 0 ? types->operands[types->operand_count - 1] : &no_type;
}

static bool set_signature(const struct unknown_op *unknown, int results,
                          struct mlir_signature *signature) {
    struct mlir_reader *reader = unknown->reader;
    const struct mlir_op *op = unknown->op;
    const struct mlir_type **operands =
        mlir_allocate(reader, (size_t)op->operand_count + 1, sizeof *operands);
    const struct mlir_type **types = mlir_allocate(reader, (size_t)results + 1, sizeof *types);
    if (operands == NULL || types == NULL)
        return false;
    for (int i = 0; i < op->operand_count; i++)
        operands[i] = reader->function->values[op->operands[i]].type;
    for (int i = 0; i < results; i++)
        types[i] = result_type(unknown, i, results);
    *signature = (struct mlir_signature){operands, types, op->operand_count, results};
    return true;
}

/* ---- Operands, and arguments of regions ---- */

static bool is_binding(struct mlir_reader ahead) {
    struct mlir_word name;
    struct error ignored = {0};
    ahead.error = &ignored;
    return mlir_accept_sigil(&ahead, '%', &name) && mlir_accept(&ahead, "=");
}

/* Parses %a = %b, which gives an argument of the op's regions its first value. */
static bool parse_binding(struct unknown_op *unknown) {
    struct mlir_reader *reader = unknown->reader;
    struct mlir_op *op = unknown->op;
    int number;
    mlir_skip(reader);
    struct mlir_value value = {.at = reader->at, .type = &no_type};
    if (!mlir_accept_sigil(reader, '%', &value.name) || !mlir_expect(reader, "="))
        return false;
    if (mlir_peek(reader) == '%') {
        if (!mlir_add_operand(reader, op))
            return false;
        value.type = reader->function->values[op->operands[op->operand_count - 1]].type;
    }
    return mlir_add_value(reader, &value, &number) && mlir_define(reader, value.name, number, 1);
}

static bool parse_value(struct unknown_op *unknown) {
    return is_binding(*unknown->reader) ? parse_binding(unknown)
                                        : mlir_add_operand(unknown->reader, unknown->op);
}

/* ---- Brackets ---- */

/* Whether a region comes after "{", not attributes. */
static bool is_region(struct mlir_reader ahead) {
    int c = mlir_peek(&ahead);
    if (c == '%' || c == '^')
        return true;
    if (c == '"')
        return is_generic_op(ahead);
    struct mlir_word word = mlir_accept_word(&ahead);
    bool is_return = word.length >= 6 && (memcmp(word.text + word.length - 6, "return", 6) == 0 ||
                                          memcmp(word.text + word.length - 5, "yield", 5) == 0);
    c = mlir_peek(&ahead);
    return c != '=' && c != ',' && (c == '}' ? is_return : mlir_is_op_word(word));
}

/* Parses a region, or skips attributes, after "{". */
static bool parse_braces(struct unknown_op *unknown) {
    struct mlir_reader *reader = unknown->reader;
    struct mlir_op *op = unknown->op;
    if (!is_region(*reader))
        return mlir_skip_balanced(reader, '{', '}');
    op->regions = mlir_grow(reader, op->regions, op->region_count, sizeof *op->regions);
    return op->regions != NULL && mlir_parse_region(reader, &op->regions[op->region_count++]);
}

static bool parse_token(struct unknown_op *unknown);

/* Parses up to a closing bracket. */
static bool parse_group(struct unknown_op *unknown, const char *close) {
    struct mlir_reader *reader = unknown->reader;
    size_t begin = reader->at;
    if (!mlir_enter(reader))
        return false;
    while (!mlir_accept(reader, close)) {
        if (mlir_peek(reader) == 0) {
            reader->at = begin;
            return mlir_refuse(reader, "a bracket without end; accepted: %s at its end", close);
        }
        if (mlir_peek(reader) == ':' ? !mlir_skip_token(reader) : !parse_token(unknown))
            return false;
    }
    mlir_leave(reader);
    return true;
}

/* Whether "%a: type" comes next, an argument of a region. */
static bool is_argument(struct mlir_reader ahead) {
    struct mlir_word name;
    return mlir_peek(&ahead) == '%' && mlir_accept_sigil(&ahead, '%', &name) &&
           mlir_accept(&ahead, ":");
}

static bool parse_parentheses(struct unknown_op *unknown) {
    struct mlir_reader *reader = unknown->reader;
    struct mlir_block ignored = {0};
    struct mlir_reader ahead = *reader;
    ahead.at++;
    if (is_argument(ahead))
        return mlir_parse_arguments(reader, &ignored);
    reader->at++;
    return parse_group(unknown, ")");
}

/* ---- The op ---- */

/* Parses a token, and all that is in its brackets. */
static bool parse_token(struct unknown_op *unknown) {
    struct mlir_reader *reader = unknown->reader;
    struct mlir_word word;
    int c = mlir_peek(reader);
    switch (c) {
    case '%':
        return parse_value(unknown);
    case '(':
        return parse_parentheses(unknown);
    case '[':
        reader->at++;
        return parse_group(unknown, "]");
    case '{':
        reader->at++;
        return parse_braces(unknown);
    case '<':
        reader->at++;
        return mlir_skip_balanced(reader, '<', '>');
    case ')':
    case ']':
    case '}':
        return mlir_refuse(reader, "found %c; accepted: the end of %s", c, unknown->op->name);
    case '@':
    case '#':
    case '!':
    case '^':
        return mlir_accept_sigil(reader, (char)c, &word);
    }
    return mlir_accept_word(reader).length > 0 || mlir_skip_token(reader);
}

static bool parse_part(struct unknown_op *unknown) {
    if (mlir_accept(unknown->reader, ":"))
        return parse_types(unknown);
    if (!mlir_accept(unknown->reader, "->"))
        return parse_token(unknown);
    return !is_type(unknown->reader) || parse_results(unknown);
}

bool mlir_parse_unknown(struct mlir_reader *reader, int results, struct mlir_op *op,
                        struct mlir_signature *signature) {
    struct unknown_op unknown = {.reader = reader, .op = op};
    struct mlir_scope outer = mlir_enter_scope(reader);
    while (!ends_here(&unknown))
        if (!parse_part(&unknown))
            return false;
    mlir_leave_scope(reader, outer);
    return set_signature(&unknown, results, signature);
}
