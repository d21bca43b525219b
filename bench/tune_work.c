/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_work.h"

#include <stdlib.h>

#include "../base/signals.h"
#include "../tune/statistics.h"
#include "scene_op.h"
#include "scene_rows.h"

/* ---- Problems ---- */

bool tune_problem_serves(const struct tune_problem *problem, const struct spec *spec) {
    return problem->kind->op->knows(spec) &&
           (problem->kind->serves == NULL || problem->kind->serves(spec, &problem->size));
}

/* Returns the size of the problem; for a TensorScatter also the dims that the spec leaves open. */
static bool size_of(const struct tune_problem *problem, const struct spec *spec,
                    struct run_size *size, struct error *error) {
    *size = problem->size;
    return problem->kind->op != &rows_scene_op ||
           rows_size(spec, problem->size.batch, scene_rotation(rows_scene_op.rotation), size) ||
           fail(error, EXIT_USER, "%s: it moves nothing, or more than fits in memory", spec->where);
}

/* Returns the query rows that share a kv head in a decode step, on which its kernel depends; 0: the
   op does not attend. */
static int64_t query_rows(const struct scene *scene) {
    return scene->op->arithmetic != NULL ? scene->op->arithmetic(scene).ratio : 0;
}

bool tune_problem_kernel(const struct tune_problem *problem, const struct spec *spec,
                         const kvmill_pack *pack, char symbol[SYMBOL_SIZE], struct error *error) {
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = 1, .threads = 1};
    struct scene *scene = calloc(1, sizeof *scene);
    struct owned_plan plan = {0};
    struct run_size size;
    if (scene == NULL)
        return out_of_memory(error);
    bool done = size_of(problem, spec, &size, error) &&
                scene_begin(scene, spec, &size, problem->kind->op->rotation,
                            problem->kind->in_place, error) &&
                scene_plan(scene, problem->kind->step, &options, &plan, error);
    if (done)
        bench_kernel_in_plan(plan.plan, problem->kind->kernel, query_rows(scene), symbol);
    owned_plan_close(&plan);
    scene_close(scene);
    free(scene);
    return done;
}

/* ---- Work ---- */

bool tune_work_plan(const struct tune_work *work, const kvmill_plan_options *options,
                    struct owned_plan *plan, struct error *error) {
    return scene_plan(&work->scene, work->problem->kind->step, options, plan, error);
}

bool tune_work_check(struct tune_work *work, const struct owned_plan *plan, struct error *error) {
    work->call.plan = plan;
    work->call.pool = work->pool;
    return scene_check(&work->call, error);
}

static void set_work(struct tune_work *work) {
    const struct tune_problem *problem = work->problem;
    problem->kind->rival(&work->rival, &work->call, problem->kind->which);
    work->limit = problem->kind->in_flops ? LIMIT_FLOPS : LIMIT_BYTES;
    work->bytes = scene_call_bytes(&work->call);
    work->flops = scene_call_flops(&work->call);
}

static bool open_work(struct tune_work *work, const struct spec *spec, const kvmill_pack *pack,
                      int threads, struct error *error) {
    const struct tune_problem *problem = work->problem;
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = 1, .threads = threads};
    struct run_size size;
    if (!bench_pool_open(threads, &work->pool, error) || !size_of(problem, spec, &size, error) ||
        !scene_open(&work->scene, spec, &size, problem->kind->op->rotation, problem->kind->in_place,
                    error) ||
        !tune_work_plan(work, &options, &work->preset, error))
        return false;
    scene_call_open(&work->call, &work->scene, problem->kind->step, &size, &work->preset,
                    work->pool);
    set_work(work);
    return scene_expect(&work->call, error);
}

struct tune_work *tune_work_open(const struct tune_problem *problem, const struct spec *spec,
                                 const kvmill_pack *pack, int threads, struct error *error) {
    struct tune_work *work = calloc(1, sizeof *work);
    if (work == NULL) {
        out_of_memory(error);
        return NULL;
    }
    work->problem = problem;
    if (open_work(work, spec, pack, threads, error))
        return work;
    tune_work_close(work);
    return NULL;
}

void tune_work_close(struct tune_work *work) {
    if (work == NULL)
        return;
    owned_plan_close(&work->preset);
    scene_close(&work->scene);
    kvmill_pool_destroy(work->pool);
    free(work);
}

/* ---- Races ---- */

struct planned {
    struct tune_work *work;
    const struct owned_plan *plan;
};

static void run_planned(void *context, int64_t k) {
    struct planned *planned = context;
    planned->work->call.plan = planned->plan;
    run_call(&planned->work->call, k);
}

/* The times of a race that is running. */
struct standings {
    const struct tune_times *times;
    int count;
    double end;
    bool no_memory;
};

static bool is_enough(void *context, int rounds) {
    struct standings *standings = context;
    const struct tune_times *times = standings->times;
    if (timer_now() >= standings->end || signals_noted)
        return true;
    for (int i = 0; i < standings->count; i++) {
        struct summary gain;
        standings->no_memory |=
            !summarise_ratio(times->preset, times->candidate[i], rounds, 1, &gain);
        if (!standings->no_memory && !summary_is_tight(&gain))
            return false;
    }
    return true;
}

bool tune_work_race(struct tune_work *work, const struct owned_plan *plans, int count,
                    const struct tune_length *length, struct tune_times *times) {
    struct planned planned[MOST_CONTENDERS];
    struct contender contenders[MOST_CONTENDERS];
    double *where[MOST_CONTENDERS];
    struct summary limit;
    for (int i = 0; i <= count; i++) {
        planned[i] = (struct planned){work, i == 0 ? &work->preset : &plans[i - 1]};
        contenders[i] = bench_contender(NULL, run_planned, &planned[i], work->pool);
        where[i] = i == 0 ? times->preset : times->candidate[i - 1];
    }
    contenders[count + 1] = bench_contender(NULL, run_rival, &work->rival, work->pool);
    where[count + 1] = times->limit;
    struct standings standings = {.times = times, .count = count, .end = length->end};
    const struct timer_rounds rounds = {length->least, length->most, count + 1, is_enough,
                                        &standings};
    times->samples = timer_run_rounds(contenders, count + 2, &rounds, where);
    bool done = !standings.no_memory && summarise(times->limit, times->samples, 1, &limit);
    times->limit_rate = done ? work->rival.done / limit.median : 0;
    return done;
}
