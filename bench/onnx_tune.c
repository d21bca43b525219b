/* What kernels that attend are measured with by ONNX Attention and its step.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "attention_limits.h"
#include "attention_race.h"
#include "onnx_scene.h"
#include "tune_work.h"

struct onnx_tune {
    struct tune_work base;
    struct onnx_scene scene;
};

static struct onnx_tune *tune_of(struct tune_work *work) {
    return (struct onnx_tune *)(void *)work;
}

static void close_tune(struct tune_work *work) {
    onnx_scene_close(&tune_of(work)->scene);
    free(work);
}

static bool plan(struct tune_work *work, const kvmill_plan_options *options,
                 struct owned_plan *plan, struct error *error) {
    return onnx_scene_plan(&tune_of(work)->scene, options, plan, error);
}

static bool check(struct tune_work *work, const struct owned_plan *plan, struct error *error) {
    return onnx_scene_check(&tune_of(work)->scene, plan, work->pool, error);
}

static void run(struct tune_work *work, const struct owned_plan *plan) {
    onnx_scene_run(&tune_of(work)->scene, plan, work->pool, NULL);
}

static double read_memory(struct tune_work *work) {
    return (double)onnx_scene_read(&tune_of(work)->scene, work->pool);
}

static double multiply_and_add(struct tune_work *work) {
    struct adder adder = {.peak = peak_of(NULL), .pool = work->pool};
    run_adder(&adder, 0);
    return 2 * adder.count;
}

/* ---- Problems ---- */

static bool begin(struct onnx_tune *tune, const struct tune_problem *problem,
                  const struct spec *spec, const kvmill_pack *pack, int threads,
                  struct error *error) {
    const struct attention_size size = {problem->batch, problem->tokens, problem->positions};
    if (!onnx_scene_open(&tune->scene, spec, &size, ATTENTION_ROTATION, error) ||
        !tune_work_begin(&tune->base, pack, threads, error) ||
        !onnx_scene_expect(&tune->scene, tune->base.pool, error))
        return false;
    tune->base.bytes = onnx_scene_bytes(&tune->scene);
    tune->base.flops = onnx_scene_flops(&tune->scene);
    return true;
}

static struct tune_work *open_kind(const struct tune_work_kind *kind, enum limit_kind limit,
                                   const struct tune_problem *problem, const struct spec *spec,
                                   const kvmill_pack *pack, int threads, struct error *error) {
    struct onnx_tune *tune = calloc(1, sizeof *tune);
    if (tune == NULL) {
        out_of_memory(error);
        return NULL;
    }
    tune->base.kind = kind;
    tune->base.limit = limit;
    if (begin(tune, problem, spec, pack, threads, error))
        return &tune->base;
    tune_work_close(&tune->base);
    return NULL;
}

static struct tune_work *open_decode(const struct tune_problem *problem, const struct spec *spec,
                                     const kvmill_pack *pack, int threads, struct error *error) {
    static const struct tune_work_kind kind = {close_tune, plan, check, run, read_memory};
    return open_kind(&kind, LIMIT_BYTES, problem, spec, pack, threads, error);
}

static struct tune_work *open_prefill(const struct tune_problem *problem, const struct spec *spec,
                                      const kvmill_pack *pack, int threads, struct error *error) {
    static const struct tune_work_kind kind = {close_tune, plan, check, run, multiply_and_add};
    return open_kind(&kind, LIMIT_FLOPS, problem, spec, pack, threads, error);
}

static bool serves_decode(const struct spec *spec) {
    return onnx_scene_serves(spec, &(struct attention_size){1, 1, 4096});
}

static bool serves_prefill(const struct spec *spec) {
    return onnx_scene_serves(spec, &(struct attention_size){1, 512, 512});
}

/* ---- Which kernel ---- */

static bool find_kernel(const struct kind *kind, const struct spec *spec, const kvmill_pack *pack,
                        char symbol[SYMBOL_SIZE], struct error *error) {
    const kvmill_plan_options with = {
        .struct_size = sizeof with, .packs = &pack, .pack_count = 1, .threads = 1};
    kvmill_plan *plan;
    kvmill_error reason;
    if (onnx_spec_plan(spec, &with, &plan, &reason) != KVMILL_OK)
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

const struct tune_problem onnx_problems[] = {
    {"Attention 1 on 4096", 1, 1, 4096, serves_decode, find_decode, open_decode},
    {"Attention 512 on 512", 1, 512, 512, serves_prefill, find_prefill, open_prefill},
    {0},
};
