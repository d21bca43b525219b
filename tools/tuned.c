/* SPDX-License-Identifier: Apache-2.0 */
#include "tuned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/text.h"
#include "../tune/assignment.h"
#include "../tune/machine.h"
#include "../tune/problem.h"
#include "../tune/sweep_name.h"
#include "tune_space.h"

/* ---- Valid results ---- */

static void say_refused(const char *path, const size_t results[MISFITS]) {
    for (int i = 1; i < MISFITS; i++)
        if (results[i] > 0)
            print_shown(stderr, "%s: %zu results are not used: %s\n", path, results[i],
                        misfit_words((enum misfit)i));
}

static bool has_other_problems(const struct sweeps *sweeps, const struct sweep *sweep) {
    for (size_t i = 0; i < sweeps->count; i++)
        if (strcmp(sweeps->items[i].key.spec, sweep->key.spec) == 0 &&
            strcmp(sweeps->items[i].key.problem, sweep->key.problem) != 0)
            return true;
    return false;
}

/* Whether a sweep can be used.  A kernel with several problems has a winner for each, so the
   problems must be sizes: the size of a call then selects one. */
static bool is_usable(const struct sweeps *sweeps, const struct sweep *sweep) {
    struct kvmill_call_size ignored;
    return problem_parse(sweep->key.problem, &ignored) || !has_other_problems(sweeps, sweep);
}

static bool keep_usable(const struct sweeps *sweeps, struct sweeps *kept, struct error *error) {
    bool done = true;
    for (size_t i = 0; done && i < sweeps->count; i++) {
        const struct sweep *sweep = &sweeps->items[i];
        const struct sweeps alone = {(struct sweep *)sweep, 1};
        if (is_usable(sweeps, sweep))
            done = sweeps_add_all(kept, &alone, error);
        else
            print_shown(stderr, "%s: %zu results are not used: problem \"%.60s\"; accepted: %s\n",
                        sweep->key.spec, sweep->count, sweep->key.problem, PROBLEM_FORMS);
    }
    return done;
}

static bool read_fitting(const char *path, const struct machine *machine, struct sweeps *sweeps,
                         struct error *error) {
    size_t results[MISFITS] = {0};
    if (!sweeps_read_files(path, sweeps, error))
        return false;
    machine_filter(machine, REFUSE_ALL, sweeps, results);
    say_refused(path, results);
    return true;
}

static bool read_all(const struct options *given, struct sweeps *sweeps, struct error *error) {
    struct machine machine;
    const char *path;
    bool done = machine_read(&machine, error);
    for (int i = 0; done && (path = option_at(given, "tuned", i)) != NULL; i++) {
        struct sweeps more = {0};
        done = read_fitting(path, &machine, &more, error) && sweeps_add_all(sweeps, &more, error);
        sweeps_free(&more);
    }
    sweeps_sort(sweeps);
    return done;
}

bool tuned_read(const struct options *given, struct sweeps *sweeps, struct error *error) {
    struct sweeps all = {0};
    bool done = read_all(given, &all, error) && keep_usable(&all, sweeps, error);
    if (done && sweeps->count == 0)
        print_shown(stderr,
                    "no result of --tuned is valid on this machine: the defaults are used\n");
    sweeps_free(&all);
    return done;
}

/* ---- Words ---- */

/* Whether another candidate replaces the winner, because the pack needs it for other sizes. */
static bool stands_in(const struct assignment *assignment) {
    const struct ranking *ranking = &assignment->ranking;
    return assignment->taken != NULL && assignment->taken != &ranking->items[ranking->winner];
}

static void say_reason(const struct assignment *assignment) {
    const struct sweep_key *key = &assignment->sweep->key;
    char reason[REASON_SIZE];
    ranking_reason(&assignment->ranking, reason);
    print_shown(stderr, "%s, %s: %s", key->spec, key->problem, reason);
    if (stands_in(assignment))
        print_shown(stderr, "; as good, and in the pack for other sizes: %s",
                    assignment->taken->result->candidate);
    print_shown(stderr, "\n");
}

static void say_reasons(const struct assignments *list) {
    for (int i = 0; i < list->count; i++)
        say_reason(&list->items[i]);
    if (list->candidates > 1)
        print_shown(stderr, "%s: %d kernels, by the size of a call\n",
                    list->items[0].sweep->key.spec, list->candidates);
}

/* ---- One kernel ---- */

static bool kernel_of(const struct sweep_result *result, const struct kernel *preset,
                      const struct isa_list *isas, struct kernel *kernel, struct error *error) {
    *kernel = *preset;
    if (result->is_default)
        return true;
    struct tune_space *space = tune_space_open(preset, isas, error);
    bool done = space != NULL && tune_space_parse(space, result->candidate, kernel, error);
    tune_space_close(space);
    return done;
}

/* Adds the chosen kernels to the pack, with their sizes if there are several. */
static bool add_taken(const struct assignments *list, const struct kernel *preset,
                      const struct isa_list *isas, struct pack *tuned, struct error *error) {
    struct measured_kernel measured = {.choice = (int)tuned->kernels.count};
    for (int i = 0; i < list->count; i++) {
        const struct assignment *assignment = &list->items[i];
        if (assignment->taken == NULL)
            continue;
        snprintf(measured.problem, sizeof measured.problem, "%.*s", PROBLEM_SIZE - 1,
                 assignment->sweep->key.problem);
        problem_parse(measured.problem, &measured.size);
        if (!kernel_of(assignment->taken->result, preset, isas, &measured.kernel, error) ||
            !kernel_list_add(&tuned->kernels, &measured.kernel, error) ||
            (list->candidates > 1 && !measured_list_add(&tuned->measured, &measured, error)))
            return false;
    }
    return true;
}

