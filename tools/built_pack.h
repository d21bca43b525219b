/* Packs that are generated, compiled and loaded when they are needed, and kept for the next time.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_BUILT_PACK_H
#define KVMILL_TOOLS_BUILT_PACK_H

#include <kvmill.h>

#include "../gen/pack.h"

struct built_pack {
    void *library; /* of dlopen */
    int file;      /* that it was loaded from; below 0 where that does not matter */
    const kvmill_pack *pack;
};

/* Load what is kept of the same files (pack_cache.h), else build it. */
bool built_pack_make(const struct pack *pack, struct built_pack *built, struct error *error);

/* The same, unless building takes longer than `seconds`. */
bool built_pack_make_within(const struct pack *pack, double seconds, struct built_pack *built,
                            struct error *error);

/* Load lib<name>.so, whose pack is kvmill_pack_<name>. */
bool built_pack_load(const char *path, struct built_pack *built, struct error *error);
void built_pack_free(struct built_pack *built);

#endif
