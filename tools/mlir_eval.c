/* Runs functions of StableHLO text, op by op.

   SPDX-License-Identifier: Apache-2.0 */
#include "mlir_eval.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST_CALL = 64 };

/* ---- Elementwise ops ---- */

static bool check_shapes(struct evaluation *evaluation, const struct frame *frame,
                         const struct mlir_op *op, const struct array *result) {
    for (int i = 0; i < op->operand_count; i++) {
        const struct array *operand = operand_of(frame, op, i);
        bool scalar = operand->shape.rank == 0; /* such as a predicate or a bound */
        bool same = operand->shape.rank == result->shape.rank &&
                    memcmp(operand->shape.dims, result->shape.dims,
                           (size_t)result->shape.rank * sizeof(int64_t)) == 0;
        if (!same && !(scalar && op->operand_count == 3))
            return eval_fail(evaluation, op,
                             "operand %d and the result differ in shape; accepted: one "
                             "shape",
                             i);
    }
    return true;
}

static bool set_comparison(struct evaluation *evaluation, const struct mlir_op *op,
                           struct kvmill_scalar_call *call) {
    const struct mlir_attr *direction = mlir_attr_of(&op->attrs, "comparison_direction");
    const struct mlir_attr *type = mlir_attr_of(&op->attrs, "compare_type");
    const char *word = direction ? mlir_comparison_word(direction) : NULL;
    const char *type_word = type ? mlir_comparison_word(type) : "";
    if (call->op->operands != 2 || call->op->signature != KVMILL_TO_BOOL)
        return true;
    call->total = type_word != NULL && strcmp(type_word, "TOTALORDER") == 0;
    return (word != NULL && kvmill_direction_by_name(word, &call->direction)) ||
           eval_fail(evaluation, op, "no comparison_direction; accepted: EQ, NE, GE, GT, LE, LT");
}

static bool apply(struct evaluation *evaluation, struct frame *frame, const struct mlir_op *op,
                  const struct kvmill_scalar_op *scalar) {
    struct kvmill_scalar_call call = {.op = scalar};
    struct kvmill_scalar operands[3];
    const char *accepted;
    struct array *result = result_of(evaluation, frame, op);
    if (result == NULL || !check_shapes(evaluation, frame, op, result) ||
        !set_comparison(evaluation, op, &call))
        return false;
    call.result = &result->shape.element;
    for (int i = 0; i < scalar->operands; i++)
        call.types[i] = &operand_of(frame, op, i)->shape.element;
    if (!kvmill_scalar_op_fits(scalar, call.types, call.result, &accepted))
        return eval_fail(evaluation, op, "types do not match; accepted: %s", accepted);
    for (int64_t k = 0; k < result->count; k++) {
        for (int i = 0; i < scalar->operands; i++) {
            const struct array *operand = operand_of(frame, op, i);
            operands[i] = array_get(operand, operand->shape.rank == 0 ? 0 : k);
        }
        array_set(result, k, kvmill_scalar_apply(&call, operands));
    }
    return true;
}

/* ---- Calls ---- */

static bool eval_block(struct evaluation *evaluation, struct frame *frame, struct array ***returned,
                       int *count);

static void release_all(struct evaluation *evaluation, struct array **arrays, int count) {
    for (int i = 0; arrays != NULL && i < count; i++)
        array_release(evaluation, arrays[i]);
    free(arrays);
}

/* Runs a function.  The caller owns the arguments, and must release the arrays in `returned`. */
static bool eval_function(struct evaluation *evaluation, const struct mlir_function *function,
                          struct array *const *arguments, struct array ***returned, int *count) {
    struct frame frame = {.function = function};
    *returned = NULL;
    *count = 0;
    frame.values = calloc((size_t)function->value_count + 1, sizeof *frame.values);
    if (frame.values == NULL)
        return fail(evaluation->error, EXIT_ENVIRONMENT, "%s: out of memory",
                    evaluation->file->name);
    for (int i = 0; i < function->body.argument_count; i++)
        frame.values[function->body.first_argument + i] = array_hold(arguments[i]);
    evaluation->depth++;
    bool done = eval_block(evaluation, &frame, returned, count);
    evaluation->depth--;
    release_all(evaluation, frame.values, function->value_count);
    return done;
}

static const struct mlir_function *find_function(const struct mlir_chunk *chunk,
                                                 struct mlir_word name) {
    for (const struct mlir_function *f = chunk->functions; f != NULL; f = f->next)
        if (f->name.length == name.length && memcmp(f->name.text, name.text, name.length) == 0)
            return f;
    return NULL;
}

