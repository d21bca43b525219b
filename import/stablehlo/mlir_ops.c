/* Ops of StableHLO text: any in generic form, those around gather and scatter in pretty form.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "../../ops/scalar.h"
#include "mlir_reader.h"

/* Names of results before "=". */
struct definitions {
    int count;
    struct {
        struct mlir_word name;
        int values;
        size_t at;
    } items[64];
    int values;
};

/* The types after an op's colon. */
struct signature {
    const struct mlir_type **operands, **results;
    int operand_count, result_count;
};

static bool parse_definitions(struct mlir_reader *reader, struct definitions *definitions) {
    int64_t values;
    definitions->count = definitions->values = 0;
    if (mlir_peek(reader) != '%')
        return true;
    do {
        mlir_skip(reader);
        int i = definitions->count;
        if (i == (int)(sizeof definitions->items / sizeof *definitions->items))
            return mlir_refuse(reader, "more than %d names of results; accepted: at most that many",
                               i);
        definitions->items[i].at = reader->at;
        values = 1;
        if (!mlir_accept_sigil(reader, '%', &definitions->items[i].name) ||
            (mlir_accept(reader, ":") && !mlir_accept_integer(reader, &values)))
            return false;
        if (values < 1 || values > 1024)
            return mlir_refuse(reader, "%lld results; accepted: 1 to 1024", (long long)values);
        definitions->items[i].values = (int)values;
        definitions->values += (int)values;
        definitions->count++;
    } while (mlir_accept(reader, ","));
    return mlir_expect(reader, "=");
}

static bool add_operand(struct mlir_reader *reader, struct mlir_op *op) {
    int i = op->operand_count;
    op->operands = mlir_grow(reader, op->operands, i, sizeof *op->operands);
    op->uses = op->operands ? mlir_grow(reader, op->uses, i, sizeof *op->uses) : NULL;
    op->operand_count += op->uses != NULL;
    return op->uses != NULL && mlir_parse_use(reader, &op->operands[i], &op->uses[i]);
}

/* Parses "(", uses, ")". */
static bool parse_operands(struct mlir_reader *reader, struct mlir_op *op) {
    if (!mlir_expect(reader, "("))
        return false;
    if (mlir_accept(reader, ")"))
        return true;
    do
        if (!add_operand(reader, op))
            return false;
    while (mlir_accept(reader, ","));
    return mlir_expect(reader, ")");
}

/* ---- Types ---- */

static bool parse_type_list(struct mlir_reader *reader, const struct mlir_type ***types,
                            int *count) {
    *count = 0;
    if (mlir_accept(reader, ")"))
        return true;
    return mlir_parse_types(reader, types, count) && mlir_expect(reader, ")");
}

/* Parses (types) -> type, or -> (types). */
static bool parse_function_type(struct mlir_reader *reader, struct signature *signature) {
    if (!mlir_expect(reader, "(") ||
        !parse_type_list(reader, &signature->operands, &signature->operand_count) ||
        !mlir_expect(reader, "->"))
        return false;
    if (mlir_accept(reader, "("))
        return parse_type_list(reader, &signature->results, &signature->result_count);
    signature->results = mlir_allocate(reader, 1, sizeof *signature->results);
    signature->result_count = 1;
    return signature->results != NULL && mlir_parse_type(reader, signature->results);
}

static bool check_operands(struct mlir_reader *reader, const struct mlir_op *op,
                           const struct signature *signature) {
    if (op->operand_count != signature->operand_count)
        return mlir_refuse(reader, "%s: %d operands and %d operand types; accepted: equal numbers",
                           op->name, op->operand_count, signature->operand_count);
    for (int i = 0; i < op->operand_count; i++) {
        const struct mlir_value *value = &reader->function->values[op->operands[i]];
        const struct mlir_type *type = signature->operands[i];
        if (!mlir_type_equal(value->type, type))
            return mlir_fail(reader->error, reader->file, type->at,
                             "%s: operand %%%.*s is %.*s; accepted: the type it was defined with, "
                             "%.*s",
                             op->name, (int)(value->name.length < 40 ? value->name.length : 40),
                             value->name.text,
                             (int)(type->word.length < 80 ? type->word.length : 80),
                             type->word.text,
                             (int)(value->type->word.length < 80 ? value->type->word.length : 80),
                             value->type->word.text);
    }
    return true;
}

