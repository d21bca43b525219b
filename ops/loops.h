/* Loop nests over several tensors at once.  Windows fold to them, once the meaning of their axes no
   longer matters.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_LOOPS_H
#define KVMILL_OPS_LOOPS_H

#include "region.h"
#include "windows.h"

enum { KVMILL_MOST_SIDES = 2 * KVMILL_MOST_INPUTS };

/* Outermost loop first.  A side is a tensor; its steps are bytes. */
struct loops {
    int count, sides;
    int64_t extent[KVMILL_MOST_RANK];
    int64_t step[KVMILL_MOST_RANK][KVMILL_MOST_SIDES];
};

/* Add a new innermost loop; returns its steps, for the caller to fill in. */
int64_t *kvmill_loops_add(struct loops *loops, int64_t extent);

/* Merge two loops into one if all sides continue with the same steps, and drop loops of one turn.
 */
void kvmill_loops_merge(struct loops *loops);

#endif
