/* The limits that `kvmill bench` compares kernels with: no loop here may be faster than they are,
   by more than noise.

   SPDX-License-Identifier: Apache-2.0 */
#include "../base/timer.h"
#include "../bench/limits.h"
#include "program.h"

#ifdef __x86_64__
#include <emmintrin.h>
#endif

enum { LOOPS = 8, PIECES = 4, ROUNDS = 6, TRIES = 5 };
static const size_t piece = 64 << 20, half = 32 << 20;

struct yard {
    char *memory; /* pieces, of which the caches have none when its turn comes again */
    kvmill_pool *pool;
    int turns;
    enum peak peak; /* of loops that multiply and add */
};

/* Runs loop i of this file, or of the bench, and returns its seconds. */
typedef double run_function(struct yard *yard, int i);

static double smaller(double a, double b) {
    return a < b ? a : b;
}

static char *next_piece(struct yard *yard) {
    return yard->memory + (size_t)(yard->turns++ % PIECES) * piece;
}

/* Returns the fastest loop's time relative to the limit's, which take turns. */
static double share_of_best(struct yard *yard, run_function *loop, run_function *limit,
                            int limits) {
    double loops = 1e9, best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LOOPS; i++)
            loops = smaller(loops, loop(yard, i));
        for (int i = 0; i < limits; i++)
            best = smaller(best, limit(yard, i));
    }
    return loops / best;
}

static void judge(const char *what, struct yard *yard, run_function *loop, run_function *limit,
                  int limits) {
    double best = 0;
    for (int i = 0; i < TRIES && best < 0.95; i++) {
        double share = share_of_best(yard, loop, limit, limits);
        best = share > best ? share : best;
    }
    ok(best >= 0.95, "%s is at least 0.95 of the best of eight loops", what);
    diag("%.3f", best);
}

static bool open_yard(struct yard *yard) {
    struct error error;
    if (getenv("KVMILL_TEST_SLOW") != NULL) {
        skip_test("limits: too slow here");
        return false;
    }
    *yard = (struct yard){.memory = aligned_alloc(4096, PIECES * piece)};
    must(yard->memory != NULL && bench_pool_open(1, &yard->pool, &error), "no memory");
    memset(yard->memory, 1, PIECES * piece);
    return true;
}

static void close_yard(struct yard *yard) {
    kvmill_pool_destroy(yard->pool);
    free(yard->memory);
}

/* ---- Reading ---- */

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

static double reading_loop(struct yard *yard, int i) {
    const char *from = next_piece(yard);
    double start = timer_now();
    volatile uint64_t sink = sum_up(from, (size_t)1 << i % 4, i < 4 ? 0 : 1024);
    (void)sink;
    return timer_now() - start;
}

static double reading_limit(struct yard *yard, int i) {
    const struct kind_of_reading *k = &kinds_of_reading[i];
    const char *from = next_piece(yard);
    double start = timer_now();
    limit_read(&(struct reading){from, piece, k->streams, yard->pool, k->fetches, k->narrow});
    return timer_now() - start;
}

TEST(reading) {
    struct yard yard;
    if (!open_yard(&yard))
        return;
    judge("reading", &yard, reading_loop, reading_limit, READINGS);
    close_yard(&yard);
}

/* ---- Copying ---- */

static void copy_line(two_words *to, const two_words *from, bool around) {
    for (int i = 0; i < 4; i++) {
#ifdef __x86_64__
        if (around) {
            _mm_stream_si128((__m128i *)&to[i], (__m128i)from[i]);
            continue;
        }
#endif
        (void)around;
        to[i] = from[i];
    }
}

/* Copies lines of `streams` parts in turn; `around` the caches, if the CPU can. */
static void copy_in_turn(char *to, const char *from, size_t streams, bool around) {
    size_t part = half / streams;
    for (size_t i = 0; i < part; i += 64)
        for (size_t s = 0; s < streams; s++)
            copy_line((void *)(to + s * part + i), (const void *)(from + s * part + i), around);
}

static double copying_loop(struct yard *yard, int i) {
    char *from = next_piece(yard);
    double start = timer_now();
    copy_in_turn(from + half, from, (size_t)1 << i % 4, i >= 4);
    return timer_now() - start;
}

static double copying_limit(struct yard *yard, int i) {
    char *from = next_piece(yard);
    double start = timer_now();
    kinds_of_copying[i].copy(&(struct copy){from + half, from, half, yard->pool});
    return timer_now() - start;
}

TEST(copying) {
    struct yard yard;
    if (!open_yard(&yard))
        return;
    judge("copying", &yard, copying_loop, copying_limit, COPIES);
    close_yard(&yard);
}

/* ---- Multiplying and adding ---- */

enum { STEPS = 20000 };

