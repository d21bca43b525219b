/* Keeps compiled packs for later runs, in a directory that other users cannot change.

   The directory $XDG_CACHE_HOME/kvmill, or $HOME/.cache/kvmill, has a subdirectory for each pack,
   named after the first digits of its key.  It contains the compiled files, and a stamp with the
   whole key and the library's size and hash.  A library is used if all of these match, and if
   everything belongs to the effective user and only that user may write to it.  Otherwise the pack
   is compiled again.  If other users may write to the directory itself, a temporary directory is
   used instead.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_PACK_CACHE_H
#define KVMILL_TOOLS_PACK_CACHE_H

#include "../base/output.h"
#include "scratch.h"

struct pack_cache {
    char *path;
    int directory;
    struct scratch scratch; /* the temporary directory, if used */
};

bool pack_cache_open(struct pack_cache *cache, struct error *error);
void pack_cache_close(struct pack_cache *cache);

/* Returns a descriptor of lib<name>.so, with verified contents, or -1 after an error.  The library
   is taken from the cache, or built if that takes at most `seconds` (build_time.h). */
int pack_cache_library(const struct pack_cache *cache, const struct output *output,
                       const char *name, double seconds, struct error *error);

/* Returns the path of the library in the cache, to be freed, or NULL after an error.  Refuses a
   temporary directory, where the library would not stay. */
char *pack_cache_keep(const struct pack_cache *cache, const struct output *output, const char *name,
                      struct error *error);

#endif
