/* The family that combines windows of updates with results by a program: SCATTER_REGION.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_SCATTER_REGION_FAMILY_H
#define KVMILL_GEN_SCATTER_REGION_FAMILY_H

#include <kvmill_kernel.h>

#include "kernel.h"

extern const struct family scatter_region_family;

/* The kernel that scatters of this shape need, for one instruction set. */
bool scatter_region_kernels(const struct kvmill_scatter_region_shape *shape, const struct isa *isa,
                            struct kernel_list *list, struct error *error);

#endif
