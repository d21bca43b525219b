/* Medians, their intervals, and the choice of winners.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <time.h>

#include "../base/timer.h"
#include "../tune/random.h"
#include "../tune/statistics.h"
#include "common.h"

/* Summarises the samples `count` to 1, as one of `compared` candidates. */
static struct summary summary_of(int count, int compared) {
    double samples[301];
    struct summary summary;
    for (int k = 0; k < count; k++)
        samples[k] = count - k;
    must(summarise(samples, count, compared, &summary), "no memory");
    return summary;
}

/* COUNT RANK: the interval begins at the RANK-th least sample. */
ROWS(interval, 2) {
    int n = atoi(cells[0]), rank = atoi(cells[1]);
    const struct summary summary = summary_of(n, 1);
    if (!ok(summary.low == rank && summary.high == n + 1 - rank,
            "of %d samples the interval begins at number %d", n, rank))
        diag("from %g to %g", summary.low, summary.high);
    ok(summary.median == (n + 1) / 2.0 && summary.minimum == 1, "with median and minimum");
    ok((n < 6) == (summary.coverage < 0.95), "and a coverage of %.3f", summary.coverage);
}

/* COUNT COMPARED RANK; 0: too few samples. */
ROWS(floor, 3) {
    int n = atoi(cells[0]), rank = atoi(cells[2]);
    const struct summary summary = summary_of(n, atoi(cells[1]));
    ok(summary.floor == rank &&
           (rank == 0 ? isinf(summary.ceiling) : summary.ceiling == n + 1 - rank),
       "the floor of %d samples, one of %s, is number %d", n, cells[1], rank);
}

/* SECONDS PROCESSOR-SECONDS SWITCHES yes|no. */
ROWS(disturbed, 4) {
    const struct timer_sample sample = {atof(cells[0]), atof(cells[1]), atoi(cells[2])};
    ok(timer_was_disturbed(&sample) == (strcmp(cells[3], "yes") == 0),
       "%s s, of the processor %s, %s switches: %s", cells[0], cells[1], cells[2], cells[3]);
}

TABLE(statistics);

