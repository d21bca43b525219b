/* A cache of plans, each created once.  The key of a plan contains everything that it depends on.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_PLAN_CACHE_H
#define KVMILL_BINDINGS_PLAN_CACHE_H

#include <pthread.h>
#include <stdbool.h>

#include "loaded_packs.h"

/* Makes the plan of a key.  KVMILL_OK with a NULL plan: the key has no plan, and the cache keeps
   this.  Errors are not kept. */
typedef kvmill_status (*plan_cache_make)(void *data, const void *key, kvmill_plan **plan,
                                         kvmill_error *error);

struct cached_plan;

/* A static cache is {.mutex = PTHREAD_MUTEX_INITIALIZER, .key_size = ..., .make = ...}. */
struct plan_cache {
    pthread_mutex_t mutex;
    size_t key_size;
    plan_cache_make make;
    void *data; /* argument of make */
    struct cached_plan *first;
    int count;
};

void plan_cache_open(struct plan_cache *cache, size_t key_size, plan_cache_make make, void *data);

/* Finds or makes the plan of a key, which lasts until the cache is cleared.  Any thread.
   KVMILL_E_MEMORY: out of memory, or a new key when the cache has 512 plans. */
kvmill_status plan_cache_find(struct plan_cache *cache, const void *key, const kvmill_plan **plan,
                              kvmill_error *error);

/* Destroys the plans, which no thread may use any more. */
void plan_cache_clear(struct plan_cache *cache);

/* Returns options with these packs, for plan_threads threads. */
kvmill_plan_options plan_options_of(const struct packs *packs);

/* Returns the number of processors, at most 256. */
int plan_threads(void);

/* Returns a value for options.least_isa: below it, an engine's own code is faster than kvmill's. */
const char *plan_least_isa(void);

#endif
