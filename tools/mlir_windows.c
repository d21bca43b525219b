/* Runs gathers and scatters of StableHLO text, also slices and updates, by the library.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../import/stablehlo/stablehlo_import.h"
#include "../ops/fail.h"
#include "../ops/scatter.h"
#include "mlir_eval.h"
#include "run_threads.h"

static DLTensor tensor_of(const struct array *array) {
    DLTensor tensor = tensor_view(&array->shape);
    tensor.data = array->data;
    return tensor;
}

static bool library_failed(struct evaluation *evaluation, const struct mlir_op *op,
                           kvmill_status status, const kvmill_error *reason) {
    eval_fail(evaluation, op, "%s: %s", kvmill_status_name(status), reason->message);
    evaluation->error->exit_code = kvmill_is_of_system(status) ? EXIT_ENVIRONMENT : EXIT_USER;
    return false;
}

/* Returns the reason why a plan runs a portable kernel, from "(" on, or NULL if it does not. */
static const char *portable_reason(const char *description) {
    const char *gather = strstr(description, "__portable (");
    const char *scatter = strstr(description, "the portable kernel (");
    return gather ? strchr(gather, '(') : scatter ? strchr(scatter, '(') : NULL;
}

static void count_window(struct evaluation *evaluation, const struct mlir_op *op,
                         const kvmill_plan *plan) {
    char description[4096], words[sizeof evaluation->by_portable[0]];
    kvmill_plan_describe(plan, description, sizeof description);
    const char *reason = portable_reason(description);
    evaluation->windows++;
    if (reason == NULL)
        return;
    evaluation->portables++;
    snprintf(words, sizeof words, "%s %.*s)", op->name, (int)strcspn(reason, ")"), reason);
    int i = 0;
    while (i < MOST_PORTABLE - 1 && evaluation->by_portable[i][0] != '\0' &&
           strcmp(evaluation->by_portable[i], words) != 0)
        i++;
    strcpy(evaluation->by_portable[i], words);
}

/* Runs and destroys the plan, if planning succeeded. */
static bool run_plan(struct evaluation *evaluation, const struct mlir_op *op, kvmill_status status,
                     kvmill_plan *plan, const DLTensor *const *tensors, kvmill_error *reason) {
    if (status == KVMILL_OK)
        count_window(evaluation, op, plan);
    if (status == KVMILL_OK)
        status = run_on_threads(plan, evaluation->threads, tensors, NULL, reason);
    kvmill_plan_destroy(plan);
    return status == KVMILL_OK || library_failed(evaluation, op, status, reason);
}

static kvmill_plan_options options_of(const struct evaluation *evaluation) {
    return (kvmill_plan_options){.struct_size = sizeof(kvmill_plan_options),
                                 .packs = &evaluation->pack,
                                 .pack_count = evaluation->pack != NULL,
                                 .portable = evaluation->portable,
                                 .threads = evaluation->threads};
}

/* ---- Starts of slices and updates ---- */

/* The window of a dynamic_slice or dynamic_update_slice. */
struct moving_window {
    const int64_t *dims, *window; /* of the whole, and of the window */
    const struct axes *moving;
    const struct tensor_shape *starts; /* an index vector: one start for each axis that moves */
    int first;                         /* the operand with the first start */
};

/* The start of the window along axis d: the nearest one with which it is inside. */
static int64_t clamped_start(const struct frame *frame, const struct mlir_op *op,
                             const struct moving_window *window, int64_t d) {
    const struct array *start = operand_of(frame, op, window->first + (int)d);
    DLDataType type = start->shape.element.dtype;
    uint64_t value = kvmill_integer_of(type, array_get(start, 0).word[0]);
    int64_t most = window->dims[d] - window->window[d];
    if (type.code == kDLInt && (int64_t)value < 0)
        return 0;
    return value > (uint64_t)most ? most : (int64_t)value;
}

/* Returns an array with the index vector, or NULL after a message. */
static struct array *make_starts(struct evaluation *evaluation, const struct frame *frame,
                                 const struct mlir_op *op, const struct moving_window *window) {
    struct array *starts = array_make(evaluation, op, window->starts);
    for (int k = 0; starts != NULL && k < window->moving->count; k++) {
        int64_t start = clamped_start(frame, op, window, window->moving->items[k]);
        array_set(starts, k, (struct kvmill_scalar){{(uint64_t)start, 0}});
    }
    return starts;
}

/* ---- Gathers ---- */

static bool plan_and_gather(struct evaluation *evaluation, const struct mlir_op *op,
                            const struct gather_problem *problem, const struct array *from,
                            const struct array *starts, const struct array *result) {
    struct gather_view view;
    kvmill_error reason;
    kvmill_plan *plan = NULL;
    gather_view_make(problem, &view);
    DLTensor operand = tensor_of(from), indices = tensor_of(starts), output = tensor_of(result);
    const DLTensor *tensors[] = {&operand, &indices, &output};
    kvmill_plan_options options = options_of(evaluation);
    kvmill_status status = kvmill_plan_gather(&view.op, &options, &plan, &reason);
    return run_plan(evaluation, op, status, plan, tensors, &reason);
}

