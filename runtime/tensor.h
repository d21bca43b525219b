/* What the runtime asks of a DLTensor.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_TENSOR_H
#define KVMILL_RUNTIME_TENSOR_H

#include <stdbool.h>

#include <kvmill.h>

/* Address of element 0. */
static inline unsigned char *tensor_data(const DLTensor *tensor) {
    return (unsigned char *)tensor->data + tensor->byte_offset;
}

/* Elements; the dims are known and the product fits. */
int64_t tensor_count(const DLTensor *tensor);

/* Step of dim d in elements, also where strides is NULL. */
int64_t tensor_stride(const DLTensor *tensor, int d);

/* Dims [from, ndim) lie in memory row-major without gaps. */
bool tensor_is_dense_from(const DLTensor *tensor, int from);

/* No two elements share memory. */
bool tensor_is_injective(const DLTensor *tensor);

/* Steps in elements of the tensor folded around `axis` to [batch, heads, axis, row]; false when its
   strides do not fold, or rows have gaps. */
bool tensor_fold_strides(const DLTensor *tensor, int axis, struct kvmill_row_strides *strides);

/* Same element addresses. */
bool tensor_is_same_memory(const DLTensor *a, const DLTensor *b);

/* Some byte lies between the first and the last of both. */
bool tensor_overlaps(const DLTensor *a, const DLTensor *b);

#endif
