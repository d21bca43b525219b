/* SPDX-License-Identifier: Apache-2.0 */
#include "make.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "../gen/m4.h"
#include "../gen/process.h"

static const char *make_program(void) {
    const char *program = getenv("KVMILL_MAKE");
    return program && *program ? program : "make";
}

/* Packs with handlers need the library; what the environment says of it holds. */
static void tell_library(void) {
    if (library_cflags() == NULL)
        return;
    setenv("KVMILL_CFLAGS", library_cflags(), 0);
    setenv("KVMILL_LIBS", library_libs(), 0);
}

/* What make says are messages, not data: both its streams go to `messages`. */
static bool make_to(const char *directory, int messages, int *status, struct error *error) {
    char *arguments[] = {
        (char *)make_program(), "--no-print-directory", "-j2", "-C", (char *)directory, NULL};
    const int streams[STANDARD_STREAMS] = {-1, messages, messages};
    return process_run(arguments, streams, "GNU make", status, error);
}

bool run_make(const char *directory, const char *log, struct error *error) {
    int status, messages = STDERR_FILENO;
    tell_library();
    if (log != NULL && (messages = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0)
        return fail_errno(error, "write", log);
    bool done = make_to(directory, messages, &status, error);
    if (log != NULL)
        close(messages);
    if (!done)
        return false;
    return status == 0 ||
           fail(error, EXIT_ENVIRONMENT,
                "%s: the kernels did not compile%s%s; a C compiler (cc) is needed, CC "
                "names another",
                directory, log ? ", see " : "", log ? log : "");
}
