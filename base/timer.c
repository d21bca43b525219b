/* SPDX-License-Identifier: Apache-2.0 */
#include "timer.h"

#include <stdlib.h>

enum { LEAST_ROUNDS = 7, MOST_ROUNDS = 301 };
static const double least_sample = 1e-3;

/* Seconds that `repeats` calls take; *k goes on from call to call. */
static double sample(const struct contender *contender, int64_t repeats, int64_t *k) {
    if (contender->wake != NULL)
        contender->wake(contender->pool);
    double start = timer_now();
    for (int64_t i = 0; i < repeats; i++)
        contender->run(contender->context, (*k)++);
    return timer_now() - start;
}

/* How many calls fill a sample; doubles as the warm-up. */
static int64_t calibrate(const struct contender *contender, int64_t *k) {
    int64_t repeats = 1;
    while (sample(contender, repeats, k) < least_sample)
        repeats *= 2;
    return repeats;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Contenders, and what they need to take turns. */
struct turns {
    const struct contender *contenders;
    int count;
    int64_t repeats[MOST_CONTENDERS], k;
};

static void begin_turns(struct turns *turns, const struct contender *contenders, int count) {
    *turns = (struct turns){.contenders = contenders, .count = count};
    for (int i = 0; i < count; i++)
        turns->repeats[i] = calibrate(&contenders[i], &turns->k);
}

/* One turn of contender i: seconds of one call. */
static double take_turn(struct turns *turns, int i) {
    return sample(&turns->contenders[i], turns->repeats[i], &turns->k) / (double)turns->repeats[i];
}

int timer_take_rounds(const struct contender *contenders, int count,
                      const struct timer_rounds *rounds, double *const samples[]) {
    struct turns turns;
    int done = 0;
    begin_turns(&turns, contenders, count);
    while (done < rounds->least ||
           (done < rounds->most && !rounds->is_enough(rounds->context, done))) {
        for (int i = 0; i < count; i++)
            samples[i][done] = take_turn(&turns, i);
        done++;
    }
    return done;
}

void timer_race(struct contender *contenders, int count, double seconds) {
    static double samples[MOST_CONTENDERS][MOST_ROUNDS];
    struct turns turns;
    begin_turns(&turns, contenders, count);
    int rounds = 0;
    double end = timer_now() + seconds;
    while (rounds < MOST_ROUNDS && (rounds < LEAST_ROUNDS || timer_now() < end)) {
        for (int i = 0; i < count; i++)
            samples[i][rounds] = take_turn(&turns, i);
        rounds++;
    }
    for (int i = 0; i < count; i++) {
        qsort(samples[i], (size_t)rounds, sizeof(double), compare);
        contenders[i].median = samples[i][rounds / 2];
        contenders[i].spread = samples[i][rounds * 3 / 4] / samples[i][rounds / 4];
    }
}
