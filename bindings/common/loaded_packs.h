/* The packs that a program uses at run time: those that paths name, and its own.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_COMMON_LOADED_PACKS_H
#define KVMILL_BINDINGS_COMMON_LOADED_PACKS_H

#include <kvmill.h>

enum { MOST_PACKS = 16 };

struct packs {
    const kvmill_pack *pack[MOST_PACKS];
    size_t count;
};

/* Called if a pack cannot be used, with the reason, a line without its end. */
typedef void (*packs_refuse)(void *data, const char *reason);

/* Adds a pack, which must outlive the list. */
void packs_add(struct packs *packs, const kvmill_pack *pack, packs_refuse refuse, void *data);

/* Loads the pack of libNAME.so and adds it.  origin: the setting that named the path, for messages.
   The library stays loaded until the process ends.  One thread at a time. */
void packs_add_file(struct packs *packs, const char *path, const char *origin, packs_refuse refuse,
                    void *data);

/* Does the same for paths of libNAME.so that are separated by colons. */
void packs_add_named(struct packs *packs, const char *paths, const char *origin,
                     packs_refuse refuse, void *data);

#endif
