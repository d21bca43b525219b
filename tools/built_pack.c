/* SPDX-License-Identifier: Apache-2.0 */
#include "built_pack.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack_cache.h"

static bool find_pack(const char *path, const char *name, int length, struct built_pack *built,
                      struct error *error) {
    char *symbol;
    if (asprintf(&symbol, "kvmill_pack_%.*s", length, name) < 0)
        return out_of_memory(error);
    built->pack = dlsym(built->library, symbol);
    if (built->pack == NULL)
        fail(error, EXIT_USER, "%s: has no %s; accepted: the library of a pack under its own name",
             path, symbol);
    free(symbol);
    return built->pack != NULL;
}

/* Opens a library.  Without a slash in its path, dlopen would search only the system's
   directories. */
static void *open_here(const char *path) {
    char *here;
    if (strchr(path, '/') != NULL || asprintf(&here, "./%s", path) < 0)
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *library = dlopen(here, RTLD_NOW | RTLD_LOCAL);
    free(here);
    return library;
}

/* Loads the library at `path`.  The first `length` characters of `name` are the pack's name. */
static bool load(const char *path, const char *name, int length, struct built_pack *built,
                 struct error *error) {
    built->library = open_here(path);
    if (built->library == NULL)
        return fail(error, EXIT_USER, "%s: cannot load: %s", path, dlerror());
    if (find_pack(path, name, length, built, error))
        return true;
    dlclose(built->library);
    built->library = NULL;
    return false;
}

const struct input_kind pack_library_input = {.words = "the library of a pack", .most = 1 << 30};

bool built_pack_load(const char *path, struct built_pack *built, struct error *error) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    name += strncmp(name, "lib", 3) == 0 ? 3 : 0;
    *built = (struct built_pack){.file = -1};
    return input_check(path, &pack_library_input, error) &&
           load(path, name, (int)strcspn(name, "."), built, error);
}

/* Loads the library of a file descriptor.  The descriptor stays open: the loader identifies
   libraries by path, and the path contains the descriptor's number. */
static bool load_file(int file, const char *name, struct built_pack *built, struct error *error) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    *built = (struct built_pack){.file = file};
    if (load(path, name, (int)strlen(name), built, error))
        return true;
    error->exit_code = EXIT_ENVIRONMENT; /* kvmill built it, not the user */
    close(file);
    return false;
}

void built_pack_free(struct built_pack *built) {
    if (built->library != NULL) {
        dlclose(built->library);
        if (built->file >= 0)
            close(built->file);
    }
    *built = (struct built_pack){0};
}

bool built_pack_make(const struct pack *pack, struct built_pack *built, struct error *error) {
    return built_pack_make_within(pack, INFINITY, built, error);
}

bool built_pack_make_within(const struct pack *pack, double seconds, struct built_pack *built,
                            struct error *error) {
    struct output output = {0};
    struct pack_cache cache = {.directory = -1};
    int library = -1;
    if (pack_files(pack, &output, error) && pack_cache_open(&cache, error))
        library = pack_cache_library(&cache, &output, pack->name, seconds, error);
    bool done = library >= 0 && load_file(library, pack->name, built, error);
    pack_cache_close(&cache);
    output_free(&output);
    return done;
}
