/* Appends with rows that are quantised, compared with the same rows in float16.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "../ops/flow_tensors.h"
#include "bench_flow.h"
#include "scene_flow.h"

static const double seconds_per_race = 1.0;
/* The same flow with float16 in place of quantised fields; their scales are inputs of append. */
struct half {
    struct spec spec;
    struct flow_spec flow;
    struct bench bench;
};

bool bench_flow_quantises(const kvmill_flow *flow) {
    for (size_t i = 0; i < flow->field_count; i++)
        if (kvmill_flow_scales_of(flow, (int64_t)i) != NULL)
            return true;
    return false;
}

static void make_half(struct half *half, const struct spec *spec) {
    const kvmill_flow *flow = flow_of_spec(spec);
    half->spec = *spec;
    half->flow = *spec->flow;
    half->spec.flow = &half->flow;
    half->flow.flow.fields = half->flow.fields;
    half->flow.flow.field_scales = NULL;
    half->flow.flow.powers = 0;
    for (size_t i = 0; i < flow->field_count; i++) {
        if (kvmill_flow_scales_of(flow, (int64_t)i) != NULL)
            half->flow.fields[i].dtype = kvmill_float16;
        if (kvmill_flow_has_scales_of(flow, (int64_t)i))
            half->flow.flow.appended |= INT64_C(1) << i;
    }
}

static bool open(struct bench *bench, const struct spec *spec, const struct scene_setting *setting,
                 const struct run_size *size, struct bench_results *results, struct error *error) {
    return bench_open(bench, spec, setting, results, error) &&
           scene_open(&bench->scene, spec, size, setting->rotation, false, error) &&
           bench_plan(bench, STEP_APPEND, error);
}

static void add(struct bench *bench, int64_t tokens, const struct contender *race) {
    const struct kvmill_flow_problem *problem = &bench->scene.flow.problem;
    char what[128];
    snprintf(what, sizeof what, "append, %" PRId64 " x %" PRId64 " x %d: %.40s", tokens,
             problem->geometry.kv_heads, problem->geometry.key.dim, bench_purpose(bench, "flow"));
    struct bench_result *result =
        bench_add(bench, what, STEP_APPEND, &write_words, 0, race[0].median);
    bench_compare(result, race[1].name, race[1].median, 1 / 1.5);
}

/* A call that fails is fast, and must not win the race. */
static bool runs(struct scene_call *call, struct error *error) {
    kvmill_error reason;
    return scene_call_next(call, &reason) == KVMILL_OK ||
           fail(error, EXIT_USER, "append: %.900s", reason.message);
}

static bool race_tokens(struct bench *const benches[2], int64_t tokens, struct error *error) {
    static struct scene_call calls[2];
    struct contender race[2];
    for (int i = 0; i < 2; i++) {
        const struct run_size size = {1, tokens, benches[i]->scene.size.positions};
        scene_call_open(&calls[i], &benches[i]->scene, STEP_APPEND, &size,
                        &benches[i]->plans[STEP_APPEND], benches[i]->pools[0]);
        race[i] = bench_contender(i == 0 ? NULL : "float16 rows", run_call, &calls[i],
                                  benches[i]->pools[0]);
    }
    if (!runs(&calls[0], error) || !runs(&calls[1], error))
        return false;
    bench_time(benches[0]->results, race, 2, seconds_per_race);
    add(benches[0], tokens, race);
    return true;
}

bool bench_flow_append(const struct spec *spec, const struct scene_setting *setting,
                       struct bench_results *results, struct error *error) {
    const struct run_size size = {1, 512, 4096};
    struct half half;
    struct bench bench;
    struct bench *const benches[2] = {&bench, &half.bench};
    make_half(&half, spec);
    bool opened = open(&bench, spec, setting, &size, results, error);
    bool done = opened && open(&half.bench, &half.spec, setting, &size, results, error);
    done = done && race_tokens(benches, 1, error) && race_tokens(benches, size.tokens, error);
    if (opened)
        bench_close(&half.bench);
    bench_close(&bench);
    return done;
}
