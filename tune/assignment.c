/* SPDX-License-Identifier: Apache-2.0 */
#include "assignment.h"

#include <stdlib.h>
#include <string.h>

/* ---- The problems ---- */

static int64_t samples_in(const struct sweep *sweep) {
    int64_t samples = 0;
    for (size_t i = 0; i < sweep->count; i++)
        samples += sweep->results[i].sample_count;
    return samples;
}

static struct assignment *find_problem(const struct assignments *list, const char *problem) {
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->items[i].sweep->key.problem, problem) == 0)
            return &list->items[i];
    return NULL;
}

static bool list_problems(const struct sweeps *sweeps, const char *spec, struct assignments *list,
                          struct error *error) {
    list->items = calloc(sweeps->count + 1, sizeof *list->items);
    for (size_t i = 0; list->items != NULL && i < sweeps->count; i++) {
        const struct sweep *sweep = &sweeps->items[i];
        if (strcmp(sweep->key.spec, spec) != 0)
            continue;
        struct assignment *known = find_problem(list, sweep->key.problem);
        if (known == NULL)
            list->items[list->count++].sweep = sweep;
        else if (samples_in(sweep) > samples_in(known->sweep))
            known->sweep = sweep;
    }
    return list->items != NULL || out_of_memory(error);
}

/* ---- Candidates ---- */

static bool waits(const struct assignment *assignment) {
    return assignment->taken == NULL && assignment->ranking.winner >= 0;
}

/* Returns a candidate's standing in a problem that has no candidate yet, if it is as good as the
   winner there, or NULL. */
static const struct standing *find_good(const struct assignment *assignment,
                                        const char *candidate) {
    const struct ranking *ranking = &assignment->ranking;
    for (size_t i = 0; waits(assignment) && i < ranking->count; i++)
        if (strcmp(ranking->items[i].result->candidate, candidate) == 0)
            return ranking_is_as_good(ranking, &ranking->items[i]) ? &ranking->items[i] : NULL;
    return NULL;
}

static int count_good(const struct assignments *list, const char *candidate) {
    int count = 0;
    for (int i = 0; i < list->count; i++)
        count += find_good(&list->items[i], candidate) != NULL;
    return count;
}

static bool is_preferred(const struct sweep_result *a, const struct sweep_result *b) {
    if (a->is_default != b->is_default)
        return a->is_default;
    if (a->code_bytes != b->code_bytes)
        return a->code_bytes < b->code_bytes;
    return strcmp(a->candidate, b->candidate) < 0;
}

struct best {
    const struct sweep_result *result;
    int count; /* problems for which it is good */
};

static void look_at(const struct assignments *list, const struct assignment *assignment,
                    struct best *best) {
    for (size_t i = 0; waits(assignment) && i < assignment->ranking.count; i++) {
        const struct sweep_result *result = assignment->ranking.items[i].result;
        int count = count_good(list, result->candidate);
        if (count > best->count ||
            (count > 0 && count == best->count && is_preferred(result, best->result)))
            *best = (struct best){result, count};
    }
}

/* Takes the best candidate.  Each call serves at least one problem: a problem without a candidate
   has a winner, which is good for it. */
static bool take_best(struct assignments *list) {
    struct best best = {NULL, 0};
    for (int i = 0; i < list->count; i++)
        look_at(list, &list->items[i], &best);
    for (int i = 0; best.count > 0 && i < list->count; i++) {
        const struct standing *good = find_good(&list->items[i], best.result->candidate);
        if (good != NULL)
            list->items[i].taken = good;
    }
    list->candidates += best.count > 0;
    return best.count > 0;
}

bool assignments_make(const struct sweeps *sweeps, const char *spec,
                      struct assignments *assignments, struct error *error) {
    *assignments = (struct assignments){0};
    if (!list_problems(sweeps, spec, assignments, error))
        return false;
    for (int i = 0; i < assignments->count; i++)
        if (!sweep_rank(assignments->items[i].sweep, &assignments->items[i].ranking, error))
            return false;
    while (take_best(assignments))
        ;
    return true;
}

void assignments_free(struct assignments *assignments) {
    for (int i = 0; i < assignments->count; i++)
        ranking_free(&assignments->items[i].ranking);
    free(assignments->items);
    *assignments = (struct assignments){0};
}
