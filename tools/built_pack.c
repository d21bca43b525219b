/* SPDX-License-Identifier: Apache-2.0 */
#include "built_pack.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "make.h"

/* ---- Loading ---- */

bool built_pack_load(const char *path, struct built_pack *built, struct error *error) {
    char symbol[128];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    name += strncmp(name, "lib", 3) == 0 ? 3 : 0;
    snprintf(symbol, sizeof symbol, "kvmill_pack_%.*s", (int)strcspn(name, "."), name);
    built->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (built->library == NULL)
        return fail(error, EXIT_USER, "%s: cannot load: %s", path, dlerror());
    built->pack = dlsym(built->library, symbol);
    if (built->pack != NULL)
        return true;
    built_pack_free(built);
    return fail(error, EXIT_USER,
                "%s: has no %s; accepted: the library of a pack under its own name", path, symbol);
}

void built_pack_free(struct built_pack *built) {
    if (built->library != NULL)
        dlclose(built->library);
    *built = (struct built_pack){0};
}

/* ---- The cache ---- */

/* FNV-1a, 64 bits. */
static uint64_t hash(uint64_t state, const char *data, size_t length) {
    for (size_t i = 0; i < length; i++)
        state = (state ^ (unsigned char)data[i]) * 0x100000001b3;
    return state;
}

static uint64_t hash_output(const struct output *output) {
    static const char *const variables[] = {"CC", "CFLAGS", "CPPFLAGS", "LDFLAGS"};
    uint64_t state = 0xcbf29ce484222325;
    for (size_t i = 0; i < output->count; i++) {
        state = hash(state, output->files[i].name, strlen(output->files[i].name) + 1);
        state = hash(state, output->files[i].text.data, output->files[i].text.length);
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        state = hash(state, value ? value : "", value ? strlen(value) + 1 : 1);
    }
    return state;
}

static bool make_directories(char *path, struct error *error) {
    for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0777);
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST ||
           fail_errno(error, "make the directory", path);
}

static bool cache_directory(char path[2048], struct error *error) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL && *cache == '/')
        snprintf(path, 2048, "%s/kvmill", cache);
    else if (home != NULL && *home)
        snprintf(path, 2048, "%s/.cache/kvmill", home);
    else
        return fail(error, EXIT_ENVIRONMENT,
                    "neither XDG_CACHE_HOME nor HOME is set; one must be, to "
                    "say where compiled kernels go");
    return make_directories(path, error);
}

/* ---- Building: in a directory of our own, which then becomes the cache's ---- */

static void remove_build(const struct output *output, const char *directory, const char *library) {
    char path[4096];
    for (size_t i = 0; i < output->count; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, output->files[i].name);
        unlink(path);
        char *dot = strrchr(path, '.');
        if (dot != NULL && strcmp(dot, ".c") == 0) {
            strcpy(dot, ".o");
            unlink(path);
        }
    }
    static const char *const rest[] = {".so", ".a"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s%s", directory, library, rest[i]);
        unlink(path);
    }
    rmdir(directory);
}

static bool build(const struct output *output, const char *library, const char *target,
                  struct error *error) {
    char ours[2300], log[2400];
    int written;
    snprintf(ours, sizeof ours, "%s.%ld", target, (long)getpid());
    snprintf(log, sizeof log, "%s.log", target);
    bool done = pack_write(output, ours, &written, error) && run_make(ours, log, error);
    if (done)
        unlink(log);
    if (done && rename(ours, target) == 0)
        return true;
    remove_build(output, ours, library);
    return done; /* another process was first */
}

static bool make_in_cache(const struct output *output, const char *name, char path[2400],
                          struct error *error) {
    char cache[2048], target[2200], library[80];
    if (!cache_directory(cache, error))
        return false;
    snprintf(target, sizeof target, "%s/%016" PRIx64, cache, hash_output(output));
    snprintf(library, sizeof library, "lib%s", name);
    snprintf(path, 2400, "%s/%s.so", target, library);
    return access(path, R_OK) == 0 || build(output, library, target, error);
}

bool built_pack_make(const struct pack *pack, struct built_pack *built, struct error *error) {
    struct output output = {0};
    char path[2400];
    bool done = pack_files(pack, &output, error) &&
                make_in_cache(&output, pack->name, path, error) &&
                built_pack_load(path, built, error);
    output_free(&output);
    return done;
}
