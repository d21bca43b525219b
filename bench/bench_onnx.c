/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_onnx.h"

#include <inttypes.h>
#include <stdio.h>

#include "../ops/dtype.h"
#include "attention_limits.h"
#include "attention_race.h"
#include "onnx_scene.h"

static const double seconds_per_case = 1.0;
enum { FEW_TOKENS = 8 };

/* A scene by the threads of a pool. */
struct team {
    struct onnx_scene *scene;
    const struct owned_plan *plan;
    struct pool *pool;
    struct adder adder;
    int64_t read;
};

static bool is_few(const struct onnx_scene *scene) {
    return scene->size.tokens <= FEW_TOKENS;
}

/* ---- Contenders ---- */

static void run_onnx(void *context, int64_t k) {
    struct team *team = context;
    (void)k;
    onnx_scene_run(team->scene, team->plan, team->pool, NULL);
}

static void run_limit(void *context, int64_t k) {
    struct team *team = context;
    if (is_few(team->scene))
        team->read = onnx_scene_read(team->scene, team->pool);
    else
        run_adder(&team->adder, k);
}

/* ---- Results ---- */

static struct bench_result *add_result(struct bench_results *results, const struct team *team,
                                       double seconds) {
    struct bench_result *result = bench_results_add(results);
    const struct onnx_scene *scene = team->scene;
    const struct kvmill_attention_geometry *g = &scene->geometry;
    const struct kind *kind = is_few(scene) ? &decode_kind : &prefill_kind;
    snprintf(result->what, sizeof result->what,
             "%s %" PRId64 "/%" PRId64 " x %" PRId64 " %s, batch %" PRId64 ", %" PRId64
             " on %" PRId64,
             scene->spec.op->name, g->heads, g->kv_heads, g->key_dim,
             kvmill_dtype_name(scene->given[KVMILL_ATTENTION_Q]->dtype), scene->size.batch,
             scene->size.tokens, scene->size.positions);
    kind->find_kernel(team->plan->plan, kind->words, result->kernel);
    result->threads = pool_threads(team->pool);
    result->seconds = seconds;
    return result;
}

static void add_team(struct bench_results *results, const struct team *team, double seconds,
                     double limit_seconds) {
    struct bench_result *result = add_result(results, team, seconds);
    if (is_few(team->scene)) {
        result->bytes = onnx_scene_bytes(team->scene);
        bench_compare(result, kinds_of_reading[READINGS - 1].name,
                      result->bytes / (double)team->read * limit_seconds, 0);
    } else {
        result->flops = onnx_scene_flops(team->scene);
        bench_compare(result, "multiply-add",
                      result->flops / (2 * team->adder.count) * limit_seconds, 0);
    }
}

/* ---- A race ---- */

static bool race_teams(struct team *teams, int count, struct bench_results *results,
                       struct error *error) {
    struct contender race[2 * TEAMS];
    for (int t = 0; t < count; t++) {
        if (!onnx_scene_check(teams[t].scene, teams[t].plan, teams[t].pool, error))
            return false;
        race[2 * t] =
            (struct contender){.run = run_onnx, .context = &teams[t], .pool = teams[t].pool};
        race[2 * t + 1] =
            (struct contender){.run = run_limit, .context = &teams[t], .pool = teams[t].pool};
    }
    timer_race(race, 2 * count, seconds_per_case);
    for (int t = 0; t < count; t++)
        add_team(results, &teams[t], race[2 * t].median, race[2 * t + 1].median);
    if (count > 1)
        bench_compare(add_result(results, &teams[1], race[2].median), "one thread", race[0].median,
                      0);
    return true;
}

static bool race_scene(struct onnx_scene *scene, const struct attention_setting *setting,
                       struct bench_results *results, struct error *error) {
    const kvmill_plan_options options = {.struct_size = sizeof options,
                                         .packs = &setting->pack,
                                         .pack_count = 1,
                                         .threads = setting->threads};
    struct owned_plan plan = {0};
    struct team teams[TEAMS];
    int count = setting->threads > 1 ? TEAMS : 1;
    bool done = onnx_scene_plan(scene, &options, &plan, error);
    for (int t = 0; t < TEAMS; t++) {
        struct pool *pool = pool_open(t == 0 ? 1 : setting->threads);
        teams[t] = (struct team){scene, &plan, pool, {peak_of(NULL), pool, 0}, 0};
        done = done && (pool != NULL || out_of_memory(error));
    }
    done = done && onnx_scene_expect(scene, teams[count - 1].pool, error) &&
           race_teams(teams, count, results, error);
    for (int t = 0; t < TEAMS; t++)
        pool_close(teams[t].pool);
    owned_plan_close(&plan);
    return done;
}

static bool bench_size(const struct spec *spec, const struct attention_size *size,
                       const struct attention_setting *setting, struct bench_results *results,
                       struct error *error) {
    struct onnx_scene scene;
    struct error reason;
    bool done = onnx_scene_open(&scene, spec, size, setting->rotation, &reason) &&
                race_scene(&scene, setting, results, &reason);
    onnx_scene_close(&scene);
    return done || fail(error, reason.exit_code, "%s, %" PRId64 " on %" PRId64 ": %.900s",
                        spec->where, size->tokens, size->positions, reason.text);
}

/* ---- Sizes ---- */

bool bench_onnx(const struct spec *spec, const struct attention_setting *setting,
                struct bench_results *results, struct error *error) {
    static const struct attention_size sizes[] = {{1, 1, 4096}, {1, 512, 512}};
    struct attention_size own;
    bool done = true, any = false;
    for (int i = 0; done && i < 2; i++)
        if (onnx_scene_serves(spec, &sizes[i])) {
            done = bench_size(spec, &sizes[i], setting, results, error);
            any = true;
        }
    if (any)
        return done;
    if (onnx_scene_own_size(spec, &sizes[0], &own))
        return bench_size(spec, &own, setting, results, error);
    fprintf(stderr,
            "%s: not timed: only Q, K and V of float32, float16 or bfloat16 are, with a new key "
            "for each query where there is a past\n",
            spec->where);
    return true;
}
