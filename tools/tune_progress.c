/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_progress.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "../base/text.h"
#include "../base/timer.h"
#include "tune_walk.h"

void say_remarks(const struct environment *environment, int threads, const char *verb,
                 const char *before) {
    struct remark remarks[MOST_REMARKS];
    int count = environment_remarks(environment, threads, remarks);
    for (int i = 0; i < count; i++)
        print_shown(stderr, "kvmill %s: %s%s: %s\n", verb, before, grade_word(remarks[i].grade),
                    remarks[i].text);
}

double progress_seconds_left(const struct tune_progress *progress) {
    double left = progress->end - timer_now();
    return left > 0 ? left : 0;
}

static void print_json(const struct tune_progress *progress, const struct tune_standing *standing,
                       const struct sweep_result *result, double speed) {
    json_t *line = json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f}", "kernel", standing->symbol,
                             "problem", standing->problem, "candidate", result->candidate,
                             "outcome", outcome_word(result->outcome), "speed", speed, "best",
                             standing->best, "seconds_left", progress_seconds_left(progress));
    if (standing->rank > 0)
        json_object_set_new(line, "rank", json_integer(standing->rank));
    json_dumpf(line, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(line);
    print_shown(stdout, "\n");
    fflush(stdout);
}

/* Prints a line that the next one overwrites, and that is cleared at the end of a sweep. */
static void print_line(const struct tune_progress *progress, const struct tune_standing *standing) {
    int left = (int)progress_seconds_left(progress);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r  %" PRId64 " done, %" PRId64 " failed, best so far %.3f, %d:%02d left ",
                progress->measured, progress->failed, standing->best, left / 60, left % 60);
}

static void clear_line(void) {
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%64s\r", "");
}

static void print_rank(const struct tune_standing *standing) {
    if (standing->rank > 0)
        print_shown(stdout, "rank %d: ", standing->rank);
}

void progress_begin(const struct tune_progress *progress, const struct tune_standing *standing) {
    if (progress->json)
        return;
    clear_line();
    print_rank(standing);
    print_shown(stdout, "%s, %s\n", standing->symbol, standing->problem);
    fflush(stdout);
}

bool progress_add(struct tune_progress *progress, struct tune_standing *standing,
                  const struct sweep_result *result, struct error *error) {
    double speed;
    if (!tune_speed(result, &speed, error))
        return false;
    *(result->outcome == OUTCOME_MEASURED ? &progress->measured : &progress->failed) += 1;
    standing->candidates++;
    standing->best = speed > standing->best ? speed : standing->best;
    if (progress->json)
        print_json(progress, standing, result, speed);
    else
        print_line(progress, standing);
    return true;
}

void progress_end(struct tune_progress *progress, const struct tune_standing *standing) {
    progress->known += standing->known;
    if (progress->json)
        return;
    clear_line();
    print_rank(standing);
    print_shown(stdout, "  %" PRId64 " candidates", standing->candidates);
    if (standing->known > 0)
        print_shown(stdout, ", %d known before", standing->known);
    print_shown(stdout, standing->best > 0 ? ", best %.3f of the preset's speed\n" : "\n",
                standing->best);
    fflush(stdout);
}

void progress_finish(const struct tune_progress *progress, bool interrupted) {
    if (!progress->json)
        print_shown(stdout, "%" PRId64 " candidates measured, %" PRId64 " failed%s\n",
                    progress->measured, progress->failed,
                    interrupted ? "; run the same command to continue" : "");
}
