/* The threads of a pool, which serve one run at a time.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_POOL_H
#define KVMILL_RUNTIME_CORE_POOL_H

#include <stdbool.h>

#include <kvmill_pool.h>

enum { KVMILL_MOST_THREADS = 4096 }; /* of a pool, and of a plan */

/* Take the pool for a run; its threads stay awake between loops.  false if another run has it. */
bool kvmill_pool_take(kvmill_pool *pool);
void kvmill_pool_give(kvmill_pool *pool);

/* Run a loop on at most `threads` threads; the caller's run has taken the pool. */
void kvmill_pool_loop(kvmill_pool *pool, int threads, int64_t parts,
                      void (*part)(void *context, int64_t index), void *context);

/* Whether its threads sleep between runs. */
bool kvmill_pool_sleeps(const kvmill_pool *pool);

/* How many threads of the pool the present phase of a call is worth; perhaps less than one. */
int kvmill_threads_worth(const kvmill_call *call, const kvmill_pool *pool);

#endif