static bool check_call(struct evaluation *evaluation, const struct frame *frame,
                       const struct mlir_op *op, const struct mlir_function *callee) {
    if (callee == NULL || !callee->has_body)
        return eval_fail(
            evaluation, op,
            "calls a function that does not exist; accepted: a function of this module");
    if (evaluation->depth >= DEEPEST_CALL)
        return eval_fail(evaluation, op, "calls nested too deep; accepted: %d levels",
                         (int)DEEPEST_CALL);
    bool same = callee->body.argument_count == op->operand_count &&
                callee->result_count == op->result_count;
    for (int i = 0; same && i < op->operand_count; i++)
        same = mlir_type_equal(callee->values[callee->body.first_argument + i].type,
                               frame->function->values[op->operands[i]].type);
    for (int i = 0; same && i < op->result_count; i++)
        same =
            mlir_type_equal(callee->results[i], frame->function->values[op->first_result + i].type);
    return same ||
           eval_fail(evaluation, op, "@%.*s has other types; accepted: those of the call",
                     (int)(callee->name.length < 60 ? callee->name.length : 60), callee->name.text);
}

static bool eval_call(struct evaluation *evaluation, struct frame *frame,
                      const struct mlir_op *op) {
    const struct mlir_attr *name = mlir_attr_of(&op->attrs, "callee");
    const struct mlir_function *callee =
        name && name->kind == MLIR_STRING ? find_function(evaluation->chunk, name->word) : NULL;
    struct array **arguments, **returned;
    int count;
    if (!check_call(evaluation, frame, op, callee))
        return false;
    arguments = calloc((size_t)op->operand_count + 1, sizeof *arguments);
    if (arguments == NULL)
        return fail(evaluation->error, EXIT_ENVIRONMENT, "%s: out of memory",
                    evaluation->file->name);
    for (int i = 0; i < op->operand_count; i++)
        arguments[i] = operand_of(frame, op, i);
    bool done = eval_function(evaluation, callee, arguments, &returned, &count);
    free(arguments);
    for (int i = 0; done && i < count; i++)
        frame->values[op->first_result + i] = array_hold(returned[i]);
    release_all(evaluation, returned, count);
    return done;
}

/* Runs a check that is written as a custom call.  The target's name selects the check. */
static bool eval_custom_call(struct evaluation *evaluation, struct frame *frame,
                             const struct mlir_op *op) {
    char name[32] = "";
    const struct mlir_attr *target = mlir_attr_of(&op->attrs, "callee");
    if (target == NULL)
        target = mlir_attr_of(&op->attrs, "call_target_name");
    if (target != NULL && target->word.length < sizeof name)
        memcpy(name, target->word.text, target->word.length);
    if (strncmp(name, "check.", 6) != 0)
        return eval_fail(evaluation, op,
                         "calls @%s; accepted: @check.expect_eq, @check.expect_close, "
                         "@check.eq",
                         name);
    return eval_check(evaluation, frame, op, name + 6);
}

/* ---- Ops ---- */

static const struct evaluator *evaluator_of(const char *name) {
    static const struct evaluator calls[] = {{"call", -1, eval_call},
                                             {"func.call", -1, eval_call},
                                             {"custom_call", -1, eval_custom_call}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0)
            return &calls[i];
    const struct evaluator *found = shape_evaluator(name);
    return found ? found : window_evaluator(name);
}

static bool check_counts(struct evaluation *evaluation, const struct mlir_op *op, int operands) {
    if (operands < 0 || op->operand_count == operands)
        return true;
    return eval_fail(evaluation, op, "%d operands; accepted: %d", op->operand_count, operands);
}

static bool refuse_op(struct evaluation *evaluation, const struct mlir_op *op) {
    return eval_fail(
        evaluation, op,
        "not an op that kvmill runs; accepted: gather, dynamic_gather, scatter, dynamic_slice, "
        "dynamic_update_slice, elementwise ops, constant, broadcast_in_dim, reshape, transpose, "
        "concatenate, slice, reduce, iota, call, checks");
}

static bool refuse_form(struct evaluation *evaluation, const struct mlir_op *op) {
    if (evaluator_of(mlir_short_name(op)) == NULL)
        return refuse_op(evaluation, op);
    return eval_fail(evaluation, op,
                     "not in a form that kvmill runs; accepted: constants of dense<..>, and "
                     "reductions of one operand by one op");
}

/* Counts an op's steps, from the elements that it reads.  Writes need no count: --max-memory limits
   them, or a later op reads them. */
