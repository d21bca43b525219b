/* A cache of plans, each created once.  The key of a plan contains everything that it depends on.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_PLAN_CACHE_H
#define KVMILL_BINDINGS_PLAN_CACHE_H

#include <pthread.h>
#include <stdbool.h>

#include "packs.h"

/* Make the plan of a key.  KVMILL_OK with a plan of NULL: there is none, which is remembered; an
   error is not. */
typedef kvmill_status (*plan_cache_make)(void *data, const void *key, kvmill_plan **plan,
                                         kvmill_error *error);

struct cached_plan;

/* A static one is {.mutex = PTHREAD_MUTEX_INITIALIZER, .key_size = ..., .make = ...}. */
struct plan_cache {
    pthread_mutex_t mutex;
    size_t key_size;
    plan_cache_make make;
    void *data; /* of make */
    struct cached_plan *first;
    int count;
};

void plan_cache_open(struct plan_cache *cache, size_t key_size, plan_cache_make make, void *data);

/* The plan of the key, which lasts until the cache is cleared.  Any thread.  KVMILL_E_MEMORY: out
   of memory, or 512 plans are there and this is another. */
kvmill_status plan_cache_find(struct plan_cache *cache, const void *key, const kvmill_plan **plan,
                              kvmill_error *error);

/* Destroy the plans.  No thread uses them any more. */
void plan_cache_clear(struct plan_cache *cache);

/* Options with packs, for as many threads as there are processors. */
kvmill_plan_options plan_options_of(const struct packs *packs);

/* How many these are, at most 256. */
int plan_threads(void);

/* For options.least_isa: what an engine has of its own is faster than portable kernels and plain C.
 */
const char *plan_least_isa(void);

#endif
