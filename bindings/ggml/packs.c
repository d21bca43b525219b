/* SPDX-License-Identifier: Apache-2.0 */
#include "packs.h"

#include <dlfcn.h>
#include <kvmill_kernel.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const kvmill_pack kvmill_pack_kvmill_ggml;

/* ---- Files ---- */

/* kvmill_pack_NAME of .../libNAME.so; false: it is not named so. */
static bool symbol_of(const char *path, char *symbol, size_t size) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    if (length < 7 || strncmp(name, "lib", 3) != 0 || strcmp(name + length - 3, ".so") != 0)
        return false;
    return snprintf(symbol, size, "kvmill_pack_%.*s", (int)length - 6, name + 3) < (int)size;
}

static const kvmill_pack *load(const char *path) {
    char symbol[256];
    if (!symbol_of(path, symbol, sizeof symbol)) {
        fprintf(stderr,
                "kvmill: KVMILL_PACKS: \"%s\"; accepted: paths of the form .../libNAME.so\n", path);
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const kvmill_pack *pack = library != NULL ? dlsym(library, symbol) : NULL;
    if (pack != NULL)
        return pack;
    fprintf(stderr, "kvmill: KVMILL_PACKS: %s\n", dlerror());
    if (library != NULL)
        dlclose(library);
    return NULL;
}

/* ---- The list ---- */

/* Otherwise no plan could be made with any pack. */
static bool is_usable(const kvmill_pack *pack) {
    if (pack->abi >= KVMILL_OLDEST_KERNEL_ABI && pack->abi <= KVMILL_KERNEL_ABI)
        return true;
    fprintf(stderr,
            "kvmill: pack %.80s has kernel ABI %u; accepted: %d to %d: generate the pack again\n",
            pack->name, pack->abi, KVMILL_OLDEST_KERNEL_ABI, KVMILL_KERNEL_ABI);
    return false;
}

static void add(struct packs *packs, const kvmill_pack *pack) {
    if (pack != NULL && packs->count < MOST_PACKS && is_usable(pack))
        packs->pack[packs->count++] = pack;
}

static void add_named(struct packs *packs, const char *paths) {
    char *copy = strdup(paths), *rest = copy, *path;
    while (copy != NULL && (path = strsep(&rest, ":")) != NULL)
        if (*path != '\0')
            add(packs, load(path));
    free(copy);
}

const struct packs *packs_open(void) {
    static struct packs packs;
    const char *paths = getenv("KVMILL_PACKS");
    if (packs.count > 0)
        return &packs;
    if (paths != NULL)
        add_named(&packs, paths);
    add(&packs, &kvmill_pack_kvmill_ggml);
    return &packs;
}
