/* What TensorScatter's kernels are measured with.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "bench_rows.h"
#include "limits.h"
#include "results.h"
#include "rows_scene.h"
#include "tune_work.h"

static const int64_t rotation = 512 << 20; /* bytes of a cache: more than a processor's */

struct rows_tune {
    struct tune_work base;
    struct rows_scene scene;
    int64_t turn;
};

static struct rows_tune *tune_of(struct tune_work *work) {
    return (struct rows_tune *)(void *)work;
}

static void close_tune(struct tune_work *work) {
    rows_scene_close(&tune_of(work)->scene);
    free(work);
}

static bool plan(struct tune_work *work, const kvmill_plan_options *options,
                 struct owned_plan *plan, struct error *error) {
    *plan = (struct owned_plan){0};
    return rows_scene_plan(&tune_of(work)->scene, options, &plan->plan, error);
}

static void run(struct tune_work *work, const struct owned_plan *plan) {
    struct rows_tune *tune = tune_of(work);
    rows_scene_move(&tune->scene, tune->turn++);
    rows_scene_run(&tune->scene, plan->plan, NULL);
}

/* ---- Checking ---- */

static kvmill_status run_again(const struct tune_comparison *it, const kvmill_plan *plan,
                               kvmill_error *reason) {
    return rows_scene_run(it->scene, plan, reason);
}

static bool check(struct tune_work *work, const struct owned_plan *plan, struct error *error) {
    struct rows_scene *scene = &tune_of(work)->scene;
    const struct tune_comparison it = {scene, work->pool, &scene->present,
                                       rows_tensor_bytes(&scene->present), run_again};
    kvmill_plan *portable = NULL;
    scene->pool = work->pool;
    rows_scene_move(scene, 1);
    bool done = rows_scene_plan(scene, &tune_portable, &portable, error) &&
                tune_runs_alike(&it, plan->plan, portable, error);
    kvmill_plan_destroy(portable);
    return done;
}

/* ---- What the machine can do ---- */

/* Of the bytes that a run reads, as many; bytes read and written. */
static double copy_memory(struct tune_work *work) {
    struct rows_scene *scene = &tune_of(work)->scene;
    size_t bytes = (size_t)(work->bytes / 2);
    const struct copy copy = {scene->present.data,
                              scene->in_place ? scene->update.data : scene->past.data, bytes,
                              work->pool};
    limit_nontemporal(&copy);
    return work->bytes;
}

/* ---- Opening ---- */

static struct rows_tune *make(const struct tune_work_kind *kind, int threads, bool in_place) {
    struct rows_tune *tune = calloc(1, sizeof *tune);
    if (tune == NULL)
        return NULL;
    tune->base.kind = kind;
    tune->base.limit = LIMIT_BYTES;
    tune->scene.threads = threads;
    tune->scene.in_place = in_place;
    return tune;
}

static bool open_tune(struct rows_tune *tune, const struct tune_problem *problem,
                      const struct spec *spec, const kvmill_pack *pack, struct error *error) {
    struct rows_case each;
    if (!rows_case_open(&each, spec, error))
        return false;
    if (!rows_case_size(&each, problem->batch, rotation))
        return fail(error, EXIT_USER, "%s: it moves nothing, or more than fits memory",
                    spec->where);
    if (!rows_scene_open(&tune->scene, &each, pack, error) ||
        !tune_work_begin(&tune->base, pack, tune->scene.threads, error))
        return false;
    tune->base.bytes = rows_scene_bytes(&tune->scene);
    return true;
}

static struct tune_work *open_rows(const struct tune_problem *problem, const struct spec *spec,
                                   const kvmill_pack *pack, int threads, bool in_place,
                                   struct error *error) {
    static const struct tune_work_kind kind = {close_tune, plan, check, run, copy_memory};
    struct rows_tune *tune = make(&kind, threads, in_place);
    if (tune == NULL) {
        out_of_memory(error);
        return NULL;
    }
    if (open_tune(tune, problem, spec, pack, error))
        return &tune->base;
    tune_work_close(&tune->base);
    return NULL;
}

static struct tune_work *open_in_place(const struct tune_problem *problem, const struct spec *spec,
                                       const kvmill_pack *pack, int threads, struct error *error) {
    return open_rows(problem, spec, pack, threads, true, error);
}

static struct tune_work *open_functional(const struct tune_problem *problem,
                                         const struct spec *spec, const kvmill_pack *pack,
                                         int threads, struct error *error) {
    return open_rows(problem, spec, pack, threads, false, error);
}

/* ---- Which kernel ---- */

static bool serves(const struct spec *spec) {
    return spec->op == &tensor_scatter_spec;
}

static bool find_kernel(const char *words, const struct spec *spec, const kvmill_pack *pack,
                        char symbol[SYMBOL_SIZE], struct error *error) {
    const kvmill_plan_options with = {
        .struct_size = sizeof with, .packs = &pack, .pack_count = 1, .threads = 1};
    kvmill_tensor_scatter op = scatter_op_of(spec);
    kvmill_plan *plan;
    kvmill_error reason;
    if (kvmill_plan_tensor_scatter(&op, &with, &plan, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s", reason.message);
    bench_kernel_in_plan(plan, words, symbol);
    kvmill_plan_destroy(plan);
    return true;
}

static bool find_store(const struct spec *spec, const kvmill_pack *pack, char symbol[SYMBOL_SIZE],
                       struct error *error) {
    return find_kernel("store with ", spec, pack, symbol, error);
}

static bool find_keep(const struct spec *spec, const kvmill_pack *pack, char symbol[SYMBOL_SIZE],
                      struct error *error) {
    return find_kernel("keep with ", spec, pack, symbol, error);
}

const struct tune_problem rows_problems[] = {
    {"update 64 in place", 64, 0, 0, serves, find_store, open_in_place},
    {"update 1 in place", 1, 0, 0, serves, find_store, open_in_place},
    {"update 8 functional", 8, 0, 0, serves, find_keep, open_functional},
    {0},
};
