/* Ops of StableHLO text in pretty form: those around gather and scatter.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../ops/scalar.h"
#include "mlir_reader.h"

/* Adds an attribute that has no name in pretty form. */
static bool add_word(struct mlir_reader *reader, struct mlir_op *op, const char *key,
                     struct mlir_word word) {
    struct mlir_attr attr = {.kind = MLIR_STRING, .at = reader->at, .word = word};
    return mlir_add_attr(reader, &op->attrs, (struct mlir_word){key, strlen(key)}, &attr);
}

static bool add_dense(struct mlir_reader *reader, struct mlir_op *op) {
    static const char key[] = "value";
    struct mlir_attr attr = {.at = reader->at};
    return mlir_parse_dense(reader, &attr) &&
           mlir_add_attr(reader, &op->attrs, (struct mlir_word){key, sizeof key - 1}, &attr);
}

/* Parses dense<..> : T, whose type is also the op's. */
static bool parse_constant(struct mlir_reader *reader, struct mlir_op *op,
                           struct mlir_signature *signature) {
    if (mlir_accept(reader, "{") && !mlir_parse_fields(reader, "}", &op->attrs))
        return false;
    if (!mlir_expect(reader, "dense") || !add_dense(reader, op))
        return false;
    signature->results = mlir_allocate(reader, 1, sizeof *signature->results);
    if (signature->results == NULL)
        return false;
    signature->results[0] = mlir_attr_of(&op->attrs, "value")->literal.type;
    signature->result_count = 1;
    return true;
}

/* Parses [0:10, 2:3:1, ..] as start_indices, limit_indices and strides. */
static bool parse_bounds(struct mlir_reader *reader, struct mlir_op *op) {
    static const char *const keys[3] = {"start_indices", "limit_indices", "strides"};
    struct mlir_attr lists[3] = {{.kind = MLIR_LIST}, {.kind = MLIR_LIST}, {.kind = MLIR_LIST}};
    while (!mlir_accept(reader, "]")) {
        int64_t bound[3] = {0, 0, 1};
        if (!mlir_accept_integer(reader, &bound[0]) || !mlir_expect(reader, ":") ||
            !mlir_accept_integer(reader, &bound[1]) ||
            (mlir_accept(reader, ":") && !mlir_accept_integer(reader, &bound[2])))
            return false;
        for (int i = 0; i < 3; i++) {
            struct mlir_attr *list = &lists[i];
            list->items = mlir_grow(reader, list->items, list->count, sizeof *list->items);
            if (list->items == NULL)
                return false;
            list->items[list->count++] =
                (struct mlir_attr){.kind = MLIR_INTEGER, .at = reader->at, .integer = bound[i]};
        }
        if (!mlir_accept(reader, ",") && mlir_peek(reader) != ']')
            return mlir_expect(reader, "]");
    }
    for (int i = 0; i < 3; i++)
        if (!mlir_add_attr(reader, &op->attrs, (struct mlir_word){keys[i], strlen(keys[i])},
                           &lists[i]))
            return false;
    return true;
}

/* Parses (%x init: %i) applies stablehlo.and across dimensions = [1]. */
static bool parse_reduce(struct mlir_reader *reader, struct mlir_op *op) {
    if (!mlir_expect(reader, "(") || !mlir_add_operand(reader, op) ||
        !mlir_expect(reader, "init") || !mlir_expect(reader, ":") ||
        !mlir_add_operand(reader, op) || !mlir_expect(reader, ")") ||
        !mlir_expect(reader, "applies") ||
        !add_word(reader, op, "applies", mlir_accept_word(reader)) ||
        !mlir_expect(reader, "across") || !mlir_expect(reader, "dimensions") ||
        !mlir_expect(reader, "="))
        return false;
    static const char key[] = "dimensions";
    struct mlir_attr attr = {0};
    return mlir_parse_attr(reader, &attr) &&
           mlir_add_attr(reader, &op->attrs, (struct mlir_word){key, sizeof key - 1}, &attr);
}

