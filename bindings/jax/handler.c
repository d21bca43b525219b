/* The handler that kvmill.jax registers.

   SPDX-License-Identifier: Apache-2.0 */
#include "jax_calls.h"

enum { ALIGNMENT = 64 };

static void *take_workspace(struct jax_plan *plan) {
    void *taken = NULL;
    for (int i = 0; taken == NULL && i < JAX_IDLE; i++)
        taken = __atomic_exchange_n(&plan->idle[i], NULL, __ATOMIC_ACQ_REL);
    if (taken == NULL && posix_memalign(&taken, ALIGNMENT, plan->workspace_size + ALIGNMENT) != 0)
        return NULL;
    return taken;
}

static void keep_workspace(struct jax_plan *plan, void *workspace) {
    for (int i = 0; workspace != NULL && i < JAX_IDLE; i++) {
        void *none = NULL;
        if (__atomic_compare_exchange_n(&plan->idle[i], &none, workspace, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            workspace = NULL;
    }
    free(workspace);
}

/* Replaces int32 elements by int64 in the workspace. */
static void widen(DLTensor *tensor, int64_t **next) {
    const int32_t *narrow = (const int32_t *)tensor->data;
    size_t count = jax_element_count(tensor);
    for (size_t i = 0; i < count; i++)
        (*next)[i] = narrow[i];
    tensor->data = *next;
    tensor->dtype.bits = 64;
    *next += count;
}

static kvmill_status list_tensors(const struct jax_plan *plan, const kvmill_ffi_frame *frame,
                                  char *workspace, DLTensor *tensors, const DLTensor **list,
                                  kvmill_error *error) {
    int64_t *next = (int64_t *)(void *)(workspace + plan->widened_at);
    kvmill_status status = KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < plan->operand_count; i++) {
        status = jax_view_tensor(&frame->arguments, i, &plan->operand_names[i], &tensors[i], error);
        list[plan->operands[i].index] = &tensors[i];
        if (status == KVMILL_OK && jax_is_widened(&plan->operands[i], &tensors[i]))
            widen(&tensors[i], &next);
    }
    for (int i = 0; status == KVMILL_OK && i < plan->result_count; i++) {
        DLTensor *tensor = &tensors[plan->operand_count + i];
        status = jax_view_tensor(&frame->results, i, &plan->result_names[i], tensor, error);
        list[plan->results[i].index] = tensor;
    }
    return status;
}

/* A tensor that is updated in place is an operand and a result.  If this is the operand's last use,
   XLA gives both the same memory; else the operand is copied to the result. */
static kvmill_status settle(const struct jax_plan *plan, DLTensor *tensors, kvmill_error *error) {
    for (int i = 0; i < plan->result_count; i++) {
        const DLTensor *result = &tensors[plan->operand_count + i];
        if (plan->given[i] < 0)
            continue;
        if (!kvmill_ffi_alike(&tensors[plan->given[i]], result)) {
            snprintf(error->message, sizeof error->message,
                     "result %d has another type or shape than argument %d, which it updates", i,
                     plan->given[i]);
            return KVMILL_E_SHAPE;
        }
        kvmill_ffi_copy(&tensors[plan->given[i]], result);
    }
    return KVMILL_OK;
}

/* Runs a plan on the frame's buffers.  Any thread. */
static kvmill_status jax_run(struct jax_plan *plan, const kvmill_ffi_frame *frame,
                             kvmill_error *error) {
    DLTensor tensors[2 * JAX_MOST_TENSORS];
    const DLTensor *list[KVMILL_FFI_MOST_TENSORS] = {NULL};
    char *workspace = (char *)take_workspace(plan);
    if (workspace == NULL) {
        snprintf(error->message, sizeof error->message,
                 "out of memory for a workspace of %zu bytes", plan->workspace_size);
        return KVMILL_E_MEMORY;
    }
    kvmill_status status = list_tensors(plan, frame, workspace, tensors, list, error);
    if (status == KVMILL_OK)
        status = settle(plan, tensors, error);
    if (status == KVMILL_OK)
        status = kvmill_ffi_execute(frame, plan->plan, list, workspace, error);
    keep_workspace(plan, workspace);
    return status;
}

/* ---- The handler ---- */

kvmill_ffi_error *kvmill_jax_call(kvmill_ffi_frame *frame);

kvmill_ffi_error *kvmill_jax_call(kvmill_ffi_frame *frame) {
    struct jax_plan *plan;
    kvmill_error error;
    if (kvmill_ffi_answer(frame) || frame->stage != KVMILL_FFI_EXECUTE)
        return NULL;
    kvmill_status status = jax_plan_of(frame, &plan, &error);
    if (status == KVMILL_OK)
        status = jax_run(plan, frame, &error);
    return status == KVMILL_OK ? NULL : kvmill_ffi_fail("kvmill", frame, status, &error);
}
