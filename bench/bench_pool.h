/* The library's pool, as benches use it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_BENCH_POOL_H
#define KVMILL_BENCH_BENCH_POOL_H

#include <kvmill_pool.h>

#include "../base/error.h"
#include "../base/timer.h"

/* Creates a pool.  On failure sets *pool to NULL and the message of an environment that lacks
   threads. */
bool bench_pool_open(int threads, kvmill_pool **pool, struct error *error);

/* Wakes all threads of the pool; they stay awake for a while. */
void bench_pool_wake(void *pool);

/* Returns a contender that wakes the pool's threads before it is timed. */
struct contender bench_contender(const char *name, void (*run)(void *context, int64_t k),
                                 void *context, kvmill_pool *pool);

#endif
