/* SPDX-License-Identifier: Apache-2.0 */
#include "failing.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "inject.h"
#include "tap.h"

enum { WAY_LENGTH = 12 }; /* longer ways that begin the same are one */

const char *const kind_names[KINDS] = {"allocations", "system calls", "interrupted calls"};
const int kind_reasons[KINDS] = {ENOMEM, EIO, EINTR};

static bool counts; /* whether calls are a command's */
static enum kind counted;
static long calls, number_to_fail;
static void *failed_at[WAY_LENGTH]; /* with its callers */

static bool fails(enum kind kind) {
    if (!counts || inside || kind != counted)
        return false;
    calls++;
    if (number_to_fail == 0)
        note_place(calls);
    if (calls != number_to_fail)
        return false;
    inside = true;
    backtrace(failed_at, WAY_LENGTH);
    inside = false;
    errno = kind_reasons[kind];
    return true;
}

static void *note(void *data, const void *caller) {
    if (counts && data != NULL)
        add_block(data, caller);
    return data;
}

#define CALLER __builtin_return_address(0)

/* Defines the function that our code calls instead of NAME: it fails, or calls NAME. */
#define WRAP(NAME, PARAMETERS, ...)                                                                \
    void *__real_##NAME PARAMETERS;                                                                \
    void *__wrap_##NAME PARAMETERS;                                                                \
    void *__wrap_##NAME PARAMETERS {                                                               \
        return fails(MEMORY) ? NULL : note(__real_##NAME(__VA_ARGS__), CALLER);                    \
    }
WRAP(malloc, (size_t size), size)
WRAP(calloc, (size_t count, size_t size), count, size)
WRAP(strdup, (const char *text), text)
WRAP(strndup, (const char *text, size_t size), text, size)

void *__real_realloc(void *data, size_t size);
void *__wrap_realloc(void *data, size_t size);
void *__wrap_realloc(void *data, size_t size) {
    if (fails(MEMORY))
        return NULL;
    forget_block(data);
    return note(__real_realloc(data, size), CALLER);
}

void __real_free(void *data);
void __wrap_free(void *data);
void __wrap_free(void *data) {
    forget_block(data);
    __real_free(data);
}

int __real_vasprintf(char **text, const char *format, va_list arguments);
static int print_noted(char **text, const char *format, va_list arguments) {
    *text = NULL;
    int length = fails(MEMORY) ? -1 : __real_vasprintf(text, format, arguments);
    note(*text, CALLER);
    return length;
}

int __wrap_vasprintf(char **text, const char *format, va_list arguments);
int __wrap_vasprintf(char **text, const char *format, va_list arguments) {
    return print_noted(text, format, arguments);
}

int __wrap_asprintf(char **text, const char *format, ...);
int __wrap_asprintf(char **text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = print_noted(text, format, arguments);
    va_end(arguments);
    return length;
}

FILE *__real_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);
FILE *__wrap_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);
FILE *__wrap_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions) {
    return fails(MEMORY) ? NULL : __real_fopencookie(cookie, mode, functions);
}

/* Define the function that our code calls instead of NAME: it fails, or calls NAME. */
#define WRAP_IF(IF, TYPE, FAILURE, NAME, PARAMETERS, ...)                                          \
    TYPE __real_##NAME PARAMETERS;                                                                 \
    TYPE __wrap_##NAME PARAMETERS;                                                                 \
    TYPE __wrap_##NAME PARAMETERS {                                                                \
        return IF ? FAILURE : __real_##NAME(__VA_ARGS__);                                          \
    }
