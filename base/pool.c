/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { MOST_THREADS = 256, SPINS = 4096, LINE = 64 };

/* The state of the pool in a word: whether helpers may join the loop, how many have, and which loop
   it is. */
enum { HELPER = 1, OPEN = 1 << 16, LOOP = 1 << 17 };

struct pool {
    _Alignas(LINE) atomic_ullong state;
    _Alignas(LINE) atomic_llong next; /* part of the loop */
    int64_t parts;
    void (*part)(void *context, int64_t index);
    void *context;
    int threads, started;
    atomic_int sleepers, awake;
    atomic_bool closing;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    pthread_t helpers[MOST_THREADS];
};

static void pause_once(void) {
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#endif
}

static void work(struct pool *pool) {
    int64_t index;
    while ((index = atomic_fetch_add(&pool->next, 1)) < pool->parts)
        pool->part(pool->context, index);
}

/* ---- Helpers ---- */

static unsigned long long loop_of(unsigned long long state) {
    return state / LOOP;
}

/* A loop that is open and not the one that was seen last; or the end. */
static bool is_news(struct pool *pool, unsigned long long seen) {
    unsigned long long state = atomic_load(&pool->state);
    return (state & OPEN && loop_of(state) != seen) || atomic_load(&pool->closing);
}

/* Whoever counts as a sleeper before he looks is not missed by a caller that looks for sleepers
   after it has opened a loop. */
static void sleep_until_news(struct pool *pool, unsigned long long seen) {
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!is_news(pool, seen))
        pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

static void wait_for_news(struct pool *pool, unsigned long long seen) {
    for (int i = 0; i < SPINS; i++) {
        if (is_news(pool, seen))
            return;
        pause_once();
    }
    sleep_until_news(pool, seen);
}

/* false: the loop has ended in the meantime. */
static bool join(struct pool *pool, unsigned long long *seen) {
    unsigned long long state = atomic_load(&pool->state);
    while (state & OPEN && loop_of(state) != *seen)
        if (atomic_compare_exchange_weak(&pool->state, &state, state + HELPER)) {
            *seen = loop_of(state);
            return true;
        }
    return false;
}

static void *help(void *argument) {
    struct pool *pool = argument;
    unsigned long long seen = 0;
    while (!atomic_load(&pool->closing)) {
        wait_for_news(pool, seen);
        if (!join(pool, &seen))
            continue;
        work(pool);
        atomic_fetch_sub(&pool->state, HELPER);
    }
    return NULL;
}

static void wake_sleepers(struct pool *pool) {
    if (atomic_load(&pool->sleepers) == 0)
        return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- The caller ---- */

static void open_loop(struct pool *pool, int64_t parts, void (*part)(void *, int64_t),
                      void *context) {
    pool->parts = parts;
    pool->part = part;
    pool->context = context;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->state, (loop_of(atomic_load(&pool->state)) + 1) * LOOP | OPEN);
    wake_sleepers(pool);
}

/* Whoever has not joined yet need not come. */
static void end_loop(struct pool *pool) {
    atomic_fetch_and(&pool->state, ~(unsigned long long)OPEN);
    for (int i = 0; atomic_load(&pool->state) % OPEN != 0; i++)
        if (i < SPINS)
            pause_once();
        else
            sched_yield();
}

void pool_for(void *data, int64_t parts, void (*part)(void *context, int64_t index),
              void *context) {
    struct pool *pool = data;
    if (pool->started == 0 || parts < 2) {
        for (int64_t i = 0; i < parts; i++)
            part(context, i);
        return;
    }
    open_loop(pool, parts, part, context);
    work(pool);
    end_loop(pool);
}

/* A part for each thread, none of which ends before all have begun. */
static void meet(void *context, int64_t index) {
    struct pool *pool = context;
    (void)index;
    atomic_fetch_add(&pool->awake, 1);
    for (int i = 0; atomic_load(&pool->awake) <= pool->started; i++)
        if (i < SPINS)
            pause_once();
        else
            sched_yield();
}

void pool_wake(struct pool *pool) {
    atomic_store(&pool->awake, 0);
    pool_for(pool, pool->started + 1, meet, pool);
}

struct pool *pool_open(int threads) {
    struct pool *pool = aligned_alloc(LINE, sizeof *pool);
    if (pool == NULL)
        return NULL;
    *pool = (struct pool){.threads = threads};
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    for (int i = 1; i < threads && i < MOST_THREADS; i++)
        if (pthread_create(&pool->helpers[pool->started], NULL, help, pool) == 0)
            pool->started++;
    return pool;
}

void pool_close(struct pool *pool) {
    if (pool == NULL)
        return;
    atomic_store(&pool->closing, true);
    wake_sleepers(pool);
    while (pool->started > 0)
        pthread_join(pool->helpers[--pool->started], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

int pool_threads(const struct pool *pool) {
    return pool->threads;
}
