/* What kernels of gather and scatter are measured with.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "gather_scene.h"
#include "results.h"
#include "scatter_scene.h"
#include "tune_work.h"

/* ---- Gather ---- */

struct gather_tune {
    struct tune_work base;
    struct gather_scene scene;
    int64_t turn;
};

static struct gather_tune *gather_of(struct tune_work *work) {
    return (struct gather_tune *)(void *)work;
}

static void close_gather(struct tune_work *work) {
    gather_scene_close(&gather_of(work)->scene);
    free(work);
}

static bool plan_gather(struct tune_work *work, const kvmill_plan_options *options,
                        struct owned_plan *plan, struct error *error) {
    *plan = (struct owned_plan){0};
    return gather_scene_plan(&gather_of(work)->scene, options, &plan->plan, error);
}

static kvmill_status run_first(const struct tune_comparison *it, const kvmill_plan *plan,
                               kvmill_error *reason) {
    return gather_scene_run(it->scene, plan, it->pool, 0, reason);
}

static bool check_gather(struct tune_work *work, const struct owned_plan *plan,
                         struct error *error) {
    struct gather_scene *scene = &gather_of(work)->scene;
    const struct tune_comparison it = {scene, work->pool, &scene->result, scene->result_bytes,
                                       run_first};
    kvmill_plan *portable = NULL;
    bool done = gather_scene_plan(scene, &tune_portable, &portable, error) &&
                tune_runs_alike(&it, plan->plan, portable, error);
    kvmill_plan_destroy(portable);
    return done;
}

static void run_gather(struct tune_work *work, const struct owned_plan *plan) {
    struct gather_tune *tune = gather_of(work);
    gather_scene_run(&tune->scene, plan->plan, work->pool, tune->turn++, NULL);
}

/* Bytes read and written. */
static double copy_windows(struct tune_work *work) {
    struct gather_tune *tune = gather_of(work);
    return 2.0 * (double)gather_scene_copy(&tune->scene, work->pool, tune->turn++);
}

static bool begin_gather(struct gather_tune *tune, const struct spec *spec, const kvmill_pack *pack,
                         int threads, struct error *error) {
    if (!gather_scene_open(&tune->scene, spec, pack, error))
        return false;
    tune->base.limit = LIMIT_BYTES;
    tune->base.bytes = 2.0 * (double)tune->scene.result_bytes;
    return tune_work_begin(&tune->base, pack, threads, error);
}

static struct tune_work *open_gather(const struct tune_problem *problem, const struct spec *spec,
                                     const kvmill_pack *pack, int threads, struct error *error) {
    static const struct tune_work_kind kind = {close_gather, plan_gather, check_gather, run_gather,
                                               copy_windows};
    struct gather_tune *tune = calloc(1, sizeof *tune);
    (void)problem;
    if (tune == NULL) {
        out_of_memory(error);
        return NULL;
    }
    tune->base.kind = &kind;
    if (begin_gather(tune, spec, pack, threads, error))
        return &tune->base;
    tune_work_close(&tune->base);
    return NULL;
}

static bool find_gather(const struct spec *spec, const kvmill_pack *pack, char symbol[SYMBOL_SIZE],
                        struct error *error) {
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = 1, .threads = 1};
    struct gather_scene scene = {.plan = NULL};
    kvmill_plan *plan = NULL;
    gather_view_make(spec->gather, &scene.view);
    bool done = gather_scene_plan(&scene, &options, &plan, error);
    if (done)
        bench_kernel_in_plan(plan, ": with ", symbol);
    kvmill_plan_destroy(plan);
    return done;
}

/* ---- Scatter ---- */

struct scatter_tune {
    struct tune_work base;
    struct scatter_scene scene;
};

static struct scatter_tune *scatter_of(struct tune_work *work) {
    return (struct scatter_tune *)(void *)work;
}

static void close_scatter(struct tune_work *work) {
    scatter_scene_close(&scatter_of(work)->scene);
    free(work);
}

static bool plan_scatter(struct tune_work *work, const kvmill_plan_options *options,
                         struct owned_plan *plan, struct error *error) {
    *plan = (struct owned_plan){0};
    return scatter_scene_plan(&scatter_of(work)->scene, options, &plan->plan, error);
}

static kvmill_status run_functional(const struct tune_comparison *it, const kvmill_plan *plan,
                                    kvmill_error *reason) {
    return scatter_scene_run(it->scene, plan, it->pool, false, reason);
}

static bool check_scatter(struct tune_work *work, const struct owned_plan *plan,
                          struct error *error) {
    struct scatter_scene *scene = &scatter_of(work)->scene;
    const struct tune_comparison it = {scene, work->pool, &scene->result, scene->input_bytes,
                                       run_functional};
    kvmill_plan *portable = NULL;
    scatter_scene_fill(scene);
    bool done = scatter_scene_plan(scene, &tune_portable, &portable, error) &&
                tune_runs_alike(&it, plan->plan, portable, error);
    kvmill_plan_destroy(portable);
    scatter_scene_clear(scene);
    return done;
}

static void run_scatter(struct tune_work *work, const struct owned_plan *plan) {
    scatter_scene_run(&scatter_of(work)->scene, plan->plan, work->pool, true, NULL);
}

static double touch_memory(struct tune_work *work) {
    scatter_scene_touch(&scatter_of(work)->scene, work->pool, true);
    return work->bytes;
}

static bool begin_scatter(struct scatter_tune *tune, const struct spec *spec,
                          const kvmill_pack *pack, int threads, struct error *error) {
    if (!scatter_scene_open(&tune->scene, spec, pack, error) ||
        !tune_work_begin(&tune->base, pack, threads, error) ||
        !scatter_scene_aim(&tune->scene, false, tune->base.pool, error))
        return false;
    tune->base.limit = LIMIT_BYTES;
    tune->base.bytes = scatter_scene_bytes(&tune->scene, true);
    return true;
}

static struct tune_work *open_scatter(const struct tune_problem *problem, const struct spec *spec,
                                      const kvmill_pack *pack, int threads, struct error *error) {
    static const struct tune_work_kind kind = {close_scatter, plan_scatter, check_scatter,
                                               run_scatter, touch_memory};
    struct scatter_tune *tune = calloc(1, sizeof *tune);
    (void)problem;
    if (tune == NULL) {
        out_of_memory(error);
        return NULL;
    }
    tune->base.kind = &kind;
    if (begin_scatter(tune, spec, pack, threads, error))
        return &tune->base;
    tune_work_close(&tune->base);
    return NULL;
}

static bool find_scatter(const struct spec *spec, const kvmill_pack *pack, char symbol[SYMBOL_SIZE],
                         struct error *error) {
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = 1, .threads = 1};
    struct scatter_scene scene = {.plan = NULL};
    kvmill_plan *plan = NULL;
    scatter_view_make(spec->window_scatter, &scene.view);
    bool done = scatter_scene_plan(&scene, &options, &plan, error);
    if (done)
        bench_kernel_in_plan(plan, "apply with ", symbol);
    kvmill_plan_destroy(plan);
    return done;
}

const struct tune_problem windows_problems[] = {
    {"gather", 0, 0, 0, is_gather_spec, find_gather, open_gather},
    {"scatter in place", 0, 0, 0, scatter_scene_serves, find_scatter, open_scatter},
    {0},
};
