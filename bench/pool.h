/* The library's pool, as benches use it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_POOL_H
#define KVMILL_BENCH_POOL_H

#include <kvmill_pool.h>

#include "../base/error.h"
#include "../base/timer.h"

/* Created with the message of an environment that has no threads for it; *pool is NULL then. */
bool bench_pool_open(int threads, kvmill_pool **pool, struct error *error);

/* Return when no thread of the pool sleeps, for a while. */
void bench_pool_wake(void *pool);

/* A contender that finds the pool's threads awake. */
struct contender bench_contender(const char *name, void (*run)(void *context, int64_t k),
                                 void *context, kvmill_pool *pool);

#endif
