/* Failures: each command line of tests/tables/failures.tsv runs in this process, and then again for
   each way to an allocation, or to a system call, whose first call fails; and for each way to a
   call that a signal interrupts.  The linker gives these calls of our code to this program
   (tests/failures.wrap); inject.test has those of the C library and of SQLite.

   SPDX-License-Identifier: Apache-2.0 */
#define main kvmill_main
int kvmill_main(int argc, char **argv);
#include "../tools/main.c"
#undef main

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "../tools/remove_tree.h"
#include "common.h"
#include "inject.h"
#include "onnx_text.h"

/* ---- Calls ---- */

enum { WAY_LENGTH = 12 }; /* longer ways that begin the same are one */

/* What fails: calls of one kind at a time. */
enum kind { MEMORY, SYSTEM, INTERRUPT, KINDS };

static const char *const kind_names[KINDS] = {"allocations", "system calls", "interrupted calls"};
static const int reasons[KINDS] = {ENOMEM, EIO, EINTR};

static bool counts; /* whether calls are a command's */
static enum kind counted;
static long calls, number_to_fail;  /* 0: none, and ways are noted */
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
    errno = reasons[kind];
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

/* ---- A command ---- */

enum { MOST_WORDS = 64 };

struct outcome {
    int code, files; /* that are open */
    long blocks;     /* that are left */
    char *out, *err, *made;
};

