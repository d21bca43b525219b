/* Regions of scatters found in StableHLO text.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "../ops/scalar.h"
#include "stablehlo_mlir.h"

/* The state of a region's reader. */
struct region_reader {
    const struct mlir_file *file;
    const struct mlir_function *function;
    int first_argument, first_inner;
    struct scatter_problem *problem;
    struct error *error;
    int place[KVMILL_MOST_REGION_OPS]; /* the value's number that op i of the problem defines */
};

static bool add_region_op(struct region_reader *reader, const kvmill_region_op *op, int value,
                          size_t at, int32_t *number) {
    struct scatter_problem *problem = reader->problem;
    if (problem->op_count == KVMILL_MOST_REGION_OPS)
        return mlir_fail(reader->error, reader->file, at,
                         "a region of more than %d ops; accepted: at most that many",
                         (int)KVMILL_MOST_REGION_OPS);
    reader->place[problem->op_count] = value;
    *number = problem->argument_count + problem->op_count;
    problem->ops[problem->op_count++] = *op;
    return true;
}

static bool is_scalar(const struct mlir_type *type) {
    return type->is_tensor && !type->is_unranked && !type->is_unknown && type->rank == 0;
}

static bool check_scalar(struct region_reader *reader, const struct mlir_type *type, size_t at) {
    return is_scalar(type) ||
           mlir_fail(reader->error, reader->file, at,
                     "%.*s in a scatter's region; accepted: scalars, tensor<f32>",
                     mlir_word_length(type->word), type->word.text);
}

static bool add_literal(struct region_reader *reader, const struct mlir_op *op, int value,
                        int32_t *number) {
    const struct mlir_attr *constant = mlir_attr_of(&op->attrs, "value");
    const struct mlir_type *type = reader->function->values[value].type;
    if (constant == NULL || !is_scalar(type) || !mlir_is_literal_of(constant, type))
        return mlir_fail(reader->error, reader->file, op->at,
                         "a constant without a scalar; accepted: dense<1.0> : tensor<f32>");
    struct kvmill_scalar scalar = kvmill_scalar_load(type->element.dtype, constant->literal.data);
    kvmill_region_op added = {.name = "constant", .element = type->element};
    memcpy(added.value, scalar.word, sizeof added.value);
    return add_region_op(reader, &added, value, op->at, number);
}

/* Adds a scalar from outside the region: copies a constant, captures any other value. */
static bool add_capture(struct region_reader *reader, int value, size_t at, int32_t *number) {
    const struct mlir_value *outer = &reader->function->values[value];
    struct scatter_problem *problem = reader->problem;
    if (!check_scalar(reader, outer->type, at))
        return false;
    if (outer->op != NULL && strcmp(outer->op->name, "stablehlo.constant") == 0)
        return add_literal(reader, outer->op, value, number);
    if (problem->capture_count == KVMILL_MOST_CAPTURES)
        return mlir_fail(reader->error, reader->file, at,
                         "a region that captures more than %d scalars; accepted: at most that many",
                         (int)KVMILL_MOST_CAPTURES);
    kvmill_region_op added = {.name = "capture",
                              .element = outer->type->element,
                              .value = {(uint64_t)problem->capture_count}};
    problem->captured[problem->capture_count++] = value;
    return add_region_op(reader, &added, value, at, number);
}

/* Sets the problem's number of a value of the function. */
static bool number_of(struct region_reader *reader, int value, size_t at, int32_t *number) {
    struct scatter_problem *problem = reader->problem;
    int argument = value - reader->first_argument;
    if (argument >= 0 && argument < problem->argument_count) {
        *number = argument;
        return true;
    }
    for (int i = 0; i < problem->op_count; i++)
        if (reader->place[i] == value) {
            *number = problem->argument_count + i;
            return true;
        }
    return value < reader->first_inner ? add_capture(reader, value, at, number)
                                       : mlir_fail(reader->error, reader->file, at,
                                                   "a value of another region; accepted: "
                                                   "arguments, and what the region computes");
}

