/* The runtime's queries on a DLTensor.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_TENSOR_H
#define KVMILL_RUNTIME_CORE_TENSOR_H

#include <stdbool.h>

#include <kvmill.h>
#include <kvmill_kernel.h>

/* Address of element 0; any byte_offset gives one, also from NULL. */
static inline unsigned char *tensor_data(const DLTensor *tensor) {
    return (unsigned char *)((uintptr_t)tensor->data + tensor->byte_offset);
}

/* Step of dim d in elements, also where strides is NULL. */
int64_t kvmill_tensor_stride(const DLTensor *tensor, int d);

/* Bytes between neighbours of dim d, or 0 for a dim that has none; of whole bytes. */
int64_t kvmill_tensor_step(const DLTensor *tensor, int d);

/* Likewise where elements of fewer than 8 bits take a byte each, as in StableHLO. */
int64_t kvmill_unpacked_step(const DLTensor *tensor, int d);

/* Address of the first element with that index of dim d; of an empty tensor any. */
unsigned char *kvmill_tensor_at(const DLTensor *tensor, int d, int64_t index);

/* Some dim is 0. */
bool kvmill_tensor_is_empty(const DLTensor *tensor);

/* Dims [from, ndim) lie in memory row-major without gaps. */
bool kvmill_tensor_is_dense_from(const DLTensor *tensor, int from);

/* The strides stay within what a pointer can reach.  The functions below rely on it. */
bool kvmill_tensor_is_reachable(const DLTensor *tensor);

/* Elements from the first to that of number `index` in dims [from, to), counted row-major. */
int64_t kvmill_tensor_offset(const DLTensor *tensor, int from, int to, int64_t index);

/* No two elements share memory. */
bool kvmill_tensor_is_injective(const DLTensor *tensor);

/* Same element addresses. */
bool kvmill_tensor_is_same_memory(const DLTensor *a, const DLTensor *b);

/* All that a run asks of a tensor, in one look: folded around an axis to [batch, heads, slots,
   row], counted in elements.  Of the strides, only those of dims with more than one index matter;
   those of an empty tensor, and its counts, are 0. */
struct tensor_view {
    const DLTensor *tensor;
    int64_t heads, row, count;
    struct kvmill_row_strides strides;
    bool folds; /* the strides do, and rows lie in one piece */
};

void kvmill_tensor_look(const DLTensor *tensor, int axis, struct tensor_view *view);

/* Addresses from the first byte to after the last; those of an empty tensor overlap nothing. */
struct tensor_span {
    uintptr_t begin, end;
};

struct tensor_span kvmill_tensor_span_of(const DLTensor *tensor);

static inline bool spans_overlap(struct tensor_span a, struct tensor_span b) {
    return a.begin < b.end && b.begin < a.end;
}

/* Index element at an address, widened as its type says; an unsigned one beyond INT64_MAX is that.
 */
int64_t kvmill_load_index(DLDataType type, const unsigned char *from);

#endif
