/* The ranking of a sweep: one entry for each candidate, and the winner.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_RANKING_H
#define KVMILL_TUNE_RANKING_H

#include "statistics.h"
#include "sweep.h"

/* A candidate, with the result that counts: the one with the most samples, or the latest of
   these. */
struct standing {
    const struct sweep_result *result;
    struct summary time; /* seconds of one run; all 0 for a failure */
    double against;      /* the default's median in the same races, or 0 */
    struct summary gain; /* speed relative to the default; all 0 if unknown */
    double share; /* share of the limit, 0 without a limit: bytes or operations a second / limit */
};

struct ranking {
    struct standing *items; /* the default first if it was measured, then by speed, failures last */
    size_t count;
    int winner; /* the winning item: 0, or one that is measurably faster; -1: no default was
                   measured */
    struct choice choice; /* the reason; indices of items, or NO_CONTENDER for the default */
};

/* Ranks a sweep.  Keeps pointers to it.  Free with ranking_free, also after a failure. */
bool sweep_rank(const struct sweep *sweep, struct ranking *ranking, struct error *error);
void ranking_free(struct ranking *ranking);

/* Returns the cost that a search minimises: the time relative to the default in the same run, or
   the time if there is no default.  Only for candidates that were measured. */
double standing_cost(const struct standing *standing);

/* Whether the first item is a measured default. */
bool ranking_has_default(const struct ranking *ranking);

/* Whether this item could replace the winner without loss: it ties with the winner, or, if the
   winner is the default, is not measurably slower. */
bool ranking_is_as_good(const struct ranking *ranking, const struct standing *standing);

/* Writes why the winner was chosen, in a line. */
enum { REASON_SIZE = 200 };
void ranking_reason(const struct ranking *ranking, char reason[REASON_SIZE]);

#endif
