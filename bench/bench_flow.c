/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "bench.h"
#include "bench_flow.h"
#include "scene_flow.h"
#include "scene_op.h"

static const double seconds_per_race = 2.0;

/* The contenders of a team in one race; all read memory that has not been read lately. */
enum { DENSE, DECODE, INDEX, FIRST_READING, RACERS = FIRST_READING + READINGS };
static const enum scene_step steps[] = {STEP_ATTEND, STEP_RUN, STEP_INDEX};

struct team_race {
    struct scene_call calls[FIRST_READING];
    struct rival readings[READINGS];
    struct contender contenders[RACERS];
};

static void enter(struct bench *bench, int team, struct team_race *race) {
    kvmill_pool *pool = bench->pools[team];
    for (int i = 0; i < FIRST_READING; i++) {
        scene_call_open(&race->calls[i], &bench->scene, steps[i], &bench->scene.size,
                        &bench->plans[steps[i]], pool);
        race->contenders[i] = bench_contender(NULL, run_call, &race->calls[i], pool);
    }
    for (int i = 0; i < READINGS; i++) {
        rival_read(&race->readings[i], &race->calls[0], i);
        race->contenders[FIRST_READING + i] =
            bench_contender(race->readings[i].name, run_rival, &race->readings[i], pool);
    }
}

static const struct contender *best_reading(const struct team_race *race) {
    const struct contender *best = &race->contenders[FIRST_READING];
    for (int i = FIRST_READING + 1; i < RACERS; i++)
        if (race->contenders[i].median < best->median)
            best = &race->contenders[i];
    return best;
}

/* ---- Results ---- */

static struct bench_result *add(struct bench *bench, const char *kind, enum scene_step step,
                                const struct kernel_words *words, int team, double seconds) {
    const struct scene *scene = &bench->scene;
    const struct kvmill_cache_geometry *g = &scene->flow.problem.geometry;
    char key[24], what[128];
    side_format_name(&g->key, key);
    snprintf(what, sizeof what,
             "%s, %" PRId64 "/%" PRId64 " x %d %s, %" PRId64 " of %" PRId64 " %s%s: %.40s", kind,
             g->heads, g->kv_heads, g->key.dim, key, flow_selected(scene), flow_blocks(scene),
             scene->flow.problem.page_blocks > 1 ? "blocks" : "pages",
             flow_pages_in_order(scene) ? " in order" : "", bench_purpose(bench, "flow"));
    return bench_add(bench, what, step, words, team, seconds);
}

/* Compares a result with reading as many bytes. */
static void compare_with_reading(struct bench_result *result, const struct team_race *race,
                                 double bytes, double bar) {
    const struct contender *reading = best_reading(race);
    result->bytes = bytes;
    if (bytes > 0)
        bench_compare(result, reading->name, reading->median / race->readings[0].done * bytes, bar);
}

/* Returns dense bytes / sparse bytes: the largest speed-up that memory traffic allows. */
static double traffic_bound(const struct team_race *race) {
    return scene_call_bytes(&race->calls[DENSE]) / scene_call_bytes(&race->calls[DECODE]);
}

/* Returns the speed-up to reach: for 128 of 2048 pages a fixed goal if memory traffic allows it,
   else 0.9 of traffic_bound. */
static double speed_up_bar(const struct scene *scene, const struct team_race *race) {
    double bound = traffic_bound(race) * 0.9, dense = scene_call_bytes(&race->calls[DENSE]);
    double asked = flow_index_bytes(scene) * 24 > dense ? 7.5 : 10;
    bool is_asked = flow_blocks(scene) == 2048 && flow_selected(scene) == 128;
    return is_asked && asked < bound ? asked : bound;
}

static void add_decode(struct bench *bench, const struct team_race *race, int team) {
    double dense = race->contenders[DENSE].median, sparse = race->contenders[DECODE].median;
    struct bench_result *result =
        add(bench, "dense decode", STEP_ATTEND, &decode_words, team, dense);
    compare_with_reading(result, race, scene_call_bytes(&race->calls[DENSE]), 0);
    result = add(bench, "decode", STEP_RUN, &decode_words, team, sparse);
    result->bytes = scene_call_bytes(&race->calls[DECODE]);
    bench_compare(result, "dense decode", dense, speed_up_bar(&bench->scene, race));
    result = add(bench, "decode", STEP_RUN, &decode_words, team, sparse);
    bench_compare(result, "traffic bound", dense / traffic_bound(race), 0);
}

