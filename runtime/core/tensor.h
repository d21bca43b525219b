/* The runtime's queries on a DLTensor.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_TENSOR_H
#define KVMILL_RUNTIME_CORE_TENSOR_H

#include <stdbool.h>

#include <kvmill.h>
#include <kvmill_kernel.h>

/* The address of element 0, for any byte_offset, also if data is NULL. */
static inline unsigned char *tensor_data(const DLTensor *tensor) {
    return (unsigned char *)((uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset);
}

/* The stride of dim d in elements, also if strides is NULL. */
int64_t kvmill_tensor_stride(const DLTensor *tensor, int d);

/* The bytes between neighbours along dim d, or 0 if it has none; for elements of whole bytes. */
int64_t kvmill_tensor_step(const DLTensor *tensor, int d);

/* The same if elements of fewer than 8 bits take a byte each, as in StableHLO. */
int64_t kvmill_unpacked_step(const DLTensor *tensor, int d);

/* The address of the first element with this index in dim d; any address for empty tensors. */
unsigned char *kvmill_tensor_at(const DLTensor *tensor, int d, int64_t index);

/* Whether some dim is 0. */
bool kvmill_tensor_is_empty(const DLTensor *tensor);

/* Whether dims [from, ndim) are row-major without gaps. */
bool kvmill_tensor_is_dense_from(const DLTensor *tensor, int from);

/* Whether all elements are within reach of a pointer.  The functions below rely on it. */
bool kvmill_tensor_is_reachable(const DLTensor *tensor);

/* The elements from the first one to number `index` in dims [from, to), counted row-major. */
int64_t kvmill_tensor_offset(const DLTensor *tensor, int from, int to, int64_t index);

/* Whether no two elements share memory. */
bool kvmill_tensor_is_injective(const DLTensor *tensor);

/* Whether elements have the same addresses. */
bool kvmill_tensor_is_same_memory(const DLTensor *a, const DLTensor *b);

/* All that a run asks of a tensor: folded around an axis to [batch, heads, slots, row], counted in
   elements.  Only strides of dims with more than one index matter; for an empty tensor, strides and
   counts are 0. */
struct tensor_view {
    const DLTensor *tensor;
    int64_t heads, row, count;
    struct kvmill_row_strides strides;
    bool folds; /* the strides allow folding, and rows are contiguous */
};

void kvmill_tensor_look(const DLTensor *tensor, int axis, struct tensor_view *view);

/* The addresses from the first byte to after the last.  Those of an empty tensor overlap nothing.
 */
struct tensor_span {
    uintptr_t begin, end;
};

struct tensor_span kvmill_tensor_span_of(const DLTensor *tensor);

static inline bool spans_overlap(struct tensor_span a, struct tensor_span b) {
    return a.begin < b.end && b.begin < a.end;
}

/* The index at an address, widened as its type says; unsigned values above INT64_MAX become
 * INT64_MAX. */
int64_t kvmill_load_index(DLDataType type, const unsigned char *from);

#endif
