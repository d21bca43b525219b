/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

static int spawn(char *const *arguments, const int streams[STANDARD_STREAMS], pid_t *child) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < STANDARD_STREAMS; i++)
        if (streams[i] >= 0)
            posix_spawn_file_actions_adddup2(&actions, streams[i], i);
    int reason = posix_spawnp(child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return reason;
}

/* POSIX lets a child that could not run its program exit with 127 instead. */
static bool could_not_run(int status) {
    return WIFEXITED(status) && WEXITSTATUS(status) == 127;
}

bool process_run(char *const *arguments, const int streams[STANDARD_STREAMS], const char *needed,
                 int *status, struct error *error) {
    pid_t child;
    int reason = spawn(arguments, streams, &child);
    if (reason == 0)
        while (waitpid(child, status, 0) < 0)
            if (errno != EINTR)
                return fail_errno(error, "wait for", arguments[0]);
    if (reason != 0 || could_not_run(*status))
        return fail(error, EXIT_ENVIRONMENT, "%s: cannot run it: %s; %s is needed", arguments[0],
                    strerror(reason ? reason : ENOENT), needed);
    return true;
}
