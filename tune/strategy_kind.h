/* The interface between strategy.c and the strategies.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_STRATEGY_KIND_H
#define KVMILL_TUNE_STRATEGY_KIND_H

#include "strategy.h"

enum trial_state { TRIAL_WAITS, TRIAL_UNDER_WAY, TRIAL_TOLD };

/* A point and what is known of it. */
struct trial {
    struct point point;
    enum trial_state state;
    int wanted, samples; /* asked for, 0 if this search has not come to it; had */
    double cost;
    enum outcome outcome;
};

struct strategy_kind {
    const char *name;
    /* Called when everything that was asked for is known: want more trials.  false: the search is
       over. Wanting only what is known already is allowed; it is called again then. */
    bool (*advance)(struct search *search);
};

struct search {
    const struct space *space;
    const struct strategy_kind *kind;
    struct search_options options;
    double start;
    uint64_t random;
    struct trial *trials; /* one for each point, in the order they were wanted */
    size_t count, room;
    size_t waiting;      /* no trial before it waits */
    size_t under_way;    /* asked for and not told */
    int64_t evaluations; /* so far, those under way included */
    bool no_memory;
    struct {
        struct point
            here; /* of greedy: where it stands, at first the default; of exhaustive: the last */
        int64_t
            stage;   /* of halving: rungs begun; of greedy: climbs in vain; of exhaustive: points */
        double best; /* of greedy: cost of the best local optimum */
    } at;
};

/* How many points go into one batch where nothing else limits it. */
enum { BATCH = 32 };

/* Ask for a point, unless as many samples of it are known or it has failed. */
void search_want(struct search *search, const struct point *point, int samples);

/* Whether anything is wanted that has not been asked for. */
bool search_has_questions(struct search *search);

/* What is known of a point, or NULL. */
struct trial *search_find(const struct search *search, const struct point *point);

/* Whether the trial has a cost. */
bool trial_is_measured(const struct trial *trial);

/* A legal point that nobody has wanted yet, at random; false when there is none. */
bool search_fresh(struct search *search, struct point *point);

extern const struct strategy_kind exhaustive_strategy, random_strategy, greedy_strategy,
    halving_strategy;

#endif
