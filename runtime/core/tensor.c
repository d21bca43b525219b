/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor.h"

#include "../../defs/dtype.h"
#include "../../ops/element.h"
#include "../../ops/extent.h"

int64_t kvmill_tensor_stride(const DLTensor *tensor, int d) {
    if (tensor->strides != NULL)
        return tensor->strides[d];
    int64_t stride = 1;
    bool overflow = false; /* possible for empty tensors; no element is addressed */
    for (int e = d + 1; e < tensor->ndim; e++)
        stride = kvmill_times(stride, tensor->shape[e], &overflow);
    return stride;
}

/* bytes is 0 for elements of half a byte. */
static int64_t step_of(const DLTensor *tensor, int d, int64_t bytes) {
    bool overflow = false; /* as above */
    if (d < 0 || tensor->shape[d] <= 1)
        return 0;
    int64_t stride = kvmill_tensor_stride(tensor, d);
    return bytes == 0 ? stride / 2 : kvmill_times(stride, bytes, &overflow);
}

int64_t kvmill_tensor_step(const DLTensor *tensor, int d) {
    return step_of(tensor, d, kvmill_dtype_bits(tensor->dtype) / 8);
}

int64_t kvmill_unpacked_step(const DLTensor *tensor, int d) {
    return step_of(tensor, d, kvmill_element_bytes(tensor->dtype));
}

unsigned char *kvmill_tensor_at(const DLTensor *tensor, int d, int64_t index) {
    bool overflow = false; /* as above */
    int64_t bytes = kvmill_times(index, kvmill_tensor_step(tensor, d), &overflow);
    return (unsigned char *)((uintptr_t)tensor_data(tensor) + (uintptr_t)bytes);
}

bool kvmill_tensor_is_empty(const DLTensor *tensor) {
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] == 0)
            return true;
    return false;
}

/* What a stride is compared with if an inner dim is known only at run time. */
static const int64_t unknown_stride = INT64_MIN;

static int64_t stride_beyond(const DLTensor *tensor, int d, int64_t stride) {
    bool is_unknown = stride == unknown_stride || tensor->shape[d] < 0;
    int64_t beyond = kvmill_times(stride, tensor->shape[d], &is_unknown);
    return is_unknown ? unknown_stride : beyond;
}

bool kvmill_tensor_is_dense_from(const DLTensor *tensor, int from) {
    int64_t expected = 1;
    if (tensor->strides == NULL || kvmill_tensor_is_empty(tensor))
        return true;
    for (int d = tensor->ndim - 1; d >= from; d--) {
        if (tensor->shape[d] != 1 && tensor->strides[d] != expected)
            return false;
        expected = stride_beyond(tensor, d, expected);
    }
    return true;
}

bool kvmill_tensor_is_reachable(const DLTensor *tensor) {
    int64_t span = 0;
    bool overflow = false;
    if (tensor->strides == NULL || kvmill_tensor_is_empty(tensor))
        return true;
    for (int d = 0; d < tensor->ndim; d++) {
        int64_t reach = kvmill_times(tensor->shape[d] - 1, tensor->strides[d], &overflow);
        span = kvmill_plus(span, kvmill_magnitude(reach, &overflow), &overflow);
    }
    return !overflow && span < kvmill_dtype_most(tensor->dtype);
}

/* ---- Overlap inside one tensor ---- */

/* The stride of a dim is at least the span of all dims with smaller strides.  Dims with equal
   strides count, too, so that two of them are detected. */
static bool steps_over_others(const DLTensor *tensor, int d) {
    bool overflow = false;
    int64_t span = 1, step = kvmill_magnitude(tensor->strides[d], &overflow);
    for (int e = 0; e < tensor->ndim; e++) {
        if (e == d || tensor->shape[e] <= 1)
            continue;
        int64_t other = kvmill_magnitude(tensor->strides[e], &overflow);
        if (other <= step)
            span =
                kvmill_plus(span, kvmill_times(tensor->shape[e] - 1, other, &overflow), &overflow);
    }
    return !overflow && step >= span;
}

bool kvmill_tensor_is_injective(const DLTensor *tensor) {
    if (tensor->strides == NULL || kvmill_tensor_is_empty(tensor))
        return true;
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] > 1 && !steps_over_others(tensor, d))
            return false;
    return true;
}

bool kvmill_tensor_is_same_memory(const DLTensor *a, const DLTensor *b) {
    if (a == b)
        return true;
    if (tensor_data(a) != tensor_data(b) || a->ndim != b->ndim)
        return false;
    if ((a->strides == NULL && b->strides == NULL) || kvmill_tensor_is_empty(a))
        return true;
    for (int d = 0; d < a->ndim; d++)
        if (a->shape[d] > 1 && kvmill_tensor_stride(a, d) != kvmill_tensor_stride(b, d))
            return false;
    return true;
}

