/* SPDX-License-Identifier: Apache-2.0 */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- What a path names ---- */

enum { PATIENCE = 5, PIPE_FILE_SYSTEM = 0x50495045 /* PIPEFS_MAGIC of linux/magic.h */ };

static bool refuse_kind(const char *path, const char *is, const struct input_kind *kind,
                        struct error *error) {
    return fail(error, EXIT_USER, "%.600s: is %s; accepted: %s", path, is, kind->words);
}

/* Whether somebody writes to a FIFO.  The pipe of a shell has a writer, or had one, so that reading
   ends; it may take its time. */
static bool has_writer(int file) {
    struct pollfd waiting = {.fd = file, .events = POLLIN};
    struct statfs system;
    return (fstatfs(file, &system) == 0 && system.f_type == PIPE_FILE_SYSTEM) ||
           poll(&waiting, 1, 1000 * PATIENCE) > 0;
}

static bool check_fifo(const char *path, int file, const struct input_kind *kind,
                       struct error *error) {
    return has_writer(file) ||
           fail(error, EXIT_USER, "%.600s: nobody writes to this FIFO for %d s; accepted: %s", path,
                PATIENCE, kind->words);
}

static bool check_kind(const char *path, int file, mode_t mode, const struct input_kind *kind,
                       struct error *error) {
    if (S_ISREG(mode))
        return true;
    if (S_ISDIR(mode))
        return refuse_kind(path, "a directory", kind, error);
    if (!kind->streams || S_ISBLK(mode))
        return refuse_kind(path, "not a regular file", kind, error);
    return !S_ISFIFO(mode) || check_fifo(path, file, kind, error);
}

/* Makes reading wait for data, which opening must not do. */
static bool let_wait(int file) {
    int flags = fcntl(file, F_GETFL);
    return flags >= 0 && fcntl(file, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

/* Opens a file of the right kind, and of any size. */
static int open_kind(const char *path, const struct input_kind *kind, struct stat *status,
                     struct error *error) {
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 || fstat(file, status) != 0)
        fail_to_use(error, "read", path);
    else if (check_kind(path, file, status->st_mode, kind, error) &&
             (let_wait(file) || fail_to_use(error, "read", path)))
        return file;
    if (file >= 0)
        close(file);
    return -1;
}

/* ---- Size ---- */

static bool refuse_size(const char *path, const char *size, const struct input_kind *kind,
                        struct error *error) {
    bool gib = kind->most % (1 << 30) == 0;
    return fail(error, EXIT_USER, "%.600s: %s; accepted: %s of at most %" PRId64 " %s", path, size,
                kind->words, kind->most >> (gib ? 30 : 20), gib ? "GiB" : "MiB");
}

static bool check_size(const char *path, const struct stat *status, const struct input_kind *kind,
                       struct error *error) {
    char size[32];
    snprintf(size, sizeof size, "%" PRId64 " bytes", (int64_t)status->st_size);
    return kind->most == 0 || !S_ISREG(status->st_mode) || status->st_size <= kind->most ||
           refuse_size(path, size, kind, error);
}

int input_open(const char *path, const struct input_kind *kind, struct error *error) {
    struct stat status;
    int file = open_kind(path, kind, &status, error);
    if (file < 0 || check_size(path, &status, kind, error))
        return file;
    close(file);
    return -1;
}

bool input_check(const char *path, const struct input_kind *kind, struct error *error) {
    int file = input_open(path, kind, error);
    if (file >= 0)
        close(file);
    return file >= 0;
}

FILE *input_stream(const char *path, const struct input_kind *kind, struct error *error) {
    int file = input_open(path, kind, error);
    FILE *stream = file >= 0 ? fdopen(file, "rb") : NULL;
    if (file >= 0 && stream == NULL) {
        fail_to_use(error, "read", path);
        close(file);
    }
    return stream;
}

/* ---- Reading ---- */

/* A file that is being read. */
struct reading {
    const char *path;
    int file;
    struct text *text;
    size_t room; /* bytes that text->data has */
    bool ended;
};

static bool make_room(struct reading *reading, size_t room, struct error *error) {
    char *grown = room > reading->room ? realloc(reading->text->data, room) : reading->text->data;
    if (grown == NULL)
        return fail(error, EXIT_ENVIRONMENT, "%.600s: out of memory for %zu bytes", reading->path,
                    room);
    reading->text->data = grown;
    reading->room = room > reading->room ? room : reading->room;
    return true;
}

/* Appends what one read gives, up to `bytes` bytes. */
static bool read_some(struct reading *reading, size_t bytes, struct error *error) {
    struct text *text = reading->text;
    if (!make_room(reading, text->length + bytes + 1, error))
        return false;
    ssize_t got = TEMP_FAILURE_RETRY(read(reading->file, text->data + text->length, bytes));
    if (got < 0)
        return fail_to_use(error, "read", reading->path);
    reading->ended = got == 0;
    text->length += (size_t)got;
    text->data[text->length] = '\0';
    return true;
}

static bool read_begin(struct reading *reading, struct error *error) {
    bool done = true;
    while (done && !reading->ended && reading->text->length < INPUT_BEGIN)
        done = read_some(reading, INPUT_BEGIN - reading->text->length, error);
    return done;
}

/* Reads the rest.  Doubles the room, and stops a byte beyond the limit: a file may grow, and a
   stream has no size. */
static bool read_rest(struct reading *reading, const struct input_kind *kind, struct error *error) {
    enum { BLOCK = 1 << 16 };
    const size_t most = (size_t)kind->most, *length = &reading->text->length;
    char size[32];
    while (!reading->ended && *length <= most) {
        size_t left = most - *length + 1, room = reading->room - *length;
        size_t bytes = room > 1 ? room - 1 : *length > BLOCK ? *length : BLOCK;
        if (!read_some(reading, bytes < left ? bytes : left, error))
            return false;
    }
    snprintf(size, sizeof size, "more than %" PRId64 " bytes", kind->most);
    return *length <= most || refuse_size(reading->path, size, kind, error);
}

bool input_read(const char *path, const struct input_kind *kind, struct text *text,
                struct error *error) {
    struct stat status;
    int file = open_kind(path, kind, &status, error);
    if (file < 0)
        return false;
    struct reading reading = {.path = path, .file = file, .text = text};
    size_t size = S_ISREG(status.st_mode) ? (size_t)status.st_size : 0;
    bool done = read_begin(&reading, error) &&
                (kind->refuse == NULL || kind->refuse(path, text, error)) &&
                check_size(path, &status, kind, error) && make_room(&reading, size + 2, error) &&
                read_rest(&reading, kind, error);
    close(file);
    return done;
}
