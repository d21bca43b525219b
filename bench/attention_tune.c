/* What cache attention's kernels are measured with.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "attention_limits.h"
#include "attention_race.h"
#include "bench_attention.h"
#include "tune_work.h"

/* All plans share the scene's memory, and walk on through it together. */
struct attention_tune {
    struct tune_work base;
    struct attention_scene scene;
    struct attention_call call;
};

static struct attention_tune *tune_of(struct tune_work *work) {
    return (struct attention_tune *)(void *)work;
}

static void close_tune(struct tune_work *work) {
    attention_close(&tune_of(work)->scene);
    free(work);
}

static bool plan(struct tune_work *work, const kvmill_plan_options *options,
                 struct owned_plan *plan, struct error *error) {
    return attention_plan_open(&tune_of(work)->scene, options->packs, options->pack_count, NULL,
                               options->threads, plan, error);
}

static struct attention_call *call_by(struct tune_work *work, const struct owned_plan *plan) {
    struct attention_tune *tune = tune_of(work);
    tune->call.plan = plan;
    tune->call.pool = work->pool;
    return &tune->call;
}

static bool check_attend(struct tune_work *work, const struct owned_plan *plan,
                         struct error *error) {
    return attention_check_run(call_by(work, plan), error);
}

static bool check_store(struct tune_work *work, const struct owned_plan *plan,
                        struct error *error) {
    return attention_check_store(call_by(work, plan), error);
}

static void run_attend(struct tune_work *work, const struct owned_plan *plan) {
    struct attention_call *call = call_by(work, plan);
    attention_call_move(call);
    attention_call_run(call, NULL);
}

static void run_store(struct tune_work *work, const struct owned_plan *plan) {
    struct attention_call *call = call_by(work, plan);
    attention_call_move(call);
    attention_call_store(call, NULL);
}

/* ---- What the machine can do ---- */

static double read_memory(struct tune_work *work) {
    struct reader reader = {.scene = &tune_of(work)->scene,
                            .pool = work->pool,
                            .streams = kinds_of_reading[READINGS - 1].streams};
    run_reader(&reader, 0);
    return (double)reader.bytes;
}

static double multiply_and_add(struct tune_work *work) {
    struct adder adder = {.peak = peak_of(NULL), .pool = work->pool};
    run_adder(&adder, 0);
    return 2 * adder.count;
}

/* Bytes read and written. */
static double copy_activations(struct tune_work *work) {
    struct attention_tune *tune = tune_of(work);
    int64_t bytes = attention_activation_bytes(&tune->scene.geometry, &tune->call.size);
    struct copier copier = {&tune->scene, work->pool, bytes, limit_nontemporal};
    run_copier(&copier, 0);
    return 2 * (double)bytes;
}

/* ---- Opening ---- */

static bool open_tune(struct attention_tune *tune, const struct tune_problem *problem,
                      const struct spec *spec, const kvmill_pack *pack, int threads,
                      struct error *error) {
    const struct attention_setting setting = {
        .pack = pack, .threads = threads, .rotation = ATTENTION_ROTATION};
    const struct attention_size size = {problem->batch, problem->tokens, problem->positions};
    if (!attention_open(&tune->scene, &spec->attention.op, &setting, NULL, error) ||
        !attention_set_shape(&tune->scene, size.batch, size.positions, size.tokens, error) ||
        !tune_work_begin(&tune->base, pack, threads, error))
        return false;
    attention_call_open(&tune->call, &tune->scene, &size, tune->base.pool);
    tune->base.bytes = attention_read_bytes(&tune->scene.geometry, &size);
    tune->base.flops = attention_flops(&tune->scene.geometry, &size);
    return true;
}

static struct attention_tune *open_kind(const struct tune_work_kind *kind,
                                        const struct tune_problem *problem, const struct spec *spec,
                                        const kvmill_pack *pack, int threads, struct error *error) {
    struct attention_tune *tune = calloc(1, sizeof *tune);
    if (tune == NULL) {
        out_of_memory(error);
        return NULL;
    }
    tune->base.kind = kind;
    if (open_tune(tune, problem, spec, pack, threads, error))
        return tune;
    tune_work_close(&tune->base);
    return NULL;
}

