/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include "common.h"

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>

/* ---- Refusals ---- */

enum { NAME_SIZE = 1024 };

#define NAME_OF(format, name)                                                                      \
    do {                                                                                           \
        va_list arguments;                                                                         \
        va_start(arguments, format);                                                               \
        vsnprintf(name, NAME_SIZE, format, arguments);                                             \
        va_end(arguments);                                                                         \
    } while (0)

kvmill_status status_named(const char *name) {
    for (int status = KVMILL_OK; status <= KVMILL_E_KERNEL; status++) {
        const char *known = kvmill_status_name((kvmill_status)status) + strlen("KVMILL_");
        if (strcmp(known, name) == 0 || (status != KVMILL_OK && strcmp(known + 2, name) == 0))
            return (kvmill_status)status;
    }
    bail_out("%s is no status", name);
}

bool ok_status(kvmill_status got, kvmill_status wanted, const kvmill_error *error,
               const char *words, const char *format, ...) {
    char name[NAME_SIZE];
    NAME_OF(format, name);
    const char *said = got == KVMILL_OK ? "" : error->message;
    bool right = got == wanted && (words == NULL || strstr(said, words) != NULL);
    if (!ok(right, "%s", name))
        diag("wanted %s \"%s\", got %s \"%s\"", kvmill_status_name(wanted), words ? words : "",
             kvmill_status_name(got), said);
    return right;
}

bool ok_failed(bool done, const struct error *error, int exit_code, const char *start,
               const char *words, const char *format, ...) {
    char name[NAME_SIZE];
    NAME_OF(format, name);
    start = start != NULL ? start : "";
    bool right = !done && error->exit_code == exit_code &&
                 strncmp(error->text, start, strlen(start)) == 0 &&
                 strstr(error->text, words) != NULL;
    if (!ok(right, "%s", name))
        diag("wanted %d %s...%s, got %s", exit_code, start, words, done ? "success" : error->text);
    return right;
}

bool ok_text(const char *got, const char *wanted, const char *format, ...) {
    char name[NAME_SIZE];
    NAME_OF(format, name);
    bool right = got != NULL && strcmp(got, wanted) == 0;
    if (!ok(right, "%s", name)) {
        diag("wanted %s", wanted);
        diag("got    %s", got != NULL ? got : "nothing");
    }
    return right;
}

/* ---- Files ---- */

enum { PATH_SIZE = 1024, PATHS = 8 };

static const char *join(const char *folder, const char *rest) {
    static char paths[PATHS][PATH_SIZE];
    static int last;
    last = (last + 1) % PATHS;
    if (snprintf(paths[last], PATH_SIZE, "%s/%s", folder, rest) >= PATH_SIZE)
        bail_out("a path that is too long: %s", rest);
    return paths[last];
}

const char *source_path(const char *format, ...) {
    char rest[NAME_SIZE];
    const char *srcdir = getenv("srcdir");
    NAME_OF(format, rest);
    return join(srcdir != NULL ? srcdir : KVMILL_SOURCEDIR, rest);
}

static char scratch[PATH_SIZE];

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)kind, (void)place;
    return remove(path);
}

static void remove_scratch(void) {
    nftw(scratch, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_folder(void) {
    const char *parent = getenv("TMPDIR");
    if (scratch[0] != '\0')
        return scratch;
    snprintf(scratch, sizeof scratch, "%s/kvmill_test.XXXXXX",
             parent != NULL && *parent != '\0' ? parent : P_tmpdir);
    if (mkdtemp(scratch) == NULL)
        bail_out("cannot make %s: %s", scratch, strerror(errno));
    atexit(remove_scratch);
    return scratch;
}

const char *scratch_path(const char *format, ...) {
    char rest[NAME_SIZE];
    NAME_OF(format, rest);
    return join(scratch_folder(), rest);
}

void write_bytes(const char *path, const void *bytes, size_t size) {
    FILE *stream = fopen(path, "wb");
    if (stream == NULL || fwrite(bytes, 1, size, stream) != size || fclose(stream) != 0)
        bail_out("cannot write %s: %s", path, strerror(errno));
}

void write_text(const char *path, const char *text) {
    write_bytes(path, text, strlen(text));
}

char *read_bytes(const char *path, size_t *size) {
    FILE *stream = fopen(path, "rb");
    if (stream == NULL || fseek(stream, 0, SEEK_END) != 0)
        bail_out("cannot read %s: %s", path, strerror(errno));
    size_t length = (size_t)ftell(stream);
    char *bytes = malloc(length + 1);
    rewind(stream);
    if (bytes == NULL || fread(bytes, 1, length, stream) != length)
        bail_out("cannot read %s: %s", path, strerror(errno));
    fclose(stream);
    bytes[length] = '\0';
    if (size != NULL)
        *size = length;
    return bytes;
}