static void sleep_a_while(void *calls, int64_t k) {
    (void)k;
    ++*(int *)calls;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* A race takes a sleeper for one that waits for a processor. */
TEST(race) {
    int calls = 0;
    struct contender sleeper = {.run = sleep_a_while, .context = &calls};
    timer_race(&sleeper, 1, 0);
    ok(sleeper.disturbed == 1 && sleeper.median >= 2e-3, "every sample of a sleeper is disturbed");
    ok(calls == 3 + 3 * 7, "  and was taken three times, %d calls", calls);
}

/* A contender that notes its calls. */
struct caller {
    char name;
    double seconds;   /* of a call */
    int waits, calls; /* waits: the first calls that take long */
    char *order;
};

static void call(void *context, int64_t k) {
    struct caller *caller = context;
    size_t length = strlen(caller->order);
    (void)k;
    if (caller->calls++ < caller->waits)
        sleep_a_while(&(int){0}, 0);
    for (double end = timer_now() + caller->seconds; timer_now() < end;)
        ;
    if (length == 0 || caller->order[length - 1] != caller->name)
        caller->order[length] = caller->name;
}

static bool is_never_enough(void *context, int rounds) {
    (void)context, (void)rounds;
    return false;
}

TEST(rounds) {
    enum { ROUNDS = 4 };
    char order[64] = "";
    double samples[3][ROUNDS], *const where[] = {samples[0], samples[1], samples[2]};
    struct caller callers[] = {
        {'a', 1e-6, 0, 0, order}, {'b', 4e-6, 1, 0, order}, {'c', 0, INT32_MAX, 0, order}};
    struct contender contenders[3];
    for (int i = 0; i < 3; i++)
        contenders[i] = (struct contender){.run = call, .context = &callers[i]};
    const struct timer_rounds rounds = {ROUNDS, ROUNDS, 2, is_never_enough, NULL};
    timer_run_rounds(contenders, 3, &rounds, where);
    ok_text(order, "abcabcbabcba", "every other round is in reverse order");
    int alone = callers[2].calls - ROUNDS;
    ok(alone == 3, "a contender whose every call takes long is tried three times, not %d", alone);
    const struct caller *a = &callers[0], *b = &callers[1];
    ok(a->calls > 1000 && b->calls > 500,
       "a first call that takes longer does not fill a sample: %d and %d calls", a->calls,
       b->calls);
    double difference = fabs(log((double)a->calls / b->calls));
    ok(difference < log(3), "those that are compared are called equally often in a sample");
}

/* Counts how often the interval contains the median of a skewed distribution with outliers. */
TEST(coverage) {
    enum { ROUNDS = 4000, SAMPLES = 15 };
    uint64_t random = 42;
    int inside = 0;
    for (int i = 0; i < ROUNDS; i++) {
        double samples[SAMPLES];
        struct summary summary;
        for (int k = 0; k < SAMPLES; k++) {
            double u = ((double)random_below(&random, 1 << 30) + 0.5) / (1 << 30);
            samples[k] = 1 / (1 - u); /* its median is 2 */
        }
        inside += summarise(samples, SAMPLES, 1, &summary) && summary.low <= 2 && summary.high >= 2;
    }
    double share = (double)inside / ROUNDS; /* expected 0.965, deviation 0.003 */
    ok(share > 0.95 && share < 0.98, "the interval has the true median in %.3f of cases", share);
}

TEST(ratio) {
    double baseline[20], samples[20];
    struct summary ratio, first, second;
    for (int i = 0; i < 20; i++) { /* drift by a factor of 2; the ratio is within 1 % of 1.1 */
        baseline[i] = 1 + i / 20.0;
        samples[i] = baseline[i] / (1.1 + 0.01 * (i % 3 - 1));
    }
    bool done = summarise_ratio(baseline, samples, 20, 1, &ratio) &&
                summarise(baseline, 20, 1, &first) && summarise(samples, 20, 1, &second);
    ok(done && fabs(ratio.median - 1.1) < 0.011 && ratio.low > 1.08 && ratio.high < 1.12,
       "drift cancels from ratios of interleaved samples");
    struct summary quotient = summary_quotient(&first, &second);
    ok(quotient.low < 1 && quotient.high > 1.2 && fabs(quotient.median - 1.1) < 0.02,
       "and does not from those that were not interleaved");
}

TEST(tightness) {
    const struct summary tight = {.median = 2, .low = 1.981, .high = 2.019},
                         low = {.median = 2, .low = 1.979, .high = 2.019},
                         high = {.median = 2, .low = 1.981, .high = 2.021};
    ok(summary_is_tight(&tight), "an interval of 1 %% to both sides is tight");
    ok(!summary_is_tight(&low) && !summary_is_tight(&high), "one that is wider to either is not");
}

/* ---- Winners ---- */

static struct contender_result contender(const char *name, double gain, double half, int64_t code) {
    return (struct contender_result){name,
                                     code,
                                     {.count = 15,
                                      .median = gain,
                                      .low = gain - half,
                                      .high = gain + half,
                                      .floor = gain - half}};
}

static const char *winner(const struct contender_result *contenders, int count) {
    struct choice choice = choose(contenders, count);
    return choice.winner == NO_CONTENDER ? "default" : contenders[choice.winner].name;
}

TEST(choice) {
    const struct contender_result noise[] = {contender("a", 1.01, 0.005, 10),
                                             contender("b", 1.2, 0.25, 10),
                                             contender("c", 0.9, 0.01, 1)};
    const struct contender_result clear[] = {contender("a", 1.1, 0.01, 10),
                                             contender("b", 1.2, 0.01, 99)};
    const struct contender_result ties[] = {
        contender("c", 1.2, 0.01, 50), contender("b", 1.19, 0.01, 40),
        contender("a", 1.19, 0.01, 40), contender("d", 1.15, 0.01, 1)};
    const struct contender_result wide[] = {contender("a", 1.5, 0.15, 50),
                                            contender("b", 1.4, 0.01, 40)};
    ok(!strcmp(winner(NULL, 0), "default"), "without contenders the default stays");
    ok(!strcmp(winner(noise, 3), "default"),
       "within the band, or with an interval around 1, the default stays");
    ok(!strcmp(winner(clear, 2), "b"), "the faster one wins, whatever its code");
    ok(!strcmp(winner(ties, 4), "a"), "among ties the least code, then the first name");
    ok(choose(ties, 4).ties == 3 && choose(ties, 4).fastest == 0, "the ties are counted");
    ok(!strcmp(winner(wide, 2), "b"), "a noisy winner has a wider band");
}

/* The order of candidates does not matter, even if medians are equal. */
TEST(order) {
    struct contender_result all[8];
    uint64_t random = 5;
    int differences = 0;
    for (int i = 0; i < 8; i++)
        all[i] =
            contender(&"a\0b\0c\0d\0e\0f\0g\0h"[2 * i], 1.3 + 0.01 * (i / 2), 0.01 * i, 10 + i % 3);
    const char *expected = winner(all, 8);
    for (int round = 0; round < 500; round++) {
        for (int i = 7; i > 0; i--) {
            int k = (int)random_below(&random, (uint64_t)i + 1);
            struct contender_result swap = all[i];
            all[i] = all[k];
            all[k] = swap;
        }
        differences += strcmp(winner(all, 8), expected) != 0;
    }
    ok(differences == 0, "the winner does not depend on the order");
}

/* Candidates as fast as the default are almost never taken for faster. */
TEST(false_winners) {
    enum { ROUNDS = 200, CANDIDATES = 20, SAMPLES = 15 };
    uint64_t random = 9;
    int false_winners = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct contender_result all[CANDIDATES];
        for (int c = 0; c < CANDIDATES; c++) {
            double ratios[SAMPLES];
            for (int i = 0; i < SAMPLES; i++) /* 5 % of noise */
                ratios[i] = 1 + ((double)random_below(&random, 1000) - 500) / 10000;
            all[c] = (struct contender_result){.name = "x"};
            must(summarise(ratios, SAMPLES, CANDIDATES, &all[c].gain), "no memory");
        }
        false_winners += choose(all, CANDIDATES).winner != NO_CONTENDER;
    }
    ok(false_winners <= ROUNDS / 10, "noise beats the default in %d of %d sweeps", false_winners,
       ROUNDS);
}
