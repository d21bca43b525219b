/* Ops whose runs are timed as a whole: those that attend over given keys and values, sequences of
   any lengths, caches that are read back.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "../base/text.h"
#include "bench.h"
#include "race.h"
#include "scene_onnx.h"
#include "scene_op.h"

static const double seconds_per_case = 1.0;
enum { FEW_TOKENS = 8 };

/* Returns the rivals of a case: copying, multiplying or reading. */
static struct bench_case limits_of(const struct scene_op *op, const struct run_size *size) {
    if (op == &read_back_scene_op)
        return (struct bench_case){
            .words = &read_words, .rivals = rival_read_back, .rival_count = COPIES};
    if (size->tokens > FEW_TOKENS)
        return (struct bench_case){
            .words = &prefill_words, .rivals = rival_add, .rival_count = 1, .in_flops = true};
    return (struct bench_case){
        .words = &decode_words, .rivals = rival_read, .rival_count = READINGS};
}

static bool race(struct bench *bench, const struct run_size *size, struct error *error) {
    char words[SAID_SIZE];
    struct bench_case each = limits_of(bench->scene.op, size);
    each.size = *size;
    each.seconds = seconds_per_case;
    each.is_right = scene_check;
    each.compares = true;
    bench->scene.op->say(&bench->scene, words);
    snprintf(each.what, sizeof each.what, "%s %.90s, batch %" PRId64 ", %" PRId64 " on %" PRId64,
             bench->spec->op->name, words, size->batch, size->tokens, size->positions);
    return bench_race(bench, &each, error);
}

static bool bench_size(const struct spec *spec, const struct run_size *size,
                       const struct scene_setting *setting, struct bench_results *results,
                       struct error *error) {
    struct bench bench;
    struct error reason;
    bool done = bench_open(&bench, spec, setting, results, &reason) &&
                scene_open(&bench.scene, spec, size, setting->rotation, false, &reason) &&
                bench_plan(&bench, STEP_RUN, &reason) && race(&bench, size, &reason);
    bench_close(&bench);
    return done || fail(error, reason.exit_code, "%s: %.900s", spec->where, reason.text);
}

enum { SIZES = 2 };
static const struct run_size sizes[SIZES] = {{1, 1, 4096}, {1, 512, 512}};
static const struct run_size batches[SIZES] = {{64, 1, 1024}, {8, 128, 1024}};

bool bench_attend(const struct spec *spec, const struct scene_setting *setting,
                  struct bench_results *results, struct error *error) {
    const struct scene_op *op = scene_op_of(spec);
    const struct run_size *of = op == &batching_scene_op ? batches : sizes;
    int count = op == &read_back_scene_op ? 1 : SIZES;
    bool done = true;
    for (int i = 0; done && i < count; i++)
        done = bench_size(spec, &of[i], setting, results, error);
    return done;
}

bool bench_onnx(const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error) {
    struct run_size own;
    bool done = true, any = false;
    for (int i = 0; done && i < SIZES; i++)
        if (onnx_serves(spec, &sizes[i])) {
            done = bench_size(spec, &sizes[i], setting, results, error);
            any = true;
        }
    if (any)
        return done;
    if (onnx_own_size(spec, &sizes[0], &own))
        return bench_size(spec, &own, setting, results, error);
    print_shown(
        stderr,
        "%s: not timed: only Q, K and V of float32, float16 or bfloat16 are, with a new key "
        "for each query where there is a past\n",
        spec->where);
    return true;
}
