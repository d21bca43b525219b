/* CacheAttend in spec files.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/cache_attend.h"
#include "spec_keys.h"

static void *cache_attend_part(struct spec *spec, int number) {
    (void)number;
    return &spec->cache_attend;
}

bool cache_attend_geometry(const struct spec *spec, struct kvmill_cache_geometry *geometry,
                           struct error *error) {
    kvmill_error reason;
    return kvmill_cache_attend_check(&spec->cache_attend, geometry, &reason) == KVMILL_OK ||
           fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
}

static bool check_cache_attend(const struct spec *spec, struct error *error) {
    struct kvmill_cache_geometry geometry;
    return cache_attend_geometry(spec, &geometry, error);
}

static bool complete_cache_attend(const struct json_place *place, struct spec *spec,
                                  struct error *error) {
    (void)place;
    if (!check_cache_attend(spec, error))
        return false;
    spec->cache_attend = kvmill_cache_attend_resolve(&spec->cache_attend);
    return true;
}

const struct spec_family cache_attend_specs = {
    .part = cache_attend_part,
    .complete = complete_cache_attend,
    .check = check_cache_attend,
    .specialises = true,
};
