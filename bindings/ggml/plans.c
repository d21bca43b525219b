/* SPDX-License-Identifier: Apache-2.0 */
#include "plans.h"

#include <stdio.h>
#include <stdlib.h>

#include "../common/plan_cache.h"

extern const kvmill_pack kvmill_pack_kvmill_ggml;

/* ---- Packs ---- */

static void say(void *data, const char *reason) {
    (void)data;
    fprintf(stderr, "kvmill: %s\n", reason);
}

/* Opened at the first call; one that cannot be used is left out.  One thread at a time. */
static const struct packs *open_packs(void) {
    static struct packs packs;
    const char *paths = getenv("KVMILL_PACKS");
    if (packs.count > 0)
        return &packs;
    if (paths != NULL)
        packs_add_named(&packs, paths, "KVMILL_PACKS", say, NULL);
    packs_add(&packs, &kvmill_pack_kvmill_ggml, say, NULL);
    return &packs;
}

/* ---- Plans ---- */

static kvmill_status make(void *data, const void *op, kvmill_plan **plan, kvmill_error *error) {
    kvmill_plan_options options = plan_options_of(open_packs());
    (void)data;
    (void)error;
    options.least_isa = plan_least_isa();
    kvmill_plan_cache_attend(op, &options, plan, NULL);
    return KVMILL_OK;
}

static struct plan_cache cache = {
    .mutex = PTHREAD_MUTEX_INITIALIZER, .key_size = sizeof(kvmill_cache_attend), .make = make};

const kvmill_plan *plans_find(const kvmill_cache_attend *op) {
    const kvmill_plan *plan;
    plan_cache_find(&cache, op, &plan, NULL);
    return plan;
}

/* When ggml unloads the library. */
static void __attribute__((destructor)) forget(void) {
    plan_cache_clear(&cache);
}
