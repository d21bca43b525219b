/* The packs that calls may name.

   SPDX-License-Identifier: Apache-2.0 */
#include "jax_calls.h"

enum { MOST_PACKS = 64 };

/* An entry is complete when `name` is set, and then does not change. */
static struct {
    const kvmill_pack *pack;
    const char *name;
} packs[MOST_PACKS];

/* Lets calls name this pack; name and pack must last as long as the process.  Returns 0 if another
   pack has the name, or if there are too many.  One thread at a time. */
int kvmill_jax_add(const char *name, const kvmill_pack *pack);

int kvmill_jax_add(const char *name, const kvmill_pack *pack) {
    for (int i = 0; i < MOST_PACKS; i++) {
        if (packs[i].name != NULL && strcmp(packs[i].name, name) == 0)
            return packs[i].pack == pack;
        if (packs[i].name != NULL)
            continue;
        packs[i].pack = pack;
        __atomic_store_n(&packs[i].name, name, __ATOMIC_RELEASE);
        return 1;
    }
    return 0;
}

kvmill_status jax_find_pack(const char *name, const kvmill_pack **pack, kvmill_error *error) {
    *pack = NULL;
    for (int i = 0; i < MOST_PACKS && name[0] != '\0'; i++) {
        const char *known = __atomic_load_n(&packs[i].name, __ATOMIC_ACQUIRE);
        if (known == NULL)
            break;
        if (strcmp(known, name) == 0)
            *pack = packs[i].pack;
    }
    if (*pack != NULL || name[0] == '\0')
        return KVMILL_OK;
    snprintf(error->message, sizeof error->message,
             "pack \"%s\" is not loaded in this process; accepted: one that kvmill.jax.use has",
             name);
    return KVMILL_E_ATTRIBUTE;
}
