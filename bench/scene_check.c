/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../defs/arithmetic.h"
#include "../runtime/core/numbers.h"
#include "memory.h"
#include "scene_op.h"

static bool run(struct scene_call *call, struct error *error) {
    kvmill_error reason;
    return scene_demand(scene_call_run(call, &reason), &reason, error);
}

static bool plan_portable(const struct scene_call *call, struct owned_plan *plan,
                          struct error *error) {
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .portable = 1, .threads = kvmill_pool_threads(call->pool)};
    return scene_plan(call->scene, call->step, &options, plan, error);
}

/* ---- The same bytes as by the portable kernels ---- */

/* Fills a tensor with alternating bits, then runs the plan. */
static bool write_anew(struct scene_call *call, int tensor, const struct owned_plan *plan,
                       struct error *error) {
    memset(call->given[tensor]->data, 0x55,
           (size_t)scene_bytes_of(call->scene, call->given[tensor]));
    call->plan = plan;
    return run(call, error);
}

/* Compares a tensor with the portable kernels' result, and restores a cache's contents
   afterwards. */
static bool compare_tensor(struct scene_call *call, int tensor, const struct owned_plan *portable,
                           struct error *error) {
    const struct owned_plan *plan = call->plan;
    size_t bytes = (size_t)scene_bytes_of(call->scene, call->given[tensor]);
    unsigned char *data = call->given[tensor]->data;
    bool keep = call->scene->use[tensor] == USE_CACHE;
    unsigned char *want = malloc(bytes + 1), *held = malloc(keep ? bytes + 1 : 1);
    bool done = (want != NULL && held != NULL) || out_of_memory(error);
    if (done) {
        memcpy(held, data, keep ? bytes : 0);
        done = write_anew(call, tensor, portable, error);
        memcpy(want, data, bytes);
        done = write_anew(call, tensor, plan, error) && done;
        done = done && (memcmp(want, data, bytes) == 0 ||
                        fail(error, EXIT_BUG, "its result differs from the portable kernel's"));
        memcpy(data, held, keep ? bytes : 0);
    }
    call->plan = plan;
    free(want);
    free(held);
    return done;
}

static bool check_bytes(struct scene_call *call, struct error *error) {
    const struct scene_op *op = call->scene->op;
    const int *written = call->step == STEP_APPEND ? op->appended : op->written;
    struct owned_plan portable;
    bool done = plan_portable(call, &portable, error);
    for (int i = 0; done && i < SCENE_WRITTEN && written[i] > 0; i++)
        if (call->given[written[i]] != NULL)
            done = compare_tensor(call, written[i], &portable, error);
    owned_plan_close(&portable);
    return done;
}

/* ---- As near as the arithmetic allows ---- */

/* Returns the accepted error, as a share of the largest output: that of the math, and that of
   rounding to the output's type. */
static double tolerance_of(const struct kvmill_cache_geometry *geometry) {
    double rounding = geometry->activation == KVMILL_F16    ? 0x1p-10
                      : geometry->activation == KVMILL_BF16 ? 0x1p-7
                                                            : 0;
    return 1e-4 + kvmill_math_errors[geometry->math] + rounding;
}

/* A NaN counts as an infinite error. */
static bool agree(const struct kvmill_cache_geometry *geometry, const unsigned char *have,
                  const unsigned char *want, const struct scene_span *span, struct error *error) {
    double largest = 0, worst = 0, tolerance = tolerance_of(geometry);
    for (int64_t i = span->first; i < span->first + span->count; i++) {
        double x = kvmill_load_float(geometry->activation, have, i);
        double y = kvmill_load_float(geometry->activation, want, i);
        largest = fmax(largest, fabs(y));
        worst = isfinite(x) && isfinite(y) ? fmax(worst, fabs(x - y)) : INFINITY;
    }
    return worst <= tolerance * largest ||
           fail(error, EXIT_BUG,
                "an output is %g off, the largest is %g; accepted: %g of the largest", worst,
                largest, tolerance);
}

