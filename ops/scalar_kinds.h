/* The computation of each op of scalar_op.h, for each kind of number.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_SCALAR_KINDS_H
#define KVMILL_OPS_SCALAR_KINDS_H

#include "scalar_op.h"

typedef struct kvmill_scalar kvmill_scalar_function(const struct kvmill_scalar_call *call,
                                                    const struct kvmill_scalar *operands);

/* Operands of one kind, and a result of the same kind. */
kvmill_scalar_function kvmill_apply_to_floats, kvmill_apply_to_integers, kvmill_apply_to_complex;

/* real, imag, complex */
kvmill_scalar_function kvmill_apply_to_parts;

struct kvmill_order {
    bool less, equal, unordered;
};
struct kvmill_order kvmill_complex_order(DLDataType type, struct kvmill_scalar left,
                                         struct kvmill_scalar right);

#endif
