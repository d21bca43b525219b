/* Reading keys that have several names, may be absent, and may be null.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_HF_CONFIG_KEY_H
#define KVMILL_IMPORT_HF_CONFIG_KEY_H

#include "../../base/json.h"

/* An integer of a config.json; the list of names ends with NULL. */
struct config_key {
    const char *names[10];
    int64_t least, most;
};

/* Returns the first member that has a value, else the first that is null, else the first name.  The
   others count as read, too. */
struct json_place config_find(const struct json_place *object, const char *const *names);

/* If absent or null: the fallback.  A fallback of 0 makes the key mandatory. */
bool config_required(const struct json_place *object, const struct config_key *key,
                     int64_t fallback, int64_t *value, struct error *error);

/* If absent: the fallback.  If null: 0, because null switches a class's default off. */
bool config_optional(const struct json_place *object, const struct config_key *key,
                     int64_t fallback, int64_t *value, struct error *error);

/* The same for real numbers that are at least `least`. */
bool config_real(const struct json_place *object, const char *name, double least, double fallback,
                 double *value, struct error *error);

/* If absent or null: the fallback. */
bool config_flag(const struct json_place *object, const char *name, bool fallback, bool *value,
                 struct error *error);

#endif
