/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor.h"

#include "../ops/dtype.h"

int64_t tensor_count(const DLTensor *tensor) {
    int64_t count = 1;
    for (int d = 0; d < tensor->ndim; d++)
        count *= tensor->shape[d];
    return count;
}

int64_t tensor_stride(const DLTensor *tensor, int d) {
    if (tensor->strides != NULL)
        return tensor->strides[d];
    int64_t stride = 1;
    for (int e = d + 1; e < tensor->ndim; e++)
        stride *= tensor->shape[e];
    return stride;
}

bool tensor_is_dense_from(const DLTensor *tensor, int from) {
    int64_t expected = 1;
    if (tensor->strides == NULL)
        return true;
    for (int d = tensor->ndim - 1; d >= from; d--) {
        if (tensor->shape[d] != 1 && tensor->strides[d] != expected)
            return false;
        expected *= tensor->shape[d];
    }
    return true;
}

/* ---- Overlap inside one tensor ---- */

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

/* Elements spanned by all dims whose steps are smaller than that of dim d; a dim of equal step
   counts too, so that two of them are found out. */
static int64_t span_below(const DLTensor *tensor, int d) {
    int64_t span = 1, step = magnitude(tensor->strides[d]);
    for (int e = 0; e < tensor->ndim; e++)
        if (e != d && magnitude(tensor->strides[e]) <= step)
            span += (tensor->shape[e] - 1) * magnitude(tensor->strides[e]);
    return span;
}

bool tensor_is_injective(const DLTensor *tensor) {
    if (tensor->strides == NULL || tensor_count(tensor) == 0)
        return true;
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] > 1 && magnitude(tensor->strides[d]) < span_below(tensor, d))
            return false;
    return true;
}

/* ---- Folding ---- */

static struct kvmill_row_strides dense_strides(const DLTensor *tensor, int axis) {
    struct kvmill_row_strides strides = {.row = 1};
    for (int d = tensor->ndim - 1; d > axis; d--)
        strides.row *= tensor->shape[d];
    strides.head = strides.row * tensor->shape[axis];
    strides.batch = strides.head;
    for (int d = axis - 1; d > 0; d--)
        strides.batch *= tensor->shape[d];
    return strides;
}

/* One step that walks dims [1, axis) in order; 0 when there is nothing to walk. */
static bool fold_heads(const DLTensor *tensor, int axis, int64_t *step) {
    int64_t expected = 0;
    *step = 0;
    for (int d = axis - 1; d > 0; d--) {
        if (tensor->shape[d] == 1)
            continue;
        if (*step == 0)
            *step = expected = tensor->strides[d];
        if (tensor->strides[d] != expected)
            return false;
        expected *= tensor->shape[d];
    }
    return true;
}

bool tensor_fold_strides(const DLTensor *tensor, int axis, struct kvmill_row_strides *strides) {
    if (tensor->strides == NULL) {
        *strides = dense_strides(tensor, axis);
        return true;
    }
    strides->batch = tensor->strides[0];
    strides->row = tensor->strides[axis];
    return tensor_is_dense_from(tensor, axis + 1) && fold_heads(tensor, axis, &strides->head);
}

/* ---- Overlap of two tensors ---- */

bool tensor_is_same_memory(const DLTensor *a, const DLTensor *b) {
    if (tensor_data(a) != tensor_data(b) || a->ndim != b->ndim)
        return false;
    if (a->strides == NULL && b->strides == NULL)
        return true;
    for (int d = 0; d < a->ndim; d++)
        if (a->shape[d] != 1 && tensor_stride(a, d) != tensor_stride(b, d))
            return false;
    return true;
}

struct range {
    uintptr_t begin, end;
};

static struct range memory_range(const DLTensor *tensor) {
    int64_t lowest = 0, highest = 0, count = tensor_count(tensor);
    uintptr_t data = (uintptr_t)tensor_data(tensor);
    if (count == 0)
        return (struct range){data, data};
    if (tensor->strides == NULL)
        return (struct range){data, data + (uintptr_t)kvmill_dtype_bytes(tensor->dtype, count)};
    for (int d = 0; d < tensor->ndim; d++) {
        int64_t reach = (tensor->shape[d] - 1) * tensor->strides[d];
        *(reach < 0 ? &lowest : &highest) += reach;
    }
    return (struct range){
        .begin = data - (uintptr_t)kvmill_dtype_bytes(tensor->dtype, -lowest),
        .end = data + (uintptr_t)kvmill_dtype_bytes(tensor->dtype, highest + 1),
    };
}

bool tensor_overlaps(const DLTensor *a, const DLTensor *b) {
    struct range x = memory_range(a), y = memory_range(b);
    return x.begin < y.end && y.begin < x.end;
}
