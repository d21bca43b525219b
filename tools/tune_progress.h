/* The progress messages of `kvmill tune`, for each kernel, problem and candidate, as text or as
   lines of JSON.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNE_PROGRESS_H
#define KVMILL_TOOLS_TUNE_PROGRESS_H

#include "../tune/environment.h"
#include "tune_tally.h"

/* The progress of a run of the command. */
struct tune_progress {
    bool json;
    double end;               /* the end of the budget, by timer_now */
    int64_t measured, failed; /* candidates that were not known before */
    int64_t known;
    int works, whole,
        begun; /* kernels and problems; those that were measured to the end, or in part */
};

/* The progress of a kernel and a problem. */
struct tune_standing {
    const char *symbol, *problem;
    int rank;    /* the rank that works on it; 0: no ranks */
    int results; /* of this run */
    double best; /* greatest speed relative to the preset that is no noise, at least 1 */
    struct tune_tally tally; /* at the end */
};

/* Prints to standard error the reasons against measuring on this machine with so many threads.
   `verb` is the command; `before` comes before each remark. */
void say_remarks(const struct environment *environment, int threads, const char *verb,
                 const char *before);

double progress_seconds_left(const struct tune_progress *progress);

void progress_begin(const struct tune_progress *progress, struct tune_standing *standing);

/* Adds a result.  `is_new`: its candidate had none before. */
bool progress_add(struct tune_progress *progress, struct tune_standing *standing,
                  const struct sweep_result *result, bool is_new, struct error *error);
void progress_end(struct tune_progress *progress, const struct tune_standing *standing);

/* Prints the last lines of the run: also what the budget did not suffice for. */
void progress_finish(const struct tune_progress *progress, bool interrupted);

#endif