int64_t kvmill_tensor_offset(const DLTensor *tensor, int from, int to, int64_t index) {
    int64_t offset = 0;
    bool overflow = false; /* never set: the tensor is reachable */
    for (int d = to - 1; d >= from; d--) {
        int64_t along = index % tensor->shape[d];
        offset = kvmill_plus(
            offset, kvmill_times(along, kvmill_tensor_stride(tensor, d), &overflow), &overflow);
        index /= tensor->shape[d];
    }
    return offset;
}

/* ---- All queries at once ---- */

/* The counts, and the strides of a tensor without gaps. */
static void count_dense(const DLTensor *tensor, int axis, struct tensor_view *view) {
    bool overflow = false; /* only if dims are open; the counts do not matter then */
    int d = tensor->ndim - 1;
    view->row = view->heads = 1;
    for (; d > axis; d--)
        view->row = kvmill_times(view->row, tensor->shape[d], &overflow);
    for (d = axis - 1; d > 0; d--)
        view->heads = kvmill_times(view->heads, tensor->shape[d], &overflow);
    view->strides.row = view->row;
    view->strides.head = kvmill_times(view->row, tensor->shape[axis], &overflow);
    view->strides.batch = kvmill_times(view->strides.head, view->heads, &overflow);
    view->count = kvmill_times(view->strides.batch, tensor->shape[0], &overflow);
}

/* The single stride that walks dims [1, axis) in order; 0 if there is nothing to walk. */
static bool fold_heads(const DLTensor *tensor, int axis, int64_t *step) {
    int64_t expected = 0;
    bool found = false;
    *step = 0;
    for (int d = axis - 1; d > 0; d--) {
        if (tensor->shape[d] == 1)
            continue;
        if (!found)
            *step = expected = tensor->strides[d];
        if (tensor->strides[d] != expected)
            return false;
        found = true;
        expected = stride_beyond(tensor, d, expected);
    }
    return true;
}

static void fold_strides(const DLTensor *tensor, int axis, struct tensor_view *view) {
    view->strides.batch = tensor->shape[0] > 1 ? tensor->strides[0] : 0;
    view->strides.row = tensor->shape[axis] > 1 ? tensor->strides[axis] : 0;
    view->folds = kvmill_tensor_is_dense_from(tensor, axis + 1) &&
                  fold_heads(tensor, axis, &view->strides.head);
}

void kvmill_tensor_look(const DLTensor *tensor, int axis, struct tensor_view *view) {
    *view = (struct tensor_view){.tensor = tensor, .folds = true};
    if (kvmill_tensor_is_empty(tensor))
        return;
    count_dense(tensor, axis, view);
    if (tensor->strides != NULL)
        fold_strides(tensor, axis, view);
}

/* ---- Spans ---- */

/* First and last element, relative to element 0, of a reachable tensor that is not empty. */
static void find_ends(const DLTensor *tensor, int64_t count, int64_t *lowest, int64_t *highest) {
    bool overflow = false; /* never set: the tensor is reachable */
    *lowest = 0;
    *highest = count - 1;
    if (tensor->strides == NULL)
        return;
    *highest = 0;
    for (int d = 0; d < tensor->ndim; d++) {
        int64_t reach = kvmill_times(tensor->shape[d] - 1, tensor->strides[d], &overflow);
        int64_t *end = reach < 0 ? lowest : highest;
        *end = kvmill_plus(*end, reach, &overflow);
    }
}

/* Only for empty tensors can the product overflow on the way, and the result is 0 all the same. */
static int64_t count_of(const DLTensor *tensor) {
    int64_t count = 1;
    bool overflow = false;
    for (int d = 0; d < tensor->ndim; d++)
        count = kvmill_times(count, tensor->shape[d], &overflow);
    return count;
}

struct tensor_span kvmill_tensor_span_of(const DLTensor *tensor) {
    int64_t lowest, highest, count = count_of(tensor);
    uintptr_t data = (uintptr_t)tensor_data(tensor);
    if (count == 0)
        return (struct tensor_span){0, 0};
    find_ends(tensor, count, &lowest, &highest);
    return (struct tensor_span){data - (uintptr_t)kvmill_dtype_bytes(tensor->dtype, -lowest),
                                data + (uintptr_t)kvmill_dtype_bytes(tensor->dtype, highest + 1)};
}

/* ---- Elements ---- */

int64_t kvmill_load_index(DLDataType type, const unsigned char *from) {
    uint64_t value = kvmill_integer_of(type, kvmill_scalar_load(type, from).word[0]);
    return type.code == kDLUInt && value > INT64_MAX ? INT64_MAX : (int64_t)value;
}
