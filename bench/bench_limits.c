/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <inttypes.h>
#include <string.h>

#include "../base/timer.h"
#include "limits.h"
#include "memory.h"

static const double seconds_per_race = 1.0;

static struct bench_result *add_limit(struct bench_results *results, const char *what,
                                      const kvmill_pool *pool, double seconds, double bytes,
                                      double flops) {
    struct bench_result *result = bench_results_add(results);
    snprintf(result->what, sizeof result->what, "limit: %s", what);
    result->threads = kvmill_pool_threads(pool);
    result->seconds = seconds;
    result->bytes = bytes;
    result->flops = flops;
    return result;
}

/* Returns the bytes of a piece: at most a quarter of the memory, so that no processor's cache holds
   the next piece. */
static int64_t piece_bytes(int64_t bytes) {
    return bytes / 4 < 64 << 20 ? bytes / 4 : 64 << 20;
}

/* Returns piece k of the memory, which is divided into pieces of `size` bytes; wraps around. */
static char *piece(char *memory, int64_t bytes, size_t size, int64_t k) {
    return memory + k % (bytes / (int64_t)size) * (int64_t)size;
}

struct limit_reading {
    struct reading reading;
    char *memory;
    int64_t bytes;
};

static void run_limit_read(void *context, int64_t k) {
    struct limit_reading *each = context;
    each->reading.from = piece(each->memory, each->bytes, each->reading.bytes, k);
    limit_read(&each->reading);
}

struct limit_copy {
    struct copy copy;
    void (*function)(const struct copy *copy);
    int64_t bytes; /* of the source, and of the destination */
};

static void run_limit_copy(void *context, int64_t k) {
    const struct limit_copy *each = context;
    struct copy copy = each->copy;
    copy.to = piece(copy.to, each->bytes, copy.bytes, k);
    copy.from = piece((char *)copy.from, each->bytes, copy.bytes, k);
    each->function(&copy);
}

struct adder {
    kvmill_pool *pool;
    double count; /* multiply-adds of a call */
};

static void run_multiply_add(void *context, int64_t k) {
    struct adder *adder = context;
    (void)k;
    adder->count = limit_multiply_add(peak_of(NULL), adder->pool);
}

static double run_peak(struct adder *adder, kvmill_pool *pool, struct bench_results *results) {
    *adder = (struct adder){pool, 0};
    struct contender race = {.run = run_multiply_add, .context = adder, .pool = pool};
    bench_time(results, &race, 1, seconds_per_race / 4);
    return race.median;
}

static void race_limits(char *memory, int64_t bytes, kvmill_pool *pool,
                        struct bench_results *results) {
    int64_t size = piece_bytes(bytes);
    struct limit_reading readings[READINGS];
    struct limit_copy each[COPIES];
    struct contender race[READINGS + COPIES];
    for (int i = 0; i < READINGS; i++) {
        const struct kind_of_reading *kind = &kinds_of_reading[i];
        readings[i] = (struct limit_reading){
            {memory, (size_t)size, kind->streams, pool, kind->fetches, kind->narrow},
            memory,
            bytes};
        race[i] = bench_contender(kind->name, run_limit_read, &readings[i], pool);
    }
    for (int i = 0; i < COPIES; i++) {
        each[i] = (struct limit_copy){{memory, memory + bytes / 2, (size_t)size / 2, pool},
                                      kinds_of_copying[i].copy,
                                      bytes / 2};
        race[READINGS + i] =
            bench_contender(kinds_of_copying[i].name, run_limit_copy, &each[i], pool);
    }
    bench_time(results, race, READINGS + COPIES, seconds_per_race);
    for (int i = 0; i < READINGS + COPIES; i++) { /* a copy moves half as many bytes */
        char what[64];
        snprintf(what, sizeof what, "%s%s", i < READINGS ? "" : "copy, ", race[i].name);
        struct bench_result *result =
            add_limit(results, what, pool, race[i].median, (double)size, 0);
        result->spread = race[i].spread;
    }
    struct adder adder;
    double seconds = run_peak(&adder, pool, results);
    add_limit(results, "multiply-add, float32", pool, seconds, 0, 2 * adder.count);
}

bool bench_limits(int threads, int64_t bytes, struct bench_results *results, struct error *error) {
    char *memory = bench_memory_get(bytes);
    if (memory == NULL)
        return fail(error, EXIT_ENVIRONMENT, "not enough memory for %" PRId64 " MiB", bytes >> 20);
    memset(memory, 1, (size_t)bytes);
    bool done = true;
    for (int n = 1; done && n <= threads; n += threads > 1 ? threads - 1 : 1) {
        kvmill_pool *pool;
        done = bench_pool_open(n, &pool, error);
        if (done)
            race_limits(memory, bytes, pool, results);
        kvmill_pool_destroy(pool);
    }
    bench_memory_release(memory, bytes);
    return done;
}
