/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_flow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../tune/timer.h"
#include "attention_race.h"
#include "flow_scene.h"
#include "limits.h"

static const double seconds_per_race = 2.0;
enum { READ_BYTES = 32 << 20 };

struct flow_bench {
    struct flow_scene scene;
    struct pool *pools[TEAMS];
    int teams;
    const struct spec *spec;
    struct bench_results *results;
};

/* ---- Contenders ---- */

static void run_call(void *context, int64_t k) {
    (void)k;
    flow_call_run(context, NULL);
}

struct flow_reader {
    struct flow_scene *scene;
    struct pool *pool;
    int streams;
};

static void run_reading(void *context, int64_t k) {
    const struct flow_reader *reader = context;
    (void)k;
    const struct reading reading = {(const char *)flow_next_bytes(reader->scene, READ_BYTES),
                                    READ_BYTES, reader->streams, reader->pool};
    limit_read(&reading);
}

/* What a team runs in one race; all read memory that nothing has read lately. */
enum { DENSE, DECODE, INDEX, FIRST_READING, RACERS = FIRST_READING + READINGS };

struct team_race {
    struct flow_bench_call calls[FIRST_READING];
    struct flow_reader readers[READINGS];
    struct contender contenders[RACERS];
};

static void enter(struct flow_bench *bench, int team, struct team_race *race) {
    static const enum flow_plan_kind kinds[] = {PLAN_ATTEND, PLAN_DECODE, PLAN_INDEX};
    struct pool *pool = bench->pools[team];
    for (int i = 0; i < FIRST_READING; i++) {
        flow_call_open(&race->calls[i], &bench->scene, kinds[i], pool);
        race->contenders[i] =
            (struct contender){.run = run_call, .context = &race->calls[i], .pool = pool};
    }
    for (int i = 0; i < READINGS; i++) {
        race->readers[i] = (struct flow_reader){&bench->scene, pool, kinds_of_reading[i].streams};
        race->contenders[FIRST_READING + i] = (struct contender){.name = kinds_of_reading[i].name,
                                                                 .run = run_reading,
                                                                 .context = &race->readers[i],
                                                                 .pool = pool};
    }
}

/* The fastest reading. */
static const struct contender *best_reading(const struct team_race *race) {
    const struct contender *best = &race->contenders[FIRST_READING];
    for (int i = FIRST_READING + 1; i < RACERS; i++)
        if (race->contenders[i].median < best->median)
            best = &race->contenders[i];
    return best;
}

/* ---- Results ---- */

static const char *name_of(const struct flow_bench *bench) {
    return bench->spec->purpose[0] ? bench->spec->purpose : "flow";
}

static struct bench_result *add(struct flow_bench *bench, const char *what, const char *word,
                                enum flow_plan_kind kind, int team, double seconds) {
    const struct flow_scene *scene = &bench->scene;
    const struct kvmill_cache_geometry *g = &scene->problem.geometry;
    struct bench_result *result = bench_results_add(bench->results);
    char key[24];
    bench_format_name(&g->key, key);
    snprintf(result->what, sizeof result->what,
             "%s, %" PRId64 "/%" PRId64 " x %d %s, %" PRId64 " of %" PRId64 " pages: %.40s", what,
             g->heads, g->kv_heads, g->key.dim, key, flow_selected(scene), scene->pages,
             name_of(bench));
    bench_kernel_in_plan(scene->plans[kind].plan, word, result->kernel);
    result->threads = pool_threads(bench->pools[team]);
    result->seconds = seconds;
    return result;
}

/* Dense bytes over sparse bytes: what memory lets a flow win. */
static double traffic_bound(const struct flow_scene *scene) {
    double sparse = flow_attend_bytes(scene, flow_selected(scene)) + flow_index_bytes(scene);
    return flow_attend_bytes(scene, scene->pages) / sparse;
}

/* What was asked of 128 of 2048 pages, where memory allows it. */
static double speed_up_bar(const struct flow_scene *scene) {
    double bound = traffic_bound(scene) * 0.9;
    double asked = flow_index_bytes(scene) * 24 > flow_attend_bytes(scene, scene->pages) ? 7.5 : 10;
    bool is_asked = scene->pages == 2048 && flow_selected(scene) == 128;
    return is_asked && asked < bound ? asked : bound;
}

