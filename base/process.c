/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "signals.h"

extern char **environ;

struct start {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
};

/* Prepares the start of a child.  Returns 0 or an errno; a child without all of its streams would
   use those of this process, and so is not started. */
static int set_start(struct start *start, const int streams[STANDARD_STREAMS], pid_t group) {
    int reason = 0;
    for (int i = 0; reason == 0 && i < STANDARD_STREAMS; i++)
        if (streams[i] >= 0)
            reason = posix_spawn_file_actions_adddup2(&start->actions, streams[i], i);
    if (reason == 0 && group != 0)
        reason = posix_spawnattr_setpgroup(&start->attributes, group);
    if (reason == 0 && group != 0)
        reason = posix_spawnattr_setflags(&start->attributes, POSIX_SPAWN_SETPGROUP);
    return reason;
}

/* Starts a child in a process group; 0 is this process's group.  Returns 0 or an errno. */
static int spawn(char *const *arguments, const int streams[STANDARD_STREAMS], pid_t group,
                 pid_t *child) {
    struct start start;
    posix_spawnattr_init(&start.attributes);
    posix_spawn_file_actions_init(&start.actions);
    int reason = set_start(&start, streams, group);
    if (reason == 0)
        reason = posix_spawnp(child, arguments[0], &start.actions, &start.attributes, arguments,
                              environ);
    posix_spawn_file_actions_destroy(&start.actions);
    posix_spawnattr_destroy(&start.attributes);
    return reason;
}

/* Whether the program could not be run: POSIX allows a child to report that by exit status 127. */
static bool could_not_run(int status) {
    return WIFEXITED(status) && WEXITSTATUS(status) == 127;
}

static bool fail_to_run(const char *program, int reason, const char *needed, struct error *error) {
    return fail(error, EXIT_ENVIRONMENT, "%s: cannot run it: %s; %s is needed", program,
                strerror(reason ? reason : ENOENT), needed);
}

bool process_run(char *const *arguments, const int streams[STANDARD_STREAMS], const char *needed,
                 int *status, struct error *error) {
    pid_t child;
    int reason = spawn(arguments, streams, 0, &child);
    if (reason == 0)
        while (waitpid(child, status, 0) < 0)
            if (errno != EINTR)
                return fail_errno(error, "wait for", arguments[0]);
    if (reason != 0 || could_not_run(*status))
        return fail_to_run(arguments[0], reason, needed, error);
    return true;
}

/* ---- Waiting, with a time limit ---- */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Sleeps, and doubles the next pause: short pauses first, for children that end soon. */
static void rest(long *nanoseconds) {
    const struct timespec pause = {.tv_nsec = *nanoseconds};
    nanosleep(&pause, NULL);
    if (*nanoseconds < 10000000)
        *nanoseconds *= 2;
}

static bool wait_until(pid_t child, double end, bool heed_signals, int *status) {
    long pause = 100000;
    pid_t got;
    while ((got = waitpid(child, status, WNOHANG)) == 0) {
        if ((heed_signals && signals_noted) || now() >= end)
            return false;
        rest(&pause);
    }
    return got == child;
}

bool process_wait(pid_t child, int seconds, int *status) {
    return wait_until(child, now() + seconds, true, status);
}

/* ---- A process group: its first process, the keeper, ends it when the pipe closes ---- */

enum { MOST_FILES = 1024 };
static const double grace = 1; /* seconds that make has to remove incomplete files */

struct group {
    pid_t keeper;
    int end; /* the write end of the pipe, which closes when this process ends */
};

/* Closes all other files: the keeper would keep them open, or locked. */
static void close_all_but(int kept) {
    for (int file = 0; file < MOST_FILES; file++)
        if (file != kept)
            close(file);
}

_Noreturn static void keep_group(int end) {
    const struct timespec pause = {.tv_sec = (time_t)grace};
    char byte;
    close_all_but(end);
    signals_hold();
    while (read(end, &byte, 1) < 0 && errno == EINTR)
        ;
    if (getpgrp() == getpid()) {
        kill(0, SIGTERM);
        nanosleep(&pause, NULL);
        kill(0, SIGKILL);
    }
    _exit(0);
}

/* Starts the keeper.  Both processes set the group, because either may be the first to need it. */
static bool start_group(struct group *group, struct error *error) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail_errno(error, "open", "a pipe");
    group->keeper = fork();
    if (group->keeper == 0) {
        setpgid(0, 0);
        keep_group(ends[0]);
    }
    close(ends[0]);
    group->end = ends[1];
    if (group->keeper > 0) {
        setpgid(group->keeper, group->keeper);
        return true;
    }
    close(ends[1]);
    return fail_errno(error, "start", "a process");
}

static void end_group(const struct group *group) {
    int status;
    kill(-group->keeper, SIGKILL);
    TEMP_FAILURE_RETRY(waitpid(group->keeper, &status, 0));
    close(group->end);
}

static bool fail_to_wait(const char *program, int seconds, struct error *error) {
    if (signals_noted)
        return fail(error, 128 + signals_noted, "%s: ended, as this command was by signal %d",
                    program, (int)signals_noted);
    return fail(error, EXIT_ENVIRONMENT,
                "%s: ended after %d second%s; --compile-timeout SECONDS allows more", program,
                seconds, seconds > 1 ? "s" : "");
}

/* Waits for the child.  Ends its group and returns false if it does not end by itself. */
static bool wait_for_group(const struct group *group, pid_t child, int seconds, int *status) {
    if (process_wait(child, seconds, status))
        return true;
    kill(-group->keeper, SIGTERM);
    if (!wait_until(child, now() + grace, false, status)) {
        kill(-group->keeper, SIGKILL);
        TEMP_FAILURE_RETRY(waitpid(child, status, 0));
    }
    return false;
}

bool process_run_group(char *const *arguments, const int streams[STANDARD_STREAMS],
                       const char *needed, int seconds, int *status, struct error *error) {
    struct group group = {0};
    pid_t child;
    if (!start_group(&group, error))
        return false;
    int reason = spawn(arguments, streams, group.keeper, &child);
    bool ended = reason != 0 || wait_for_group(&group, child, seconds, status);
    end_group(&group);
    if (!ended)
        return fail_to_wait(arguments[0], seconds, error);
    return (reason == 0 && !could_not_run(*status)) ||
           fail_to_run(arguments[0], reason, needed, error);
}
