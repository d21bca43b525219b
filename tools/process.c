/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool spawn_make(const char *directory, const char *log, int *status, struct error *error) {
    const char *program = getenv("KVMILL_MAKE") ? getenv("KVMILL_MAKE") : "make";
    char *arguments[] = {
        (char *)program, "--no-print-directory", "-j2", "-C", (char *)directory, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    posix_spawn_file_actions_init(&actions);
    if (log != NULL)
        posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&actions, 2, 1); /* what make says are messages, not data */
    int reason = posix_spawnp(&child, program, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (reason != 0)
        return fail(error, EXIT_ENVIRONMENT, "%s: cannot run it: %s; GNU make is needed", program,
                    strerror(reason));
    while (waitpid(child, status, 0) < 0)
        if (errno != EINTR)
            return fail_errno(error, "wait for", program);
    return true;
}

bool run_make(const char *directory, const char *log, struct error *error) {
    int status;
    if (!spawn_make(directory, log, &status, error))
        return false;
    return status == 0 ||
           fail(error, EXIT_ENVIRONMENT,
                "%s: the kernels did not compile%s%s; a C compiler (cc) is needed, CC "
                "names another",
                directory, log ? ", see " : "", log ? log : "");
}
