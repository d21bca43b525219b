/* Ops of StableHLO text, in generic form; mlir_pretty.c has the others.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "mlir_reader.h"

enum { MOST_RESULTS = 1 << 16 };

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
        if (values < 1 || values > MOST_RESULTS)
            return mlir_refuse(reader, "%lld results; accepted: 1 to %d", (long long)values,
                               (int)MOST_RESULTS);
        definitions->items[i].values = (int)values;
        definitions->values += (int)values;
        definitions->count++;
    } while (mlir_accept(reader, ","));
    return mlir_expect(reader, "=");
}

static bool add_results(struct mlir_reader *reader, const struct definitions *definitions,
                        struct mlir_op *op, const struct mlir_signature *signature) {
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

static bool parse_generic(struct mlir_reader *reader, struct mlir_op *op,
                          struct mlir_signature *signature) {
    struct mlir_word word;
    if (!mlir_accept_string(reader, &word) || !mlir_set_op_name(reader, op, word) ||
        !mlir_parse_operands(reader, op) ||
        (mlir_accept(reader, "[") && !mlir_skip_balanced(reader, '[', ']'))) /* other blocks */
        return false;
    if (mlir_accept(reader, "<") &&
        (!mlir_expect(reader, "{") || !mlir_parse_fields(reader, "}", &op->attrs) ||
         !mlir_expect(reader, ">")))
        return false;
    if (mlir_accept(reader, "(") && !mlir_parse_regions(reader, op))
        return false;
    if (mlir_accept(reader, "{") && !mlir_parse_fields(reader, "}", &op->attrs))
        return false;
    return mlir_expect(reader, ":") && mlir_parse_function_type(reader, signature) &&
           mlir_check_operands(reader, op, signature);
}

/* ---- All ops ---- */

bool mlir_parse_op(struct mlir_reader *reader, struct mlir_block *block) {
    struct definitions definitions;
    struct mlir_signature signature = {0};
    struct mlir_op *op = mlir_allocate(reader, 1, sizeof *op);
    mlir_skip(reader);
    size_t begin = reader->at;
    if (op == NULL || !parse_definitions(reader, &definitions))
        return false;
    mlir_skip(reader);
    op->begin = begin;
    op->at = reader->at;
    bool done = mlir_peek(reader) == '"'
                    ? parse_generic(reader, op, &signature)
                    : mlir_parse_pretty(reader, definitions.values, op, &signature);
    if (!done || !add_results(reader, &definitions, op, &signature))
        return false;
    op->operand_types = signature.operands;
    *(block->last ? &block->last->next : &block->first) = op;
    block->last = op;
    return mlir_skip_location(reader);
}
