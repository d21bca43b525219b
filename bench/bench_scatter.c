/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_scatter.h"

#include <stdio.h>

#include "../tune/timer.h"
#include "scatter_scene.h"

static const double seconds_per_case = 2.0;
static const double memory_bar = 0.9, scaling_bar = 1.8;

/* Below this, threads cost more than they gain. */
static const int64_t large_bytes = 4 << 20;

/* A scene by the threads of a pool. */
struct team {
    struct scatter_scene *scene;
    struct pool *pool;
    bool in_place;
};

/* ---- Contenders ---- */

static void run_scatter(void *context, int64_t k) {
    const struct team *team = context;
    (void)k;
    scatter_scene_run(team->scene, team->scene->plan, team->pool, team->in_place, NULL);
}

static void run_memory(void *context, int64_t k) {
    const struct team *team = context;
    (void)k;
    scatter_scene_touch(team->scene, team->pool, team->in_place);
}

/* ---- Results ---- */

static struct bench_result *add_result(struct bench_results *results, const struct spec *spec,
                                       const char *order, const struct team *team,
                                       const struct contender *contender) {
    struct bench_result *result = bench_results_add(results);
    snprintf(result->what, sizeof result->what, "%.60s, %s, %s",
             spec->purpose[0] ? spec->purpose : spec->op->name, order,
             team->in_place ? "in place" : "functional");
    bench_kernel_in_plan(team->scene->plan, "apply with ", result->kernel);
    result->threads = pool_threads(team->pool);
    result->seconds = contender->median;
    result->bytes = scatter_scene_bytes(team->scene, team->in_place);
    return result;
}

static void race(struct team *teams, int count, const struct spec *spec, const char *order,
                 struct bench_results *results) {
    struct contender runs[4];
    bool large = teams[0].scene->update_bytes >= large_bytes;
    for (int t = 0; t < count; t++) {
        runs[2 * t] = (struct contender){
            .name = "kvmill", .run = run_scatter, .context = &teams[t], .pool = teams[t].pool};
        runs[2 * t + 1] = (struct contender){
            .name = "memory", .run = run_memory, .context = &teams[t], .pool = teams[t].pool};
    }
    timer_race(runs, 2 * count, seconds_per_case);
    for (int t = 0; t < count; t++)
        bench_compare(add_result(results, spec, order, &teams[t], &runs[2 * t]), "memory",
                      runs[2 * t + 1].median, large ? memory_bar : 0);
    if (count > 1 && large)
        bench_compare(add_result(results, spec, order, &teams[1], &runs[2]), "one thread",
                      runs[0].median, pool_threads(teams[1].pool) == 2 ? scaling_bar : 0);
}

/* ---- The cases ---- */

static bool race_order(struct scatter_scene *scene, struct pool *const pools[2], int count,
                       bool runs, const struct spec *spec, struct bench_results *results,
                       struct error *error) {
    if (!scatter_scene_aim(scene, runs, pools[0], error))
        return false;
    for (int in_place = 0; in_place < 2; in_place++) {
        struct team teams[] = {{scene, pools[0], in_place}, {scene, pools[1], in_place}};
        race(teams, count, spec, runs ? "slices" : "any order", results);
    }
    return true;
}

static bool race_scene(struct scatter_scene *scene, int threads, const struct spec *spec,
                       struct bench_results *results, struct error *error) {
    struct pool *const pools[] = {pool_open(1), pool_open(threads)};
    int count = threads > 1 ? 2 : 1;
    bool done = (pools[0] != NULL && pools[1] != NULL) || out_of_memory(error);
    done = done && race_order(scene, pools, count, false, spec, results, error) &&
           race_order(scene, pools, count, true, spec, results, error);
    pool_close(pools[0]);
    pool_close(pools[1]);
    return done;
}

bool bench_scatter(const struct spec *spec, const kvmill_pack *pack, int threads,
                   struct bench_results *results, struct error *error) {
    struct scatter_scene scene;
    if (!scatter_scene_serves(spec)) {
        fprintf(stderr, "%s: not timed: it has several inputs, or several types\n", spec->where);
        return true;
    }
    bool done = scatter_scene_open(&scene, spec, pack, error);
    if (done && (scene.input_bytes == 0 || scene.update_bytes == 0))
        fprintf(stderr, "%s: not timed: it updates nothing\n", spec->where);
    else
        done = done && race_scene(&scene, threads, spec, results, error);
    scatter_scene_close(&scene);
    return done;
}
