/* The runtime's values as kvmill's tensors.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_VALUES_H
#define KVMILL_ONNXRUNTIME_VALUES_H

#include "runtime.h"

/* The element type of ONNX Runtime's number; bits 0: kvmill has none. */
DLDataType value_type(unsigned type);
unsigned value_type_number(DLDataType type);

enum { MOST_RANK = 8 };

/* The value's memory as a tensor, which borrows its shape, or has it in `dims`.  The rank may be
   more than MOST_RANK: then the shape is not to be looked at. */
OrtStatus *value_tensor(OrtValue *value, DLTensor *tensor, int64_t dims[MOST_RANK]);

static inline bool value_has_type(const DLTensor *tensor, unsigned code, int bits) {
    return tensor->dtype.code == code && tensor->dtype.bits == bits;
}

/* How many elements a tensor has. */
int64_t value_count(const DLTensor *tensor);

/* Its last dim; KVMILL_DYNAMIC: not known. */
static inline int64_t value_last_dim(const DLTensor *tensor) {
    return tensor->ndim > 0 ? tensor->shape[tensor->ndim - 1] : KVMILL_DYNAMIC;
}

/* Bytes of a tensor without gaps. */
int64_t value_bytes(const DLTensor *tensor);

#endif
