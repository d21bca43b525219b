/* SPDX-License-Identifier: Apache-2.0 */
#include "best_isa.h"

#include <stdlib.h>
#include <string.h>

#include <kvmill.h>

const char *best_isa(void) {
    const char *best = "scalar", *name, *cap = getenv("KVMILL_ISA");
    for (size_t i = 0; (name = kvmill_isa_name(i)) != NULL; i++) {
        if (kvmill_isa_usable(name))
            best = name;
        if (cap != NULL && strcmp(cap, name) == 0)
            break;
    }
    return best;
}
