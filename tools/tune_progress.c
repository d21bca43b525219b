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

void progress_begin(const struct tune_progress *progress, struct tune_standing *standing) {
    standing->best = 1;
    if (progress->json)
        return;
    clear_line();
    print_rank(standing);
    print_shown(stdout, "%s, %s\n", standing->symbol, standing->problem);
    fflush(stdout);
}

bool progress_add(struct tune_progress *progress, struct tune_standing *standing,
                  const struct sweep_result *result, bool is_new, struct error *error) {
    struct summary gain;
    if (!tune_gain(result, ++standing->results, &gain, error))
        return false;
    *(result->outcome == OUTCOME_MEASURED ? &progress->measured : &progress->failed) += is_new;
    if (gain_is_faster(&gain) && gain.median > standing->best)
        standing->best = gain.median;
    if (progress->json)
        print_json(progress, standing, result, gain.median);
    else
        print_line(progress, standing);
    return true;
}

void progress_end(struct tune_progress *progress, const struct tune_standing *standing) {
    const struct tune_tally *tally = &standing->tally;
    progress->known += tally->known;
    progress->whole += !tally->cut;
    progress->begun += tally->cut && tally->measured + tally->failed > 0;
    if (progress->json)
        return;
    clear_line();
    print_rank(standing);
    print_shown(stdout, "  ");
    tune_tally_print(tally);
    print_shown(stdout, "\n");
    fflush(stdout);
}

static void say_budget(const struct tune_progress *progress) {
    print_shown(stdout, "budget used up: %d of %d works measured", progress->whole,
                progress->works);
    if (progress->begun > 0)
        print_shown(stdout, ", %d in part", progress->begun);
    print_shown(stdout, "; run the same command to go on\n");
}

void progress_finish(const struct tune_progress *progress, bool interrupted) {
    if (progress->json)
        return;
    print_shown(stdout, "%" PRId64 " candidates measured, %" PRId64 " failed", progress->measured,
                progress->failed);
    if (progress->known > 0)
        print_shown(stdout, ", %" PRId64 " known before", progress->known);
    print_shown(stdout, "%s\n", interrupted ? "; run the same command to go on" : "");
    if (!interrupted && progress->whole < progress->works)
        say_budget(progress);
}
