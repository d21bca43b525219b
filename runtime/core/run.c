/* Running a plan: serially, in parts, and over a caller's parallel loop.

   SPDX-License-Identifier: Apache-2.0 */
#include "../../ops/fail.h"
#include "calibration.h"
#include "plan.h"
#include "pool.h"

enum { WORKSPACE_ALIGNMENT = 64 };

/* The bytes that are worth a thread.  Two such amounts keep a thread busy for so long that waking
   another one, which takes the caller 5 microseconds, costs little. */
static const double worth_a_thread = 256 << 10;

static struct call *call_of(kvmill_call *call) {
    return (struct call *)(void *)call;
}

static const struct call *const_call_of(const kvmill_call *call) {
    return (const struct call *)(const void *)call;
}

static kvmill_status check_workspace(const kvmill_plan *plan, const void *workspace, size_t size,
                                     kvmill_error *error) {
    if (workspace == NULL)
        return kvmill_fail(error, KVMILL_E_WORKSPACE, "workspace is NULL; %zu bytes are needed",
                           plan->workspace_size);
    if ((uintptr_t)workspace % WORKSPACE_ALIGNMENT != 0)
        return kvmill_fail(error, KVMILL_E_WORKSPACE,
                           "workspace is at %p; accepted: multiples of %d", workspace,
                           (int)WORKSPACE_ALIGNMENT);
    if (size < plan->workspace_size)
        return kvmill_fail(error, KVMILL_E_WORKSPACE,
                           "workspace_size is %zu; accepted: %zu or more, as "
                           "kvmill_plan_workspace_size says",
                           size, plan->workspace_size);
    return KVMILL_OK;
}

static kvmill_status begin(struct call *call, const kvmill_plan *plan,
                           const DLTensor *const *tensors, size_t tensor_count, void *workspace,
                           size_t size, kvmill_error *error) {
    call->plan = NULL;
    if (plan == NULL || tensors == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "%s is NULL", plan == NULL ? "plan" : "tensors");
    if (tensor_count != plan->tensor_count)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "tensor_count is %zu; accepted: %zu",
                           tensor_count, plan->tensor_count);
    kvmill_status status =
        plan->workspace_size > 0 ? check_workspace(plan, workspace, size, error) : KVMILL_OK;
    if (status != KVMILL_OK)
        return status;
    call->plan = plan;
    call->workspace = workspace;
    status = plan->op->begin(call, tensors, error);
    if (status != KVMILL_OK)
        call->plan = NULL;
    return status;
}

/* Run all parts of a phase. */
static void run_phase(const struct call *call) {
    const struct plan_op *op = call->plan->op;
    if (op->all != NULL) {
        op->all(call);
        return;
    }
    int64_t parts = op->parts(call);
    for (int64_t part = 0; part < parts; part++)
        op->part(call, part);
}

kvmill_status kvmill_run(const kvmill_plan *plan, const DLTensor *const *tensors,
                         size_t tensor_count, void *workspace, kvmill_error *error) {
    return kvmill_run_sized(plan, tensors, tensor_count, workspace, SIZE_MAX, error);
}

kvmill_status kvmill_run_sized(const kvmill_plan *plan, const DLTensor *const *tensors,
                               size_t tensor_count, void *workspace, size_t workspace_size,
                               kvmill_error *error) {
    kvmill_call opaque;
    struct call *call = call_of(&opaque);
    kvmill_status status =
        begin(call, plan, tensors, tensor_count, workspace, workspace_size, error);
    if (status != KVMILL_OK)
        return status;
    do
        run_phase(call);
    while (plan->op->next(call));
    return kvmill_succeed(error);
}

kvmill_status kvmill_begin(kvmill_call *call, const kvmill_plan *plan,
                           const DLTensor *const *tensors, size_t tensor_count, void *workspace,
                           kvmill_error *error) {
    return kvmill_begin_sized(call, plan, tensors, tensor_count, workspace, SIZE_MAX, error);
}

