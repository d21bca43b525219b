/* Runs gathers and scatters of StableHLO text by the library.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static bool eval_gather(struct evaluation *evaluation, struct frame *frame,
                        const struct mlir_op *op) {
    struct gather_problem problem;
    struct gather_view view;
    kvmill_error reason;
    kvmill_plan *plan = NULL;
    if (!gather_of_mlir(evaluation->file, frame->function, op, &problem, evaluation->error) ||
        !gather_require_slices(evaluation->file, op, &problem, evaluation->error))
        return false;
    struct array *result = result_of(evaluation, frame, op);
    if (result == NULL)
        return false;
    gather_view_make(&problem, &view);
    DLTensor operand = tensor_of(operand_of(frame, op, 0));
    DLTensor indices = tensor_of(operand_of(frame, op, 1)), output = tensor_of(result);
    const DLTensor *tensors[] = {&operand, &indices, &output};
    kvmill_plan_options options = options_of(evaluation);
    kvmill_status status = kvmill_plan_gather(&view.op, &options, &plan, &reason);
    return run_plan(evaluation, op, status, plan, tensors, &reason);
}

/* The state of a running scatter.  It is too large for the stack. */
struct scattering {
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

static bool set_tensors(struct evaluation *evaluation, struct frame *frame,
                        const struct mlir_op *op, struct scattering *work) {
    int n = work->problem.count, captures = work->problem.capture_count;
    int result_at = kvmill_scatter_list_at(KVMILL_SCATTER_RESULTS, n);
    int capture_at = kvmill_scatter_list_at(KVMILL_SCATTER_CAPTURES, n);
    for (int i = 0; i < op->operand_count; i++)
        work->tensor[i] = tensor_of(operand_of(frame, op, i));
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
    free(work);
    return done;
}

const struct evaluator *window_evaluator(const char *name) {
    static const struct evaluator evaluators[] = {
        {"gather", -1, eval_gather},
        {"dynamic_gather", -1, eval_gather},
        {"scatter", -1, eval_scatter},
    };
    for (size_t i = 0; i < sizeof evaluators / sizeof *evaluators; i++)
        if (strcmp(evaluators[i].name, name) == 0)
            return &evaluators[i];
    return NULL;
}
