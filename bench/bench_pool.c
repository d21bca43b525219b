/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_pool.h"

#include <sched.h>
#include <stdatomic.h>

bool bench_pool_open(int threads, kvmill_pool **pool, struct error *error) {
    kvmill_error reason;
    return kvmill_pool_create(threads, NULL, pool, &reason) == KVMILL_OK ||
           fail(error, EXIT_ENVIRONMENT, "a pool of threads: %s", reason.message);
}

struct meeting {
    int threads;
    atomic_int there;
};

/* One part for each thread; no part ends before all have begun. */
static void meet(void *context, int64_t index) {
    struct meeting *meeting = context;
    (void)index;
    atomic_fetch_add(&meeting->there, 1);
    while (atomic_load(&meeting->there) < meeting->threads)
        sched_yield();
}

void bench_pool_wake(void *pool) {
    struct meeting meeting = {.threads = kvmill_pool_threads(pool)};
    kvmill_pool_for(pool, meeting.threads, meet, &meeting);
}

struct contender bench_contender(const char *name, void (*run)(void *context, int64_t k),
                                 void *context, kvmill_pool *pool) {
    return (struct contender){
        .name = name, .run = run, .context = context, .wake = bench_pool_wake, .pool = pool};
}
