/* SPDX-License-Identifier: Apache-2.0 */
#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MOST_THREADS = 256 };

struct loop {
    atomic_llong next;
    int64_t parts;
    void (*part)(void *context, int64_t index);
    void *context;
};

static void *work(void *argument) {
    struct loop *loop = argument;
    int64_t index;
    while ((index = atomic_fetch_add(&loop->next, 1)) < loop->parts)
        loop->part(loop->context, index);
    return NULL;
}

/* A thread that cannot be had is done without. */
void threads_for(void *data, int64_t parts, void (*part)(void *context, int64_t index),
                 void *context) {
    struct loop loop = {.parts = parts, .part = part, .context = context};
    pthread_t threads[MOST_THREADS];
    int64_t wanted = *(int *)data, started = 0;
    for (int64_t i = 1; i < wanted && i < parts && i < MOST_THREADS; i++)
        if (pthread_create(&threads[started], NULL, work, &loop) == 0)
            started++;
    work(&loop);
    while (started > 0)
        pthread_join(threads[--started], NULL);
}
