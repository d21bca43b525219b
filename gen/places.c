/* SPDX-License-Identifier: Apache-2.0 */
#include "places.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TREE_SIZE = 4000, PLACE_SIZE = 4096 };

static struct {
    char data[PLACE_SIZE], modules[PLACE_SIZE], headers[PLACE_SIZE], libraries[PLACE_SIZE];
    char packs[PLACE_SIZE], pack[PLACE_SIZE + 32];
    char cflags[PLACE_SIZE + 2], libs[2 * PLACE_SIZE + 32];
    bool has_headers;
} places;

/* Finds the directory of the running program, without a final slash; "" if it is unknown. */
static void find_program(char directory[TREE_SIZE]) {
    ssize_t length = readlink("/proc/self/exe", directory, TREE_SIZE - 1);
    directory[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(directory, '/');
    if (slash != NULL)
        *slash = '\0';
}

/* Whether the file belongs to whom the command belongs, to root or to this user: nobody else may
   say where templates are. */
static bool is_trusted(FILE *file) {
    struct stat own, other;
    return stat("/proc/self/exe", &own) == 0 && fstat(fileno(file), &other) == 0 &&
           (other.st_uid == own.st_uid || other.st_uid == 0 || other.st_uid == geteuid());
}

/* Reads the source tree from the file that configure wrote beside a command that is not installed.
   The command contains neither path, so that it is the same wherever it was built. */
static bool find_source(const char *program, char source[TREE_SIZE]) {
    char path[PLACE_SIZE];
    snprintf(path, sizeof path, "%s/build-tree", program);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    bool found = is_trusted(file) && fgets(source, TREE_SIZE, file) != NULL && *source == '/';
    fclose(file);
    source[strcspn(source, "\n")] = '\0';
    return found;
}

/* Returns the length of the common start of two paths, up to and including a slash. */
static size_t common_length(const char *a, const char *b) {
    size_t common = 0;
    for (size_t i = 0; a[i] != '\0' && a[i] == b[i]; i++)
        if (a[i] == '/')
            common = i + 1;
    return common;
}

/* Finds an installed directory at the configured distance from the program, so that the whole tree
   can be moved.  If the program's directory does not have the configured name, the program was
   moved alone, and the configured directory is used. */
static void find_place(const char *program, const char *configured, char place[PLACE_SIZE]) {
    size_t common = common_length(KVMILL_BINDIR, configured), length = strlen(program);
    const char *rest = &KVMILL_BINDIR[common];
    size_t own = strlen(rest);
    bool moved = length > own && program[length - own - 1] == '/' &&
                 strcmp(program + length - own, rest) == 0;
    if (moved)
        snprintf(place, PLACE_SIZE, "%.*s%s", (int)(length - own), program, configured + common);
    else
        snprintf(place, PLACE_SIZE, "%s", configured);
}

static void find_installed(const char *program) {
    find_place(program, KVMILL_PKGDATADIR, places.data);
    find_place(program, KVMILL_PKGLIBDIR, places.modules);
    find_place(program, KVMILL_INCLUDEDIR, places.headers);
    find_place(program, KVMILL_LIBDIR, places.libraries);
    find_place(program, KVMILL_LIBDIR, places.packs);
}

static void find_built(const char *program, const char *source) {
    snprintf(places.data, PLACE_SIZE, "%s", source);
    snprintf(places.modules, PLACE_SIZE, "%s/.libs", program);
    snprintf(places.headers, PLACE_SIZE, "%s/include", source);
    snprintf(places.libraries, PLACE_SIZE, "%s/.libs", program);
    snprintf(places.packs, PLACE_SIZE, "%s/generated/kvmill_default", program);
}

/* Whether neither make nor a shell treats any character of the path specially. */
static bool is_plain(const char *path) {
    return path[strspn(path,
                       "/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+")] ==
           '\0';
}

static void set_options(void) {
    char header[PLACE_SIZE + 16];
    snprintf(header, sizeof header, "%s/kvmill_ffi.h", places.headers);
    places.has_headers =
        is_plain(header) && is_plain(places.libraries) && access(header, R_OK) == 0;
    snprintf(places.cflags, sizeof places.cflags, "-I%s", places.headers);
    snprintf(places.libs, sizeof places.libs, "-L%s -Wl,-rpath,%s -lkvmill", places.libraries,
             places.libraries);
}

static void find_all(void) {
    char program[TREE_SIZE], source[TREE_SIZE] = "";
    find_program(program);
    if (find_source(program, source))
        find_built(program, source);
    else
        find_installed(program);
    set_options();
    snprintf(places.pack, sizeof places.pack, "%s/libkvmill_default.so", places.packs);
}

static void find_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_all);
}

const char *data_directory(void) {
    const char *directory = getenv("KVMILL_DATADIR");
    find_once();
    return directory != NULL && *directory != '\0' ? directory : places.data;
}

const char *module_directory(void) {
    find_once();
    return places.modules;
}

const char *default_pack(void) {
    find_once();
    return places.pack;
}

const char *library_cflags(void) {
    find_once();
    return places.has_headers ? places.cflags : NULL;
}

const char *library_libs(void) {
    find_once();
    return places.has_headers ? places.libs : NULL;
}
