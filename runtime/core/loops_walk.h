/* Walks through loop nests.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_LOOPS_WALK_H
#define KVMILL_RUNTIME_CORE_LOOPS_WALK_H

#include "../../ops/loops.h"

/* Call body for each turn of all loops except the innermost, with `count` elements from `at` on. */
typedef void (*loop_body)(const void *context, unsigned char *const *at, int64_t count,
                          const int64_t *step);
void kvmill_loops_walk(const struct loops *loops, unsigned char *const *base, loop_body body,
                       const void *context);

/* A body that copies side 0 to side 1; context is an int64_t, the bytes of an element. */
void kvmill_copy_elements(const void *context, unsigned char *const *at, int64_t count,
                          const int64_t *step);

#endif
