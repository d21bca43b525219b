/* Replays strategies on a stored sweep.  Its results replace measurements.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_SIMULATE_H
#define KVMILL_TUNE_SIMULATE_H

#include "strategy.h"
#include "sweep_space.h"

struct replay_options {
    const char *strategy;
    uint64_t seed;
    double within;       /* tolerance to the sweep's best: 0.02 is 2 % */
    int64_t evaluations; /* budgets; 0: no limit */
    double seconds;
    double build_seconds; /* seconds that a candidate takes in addition to its samples */
};

struct replay {
    int64_t evaluations; /* until a candidate was near enough, or 0 if none was */
    int64_t all;         /* until the end */
    double seconds;      /* that these evaluations would have taken */
    double slowdown;     /* time of the point found / time of the best: 1 is the best */
};

/* Replays a search.  A measurement of n samples takes n times the median of the stored ones; its
   result is that of the first n. */
bool simulate(const struct ranking *ranking, const struct sweep_space *space,
              const struct replay_options *options, struct replay *replay, struct error *error);

/* The results of seeds 1 to `seeds`. */
struct comparison {
    int64_t median, worst; /* evaluations until near enough, or all if none was */
    int misses;            /* seeds without a candidate near enough */
    double slowdown;       /* the greatest of all seeds */
};

bool simulate_seeds(const struct ranking *ranking, const struct sweep_space *space,
                    const struct replay_options *options, int seeds, struct comparison *comparison,
                    struct error *error);

#endif
