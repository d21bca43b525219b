/* Search strategies: which candidates to measure next, given what the last ones showed.

   A search requests measurements and gets their results; it knows neither what a point means nor
   how it is measured.  It requests several points at a time, so that they can be built together.
   The default point is always the first.  The same space, options and results lead to the same
   requests on every machine.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_STRATEGY_H
#define KVMILL_TUNE_STRATEGY_H

#include "outcome.h"
#include "space.h"

struct search;

struct search_options {
    const char *strategy; /* NULL: by the size of the space */
    uint64_t seed;
    int samples;         /* of a full measurement; 0: 27.  Halving begins with fewer */
    int64_t evaluations; /* at most that many measurements, known ones included; 0: no bound */
    double seconds;      /* no question later than that after the opening; 0: no bound */
    double (*now)(void *clock); /* seconds; needed for that */
    void *clock;
};

/* Names of the strategies, ending with NULL: "exhaustive", "random", "greedy", "halving". */
extern const char *const strategy_names[];

/* What is taken for a space of that many points: all of them where they are few, halving where they
   can all be built, else greedy. */
const char *strategy_for(int64_t points);

/* EXIT_USER for an unknown strategy.  The space must stay. */
struct search *search_open(const struct space *space, const struct search_options *options,
                           struct error *error);
void search_close(struct search *search); /* NULL is allowed */

enum answer {
    ANSWER_POINT,   /* measure this */
    ANSWER_WAIT,    /* tell what was asked for before: there is more then */
    ANSWER_DONE,    /* the strategy has no more questions */
    ANSWER_EXPIRED, /* it has, but the budget is spent */
    ANSWER_NO_MEMORY
};

struct question {
    struct point point;
    int samples;
};

enum answer search_ask(struct search *search, struct question *question);

/* The result for a point: `cost` is what is to be small (seconds, or better their ratio to the
   default's in the same run), out of `samples` of them; it does not matter for failures.  Results
   that are told without having been asked for, of an earlier run, are not asked for again.  false:
   out of memory. */
bool search_tell(struct search *search, const struct point *point, enum outcome outcome,
                 double cost, int samples);

/* The point of least cost among those with a full measurement, or where there is none with the most
   samples; false when none was measured. */
bool search_best(const struct search *search, struct point *best);

/* Samples of a full measurement. */
int search_samples(const struct search *search);

#endif