static bool apply(const struct sweeps *sweeps, const struct kernel *preset,
                  const struct isa_list *isas, struct pack *tuned, struct error *error) {
    struct assignments list;
    char symbol[SYMBOL_SIZE];
    kernel_symbol(preset, symbol);
    bool done = assignments_make(sweeps, symbol, &list, error);
    if (done) {
        say_reasons(&list);
        done = list.candidates > 0 ? add_taken(&list, preset, isas, tuned, error)
                                   : kernel_list_add(&tuned->kernels, preset, error);
    }
    assignments_free(&list);
    return done;
}

/* ---- All kernels of a pack ---- */

/* Compares by numbers.  The order of problems is that of their words, which differs. */
static int compare(const void *a, const void *b) {
    const struct measured_kernel *x = a, *y = b;
    const int64_t of_x[] = {x->choice, x->size.tokens, x->size.batch, x->size.positions};
    const int64_t of_y[] = {y->choice, y->size.tokens, y->size.batch, y->size.positions};
    for (size_t i = 0; i < sizeof of_x / sizeof *of_x; i++)
        if (of_x[i] != of_y[i])
            return of_x[i] < of_y[i] ? -1 : 1;
    return 0;
}

static void sort(struct measured_list *list) {
    if (list->count > 0)
        qsort(list->items, list->count, sizeof *list->items, compare);
}

bool tuned_apply(const struct sweeps *sweeps, const struct isa_list *isas, struct pack *pack,
                 struct error *error) {
    struct pack tuned = {.name = pack->name, .specs = pack->specs};
    bool done = true;
    for (size_t i = 0; done && i < pack->kernels.count; i++)
        done = apply(sweeps, &pack->kernels.items[i], isas, &tuned, error);
    sort(&tuned.measured);
    struct pack old = done ? *pack : tuned;
    if (done)
        *pack = tuned;
    kernel_list_free(&old.kernels);
    measured_list_free(&old.measured);
    return done;
}

/* ---- Explanations ---- */

static bool explain_sweep(const struct sweep *sweep, const struct sweeps *among, FILE *stream,
                          struct error *error) {
    struct ranking ranking;
    struct text apart = {0};
    char reason[REASON_SIZE];
    bool done = sweep_rank(sweep, &ranking, error) &&
                (sweep_tell_apart(&sweep->key, among, ALL_FACTS, &apart) || out_of_memory(error));
    if (done) {
        ranking_reason(&ranking, reason);
        print_shown(stream, "Tuned for %s, %d thread%s%s, %zu candidates: %s.\n",
                    sweep->key.problem, sweep->key.threads, sweep->key.threads > 1 ? "s" : "",
                    apart.data != NULL ? apart.data : "", ranking.count, reason);
    }
    if (done && ranking.winner >= 0)
        print_shown(stream, "  %s\n", ranking.items[ranking.winner].result->candidate);
    ranking_free(&ranking);
    text_free(&apart);
    return done;
}

static void explain_taken(const struct assignments *list, FILE *stream) {
    if (list->candidates > 1)
        print_shown(stream, "Packs get %d kernels for it; a call takes that of the nearest size:\n",
                    list->candidates);
    for (int i = 0; i < list->count; i++) {
        const struct assignment *assignment = &list->items[i];
        if (assignment->taken != NULL && (list->candidates > 1 || stands_in(assignment)))
            print_shown(stream, "  %s: %s%s\n", assignment->sweep->key.problem,
                        assignment->taken->result->candidate,
                        stands_in(assignment) ? " (as good, and in the pack for other sizes)" : "");
    }
}

static bool explain_choice(const struct sweeps *sweeps, const char *spec, FILE *stream,
                           struct error *error) {
    struct assignments list;
    bool done = assignments_make(sweeps, spec, &list, error);
    if (done)
        explain_taken(&list, stream);
    assignments_free(&list);
    return done;
}

static bool is_first_about(const struct sweeps *sweeps, size_t at) {
    for (size_t i = 0; i < at; i++)
        if (strcmp(sweeps->items[i].key.spec, sweeps->items[at].key.spec) == 0)
            return false;
    return true;
}

static bool explain_all(const struct sweeps *sweeps, const char *symbol, FILE *stream, bool *any,
                        struct error *error) {
    for (size_t i = 0; i < sweeps->count; i++)
        if (symbols_do_the_same(sweeps->items[i].key.spec, symbol)) {
            *any = true;
            if (!explain_sweep(&sweeps->items[i], sweeps, stream, error))
                return false;
        }
    return true;
}

bool tuned_explain(const struct sweeps *sweeps, const struct kernel *kernel, FILE *stream,
                   struct error *error) {
    char symbol[SYMBOL_SIZE];
    bool any = false;
    kernel_symbol(kernel, symbol);
    bool done = explain_all(sweeps, symbol, stream, &any, error);
    for (size_t i = 0; done && i < sweeps->count; i++)
        if (symbols_do_the_same(sweeps->items[i].key.spec, symbol) && is_first_about(sweeps, i))
            done = explain_choice(sweeps, sweeps->items[i].key.spec, stream, error);
    if (done && !any)
        print_shown(stream, "Not tuned.\n");
    return done;
}
