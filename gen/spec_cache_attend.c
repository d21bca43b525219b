/* CacheAttend in spec files.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/cache_attend.h"
#include "attend_family.h"
#include "spec_families.h"
#include "spec_keys.h"

static void *part(struct spec *spec, int number) {
    (void)number;
    return &spec->cache_attend;
}

static bool find_geometry(const struct spec *spec, struct kvmill_cache_geometry *geometry,
                          struct error *error) {
    kvmill_error reason;
    return kvmill_cache_attend_check(&spec->cache_attend, geometry, &reason) == KVMILL_OK ||
           fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
}

static bool check(const struct spec *spec, struct error *error) {
    struct kvmill_cache_geometry geometry;
    return find_geometry(spec, &geometry, error);
}

static bool complete(const struct json_place *place, struct spec *spec, struct error *error) {
    (void)place;
    if (!check(spec, error))
        return false;
    spec->cache_attend = kvmill_cache_attend_resolve(&spec->cache_attend);
    return true;
}

/* Ranges and positions of rows may say what only kernels with a mask can do: both kinds, always. */
static bool kernels(const struct spec *spec, const struct isa *isa, struct kernel_list *list,
                    struct error *error) {
    struct kvmill_cache_geometry geometry;
    bool done = find_geometry(spec, &geometry, error);
    for (int masked = 0; done && masked < 2; masked++) {
        const struct kvmill_attend_shape shape =
            kvmill_cache_attend_shape(&spec->cache_attend, &geometry, masked);
        done = attend_kernels(&shape, geometry.ratio, isa, list, error);
    }
    return done;
}

const struct spec_family cache_attend_specs = {
    .part = part,
    .complete = complete,
    .write = spec_write_attributes,
    .check = check,
    .kernels = kernels,
    .without_kernels = "no family of kernels takes its types",
};
