/* The progress messages of `kvmill tune`, for each kernel, problem and candidate, as text or as
   lines of JSON.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNE_PROGRESS_H
#define KVMILL_TOOLS_TUNE_PROGRESS_H

#include "../tune/environment.h"
#include "../tune/sweep.h"

/* What a run of the command has done. */
struct tune_progress {
    bool json;
    double end; /* of the budget, by timer_now */
    int64_t measured, failed, known;
};

/* What is known of a kernel and problem. */
struct tune_standing {
    const char *symbol, *problem;
    int rank; /* that works on it; 0: there are no ranks */
    int64_t candidates;
    int known;   /* before this run */
    double best; /* speed over the preset's; 0: none */
};

/* On standard error, what makes the machine unfit to be measured on so many threads: for a verb,
   with what stands before each remark. */
void say_remarks(const struct environment *environment, int threads, const char *verb,
                 const char *before);

double progress_seconds_left(const struct tune_progress *progress);

void progress_begin(const struct tune_progress *progress, const struct tune_standing *standing);
bool progress_add(struct tune_progress *progress, struct tune_standing *standing,
                  const struct sweep_result *result, struct error *error);
void progress_end(struct tune_progress *progress, const struct tune_standing *standing);

/* The last lines of the whole run. */
void progress_finish(const struct tune_progress *progress, bool interrupted);

#endif
