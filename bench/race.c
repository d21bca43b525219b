/* SPDX-License-Identifier: Apache-2.0 */
#include "race.h"

#include <stdio.h>
#include <string.h>

/* ---- Opening ---- */

bool bench_open(struct bench *bench, const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error) {
    *bench = (struct bench){.spec = spec, .setting = setting, .results = results};
    bench->teams = setting->threads > 1 ? TEAMS : 1;
    for (int t = 0; t < bench->teams; t++)
        if (!bench_pool_open(t == 0 ? 1 : setting->threads, &bench->pools[t], error))
            return false;
    return true;
}

void bench_close(struct bench *bench) {
    for (int i = 0; i < SCENE_STEPS; i++)
        owned_plan_close(&bench->plans[i]);
    for (int t = 0; t < TEAMS; t++)
        kvmill_pool_destroy(bench->pools[t]);
    scene_close(&bench->scene);
}

bool bench_plan(struct bench *bench, enum scene_step step, struct error *error) {
    const kvmill_plan_options options = {.struct_size = sizeof options,
                                         .packs = &bench->setting->pack,
                                         .pack_count = 1,
                                         .isa = bench->cap,
                                         .threads = bench->setting->threads};
    owned_plan_close(&bench->plans[step]);
    return scene_plan(&bench->scene, step, &options, &bench->plans[step], error);
}

/* ---- Results ---- */

const char *bench_purpose(const struct bench *bench, const char *word) {
    return bench->spec->purpose[0] ? bench->spec->purpose : word;
}

struct bench_result *bench_add(struct bench *bench, const char *what, enum scene_step step,
                               const struct kernel_words *words, int team, double seconds) {
    struct bench_result *result = bench_results_add(bench->results);
    snprintf(result->what, sizeof result->what, "%s", what);
    bench_kernel_in_plan(bench->plans[step == STEP_STORE ? STEP_RUN : step].plan, words,
                         bench->query_rows, result->kernel);
    result->threads = kvmill_pool_threads(bench->pools[team]);
    result->seconds = seconds;
    return result;
}

/* ---- A race ---- */

struct team {
    struct scene_call call;
    struct rival rivals[MOST_RIVALS];
    struct contender *contender, *others; /* the call, and its rivals */
};

struct race {
    struct team teams[TEAMS];
    struct contender contenders[MOST_CONTENDERS];
    int count;
};

static bool is_right(const struct bench_case *each, struct scene_call *call, struct error *error) {
    kvmill_error reason;
    struct error why;
    if (each->is_right != NULL ? each->is_right(call, &why)
                               : scene_call_next(call, &reason) == KVMILL_OK)
        return true;
    if (each->is_right == NULL)
        return fail(error, EXIT_BUG, "%s: %s", each->what, reason.message);
    return fail(error, why.exit_code, "%s: %.900s", each->what, why.text);
}

static bool enter(struct bench *bench, const struct bench_case *each, struct race *race, int t,
                  struct error *error) {
    struct team *team = &race->teams[t];
    const struct owned_plan *plan = &bench->plans[each->step == STEP_STORE ? STEP_RUN : each->step];
    kvmill_pool *pool = bench->pools[t];
    scene_call_open(&team->call, &bench->scene, each->step, &each->size, plan, pool);
    team->contender = &race->contenders[race->count++];
    *team->contender =
        bench_contender(NULL, each->run != NULL ? each->run : run_call, &team->call, pool);
    team->others = &race->contenders[race->count];
    for (int i = 0; i < each->rival_count; i++) {
        struct rival *rival = &team->rivals[i];
        each->rivals(rival, &team->call, i);
        rival->peak = peak_of(bench->isa);
        rival->other = each->others != NULL ? &each->others[t] : NULL;
        race->contenders[race->count++] = bench_contender(rival->name, run_rival, rival, pool);
    }
    return is_right(each, &team->call, error);
}

static double work_of(const struct bench_case *each, const struct scene_call *call) {
    return each->in_flops ? scene_call_flops(call) : scene_call_bytes(call);
}

/* Returns the seconds that a rival takes for the same work. */
static double limit_seconds(const struct bench_case *each, const struct team *team, int i) {
    const struct rival *rival = &team->rivals[i];
    double seconds = team->others[i].median;
    return rival->by_unit ? work_of(each, &team->call) / rival->done * seconds : seconds;
}

static int best_rival(const struct bench_case *each, const struct team *team) {
    int best = 0;
    for (int i = 1; i < each->rival_count; i++)
        if (limit_seconds(each, team, i) < limit_seconds(each, team, best))
            best = i;
    return best;
}

/* Adds figures for the report: the cost of a token of a kv head, and the time in which one core
   reads the bytes. */
static void add_figures(const struct bench_case *each, const struct race *race,
                        struct bench_result *result) {
    const struct team *one = &race->teams[0];
    result->rows = each->rows;
    result->hertz = limit_clock();
    if (!each->in_flops)
        result->one = limit_seconds(each, one, best_rival(each, one));
}

static void add_team(struct bench *bench, const struct bench_case *each, const struct race *race,
                     int t) {
    const struct team *team = &race->teams[t];
    struct bench_result *result =
        bench_add(bench, each->what, each->step, each->words, t, team->contender->median);
    int best = best_rival(each, team);
    if (each->rows > 0)
        add_figures(each, race, result);
    *(each->in_flops ? &result->flops : &result->bytes) = work_of(each, &team->call);
    result->spread = team->others[best].spread;
    bench_compare(result, each->limit != NULL ? each->limit : team->others[best].name,
                  limit_seconds(each, team, best) + each->more, each->bars[t]);
}

static void add_scaling(struct bench *bench, const struct bench_case *each,
                        const struct race *race) {
    const struct team *teams = race->teams;
    struct bench_result *result =
        bench_add(bench, each->what, each->step, each->words, 1, teams[1].contender->median);
    if (each->scaling_has_bytes)
        result->bytes = scene_call_bytes(&teams[1].call);
    bench_compare(result, "one thread", teams[0].contender->median,
                  result->threads == 2 ? each->scaling_bar : 0);
}

bool bench_race(struct bench *bench, const struct bench_case *each, struct error *error) {
    static struct race race;
    race.count = 0;
    for (int t = 0; t < bench->teams; t++)
        if (!enter(bench, each, &race, t, error))
            return false;
    bench_time(bench->results, race.contenders, race.count, each->seconds);
    for (int t = 0; t < bench->teams; t++)
        add_team(bench, each, &race, t);
    if (each->compares && bench->teams > 1)
        add_scaling(bench, each, &race);
    return true;
}
