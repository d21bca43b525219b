/* What kernels that score pages of sparse flows are measured with: the index step.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "flow_scene.h"
#include "limits.h"
#include "results.h"
#include "tune_work.h"

enum { READ_BYTES = 32 << 20, STREAMS = 8, ROTATION = 512 << 20 };

struct flow_tune {
    struct tune_work base;
    struct flow_scene scene;
    struct flow_bench_call call;
};

static struct flow_tune *tune_of(struct tune_work *work) {
    return (struct flow_tune *)(void *)work;
}

static void close_tune(struct tune_work *work) {
    flow_scene_close(&tune_of(work)->scene);
    free(work);
}

static bool plan(struct tune_work *work, const kvmill_plan_options *options,
                 struct owned_plan *plan, struct error *error) {
    return flow_scene_plan(&tune_of(work)->scene, PLAN_INDEX, options, plan, error);
}

static void run(struct tune_work *work, const struct owned_plan *plan) {
    flow_call_move(&tune_of(work)->call);
    flow_call_run_by(&tune_of(work)->call, plan, work->pool, NULL);
}

static double read_memory(struct tune_work *work) {
    const struct reading reading = {
        (const char *)flow_next_bytes(&tune_of(work)->scene, READ_BYTES), READ_BYTES, STREAMS,
        work->pool};
    limit_read(&reading);
    return READ_BYTES;
}

/* ---- Checking ---- */

static kvmill_status run_again(const struct tune_comparison *it, const kvmill_plan *plan,
                               kvmill_error *reason) {
    struct flow_tune *tune = it->scene;
    const struct owned_plan owned = {(kvmill_plan *)(uintptr_t)plan, tune->base.preset.workspace};
    return flow_call_run_by(&tune->call, &owned, it->pool, reason);
}

/* The lists; those of the portable kernels need no more workspace. */
static bool check(struct tune_work *work, const struct owned_plan *plan, struct error *error) {
    struct flow_tune *tune = tune_of(work);
    const DLTensor *list = &tune->call.tensors[KVMILL_SEL];
    const struct tune_comparison it = {tune, work->pool, list,
                                       list->shape[0] * (int64_t)sizeof(int32_t), run_again};
    struct owned_plan portable;
    bool done = flow_scene_plan(&tune->scene, PLAN_INDEX, &tune_portable, &portable, error) &&
                tune_runs_alike(&it, plan->plan, portable.plan, error);
    owned_plan_close(&portable);
    return done;
}

/* ---- Problems ---- */

static bool begin(struct flow_tune *tune, const struct tune_problem *problem,
                  const struct spec *spec, const kvmill_pack *pack, int threads,
                  struct error *error) {
    const struct attention_setting setting = {
        .pack = pack, .threads = threads, .rotation = ROTATION};
    if (!flow_scene_open(&tune->scene, flow_of_spec(spec), &setting, problem->positions, error) ||
        !tune_work_begin(&tune->base, pack, threads, error))
        return false;
    flow_call_open(&tune->call, &tune->scene, PLAN_INDEX, tune->base.pool);
    tune->base.limit = LIMIT_BYTES;
    tune->base.bytes = flow_index_bytes(&tune->scene);
    return true;
}

static struct tune_work *open_index(const struct tune_problem *problem, const struct spec *spec,
                                    const kvmill_pack *pack, int threads, struct error *error) {
    static const struct tune_work_kind kind = {close_tune, plan, check, run, read_memory};
    struct flow_tune *tune = calloc(1, sizeof *tune);
    if (tune == NULL) {
        out_of_memory(error);
        return NULL;
    }
    tune->base.kind = &kind;
    if (begin(tune, problem, spec, pack, threads, error))
        return &tune->base;
    tune_work_close(&tune->base);
    return NULL;
}

/* States would move from run to run. */
static bool serves(const struct spec *spec) {
    struct kvmill_flow_problem problem;
    if (!is_flow_spec(spec) || kvmill_flow_verify(flow_of_spec(spec), &problem, NULL) != KVMILL_OK)
        return false;
    for (int i = 0; i < problem.field_count; i++)
        if (problem.fields[i].saved)
            return false;
    return kvmill_flow_scores(&problem.budget);
}

static bool find_kernel(const struct spec *spec, const kvmill_pack *pack, char symbol[SYMBOL_SIZE],
                        struct error *error) {
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = 1, .threads = 1};
    const kvmill_flow_limits limits = {sizeof limits, 1, 1, 1};
    kvmill_error reason;
    kvmill_plan *plan = NULL;
    if (kvmill_plan_flow_index(flow_of_spec(spec), &limits, &options, &plan, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s", reason.message);
    symbol[0] = '\0';
    bench_kernel_in_plan(plan, "; score with ", symbol);
    kvmill_plan_destroy(plan);
    return true;
}

const struct tune_problem flow_problems[] = {
    {"index 32768", 1, 1, 32768, serves, find_kernel, open_index},
    {"index 4096", 1, 1, 4096, serves, find_kernel, open_index},
    {0},
};
