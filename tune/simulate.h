/* Replays strategies on a stored sweep, whose results replace measurements.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_SIMULATE_H
#define KVMILL_TUNE_SIMULATE_H

#include "strategy.h"
#include "sweep_space.h"

struct replay_options {
    const char *strategy;
    uint64_t seed;
    double within;       /* how near the best of the sweep is near enough: 0.02 is 2 % */
    int64_t evaluations; /* budgets, 0: none */
    double seconds;
    double build_seconds; /* what a candidate takes beside its samples, for that clock */
};

struct replay {
    int64_t evaluations; /* until a candidate was near enough; 0: that never happened */
    int64_t all;         /* until the end */
    double seconds;      /* what they would have taken */
    double slowdown;     /* time of what was found over that of the best there is: 1 is the best */
};

/* A measurement of n samples takes n times the median of the stored ones; its result is that of the
   first n of them. */
bool simulate(const struct ranking *ranking, const struct sweep_space *space,
              const struct replay_options *options, struct replay *replay, struct error *error);

/* Over seeds 1 to `seeds`. */
struct comparison {
    int64_t median,
        worst;       /* evaluations until near enough; those that never got there count as all */
    int misses;      /* seeds that never got there */
    double slowdown; /* the worst */
};

bool simulate_seeds(const struct ranking *ranking, const struct sweep_space *space,
                    const struct replay_options *options, int seeds, struct comparison *comparison,
                    struct error *error);

#endif
