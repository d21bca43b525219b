/* Planning stablehlo.gather.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../defs/op_tables.h"
#include "../../ops/element.h"
#include "../../ops/fail.h"
#include "../../ops/gather.h"
#include "../core/calibration.h"
#include "../core/select.h"
#include "../portable/portable.h"
#include "gather_plan.h"

static bool next(struct call *call) {
    (void)call;
    return false;
}

static void destroy_gather(kvmill_plan *plan) {
    free(plan);
}

static const struct plan_op gather_op = {
    .begin = kvmill_gather_begin,
    .parts = kvmill_gather_parts,
    .part = kvmill_gather_part,
    .all = kvmill_gather_all,
    .next = next,
    .destroy = destroy_gather,
};

static void expect(struct gather_plan *plan, int which, const char *name, const DLTensor *tensor) {
    for (int d = 0; d < tensor->ndim; d++)
        plan->dims[which][d] = tensor->shape[d];
    plan->rules[which] = (struct tensor_rule){
        .name = name,
        .presence = REQUIRED,
        .type = tensor->dtype,
        .rank = tensor->ndim,
        .dims = plan->dims[which],
        .output = which == KVMILL_GATHER_RESULT,
        .stablehlo = true,
    };
}

static void set_rules(struct gather_plan *plan, const kvmill_gather *op) {
    const struct kvmill_windows *windows = &plan->facts.windows;
    int64_t dims[KVMILL_MOST_RANK];
    kvmill_gather_result(windows, dims);
    expect(plan, KVMILL_GATHER_OPERAND, "operand", op->operand);
    expect(plan, KVMILL_GATHER_START_INDICES, "start_indices", op->start_indices);
    expect(plan, KVMILL_GATHER_RESULT, "result",
           &(DLTensor){.dtype = op->operand->dtype, .ndim = windows->windowed_rank, .shape = dims});
}

static void set_fill(struct gather_plan *plan, const kvmill_gather *op) {
    DLDataType type = op->operand->dtype;
    size_t bytes = (size_t)plan->facts.element_bytes;
    if (op->fill_value != NULL)
        memcpy(plan->dense.fill, op->fill_value, bytes);
    else
        kvmill_scalar_store(type, kvmill_scalar_fill(type), plan->dense.fill);
    for (size_t i = bytes; i < sizeof plan->dense.fill; i += bytes)
        memcpy(plan->dense.fill + i, plan->dense.fill, bytes);
}

static void set_geometry(struct gather_plan *plan, const kvmill_gather *op) {
    struct kvmill_gather_steps steps;
    kvmill_gather_dense_steps(&plan->facts, &steps);
    kvmill_gather_fold(&plan->facts, &steps, &plan->dense);
    set_fill(plan, op);
}

/* The numbers for this processor.  Windows of unknown length are copied like caches. */
static void calibrate(struct gather_plan *plan) {
    const struct calibration *calibration = kvmill_calibration();
    const struct kvmill_gather_shape *shape = plan->kernel->shape;
    bool in_pieces = shape != NULL && shape->bytes == KVMILL_ANY;
    plan->dense.streams = in_pieces ? calibration->copy_streams : calibration->gather_streams;
    plan->dense.around = calibration->around;
}

static void describe(struct gather_plan *plan, const kvmill_gather *op,
                     const struct selection *selection) {
    struct kvmill_shape_text operand, indices, slices;
    DLTensor sizes = {.ndim = (int)op->slice_sizes.count,
                      .shape = (int64_t *)(uintptr_t)op->slice_sizes.items};
    snprintf(plan->base.description, sizeof plan->base.description,
             "stablehlo.gather, %s, operand %s, start_indices %s of %s, slice_sizes %s, %s: with "
             "%s (%s%s)",
             kvmill_element_word(op->operand->dtype), kvmill_shape_words(op->operand, &operand),
             kvmill_shape_words(op->start_indices, &indices),
             kvmill_element_word(op->start_indices->dtype), kvmill_shape_words(&sizes, &slices),
             plan->facts.fills ? "fill" : "clip", plan->kernel->symbol,
             plan->kernel == &kvmill_portable_gather ? "" : "pack ", selection->origin);
}

static struct gather_plan *make(const kvmill_gather *op, const struct kvmill_windows *windows,
                                const struct kernel_search *search) {
    struct gather_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return NULL;
    plan->base.op = &gather_op;
    plan->base.tensor_count = KVMILL_GATHER_TENSORS;
    kvmill_gather_facts_set(op, windows, &plan->facts);
    set_rules(plan, op);
    set_geometry(plan, op);
    struct selection selection = kvmill_select_kernel(
        search, &(struct wanted){KVMILL_GATHER, &plan->dense.shape, &kvmill_portable_gather});
    plan->kernel = selection.by_size.kernel;
    calibrate(plan);
    kvmill_need(&plan->base.needs, search, EVERY_RUN, "gather", plan->kernel);
    describe(plan, op, &selection);
    return plan;
}

kvmill_status kvmill_plan_gather(const kvmill_gather *given, const kvmill_plan_options *options,
                                 kvmill_plan **plan, kvmill_error *error) {
    struct kvmill_windows windows;
    struct kernel_search search;
    kvmill_gather op;
    struct plan_call call = {
        .part = kvmill_gather_op.parts[0], .given = given, .op = &op, .plan = plan};
    kvmill_status status = kvmill_plan_read_arguments(&call, "op", options, error);
    if (status == KVMILL_OK)
        status = kvmill_gather_check(&op, &windows, error);
    if (status == KVMILL_OK)
        status = kvmill_open_search(&call.options, &search, error);
    if (status != KVMILL_OK)
        return status;
    struct gather_plan *made = make(&op, &windows, &search);
    if (made == NULL)
        return kvmill_fail(error, KVMILL_E_MEMORY, "out of memory for a plan");
    return kvmill_plan_finish(&made->base, plan, error);
}
