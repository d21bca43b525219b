/* A parallel loop on threads that stay: those that wait spin for a while before they sleep, so that
   one short call after the other costs no more than the work.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_POOL_H
#define KVMILL_BASE_POOL_H

#include <stdint.h>

struct pool;

/* Threads in all, the caller's included, 1 to 256; one that cannot be had is done without.  NULL:
   out of memory. */
struct pool *pool_open(int threads);

/* NULL is allowed. */
void pool_close(struct pool *pool);

/* How many were asked for. */
int pool_threads(const struct pool *pool);

/* Return when no thread sleeps, for a while. */
void pool_wake(struct pool *pool);

/* For kvmill_run_parallel; data: struct pool.  One loop at a time, and no loop in a part. */
void pool_for(void *data, int64_t parts, void (*part)(void *context, int64_t index), void *context);

#endif
