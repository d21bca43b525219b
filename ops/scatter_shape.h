/* The shape of a scatter kernel: the types of elements, and how they are combined.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_SCATTER_SHAPE_H
#define KVMILL_OPS_SCATTER_SHAPE_H

#include <kvmill_kernel.h>

#include "region_text.h"
#include "scatter.h"

/* Axes of the windowed tensor up to the last of the index space: their order is that of updates. */
int kvmill_windows_outer(const struct kvmill_windows *windows);

/* The shape of what is done to results[slot], of a checked op; tensors are taken as dense.  NULL,
   or why no kernel does it. */
const char *kvmill_scatter_shape_of(const kvmill_scatter *op, const struct kvmill_windows *windows,
                                    const struct kvmill_program *program, int slot,
                                    struct kvmill_scatter_shape *shape);

/* The shape of what is done to all results together; its program is `text`.  NULL, or why no kernel
   does it, which may be in `text`. */
const char *kvmill_scatter_region_of(const kvmill_scatter *op, const struct kvmill_windows *windows,
                                     const struct kvmill_program *program,
                                     struct kvmill_region_text *text,
                                     struct kvmill_scatter_region_shape *shape);

/* The same of how inputs[slot] becomes a result: all of it is one window of updates, which replace.
   false: no conversion is needed, or no kernel does it. */
bool kvmill_scatter_conversion_of(const kvmill_scatter *op, const struct kvmill_program *program,
                                  int slot, struct kvmill_region_text *text,
                                  struct kvmill_scatter_region_shape *shape);

#endif