static bool count_steps(struct evaluation *evaluation, const struct frame *frame,
                        const struct mlir_op *op) {
    enum { STEPS_OF_OP = 100 };
    int64_t steps = STEPS_OF_OP;
    for (int i = 0; i < op->operand_count; i++)
        steps += operand_of(frame, op, i)->count;
    if (steps <= evaluation->most_steps - evaluation->steps) {
        evaluation->steps += steps;
        return true;
    }
    return eval_fail(evaluation, op,
                     "the program takes more than %" PRId64 " steps; --max-steps allows more",
                     evaluation->most_steps);
}

static bool eval_op(struct evaluation *evaluation, struct frame *frame, const struct mlir_op *op) {
    const char *name = mlir_short_name(op);
    if (op->is_unknown)
        return refuse_form(evaluation, op);
    if (!count_steps(evaluation, frame, op))
        return false;
    if (strncmp(op->name, "check.", 6) == 0)
        return eval_check(evaluation, frame, op, op->name + 6);
    const struct evaluator *evaluator = evaluator_of(name);
    if (evaluator != NULL)
        return check_counts(evaluation, op, evaluator->operands) &&
               evaluator->run(evaluation, frame, op);
    const struct kvmill_scalar_op *scalar = kvmill_scalar_op_by_name(name);
    if (scalar == NULL || name == op->name)
        return refuse_op(evaluation, op);
    return check_counts(evaluation, op, scalar->operands) && apply(evaluation, frame, op, scalar);
}

static bool is_return(const struct mlir_op *op) {
    return strcmp(op->name, "return") == 0 || strcmp(op->name, "func.return") == 0;
}

static bool set_returned(struct evaluation *evaluation, const struct frame *frame,
                         const struct mlir_op *op, struct array ***returned, int *count) {
    bool same = op->operand_count == frame->function->result_count;
    for (int i = 0; same && i < op->operand_count; i++)
        same = mlir_type_equal(frame->function->values[op->operands[i]].type,
                               frame->function->results[i]);
    if (!same)
        return eval_fail(evaluation, op,
                         "returns types other than its function's; accepted: the function's");
    *returned = calloc((size_t)op->operand_count + 1, sizeof **returned);
    if (*returned == NULL)
        return fail(evaluation->error, EXIT_ENVIRONMENT, "%s: out of memory",
                    evaluation->file->name);
    *count = op->operand_count;
    for (int i = 0; i < op->operand_count; i++)
        (*returned)[i] = array_hold(operand_of(frame, op, i));
    return true;
}

static bool eval_block(struct evaluation *evaluation, struct frame *frame, struct array ***returned,
                       int *count) {
    if (frame->function->body.is_split)
        return mlir_fail(evaluation->error, evaluation->file, frame->function->at,
                         "a function of several blocks; accepted: one");
    for (const struct mlir_op *op = frame->function->body.first; op != NULL; op = op->next) {
        if (is_return(op))
            return set_returned(evaluation, frame, op, returned, count);
        if (!eval_op(evaluation, frame, op))
            return false;
    }
    return frame->function->result_count == 0 ||
           mlir_fail(evaluation->error, evaluation->file, frame->function->at,
                     "a function without return; accepted: one at its end");
}

/* ---- Files ---- */

static bool run_function(struct evaluation *evaluation, const struct mlir_function *function) {
    struct array **returned;
    int count;
    bool done = eval_function(evaluation, function, NULL, &returned, &count);
    release_all(evaluation, returned, count);
    return done;
}

static bool run_chunk(struct evaluation *evaluation, int *functions) {
    const struct mlir_function *main_function =
        find_function(evaluation->chunk, (struct mlir_word){"main", 4});
    for (const struct mlir_function *f = evaluation->chunk->functions; f != NULL; f = f->next) {
        bool runs = f->has_body && f->body.argument_count == 0 &&
                    (main_function == NULL || f == main_function);
        *functions += runs;
        if (runs && !run_function(evaluation, f))
            return false;
    }
    return true;
}

bool mlir_run(struct evaluation *evaluation) {
    int functions = 0;
    for (const struct mlir_chunk *chunk = evaluation->file->chunks; chunk; chunk = chunk->next) {
        evaluation->chunk = chunk;
        if (!run_chunk(evaluation, &functions))
            return false;
    }
    return functions > 0 ||
           fail(evaluation->error, EXIT_USER,
                "%s: no function to run; accepted: @main, or functions without arguments",
                evaluation->file->name);
}
