/* Gathers and scatters.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "../base/text.h"
#include "../ops/element.h"
#include "bench.h"
#include "race.h"
#include "scene_op.h"
#include "scene_windows.h"

static const double seconds_per_case = 2.0, memory_bar = 0.9, scaling_bar = 1.8;

static bool open(struct bench *bench, const struct spec *spec, const struct scene_setting *setting,
                 int64_t rotation, struct bench_results *results, const char *empty, bool *moves,
                 struct error *error) {
    *moves = false;
    if (!bench_open(bench, spec, setting, results, error) ||
        !scene_begin(&bench->scene, spec, &(struct run_size){0, 0, 0}, rotation, false, error))
        return false;
    *moves = windows_move(&bench->scene);
    if (!*moves)
        print_shown(stderr, "%s: not timed: %s\n", spec->where, empty);
    return !*moves || (scene_resize(&bench->scene, &bench->scene.size, error) &&
                       bench_plan(bench, STEP_RUN, error));
}

/* ---- Gather ---- */

/* A result below small_bytes is compared with memcpy and call_seconds more.  A larger one is
   compared with memcpy alone, and two threads with one.  Windows below long_window have no bars. */
static const int64_t small_bytes = 1 << 20, long_window = 1 << 10, gather_rotation = 1 << 30;
static const double call_seconds = 1e-6;

static bool has_bars(const struct scene *scene) {
    const struct kvmill_windows *windows = &scene->gather.windows;
    int64_t bytes = kvmill_element_bytes(scene->gather.view.operand.dtype);
    for (int d = 0; d < windows->rank; d++)
        bytes *= windows->window[d];
    return bytes >= long_window;
}

static bool race_gather(struct bench *bench, struct error *error) {
    int64_t bytes = scene_tensor_bytes(&bench->scene, KVMILL_GATHER_RESULT);
    bool small = bytes < small_bytes, bars = has_bars(&bench->scene);
    struct bench_case each = {.words = &gather_words,
                              .seconds = seconds_per_case,
                              .rivals = rival_gather,
                              .rival_count = 1,
                              .limit = small ? "1 us + memcpy" : NULL,
                              .more = small ? call_seconds : 0,
                              .bars = {!bars   ? 0
                                       : small ? 1
                                               : memory_bar,
                                       bars && !small ? memory_bar : 0},
                              .compares = !small,
                              .scaling_has_bytes = true,
                              .scaling_bar = bars ? scaling_bar : 0};
    snprintf(each.what, sizeof each.what, "%s, %" PRId64 " KiB",
             bench_purpose(bench, bench->spec->op->name), (bytes + 1023) >> 10);
    return bench_race(bench, &each, error);
}

bool bench_gather(const struct spec *spec, const struct scene_setting *setting,
                  struct bench_results *results, struct error *error) {
    struct bench bench;
    bool moves, done = open(&bench, spec, setting, gather_rotation, results, "its result is empty",
                            &moves, error) &&
                       (!moves || race_gather(&bench, error));
    bench_close(&bench);
    return done;
}

/* ---- Scatter ---- */

/* For smaller updates, threads cost more time than they save. */
static const int64_t large_bytes = 4 << 20;

static bool race_scatter(struct bench *bench, bool slices, bool in_place, struct error *error) {
    bool large = scene_tensor_bytes(&bench->scene, 2) >= large_bytes;
    double bar = large ? memory_bar : 0;
    struct bench_case each = {.words = &apply_words,
                              .seconds = seconds_per_case,
                              .rivals = rival_touch,
                              .rival_count = 1,
                              .bars = {bar, bar},
                              .compares = large,
                              .scaling_has_bytes = true,
                              .scaling_bar = scaling_bar};
    bench->scene.in_place = in_place;
    snprintf(each.what, sizeof each.what, "%.60s, %s, %s",
             bench_purpose(bench, bench->spec->op->name), slices ? "slices" : "any order",
             in_place ? "in place" : "functional");
    return bench_race(bench, &each, error);
}

static bool race_orders(struct bench *bench, struct error *error) {
    bool done = true;
    for (int slices = 0; done && slices < 2; slices++)
        done = (!slices || scatter_aim(&bench->scene, true, error)) &&
               race_scatter(bench, slices, false, error) &&
               race_scatter(bench, slices, true, error);
    return done;
}

bool bench_scatter(const struct spec *spec, const struct scene_setting *setting,
                   struct bench_results *results, struct error *error) {
    struct bench bench;
    bool moves;
    if (!scatter_scene_op.knows(spec)) {
        print_shown(stderr, "%s: not timed: it has several inputs, or several types\n",
                    spec->where);
        return true;
    }
    bool done = open(&bench, spec, setting, 0, results, "it updates nothing", &moves, error) &&
                (!moves || race_orders(&bench, error));
    bench_close(&bench);
    return done;
}
