/* SPDX-License-Identifier: Apache-2.0 */
#include "tuned.h"

#include <stdio.h>
#include <string.h>

#include "../tune/machine.h"
#include "../tune/ranking.h"
#include "../tune/sweep_file.h"
#include "tune_space.h"

/* ---- Which results hold here ---- */

static void say_refused(const char *path, const size_t results[MISFITS]) {
    for (int i = 1; i < MISFITS; i++)
        if (results[i] > 0)
            fprintf(stderr, "%s: %zu results are not used: %s\n", path, results[i],
                    misfit_words((enum misfit)i));
}

static bool read_fitting(const char *path, struct sweeps *sweeps, struct error *error) {
    struct machine machine;
    size_t results[MISFITS] = {0};
    if (!sweeps_read_file(path, sweeps, error) || !machine_read(&machine, error))
        return false;
    machine_filter(&machine, REFUSE_ALL, sweeps, results);
    say_refused(path, results);
    return true;
}

/* ---- One kernel ---- */

static int64_t samples_in(const struct sweep *sweep) {
    int64_t samples = 0;
    for (size_t i = 0; i < sweep->count; i++)
        samples += sweep->results[i].sample_count;
    return samples;
}

/* Of several (threads, problems) that which was measured most. */
static const struct sweep *sweep_of(const struct sweeps *sweeps, const char *symbol) {
    const struct sweep *best = NULL;
    for (size_t i = 0; i < sweeps->count; i++)
        if (strcmp(sweeps->items[i].key.spec, symbol) == 0 &&
            (best == NULL || samples_in(&sweeps->items[i]) > samples_in(best)))
            best = &sweeps->items[i];
    return best;
}

static bool take_winner(const struct ranking *ranking, const struct isa_list *isas,
                        struct kernel *kernel, struct error *error) {
    struct tune_space *space = tune_space_open(kernel, isas, error);
    bool done =
        space != NULL &&
        tune_space_parse(space, ranking->items[ranking->winner].result->candidate, kernel, error);
    tune_space_close(space);
    return done;
}

static bool apply(const struct sweep *sweep, const struct isa_list *isas, struct kernel *kernel,
                  struct error *error) {
    struct ranking ranking;
    char reason[REASON_SIZE];
    bool done = sweep_rank(sweep, &ranking, error);
    if (done) {
        ranking_reason(&ranking, reason);
        fprintf(stderr, "%s, %s: %s\n", sweep->key.spec, sweep->key.problem, reason);
    }
    if (done && ranking.winner > 0)
        done = take_winner(&ranking, isas, kernel, error);
    ranking_free(&ranking);
    return done;
}

/* ---- Why ---- */

static bool explain_sweep(const struct sweep *sweep, struct error *error) {
    struct ranking ranking;
    char reason[REASON_SIZE];
    bool done = sweep_rank(sweep, &ranking, error);
    if (done) {
        ranking_reason(&ranking, reason);
        printf("Tuned for %s, %d thread%s, %zu candidates: %s.\n", sweep->key.problem,
               sweep->key.threads, sweep->key.threads > 1 ? "s" : "", ranking.count, reason);
    }
    if (done && ranking.winner >= 0)
        printf("  %s\n", ranking.items[ranking.winner].result->candidate);
    ranking_free(&ranking);
    return done;
}

bool tuned_explain(const char *path, const struct kernel *kernel, struct error *error) {
    struct sweeps sweeps = {0};
    char symbol[SYMBOL_SIZE];
    bool done = read_fitting(path, &sweeps, error), any = false;
    kernel_symbol(kernel, symbol);
    for (size_t i = 0; done && i < sweeps.count; i++)
        if (symbols_do_the_same(sweeps.items[i].key.spec, symbol)) {
            done = explain_sweep(&sweeps.items[i], error);
            any = true;
        }
    if (done && !any)
        printf("Not tuned in %s.\n", path);
    sweeps_free(&sweeps);
    return done;
}

/* ---- All ---- */

static bool apply_all(const struct sweeps *sweeps, const struct isa_list *isas,
                      const struct kernel_list *kernels, struct kernel_list *tuned,
                      struct error *error) {
    for (size_t i = 0; i < kernels->count; i++) {
        struct kernel kernel = kernels->items[i];
        char symbol[SYMBOL_SIZE];
        kernel_symbol(&kernel, symbol);
        const struct sweep *sweep = sweep_of(sweeps, symbol);
        if ((sweep != NULL && !apply(sweep, isas, &kernel, error)) ||
            !kernel_list_add(tuned, &kernel, error))
            return false;
    }
    return true;
}

bool tuned_apply(const char *path, const struct isa_list *isas, struct kernel_list *kernels,
                 struct error *error) {
    struct sweeps sweeps = {0};
    struct kernel_list tuned = {0};
    bool done =
        read_fitting(path, &sweeps, error) && apply_all(&sweeps, isas, kernels, &tuned, error);
    struct kernel_list old = done ? *kernels : tuned;
    if (done)
        *kernels = tuned;
    kernel_list_free(&old);
    sweeps_free(&sweeps);
    return done;
}
