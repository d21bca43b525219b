/* kvmill db simulate.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_DB_SIMULATE_H
#define KVMILL_TOOLS_DB_SIMULATE_H

#include "../tune/sweep.h"

/* Replays every strategy on every sweep, `seeds` times, and prints how many evaluations came within
   `percent` of the best.  Then prints, for each CPU, what presets lose against the winners. */
bool db_simulate(const struct sweeps *sweeps, long percent, int seeds, struct error *error);

#endif
