/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "bench.h"
#include "race.h"
#include "scene_op.h"

/* The rows of a prompt, and one row for each of 8 sequences that are decoded together. */
static const int64_t row_counts[] = {512, 8}, cells = 8192;
static const double seconds_per_case = 1.0;

static bool race_writes(struct bench *bench, const struct run_size *size, struct error *error) {
    struct bench_case each = {.size = *size,
                              .words = &cells_words,
                              .seconds = seconds_per_case,
                              .rivals = rival_write,
                              .rival_count = COPIES};
    snprintf(each.what, sizeof each.what, "%.60s, %" PRId64 " rows to %" PRId64 " cells",
             bench_purpose(bench, "WriteRows"), size->tokens, size->positions);
    return scene_open(&bench->scene, bench->spec, size, write_rows_scene_op.rotation, false,
                      error) &&
           bench_plan(bench, STEP_RUN, error) && bench_race(bench, &each, error);
}

bool bench_write_rows(const struct spec *spec, const struct scene_setting *setting,
                      struct bench_results *results, struct error *error) {
    bool done = true;
    for (size_t i = 0; done && i < sizeof row_counts / sizeof *row_counts; i++) {
        const struct run_size size = {1, row_counts[i], cells};
        struct bench bench;
        done =
            bench_open(&bench, spec, setting, results, error) && race_writes(&bench, &size, error);
        bench_close(&bench);
    }
    return done;
}
