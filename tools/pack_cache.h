/* Keeps compiled packs for the next time, in a directory that nobody else can change.

   The directory $XDG_CACHE_HOME/kvmill, or $HOME/.cache/kvmill, has a subdirectory for each pack,
   named after the first digits of its key.  It contains what was compiled, and a stamp with the
   whole key and the library's size and hash.  A library is used if all of these are right, and if
   everything belongs to the effective user and only that user may write to it.  Otherwise the pack
   is compiled again.  If others may write to the directory itself, a temporary one is used instead.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_PACK_CACHE_H
#define KVMILL_TOOLS_PACK_CACHE_H

#include "../base/output.h"
#include "scratch.h"

struct pack_cache {
    char *path;
    int directory;
    struct scratch scratch; /* if that is what is used */
};

bool pack_cache_open(struct pack_cache *cache, struct error *error);
void pack_cache_close(struct pack_cache *cache);

/* The library lib<name>.so of the pack with these files: the one that is kept, else one that is
   built now, if that can be done in so many seconds (build_time.h).  A descriptor, whose contents
   were checked; below 0 after an error. */
int pack_cache_library(const struct pack_cache *cache, const struct output *output,
                       const char *name, double seconds, struct error *error);

/* The path of that library, which stays there: a temporary directory is refused.  The caller's;
   NULL after an error. */
char *pack_cache_keep(const struct pack_cache *cache, const struct output *output, const char *name,
                      struct error *error);

#endif
