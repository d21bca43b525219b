/* stablehlo.scatter: which problems are valid, for generator and library alike.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_SCATTER_H
#define KVMILL_OPS_SCATTER_H

#include "region.h"
#include "windows.h"

/* Check the constraints C1 to C25, in the source's order, as kvmill_gather_verify does; the region
 * becomes a program. */
kvmill_status kvmill_scatter_verify(const kvmill_scatter *op, struct kvmill_program *program,
                                    kvmill_error *error);

/* All checks of a plan: the constraints, and known extents. */
kvmill_status kvmill_scatter_check(const kvmill_scatter *op, struct kvmill_windows *windows,
                                   struct kvmill_program *program, kvmill_error *error);

/* Lists of a scatter's tensors, in the order in which a plan takes them. */
enum kvmill_scatter_list {
    KVMILL_SCATTER_INPUTS,
    KVMILL_SCATTER_INDICES,
    KVMILL_SCATTER_UPDATES,
    KVMILL_SCATTER_RESULTS,
    KVMILL_SCATTER_CAPTURES
};
enum { KVMILL_MOST_SCATTER_TENSORS = 3 * KVMILL_MOST_INPUTS + 1 + KVMILL_MOST_CAPTURES };

/* Where a list begins, of a scatter of so many inputs. */
static inline int kvmill_scatter_list_at(enum kvmill_scatter_list list, int inputs) {
    const int begins[] = {0, inputs, inputs + 1, 2 * inputs + 1, 3 * inputs + 1};
    return begins[list];
}

/* The list that a tensor is in. */
static inline enum kvmill_scatter_list kvmill_scatter_list_of(int tensor, int inputs) {
    enum kvmill_scatter_list list = KVMILL_SCATTER_CAPTURES;
    while (tensor < kvmill_scatter_list_at(list, inputs))
        list--;
    return list;
}

kvmill_element_type kvmill_scatter_input_element(const kvmill_scatter *op, size_t i);
kvmill_element_type kvmill_scatter_update_element(const kvmill_scatter *op, size_t i);

#endif