static bool eval_slice(struct evaluation *evaluation, struct frame *frame,
                       const struct mlir_op *op) {
    struct gather_problem problem;
    if (!gather_of_mlir(evaluation->file, frame->function, op, &problem, evaluation->error))
        return false;
    const struct moving_window window = {problem.operand.dims, problem.slice_sizes.items,
                                         &problem.start_index_map, &problem.start_indices,
                                         MLIR_SLICE_STARTS};
    struct array *result = result_of(evaluation, frame, op);
    struct array *starts = result ? make_starts(evaluation, frame, op, &window) : NULL;
    bool done = starts != NULL &&
                plan_and_gather(evaluation, op, &problem, operand_of(frame, op, 0), starts, result);
    array_release(evaluation, starts);
    return done;
}

static bool eval_gather(struct evaluation *evaluation, struct frame *frame,
                        const struct mlir_op *op) {
    struct gather_problem problem;
    if (!gather_of_mlir(evaluation->file, frame->function, op, &problem, evaluation->error) ||
        !gather_require_slices(evaluation->file, op, &problem, evaluation->error))
        return false;
    struct array *result = result_of(evaluation, frame, op);
    return result != NULL && plan_and_gather(evaluation, op, &problem, operand_of(frame, op, 0),
                                             operand_of(frame, op, 1), result);
}

/* ---- Scatters ---- */

/* The state of a running scatter.  It is too large for the stack. */
struct scattering {
    struct array *starts; /* of an update */
    struct scatter_problem problem;
    struct scatter_view view;
    DLTensor tensor[KVMILL_MOST_SCATTER_TENSORS];
    const DLTensor *tensors[KVMILL_MOST_SCATTER_TENSORS];
};

static struct array *make_result(struct evaluation *evaluation, struct frame *frame,
                                 const struct mlir_op *op, const struct scatter_problem *problem,
                                 int i) {
    return frame->values[op->first_result + i] = array_make(evaluation, op, &problem->results[i]);
}

/* Sets the starts of an update. */
static bool set_starts(struct evaluation *evaluation, struct frame *frame, const struct mlir_op *op,
                       struct scattering *work) {
    const struct scatter_problem *problem = &work->problem;
    const struct moving_window window = {problem->inputs[0].dims, problem->updates[0].dims,
                                         &problem->scatter_dims_to_operand_dims,
                                         &problem->scatter_indices, MLIR_UPDATE_STARTS};
    work->starts = make_starts(evaluation, frame, op, &window);
    return work->starts != NULL;
}

/* Returns the array for tensor i of a scatter: inputs, indices, updates. */
static const struct array *input_of(const struct frame *frame, const struct mlir_op *op,
                                    const struct scattering *work, int i) {
    static const int update_operands[] = {0, -1, 1};
    if (!is_mlir_update(op))
        return operand_of(frame, op, i);
    return update_operands[i] < 0 ? work->starts : operand_of(frame, op, update_operands[i]);
}

static bool set_tensors(struct evaluation *evaluation, struct frame *frame,
                        const struct mlir_op *op, struct scattering *work) {
    int n = work->problem.count, captures = work->problem.capture_count;
    int result_at = kvmill_scatter_list_at(KVMILL_SCATTER_RESULTS, n);
    int capture_at = kvmill_scatter_list_at(KVMILL_SCATTER_CAPTURES, n);
    for (int i = 0; i < 2 * n + 1; i++)
        work->tensor[i] = tensor_of(input_of(frame, op, work, i));
    for (int i = 0; i < n; i++) {
        struct array *result = make_result(evaluation, frame, op, &work->problem, i);
        if (result == NULL)
            return false;
        work->tensor[result_at + i] = tensor_of(result);
    }
    for (int i = 0; i < captures; i++)
        work->tensor[capture_at + i] = tensor_of(frame->values[work->problem.captured[i]]);
    for (int i = 0; i < capture_at + captures; i++)
        work->tensors[i] = &work->tensor[i];
    return true;
}

static bool run_scatter(struct evaluation *evaluation, struct frame *frame,
                        const struct mlir_op *op, struct scattering *work) {
    kvmill_error reason;
    kvmill_plan *plan = NULL;
    if (!scatter_of_mlir(evaluation->file, frame->function, op, &work->problem,
                         evaluation->error) ||
        (is_mlir_update(op) && !set_starts(evaluation, frame, op, work)) ||
        !set_tensors(evaluation, frame, op, work))
        return false;
    scatter_view_make(&work->problem, &work->view);
    work->view.op.window_out_of_bounds = evaluation->window_out_of_bounds;
    kvmill_plan_options options = options_of(evaluation);
    kvmill_status status = kvmill_plan_scatter(&work->view.op, &options, &plan, &reason);
    return run_plan(evaluation, op, status, plan, work->tensors, &reason);
}

static bool eval_scatter(struct evaluation *evaluation, struct frame *frame,
                         const struct mlir_op *op) {
    struct scattering *work = calloc(1, sizeof *work);
    bool done = work != NULL || fail(evaluation->error, EXIT_ENVIRONMENT, "%s: out of memory",
                                     evaluation->file->name);
    done = done && run_scatter(evaluation, frame, op, work);
    if (work != NULL)
        array_release(evaluation, work->starts);
    free(work);
    return done;
}

const struct evaluator *window_evaluator(const char *name) {
    static const struct evaluator evaluators[] = {
        {"gather", -1, eval_gather},
        {"dynamic_gather", -1, eval_gather},
        {"scatter", -1, eval_scatter},
        {"dynamic_slice", -1, eval_slice},
        {"dynamic_update_slice", -1, eval_scatter},
    };
    for (size_t i = 0; i < sizeof evaluators / sizeof *evaluators; i++)
        if (strcmp(evaluators[i].name, name) == 0)
            return &evaluators[i];
    return NULL;
}
