/* Search strategies choose the candidates to measure next from the results so far.

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
    const char *strategy; /* NULL: chosen by the size of the space */
    uint64_t seed;
    int samples;                /* of a full measurement; 0: 27.  Halving begins with fewer */
    int64_t evaluations;        /* most measurements, known ones included; 0: no limit */
    double seconds;             /* no question later than this after the opening; 0: no limit */
    double (*now)(void *clock); /* returns seconds; needed for `seconds` */
    void *clock;
};

/* Names of the strategies, ending with NULL: "exhaustive", "random", "greedy", "halving". */
extern const char *const strategy_names[];

/* Returns the strategy for a space of that many points: all points if they are few, halving if all
   can be built, else greedy. */
const char *strategy_for(int64_t points);

/* Opens a search.  EXIT_USER for an unknown strategy.  Keeps a pointer to the space. */
struct search *search_open(const struct space *space, const struct search_options *options,
                           struct error *error);
void search_close(struct search *search); /* NULL is allowed */

enum answer {
    ANSWER_POINT,   /* measure this point */
    ANSWER_WAIT,    /* report the results of earlier questions first */
    ANSWER_DONE,    /* the strategy has no more questions */
    ANSWER_EXPIRED, /* it has more, but the budget is spent */
    ANSWER_NO_MEMORY
};

struct question {
    struct point point;
    int samples;
};

enum answer search_ask(struct search *search, struct question *question);

/* Reports the result for a point.  `cost` is the number to minimise (seconds, or better their ratio
   to the default's in the same run), from `samples` samples; it is ignored for failures.  Results
   of an earlier run may be reported without a question, and are then not asked for.  Returns false
   if out of memory. */
bool search_tell(struct search *search, const struct point *point, enum outcome outcome,
                 double cost, int samples);

/* Finds the point of least cost among those with a full measurement, or else with the most samples.
   Returns false if none was measured. */
bool search_best(const struct search *search, struct point *best);

/* Whether it was the number of measurements that ended the search, and not the time. */
bool search_has_enough(const struct search *search);

/* Returns the number of samples in a full measurement. */
int search_samples(const struct search *search);

#endif
