/* The interface between searches (search.c), the list of strategies (strategy_kind.c), and the
   strategies.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_STRATEGY_KIND_H
#define KVMILL_TUNE_STRATEGY_KIND_H

#include "strategy.h"

enum trial_state { TRIAL_WAITS, TRIAL_UNDER_WAY, TRIAL_TOLD };

/* A point, and its results. */
struct trial {
    struct point point;
    enum trial_state state;
    int wanted, samples; /* asked for, 0 if not by this search; reported */
    double cost;
    enum outcome outcome;
};

struct strategy_kind {
    const char *name;
    /* Called when all results are known; wants more trials.  Returns false if the search is over.
       It may want only trials that are known; it is then called again. */
    bool (*advance)(struct search *search);
};

struct search {
    const struct space *space;
    const struct strategy_kind *kind;
    struct search_options options;
    double start;
    uint64_t random;
    struct trial *trials; /* one for each point, in the order of the first use */
    size_t count, room;
    size_t waiting;      /* trials before this index do not wait */
    size_t under_way;    /* asked for, but not reported */
    int64_t evaluations; /* so far, including those under way */
    bool no_memory;
    struct {
        struct point here; /* greedy: current point, at first the default; exhaustive: the last */
        int64_t stage;     /* halving: rungs begun; greedy: climbs in vain; exhaustive: points */
        double best;       /* greedy: cost of the best local optimum */
    } at;
};

/* The number of points in a batch if nothing else limits it. */
enum { BATCH = 32 };

/* Opens a search; NULL, with an error, if out of memory. */
struct search *search_begin(const struct space *space, const struct strategy_kind *kind,
                            const struct search_options *options, struct error *error);

/* Asks for a point, unless as many samples of it are known, or it has failed. */
void search_want(struct search *search, const struct point *point, int samples);

/* Whether any wanted point has not been asked for. */
bool search_has_questions(struct search *search);

/* Returns the trial of a point, or NULL. */
struct trial *search_find(const struct search *search, const struct point *point);

/* Whether the trial was measured, and so has a cost. */
bool trial_is_measured(const struct trial *trial);

/* Finds a random legal point that this search has not wanted yet.  Returns false if there is
   none. */
bool search_fresh(struct search *search, struct point *point);

extern const struct strategy_kind exhaustive_strategy, random_strategy, greedy_strategy,
    halving_strategy;

#endif
