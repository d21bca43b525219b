/* SPDX-License-Identifier: Apache-2.0 */
#include "ggml_plans.h"

#include <stdio.h>
#include <stdlib.h>

#include "../common/plan_cache.h"

extern const kvmill_pack kvmill_pack_kvmill_ggml;

/* ---- Packs ---- */

static void say(void *data, const char *reason) {
    (void)data;
    fprintf(stderr, "kvmill: %s\n", reason);
}

static struct packs packs;

/* Leaves out packs that cannot be used. */
static void add_packs(void) {
    const char *paths = getenv("KVMILL_PACKS");
    if (paths != NULL)
        packs_add_named(&packs, paths, "KVMILL_PACKS", say, NULL);
    packs_add(&packs, &kvmill_pack_kvmill_ggml, say, NULL);
}

static const struct packs *open_packs(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, add_packs);
    return &packs;
}

/* ---- Plans ---- */

static kvmill_plan_options fast_options(void) {
    kvmill_plan_options options = plan_options_of(open_packs());
    options.least_isa = plan_least_isa();
    return options;
}

#define MAKE(NAME)                                                                                 \
    static kvmill_status make_##NAME(void *data, const void *op, kvmill_plan **plan,               \
                                     kvmill_error *error) {                                        \
        const kvmill_plan_options options = fast_options();                                        \
        (void)data, (void)error;                                                                   \
        kvmill_plan_##NAME(op, &options, plan, NULL);                                              \
        return KVMILL_OK;                                                                          \
    }
MAKE(cache_attend)
MAKE(write_rows)

#define CACHE(NAME)                                                                                \
    { .mutex = PTHREAD_MUTEX_INITIALIZER, .key_size = sizeof(kvmill_##NAME), .make = make_##NAME }
static struct plan_cache attends = CACHE(cache_attend), stores = CACHE(write_rows);

static const kvmill_plan *find(struct plan_cache *cache, const void *op) {
    const kvmill_plan *plan;
    plan_cache_find(cache, op, &plan, NULL);
    return plan;
}

const kvmill_plan *plans_find(const kvmill_cache_attend *op) {
    return find(&attends, op);
}

const kvmill_plan *plans_find_store(const kvmill_write_rows *op) {
    return find(&stores, op);
}

/* Runs when ggml unloads the library. */
static void __attribute__((destructor)) forget(void) {
    plan_cache_clear(&attends);
    plan_cache_clear(&stores);
}
