/* Parts of ops: names, operands, types, regions.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "mlir_reader.h"

/* ---- Names ---- */

bool mlir_is_op_word(struct mlir_word word) {
    const char *dot = word.length > 0 ? memchr(word.text, '.', word.length - 1) : NULL;
    return (dot != NULL && dot > word.text) || mlir_word_is(word, "return") ||
           mlir_word_is(word, "call");
}

bool mlir_set_op_name(struct mlir_reader *reader, struct mlir_op *op, struct mlir_word word) {
    if (word.length == 0 || word.length >= sizeof op->name)
        return mlir_refuse(reader, "no name of an op here; accepted: 1 to %zu characters",
                           sizeof op->name - 1);
    memcpy(op->name, word.text, word.length);
    return true;
}

/* ---- Operands ---- */

bool mlir_add_operand(struct mlir_reader *reader, struct mlir_op *op) {
    int i = op->operand_count;
    op->operands = mlir_grow(reader, op->operands, i, sizeof *op->operands);
    op->uses = op->operands ? mlir_grow(reader, op->uses, i, sizeof *op->uses) : NULL;
    op->operand_count += op->uses != NULL;
    return op->uses != NULL && mlir_parse_use(reader, &op->operands[i], &op->uses[i]);
}

bool mlir_parse_operands(struct mlir_reader *reader, struct mlir_op *op) {
    if (!mlir_expect(reader, "("))
        return false;
    if (mlir_accept(reader, ")"))
        return true;
    do
        if (!mlir_add_operand(reader, op))
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

bool mlir_parse_function_type(struct mlir_reader *reader, struct mlir_signature *signature) {
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

bool mlir_check_operands(struct mlir_reader *reader, const struct mlir_op *op,
                         const struct mlir_signature *signature) {
    if (op->operand_count != signature->operand_count)
        return mlir_refuse(reader, "%s: %d operands and %d operand types; accepted: equal numbers",
                           op->name, op->operand_count, signature->operand_count);
    for (int i = 0; i < op->operand_count; i++) {
        struct mlir_value *value = &reader->function->values[op->operands[i]];
        const struct mlir_type *type = signature->operands[i];
        if (value->type->is_missing)
            value->type = type;
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

/* ---- Regions ---- */

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
            !mlir_skip_location(reader) || !mlir_add_value(reader, &value, &number) ||
            !mlir_define(reader, value.name, number, 1))
            return false;
        ignored.count = 0;
        block->argument_count++;
    } while (mlir_accept(reader, ","));
    return mlir_expect(reader, ")");
}

/* Parses ^name(arguments): of a block. */
static bool parse_label(struct mlir_reader *reader, struct mlir_block *block) {
    struct mlir_word label;
    struct mlir_block other = {0};
    block->is_split = block->has_label || block->first != NULL;
    block->has_label = true;
    return mlir_accept_sigil(reader, '^', &label) &&
           (mlir_peek(reader) != '(' ||
            mlir_parse_arguments(reader, block->is_split ? &other : block)) &&
           mlir_expect(reader, ":");
}

bool mlir_parse_ops(struct mlir_reader *reader, struct mlir_block *block, const char *close) {
    while (close[0] ? !mlir_accept(reader, close) : mlir_peek(reader) != 0) {
        if (mlir_peek(reader) == 0)
            return mlir_refuse(reader, "the end of the text; accepted: ops, and %s", close);
        if (!(mlir_peek(reader) == '^' ? parse_label : reader->parse_item)(reader, block))
            return false;
    }
    return true;
}

bool mlir_parse_region(struct mlir_reader *reader, struct mlir_block *block) {
    if (!mlir_enter(reader))
        return false;
    struct mlir_scope outer = mlir_enter_scope(reader);
    if (!mlir_parse_ops(reader, block, "}"))
        return false;
    mlir_leave_scope(reader, outer);
    mlir_leave(reader);
    return true;
}

bool mlir_parse_regions(struct mlir_reader *reader, struct mlir_op *op) {
    do {
        op->regions = mlir_grow(reader, op->regions, op->region_count, sizeof *op->regions);
        if (op->regions == NULL || !mlir_expect(reader, "{") ||
            !mlir_parse_region(reader, &op->regions[op->region_count]))
            return false;
        op->region_count++;
    } while (mlir_accept(reader, ","));
    return mlir_expect(reader, ")");
}
