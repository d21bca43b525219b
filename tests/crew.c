/* SPDX-License-Identifier: Apache-2.0 */
#include "plans.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MOST_THREADS = 8 };

struct crew {
    void (*part)(void *context, int64_t index);
    void *context;
    int64_t parts;
    atomic_llong next;
};

/* Each thread has a first part of its own.  The counter is relaxed, so that it orders no accesses:
   otherwise a thread sanitizer would miss races between parts. */
static void work(struct crew *crew, int64_t part) {
    for (; part < crew->parts;
         part = atomic_fetch_add_explicit(&crew->next, 1, memory_order_relaxed))
        crew->part(crew->context, part);
}

/* ---- Threads ---- */

/* Threads stay: a thread sanitizer maps megabytes for each new thread. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t begins, ends;
    struct crew *crew; /* of the threads that are running */
    int started, busy;
    bool called[MOST_THREADS];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .begins = PTHREAD_COND_INITIALIZER,
          .ends = PTHREAD_COND_INITIALIZER};

static void *serve(void *number) {
    int64_t mine = (int64_t)(intptr_t)number;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (!pool.called[mine])
            pthread_cond_wait(&pool.begins, &pool.lock);
        pool.called[mine] = false;
        pthread_mutex_unlock(&pool.lock);
        work(pool.crew, mine);
        pthread_mutex_lock(&pool.lock);
        if (--pool.busy == 0)
            pthread_cond_signal(&pool.ends);
    }
    return NULL;
}

static void start_thread(int64_t number) {
    pthread_t thread;
    must(pthread_create(&thread, NULL, serve, (void *)(intptr_t)number) == 0, "no thread");
    pthread_detach(thread);
}

/* Calls the threads; the caller's is thread 0. */
static void call_threads(struct crew *crew, int threads) {
    pthread_mutex_lock(&pool.lock);
    must(pool.busy == 0, "a crew within a crew");
    pool.crew = crew;
    pool.busy = threads - 1;
    for (int t = 1; t < threads; t++)
        pool.called[t] = true;
    for (; pool.started < pool.busy; pool.started++)
        start_thread(pool.started + 1);
    pthread_cond_broadcast(&pool.begins);
    pthread_mutex_unlock(&pool.lock);
}

static void await_threads(void) {
    pthread_mutex_lock(&pool.lock);
    while (pool.busy > 0)
        pthread_cond_wait(&pool.ends, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

/* KVMILL_TEST_THREADS replaces the number of threads, for thread sanitizers. */
static int crew_size(int threads) {
    const char *wanted = getenv("KVMILL_TEST_THREADS");
    return wanted != NULL && *wanted != '\0' ? atoi(wanted) : threads;
}

void crew_share(int threads, int64_t parts, void (*part)(void *context, int64_t index),
                void *context) {
    threads = crew_size(threads);
    if (threads < 1 || threads > MOST_THREADS)
        bail_out("%d threads; accepted: 1 to %d", threads, (int)MOST_THREADS);
    if (parts < threads)
        threads = (int)parts; /* more threads would have no parts */
    struct crew crew = {.part = part, .context = context, .parts = parts, .next = threads};
    if (threads > 1)
        call_threads(&crew, threads);
    work(&crew, 0);
    if (threads > 1)
        await_threads();
}

/* ---- Phases ---- */

struct phase {
    const kvmill_call *call;
    int64_t *order;
};

static void run_part(void *context, int64_t index) {
    const struct phase *phase = context;
    kvmill_part(phase->call, phase->order[index]);
}

static void run_phase(const kvmill_call *call, int threads, struct dice *dice) {
    int64_t parts = kvmill_parts(call);
    struct phase phase = {call, malloc((size_t)(parts + 1) * sizeof *phase.order)};
    dice_order(dice, phase.order, parts);
    crew_share(threads, parts, run_part, &phase);
    free(phase.order);
}

kvmill_status run_counting_parts(const kvmill_plan *plan, const DLTensor *const *tensors,
                                 void *workspace, int threads, struct dice *dice, int64_t *most,
                                 kvmill_error *error) {
    kvmill_call call;
    kvmill_status status =
        kvmill_begin(&call, plan, tensors, kvmill_plan_tensor_count(plan), workspace, error);
    if (status != KVMILL_OK)
        return status;
    do {
        *most = kvmill_parts(&call) > *most ? kvmill_parts(&call) : *most;
        run_phase(&call, threads, dice);
    } while (kvmill_next(&call));
    return KVMILL_OK;
}

kvmill_status run_in_parts(const kvmill_plan *plan, const DLTensor *const *tensors, void *workspace,
                           int threads, struct dice *dice, kvmill_error *error) {
    int64_t most = 0;
    if (threads == 0)
        return kvmill_run(plan, tensors, kvmill_plan_tensor_count(plan), workspace, error);
    return run_counting_parts(plan, tensors, workspace, threads, dice, &most, error);
}

/* The unchanged workspace of a refused call.  The next call gets it if the size is the same:
   filling megabytes with noise took most of the time of tests of refusals. */
static _Thread_local struct fence untouched;

/* ThreadSanitizer does not notice the end of a block, and maps its notes about every block's bytes
   again.  With it, a thread keeps its block, which may be larger than the plan's workspace. */
static struct fence *open_room(struct fence *own, size_t size) {
    struct dice dice = dice_for("workspace");
#ifdef __SANITIZE_THREAD__
    static _Thread_local struct fence kept;
    own = &kept;
    if (kept.pages != NULL && kept.size >= size)
        return own;
    fence_close(own);
#endif
    if (untouched.pages != NULL && untouched.size == size) {
        *own = untouched;
        untouched = (struct fence){.pages = NULL};
    } else {
        fence_open(own, size, 0, FENCE_ABOVE, &dice);
    }
    return own;
}

static void close_room(struct fence *own, kvmill_status status) {
    if (own->pages == NULL || status == KVMILL_OK) {
        fence_close(own);
    } else {
        fence_close(&untouched);
        untouched = *own;
    }
}

kvmill_status run_with_workspace(const kvmill_plan *plan, const DLTensor *const *tensors,
                                 int threads, struct dice *dice, kvmill_error *error) {
    struct fence own = {.pages = NULL}, *room;
    int64_t where;
    room = open_room(&own, (kvmill_plan_workspace_size(plan) + 63) / 64 * 64);
    kvmill_status status = run_in_parts(plan, tensors, room->data, threads, dice, error);
    if (!fence_is_intact(room, &where))
        bail_out("byte %" PRId64 " of the workspace's %zu was written", where, room->size);
    close_room(&own, status);
    return status;
}

static void share(void *threads, int64_t parts, void (*part)(void *context, int64_t index),
                  void *context) {
    crew_share(*(int *)threads, parts, part, context);
}

kvmill_status run_on_crew(const kvmill_plan *plan, const DLTensor *const *tensors, void *workspace,
                          int threads, kvmill_error *error) {
    return kvmill_run_parallel(plan, tensors, kvmill_plan_tensor_count(plan), workspace, share,
                               &threads, error);
}
