/* SPDX-License-Identifier: Apache-2.0 */
#include <kvmill_kernel.h>

#include "limits.h"

enum { LINE = 64, MOST_STREAMS = 16 };

/* `lines` of every stream; streams lie `step` bytes apart.  What is returned depends on all. */
typedef uint64_t read_function(const char *from, size_t lines, size_t step);

/* The streams in turn, a line of each: straight-line code for every number of them. */
#define DEFINE_READ(NAME, TARGET, STREAMS)                                                         \
    TARGET static uint64_t NAME##_##STREAMS(const char *from, size_t lines, size_t step) {         \
        kvmill_word64 sum = {0};                                                                   \
        for (size_t i = 0; i < lines * LINE; i += LINE)                                            \
            for (size_t s = 0; s < STREAMS; s++)                                                   \
                sum ^= *(const kvmill_word64 *)(const void *)(from + s * step + i);                \
        return sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];              \
    }
#define DEFINE_READS(NAME, TARGET)                                                                 \
    DEFINE_READ(NAME, TARGET, 1)                                                                   \
    DEFINE_READ(NAME, TARGET, 2)                                                                   \
    DEFINE_READ(NAME, TARGET, 4)                                                                   \
    DEFINE_READ(NAME, TARGET, 8)                                                                   \
    DEFINE_READ(NAME, TARGET, 16)                                                                  \
    static read_function *const NAME[] = {NAME##_1, NAME##_2, NAME##_4, NAME##_8, NAME##_16};

DEFINE_READS(plain, )
#ifdef __x86_64__
DEFINE_READS(wide, __attribute__((target("avx512f"))))
static read_function *const *functions(void) {
    return __builtin_cpu_supports("avx512f") ? wide : plain;
}
#else
static read_function *const *functions(void) {
    return plain;
}
#endif

/* The last power of two that is not more than the streams asked for. */
static int power_of(int streams) {
    int power = 0;
    while (2 << power <= streams && 2 << power <= MOST_STREAMS)
        power++;
    return power;
}

/* Thread i of n reads the i-th share; the few lines that do not divide are left out. */
static void read_share(void *context, int64_t index) {
    const struct reading *reading = context;
    int power = power_of(reading->streams);
    size_t threads = (size_t)pool_threads(reading->pool);
    size_t share = reading->bytes / threads / LINE * LINE;
    size_t step = (share >> power) / LINE * LINE;
    volatile uint64_t sink =
        functions()[power](reading->from + (size_t)index * share, step / LINE, step);
    (void)sink;
}

void limit_read(const struct reading *reading) {
    struct reading copy = *reading;
    pool_for(copy.pool, pool_threads(copy.pool), read_share, &copy);
}

const struct kind_of_reading kinds_of_reading[READINGS] = {
    {1, "read, 1 stream"}, {4, "read, 4 streams"}, {8, "read, 8 streams"}};
