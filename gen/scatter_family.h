/* The family that combines windows of updates with results: SCATTER.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_SCATTER_FAMILY_H
#define KVMILL_GEN_SCATTER_FAMILY_H

#include "kernel.h"

#include "../ops/scatter_shape.h"

extern const struct family scatter_family;

/* The kernels that a problem of this shape needs, for one instruction set. */
bool scatter_kernels(const struct kvmill_scatter_shape *shape, const struct isa *isa,
                     struct kernel_list *list, struct error *error);

#endif
