/* What TensorScatter means, element by element: the measure of every kernel and plan.

   Shares nothing with the library but the tensor type, and has no concern but to be obvious.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_TENSOR_SCATTER_H
#define KVMILL_TESTS_ORACLE_TENSOR_SCATTER_H

#include <stdbool.h>

#include <dlpack/dlpack.h>

/* present = past with update written along axis (not negative), from write_indices[b] on; the
   problem must be valid.  write_indices NULL = all zero.  In place where past and present have the
   same address.  The unused half of the last byte of a 4-bit present becomes 0, but in place it
   keeps its value. */
void oracle_tensor_scatter(int axis, bool circular, const DLTensor *past, const DLTensor *update,
                           const DLTensor *write_indices, const DLTensor *present);

#endif