/* Parses @callee(%a, ..) {..}. */
static bool parse_call(struct mlir_reader *reader, struct mlir_op *op) {
    struct mlir_word callee;
    return mlir_accept_sigil(reader, '@', &callee) && add_word(reader, op, "callee", callee) &&
           mlir_parse_operands(reader, op);
}

static const char *word_key(const struct mlir_op *op) {
    return mlir_attr_of(&op->attrs, "comparison_direction") ? "compare_type"
                                                            : "comparison_direction";
}

/* Parses %x | dense<..> : T | [bounds] | NAME = attr | WORD; the caller takes the commas. */
static bool parse_item(struct mlir_reader *reader, struct mlir_op *op) {
    struct mlir_attr attr = {0};
    if (mlir_peek(reader) == '%')
        return mlir_add_operand(reader, op) &&
               (!mlir_accept(reader, "[") || parse_bounds(reader, op));
    if (mlir_accept(reader, "dense"))
        return add_dense(reader, op);
    struct mlir_word word = mlir_accept_word(reader);
    if (word.length == 0)
        return mlir_refuse(reader, "%s: no operand or attribute here; accepted: %%x, name = value",
                           op->name);
    if (!mlir_accept(reader, "="))
        return add_word(reader, op, word_key(op), word);
    int c = mlir_peek(reader);
    attr.at = reader->at;
    attr.kind = MLIR_INTEGER; /* the colon after it begins the op's types */
    bool done = c == '-' || (c >= '0' && c <= '9') ? mlir_accept_integer(reader, &attr.integer)
                                                   : mlir_parse_attr(reader, &attr);
    return done && mlir_add_attr(reader, &op->attrs, word, &attr);
}

static bool parse_items(struct mlir_reader *reader, struct mlir_op *op) {
    int c = mlir_peek(reader);
    if (c == ':' || c == '}' || c == 0)
        return true;
    if (c != '%' && strstr(op->name, "return") != NULL)
        return true;
    do
        if (!parse_item(reader, op))
            return false;
    while (mlir_accept(reader, ","));
    return true;
}

static const struct mlir_type *type_of(const struct mlir_reader *reader, const struct mlir_op *op,
                                       int operand) {
    return reader->function->values[op->operands[operand]].type;
}

/* Assigns types to an op's operands and results: one for all; or P, T of a select; or one for
   each operand. */
static bool mlir_spread_types(struct mlir_reader *reader, const struct mlir_op *op, int results,
                              const struct mlir_type **types, int count,
                              struct mlir_signature *signature) {
    signature->operand_count = op->operand_count;
    signature->operands = mlir_allocate(reader, (size_t)op->operand_count + 1, sizeof *types);
    signature->results = mlir_allocate(reader, (size_t)results + 1, sizeof *types);
    if (signature->operands == NULL || signature->results == NULL)
        return false;
    bool of_parts = strcmp(op->name, "stablehlo.complex") == 0;
    for (int i = 0; i < op->operand_count; i++)
        signature->operands[i] = of_parts    ? type_of(reader, op, i)
                                 : i < count ? types[i]
                                             : types[count - 1];
    signature->result_count = results;
    for (int i = 0; i < results; i++)
        signature->results[i] = types[count - 1];
    return count <= op->operand_count || (count == 1 && op->operand_count == 0) ||
           mlir_refuse(reader,
                       "%s: %d types for %d operands; accepted: a type for each, or one for all",
                       op->name, count, op->operand_count);
}

