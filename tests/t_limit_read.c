/* The limit of reading that `kvmill bench` compares kernels with: no loop here may read faster by
   more than noise.

   SPDX-License-Identifier: Apache-2.0 */
#include "../base/timer.h"
#include "../bench/limits.h"
#include "program.h"

enum { LOOPS = 8, PIECES = 4, ROUNDS = 6, TRIES = 5 };
static const size_t piece = 64 << 20;

typedef uint64_t two_words __attribute__((vector_size(16), may_alias));

/* Sums up lines of `streams` parts in turn. */
static uint64_t sum_up(const char *from, size_t streams, size_t ahead) {
    two_words a = {0}, b = {0}, c = {0}, d = {0};
    size_t part = piece / streams;
    for (size_t i = 0; i < part; i += 64)
        for (size_t s = 0; s < streams; s++) {
            const two_words *line = (const void *)(from + s * part + i);
            if (ahead > 0)
                __builtin_prefetch((const char *)line + ahead);
            a += line[0], b += line[1], c += line[2], d += line[3];
        }
    a += b + c + d;
    return a[0] + a[1];
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

static double seconds_of_loop(const char *from, int loop) {
    double start = timer_now();
    volatile uint64_t sink = sum_up(from, (size_t)1 << loop % 4, loop < 4 ? 0 : 1024);
    (void)sink;
    return timer_now() - start;
}

static double seconds_of_limit(const char *from, int kind, kvmill_pool *pool) {
    const struct kind_of_reading *k = &kinds_of_reading[kind];
    double start = timer_now();
    limit_read(&(struct reading){from, piece, k->streams, pool, k->fetches, k->narrow});
    return timer_now() - start;
}

/* Returns the fastest loop's time relative to the limit's.  Both take turns on pieces that the
   caches do not have. */
static double share_of_best(const char *memory, kvmill_pool *pool) {
    double loops = 1e9, limit = 1e9;
    int at = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LOOPS; i++)
            loops = smaller(loops, seconds_of_loop(memory + at++ % PIECES * piece, i));
        for (int i = 0; i < READINGS; i++)
            limit = smaller(limit, seconds_of_limit(memory + at++ % PIECES * piece, i, pool));
    }
    return loops / limit;
}

TEST(reading) {
    if (getenv("KVMILL_TEST_SLOW") != NULL) {
        skip_test("reading: too slow here");
        return;
    }
    FREED char *memory = malloc(PIECES * piece);
    kvmill_pool *pool;
    double best = 0;
    struct error error;
    must(memory != NULL && bench_pool_open(1, &pool, &error), "no memory");
    memset(memory, 1, PIECES * piece);
    for (int i = 0; i < TRIES && best < 0.95; i++) {
        double share = share_of_best(memory, pool);
        best = share > best ? share : best;
    }
    ok(best >= 0.95, "reading is at least 0.95 of the best of eight loops");
    diag("%.3f", best);
    kvmill_pool_destroy(pool);
}

TEST(clock) {
    double hertz = limit_clock(), again = limit_clock();
    ok(hertz > 1e8 && hertz < 1e10, "the clock is one of a processor");
    ok(hertz < 1.5 * again && again < 1.5 * hertz, "  and twice the same, or nearly");
}
