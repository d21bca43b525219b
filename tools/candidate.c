/* SPDX-License-Identifier: Apache-2.0 */
#include "candidate.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../base/process.h"
#include "../base/text.h"

static void set_failure(struct candidate *candidate, enum outcome outcome, const char *message) {
    candidate->outcome = outcome;
    text_show(message, candidate->message, sizeof candidate->message);
    candidate->message[strcspn(candidate->message, "\n")] = '\0';
}

/* ---- Building ---- */

static void load(struct candidate *candidate, const struct builds *builds) {
    const struct build *build = builds_find(builds, &candidate->kernel);
    struct error error;
    candidate->code_bytes = build != NULL ? build->code_bytes : 0;
    if (build == NULL)
        set_failure(candidate, OUTCOME_COMPILE, "interrupted");
    else if (!build->compiled)
        set_failure(candidate, OUTCOME_COMPILE, build->message);
    else if (!builds_load(builds, build, &candidate->built, &error))
        set_failure(candidate, OUTCOME_COMPILE, error.text);
}

bool candidates_build(struct candidate *candidates, int count, struct builds *builds, int jobs,
                      struct error *error) {
    const struct kernel *kernels[MOST_CANDIDATES] = {NULL};
    for (int i = 0; i < count; i++)
        kernels[i] = &candidates[i].kernel;
    if (!builds_make(builds, kernels, count, jobs, error))
        return false;
    for (int i = 0; i < count; i++)
        load(&candidates[i], builds);
    return true;
}

/* ---- Checking ---- */

/* Signals that end the check, whatever this process does with them. */
static const int ending[] = {SIGALRM, SIGINT, SIGTERM};

static void check_and_exit(struct candidate *candidate, struct tune_work *work, int pipe_end,
                           unsigned seconds) {
    struct error error = {0};
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        signal(ending[i], SIG_DFL);
    alarm(seconds);
    /* Opens a new pool: a forked process does not have its parent's threads. */
    if (bench_pool_open(1, &work->pool, &error) && tune_work_check(work, &candidate->plan, &error))
        _exit(0);
    ssize_t ignored = write(pipe_end, error.text, strlen(error.text));
    (void)ignored;
    _exit(1);
}

static void judge(struct candidate *candidate, int status, const char *message) {
    char words[64];
    if (WIFSIGNALED(status)) {
        snprintf(words, sizeof words, "ended by signal %d", WTERMSIG(status));
        set_failure(candidate, WTERMSIG(status) == SIGALRM ? OUTCOME_HANG : OUTCOME_CRASH, words);
    } else if (WEXITSTATUS(status) != 0) {
        set_failure(candidate, OUTCOME_WRONG, message);
    }
}

enum { GRACE = 60 }; /* seconds: SIGALRM ends the check earlier */

/* Waits for the check.  After a signal, it is ended: nobody waits for its result. */
static void wait_for(pid_t child, unsigned seconds, int *status) {
    if (!process_wait(child, (int)seconds + GRACE, status)) {
        kill(child, SIGKILL);
        TEMP_FAILURE_RETRY(waitpid(child, status, 0));
    }
}

static bool check_apart(struct candidate *candidate, struct tune_work *work, unsigned seconds,
                        struct error *error) {
    char message[256] = "";
    int ends[2], status = 0;
    if (pipe(ends) != 0)
        return fail_errno(error, "open", "a pipe");
    pid_t child = fork();
    if (child == 0)
        check_and_exit(candidate, work, ends[1], seconds);
    close(ends[1]);
    if (child > 0)
        wait_for(child, seconds, &status);
    if (child > 0 && read(ends[0], message, sizeof message - 1) < 0)
        message[0] = '\0';
    close(ends[0]);
    if (child < 0)
        return fail_errno(error, "start", "a process");
    judge(candidate, status, message);
    return true;
}

bool candidate_check(struct candidate *candidate, struct tune_work *work, const kvmill_pack *rest,
                     int threads, unsigned seconds, struct error *error) {
    const kvmill_pack *packs[] = {candidate->built.pack, rest};
    struct error refusal;
    if (candidate->outcome != OUTCOME_MEASURED)
        return true;
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = 2, .threads = threads};
    if (!tune_work_plan(work, &options, &candidate->plan, &refusal)) {
        set_failure(candidate, OUTCOME_REFUSED, refusal.text);
        return true;
    }
    return check_apart(candidate, work, seconds, error);
}

/* ---- Closing ---- */

void candidate_close(struct candidate *candidate) {
    owned_plan_close(&candidate->plan);
    built_pack_free(&candidate->built);
}
