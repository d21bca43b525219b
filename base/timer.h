/* Comparable times: contenders take turns, so that changes in the machine's speed affect all of
   them alike.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_TIMER_H
#define KVMILL_BASE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

/* Something to time.  run (context, k) does the work once; k counts the calls, for rotating data.
 */
struct contender {
    const char *name;
    void (*run)(void *context, int64_t k);
    void *context;
    void (*wake)(void *pool); /* called when a sample begins; or NULL */
    void *pool;
    double median;    /* seconds of one call, set by timer_race */
    double spread;    /* the upper quartile over the lower one, set by timer_race */
    double disturbed; /* the share of its samples that were disturbed, set by timer_race */
};

enum { MOST_CONTENDERS = 32 };

/* Time them in turn for about `seconds` in all, at least 7 rounds; a sample lasts at least a
   millisecond (short calls are repeated).  A sample that was disturbed is taken again, twice at
   most. */
void timer_race(struct contender *contenders, int count, double seconds);

/* Time them in turn: samples[i] gets seconds of one call of contender i, a sample from every round.
   `least` to `most` rounds, until is_enough (context, rounds) says so; how many there were. */
struct timer_rounds {
    int least, most;
    bool (*is_enough)(void *context, int rounds);
    void *context;
};
int timer_take_rounds(const struct contender *contenders, int count,
                      const struct timer_rounds *rounds, double *const samples[]);

/* What a sample took: by the clock, of the processors, and how often the system gave a processor to
   somebody else. */
struct timer_sample {
    double seconds, processor_seconds;
    int64_t switches;
};

/* Whether something else ran meanwhile for long enough to matter. */
bool timer_was_disturbed(const struct timer_sample *sample);

/* Monotonic clock. */
double timer_now(void);

#endif
