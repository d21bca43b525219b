/* SPDX-License-Identifier: Apache-2.0 */
#include "loaded_packs.h"

#include <dlfcn.h>
#include <kvmill_kernel.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Receives messages about paths; origin: the setting that named the paths. */
struct listener {
    const char *origin;
    packs_refuse refuse;
    void *data;
};

static void tell(const struct listener *listener, const char *format, const char *what) {
    char words[256], reason[384];
    snprintf(words, sizeof words, format, what);
    snprintf(reason, sizeof reason, "%s: %s", listener->origin, words);
    listener->refuse(listener->data, reason);
}

/* ---- Files ---- */

/* Sets symbol to kvmill_pack_NAME for .../libNAME.so.  Returns false if the path has another
   form. */
static bool symbol_of(const char *path, char *symbol, size_t size) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    if (length < 7 || strncmp(name, "lib", 3) != 0 || strcmp(name + length - 3, ".so") != 0)
        return false;
    return snprintf(symbol, size, "kvmill_pack_%.*s", (int)length - 6, name + 3) < (int)size;
}

static const kvmill_pack *load(const char *path, const struct listener *listener) {
    char symbol[256];
    if (!symbol_of(path, symbol, sizeof symbol)) {
        tell(listener, "\"%.120s\"; accepted: paths of the form .../libNAME.so", path);
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const kvmill_pack *pack = library != NULL ? dlsym(library, symbol) : NULL;
    if (pack != NULL)
        return pack;
    tell(listener, "%s", dlerror());
    if (library != NULL)
        dlclose(library);
    return NULL;
}

/* ---- The list ---- */

/* Packs with kernels of other versions are refused, because no plan could use them. */
static bool is_usable(const kvmill_pack *pack) {
    return pack->abi >= KVMILL_OLDEST_KERNEL_ABI && pack->abi <= KVMILL_KERNEL_ABI;
}

void packs_add(struct packs *packs, const kvmill_pack *pack, packs_refuse refuse, void *data) {
    char reason[256] = "";
    if (!is_usable(pack))
        snprintf(reason, sizeof reason,
                 "pack %.80s has kernel ABI %u; accepted: %d to %d: generate the pack again",
                 pack->name, pack->abi, KVMILL_OLDEST_KERNEL_ABI, KVMILL_KERNEL_ABI);
    else if (packs->count == MOST_PACKS)
        snprintf(reason, sizeof reason, "pack %.80s is one too many; accepted: at most %d",
                 pack->name, MOST_PACKS);
    if (reason[0] != '\0')
        refuse(data, reason);
    else
        packs->pack[packs->count++] = pack;
}

void packs_add_file(struct packs *packs, const char *path, const char *origin, packs_refuse refuse,
                    void *data) {
    const struct listener listener = {origin, refuse, data};
    const kvmill_pack *pack = load(path, &listener);
    if (pack != NULL)
        packs_add(packs, pack, refuse, data);
}

void packs_add_named(struct packs *packs, const char *paths, const char *origin,
                     packs_refuse refuse, void *data) {
    const struct listener listener = {origin, refuse, data};
    char *copy = strdup(paths), *rest = copy, *path;
    if (copy == NULL)
        tell(&listener, "out of memory for %s", "paths");
    while (copy != NULL && (path = strsep(&rest, ":")) != NULL)
        if (*path != '\0')
            packs_add_file(packs, path, origin, refuse, data);
    free(copy);
}