#ifdef __x86_64__
#define KEPT(SUM)       __asm__("" : "+v"(SUM)); /* in a register, and unknown to the compiler */
#define WITH(EXTENSION) __attribute__((target(EXTENSION)))
#else
#define KEPT(SUM)
#define WITH(EXTENSION)
#endif

#define SUMS_2(DO)  DO(0) DO(1)
#define SUMS_4(DO)  SUMS_2(DO) DO(2) DO(3)
#define SUMS_6(DO)  SUMS_4(DO) DO(4) DO(5)
#define SUMS_8(DO)  SUMS_6(DO) DO(6) DO(7)
#define SUMS_10(DO) SUMS_8(DO) DO(8) DO(9)
#define SUMS_12(DO) SUMS_10(DO) DO(10) DO(11)
#define SUMS_14(DO) SUMS_12(DO) DO(12) DO(13)
#define SUMS_16(DO) SUMS_14(DO) DO(14) DO(15)

#define BEGIN(I) __auto_type sum##I = addend + (float)I;
#define ADD(I)                                                                                     \
    sum##I = sum##I * factor + addend;                                                             \
    KEPT(sum##I)
#define COLLECT(I) all += sum##I;

/* Multiplies and adds to N sums: few sums wait for each other, many do not fit in registers. */
#define DEFINE_ADDING(NAME, TARGET, VECTOR, N)                                                     \
    TARGET static float NAME##_##N(void) {                                                         \
        VECTOR factor = (VECTOR){0} + 0.999f, addend = (VECTOR){0} + 0.001f, all = addend;         \
        SUMS_##N(BEGIN) for (int step = 0; step < STEPS;                                           \
                             step++){SUMS_##N(ADD)} SUMS_##N(COLLECT) return all[0];               \
    }
#define DEFINE_ADDINGS(NAME, TARGET, VECTOR)                                                       \
    DEFINE_ADDING(NAME, TARGET, VECTOR, 2)                                                         \
    DEFINE_ADDING(NAME, TARGET, VECTOR, 4)                                                         \
    DEFINE_ADDING(NAME, TARGET, VECTOR, 6)                                                         \
    DEFINE_ADDING(NAME, TARGET, VECTOR, 8)                                                         \
    DEFINE_ADDING(NAME, TARGET, VECTOR, 10)                                                        \
    DEFINE_ADDING(NAME, TARGET, VECTOR, 12)                                                        \
    DEFINE_ADDING(NAME, TARGET, VECTOR, 14)                                                        \
    DEFINE_ADDING(NAME, TARGET, VECTOR, 16)                                                        \
    static float (*const NAME[LOOPS])(void) = {NAME##_2,  NAME##_4,  NAME##_6,  NAME##_8,          \
                                               NAME##_10, NAME##_12, NAME##_14, NAME##_16};

typedef float four __attribute__((vector_size(16)));
typedef float eight __attribute__((vector_size(32)));
typedef float sixteen __attribute__((vector_size(64)));
DEFINE_ADDINGS(by_4, , four)
#ifdef __x86_64__
DEFINE_ADDINGS(by_8, WITH("avx2,fma"), eight)
DEFINE_ADDINGS(by_16, WITH("avx512f"), sixteen)
#else
#define by_8  by_4
#define by_16 by_4
#endif

static const struct {
    float (*const *loops)(void);
    int lanes;
} widths[] = {[PEAK_PLAIN] = {by_4, 4}, [PEAK_AVX2] = {by_8, 8}, [PEAK_AVX512] = {by_16, 16}};

/* Returns the seconds for one multiply-add. */
static double adding_loop(struct yard *yard, int i) {
    double start = timer_now();
    volatile float sink = widths[yard->peak].loops[i]();
    (void)sink;
    return (timer_now() - start) / (STEPS * 2.0 * (i + 1) * widths[yard->peak].lanes);
}

static double adding_limit(struct yard *yard, int i) {
    double start = timer_now();
    (void)i;
    double count = limit_multiply_add(yard->peak, yard->pool);
    return (timer_now() - start) / count;
}

TEST(multiplying) {
    static const char *const names[] = {"multiplying and adding, plain", "the same, AVX2",
                                        "the same, AVX-512"};
    struct yard yard;
    if (!open_yard(&yard))
        return;
    for (yard.peak = PEAK_PLAIN; yard.peak <= peak_of(NULL); yard.peak++)
        judge(names[yard.peak], &yard, adding_loop, adding_limit, 1);
    close_yard(&yard);
}

/* ---- The clock ---- */

TEST(clock) {
    double hertz = limit_clock(), again = limit_clock();
    ok(hertz > 1e8 && hertz < 1e10, "the clock is one of a processor");
    ok(hertz < 1.5 * again && again < 1.5 * hertz, "  and twice the same, or nearly");
}
