/* SPDX-License-Identifier: Apache-2.0 */
#include "make.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/find_program.h"
#include "../base/output.h"
#include "../base/process.h"
#include "../base/signals.h"
#include "../gen/places.h"

static long most_seconds = 3600;

bool make_read_options(const struct options *given, struct error *error) {
    return option_integer(given, "compile-timeout", 1, 1000000, &most_seconds, error);
}

const char *make_program(void) {
    return program_named("KVMILL_MAKE", "make");
}

/* Tells make how to compile and link with the library, which packs with handlers need.  Variables
   of the environment take precedence. */
static void tell_library(void) {
    if (library_cflags() == NULL)
        return;
    setenv("KVMILL_CFLAGS", library_cflags(), 0);
    setenv("KVMILL_LIBS", library_libs(), 0);
}

/* Whether a file of a megabyte can be written to the directory.  If not, errno is the reason. */
static bool has_room(const char *directory) {
    static const char block[1 << 16];
    char *path = path_join(directory, "kvmill-room.XXXXXX");
    int file = path != NULL ? mkostemp(path, O_CLOEXEC) : -1, reason = 0;
    for (int i = 0; file >= 0 && reason == 0 && i < 16; i++)
        reason = write(file, block, sizeof block) < 0 ? errno : 0;
    if (file >= 0) {
        unlink(path);
        close(file);
    }
    free(path);
    errno = reason;
    return reason == 0;
}

/* Whether there is no space in the pack's directory, or in the directory of the compiler's
   temporary files. */
static bool lacks_room(const char *directory) {
    const char *temporary = getenv("TMPDIR");
    return !has_room(directory) || !has_room(temporary && *temporary ? temporary : "/tmp");
}

/* Copies the first line of a log that contains an error, or "". */
static void find_complaint(const char *log, char line[256]) {
    FILE *stream = fopen(log, "r");
    char *text = NULL;
    size_t room = 0;
    bool found = false;
    while (!found && stream != NULL && getline(&text, &room, stream) > 0)
        found = strstr(text, "error") != NULL || strstr(text, "Error") != NULL;
    snprintf(line, 256, "%.*s", found ? (int)strcspn(text, "\n") : 0, found ? text : "");
    free(text);
    if (stream != NULL)
        fclose(stream);
}

static bool has_compiler(void) {
    char words[COMPILER_SIZE];
    struct error ignored;
    return compiler_words(words, &ignored) && strcmp(words, "unknown") != 0;
}

static bool fail_to_compile(const char *directory, const char *log, struct error *error) {
    char line[256] = "";
    if (lacks_room(directory))
        return fail(error, EXIT_ENVIRONMENT,
                    "%s: the kernels did not compile: a megabyte cannot be written: %s%s%s",
                    directory, strerror(errno), log ? "; see " : "", log ? log : "");
    if (!has_compiler())
        return fail(error, EXIT_ENVIRONMENT,
                    "%s: the kernels did not compile%s%s; a C compiler (cc) is needed, CC "
                    "names another",
                    directory, log ? ", see " : "", log ? log : "");
    if (log == NULL)
        return fail(error, EXIT_ENVIRONMENT,
                    "%s: the kernels did not compile: the messages of the compiler are above",
                    directory);
    find_complaint(log, line);
    return fail(error, EXIT_ENVIRONMENT, "%s: the kernels did not compile, see %s; it begins: %s",
                directory, log, line);
}

/* Runs make with empty standard input: a process in its own group must not read from a terminal.
   Both output streams of make go to `messages`, since they are messages and not data. */
static bool make_to(const char *directory, const char *target, int messages, int seconds,
                    int *status, struct error *error) {
    char jobs[16];
    snprintf(jobs, sizeof jobs, "-j%d", MAKE_JOBS);
    char *arguments[] = {(char *)make_program(), "--no-print-directory", jobs, "-C",
                         (char *)directory,      (char *)target,         NULL};
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int streams[STANDARD_STREAMS] = {nothing, messages, messages};
    bool done = process_run_group(arguments, streams, "GNU make", seconds, status, error);
    if (nothing >= 0)
        close(nothing);
    return done;
}

bool run_make(const char *directory, const char *log, struct error *error) {
    return make_target(directory, NULL, log, INFINITY, error);
}

bool make_target(const char *directory, const char *target, const char *log, double seconds,
                 struct error *error) {
    int status, messages = STDERR_FILENO;
    tell_library();
    if (log != NULL && (messages = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0)
        return fail_errno(error, "write", log);
    int most = seconds < (double)most_seconds ? (int)ceil(seconds) : (int)most_seconds;
    bool done = make_to(directory, target, messages, most, &status, error);
    if (log != NULL)
        close(messages);
    return done && (status == 0 || fail_to_compile(directory, log, error));
}
