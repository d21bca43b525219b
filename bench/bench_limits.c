/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <inttypes.h>
#include <string.h>

#include "../base/timer.h"
#include "limits.h"
#include "memory.h"

static const double seconds_per_race = 1.0;

static void add_limit(struct bench_results *results, const char *what, const struct pool *pool,
                      double seconds, double bytes, double flops) {
    struct bench_result *result = bench_results_add(results);
    snprintf(result->what, sizeof result->what, "limit: %s", what);
    result->threads = pool_threads(pool);
    result->seconds = seconds;
    result->bytes = bytes;
    result->flops = flops;
}

static void run_limit_read(void *context, int64_t k) {
    (void)k;
    limit_read(context);
}

struct limit_copy {
    struct copy copy;
    void (*function)(const struct copy *copy);
};

static void run_limit_copy(void *context, int64_t k) {
    const struct limit_copy *each = context;
    (void)k;
    each->function(&each->copy);
}

struct adder {
    struct pool *pool;
    double count; /* multiply-adds of a call */
};

static void run_multiply_add(void *context, int64_t k) {
    struct adder *adder = context;
    (void)k;
    adder->count = limit_multiply_add(peak_of(NULL), adder->pool);
}

static double run_peak(struct adder *adder, struct pool *pool) {
    *adder = (struct adder){pool, 0};
    struct contender race = {.run = run_multiply_add, .context = adder, .pool = pool};
    timer_race(&race, 1, seconds_per_race / 4);
    return race.median;
}

static void race_limits(char *memory, int64_t bytes, struct pool *pool,
                        struct bench_results *results) {
    static void (*const copies[])(const struct copy *) = {limit_memcpy, limit_nontemporal,
                                                          limit_nontemporal_pages};
    static const char *const names[] = {"memcpy", "copy, nontemporal",
                                        "copy, nontemporal, 4 pages"};
    struct reading readings[READINGS];
    struct limit_copy each[3];
    struct contender race[READINGS + 3];
    for (int i = 0; i < READINGS; i++) {
        readings[i] = (struct reading){memory, (size_t)bytes, kinds_of_reading[i].streams, pool};
        race[i] =
            (struct contender){kinds_of_reading[i].name, run_limit_read, &readings[i], pool, 0};
        each[i] =
            (struct limit_copy){{memory, memory + bytes / 2, (size_t)bytes / 2, pool}, copies[i]};
        race[READINGS + i] = (struct contender){names[i], run_limit_copy, &each[i], pool, 0};
    }
    timer_race(race, READINGS + 3, seconds_per_race);
    for (int i = 0; i < READINGS + 3; i++) /* a copy reads and writes half as much each */
        add_limit(results, race[i].name, pool, race[i].median, (double)bytes, 0);
    struct adder adder;
    double seconds = run_peak(&adder, pool);
    add_limit(results, "multiply-add, float32", pool, seconds, 0, 2 * adder.count);
}

bool bench_limits(int threads, int64_t bytes, struct bench_results *results, struct error *error) {
    char *memory = bench_memory_get(bytes);
    if (memory == NULL)
        return fail(error, EXIT_ENVIRONMENT, "not enough memory for %" PRId64 " MiB", bytes >> 20);
    memset(memory, 1, (size_t)bytes);
    bool done = true;
    for (int n = 1; done && n <= threads; n += threads > 1 ? threads - 1 : 1) {
        struct pool *pool = pool_open(n);
        done = pool != NULL || out_of_memory(error);
        if (done)
            race_limits(memory, bytes, pool, results);
        pool_close(pool);
    }
    bench_memory_release(memory, bytes);
    return done;
}
