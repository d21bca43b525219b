/* Nests of loops over several tensors at once: how windows are copied and combined.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_LOOPS_H
#define KVMILL_RUNTIME_LOOPS_H

#include "../ops/region.h"
#include "../ops/windows.h"

enum { KVMILL_MOST_SIDES = 2 * KVMILL_MOST_INPUTS };

/* Outermost first; a side is a tensor, its steps are bytes. */
struct loops {
    int count, sides;
    int64_t extent[KVMILL_MOST_RANK];
    int64_t step[KVMILL_MOST_RANK][KVMILL_MOST_SIDES];
};

/* The steps of a new innermost loop, for the caller to fill in. */
int64_t *kvmill_loops_add(struct loops *loops, int64_t extent);

/* Make one loop of two where both walk on alike on all sides, and drop loops of one turn. */
void kvmill_loops_merge(struct loops *loops);

/* Call body once for each turn of all loops but the innermost: `count` elements from `at` on. */
typedef void (*loop_body)(const void *context, unsigned char *const *at, int64_t count,
                          const int64_t *step);
void kvmill_loops_walk(const struct loops *loops, unsigned char *const *base, loop_body body,
                       const void *context);

/* A body: copy side 0 to side 1; context is the bytes of an element, an int64_t. */
void kvmill_copy_elements(const void *context, unsigned char *const *at, int64_t count,
                          const int64_t *step);

#endif
