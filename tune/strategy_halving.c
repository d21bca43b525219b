/* Successive halving, by thirds: measures many candidates with few samples, the best third of them
   with three times as many, and so on (Jamieson and Talwalkar, 2016).  The default is in every
   rung.

   SPDX-License-Identifier: Apache-2.0 */
#include "strategy_kind.h"

#include <stdlib.h>

enum { RUNGS = 3, THIRD = 3, LEAST_SAMPLES = 3, MOST_ENTRANTS = 512 };

static int samples_in_rung(const struct search *search, int64_t rung) {
    int samples = search->options.samples;
    for (int64_t i = rung; i < RUNGS - 1; i++)
        samples /= THIRD;
    return samples > LEAST_SAMPLES ? samples : LEAST_SAMPLES;
}

/* Returns the number of entrants.  All rungs together take 1.5 times the evaluations of the first;
   the default is known. */
static int64_t entrants(const struct search *search) {
    int64_t most = MOST_ENTRANTS, budget = search->options.evaluations;
    if (budget > 0 && 2 * budget / 3 < most)
        most = 2 * budget / 3;
    return most;
}

static void want_all(struct search *search, int samples) {
    struct point point;
    for (bool more = space_first(search->space, &point); more;
         more = space_next(search->space, &point))
        search_want(search, &point, samples);
}

static void want_some(struct search *search, int64_t count, int samples) {
    struct point point;
    while (count-- > 0 && search_fresh(search, &point))
        search_want(search, &point, samples);
}

static bool begin(struct search *search) {
    int64_t most = entrants(search);
    int samples = samples_in_rung(search, 0);
    if (space_count(search->space, most + 1) <= most)
        want_all(search, samples);
    else
        want_some(search, most, samples);
    return true;
}

static int compare(const void *a, const void *b) {
    const struct trial *x = a, *y = b;
    return (x->cost > y->cost) - (x->cost < y->cost);
}

/* Ranks the trials that reached the last rung, the best first. */
static size_t rank(const struct search *search, int samples, struct trial *ranked) {
    size_t count = 0;
    for (size_t i = 0; i < search->count; i++)
        if (trial_is_measured(&search->trials[i]) && search->trials[i].samples >= samples)
            ranked[count++] = search->trials[i];
    qsort(ranked, count, sizeof *ranked, compare);
    return count;
}

static bool promote(struct search *search) {
    struct trial *ranked = malloc(search->count * sizeof *ranked);
    struct point first = space_default(search->space);
    search->no_memory |= ranked == NULL;
    if (ranked == NULL)
        return false;
    size_t count = rank(search, samples_in_rung(search, search->at.stage - 1), ranked);
    int samples = samples_in_rung(search, search->at.stage);
    search_want(search, &first, samples);
    for (size_t i = 0; i < (count + THIRD - 1) / THIRD; i++)
        search_want(search, &ranked[i].point, samples);
    free(ranked);
    return true;
}

static bool advance(struct search *search) {
    if (search->at.stage == RUNGS)
        return false;
    bool more = search->at.stage == 0 ? begin(search) : promote(search);
    search->at.stage++;
    return more;
}

const struct strategy_kind halving_strategy = {"halving", advance};