static bool is_known(const struct scene_call *call) {
    const struct run_size *size = &call->scene->expected_size;
    return call->scene->span_count > 0 && memcmp(size, &call->size, sizeof *size) == 0;
}

/* Computes the whole output. */
static bool expect_all(struct scene_call *call, const struct owned_plan *portable,
                       struct error *error) {
    struct scene *scene = call->scene;
    const struct owned_plan *plan = call->plan;
    DLTensor *output = &call->tensors[scene->op->output];
    unsigned char *data = output->data;
    call->plan = portable;
    output->data = scene->expected.data;
    bool done = run(call, error);
    output->data = data;
    call->plan = plan;
    scene->spans[0] =
        (struct scene_span){0, scene_bytes_of(scene, output) * 8 / output->dtype.bits};
    scene->span_count = 1;
    return done;
}

static bool reserve_expected(struct scene *scene, struct error *error) {
    int64_t bytes = scene_tensor_bytes(scene, scene->op->output);
    struct scene_memory *expected = &scene->expected;
    if (bytes <= expected->bytes)
        return true;
    bench_memory_release(expected->data, expected->bytes);
    expected->data = bench_memory_get(bytes);
    expected->bytes = expected->data != NULL ? bytes : 0;
    return expected->data != NULL || out_of_memory(error);
}

/* Whether the call attends, with math that need not give the portable kernels' bytes. */
static bool has_outputs(const struct scene_call *call) {
    return call->scene->op->arithmetic != NULL &&
           (call->step == STEP_RUN || call->step == STEP_ATTEND);
}

bool scene_expect(struct scene_call *call, struct error *error) {
    struct scene *scene = call->scene;
    struct owned_plan portable;
    if (!has_outputs(call) || is_known(call))
        return true;
    if (!reserve_expected(scene, error) || !plan_portable(call, &portable, error))
        return false;
    scene->expected_size = call->size;
    scene_call_set(call, 0);
    bool done =
        (scene->op->expect != NULL ? scene->op->expect : expect_all)(call, &portable, error);
    owned_plan_close(&portable);
    return done;
}

static bool check_outputs(struct scene_call *call, struct error *error) {
    const struct scene *scene = call->scene;
    const struct kvmill_cache_geometry geometry = scene->op->arithmetic(scene);
    const unsigned char *have = call->tensors[scene->op->output].data;
    bool done = scene_expect(call, error) && scene_check_threads(call, error);
    for (int i = 0; done && i < scene->span_count; i++)
        done = agree(&geometry, have, scene->expected.data, &scene->spans[i], error);
    return done;
}

bool scene_check_threads(struct scene_call *call, struct error *error) {
    const DLTensor *output = &call->tensors[call->scene->op->output];
    const struct owned_plan *plan = call->plan;
    size_t bytes = (size_t)scene_bytes_of(call->scene, output);
    unsigned char *alone = malloc(bytes + 1);
    kvmill_error reason;
    if (alone == NULL)
        return out_of_memory(error);
    memset(output->data, 0xff, bytes);
    bool done = scene_demand(scene_call_alone(call, plan, &reason), &reason, error);
    memcpy(alone, output->data, bytes);
    if (done && kvmill_pool_threads(call->pool) > 1) {
        memset(output->data, 0xff, bytes);
        done =
            run(call, error) && (memcmp(alone, output->data, bytes) == 0 ||
                                 fail(error, EXIT_BUG, "%d threads and one give different outputs",
                                      kvmill_pool_threads(call->pool)));
    }
    free(alone);
    return done;
}

/* ---- Both ---- */

bool scene_check(struct scene_call *call, struct error *error) {
    const struct scene_op *op = call->scene->op;
    scene_call_set(call, 0);
    if (op->prepare != NULL)
        op->prepare(call, true);
    bool done = has_outputs(call) ? check_outputs(call, error) : check_bytes(call, error);
    if (op->prepare != NULL)
        op->prepare(call, false);
    return done;
}
