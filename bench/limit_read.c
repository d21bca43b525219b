/* SPDX-License-Identifier: Apache-2.0 */
#include <kvmill_kernel.h>

#include "limits.h"

enum { LINE = 64, MOST_STREAMS = 16, POWERS = 5, FETCHED = 1024 };

/* Reads `lines` cache lines from each stream; streams begin `step` bytes apart.  The result depends
   on all bytes, so that no load can be removed. */
typedef uint64_t read_function(const char *from, size_t lines, size_t step);

/* Reads a line of each stream in turn; each number of streams is a function with straight-line
   code.  AHEAD: the distance in bytes of prefetches; 0: no prefetches. */
#define DEFINE_READ(NAME, TARGET, VECTOR, STREAMS, AHEAD)                                          \
    TARGET static uint64_t NAME##_##STREAMS(const char *from, size_t lines, size_t step) {         \
        VECTOR sum = {0};                                                                          \
        uint64_t all = 0;                                                                          \
        for (size_t i = 0; i < lines * LINE; i += LINE)                                            \
            for (size_t s = 0; s < STREAMS; s++) {                                                 \
                const char *line = from + s * step + i;                                            \
                if (AHEAD > 0)                                                                     \
                    __builtin_prefetch(line + AHEAD);                                              \
                for (size_t j = 0; j < LINE; j += sizeof sum)                                      \
                    sum ^= *(const VECTOR *)(const void *)(line + j);                              \
            }                                                                                      \
        for (size_t j = 0; j < sizeof sum / sizeof all; j++)                                       \
            all ^= sum[j];                                                                         \
        return all;                                                                                \
    }
#define DEFINE_READS(NAME, TARGET, VECTOR, AHEAD)                                                  \
    DEFINE_READ(NAME, TARGET, VECTOR, 1, AHEAD)                                                    \
    DEFINE_READ(NAME, TARGET, VECTOR, 2, AHEAD)                                                    \
    DEFINE_READ(NAME, TARGET, VECTOR, 4, AHEAD)                                                    \
    DEFINE_READ(NAME, TARGET, VECTOR, 8, AHEAD)                                                    \
    DEFINE_READ(NAME, TARGET, VECTOR, 16, AHEAD)                                                   \
    static read_function *const NAME[POWERS] = {NAME##_1, NAME##_2, NAME##_4, NAME##_8, NAME##_16};
#define DEFINE_BOTH(NAME, TARGET, VECTOR)                                                          \
    DEFINE_READS(NAME, TARGET, VECTOR, 0)                                                          \
    DEFINE_READS(NAME##_ahead, TARGET, VECTOR, FETCHED)

DEFINE_BOTH(plain, , kvmill_word16)
#ifdef __x86_64__
DEFINE_BOTH(avx2, __attribute__((target("avx2"))), kvmill_word32)
DEFINE_BOTH(avx512, __attribute__((target("avx512f"))), kvmill_word64)

/* Returns the functions for the widest vectors of the CPU; reading->narrow: at most 32 bytes. */
static read_function *const *functions(const struct reading *reading) {
    if (__builtin_cpu_supports("avx512f") && !reading->narrow)
        return reading->fetches ? avx512_ahead : avx512;
    if (__builtin_cpu_supports("avx2"))
        return reading->fetches ? avx2_ahead : avx2;
    return reading->fetches ? plain_ahead : plain;
}
#else
static read_function *const *functions(const struct reading *reading) {
    return reading->fetches ? plain_ahead : plain;
}
#endif

/* Returns the exponent of the largest power of two that is at most `streams`. */
static int power_of(int streams) {
    int power = 0;
    while (2 << power <= streams && 2 << power <= MOST_STREAMS)
        power++;
    return power;
}

/* Thread i of n reads the i-th share; a few lines at the end are not read. */
static void read_share(void *context, int64_t index) {
    const struct reading *reading = context;
    int power = power_of(reading->streams);
    size_t threads = (size_t)kvmill_pool_threads(reading->pool);
    size_t share = reading->bytes / threads / LINE * LINE;
    size_t step = (share >> power) / LINE * LINE;
    volatile uint64_t sink =
        functions(reading)[power](reading->from + (size_t)index * share, step / LINE, step);
    (void)sink;
}

void limit_read(const struct reading *reading) {
    struct reading copy = *reading;
    kvmill_pool_for(copy.pool, kvmill_pool_threads(copy.pool), read_share, &copy);
}

const struct kind_of_reading kinds_of_reading[READINGS] = {
    {1, false, false, "read, 1 stream"},  {2, false, false, "read, 2 streams"},
    {4, false, false, "read, 4 streams"}, {8, false, false, "read, 8 streams"},
    {1, true, false, "prefetch, 1"},      {2, true, false, "prefetch, 2"},
    {4, true, false, "prefetch, 4"},      {8, true, false, "prefetch, 8"},
    {1, false, true, "read, 1, 32 B"},    {4, false, true, "read, 4, 32 B"},
    {1, true, true, "prefetch, 1, 32 B"}, {4, true, true, "prefetch, 4, 32 B"}};
