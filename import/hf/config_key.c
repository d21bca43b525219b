/* SPDX-License-Identifier: Apache-2.0 */
#include "config_key.h"

#include <stdio.h>

struct json_place config_find(const struct json_place *object, const char *const *names) {
    struct json_place best = json_member(object, names[0]);
    for (size_t i = 0; names[i] != NULL; i++) {
        struct json_place place = json_member(object, names[i]);
        if (!json_given(&best) &&
            (json_given(&place) || (best.value == NULL && place.value != NULL)))
            best = place;
    }
    return best;
}

static bool refuse_missing(const struct json_place *place, const struct config_key *key,
                           struct error *error) {
    char names[200];
    size_t at = 0;
    for (size_t i = 0; key->names[i] != NULL && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", key->names[i]);
    return json_fail(error, place, "is %s and its model_type has no default; accepted: one of %s",
                     place->value == NULL ? "missing" : "null", names);
}

bool config_required(const struct json_place *object, const struct config_key *key,
                     int64_t fallback, int64_t *value, struct error *error) {
    struct json_place place = config_find(object, key->names);
    if (json_given(&place))
        return json_get_integer(&place, key->least, key->most, value, error);
    *value = fallback;
    return fallback != 0 || refuse_missing(&place, key, error);
}

bool config_optional(const struct json_place *object, const struct config_key *key,
                     int64_t fallback, int64_t *value, struct error *error) {
    struct json_place place = config_find(object, key->names);
    if (json_given(&place))
        return json_get_integer(&place, key->least, key->most, value, error);
    *value = place.value == NULL ? fallback : 0;
    return true;
}

bool config_real(const struct json_place *object, const char *name, double least, double fallback,
                 double *value, struct error *error) {
    const double most = 1e9;
    struct json_place place = json_member(object, name);
    *value = place.value == NULL ? fallback : 0;
    if (!json_given(&place))
        return true;
    *value = json_number_value(place.value);
    return (json_is_number(place.value) && *value >= least && *value <= most) ||
           json_fail(error, &place, "is not usable; accepted: a number from %g to %g, or null",
                     least, most);
}

bool config_flag(const struct json_place *object, const char *name, bool fallback, bool *value,
                 struct error *error) {
    struct json_place place = json_member(object, name);
    *value = json_given(&place) ? json_is_true(place.value) : fallback;
    return !json_given(&place) || json_is_boolean(place.value) ||
           json_fail(error, &place, "is not a boolean; accepted: true, false or null");
}
