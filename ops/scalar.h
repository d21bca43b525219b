/* Computes elementwise ops on single numbers.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_SCALAR_H
#define KVMILL_OPS_SCALAR_H

#include "scalar_op.h"

struct kvmill_scalar kvmill_scalar_apply(const struct kvmill_scalar_call *call,
                                         const struct kvmill_scalar *operands);

#endif