#define WRAP_CALL(...) WRAP_IF(fails(SYSTEM), __VA_ARGS__)
#define WRAP_SLOW(...) WRAP_IF(fails(SYSTEM) || fails(INTERRUPT), __VA_ARGS__)
WRAP_CALL(FILE *, NULL, fdopen, (int file, const char *mode), file, mode)
WRAP_CALL(FILE *, NULL, fopen, (const char *path, const char *mode), path, mode)
WRAP_SLOW(ssize_t, -1, read, (int file, void *data, size_t size), file, data, size)
WRAP_SLOW(ssize_t, -1, write, (int file, const void *data, size_t size), file, data, size)
WRAP_SLOW(ssize_t, -1, pread, (int file, void *data, size_t size, off_t at), file, data, size, at)
WRAP_SLOW(pid_t, -1, waitpid, (pid_t child, int *status, int options), child, status, options)
WRAP_CALL(int, -1, fstat, (int file, struct stat *status), file, status)
WRAP_CALL(int, -1, fstatfs, (int file, struct statfs *status), file, status)
WRAP_CALL(int, -1, fsync, (int file), file)
WRAP_CALL(int, -1, fchmod, (int file, mode_t mode), file, mode)
WRAP_CALL(int, -1, rename, (const char *from, const char *to), from, to)
WRAP_CALL(off_t, -1, lseek, (int file, off_t at, int from), file, at, from)
WRAP_CALL(int, -1, memfd_create, (const char *name, unsigned flags), name, flags)
WRAP_CALL(pid_t, -1, fork, (void), )
WRAP_CALL(int, EIO, posix_spawnp,
          (pid_t * child, const char *program, const posix_spawn_file_actions_t *actions,
           const posix_spawnattr_t *attributes, char *const *arguments, char *const *environment),
          child, program, actions, attributes, arguments, environment)
WRAP_CALL(int, -1, mkostemp, (char *name, int flags), name, flags)
WRAP_CALL(char *, NULL, mkdtemp, (char *name), name)
WRAP_CALL(int, -1, mkdir, (const char *path, mode_t mode), path, mode)
WRAP_CALL(int, -1, pipe, (int ends[2]), ends)
WRAP_CALL(int, -1, pipe2, (int ends[2], int flags), ends, flags)

#define WRAP_OPEN(NAME, PARAMETERS, ...)                                                           \
    int __real_##NAME PARAMETERS;                                                                  \
    int __wrap_##NAME PARAMETERS;                                                                  \
    int __wrap_##NAME PARAMETERS {                                                                 \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;                      \
        va_end(arguments);                                                                         \
        return fails(SYSTEM) ? -1 : __real_##NAME(__VA_ARGS__, flags, mode);                       \
    }
WRAP_OPEN(open, (const char *path, int flags, ...), path)
WRAP_OPEN(openat, (int directory, const char *path, int flags, ...), directory, path)

/* ---- Memory of SQLite ---- */

static sqlite3_mem_methods usual;

static void *take_for_sqlite(int size) {
    return fails(MEMORY) ? NULL : usual.xMalloc(size);
}

static void *resize_for_sqlite(void *data, int size) {
    return fails(MEMORY) ? NULL : usual.xRealloc(data, size);
}

__attribute__((constructor)) static void watch_sqlite(void) {
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual);
    sqlite3_mem_methods watched = usual;
    watched.xMalloc = take_for_sqlite;
    watched.xRealloc = resize_for_sqlite;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &watched);
}

/* ---- Counting ---- */

void calls_start(enum kind kind, long number) {
    if (block_count > 0)
        memset(blocks, 0, sizeof blocks);
    block_count = 0;
    counted = kind;
    number_to_fail = number;
    calls = 0;
    way_length = WAY_LENGTH;
    way_start = kind + 1;
    if (number == 0)
        place_count = 0;
    counts = true;
}

struct calls calls_stop(void) {
    counts = false;
    return (struct calls){calls, block_count};
}

int calls_noted(const long **numbers) {
    *numbers = places;
    return (int)place_count;
}

/* Prints places as addr2line takes them. */
static void show_places(const char *what, void *const *found, int count) {
    char words[24 * WAY_LENGTH] = "";
    size_t length = 0;
    Dl_info info;
    for (int i = 0; i < count; i++)
        if (dladdr(found[i], &info) != 0)
            length += (size_t)snprintf(words + length, sizeof words - length, " %#zx",
                                       (size_t)((uintptr_t)found[i] - (uintptr_t)info.dli_fbase));
    diag("%s:%s", what, words);
}

void calls_explain(void) {
    show_places("it fails at", failed_at, WAY_LENGTH);
    for (size_t i = 0; i < MOST_BLOCKS; i++)
        if (blocks[i].data != NULL)
            show_places("left by", (void *const *)&blocks[i].caller, 1);
}