kvmill_status kvmill_begin_sized(kvmill_call *call, const kvmill_plan *plan,
                                 const DLTensor *const *tensors, size_t tensor_count,
                                 void *workspace, size_t workspace_size, kvmill_error *error) {
    if (call == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "call is NULL");
    kvmill_status status =
        begin(call_of(call), plan, tensors, tensor_count, workspace, workspace_size, error);
    return status == KVMILL_OK ? kvmill_succeed(error) : status;
}

/* Whether the call is between a successful begin and its end. */
static bool is_running(const struct call *call) {
    return call != NULL && call->plan != NULL;
}

int64_t kvmill_parts(const kvmill_call *opaque) {
    const struct call *call = const_call_of(opaque);
    return is_running(call) ? call->plan->op->parts(call) : 0;
}

void kvmill_part(const kvmill_call *opaque, int64_t part) {
    const struct call *call = const_call_of(opaque);
    if (part >= 0 && part < kvmill_parts(opaque))
        call->plan->op->part(call, part);
}

int kvmill_next(kvmill_call *opaque) {
    struct call *call = call_of(opaque);
    bool goes_on = is_running(call) && call->plan->op->next(call);
    if (call != NULL && !goes_on)
        call->plan = NULL;
    return goes_on;
}

static void part_of_call(void *context, int64_t part) {
    kvmill_part(context, part);
}

kvmill_status kvmill_run_parallel(const kvmill_plan *plan, const DLTensor *const *tensors,
                                  size_t tensor_count, void *workspace,
                                  kvmill_parallel_for parallel_for, void *data,
                                  kvmill_error *error) {
    kvmill_call call;
    if (parallel_for == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "parallel_for is NULL");
    kvmill_status status = kvmill_begin(&call, plan, tensors, tensor_count, workspace, error);
    if (status != KVMILL_OK)
        return status;
    do
        parallel_for(data, kvmill_parts(&call), part_of_call, &call);
    while (kvmill_next(&call));
    return KVMILL_OK;
}

/* ---- On a pool ---- */

double kvmill_work(const kvmill_call *opaque) {
    const struct call *call = const_call_of(opaque);
    if (!is_running(call))
        return 0;
    const struct plan_op *op = call->plan->op;
    return op->work != NULL ? op->work(call) : (double)op->parts(call) * worth_a_thread;
}

int kvmill_threads_worth(const kvmill_call *call, const kvmill_pool *pool) {
    int threads = kvmill_pool_threads(pool), most = const_call_of(call)->plan->threads;
    double worth_one =
        kvmill_pool_sleeps(pool) ? (double)kvmill_calibration()->asleep : worth_a_thread;
    double worth = kvmill_work(call) / worth_one;
    if (most > 0 && most < threads)
        threads = most;
    return worth < threads ? (int)worth : threads;
}

static void run_phase_on(kvmill_call *call, kvmill_pool *pool) {
    int threads = kvmill_threads_worth(call, pool);
    int64_t parts = kvmill_parts(call);
    if (threads > 1 && parts > 1)
        kvmill_pool_loop(pool, threads, parts, part_of_call, call);
    else
        run_phase(call_of(call));
}

kvmill_status kvmill_run_on(const kvmill_plan *plan, kvmill_pool *pool,
                            const DLTensor *const *tensors, size_t tensor_count, void *workspace,
                            kvmill_error *error) {
    kvmill_call call;
    if (pool == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "pool is NULL");
    kvmill_status status = kvmill_begin(&call, plan, tensors, tensor_count, workspace, error);
    if (status != KVMILL_OK)
        return status;
    bool has_threads = kvmill_pool_take(pool);
    do
        if (has_threads)
            run_phase_on(&call, pool);
        else
            run_phase(call_of(&call));
    while (kvmill_next(&call));
    if (has_threads)
        kvmill_pool_give(pool);
    return KVMILL_OK;
}
