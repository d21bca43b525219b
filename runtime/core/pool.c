/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../defs/op_tables.h"
#include "../../ops/fail.h"
#include "../../ops/structs.h"
#include "processors.h"

enum { SPINS = 64, LINE = 64 };

/* How long a thread waits actively before it sleeps. */
static const int64_t patience = 50000; /* nanoseconds */

/* The state of the pool in one word: whether helpers may join the loop, how many have joined, and
   the loop's number. */
enum { HELPER = 1, OPEN = 1 << 16, LOOP = 1 << 17 };

struct kvmill_pool {
    _Alignas(LINE) atomic_ullong state;
    atomic_int seats;                 /* how many helpers may join */
    _Alignas(LINE) atomic_llong next; /* part of the loop */
    int64_t parts;
    void (*part)(void *context, int64_t index);
    void *context;
    _Alignas(LINE) atomic_int taken; /* by a run; an int, because riscv64 has no atomic bytes */
    atomic_int sleepers;
    atomic_bool closing;
    bool sleeps_at_once;
    int helpers;
    pid_t process;
    sem_t wake; /* not a lock: after fork, a child's lock could be held by a thread that it lacks */
    pthread_t helper[];
};

static void work(kvmill_pool *pool) {
    int64_t index;
    while ((index = atomic_fetch_add(&pool->next, 1)) < pool->parts)
        pool->part(pool->context, index);
}

/* ---- Waiting ---- */

static void pause_once(void) {
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static unsigned long long loop_of(unsigned long long state) {
    return state / LOOP;
}

/* Wait for a loop that is open and not the last one that was seen, or for the end of the pool. */
static bool is_news(kvmill_pool *pool, unsigned long long seen) {
    unsigned long long state = atomic_load(&pool->state);
    return (state & OPEN && loop_of(state) != seen) || atomic_load(&pool->closing);
}

static bool may_sleep(kvmill_pool *pool) {
    return pool->sleeps_at_once && !atomic_load(&pool->taken);
}

static bool look_for_news(kvmill_pool *pool, unsigned long long seen) {
    for (int64_t end = now() + patience; now() < end && !may_sleep(pool);)
        for (int i = 0; i < SPINS; i++) {
            if (is_news(pool, seen))
                return true;
            pause_once();
        }
    return false;
}

/* Take at most this many sleepers off the count, and wake as many. */
static int take_sleepers(kvmill_pool *pool, int most) {
    int sleepers = atomic_load(&pool->sleepers), taken;
    do
        taken = sleepers < most ? sleepers : most;
    while (taken > 0 &&
           !atomic_compare_exchange_weak(&pool->sleepers, &sleepers, sleepers - taken));
    return taken;
}

/* A thread counts itself as a sleeper before it looks for a loop, and a caller opens a loop before
   it looks for sleepers, so no loop is missed.  If the thread finds a loop after all, it takes a
   sleeper off the count.  If the count is 0, a caller has taken it and will post the semaphore. */
static void sleep_until_news(kvmill_pool *pool, unsigned long long seen) {
    while (!is_news(pool, seen)) {
        atomic_fetch_add(&pool->sleepers, 1);
        if (is_news(pool, seen) && take_sleepers(pool, 1) == 1)
            return;
        while (sem_wait(&pool->wake) != 0)
            ;
    }
}

/* ---- Helpers ---- */

/* Join a loop; false if it has no seat left, or has ended. */
static bool join(kvmill_pool *pool, unsigned long long *seen) {
    unsigned long long state = atomic_load(&pool->state);
    while (state & OPEN && loop_of(state) != *seen) {
        bool has_seat = (int)(state % OPEN) < atomic_load(&pool->seats);
        if (!atomic_compare_exchange_weak(&pool->state, &state, state + has_seat * HELPER))
            continue;
        *seen = loop_of(state);
        return has_seat;
    }
    return false;
}

static void *help(void *argument) {
    kvmill_pool *pool = argument;
    unsigned long long seen = 0;
    while (!atomic_load(&pool->closing)) {
        if (!look_for_news(pool, seen))
            sleep_until_news(pool, seen);
        if (!join(pool, &seen))
            continue;
        work(pool);
        atomic_fetch_sub(&pool->state, HELPER);
    }
    return NULL;
}

/* ---- The caller ---- */

static void wake(kvmill_pool *pool, int most) {
    for (int sleepers = take_sleepers(pool, most); sleepers > 0; sleepers--)
        sem_post(&pool->wake);
}

static void open_loop(kvmill_pool *pool, int helpers) {
    atomic_store(&pool->next, 0);
    atomic_store(&pool->seats, helpers);
    atomic_store(&pool->state, (loop_of(atomic_load(&pool->state)) + 1) * LOOP | OPEN);
    /* Threads that are awake join without being told. */
    wake(pool, helpers - (pool->helpers - atomic_load(&pool->sleepers)));
}

/* Close the loop to helpers that have not joined. */
static void end_loop(kvmill_pool *pool) {
    atomic_fetch_and(&pool->state, ~(unsigned long long)OPEN);
    for (int i = 0; atomic_load(&pool->state) % OPEN != 0; i++)
        if (i < SPINS * SPINS)
            pause_once();
        else
            sched_yield();
}

bool kvmill_pool_take(kvmill_pool *pool) {
    return pool->helpers > 0 && !atomic_exchange(&pool->taken, true);
}

void kvmill_pool_give(kvmill_pool *pool) {
    atomic_store(&pool->taken, false);
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

void kvmill_pool_loop(kvmill_pool *pool, int threads, int64_t parts,
                      void (*part)(void *context, int64_t index), void *context) {
    pool->parts = parts;
    pool->part = part;
    pool->context = context;
    open_loop(pool, (int)least(pool->helpers, least(threads, parts) - 1));
    work(pool);
    end_loop(pool);
}

void kvmill_pool_for(void *data, int64_t parts, void (*part)(void *context, int64_t index),
                     void *context) {
    kvmill_pool *pool = data;
    if (parts > 1 && pool != NULL && kvmill_pool_take(pool)) {
        kvmill_pool_loop(pool, kvmill_pool_threads(pool), parts, part, context);
        kvmill_pool_give(pool);
        return;
    }
    for (int64_t i = 0; i < parts; i++)
        part(context, i);
}

/* ---- From creation to the end ---- */

int kvmill_pool_threads(const kvmill_pool *pool) {
    return pool != NULL ? pool->helpers + 1 : 0;
}

bool kvmill_pool_sleeps(const kvmill_pool *pool) {
    return pool->sleeps_at_once;
}

/* Only glibc has an attribute for the processors of a thread that does not run yet. */
static int pin(pthread_t helper, int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)processor, &set);
    return pthread_setaffinity_np(helper, sizeof set, &set);
}

