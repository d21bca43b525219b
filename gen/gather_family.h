/* The family that gathers windows: GATHER.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_GATHER_FAMILY_H
#define KVMILL_GEN_GATHER_FAMILY_H

#include <kvmill_kernel.h>

#include "kernel.h"

extern const struct family gather_family;

/* The kernel that gathers of this shape need, for one instruction set. */
bool gather_kernels(const struct kvmill_gather_shape *shape, const struct isa *isa,
                    struct kernel_list *list, struct error *error);

#endif
