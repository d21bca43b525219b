/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_gather.h"

#include <inttypes.h>
#include <stdio.h>

#include "../ops/element.h"
#include "../tune/timer.h"
#include "gather_scene.h"

static const double seconds_per_case = 2.0;

/* A call of fewer bytes is held against copying them and what a call may cost; a larger one against
   copying alone, and two threads against one.  Copying is no bar for windows that are shorter. */
static const int64_t small_bytes = 1 << 20, long_window = 1 << 10;
static const double call_seconds = 1e-6, large_bar = 0.9, scaling_bar = 1.8;

/* A scene by the threads of a pool. */
struct team {
    struct gather_scene *scene;
    struct pool *pool;
};

/* ---- Contenders ---- */

static void run_gather(void *context, int64_t k) {
    const struct team *team = context;
    gather_scene_run(team->scene, team->scene->plan, team->pool, k, NULL);
}

static void run_memcpy(void *context, int64_t k) {
    const struct team *team = context;
    gather_scene_copy(team->scene, team->pool, k);
}

/* ---- Results ---- */

static struct bench_result *add_result(struct bench_results *results, const struct spec *spec,
                                       const struct team *team, const struct contender *contender) {
    struct bench_result *result = bench_results_add(results);
    snprintf(result->what, sizeof result->what, "%s, %" PRId64 " KiB",
             spec->purpose[0] ? spec->purpose : spec->op->name,
             (team->scene->result_bytes + 1023) >> 10);
    bench_kernel_in_plan(team->scene->plan, ": with ", result->kernel);
    result->threads = pool_threads(team->pool);
    result->seconds = contender->median;
    result->bytes = 2.0 * (double)team->scene->result_bytes;
    return result;
}

static bool has_bars(const struct gather_scene *scene) {
    int64_t bytes = kvmill_element_bytes(scene->operand.dtype);
    for (int d = 0; d < scene->windows.rank; d++)
        bytes *= scene->windows.window[d];
    return bytes >= long_window;
}

static void add_results(struct bench_results *results, const struct spec *spec,
                        const struct team *teams, int count, const struct contender *race) {
    bool small = teams->scene->result_bytes < small_bytes, bars = has_bars(teams->scene);
    for (int t = 0; t < count; t++) {
        double copy = race[2 * t + 1].median;
        struct bench_result *result = add_result(results, spec, &teams[t], &race[2 * t]);
        if (small)
            bench_compare(result, "1 us + memcpy", call_seconds + copy, bars && t == 0);
        else
            bench_compare(result, "memcpy", copy, bars ? large_bar : 0);
    }
    if (count > 1 && !small)
        bench_compare(add_result(results, spec, &teams[1], &race[2]), "one thread", race[0].median,
                      bars && pool_threads(teams[1].pool) == 2 ? scaling_bar : 0);
}

/* ---- The race ---- */

static bool race_teams(struct team *teams, int count, const struct spec *spec,
                       struct bench_results *results, struct error *error) {
    struct contender race[4];
    kvmill_error reason;
    for (int t = 0; t < count; t++) {
        if (gather_scene_run(teams[t].scene, teams[t].scene->plan, teams[t].pool, 0, &reason) !=
            KVMILL_OK)
            return fail(error, EXIT_BUG, "%s: %s", spec->where, reason.message);
        race[2 * t] = (struct contender){
            .name = "kvmill", .run = run_gather, .context = &teams[t], .pool = teams[t].pool};
        race[2 * t + 1] = (struct contender){
            .name = "memcpy", .run = run_memcpy, .context = &teams[t], .pool = teams[t].pool};
    }
    timer_race(race, 2 * count, seconds_per_case);
    add_results(results, spec, teams, count, race);
    return true;
}

static bool race_scene(struct gather_scene *scene, int threads, const struct spec *spec,
                       struct bench_results *results, struct error *error) {
    struct team teams[] = {{scene, pool_open(1)}, {scene, pool_open(threads)}};
    bool done = (teams[0].pool != NULL && teams[1].pool != NULL) || out_of_memory(error);
    done = done && race_teams(teams, threads > 1 ? 2 : 1, spec, results, error);
    pool_close(teams[0].pool);
    pool_close(teams[1].pool);
    return done;
}

bool bench_gather(const struct spec *spec, const kvmill_pack *pack, int threads,
                  struct bench_results *results, struct error *error) {
    struct gather_scene scene;
    bool done = gather_scene_open(&scene, spec, pack, error);
    if (done && scene.result_bytes == 0)
        fprintf(stderr, "%s: not timed: its result is empty\n", spec->where);
    else
        done = done && race_scene(&scene, threads, spec, results, error);
    gather_scene_close(&scene);
    return done;
}