/* Returns the attribute's text as one of the words of ops. */
const char *mlir_comparison_word(const struct mlir_attr *attr) {
    static const char *const words[] = {"EQ", "NE",     "GE",       "GT",    "LE",
                                        "LT", "SIGNED", "UNSIGNED", "FLOAT", "TOTALORDER"};
    struct mlir_word word = attr->kind == MLIR_TYPE ? attr->type->word : attr->word;
    if (attr->kind == MLIR_OPAQUE || attr->kind == MLIR_DICT)
        return NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (mlir_word_is(word, words[i]))
            return words[i];
    return NULL;
}

static bool set_compare_words(struct region_reader *reader, const struct mlir_op *op,
                              kvmill_region_op *added) {
    const struct mlir_attr *direction = mlir_attr_of(&op->attrs, "comparison_direction");
    const struct mlir_attr *type = mlir_attr_of(&op->attrs, "compare_type");
    added->comparison_direction = direction ? mlir_comparison_word(direction) : NULL;
    added->compare_type = type ? mlir_comparison_word(type) : NULL;
    return (added->comparison_direction != NULL && (type == NULL || added->compare_type != NULL)) ||
           mlir_fail(
               reader->error, reader->file, op->at,
               "%s: no comparison_direction, or an unknown word; accepted: EQ, NE, GE, GT, LE, LT, "
               "and SIGNED, UNSIGNED, FLOAT, TOTALORDER",
               op->name);
}

static bool add_step(struct region_reader *reader, const struct mlir_op *op) {
    const struct kvmill_scalar_op *scalar = kvmill_scalar_op_by_name(mlir_short_name(op));
    int32_t number;
    if (strcmp(op->name, "stablehlo.constant") == 0)
        return add_literal(reader, op, op->first_result, &number);
    if (scalar == NULL || strncmp(op->name, "stablehlo.", 10) != 0)
        return mlir_fail(
            reader->error, reader->file, op->at,
            "%s in a scatter's region; accepted: elementwise ops, compare, select, convert, "
            "constant, return",
            op->name);
    if (op->operand_count != scalar->operands || op->result_count != 1)
        return mlir_fail(reader->error, reader->file, op->at,
                         "%s: %d operands and %d results; accepted: %d and 1", op->name,
                         op->operand_count, op->result_count, scalar->operands);
    const struct mlir_type *type = reader->function->values[op->first_result].type;
    kvmill_region_op added = {.name = scalar->name, .element = type->element};
    if (!check_scalar(reader, type, op->at))
        return false;
    for (int i = 0; i < scalar->operands; i++)
        if (!number_of(reader, op->operands[i], op->at, &added.operands[i]))
            return false;
    if (strcmp(scalar->name, "compare") == 0 && !set_compare_words(reader, op, &added))
        return false;
    return add_region_op(reader, &added, op->first_result, op->at, &number);
}

static bool is_return(const struct mlir_op *op) {
    return strcmp(op->name, "stablehlo.return") == 0;
}

static bool set_returned(struct region_reader *reader, const struct mlir_op *op) {
    struct scatter_problem *problem = reader->problem;
    if (op->operand_count > KVMILL_MOST_INPUTS)
        return mlir_fail(reader->error, reader->file, op->at,
                         "%d values returned; accepted: 1 to %d", op->operand_count,
                         (int)KVMILL_MOST_INPUTS);
    problem->return_count = op->operand_count;
    for (int i = 0; i < op->operand_count; i++)
        if (!number_of(reader, op->operands[i], op->at, &problem->returned[i]))
            return false;
    return true;
}

static bool set_arguments(struct region_reader *reader, const struct mlir_block *block, size_t at) {
    struct scatter_problem *problem = reader->problem;
    if (block->argument_count > 2 * KVMILL_MOST_INPUTS)
        return mlir_fail(reader->error, reader->file, at,
                         "a region of %d arguments; accepted: 2 to %d", block->argument_count,
                         2 * KVMILL_MOST_INPUTS);
    problem->argument_count = block->argument_count;
    for (int i = 0; i < block->argument_count; i++) {
        const struct mlir_value *value = &reader->function->values[block->first_argument + i];
        if (!is_scalar(value->type))
            return mlir_fail(
                reader->error, reader->file, value->at,
                "C23: argument %d of the region is %.*s; accepted: scalars, tensor<f32>", i,
                mlir_word_length(value->type->word), value->type->word.text);
        problem->arguments[i] = value->type->element;
    }
    return true;
}

