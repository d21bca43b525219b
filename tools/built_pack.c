/* SPDX-License-Identifier: Apache-2.0 */
#include "built_pack.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../gen/hash.h"
#include "make.h"
#include "remove_tree.h"

/* Text of its own; NULL, with the error filled, when out of memory. */
__attribute__((format(printf, 2, 3))) static char *print(struct error *error, const char *format,
                                                         ...) {
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length >= 0)
        return text;
    out_of_memory(error);
    return NULL;
}

/* ---- Loading ---- */

static bool find_pack(const char *path, const char *symbol, struct built_pack *built,
                      struct error *error) {
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

bool built_pack_load(const char *path, struct built_pack *built, struct error *error) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    name += strncmp(name, "lib", 3) == 0 ? 3 : 0;
    char *symbol = print(error, "kvmill_pack_%.*s", (int)strcspn(name, "."), name);
    bool done = symbol != NULL && find_pack(path, symbol, built, error);
    free(symbol);
    return done;
}

void built_pack_free(struct built_pack *built) {
    if (built->library != NULL)
        dlclose(built->library);
    *built = (struct built_pack){0};
}

/* ---- The cache ---- */

static uint64_t hash_output(const struct output *output) {
    static const char *const variables[] = {"CC", "CFLAGS", "CPPFLAGS", "LDFLAGS"};
    uint64_t state = HASH_START;
    for (size_t i = 0; i < output->count; i++) {
        state = hash_bytes(state, output->files[i].name, strlen(output->files[i].name) + 1);
        state = hash_bytes(state, output->files[i].text.data, output->files[i].text.length);
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        state = hash_bytes(state, value ? value : "", value ? strlen(value) + 1 : 1);
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

/* NULL after a failure. */
static char *cache_directory(struct error *error) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    if (cache != NULL && *cache == '/')
        path = print(error, "%s/kvmill", cache);
    else if (home != NULL && *home)
        path = print(error, "%s/.cache/kvmill", home);
    else
        fail(error, EXIT_ENVIRONMENT,
             "neither XDG_CACHE_HOME nor HOME is set; one must be, to "
             "say where compiled kernels go");
    if (path != NULL && make_directories(path, error))
        return path;
    free(path);
    return NULL;
}

/* ---- Builds that were killed: <hash>.<process>/ and <hash>.<process>.log ---- */

enum { HASH_DIGITS = 16, ABANDONED_SECONDS = 3600 };

/* A process of another machine that shares the cache is not seen here: time must have passed. */
static bool is_abandoned(int cache, const char *name) {
    struct stat status;
    char *end;
    if (strspn(name, "0123456789abcdef") != HASH_DIGITS || name[HASH_DIGITS] != '.')
        return false;
    long process = strtol(name + HASH_DIGITS + 1, &end, 10);
    if (process <= 0 || process > INT32_MAX || (*end != '\0' && strcmp(end, ".log") != 0))
        return false;
    return kill((pid_t)process, 0) != 0 && errno == ESRCH &&
           fstatat(cache, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           status.st_mtime < time(NULL) - ABANDONED_SECONDS;
}

static void sweep(const char *cache) {
    DIR *stream = opendir(cache);
    struct dirent *entry;
    struct error ignored;
    while (stream != NULL && (entry = readdir(stream)) != NULL)
        if (is_abandoned(dirfd(stream), entry->d_name)) {
            char *path = print(&ignored, "%s/%s", cache, entry->d_name);
            if (path != NULL)
                remove_tree(path);
            free(path);
        }
    if (stream != NULL)
        closedir(stream);
}

/* ---- Signals that end a build: what it wrote is taken away first ---- */

static const int ending[] = {SIGHUP, SIGINT, SIGTERM};
enum { ENDING = sizeof ending / sizeof *ending };

static volatile sig_atomic_t caught;

static void remember(int number) {
    caught = number;
}

/* One that is ignored stays so. */
static void catch_signals(struct sigaction before[ENDING]) {
    const struct sigaction ours = {.sa_handler = remember};
    for (int i = 0; i < ENDING; i++) {
        sigaction(ending[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(ending[i], &ours, NULL);
    }
}

static void obey_signals(const struct sigaction before[ENDING]) {
    for (int i = 0; i < ENDING; i++)
        sigaction(ending[i], &before[i], NULL);
    if (caught)
        raise(caught);
}

/* ---- Building: in a directory of our own, which then becomes the cache's ---- */

struct build {
    char *target;     /* the directory in the cache */
    char *library;    /* what is wanted of it */
    char *ours, *log; /* where it is made, and what make says */
};

static bool name_build(const char *cache, const struct output *output, const char *name,
                       struct build *build, struct error *error) {
    long process = (long)getpid();
    uint64_t state = hash_output(output);
    build->target = print(error, "%s/%016" PRIx64, cache, state);
    build->library = print(error, "%s/%016" PRIx64 "/lib%s.so", cache, state, name);
    build->ours = print(error, "%s/%016" PRIx64 ".%ld", cache, state, process);
    build->log = print(error, "%s/%016" PRIx64 ".%ld.log", cache, state, process);
    return build->target && build->library && build->ours && build->log;
}

static void free_build(struct build *build) {
    free(build->target);
    free(build->library);
    free(build->ours);
    free(build->log);
}

static bool is_there(const struct build *build) {
    return access(build->library, R_OK) == 0;
}

/* Another process may have been first; what is in the way without a library is of no use. */
static bool move_to_target(const struct build *build, struct error *error) {
    if (rename(build->ours, build->target) == 0 || is_there(build))
        return true;
    remove_tree(build->target);
    return rename(build->ours, build->target) == 0 || is_there(build) ||
           fail_errno(error, "put compiled kernels there", build->target);
}

static bool make_and_move(const struct output *output, const struct build *build,
                          struct error *error) {
    int written;
    bool done = pack_write(output, build->ours, &written, error) && !caught &&
                run_make(build->ours, build->log, error) && move_to_target(build, error);
    if (done || caught)
        unlink(build->log);
    remove_tree(build->ours); /* unless it has moved */
    return done;
}

static bool make_in_cache(const struct output *output, const char *cache, const struct build *build,
                          struct error *error) {
    struct sigaction before[ENDING];
    if (is_there(build))
        return true;
    sweep(cache);
    catch_signals(before);
    bool done = make_and_move(output, build, error);
    obey_signals(before);
    return done;
}

bool built_pack_make(const struct pack *pack, struct built_pack *built, struct error *error) {
    struct output output = {0};
    struct build build = {0};
    char *cache = NULL;
    bool done = pack_files(pack, &output, error) && (cache = cache_directory(error)) != NULL &&
                name_build(cache, &output, pack->name, &build, error) &&
                make_in_cache(&output, cache, &build, error) &&
                built_pack_load(build.library, built, error);
    free_build(&build);
    free(cache);
    output_free(&output);
    return done;
}
