/* A pool of threads, for callers that have none of their own.  Included by kvmill.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_POOL_H
#define KVMILL_POOL_H

#include <kvmill_core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Threads that wait for runs.  The caller of a run on a pool and the pool's threads share the run.
   A thread without work waits actively for 50 microseconds, and then sleeps. */
typedef struct kvmill_pool kvmill_pool;

typedef struct kvmill_pool_options {
    size_t struct_size; /* sizeof (kvmill_pool_options) */
    int pinned; /* not 0: each thread stays on a processor of its own, on different cores as far as
                   possible, and never on the first one, which is left to the caller */
    int sleeps_at_once; /* not 0: threads sleep as soon as a run ends, for callers that need the
                           processors between runs */
} kvmill_pool_options;

/* Threads are not pinned, and do not sleep at once. */
void kvmill_pool_options_init(kvmill_pool_options *options, size_t struct_size);

/* Create a pool of `threads` threads, including the caller, so 1 creates none; at most 4096.  0
   means one for each core that this process may run on (each processor, if the library was built
   without hwloc).  *pool is NULL on error.  options NULL = the defaults.  The threads take no
   signals.  KVMILL_E_ATTRIBUTE: too many threads, or pinned and more threads than processors;
   KVMILL_E_MEMORY: the system has no more memory or threads.  Any thread. */
kvmill_status kvmill_pool_create(int threads, const kvmill_pool_options *options,
                                 kvmill_pool **pool, kvmill_error *error);

/* The number of threads of a pool, including its caller; 0 if pool is NULL. Any thread. */
int kvmill_pool_threads(const kvmill_pool *pool);

/* End a pool that no call uses any more; NULL is allowed.  Any thread except the pool's.  In a
   process that fork has created, which does not have the threads, it only frees the memory. */
void kvmill_pool_destroy(kvmill_pool *pool);

/* kvmill_run, with the same result and errors, shared with the pool's threads: as many as the work
   justifies, so that only the caller runs a small one (more work, if the threads sleep at once, by
   the calibration); and, if the plan needs a workspace, at most
   the plan's options.threads, which should be kvmill_pool_threads (pool).  Any number of threads
   may run plans on one pool.  It serves one run at a time; a caller that finds it busy, even in a
   part of that run, runs alone and does not wait.  Also KVMILL_E_NULL: pool is NULL. */
kvmill_status kvmill_run_on(const kvmill_plan *plan, kvmill_pool *pool,
                            const DLTensor *const *tensors, size_t tensor_count, void *workspace,
                            kvmill_error *error);

/* A kvmill_parallel_for whose data is a kvmill_pool: runs a loop of the caller's on its threads.
   If the pool is busy or NULL, only the caller runs the loop. */
void kvmill_pool_for(void *pool, int64_t parts, void (*part)(void *context, int64_t index),
                     void *context);

#ifdef __cplusplus
}
#endif
#endif
