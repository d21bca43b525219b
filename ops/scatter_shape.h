/* The shape of a scatter kernel: the types of elements, and how they are combined.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_SCATTER_SHAPE_H
#define KVMILL_OPS_SCATTER_SHAPE_H

#include <kvmill_kernel.h>

#include "region_text.h"
#include "scatter.h"

/* The axes of the windowed tensor up to the last one of the index space; updates have the same
   order. */
int kvmill_windows_outer(const struct kvmill_windows *windows);

/* The shape of the kernel for results[slot] of a checked op, for tensors without gaps.  Returns
   NULL, or why there is no kernel. */
const char *kvmill_scatter_shape_of(const kvmill_scatter *op, const struct kvmill_windows *windows,
                                    const struct kvmill_program *program, int slot,
                                    struct kvmill_scatter_shape *shape);

/* The shape of the kernel for all results together, whose program is `text`.  Returns NULL, or why
   there is no kernel (the reason may be in `text`). */
const char *kvmill_scatter_region_of(const kvmill_scatter *op, const struct kvmill_windows *windows,
                                     const struct kvmill_program *program,
                                     struct kvmill_region_text *text,
                                     struct kvmill_scatter_region_shape *shape);

/* The shape of the kernel that converts inputs[slot] to a result: a single window of updates that
   replace.  false if no conversion is needed, or there is no kernel. */
bool kvmill_scatter_conversion_of(const kvmill_scatter *op, const struct kvmill_program *program,
                                  int slot, struct kvmill_region_text *text,
                                  struct kvmill_scatter_region_shape *shape);

#endif
