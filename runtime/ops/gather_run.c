/* Runs stablehlo.gather: divides the windows among parts, and calls a kernel.

   SPDX-License-Identifier: Apache-2.0 */
#include "../../ops/fail.h"
#include "../core/select.h"
#include "../core/tensor.h"
#include "../portable/portable.h"
#include "gather_plan.h"

/* The bytes of a part. */
static const int64_t part_bytes = 256 << 10;

static const struct gather_call *call_of(const struct call *call) {
    return (const struct gather_call *)(const void *)call;
}

static const struct gather_plan *plan_of(const struct gather_call *call) {
    return (const struct gather_plan *)(const void *)call->base.plan;
}

/* ---- Geometry: the plan's, or that of strides ---- */

static bool are_dense(const DLTensor *const *tensors) {
    for (int i = 0; i < KVMILL_GATHER_TENSORS; i++)
        if (!kvmill_tensor_is_dense_from(tensors[i], 0))
            return false;
    return true;
}

static void set_steps(const DLTensor *tensor, int64_t *steps) {
    for (int d = 0; d < tensor->ndim; d++)
        steps[d] = kvmill_unpacked_step(tensor, d);
}

static void fold_strides(const struct gather_call *call, struct kvmill_gather_geometry *geometry) {
    const struct gather_plan *plan = plan_of(call);
    struct kvmill_gather_steps steps;
    set_steps(call->tensors[KVMILL_GATHER_OPERAND], steps.operand);
    set_steps(call->tensors[KVMILL_GATHER_START_INDICES], steps.indices);
    set_steps(call->tensors[KVMILL_GATHER_RESULT], steps.result);
    kvmill_gather_fold(&plan->facts, &steps, geometry);
    memcpy(geometry->fill, plan->dense.fill, sizeof geometry->fill);
    geometry->streams = plan->dense.streams;
    geometry->around = plan->dense.around;
}

/* ---- Parts: ranges of units of work ---- */

static void set_work(struct gather_call *call, const struct kvmill_gather_geometry *geometry) {
    int64_t worth = geometry->result_bytes / part_bytes + 1;
    call->units = kvmill_gather_units(geometry);
    call->parts = worth < call->units ? worth : call->units;
}

static void choose(struct gather_call *call) {
    const struct gather_plan *plan = plan_of(call);
    struct kvmill_gather_geometry strided;
    call->is_dense = are_dense(call->tensors);
    call->kernel = plan->kernel;
    if (call->is_dense) {
        set_work(call, &plan->dense);
        return;
    }
    fold_strides(call, &strided);
    if (!kvmill_gather_shapes_equal(&strided.shape, &plan->dense.shape))
        call->kernel = &kvmill_portable_gather;
    set_work(call, &strided);
}

kvmill_status kvmill_gather_begin(struct call *base, const DLTensor *const *tensors,
                                  kvmill_error *error) {
    struct gather_call *call = (struct gather_call *)(void *)base;
    const struct gather_plan *plan = plan_of(call);
    const struct given_tensors given = {.rules = plan->rules,
                                        .count = KVMILL_GATHER_TENSORS,
                                        .op = "gather",
                                        .tensors = call->tensors,
                                        .error = error};
    kvmill_status status = kvmill_check_given(&given, tensors);
    if (status == KVMILL_OK)
        status = kvmill_check_overlaps(&given);
    if (status == KVMILL_OK)
        choose(call);
    return status;
}

int64_t kvmill_gather_parts(const struct call *call) {
    return call_of(call)->parts;
}

static void run_units(const struct gather_call *call, int64_t first, int64_t last) {
    struct kvmill_gather_geometry strided;
    const struct kvmill_gather_windows problem = {
        .geometry = call->is_dense ? &plan_of(call)->dense : &strided,
        .operand = tensor_data(call->tensors[KVMILL_GATHER_OPERAND]),
        .indices = tensor_data(call->tensors[KVMILL_GATHER_START_INDICES]),
        .result = tensor_data(call->tensors[KVMILL_GATHER_RESULT]),
    };
    if (!call->is_dense)
        fold_strides(call, &strided);
    call->kernel->run(&problem, first, last);
}

static int64_t boundary(const struct gather_call *call, int64_t part) {
    int64_t each = call->units / call->parts, rest = call->units % call->parts;
    return each * part + (part < rest ? part : rest);
}

void kvmill_gather_part(const struct call *base, int64_t part) {
    const struct gather_call *call = call_of(base);
    run_units(call, boundary(call, part), boundary(call, part + 1));
}

void kvmill_gather_all(const struct call *base) {
    const struct gather_call *call = call_of(base);
    if (call->units > 0)
        run_units(call, 0, call->units);
}
