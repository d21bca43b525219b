/* What presets lose against the best that was measured.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_REGRET_H
#define KVMILL_TUNE_REGRET_H

#include "ranking.h"

/* The time of a preset divided by that of the winner in the same rounds, 1 where no candidate was
   measurably faster.  Begin with {0}. */
struct regret {
    double logarithms; /* their sum */
    int sweeps;        /* those with a measured preset */
    double worst;
    const struct sweep *where; /* the sweep of the worst */
};

/* Adds a sweep.  Keeps a pointer to it. */
void regret_add(struct regret *regret, const struct sweep *sweep, const struct ranking *ranking);

/* Returns the geometric mean, or 1 without sweeps. */
double regret_mean(const struct regret *regret);

#endif
