/* SPDX-License-Identifier: Apache-2.0 */
#include "timer.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { LEAST_ROUNDS = 7, MOST_ROUNDS = 301 };
static const double least_sample = 1e-3, sure_sample = 0.1;

/* Returns the seconds that `repeats` calls take; *k counts on from call to call. */
static double sample(const struct contender *contender, int64_t repeats, int64_t *k) {
    if (contender->wake != NULL)
        contender->wake(contender->pool);
    double start = timer_now();
    for (int64_t i = 0; i < repeats; i++)
        contender->run(contender->context, (*k)++);
    return timer_now() - start;
}

/* Whether so many calls fill a sample.  One sample does not tell, unless it is very long: another
   process may have run. */
static bool fills_sample(const struct contender *contender, int64_t repeats, int64_t *k) {
    enum { TRIES = 3 };
    double quickest = sample(contender, repeats, k);
    for (int i = 1; i < TRIES && quickest >= least_sample && quickest < sure_sample; i++) {
        double seconds = sample(contender, repeats, k);
        quickest = seconds < quickest ? seconds : quickest;
    }
    return quickest >= least_sample;
}

/* Returns how many calls fill a sample.  Also warms up. */
static int64_t calibrate(const struct contender *contender, int64_t *k) {
    int64_t repeats = 1;
    while (!fills_sample(contender, repeats, k))
        repeats *= 2;
    return repeats;
}

/* ---- Whether another process disturbed a sample ---- */

/* Another process that gets the processor keeps it for about `slice` seconds. */
static const double slice = 3e-3, most_lost = 0.05;

bool timer_was_disturbed(const struct timer_sample *sample) {
    double waited = sample->seconds - sample->processor_seconds,
           switched_off = (double)sample->switches * slice;
    return (waited > switched_off ? waited : switched_off) > most_lost * sample->seconds;
}

/* Reads the process's processor time and switches; both include all threads. */
static void read_usage(struct timer_sample *usage) {
    struct rusage counted;
    struct timespec used;
    getrusage(RUSAGE_SELF, &counted);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    usage->processor_seconds = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    usage->switches = counted.ru_nivcsw;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Contenders, and the state of their turns. */
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

/* Returns the seconds of one call of contender i, in one turn. */
static double take_turn(struct turns *turns, int i) {
    return sample(&turns->contenders[i], turns->repeats[i], &turns->k) / (double)turns->repeats[i];
}

enum { MOST_TRIES = 3 };

/* take_turn, repeated if it was disturbed, up to MOST_TRIES turns. */
static double take_quiet_turn(struct turns *turns, int i, bool *disturbed) {
    double seconds;
    *disturbed = true;
    for (int tries = 0; *disturbed && tries < MOST_TRIES; tries++) {
        struct timer_sample before, taken;
        read_usage(&before);
        seconds = take_turn(turns, i);
        read_usage(&taken);
        taken.seconds = seconds * (double)turns->repeats[i];
        taken.processor_seconds -= before.processor_seconds;
        taken.switches -= before.switches;
        *disturbed = timer_was_disturbed(&taken);
    }
    return seconds;
}

/* A contender that takes so many times as long as the first is called less often: it would take
   most of the time, and nothing depends on how slow it is. */
enum { MOST_APART = 8 };

int timer_run_rounds(const struct contender *contenders, int count,
                     const struct timer_rounds *rounds, double *const samples[]) {
    struct turns turns;
    int done = 0;
    begin_turns(&turns, contenders, count);
    for (int i = 1; i < rounds->alike; i++) {
        int64_t most = MOST_APART * turns.repeats[i];
        turns.repeats[i] = turns.repeats[0] < most ? turns.repeats[0] : most;
    }
    while (done < rounds->least ||
           (done < rounds->most && !rounds->is_enough(rounds->context, done))) {
        for (int i = 0; i < count; i++) {
            int turn = done % 2 == 0 ? i : count - 1 - i;
            samples[turn][done] = take_turn(&turns, turn);
        }
        done++;
    }
    return done;
}

void timer_race(struct contender *contenders, int count, double seconds) {
    static double samples[MOST_CONTENDERS][MOST_ROUNDS];
    struct turns turns;
    int rounds = 0, disturbed[MOST_CONTENDERS] = {0};
    begin_turns(&turns, contenders, count);
    double end = timer_now() + seconds;
    while (rounds < MOST_ROUNDS && (rounds < LEAST_ROUNDS || timer_now() < end)) {
        for (int i = 0; i < count; i++) {
            bool was_disturbed;
            samples[i][rounds] = take_quiet_turn(&turns, i, &was_disturbed);
            disturbed[i] += was_disturbed;
        }
        rounds++;
    }
    for (int i = 0; i < count; i++) {
        qsort(samples[i], (size_t)rounds, sizeof(double), compare);
        contenders[i].median = samples[i][rounds / 2];
        contenders[i].spread = samples[i][rounds * 3 / 4] / samples[i][rounds / 4];
        contenders[i].disturbed = (double)disturbed[i] / rounds;
    }
}
