/* Whether the tensors of a run are those a TensorScatter plan was made for.

   SPDX-License-Identifier: Apache-2.0 */
#include "tensor_scatter.h"

#include "../ops/dtype.h"
#include "../ops/fail.h"

static const int64_t *past_dims(const struct tensor_scatter_plan *plan) {
    return plan->dims;
}

static const int64_t *update_dims(const struct tensor_scatter_plan *plan) {
    return plan->dims + plan->rank;
}

static bool fits_indices(const struct tensor_scatter_plan *plan, const DLTensor *indices,
                         int64_t batch) {
    if (indices == NULL || !plan->has_indices)
        return indices == NULL && !plan->has_indices;
    return indices->ndim == 1 && indices->shape[0] == batch &&
           kvmill_dtype_equal(indices->dtype, (DLDataType){kDLInt, 64, 1});
}

static bool is_dense_of(const struct tensor_scatter_plan *plan, const DLTensor *tensor,
                        const int64_t *dims) {
    return tensor->ndim == plan->rank && kvmill_dtype_equal(tensor->dtype, plan->dtype) &&
           tensor->strides == NULL &&
           memcmp(tensor->shape, dims, (size_t)plan->rank * sizeof *dims) == 0;
}

bool kvmill_tensor_scatter_is_as_prepared(const struct tensor_scatter_plan *plan,
                                          const DLTensor *const *tensors) {
    const DLTensor *past = tensors[KVMILL_PAST_CACHE], *present = tensors[KVMILL_PRESENT_CACHE];
    const DLTensor *indices = tensors[KVMILL_WRITE_INDICES];
    return plan->is_prepared && (indices == NULL || indices->strides == NULL) &&
           is_dense_of(plan, past, past_dims(plan)) &&
           is_dense_of(plan, tensors[KVMILL_UPDATE], update_dims(plan)) &&
           (past == present || is_dense_of(plan, present, past_dims(plan))) &&
           fits_indices(plan, indices, past->shape[0]);
}

static bool fits_dims(const DLTensor *tensor, const int64_t *planned) {
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] < 0 ||
            (planned[d] != KVMILL_DYNAMIC && tensor->shape[d] != planned[d]))
            return false;
    return true;
}

static bool equal_dims_but(const DLTensor *a, const DLTensor *b, int except) {
    for (int d = 0; d < a->ndim; d++)
        if (d != except && a->shape[d] != b->shape[d])
            return false;
    return true;
}

static bool fits_type(const struct tensor_scatter_plan *plan, const DLTensor *tensor) {
    return tensor->ndim == plan->rank && kvmill_dtype_equal(tensor->dtype, plan->dtype);
}

bool kvmill_tensor_scatter_fits(const struct tensor_scatter_plan *plan,
                                const DLTensor *const *tensors) {
    const DLTensor *past = tensors[KVMILL_PAST_CACHE], *update = tensors[KVMILL_UPDATE];
    const DLTensor *present = tensors[KVMILL_PRESENT_CACHE];
    int axis = plan->geometry.axis;
    return fits_type(plan, past) && fits_type(plan, update) && fits_type(plan, present) &&
           fits_dims(past, past_dims(plan)) && fits_dims(update, update_dims(plan)) &&
           equal_dims_but(update, past, axis) && equal_dims_but(present, past, -1) &&
           update->shape[axis] <= past->shape[axis] &&
           fits_indices(plan, tensors[KVMILL_WRITE_INDICES], past->shape[0]);
}

static kvmill_status refuse_dims(const struct tensor_scatter_plan *plan, const DLTensor *tensor,
                                 const int64_t *planned, const char *name, kvmill_error *error) {
    struct kvmill_shape_text have, want;
    DLTensor wanted = {.ndim = plan->rank, .shape = (int64_t *)planned};
    return kvmill_fail(error, KVMILL_E_SHAPE, "%s has shape %s; the plan was made for %s", name,
                       kvmill_shape_words(tensor, &have), kvmill_shape_words(&wanted, &want));
}

const char *const kvmill_tensor_scatter_names[] = {"past_cache", "update", "write_indices",
                                                   "present_cache"};

/* A plan may leave dims open; a run may not. */
static kvmill_status refuse_open_dims(const DLTensor *const *tensors, kvmill_error *error) {
    struct kvmill_shape_text words;
    for (int i = 0; i < KVMILL_TENSOR_SCATTER_TENSORS; i++)
        for (int d = 0; tensors[i] != NULL && d < tensors[i]->ndim; d++)
            if (tensors[i]->shape[d] < 0)
                return kvmill_fail(
                    error, KVMILL_E_SHAPE, "%s has shape %s; accepted in a run: dims of 0 or more",
                    kvmill_tensor_scatter_names[i], kvmill_shape_words(tensors[i], &words));
    return KVMILL_OK;
}

/* First what the op itself forbids, then what the plan did not foresee. */
kvmill_status kvmill_tensor_scatter_refuse(const struct tensor_scatter_plan *plan,
                                           const DLTensor *const *tensors, kvmill_error *error) {
    const DLTensor *past = tensors[KVMILL_PAST_CACHE], *indices = tensors[KVMILL_WRITE_INDICES];
    kvmill_tensor_scatter op = {
        .axis = plan->geometry.axis,
        .past_cache = past,
        .update = tensors[KVMILL_UPDATE],
        .write_indices = indices,
        .present_cache = tensors[KVMILL_PRESENT_CACHE],
    };
    struct kvmill_row_geometry ignored;
    kvmill_status status = refuse_open_dims(tensors, error);
    if (status != KVMILL_OK)
        return status;
    if (past->ndim != plan->rank)
        return refuse_dims(plan, past, past_dims(plan), "past_cache", error);
    status = kvmill_tensor_scatter_check(&op, &ignored, error);
    if (status != KVMILL_OK)
        return status;
    if (!kvmill_dtype_equal(past->dtype, plan->dtype))
        return kvmill_fail(error, KVMILL_E_DTYPE,
                           "the tensors have type %s; the plan was made for %s",
                           kvmill_dtype_name(past->dtype), kvmill_dtype_name(plan->dtype));
    if ((indices != NULL) != plan->has_indices)
        return kvmill_fail(error, KVMILL_E_SHAPE, "write_indices is %s; the plan was made %s it",
                           indices ? "given" : "NULL", indices ? "without" : "with");
    if (!fits_dims(past, past_dims(plan)))
        return refuse_dims(plan, past, past_dims(plan), "past_cache", error);
    return refuse_dims(plan, tensors[KVMILL_UPDATE], update_dims(plan), "update", error);
}