static bool add_results(struct mlir_reader *reader, const struct definitions *definitions,
                        struct mlir_op *op, const struct signature *signature) {
    int next = 0, number;
    if (definitions->count > 0 && definitions->values != signature->result_count)
        return mlir_refuse(reader,
                           "%s: %d results are named and its type has %d; accepted: equal numbers",
                           op->name, definitions->values, signature->result_count);
    op->result_count = signature->result_count;
    op->first_result = reader->function->value_count;
    for (int i = 0; i < signature->result_count; i++) {
        struct mlir_value value = {.at = op->at, .type = signature->results[i], .op = op};
        if (definitions->count > 0)
            value.name = definitions->items[next < definitions->count ? next : 0].name;
        if (!mlir_add_value(reader, &value, &number))
            return false;
    }
    for (number = op->first_result; next < definitions->count; next++) {
        if (!mlir_define(reader, definitions->items[next].name, number,
                         definitions->items[next].values))
            return false;
        number += definitions->items[next].values;
    }
    return true;
}

/* ---- Generic form ---- */

bool mlir_parse_arguments(struct mlir_reader *reader, struct mlir_block *block) {
    struct mlir_attr ignored = {0};
    block->first_argument = reader->function->value_count;
    if (!mlir_expect(reader, "("))
        return false;
    if (mlir_accept(reader, ")"))
        return true;
    do {
        struct mlir_value value = {0};
        int number;
        mlir_skip(reader);
        value.at = reader->at;
        if (!mlir_accept_sigil(reader, '%', &value.name) || !mlir_expect(reader, ":") ||
            !mlir_parse_type(reader, &value.type) ||
            (mlir_accept(reader, "{") && !mlir_parse_fields(reader, "}", &ignored)) ||
            (mlir_accept(reader, "loc") && mlir_expect(reader, "(") &&
             !mlir_skip_balanced(reader, '(', ')')) ||
            !mlir_add_value(reader, &value, &number) || !mlir_define(reader, value.name, number, 1))
            return false;
        ignored.count = 0;
        block->argument_count++;
    } while (mlir_accept(reader, ","));
    return mlir_expect(reader, ")");
}

/* Parses a region after its "{". */
static bool parse_region(struct mlir_reader *reader, struct mlir_block *block) {
    struct mlir_word label;
    struct mlir_name *newest = reader->newest;
    if (!mlir_enter(reader))
        return false;
    if (mlir_peek(reader) == '^' &&
        (!mlir_accept_sigil(reader, '^', &label) ||
         (mlir_peek(reader) == '(' && !mlir_parse_arguments(reader, block)) ||
         !mlir_expect(reader, ":")))
        return false;
    if (!mlir_parse_ops(reader, block, "}"))
        return false;
    mlir_forget(reader, newest);
    mlir_leave(reader);
    return true;
}

static bool parse_regions(struct mlir_reader *reader, struct mlir_op *op) {
    do {
        op->regions = mlir_grow(reader, op->regions, op->region_count, sizeof *op->regions);
        if (op->regions == NULL || !mlir_expect(reader, "{") ||
            !parse_region(reader, &op->regions[op->region_count]))
            return false;
        op->region_count++;
    } while (mlir_accept(reader, ","));
    return mlir_expect(reader, ")");
}

static bool set_name(struct mlir_reader *reader, struct mlir_op *op, struct mlir_word word) {
    if (word.length == 0 || word.length >= sizeof op->name)
        return mlir_refuse(reader, "no name of an op here; accepted: 1 to %zu characters",
                           sizeof op->name - 1);
    memcpy(op->name, word.text, word.length);
    return true;
}

static bool parse_generic(struct mlir_reader *reader, struct mlir_op *op,
                          struct signature *signature) {
    struct mlir_word word;
    if (!mlir_accept_string(reader, &word) || !set_name(reader, op, word) ||
        !parse_operands(reader, op))
        return false;
    if (mlir_accept(reader, "<") &&
        (!mlir_expect(reader, "{") || !mlir_parse_fields(reader, "}", &op->attrs) ||
         !mlir_expect(reader, ">")))
        return false;
    if (mlir_accept(reader, "(") && !parse_regions(reader, op))
        return false;
    if (mlir_accept(reader, "{") && !mlir_parse_fields(reader, "}", &op->attrs))
        return false;
    return mlir_expect(reader, ":") && parse_function_type(reader, signature) &&
           check_operands(reader, op, signature);
}

/* ---- Pretty forms ---- */

/* Adds an attribute that has no name in pretty form. */
static bool add_word(struct mlir_reader *reader, struct mlir_op *op, const char *key,
                     struct mlir_word word) {
    struct mlir_attr attr = {.kind = MLIR_STRING, .at = reader->at, .word = word};
    return mlir_add_attr(reader, &op->attrs, (struct mlir_word){key, strlen(key)}, &attr);
}

static bool add_dense(struct mlir_reader *reader, struct mlir_op *op) {
    static const char key[] = "value";
    struct mlir_attr attr = {.kind = MLIR_DENSE, .at = reader->at};
    return mlir_parse_dense(reader, &attr.literal) &&
           mlir_add_attr(reader, &op->attrs, (struct mlir_word){key, sizeof key - 1}, &attr);
}

