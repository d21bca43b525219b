/* stablehlo.scatter: which problems are valid, for generator and library alike.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_SCATTER_H
#define KVMILL_OPS_SCATTER_H

#include "region.h"
#include "windows.h"

/* The constraints C1 to C25, in the source's order; as kvmill_gather_verify.  The program is made.
 */
kvmill_status kvmill_scatter_verify(const kvmill_scatter *op, struct kvmill_program *program,
                                    kvmill_error *error);

/* All that a plan needs: the constraints, and known extents. */
kvmill_status kvmill_scatter_check(const kvmill_scatter *op, struct kvmill_windows *windows,
                                   struct kvmill_program *program, kvmill_error *error);

kvmill_element_type kvmill_scatter_input_element(const kvmill_scatter *op, size_t i);
kvmill_element_type kvmill_scatter_update_element(const kvmill_scatter *op, size_t i);

#endif
