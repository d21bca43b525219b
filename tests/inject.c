/* A library to preload: call NUMBER of a kind fails.

     KVMILL_INJECT=KIND:NUMBER     KIND: memory open write rename sync fork; NUMBER 0: no failure
     KVMILL_INJECT_COUNT=FILE      gets the number of calls, and of blocks that were not freed;
                                   for NUMBER 0, FILE.places gets the first call of each way

   Only the first process counts, not its children.  Calls inside libc are not counted, except to
   malloc.  Blocks are counted if the command or its library allocated them.

   SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inject.h"

enum kind { MEMORY, OPEN, WRITE, RENAME, SYNC, FORK, KINDS };

static const char *const names[KINDS] = {"memory", "open", "write", "rename", "sync", "fork"};
static const int reasons[KINDS] = {ENOMEM, EMFILE, ENOSPC, EIO, EIO, EAGAIN};

static long number_to_fail;
static enum kind kind_to_fail = KINDS;
static atomic_long calls;
static pid_t process;
static char count_file[256];

static void *next_of(const char *name) {
    bool before = inside;
    inside = true;
    void *function = dlsym(RTLD_NEXT, name);
    inside = before;
    return function;
}

#define NEXT(NAME)                                                                                 \
    static __typeof__(NAME) *next;                                                                 \
    if (next == NULL)                                                                              \
    next = (__typeof__(NAME) *)(uintptr_t)next_of(#NAME)

static void print_places(void) {
    char name[sizeof count_file + 8];
    snprintf(name, sizeof name, "%s.places", count_file);
    FILE *stream = fopen(name, "w");
    for (long i = 0; stream != NULL && i < place_count; i++)
        fprintf(stream, "%ld\n", places[i]);
    if (stream != NULL)
        fclose(stream);
}

static bool fails(enum kind kind) {
    if (kind != kind_to_fail || inside || getpid() != process)
        return false;
    long number = atomic_fetch_add(&calls, 1) + 1;
    if (number_to_fail == 0)
        note_place(number);
    if (number != number_to_fail)
        return false;
    errno = reasons[kind];
    return true;
}

/* ---- Blocks that the command and its library took ---- */

enum { MOST_SHOWN = 8 };

static atomic_flag busy = ATOMIC_FLAG_INIT;

static void lock(void) {
    while (atomic_flag_test_and_set(&busy))
        ;
}

static bool is_ours(const void *caller) {
    Dl_info info;
    inside = true;
    bool found = dladdr(caller, &info) != 0 && info.dli_fname != NULL;
    inside = false;
    return found && strstr(info.dli_fname, "kvmill") != NULL;
}

static void *note(void *data, const void *caller) {
    if (process == 0 || inside || data == NULL || !is_ours(caller))
        return data;
    lock();
    add_block(data, caller);
    atomic_flag_clear(&busy);
    return data;
}

static void forget(void *data) {
    if (process == 0 || data == NULL)
        return;
    lock();
    forget_block(data);
    atomic_flag_clear(&busy);
}

static void print_blocks(FILE *stream) {
    int shown = 0;
    for (size_t i = 0; i < MOST_BLOCKS && shown < MOST_SHOWN; i++) {
        Dl_info info;
        if (blocks[i].data == NULL || dladdr(blocks[i].caller, &info) == 0)
            continue;
        fprintf(stream, "%s+%#lx\n", info.dli_fname,
                (unsigned long)((uintptr_t)blocks[i].caller - (uintptr_t)info.dli_fbase));
        shown++;
    }
}

/* ---- Beginning and end ---- */

__attribute__((constructor)) static void begin(void) {
    const char *wanted = getenv("KVMILL_INJECT"), *file = getenv("KVMILL_INJECT_COUNT");
    if (wanted == NULL || file == NULL)
        return;
    for (int kind = 0; kind < KINDS; kind++)
        if (strncmp(wanted, names[kind], strlen(names[kind])) == 0 &&
            wanted[strlen(names[kind])] == ':') {
            number_to_fail = atol(wanted + strlen(names[kind]) + 1);
            kind_to_fail = (enum kind)kind;
        }
    snprintf(count_file, sizeof count_file, "%s", file);
    hash_way(); /* loads a library the first time */
    unsetenv("KVMILL_INJECT");
    process = getpid();
}

