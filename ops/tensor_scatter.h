/* ONNX TensorScatter-24: what is a valid problem, and what every valid problem folds to.
   The same rules serve the generator (spec files) and the library (plans).

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_TENSOR_SCATTER_H
#define KVMILL_OPS_TENSOR_SCATTER_H

#include <stdbool.h>

#include <kvmill.h>
#include <kvmill_kernel.h>

/* A TensorScatter of any rank is one of rank 4: cache [batch, heads, capacity, row], update
   [batch, heads, rows, row].  Counts are elements; KVMILL_DYNAMIC where not known yet. */
struct kvmill_row_geometry {
    int axis; /* of the original tensors, not negative */
    bool circular;
    bool floored; /* negative starts are wrapped, too */
    int64_t batch, heads, capacity, rows, row;
};

/* Check everything that the prototypes of op tell; geometry is set on success. */
kvmill_status kvmill_tensor_scatter_check(const kvmill_tensor_scatter *op,
                                          struct kvmill_row_geometry *geometry,
                                          kvmill_error *error);

/* The rows of update fit the capacity, as far as both are known. */
kvmill_status kvmill_tensor_scatter_check_rows(const DLTensor *past, const DLTensor *update,
                                               int axis, kvmill_error *error);

/* Dim d of the cache as far as any of the prototypes tells; KVMILL_DYNAMIC when none does. */
int64_t kvmill_tensor_scatter_dim(const kvmill_tensor_scatter *op, int axis, int d);

/* Shapes and attributes as the kernels see them: rows in bytes, or in nibbles where rows of a 4-bit
   type may begin in the middle of a byte. */
struct kvmill_rows_shape kvmill_rows_shape_of(const struct kvmill_row_geometry *geometry,
                                              DLDataType dtype);

#endif
