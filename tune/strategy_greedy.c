/* Moves from the default to the best of its neighbours, and so on until no neighbour is better,
   then starts again from a random point.  Ends after several climbs in a row that found nothing
   better.

   SPDX-License-Identifier: Apache-2.0 */
#include "strategy_kind.h"

enum { IDLE_CLIMBS = 6 };

static void want_neighbours(struct search *search, int count, const struct point *neighbours) {
    for (int i = 0; i < count; i++)
        search_want(search, &neighbours[i], search->options.samples);
}

static const struct trial *best_of(const struct search *search, int count,
                                   const struct point *points) {
    const struct trial *best = NULL;
    for (int i = 0; i < count; i++) {
        const struct trial *trial = search_find(search, &points[i]);
        if (trial != NULL && trial_is_measured(trial) && (best == NULL || trial->cost < best->cost))
            best = trial;
    }
    return best;
}

/* Starts a climb from a random point.  `stage` counts climbs that ended no lower than the best
   one. */
static bool climb_anew(struct search *search, const struct trial *top) {
    bool lower = top != NULL && trial_is_measured(top) &&
                 (search->at.best == 0 || top->cost < search->at.best);
    if (lower)
        search->at.best = top->cost;
    search->at.stage = lower ? 0 : search->at.stage + 1;
    if (search->at.stage > IDLE_CLIMBS || !search_fresh(search, &search->at.here))
        return false;
    search_want(search, &search->at.here, search->options.samples);
    return true;
}

/* Moves to the best of the neighbours, all of which are known, if it is lower. */
static bool move(struct search *search, int count, const struct point *neighbours) {
    const struct trial *here = search_find(search, &search->at.here);
    const struct trial *best = best_of(search, count, neighbours);
    if (best == NULL || (trial_is_measured(here) && best->cost >= here->cost))
        return climb_anew(search, here);
    search->at.here = best->point;
    return true;
}

static bool advance(struct search *search) {
    struct point neighbours[MOST_NEIGHBOURS];
    int count = space_neighbours(search->space, &search->at.here, neighbours);
    want_neighbours(search, count, neighbours);
    return search_has_questions(search) || move(search, count, neighbours);
}

const struct strategy_kind greedy_strategy = {"greedy", advance};
