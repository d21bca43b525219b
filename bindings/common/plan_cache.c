/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PLANS = 512, MOST_THREADS = 256 };

struct cached_plan {
    struct cached_plan *next;
    kvmill_plan *plan; /* NULL: the key has no plan */
    unsigned char key[];
};

/* ---- The cache ---- */

void plan_cache_open(struct plan_cache *cache, size_t key_size, plan_cache_make make, void *data) {
    *cache = (struct plan_cache){.key_size = key_size, .make = make, .data = data};
    pthread_mutex_init(&cache->mutex, NULL);
}

static const struct cached_plan *find(const struct plan_cache *cache, const void *key) {
    const struct cached_plan *cached = cache->first;
    while (cached != NULL && memcmp(cached->key, key, cache->key_size) != 0)
        cached = cached->next;
    return cached;
}

static kvmill_status lacks_memory(kvmill_error *error) {
    if (error != NULL)
        snprintf(error->message, sizeof error->message,
                 "out of memory for a plan, or one too many; accepted: %d that differ", MOST_PLANS);
    return KVMILL_E_MEMORY;
}

static kvmill_status add(struct plan_cache *cache, const void *key,
                         const struct cached_plan **found, kvmill_error *error) {
    struct cached_plan *cached =
        cache->count < MOST_PLANS ? malloc(sizeof *cached + cache->key_size) : NULL;
    if (cached == NULL)
        return lacks_memory(error);
    kvmill_status status = cache->make(cache->data, key, &cached->plan, error);
    if (status != KVMILL_OK) {
        free(cached);
        return status;
    }
    memcpy(cached->key, key, cache->key_size);
    cached->next = cache->first;
    cache->first = cached;
    cache->count++;
    *found = cached;
    return KVMILL_OK;
}

kvmill_status plan_cache_find(struct plan_cache *cache, const void *key, const kvmill_plan **plan,
                              kvmill_error *error) {
    kvmill_status status = KVMILL_OK;
    pthread_mutex_lock(&cache->mutex);
    const struct cached_plan *cached = find(cache, key);
    if (cached == NULL)
        status = add(cache, key, &cached, error);
    *plan = status == KVMILL_OK ? cached->plan : NULL;
    pthread_mutex_unlock(&cache->mutex);
    return status;
}

void plan_cache_clear(struct plan_cache *cache) {
    while (cache->first != NULL) {
        struct cached_plan *cached = cache->first;
        cache->first = cached->next;
        kvmill_plan_destroy(cached->plan);
        free(cached);
    }
    cache->count = 0;
}

/* ---- Plans ---- */

int plan_threads(void) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors < 1 ? 1 : processors > MOST_THREADS ? MOST_THREADS : (int)processors;
}

kvmill_plan_options plan_options_of(const struct packs *packs) {
    kvmill_plan_options options;
    kvmill_plan_options_init(&options, sizeof options);
    options.packs = packs->pack;
    options.pack_count = packs->count;
    options.threads = plan_threads();
    return options;
}

const char *plan_least_isa(void) {
    return kvmill_isa_name(1);
}