static struct tune_work *open_decode(const struct tune_problem *problem, const struct spec *spec,
                                     const kvmill_pack *pack, int threads, struct error *error) {
    static const struct tune_work_kind kind = {close_tune, plan, check_attend, run_attend,
                                               read_memory};
    struct attention_tune *tune = open_kind(&kind, problem, spec, pack, threads, error);
    if (tune == NULL)
        return NULL;
    tune->base.limit = LIMIT_BYTES;
    return &tune->base;
}

static struct tune_work *open_prefill(const struct tune_problem *problem, const struct spec *spec,
                                      const kvmill_pack *pack, int threads, struct error *error) {
    static const struct tune_work_kind kind = {close_tune, plan, check_attend, run_attend,
                                               multiply_and_add};
    struct attention_tune *tune = open_kind(&kind, problem, spec, pack, threads, error);
    if (tune == NULL)
        return NULL;
    tune->base.limit = LIMIT_FLOPS;
    return &tune->base;
}

static struct tune_work *open_store(const struct tune_problem *problem, const struct spec *spec,
                                    const kvmill_pack *pack, int threads, struct error *error) {
    static const struct tune_work_kind kind = {close_tune, plan, check_store, run_store,
                                               copy_activations};
    struct attention_tune *tune = open_kind(&kind, problem, spec, pack, threads, error);
    if (tune == NULL)
        return NULL;
    tune->base.limit = LIMIT_BYTES;
    tune->base.bytes = attention_store_bytes(&tune->scene.geometry, &tune->call.size);
    tune->base.flops = 0;
    return &tune->base;
}

/* ---- Which kernel ---- */

static bool find_kernel(const struct kind *kind, const struct spec *spec, const kvmill_pack *pack,
                        char symbol[SYMBOL_SIZE], struct error *error) {
    const kvmill_plan_options with = {
        .struct_size = sizeof with, .packs = &pack, .pack_count = 1, .threads = 1};
    kvmill_plan *plan;
    kvmill_error reason;
    if (kvmill_plan_multi_head_cache_attention(&spec->attention.op, &with, &plan, &reason) !=
        KVMILL_OK)
        return fail(error, EXIT_BUG, "%s", reason.message);
    kind->find_kernel(plan, kind->words, symbol);
    kvmill_plan_destroy(plan);
    return true;
}

static bool find_decode(const struct spec *spec, const kvmill_pack *pack, char symbol[SYMBOL_SIZE],
                        struct error *error) {
    return find_kernel(&decode_kind, spec, pack, symbol, error);
}

static bool find_prefill(const struct spec *spec, const kvmill_pack *pack, char symbol[SYMBOL_SIZE],
                         struct error *error) {
    return find_kernel(&prefill_kind, spec, pack, symbol, error);
}

static bool find_store(const struct spec *spec, const kvmill_pack *pack, char symbol[SYMBOL_SIZE],
                       struct error *error) {
    return find_kernel(&store_kind, spec, pack, symbol, error);
}

const struct tune_problem attention_problems[] = {
    {"decode 1 on 4096", 1, 1, 4096, bench_can_attend, find_decode, open_decode},
    {"prefill 512 on 512", 1, 512, 512, bench_can_attend, find_prefill, open_prefill},
    {"decode 1 on 512", 1, 1, 512, bench_can_attend, find_decode, open_decode},
    {"decode 64 on 512", 64, 1, 512, bench_can_attend, find_decode, open_decode},
    {"prefill 128 on 4096", 1, 128, 4096, bench_can_attend, find_prefill, open_prefill},
    {"store 512", 1, 512, 512, bench_can_attend, find_store, open_store},
    {"store 64 rows", 64, 1, 512, bench_can_attend, find_store, open_store},
    {0},
};
