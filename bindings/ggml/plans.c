/* SPDX-License-Identifier: Apache-2.0 */
#include "plans.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "packs.h"

enum { MOST_PLANS = 512, MOST_THREADS = 256 };

static struct {
    kvmill_cache_attend op;
    kvmill_plan *plan; /* NULL: without kernels */
} known[MOST_PLANS];
static int count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int plans_threads(void) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors < 1 ? 1 : processors > MOST_THREADS ? MOST_THREADS : (int)processors;
}

static kvmill_plan *make(const kvmill_cache_attend *op) {
    const struct packs *packs = packs_open();
    kvmill_plan_options options;
    kvmill_plan *plan;
    kvmill_plan_options_init(&options, sizeof options);
    options.packs = packs->pack;
    options.pack_count = packs->count;
    options.threads = plans_threads();
    options.least_isa = kvmill_isa_name(1); /* ggml is faster than portable kernels and plain C */
    kvmill_plan_cache_attend(op, &options, &plan, NULL);
    return plan;
}

static kvmill_plan *find(const kvmill_cache_attend *op) {
    for (int i = 0; i < count; i++)
        if (memcmp(&known[i].op, op, sizeof *op) == 0)
            return known[i].plan;
    if (count == MOST_PLANS)
        return NULL;
    known[count].op = *op;
    return known[count++].plan = make(op);
}

const kvmill_plan *plans_find(const kvmill_cache_attend *op) {
    pthread_mutex_lock(&mutex);
    const kvmill_plan *plan = find(op);
    pthread_mutex_unlock(&mutex);
    return plan;
}

/* When ggml unloads the library. */
static void __attribute__((destructor)) forget(void) {
    while (count > 0)
        kvmill_plan_destroy(known[--count].plan);
}