static int count_open_files(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    must(directory != NULL, "cannot count open files");
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

/* Points a standard stream to a file; returns what it was. */
static int redirect(int stream, const char *path) {
    int before = dup(stream), file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(before >= 0 && file >= 0 && dup2(file, stream) == stream, "cannot redirect");
    close(file);
    return before;
}

static void restore(int stream, int before) {
    dup2(before, stream);
    close(before);
}

/* Runs the command's main; getopt begins again, wherever the last command ended it. */
static int run_main(char **words) {
    int count = 0;
    while (words[count] != NULL)
        count++;
    optind = 0;
    getopt(1, words, "");
    block_count = 0;
    memset(blocks, 0, sizeof blocks);
    calls = 0;
    counts = true;
    int code = kvmill_main(count, words);
    counts = false;
    return code;
}

static char *contents(const char *path) {
    return path != NULL && access(path, R_OK) == 0 ? read_bytes(path, NULL) : NULL;
}

/* Runs a command whose allocation `number` fails; 0: none. */
static struct outcome run_words(char **words, long number, const char *made) {
    struct outcome outcome = {0};
    if (made != NULL)
        unlink(made);
    fflush(stdout);
    fflush(stderr);
    int files = count_open_files(), out = redirect(STDOUT_FILENO, "out.log"),
        err = redirect(STDERR_FILENO, "err.log");
    number_to_fail = number;
    outcome.code = run_main(words);
    outcome.blocks = block_count;
    fflush(stdout);
    fflush(stderr);
    restore(STDOUT_FILENO, out);
    restore(STDERR_FILENO, err);
    outcome.files = count_open_files() - files;
    outcome.out = contents("out.log");
    outcome.err = contents("err.log");
    outcome.made = contents(made);
    return outcome;
}

static void free_outcome(struct outcome *outcome) {
    free(outcome->out);
    free(outcome->err);
    free(outcome->made);
}

/* ---- Judging ---- */

static bool are_same(const char *one, const char *other) {
    return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

static bool says_why(const char *text) {
    return strstr(text, strerror(reasons[counted])) != NULL ||
           (counted == MEMORY && strstr(text, "out of memory") != NULL);
}

/* What is wrong with a run of which a call failed, or NULL. */
static const char *fault_of(const struct outcome *got, const struct outcome *whole) {
    if (got->blocks > 0)
        return "memory is left";
    if (got->files != 0)
        return "a file is left open";
    if (got->code == EXIT_ENVIRONMENT && counted != INTERRUPT)
        return !says_why(got->err) ? "the message does not say why"
               : got->made != NULL && !are_same(got->made, whole->made)
                   ? "the file is neither whole nor absent"
                   : NULL;
    bool same = got->code == whole->code && are_same(got->out, whole->out) &&
                are_same(got->err, whole->err) && are_same(got->made, whole->made);
    return same ? NULL : "the result differs, without a message";
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

static bool explain(const char *fault, long number, const struct outcome *got) {
    diag("call %ld: %s (exit code %d, %ld blocks): %.300s", number, fault, got->code, got->blocks,
         got->err);
    show_places("it fails at", failed_at, WAY_LENGTH);
    for (size_t i = 0; i < MOST_BLOCKS; i++)
        if (blocks[i].data != NULL)
            show_places("left by", (void *const *)&blocks[i].caller, 1);
    return false;
}

static bool survives(char **words, long number, const char *made, const struct outcome *whole) {
    OWN(free_outcome) struct outcome got = run_words(words, number, made);
    const char *fault = fault_of(&got, whole);
    return fault == NULL || explain(fault, number, &got);
}

/* Splits a command line into words.  "@" begins a path in the source tree. */
static void split(char *text, char *words[MOST_WORDS + 2]) {
    static char name[] = "kvmill";
    int count = 0;
    words[count++] = name;
    for (char *word = strtok(text, " "); word != NULL && count <= MOST_WORDS;
         word = strtok(NULL, " "))
        words[count++] = word[0] == '@' ? (char *)(uintptr_t)source_path("%s", word + 1) : word;
    words[count] = NULL;
}

/* Runs a command line for each new way to a call of this kind.  made: NULL, or the file that the
   command writes. */
static void try_kind(enum kind kind, const char *line, char **words, const char *made) {
    counted = kind;
    way_start = kind + 1;
    place_count = 0;
    OWN(free_outcome) struct outcome whole = run_words(words, 0, made);
    int wrong = whole.code == EXIT_ENVIRONMENT || whole.blocks > 0 || whole.files != 0;
    if (wrong)
        explain("without a failure", 0, &whole);
    const long total = calls, step = is_slowest_run() ? 10 : 1;
    for (long i = 0; i < place_count && wrong < 5; i += step)
        wrong += !survives(words, places[i], made, &whole);
    ok(wrong == 0, "%s: %s: %ld new ways, %ld calls", line, kind_names[kind], place_count, total);
}

/* run WORDS [FILE]: FILE is what the command writes. */
ROWS(run, 1) {
    char line[1024], *words[MOST_WORDS + 2];
    snprintf(line, sizeof line, "%s", cells[0]);
    split(line, words);
    OWN(free_outcome) struct outcome first = run_words(words, -1, cells[1]); /* keeps some things */
    for (int kind = 0; kind < KINDS; kind++)
        try_kind((enum kind)kind, cells[0], words, cells[1]);
}

/* ---- Files ---- */

/* set NAME VALUE: a variable. */
ROWS(set, 1) {
    if (cells[1] != NULL)
        setenv(cells[0], cells[1], 1);
    else
        unsetenv(cells[0]);
}

/* file NAME TEXT: it may be a program. */
ROWS(file, 2) {
    write_text(cells[0], cells[1]);
    must(chmod(cells[0], 0700) == 0, cells[0]);
}

/* link NAME PATH: a file of the source tree. */
ROWS(link, 2) {
    must(symlink(source_path("%s", cells[1]), cells[0]) == 0, cells[0]);
}

/* links TARGET ENDING: the seeds of a fuzzer's target, each by the name TARGET..ENDING. */
ROWS(links, 2) {
    DIR *directory = opendir(source_path("tests/fuzz/seeds/%s", cells[0]));
    must(directory != NULL, cells[0]);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const char *end = strstr(entry->d_name, ".seed");
        char name[600];
        snprintf(name, sizeof name, "%s%.*s.%s", cells[0], (int)(end ? end - entry->d_name : 0),
                 entry->d_name, cells[1]);
        if (end != NULL)
            must(symlink(source_path("tests/fuzz/seeds/%s/%s", cells[0], entry->d_name), name) == 0,
                 name);
    }
    closedir(directory);
}

/* npy NAME TYPE SHAPE NUMBERS: integers, or the bits of floats; "0*24" is 24 zeros. */
ROWS(npy, 4) {
    char bytes[2048], numbers[512];
    size_t width = strtoul(cells[1] + 2, NULL, 10), at = 128;
    int length = snprintf(bytes, sizeof bytes,
                          "\x93NUMPY%c%cv%c{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                          1, 0, 0, cells[1], cells[2]);
    memset(bytes + length, ' ', 127 - (size_t)length);
    bytes[127] = '\n';
    snprintf(numbers, sizeof numbers, "%s", cells[3]);
    for (char *word = strtok(numbers, " "); word != NULL; word = strtok(NULL, " ")) {
        uint64_t number = strtoull(word, &word, 0);
        long times = *word == '*' ? strtol(word + 1, NULL, 10) : 1;
        for (; times > 0 && at + width <= sizeof bytes; times--, at += width)
            memcpy(bytes + at, &number, width);
    }
    write_bytes(cells[0], bytes, at);
}

/* onnx NAME DESCRIPTION, as onnx_text.h has it; gguf, too. */
ROWS(onnx, 2) {
    OWN(text_free) struct text file = {0};
    onnx_write(cells[1], &file);
    write_bytes(cells[0], file.data, file.length);
}

ROWS(gguf, 2) {
    OWN(text_free) struct text file = {0};
    gguf_write(cells[1], &file);
    write_bytes(cells[0], file.data, file.length);
}

void before_tests(void) {
    way_length = WAY_LENGTH;
    must(mkdir(scratch_path("files"), 0700) == 0 && chdir(scratch_path("files")) == 0,
         "no directory");
    setenv("XDG_CACHE_HOME", scratch_folder(), 1);
}

TABLE(failures);
