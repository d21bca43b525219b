/* The packs that a program uses at run time: those that paths name, and its own.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_PACKS_H
#define KVMILL_BINDINGS_PACKS_H

#include <kvmill.h>

enum { MOST_PACKS = 16 };

struct packs {
    const kvmill_pack *pack[MOST_PACKS];
    size_t count;
};

/* Called with the reason, a line without its end, why a pack is left out. */
typedef void (*packs_refuse)(void *data, const char *reason);

/* Add a pack.  It must outlive the list. */
void packs_add(struct packs *packs, const kvmill_pack *pack, packs_refuse refuse, void *data);

/* Load the pack of a path of libNAME.so, and add it.  origin: where the path was said, for
   messages. It stays loaded until the process ends.  One thread at a time. */
void packs_add_file(struct packs *packs, const char *path, const char *origin, packs_refuse refuse,
                    void *data);

/* Load the packs of paths of libNAME.so, separated by colons, and add them, likewise. */
void packs_add_named(struct packs *packs, const char *paths, const char *origin,
                     packs_refuse refuse, void *data);

#endif
