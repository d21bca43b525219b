/* The ranking of a sweep: one entry for each candidate, and the winner.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_RANKING_H
#define KVMILL_TUNE_RANKING_H

#include "statistics.h"
#include "sweep.h"

/* A candidate, by the result that counts: the one with the most samples, of those the latest. */
struct standing {
    const struct sweep_result *result;
    struct summary time; /* of one run; all 0 for a failure */
    double against;      /* the default's median in the same races; 0 where there was none */
    struct summary gain; /* speed over the default's; all 0 where that has none */
    double
        share; /* of the limit, 0 where there is none: bytes or operations a second over its rate */
};

struct ranking {
    struct standing
        *items; /* the default first if it was measured, the fastest after it, failures last */
    size_t count;
    int winner; /* the item that is chosen: 0, or one that is measurably faster; -1: nothing was
                   measured */
    struct choice choice; /* why; indices are of items, NO_CONTENDER the default */
};

/* Points into the sweep.  Free with ranking_free, also after a failure. */
bool sweep_rank(const struct sweep *sweep, struct ranking *ranking, struct error *error);
void ranking_free(struct ranking *ranking);

/* What a search is to make small: time over that of the default in the same run, or time where
   there is no default.  Of those that were measured. */
double standing_cost(const struct standing *standing);

/* Whether the first item is a default that was measured. */
bool ranking_has_default(const struct ranking *ranking);

/* Whether nothing is lost by taking this item in the winner's place: it ties with the winner, or,
   where that is the default, is not measurably slower. */
bool ranking_is_as_good(const struct ranking *ranking, const struct standing *standing);

/* Why the winner was chosen, in a line. */
enum { REASON_SIZE = 200 };
void ranking_reason(const struct ranking *ranking, char reason[REASON_SIZE]);

#endif
