/* stablehlo.gather: which problems are valid, for generator and library alike.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_GATHER_H
#define KVMILL_OPS_GATHER_H

#include "windows.h"

/* Check the constraints C1 to C23, in the source's order; the message names the first violated one.
   Extents may be KVMILL_DYNAMIC, which matches anything.  slice_sizes.items may be NULL with a
   count: the sizes are unknown. */
kvmill_status kvmill_gather_verify(const kvmill_gather *op, kvmill_error *error);

/* All checks of a plan: the constraints, known extents, and an operand that contains what the
 * result reads. */
kvmill_status kvmill_gather_check(const kvmill_gather *op, struct kvmill_windows *windows,
                                  kvmill_error *error);

/* The dims of the result of a checked op. */
void kvmill_gather_result(const struct kvmill_windows *windows, int64_t dims[KVMILL_MOST_RANK]);

#endif