/* Returns the last op of a block if it is a return, else NULL. */
static const struct mlir_op *return_of(const struct mlir_block *block) {
    return block->last != NULL && is_return(block->last) ? block->last : NULL;
}

/* Checks that the results are scalars with the types of the first arguments. */
static bool check_returned(struct region_reader *reader, const struct mlir_block *block,
                           const struct mlir_op *op) {
    for (int i = 0; i < op->operand_count && i < block->argument_count; i++) {
        const struct mlir_value *values = reader->function->values;
        const struct mlir_type *type = values[op->operands[i]].type;
        if (!mlir_type_equal(type, values[block->first_argument + i].type))
            return mlir_fail(
                reader->error, reader->file, op->at,
                "stablehlo.scatter: C23: the region returns %.*s; accepted: the type of its "
                "argument %d, %.*s",
                mlir_word_length(type->word), type->word.text, i,
                mlir_word_length(values[block->first_argument + i].type->word),
                values[block->first_argument + i].type->word.text);
    }
    return true;
}

bool region_of_mlir(const struct mlir_file *file, const struct mlir_function *function,
                    const struct mlir_block *block, int first_inner,
                    struct scatter_problem *problem, struct error *error) {
    struct region_reader reader = {
        .file = file,
        .function = function,
        .first_argument = block->first_argument,
        .first_inner = first_inner,
        .problem = problem,
        .error = error,
    };
    const struct mlir_op *last = return_of(block);
    size_t at = block->first ? block->first->at : 0;
    if (last == NULL)
        return mlir_fail(error, file, at,
                         "a region without stablehlo.return at its end; accepted: one");
    if (!set_arguments(&reader, block, at) || !check_returned(&reader, block, last))
        return false;
    for (const struct mlir_op *op = block->first; op != last; op = op->next)
        if (!add_step(&reader, op))
            return false;
    return set_returned(&reader, last);
}

/* ---- Regions in texts of their own ---- */

enum { CAPTURE_NAME = 24 };

/* Numbers captures as the caller lists them, including unused ones. */
static void order_captures(struct scatter_problem *problem, size_t count) {
    for (int i = 0; i < problem->op_count; i++)
        if (strcmp(problem->ops[i].name, "capture") == 0)
            problem->ops[i].value[0] = (uint64_t)problem->captured[problem->ops[i].value[0]];
    problem->capture_count = (int)count;
}

static bool check_counts(const char *name, const struct scatter_problem *problem,
                         struct error *error) {
    int n = problem->count;
    return (problem->argument_count == 2 * n && problem->return_count == n) ||
           fail(error, EXIT_USER,
                "%s: C23: has %d arguments and returns %d values; accepted for %d inputs: %d and "
                "%d",
                name, problem->argument_count, problem->return_count, n, 2 * n, n);
}

bool region_of_text(const char *name, const char *text, size_t length, const char *const *captures,
                    size_t capture_count, struct scatter_problem *problem, struct error *error) {
    char names[KVMILL_MOST_CAPTURES][CAPTURE_NAME];
    struct mlir_capture named[KVMILL_MOST_CAPTURES];
    struct mlir_file file;
    for (size_t i = 0; i < capture_count; i++) {
        snprintf(names[i], sizeof names[i], "capture%zu", i);
        named[i] = (struct mlir_capture){names[i], captures[i]};
    }
    bool done = mlir_read_region(name, text, length, named, (int)capture_count, &file, error);
    if (done) {
        const struct mlir_function *function = file.chunks->functions;
        done = region_of_mlir(&file, function, &function->body, (int)capture_count, problem, error);
    }
    mlir_free(&file);
    order_captures(problem, capture_count);
    return done && check_counts(name, problem, error);
}
