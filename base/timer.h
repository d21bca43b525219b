/* Measures times that can be compared: contenders take turns, so that changes in the machine's
   speed affect all of them equally.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_TIMER_H
#define KVMILL_BASE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

/* Work to time.  run (context, k) does it once; k counts the calls, so that data can rotate. */
struct contender {
    const char *name;
    void (*run)(void *context, int64_t k);
    void *context;
    void (*wake)(void *pool); /* called before each sample; or NULL */
    void *pool;
    double median;    /* seconds of one call; set by timer_race */
    double spread;    /* upper quartile / lower quartile; set by timer_race */
    double disturbed; /* share of the samples that were disturbed; set by timer_race */
};

enum { MOST_CONTENDERS = 32 };

/* Times the contenders in turn for about `seconds` in total, at least 7 rounds.  A sample lasts at
   least a millisecond; short calls are repeated.  A disturbed sample is taken again, at most
   twice. */
void timer_race(struct contender *contenders, int count, double seconds);

/* Times the contenders in turn: samples[i] gets the seconds of one call of contender i, one sample
   for each round.  Takes `least` to `most` rounds, until is_enough (context, rounds).  Returns how
   many.  Every other round is in reverse order, because a contender may take longer after one that
   leaves the caches in another state.  The first `alike` contenders are compared: their samples are
   of equally many calls, because the first call after another contender takes longer; but not those
   of a contender that is eight times as slow. */
struct timer_rounds {
    int least, most, alike;
    bool (*is_enough)(void *context, int rounds);
    void *context;
};
int timer_run_rounds(const struct contender *contenders, int count,
                     const struct timer_rounds *rounds, double *const samples[]);

/* The cost of a sample: seconds, processor time, and how often the system switched to another
   process. */
struct timer_sample {
    double seconds, processor_seconds;
    int64_t switches;
};

/* Whether other processes ran during the sample long enough to matter. */
bool timer_was_disturbed(const struct timer_sample *sample);

/* Returns the seconds of a monotonic clock. */
double timer_now(void);

#endif
