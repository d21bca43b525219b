/* Generates, compiles and loads packs when they are needed, and keeps them for the next time.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_BUILT_PACK_H
#define KVMILL_TOOLS_BUILT_PACK_H

#include <kvmill.h>

#include "../base/input.h"
#include "../gen/pack.h"

struct built_pack {
    void *library; /* from dlopen */
    int file;      /* the library's file descriptor, or -1 if loaded by path */
    const kvmill_pack *pack;
};

/* Loads the compiled pack of the same files from the cache (pack_cache.h), or builds it. */
bool built_pack_make(const struct pack *pack, struct built_pack *built, struct error *error);

/* built_pack_make, but fails if building would take longer than `seconds`. */
bool built_pack_make_within(const struct pack *pack, double seconds, struct built_pack *built,
                            struct error *error);

extern const struct input_kind pack_library_input;

/* Loads lib<name>.so.  The pack in it must be kvmill_pack_<name>. */
bool built_pack_load(const char *path, struct built_pack *built, struct error *error);
void built_pack_free(struct built_pack *built);

#endif
