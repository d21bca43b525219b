/* kvmill run for specs of stablehlo.gather and stablehlo.scatter.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "../ops/fail.h"
#include "../ops/gather.h"
#include "../spec/stablehlo.h"
#include "run_op.h"

/* Gives the array the spec's type.  Elements of fewer than 8 bits are stored one to a byte. */
static bool adopt(const char *name, const struct tensor_shape *shape, struct npy *npy,
                  struct error *error) {
    struct kvmill_shape_text have, want;
    DLDataType dtype = shape->element.dtype;
    DLTensor wanted = tensor_view(shape);
    bool narrow = dtype.bits < 8;
    if (!array_require(name, npy, error) ||
        !array_adopt(name, narrow ? kvmill_uint8 : dtype, NULL, npy, error))
        return false;
    npy->tensor.dtype = dtype;
    bool same = npy->tensor.ndim == shape->rank;
    for (int d = 0; same && d < shape->rank; d++)
        same = npy->tensor.shape[d] == shape->dims[d];
    return same ||
           fail(error, EXIT_USER, "%s: the array's shape is %s; accepted: the spec's, %s", name,
                kvmill_shape_words(&npy->tensor, &have), kvmill_shape_words(&wanted, &want));
}

static bool make(DLDataType dtype, const int64_t *dims, int rank, struct npy *npy,
                 struct error *error) {
    bool narrow = dtype.bits < 8;
    if (!npy_make(narrow ? kvmill_uint8 : dtype, dims, rank, npy, error))
        return false;
    npy->tensor.dtype = dtype;
    return true;
}

/* Makes an output, and the array for its file, which has whole bytes as elements. */
static bool make_output(DLDataType dtype, const int64_t *dims, int rank, struct arrays *arrays,
                        int at, struct error *error) {
    bool narrow = dtype.bits < 8;
    return make(dtype, dims, rank, &arrays->tensor[at], error) &&
           (!narrow || npy_make(kvmill_uint8, dims, rank, &arrays->file[at], error));
}

/* ---- Gather ---- */

static bool prepare_gather(struct spec *spec, struct arrays *arrays, struct error *error) {
    const struct gather_problem *problem = spec->gather;
    int64_t dims[KVMILL_MOST_RANK];
    struct gather_view view;
    struct kvmill_windows windows;
    kvmill_error reason;
    gather_view_make(problem, &view);
    if (kvmill_gather_check(&view.op, &windows, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
    kvmill_gather_result(&windows, dims);
    return adopt("operand", &problem->operand, &arrays->tensor[KVMILL_GATHER_OPERAND], error) &&
           adopt("start_indices", &problem->start_indices,
                 &arrays->tensor[KVMILL_GATHER_START_INDICES], error) &&
           make_output(problem->operand.element.dtype, dims, windows.windowed_rank, arrays,
                       KVMILL_GATHER_RESULT, error);
}

static kvmill_status plan_gather_spec(const struct spec *spec, const struct arrays *arrays,
                                 const kvmill_plan_options *options, kvmill_plan **plan,
                                 kvmill_error *reason) {
    struct gather_view view;
    (void)arrays;
    gather_view_make(spec->gather, &view);
    return kvmill_plan_gather(&view.op, options, plan, reason);
}

const struct run_op gather_run = {
    .tensors = KVMILL_GATHER_TENSORS,
    .prepare = prepare_gather,
    .plan = plan_gather_spec,
};

/* ---- Scatter ---- */

static enum kvmill_scatter_list list_of(const struct spec *spec, int tensor) {
    return kvmill_scatter_list_of(tensor, spec->window_scatter->count);
}

static int number_of(const struct spec *spec, int tensor) {
    return tensor - kvmill_scatter_list_at(list_of(spec, tensor), spec->window_scatter->count);
}

/* Returns "inputs", or "inputs0", "inputs1", ... if there are several. */
static const char *scatter_name(const struct spec *spec, int tensor) {
    static const char *const lists[] = {[KVMILL_SCATTER_INPUTS] = "inputs",
                                        [KVMILL_SCATTER_INDICES] = "scatter_indices",
                                        [KVMILL_SCATTER_UPDATES] = "updates",
                                        [KVMILL_SCATTER_RESULTS] = "results",
                                        [KVMILL_SCATTER_CAPTURES] = "capture"};
    static char names[KVMILL_MOST_SCATTER_TENSORS][24];
    enum kvmill_scatter_list list = list_of(spec, tensor);
    bool has_number = list != KVMILL_SCATTER_INDICES &&
                      (spec->window_scatter->count > 1 || list == KVMILL_SCATTER_CAPTURES);
    if (!has_number)
        return lists[list];
    snprintf(names[tensor], sizeof names[tensor], "%s%d", lists[list], number_of(spec, tensor));
    return names[tensor];
}

static bool is_result(const struct spec *spec, int tensor) {
    return list_of(spec, tensor) == KVMILL_SCATTER_RESULTS;
}

static bool is_there(const struct spec *spec, int tensor) {
    return list_of(spec, tensor) != KVMILL_SCATTER_CAPTURES ||
           number_of(spec, tensor) < spec->window_scatter->capture_count;
}

static const char *scatter_input(const struct spec *spec, int tensor) {
    return is_there(spec, tensor) && !is_result(spec, tensor) ? scatter_name(spec, tensor) : NULL;
}

static const char *scatter_output(const struct spec *spec, int tensor) {
    return is_result(spec, tensor) ? scatter_name(spec, tensor) : NULL;
}

static struct tensor_shape shape_of(const struct spec *spec, const struct kvmill_program *program,
                                    int tensor) {
    const struct scatter_problem *problem = spec->window_scatter;
    int i = number_of(spec, tensor);
    struct tensor_shape shape = {.rank = 0};
    switch (list_of(spec, tensor)) {
    case KVMILL_SCATTER_INPUTS:
        return problem->inputs[i];
    case KVMILL_SCATTER_INDICES:
        return problem->scatter_indices;
    case KVMILL_SCATTER_UPDATES:
        return problem->updates[i];
    case KVMILL_SCATTER_RESULTS:
        shape = problem->inputs[i];
        shape.element = program->type[program->result[i]];
        return shape;
    default:
        shape.element = kvmill_program_capture(program, i);
        return shape;
    }
}

static bool prepare_scatter(struct spec *spec, struct arrays *arrays, struct error *error) {
    struct scatter_view view;
    struct kvmill_windows windows;
    struct kvmill_program program;
    kvmill_error reason;
    scatter_view_make(spec->window_scatter, &view);
    if (kvmill_scatter_check(&view.op, &windows, &program, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
    for (int i = 0; is_there(spec, i); i++) {
        struct tensor_shape shape = shape_of(spec, &program, i);
        bool done = is_result(spec, i)
                        ? make_output(shape.element.dtype, shape.dims, shape.rank, arrays, i, error)
                        : adopt(scatter_name(spec, i), &shape, &arrays->tensor[i], error);
        if (!done)
            return false;
    }
    return true;
}

static kvmill_status plan_scatter_spec(const struct spec *spec, const struct arrays *arrays,
                                  const kvmill_plan_options *options, kvmill_plan **plan,
                                  kvmill_error *reason) {
    struct scatter_view view;
    (void)arrays;
    scatter_view_make(spec->window_scatter, &view);
    return kvmill_plan_scatter(&view.op, options, plan, reason);
}

const struct run_op scatter_run = {
    .tensors = KVMILL_MOST_SCATTER_TENSORS,
    .input = scatter_input,
    .output = scatter_output,
    .prepare = prepare_scatter,
    .plan = plan_scatter_spec,
};