static bool parse_pretty_types(struct mlir_reader *reader, const struct mlir_op *op, int results,
                               struct mlir_signature *signature) {
    const struct mlir_type **types = NULL;
    int count;
    const struct mlir_attr *value = mlir_attr_of(&op->attrs, "value");
    if (op->operand_count == 0 && mlir_peek(reader) != ':')
        return true;
    if (value != NULL && value->kind == MLIR_DENSE && mlir_peek(reader) != ':') {
        const struct mlir_type *type = value->literal.type;
        return mlir_spread_types(reader, op, results, &type, 1, signature) &&
               mlir_check_operands(reader, op, signature);
    }
    if (!mlir_expect(reader, ":"))
        return false;
    if (mlir_peek(reader) == '(')
        return mlir_parse_function_type(reader, signature) &&
               mlir_check_operands(reader, op, signature);
    return mlir_parse_types(reader, &types, &count) &&
           mlir_spread_types(reader, op, results, types, count, signature) &&
           mlir_check_operands(reader, op, signature);
}

/* Ops that may have pretty form, in addition to elementwise ones. */
static const char *const pretty_names[] = {
    "call",
    "func.call",
    "return",
    "func.return",
    "stablehlo.return",
    "stablehlo.custom_call",
    "stablehlo.broadcast_in_dim",
    "stablehlo.reshape",
    "stablehlo.concatenate",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
    "stablehlo.slice",
    "stablehlo.reduce",
    "stablehlo.constant",
    "arith.constant",
    "stablehlo.iota",
    "stablehlo.transpose",
    "check.expect_eq",
    "check.expect_eq_const",
    "check.expect_close",
    "check.eq",
    NULL,
};

static bool is_pretty(const struct mlir_op *op) {
    for (int i = 0; pretty_names[i] != NULL; i++)
        if (strcmp(pretty_names[i], op->name) == 0)
            return true;
    return strncmp(op->name, "stablehlo.", 10) == 0 &&
           kvmill_scalar_op_by_name(mlir_short_name(op)) != NULL;
}

/* Whether (..) and then "applies" come next: not a reduction of several operands, or one with a
   region. */
static bool is_short_reduce(const struct mlir_reader *reader) {
    struct mlir_reader ahead = *reader;
    struct error ignored = {0};
    ahead.error = &ignored;
    return mlir_accept(&ahead, "(") && mlir_skip_balanced(&ahead, '(', ')') &&
           mlir_accept(&ahead, "applies");
}

static bool is_constant(const struct mlir_op *op) {
    return strstr(op->name, ".constant") != NULL;
}

/* Whether the op has a form that is parsed here.  Another one is no error. */
static bool has_known_form(struct mlir_reader *reader, const struct mlir_op *op) {
    if (!is_pretty(op))
        return false;
    if (strcmp(op->name, "stablehlo.reduce") == 0)
        return is_short_reduce(reader);
    int c = mlir_peek(reader);
    return !is_constant(op) || c == '(' || c == '{' || mlir_next_is(reader, "dense");
}

static bool parse_known(struct mlir_reader *reader, int results, struct mlir_op *op,
                        struct mlir_signature *signature) {
    bool is_call = strstr(op->name, "call") != NULL;
    if (is_constant(op) && mlir_peek(reader) != '(')
        return parse_constant(reader, op, signature);
    bool done = is_call                                     ? parse_call(reader, op)
                : strcmp(op->name, "stablehlo.reduce") == 0 ? parse_reduce(reader, op)
                : mlir_peek(reader) == '('                  ? mlir_parse_operands(reader, op)
                                                            : parse_items(reader, op);
    if (done && mlir_accept(reader, "{"))
        done = mlir_parse_fields(reader, "}", &op->attrs);
    return done && parse_pretty_types(reader, op, results, signature);
}

bool mlir_parse_pretty(struct mlir_reader *reader, int results, struct mlir_op *op,
                       struct mlir_signature *signature) {
    struct mlir_word word = mlir_accept_word(reader);
    if (!mlir_set_op_name(reader, op, word))
        return false;
    if (has_known_form(reader, op))
        return parse_known(reader, results, op, signature);
    if (!mlir_is_op_word(word))
        return mlir_fail(reader->error, reader->file, op->at,
                         "%s is not an op; accepted: dialect.name, return, call", op->name);
    op->is_unknown = true;
    return mlir_parse_unknown(reader, results, op, signature);
}