static int start(kvmill_pool *pool, int processor) {
    pthread_t *helper = &pool->helper[pool->helpers];
    int failure = pthread_create(helper, NULL, help, pool);
    if (failure != 0)
        return failure;
    pool->helpers++;
    return processor >= 0 ? pin(*helper, processor) : 0;
}

/* Helpers inherit a mask that blocks all signals.  *thread becomes the number of the last thread,
   which is the one that failed, if one did. */
static int start_all(kvmill_pool *pool, int threads, const struct processors *pinned, int *thread) {
    sigset_t all, before;
    int failure = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < threads && failure == 0; i++) {
        failure = start(pool, pinned != NULL ? pinned->number[i] : -1);
        *thread = i + 1;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}

static kvmill_pool *allocate(int threads, bool sleeps_at_once) {
    size_t size = sizeof(kvmill_pool) + (size_t)threads * sizeof(pthread_t);
    kvmill_pool *pool = aligned_alloc(LINE, (size + LINE - 1) / LINE * LINE);
    if (pool == NULL)
        return NULL;
    memset(pool, 0, size);
    pool->sleeps_at_once = sleeps_at_once;
    pool->process = getpid();
    sem_init(&pool->wake, 0, 0);
    return pool;
}

static kvmill_status take_options(const kvmill_pool_options *given, kvmill_pool_options *own,
                                  kvmill_error *error) {
    if (given != NULL)
        return kvmill_take_struct(&kvmill_pool_options_struct, "options", given, own, error);
    kvmill_op_init(&kvmill_pool_options_struct, own);
    return KVMILL_OK;
}

static kvmill_status check_threads(int threads, bool pinned, const struct processors *processors,
                                   kvmill_error *error) {
    if (threads < 0 || threads > KVMILL_MOST_THREADS)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "threads is %d; accepted: 0 to %d", threads,
                           (int)KVMILL_MOST_THREADS);
    if (pinned && threads > processors->count)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "threads is %d; accepted with options.pinned on this machine: 0 to %d",
                           threads, processors->count);
    return KVMILL_OK;
}

static kvmill_status create(int threads, const kvmill_pool_options *options,
                            const struct processors *processors, kvmill_pool **pool,
                            kvmill_error *error) {
    kvmill_pool *made = allocate(threads, options->sleeps_at_once != 0);
    if (made == NULL)
        return kvmill_fail(error, KVMILL_E_MEMORY, "out of memory");
    int thread, failure = start_all(made, threads, options->pinned ? processors : NULL, &thread);
    if (failure != 0) {
        kvmill_fail(error, KVMILL_E_MEMORY, "thread %d of %d cannot be started: %s", thread,
                    threads, strerror(failure));
        kvmill_pool_destroy(made);
        return KVMILL_E_MEMORY;
    }
    *pool = made;
    return kvmill_succeed(error);
}

kvmill_status kvmill_pool_create(int threads, const kvmill_pool_options *options,
                                 kvmill_pool **pool, kvmill_error *error) {
    struct processors processors = {0};
    kvmill_pool_options own;
    if (pool == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "pool is NULL");
    *pool = NULL;
    kvmill_status status = take_options(options, &own, error);
    if (status != KVMILL_OK)
        return status;
    if (threads == 0 || own.pinned)
        kvmill_find_processors(&processors);
    status = check_threads(threads, own.pinned, &processors, error);
    return status == KVMILL_OK
               ? create(threads > 0 ? threads : processors.cores, &own, &processors, pool, error)
               : status;
}

static void end_helpers(kvmill_pool *pool) {
    atomic_store(&pool->closing, true);
    wake(pool, pool->helpers);
    for (int i = 0; i < pool->helpers; i++)
        pthread_join(pool->helper[i], NULL);
    sem_destroy(&pool->wake);
}

void kvmill_pool_destroy(kvmill_pool *pool) {
    if (pool != NULL && pool->process == getpid())
        end_helpers(pool);
    free(pool);
}
