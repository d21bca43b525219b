/* SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

struct crew {
    void (*part)(void *context, int64_t index);
    void *context;
    int64_t parts;
    atomic_llong next;
};

static void *work(void *argument) {
    struct crew *crew = argument;
    int64_t part;
    while ((part = atomic_fetch_add(&crew->next, 1)) < crew->parts)
        crew->part(crew->context, part);
    return NULL;
}

/* Thread sanitizers see what they are shown. */
static int crew_size(int threads) {
    const char *wanted = getenv("KVMILL_TEST_THREADS");
    return wanted != NULL && *wanted != '\0' ? atoi(wanted) : threads;
}

void crew_share(int threads, int64_t parts, void (*part)(void *context, int64_t index),
                void *context) {
    enum { MOST_THREADS = 8 };
    pthread_t thread[MOST_THREADS];
    threads = crew_size(threads);
    if (threads < 1 || threads > MOST_THREADS)
        bail_out("%d threads; accepted: 1 to %d", threads, (int)MOST_THREADS);
    if (parts < threads)
        threads = (int)parts; /* the others would have nothing to do */
    struct crew crew = {.part = part, .context = context, .parts = parts};
    for (int t = 1; t < threads; t++)
        if (pthread_create(&thread[t - 1], NULL, work, &crew) != 0)
            bail_out("no thread");
    work(&crew);
    for (int t = 1; t < threads; t++)
        pthread_join(thread[t - 1], NULL);
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

void crew_run_phase(const kvmill_call *call, int threads, struct dice *dice) {
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
        crew_run_phase(&call, threads, dice);
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

kvmill_status run_with_workspace(const kvmill_plan *plan, const DLTensor *const *tensors,
                                 int threads, struct dice *dice, kvmill_error *error) {
    enum { CANARIES = 64 };
    size_t size = (kvmill_plan_workspace_size(plan) + 63) / 64 * 64;
    unsigned char *workspace = aligned_alloc(64, size + CANARIES), *end = workspace + size;
    memset(workspace, 0xa5, size + CANARIES);
    kvmill_status status = run_in_parts(plan, tensors, workspace, threads, dice, error);
    if (end[0] != 0xa5 || memcmp(end, end + 1, CANARIES - 1) != 0)
        bail_out("bytes after the workspace were written");
    free(workspace);
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
