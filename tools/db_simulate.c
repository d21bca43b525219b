/* SPDX-License-Identifier: Apache-2.0 */
#include "db_simulate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/text.h"
#include "../tune/regret.h"
#include "../tune/simulate.h"
#include "../tune/sweep_name.h"

static bool simulate_strategies(const struct ranking *ranking, const struct sweep_space *space,
                                struct replay_options *replay, int seeds, struct error *error) {
    struct comparison comparison;
    for (int i = 0; strategy_names[i] != NULL; i++) {
        replay->strategy = strategy_names[i];
        if (!simulate_seeds(ranking, space, replay, seeds, &comparison, error))
            return false;
        print_shown(stdout, "  %-11s %6" PRId64 " %6" PRId64 " %7d %9.3f\n", strategy_names[i],
                    comparison.median, comparison.worst, comparison.misses, comparison.slowdown);
    }
    return true;
}

static bool simulate_sweep(const struct sweep *sweep, const struct sweeps *among,
                           struct replay_options *replay, int seeds, struct error *error) {
    char words[WORK_SIZE];
    struct text apart = {0};
    struct ranking ranking;
    struct sweep_space *space = NULL;
    bool done = sweep_rank(sweep, &ranking, error) &&
                (space = sweep_space_open(&ranking, error)) != NULL &&
                (sweep_tell_apart(&sweep->key, among, ALL_FACTS, &apart) || out_of_memory(error));
    sweep_work_words(&sweep->key, words);
    if (done) {
        print_shown(stdout, "%s%s, %zu candidates\n  %-11s %6s %6s %7s %9s\n", words,
                    apart.data != NULL ? apart.data : "", ranking.count, "STRATEGY", "MEDIAN",
                    "WORST", "MISSES", "SLOWDOWN");
        done = simulate_strategies(&ranking, space, replay, seeds, error);
    }
    sweep_space_close(space);
    ranking_free(&ranking);
    text_free(&apart);
    return done;
}

/* Prints what the presets of a CPU lose, if its first sweep is number `first`. */
static bool print_regret(const struct sweeps *sweeps, size_t first, struct error *error) {
    const char *cpu = sweeps->items[first].key.cpu;
    struct regret regret = {0};
    bool done = true;
    for (size_t i = 0; done && i < sweeps->count; i++) {
        struct ranking ranking;
        if (strcmp(sweeps->items[i].key.cpu, cpu) != 0)
            continue;
        if (i < first)
            return true;
        done = sweep_rank(&sweeps->items[i], &ranking, error);
        if (done)
            regret_add(&regret, &sweeps->items[i], &ranking);
        ranking_free(&ranking);
    }
    if (done && regret.where != NULL)
        print_shown(stdout,
                    "%s: presets take %.3f times as long as the winners (geometric mean of %d), "
                    "at worst %.3f: %s, %s\n",
                    cpu, regret_mean(&regret), regret.sweeps, regret.worst, regret.where->key.spec,
                    regret.where->key.problem);
    return done;
}

bool db_simulate(const struct sweeps *sweeps, long percent, int seeds, struct error *error) {
    struct replay_options replay = {.within = (double)percent / 100};
    bool done = true;
    print_shown(stdout, "evaluations until within %ld %% of the best, over %d seeds\n\n", percent,
                seeds);
    for (size_t i = 0; done && i < sweeps->count; i++)
        done = simulate_sweep(&sweeps->items[i], sweeps, &replay, seeds, error);
    for (size_t i = 0; done && i < sweeps->count; i++)
        done = print_regret(sweeps, i, error);
    return done;
}