/* Parses dense<..> : T, whose type is also the op's. */
static bool parse_constant(struct mlir_reader *reader, struct mlir_op *op,
                           struct signature *signature) {
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
    if (!mlir_expect(reader, "(") || !add_operand(reader, op) || !mlir_expect(reader, "init") ||
        !mlir_expect(reader, ":") || !add_operand(reader, op) || !mlir_expect(reader, ")") ||
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
           parse_operands(reader, op);
}

static const char *word_key(const struct mlir_op *op) {
    return mlir_attr_of(&op->attrs, "comparison_direction") ? "compare_type"
                                                            : "comparison_direction";
}

/* Parses %x | dense<..> : T | [bounds] | NAME = attr | WORD; the caller takes the commas. */
static bool parse_item(struct mlir_reader *reader, struct mlir_op *op) {
    struct mlir_attr attr = {0};
    if (mlir_peek(reader) == '%')
        return add_operand(reader, op) && (!mlir_accept(reader, "[") || parse_bounds(reader, op));
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

/* Assigns types to operands and results: one type for all; or P, T of a select; or one type per
   operand. */
static bool spread_types(struct mlir_reader *reader, const struct mlir_op *op, int results,
                         const struct mlir_type **types, int count, struct signature *signature) {
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
                               struct signature *signature) {
    const struct mlir_type **types = NULL;
    int count;
    const struct mlir_attr *value = mlir_attr_of(&op->attrs, "value");
    if (op->operand_count == 0 && mlir_peek(reader) != ':')
        return true;
    if (value != NULL && value->kind == MLIR_DENSE && mlir_peek(reader) != ':') {
        const struct mlir_type *type = value->literal.type;
        return spread_types(reader, op, results, &type, 1, signature) &&
               check_operands(reader, op, signature);
    }
    if (!mlir_expect(reader, ":"))
        return false;
    if (mlir_peek(reader) == '(')
        return parse_function_type(reader, signature) && check_operands(reader, op, signature);
    return mlir_parse_types(reader, &types, &count) &&
           spread_types(reader, op, results, types, count, signature) &&
           check_operands(reader, op, signature);
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

static bool parse_pretty(struct mlir_reader *reader, int results, struct mlir_op *op,
                         struct signature *signature) {
    if (!set_name(reader, op, mlir_accept_word(reader)))
        return false;
    if (!is_pretty(op))
        return mlir_fail(reader->error, reader->file, op->at,
                         "%s is not understood in this form; accepted: elementwise ops, constant, "
                         "broadcast_in_dim, reshape, concatenate, slice, reduce, iota, transpose, "
                         "call, custom_call, return, check.expect_eq, check.expect_eq_const, "
                         "check.expect_close, and any op as \"name\"(..)",
                         op->name);
    bool is_call = strstr(op->name, "call") != NULL;
    if (strstr(op->name, ".constant") != NULL && mlir_peek(reader) != '(')
        return parse_constant(reader, op, signature);
    bool done = is_call                                     ? parse_call(reader, op)
                : strcmp(op->name, "stablehlo.reduce") == 0 ? parse_reduce(reader, op)
                : mlir_peek(reader) == '('                  ? parse_operands(reader, op)
                                                            : parse_items(reader, op);
    if (done && mlir_accept(reader, "{"))
        done = mlir_parse_fields(reader, "}", &op->attrs);
    return done && parse_pretty_types(reader, op, results, signature);
}

/* ---- All ops ---- */

static bool parse_op(struct mlir_reader *reader, struct mlir_block *block) {
    struct definitions definitions;
    struct signature signature = {0};
    struct mlir_op *op = mlir_allocate(reader, 1, sizeof *op);
    mlir_skip(reader);
    size_t begin = reader->at;
    if (op == NULL || !parse_definitions(reader, &definitions))
        return false;
    mlir_skip(reader);
    op->begin = begin;
    op->at = reader->at;
    bool done = mlir_peek(reader) == '"' ? parse_generic(reader, op, &signature)
                                         : parse_pretty(reader, definitions.values, op, &signature);
    if (!done || !add_results(reader, &definitions, op, &signature))
        return false;
    op->operand_types = signature.operands;
    *(block->last ? &block->last->next : &block->first) = op;
    block->last = op;
    return !mlir_accept(reader, "loc") ||
           (mlir_expect(reader, "(") && mlir_skip_balanced(reader, '(', ')'));
}

bool mlir_parse_ops(struct mlir_reader *reader, struct mlir_block *block, const char *close) {
    while (close[0] ? !mlir_accept(reader, close) : mlir_peek(reader) != 0) {
        if (mlir_peek(reader) == 0)
            return mlir_refuse(reader, "the end of the text; accepted: ops, and %s", close);
        if (!parse_op(reader, block))
            return false;
    }
    return true;
}
