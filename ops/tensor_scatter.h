/* ONNX TensorScatter-24: which problems are valid, and how they fold.  The same rules serve the
   generator (spec files) and the library (plans).

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_TENSOR_SCATTER_H
#define KVMILL_OPS_TENSOR_SCATTER_H

#include <stdbool.h>

#include <kvmill.h>
#include <kvmill_kernel.h>

/* A TensorScatter of any rank, folded to rank 4: cache [batch, heads, capacity, row], update
   [batch, heads, rows, row]. Counts are elements; those that are not known yet are KVMILL_DYNAMIC.
 */
struct kvmill_row_geometry {
    int axis; /* of the original tensors, not negative */
    bool circular;
    bool floored; /* whether negative starts wrap around, too */
    int64_t batch, heads, capacity, rows, row;
};

/* Check everything that the prototypes of op determine; geometry is set on success. */
kvmill_status kvmill_tensor_scatter_check(const kvmill_tensor_scatter *op,
                                          struct kvmill_row_geometry *geometry,
                                          kvmill_error *error);

/* Check that the rows of update fit into the capacity, as far as both are known. */
kvmill_status kvmill_tensor_scatter_check_rows(const DLTensor *past, const DLTensor *update,
                                               int axis, kvmill_error *error);

/* Dim d of the cache, if any prototype states it; otherwise KVMILL_DYNAMIC. */
int64_t kvmill_tensor_scatter_dim(const kvmill_tensor_scatter *op, int axis, int d);

/* Shapes and attributes for kernels: rows in bytes, or in nibbles if rows of a 4-bit type may begin
   in the middle of a byte. */
struct kvmill_rows_shape kvmill_rows_shape_of(const struct kvmill_row_geometry *geometry,
                                              DLDataType dtype);

#endif
