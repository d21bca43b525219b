/* The progress messages of `kvmill tune`, for each kernel, problem and candidate, as text or as
   lines of JSON.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNE_PROGRESS_H
#define KVMILL_TOOLS_TUNE_PROGRESS_H

#include "../tune/environment.h"
#include "../tune/sweep.h"

/* The progress of a run of the command. */
struct tune_progress {
    bool json;
    double end; /* the end of the budget, by timer_now */
    int64_t measured, failed, known;
};

/* The progress of a kernel and a problem. */
struct tune_standing {
    const char *symbol, *problem;
    int rank; /* the rank that works on it; 0: no ranks */
    int64_t candidates;
    int known;   /* candidates known before this run */
    double best; /* best speed relative to the preset; 0: none */
};

/* Prints to standard error the reasons against measuring on this machine with so many threads.
   `verb` is the command; `before` comes before each remark. */
void say_remarks(const struct environment *environment, int threads, const char *verb,
                 const char *before);

double progress_seconds_left(const struct tune_progress *progress);

void progress_begin(const struct tune_progress *progress, const struct tune_standing *standing);
bool progress_add(struct tune_progress *progress, struct tune_standing *standing,
                  const struct sweep_result *result, struct error *error);
void progress_end(struct tune_progress *progress, const struct tune_standing *standing);

/* Prints the last lines of the run. */
void progress_finish(const struct tune_progress *progress, bool interrupted);

#endif