static void add_index(struct bench *bench, const struct team_race *race, int team) {
    struct bench_result *result = add(bench, "score and select", STEP_INDEX, &score_words, team,
                                      race->contenders[INDEX].median);
    compare_with_reading(result, race, flow_index_bytes(&bench->scene), 0.85);
}

static bool is_right(struct bench *bench, struct team_race *race, struct error *error) {
    struct error reason;
    for (int i = DENSE; i <= DECODE; i++)
        if (!scene_check_threads(&race->calls[i], &reason))
            return fail(error, reason.exit_code, "%s: %.900s", bench_purpose(bench, "flow"),
                        reason.text);
    return true;
}

static bool race_team(struct bench *bench, int team, double *decode, struct error *error) {
    static struct team_race race;
    enter(bench, team, &race);
    if (!is_right(bench, &race, error))
        return false;
    bench_time(bench->results, race.contenders, RACERS, seconds_per_race);
    add_decode(bench, &race, team);
    if (flow_candidates(&bench->scene) > 0)
        add_index(bench, &race, team);
    *decode = race.contenders[DECODE].median;
    return true;
}

/* ---- Summaries ---- */

/* The cost of updating summaries, per token: the time of a token that completes its page minus that
   of one that does not, divided by the tokens of a page. */
static void add_upkeep(struct bench *bench, double decode) {
    static struct scene_call calls[2];
    struct scene *scene = &bench->scene;
    int64_t page = scene->flow.problem.block_size, last = scene->size.positions / page * page;
    struct contender contenders[2];
    for (int i = 0; i < 2; i++) {
        const struct run_size size = {1, 1, i == 0 ? last : last - page + 1};
        scene_call_open(&calls[i], scene, STEP_APPEND, &size, &bench->plans[STEP_APPEND],
                        bench->pools[0]);
        contenders[i] = bench_contender(NULL, run_call, &calls[i], bench->pools[0]);
    }
    bench_time(bench->results, contenders, 2, seconds_per_race / 4);
    double more = contenders[0].median - contenders[1].median;
    struct bench_result *result = add(bench, "summaries, of a token", STEP_APPEND, &summarise_words,
                                      0, more > 0 ? more / (double)page : 0);
    bench_compare(result, "2 % of decode", decode * 0.02, 1);
}

/* ---- All cases ---- */

static bool plan_all(struct bench *bench, struct error *error) {
    return bench_plan(bench, STEP_APPEND, error) && bench_plan(bench, STEP_INDEX, error) &&
           bench_plan(bench, STEP_ATTEND, error) && bench_plan(bench, STEP_RUN, error);
}

static bool run_cases(struct bench *bench, struct error *error) {
    double decode[TEAMS] = {0};
    bool done = plan_all(bench, error);
    for (int t = 0; done && t < bench->teams; t++)
        done = race_team(bench, t, &decode[t], error);
    if (done && bench->scene.flow.problem.programs[KVMILL_CACHE_PROGRAM].step_count > 0)
        add_upkeep(bench, decode[0]);
    return done;
}

static bool bench_size(const struct spec *spec, const struct scene_setting *setting,
                       int64_t positions, struct bench_results *results, struct error *error) {
    struct bench bench;
    const struct run_size size = {1, 0, positions};
    bool done = bench_open(&bench, spec, setting, results, error) &&
                scene_open(&bench.scene, spec, &size, setting->rotation, false, error) &&
                run_cases(&bench, error);
    bench_close(&bench);
    return done;
}

bool bench_flow(const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error) {
    static const int64_t positions[] = {32768, 4096, 8192, 16384, 131072};
    int sizes = setting->all ? sizeof positions / sizeof *positions : 1;
    bool done = true;
    for (int i = 0; done && i < sizes; i++)
        done = bench_size(spec, setting, positions[i], results, error);
    if (done && bench_flow_quantises(flow_of_spec(spec)))
        done = bench_flow_append(spec, setting, results, error);
    return done && bench_select(setting->pack, results, error);
}