static void add_decode(struct flow_bench *bench, const struct team_race *race, int team) {
    const struct flow_scene *scene = &bench->scene;
    double dense = race->contenders[DENSE].median, sparse = race->contenders[DECODE].median;
    const struct contender *reading = best_reading(race);
    double each = reading->median / READ_BYTES;
    struct bench_result *result =
        add(bench, "dense decode", "; attend with ", PLAN_ATTEND, team, dense);
    result->bytes = flow_attend_bytes(scene, scene->pages);
    bench_compare(result, reading->name, each * result->bytes, 0);
    result = add(bench, "decode", "; attend with ", PLAN_DECODE, team, sparse);
    result->bytes = flow_attend_bytes(scene, flow_selected(scene)) + flow_index_bytes(scene);
    bench_compare(result, "dense decode", dense, speed_up_bar(scene));
    result = add(bench, "decode", "; attend with ", PLAN_DECODE, team, sparse);
    bench_compare(result, "traffic bound", dense / traffic_bound(scene), 0);
}

static void add_index(struct flow_bench *bench, const struct team_race *race, int team) {
    const struct contender *reading = best_reading(race);
    struct bench_result *result = add(bench, "score and select", "; score with ", PLAN_INDEX, team,
                                      race->contenders[INDEX].median);
    result->bytes = flow_index_bytes(&bench->scene);
    if (result->bytes > 0)
        bench_compare(result, reading->name, reading->median / READ_BYTES * result->bytes, 0.85);
}

static bool is_right(struct flow_bench *bench, struct team_race *race, struct error *error) {
    struct error reason;
    for (int i = DENSE; i <= DECODE; i++)
        if (!flow_call_check(&race->calls[i], bench->pools[0], &reason))
            return fail(error, reason.exit_code, "%s: %.900s", name_of(bench), reason.text);
    return true;
}

static bool race_team(struct flow_bench *bench, int team, double *decode, struct error *error) {
    static struct team_race race;
    enter(bench, team, &race);
    if (!is_right(bench, &race, error))
        return false;
    timer_race(race.contenders, RACERS, seconds_per_race);
    add_decode(bench, &race, team);
    if (flow_candidates(&bench->scene) > 0)
        add_index(bench, &race, team);
    *decode = race.contenders[DECODE].median;
    return true;
}

/* ---- Summaries ---- */

/* A token that completes its page against one that does not, by as many tokens as a page has. */
static void add_upkeep(struct flow_bench *bench, double decode) {
    static struct flow_bench_call calls[2];
    struct flow_scene *scene = &bench->scene;
    int64_t size = scene->problem.geometry.page_size;
    struct contender contenders[2];
    for (int i = 0; i < 2; i++) {
        flow_call_open(&calls[i], scene, PLAN_APPEND, bench->pools[0]);
        calls[i].slot_in_page = i == 0 ? size - 1 : 0;
        contenders[i] =
            (struct contender){.run = run_call, .context = &calls[i], .pool = bench->pools[0]};
    }
    timer_race(contenders, 2, seconds_per_race / 4);
    double more = contenders[0].median - contenders[1].median;
    struct bench_result *result = add(bench, "summaries, of a token", "; summarise with ",
                                      PLAN_APPEND, 0, more > 0 ? more / (double)size : 0);
    bench_compare(result, "2 % of decode", decode * 0.02, 1);
}

/* ---- All of it ---- */

static bool run_cases(struct flow_bench *bench, struct error *error) {
    double decode[TEAMS] = {0};
    bool done = true;
    for (int t = 0; done && t < bench->teams; t++)
        done = race_team(bench, t, &decode[t], error);
    if (done && bench->scene.problem.programs[KVMILL_CACHE_PROGRAM].step_count > 0)
        add_upkeep(bench, decode[0]);
    return done;
}

static bool open_pools(struct flow_bench *bench, int threads, struct error *error) {
    bench->teams = threads > 1 ? TEAMS : 1;
    bench->pools[0] = pool_open(1);
    bench->pools[1] = threads > 1 ? pool_open(threads) : NULL;
    return (bench->pools[0] != NULL && (threads == 1 || bench->pools[1] != NULL)) ||
           out_of_memory(error);
}

static bool bench_size(struct flow_bench *bench, const struct attention_setting *setting,
                       int64_t positions, struct error *error) {
    bool done =
        flow_scene_open(&bench->scene, flow_of_spec(bench->spec), setting, positions, error) &&
        run_cases(bench, error);
    flow_scene_close(&bench->scene);
    return done;
}

bool bench_flow(const struct spec *spec, const struct attention_setting *setting,
                struct bench_results *results, struct error *error) {
    static const int64_t positions[] = {32768, 4096, 8192, 16384, 131072};
    struct flow_bench bench = {.spec = spec, .results = results};
    int sizes = setting->all ? sizeof positions / sizeof *positions : 1;
    bool done = open_pools(&bench, setting->threads, error);
    for (int i = 0; done && i < sizes; i++)
        done = bench_size(&bench, setting, positions[i], error);
    for (int t = 0; t < TEAMS; t++)
        pool_close(bench.pools[t]);
    return done;
}
