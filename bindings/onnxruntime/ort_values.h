/* The runtime's values as kvmill's tensors.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_ONNXRUNTIME_ORT_VALUES_H
#define KVMILL_BINDINGS_ONNXRUNTIME_ORT_VALUES_H

#include "runtime.h"

/* Convert ONNX Runtime's number of an element type; 0 bits or number 0: kvmill does not have the
   type. */
DLDataType value_type(unsigned type);
unsigned value_type_number(DLDataType type);

enum { MOST_RANK = 8 };

/* Sets tensor to the value's memory.  The shape is the value's own, or is written to `dims`.  If
   the rank exceeds MOST_RANK, the shape must not be read. */
OrtStatus *value_tensor(OrtValue *value, DLTensor *tensor, int64_t dims[MOST_RANK]);

static inline bool value_has_type(const DLTensor *tensor, unsigned code, int bits) {
    return tensor->dtype.code == code && tensor->dtype.bits == bits;
}

/* Returns the number of elements of a tensor. */
int64_t value_count(const DLTensor *tensor);

/* Returns the last dim; KVMILL_DYNAMIC: not known. */
static inline int64_t value_last_dim(const DLTensor *tensor) {
    return tensor->ndim > 0 ? tensor->shape[tensor->ndim - 1] : KVMILL_DYNAMIC;
}

/* Returns the bytes of a tensor without gaps. */
int64_t value_bytes(const DLTensor *tensor);

#endif