__attribute__((destructor)) static void end(void) {
    if (process != getpid() || process == 0)
        return;
    inside = true;
    FILE *stream = fopen(count_file, "w");
    if (stream != NULL) {
        fprintf(stream, "%ld %ld\n", (long)calls, block_count);
        print_blocks(stream);
        fclose(stream);
    }
    if (number_to_fail == 0)
        print_places();
}

/* ---- Memory ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *data, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *data);

#define CALLER __builtin_return_address(0)

void *malloc(size_t size) {
    return fails(MEMORY) ? NULL : note(__libc_malloc(size), CALLER);
}

void *calloc(size_t count, size_t size) {
    return fails(MEMORY) ? NULL : note(__libc_calloc(count, size), CALLER);
}

void *realloc(void *data, size_t size) {
    if (fails(MEMORY))
        return NULL;
    forget(data);
    return note(__libc_realloc(data, size), CALLER);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return fails(MEMORY) ? NULL : note(__libc_memalign(alignment, size), CALLER);
}

int posix_memalign(void **data, size_t alignment, size_t size) {
    void *got = fails(MEMORY) ? NULL : note(__libc_memalign(alignment, size), CALLER);
    if (got == NULL)
        return ENOMEM;
    *data = got;
    return 0;
}

char *strndup(const char *text, size_t size) {
    size_t length = strnlen(text, size);
    char *copy = fails(MEMORY) ? NULL : note(__libc_malloc(length + 1), CALLER);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

char *strdup(const char *text) {
    size_t length = strlen(text) + 1;
    char *copy = fails(MEMORY) ? NULL : note(__libc_malloc(length), CALLER);
    return copy != NULL ? memcpy(copy, text, length) : NULL;
}

void free(void *data) {
    int reason = errno;
    forget(data);
    __libc_free(data);
    errno = reason;
}

/* ---- Files ---- */

/* Defines a function that calls the next one of its name, or fails. */
#define WRAP(KIND, TYPE, FAILURE, NAME, PARAMETERS, ...)                                           \
    TYPE NAME PARAMETERS {                                                                         \
        NEXT(NAME);                                                                                \
        return fails(KIND) ? FAILURE : next(__VA_ARGS__);                                          \
    }
WRAP(OPEN, FILE *, NULL, fopen, (const char *path, const char *mode), path, mode)
WRAP(OPEN, int, -1, mkostemp, (char *name, int flags), name, flags)
WRAP(OPEN, char *, NULL, mkdtemp, (char *name), name)
WRAP(OPEN, int, -1, mkdir, (const char *path, mode_t mode), path, mode)
WRAP(WRITE, ssize_t, -1, pwrite, (int file, const void *data, size_t size, off_t at), file, data,
     size, at)
WRAP(WRITE, ssize_t, -1, pwrite64, (int file, const void *data, size_t size, off64_t at), file,
     data, size, at)
WRAP(RENAME, int, -1, rename, (const char *from, const char *to), from, to)
WRAP(SYNC, int, -1, fsync, (int file), file)
WRAP(SYNC, int, -1, fdatasync, (int file), file)
WRAP(FORK, pid_t, -1, fork, (void), )

ssize_t write(int file, const void *data, size_t size) {
    NEXT(write);
    return file > STDERR_FILENO && fails(WRITE) ? -1 : next(file, data, size);
}

#define WRAP_OPEN(NAME, PARAMETERS, ...)                                                           \
    int NAME PARAMETERS {                                                                          \
        NEXT(NAME);                                                                                \
        mode_t mode = 0;                                                                           \
        if ((flags & O_CREAT) != 0) {                                                              \
            va_list arguments;                                                                     \
            va_start(arguments, flags);                                                            \
            mode = va_arg(arguments, mode_t);                                                      \
            va_end(arguments);                                                                     \
        }                                                                                          \
        return fails(OPEN) ? -1 : next(__VA_ARGS__, flags, mode);                                  \
    }
WRAP_OPEN(open, (const char *path, int flags, ...), path)
WRAP_OPEN(open64, (const char *path, int flags, ...), path)
WRAP_OPEN(openat, (int directory, const char *path, int flags, ...), directory, path)

/* ---- Processes ---- */

int posix_spawnp(pid_t *child, const char *program, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const *arguments,
                 char *const *environment) {
    NEXT(posix_spawnp);
    return fails(FORK) ? EAGAIN : next(child, program, actions, attributes, arguments, environment);
}
