/* The handlers of a pack's specs.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "ffi.h"
#include "generators.h"

const struct handler *handler_of(const struct spec *spec) {
    return generator_of(spec)->handler;
}

void handler_name(const struct pack *pack, size_t at, char name[HANDLER_SIZE]) {
    const char *own = pack->specs->items[at].name;
    if (own[0])
        snprintf(name, HANDLER_SIZE, "%s_ffi_%s", pack->name, own);
    else
        snprintf(name, HANDLER_SIZE, "%s_ffi_%zu", pack->name, at);
}

bool check_handlers(const struct pack *pack, struct error *error) {
    int count = 0;
    for (size_t i = 0; i < pack->specs->count; i++) {
        const struct spec *spec = &pack->specs->items[i];
        if (handler_of(spec) == NULL)
            continue;
        count++;
        if (!handler_of(spec)->check(spec, error))
            return false;
    }
    return count > 0 || fail(error, EXIT_USER,
                             "--ffi: no spec can have a handler; accepted: "
                             "stablehlo.gather, stablehlo.scatter");
}
