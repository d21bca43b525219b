/* Running a plan: serially, in parts, and over a caller's parallel loop.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/fail.h"
#include "plan.h"

static struct call *call_of(kvmill_call *call) {
    return (struct call *)(void *)call;
}

static const struct call *const_call_of(const kvmill_call *call) {
    return (const struct call *)(const void *)call;
}

static kvmill_status begin(struct call *call, const kvmill_plan *plan,
                           const DLTensor *const *tensors, void *workspace, kvmill_error *error) {
    if (plan == NULL || tensors == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "%s is NULL", plan == NULL ? "plan" : "tensors");
    if (plan->workspace_size > 0 && workspace == NULL)
        return kvmill_fail(error, KVMILL_E_WORKSPACE, "workspace is NULL; %zu bytes are needed",
                           plan->workspace_size);
    call->plan = plan;
    call->task_count = 0;
    call->serial = 0;
    return plan->op->begin(call, tensors, error);
}

static void run_task(const struct call *call, const struct task *task, int64_t first,
                     int64_t last) {
    if (first < last)
        task->kernel->run(&call->problem, first, last);
}

static void run_all(const struct call *call) {
    for (int t = 0; t < call->task_count; t++)
        run_task(call, &call->tasks[t], 0, call->tasks[t].units);
}

static void merge(const struct call *call) {
    if (call->plan->op->merge != NULL)
        call->plan->op->merge(call);
}

kvmill_status kvmill_run(const kvmill_plan *plan, const DLTensor *const *tensors, void *workspace,
                         kvmill_error *error) {
    struct call call;
    kvmill_status status = begin(&call, plan, tensors, workspace, error);
    if (status != KVMILL_OK)
        return status;
    run_all(&call);
    merge(&call);
    return kvmill_succeed(error);
}

kvmill_status kvmill_begin(kvmill_call *call, const kvmill_plan *plan,
                           const DLTensor *const *tensors, void *workspace, kvmill_error *error) {
    if (call == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "call is NULL");
    kvmill_status status = begin(call_of(call), plan, tensors, workspace, error);
    return status == KVMILL_OK ? kvmill_succeed(error) : status;
}

int64_t kvmill_parts(const kvmill_call *opaque) {
    const struct call *call = const_call_of(opaque);
    int64_t parts = 0;
    for (int t = 0; t < call->task_count; t++)
        parts += call->tasks[t].parts;
    return call->serial && parts > 0 ? 1 : parts;
}

/* First unit of a part of a task. */
static int64_t boundary(const struct task *task, int64_t part) {
    if (part == task->parts)
        return task->units;
    return task->units * part / task->parts / task->granule * task->granule;
}

void kvmill_part(const kvmill_call *opaque, int64_t part) {
    const struct call *call = const_call_of(opaque);
    if (call->serial) {
        run_all(call);
        return;
    }
    const struct task *task = call->tasks;
    while (part >= task->parts)
        part -= task++->parts;
    run_task(call, task, boundary(task, part), boundary(task, part + 1));
}

void kvmill_merge(const kvmill_call *call) {
    merge(const_call_of(call));
}

static void part_of_call(void *context, int64_t part) {
    kvmill_part(context, part);
}

kvmill_status kvmill_run_parallel(const kvmill_plan *plan, const DLTensor *const *tensors,
                                  void *workspace, kvmill_parallel_for parallel_for, void *data,
                                  kvmill_error *error) {
    kvmill_call call;
    if (parallel_for == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "parallel_for is NULL");
    kvmill_status status = kvmill_begin(&call, plan, tensors, workspace, error);
    if (status != KVMILL_OK)
        return status;
    parallel_for(data, kvmill_parts(&call), part_of_call, &call);
    kvmill_merge(&call);
    return KVMILL_OK;
}
