/* As many sums as hide the latency of an addition, all of them in registers.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../base/timer.h"
#include "../defs/isa.h"
#include "limits.h"

enum { ROUNDS = 20000, SUMS = 14, MOST_LANES = 16 };

typedef void peak_function(float *out);

static const float factor = 0.999f, addend = 0.001f;

/* Variables, because an array of sums would be kept in memory. */
#define EACH_SUM(DO)                                                                               \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13)
#define BEGIN_SUM(I) sum##I = SET((float)I);
#define ADD_TO_SUM(I)                                                                              \
    sum##I = MULTIPLY_ADD(sum##I, a, b);                                                           \
    KEEP(sum##I);
#define COLLECT_SUM(I) all = MULTIPLY_ADD(sum##I, a, all);
#define DEFINE_PEAK(NAME, TARGET, VECTOR)                                                          \
    TARGET static void NAME(float *out) {                                                          \
        VECTOR sum0, sum1, sum2, sum3, sum4, sum5, sum6, sum7, sum8, sum9, sum10, sum11, sum12,    \
            sum13;                                                                                 \
        VECTOR a = SET(factor), b = SET(addend), all = b;                                          \
        EACH_SUM(BEGIN_SUM)                                                                        \
        for (int round = 0; round < ROUNDS; round++) {                                             \
            EACH_SUM(ADD_TO_SUM)                                                                   \
        }                                                                                          \
        EACH_SUM(COLLECT_SUM)                                                                      \
        memcpy(out, &all, sizeof all);                                                             \
    }

/* ---- Any CPU; KEEP: keeps the sum in a register, and hides its value from the compiler ---- */

#ifdef __x86_64__
#define KEEP(SUM) __asm__("" : "+x"(SUM))
#elif defined __aarch64__
#define KEEP(SUM) __asm__("" : "+w"(SUM))
#else
#define KEEP(SUM) (void)0
#endif
#define SET(VALUE)            ((four){VALUE, VALUE, VALUE, VALUE})
#define MULTIPLY_ADD(X, Y, Z) ((X) * (Y) + (Z))
typedef float four __attribute__((vector_size(16)));
DEFINE_PEAK(peak_plain, , four)
#undef SET
#undef MULTIPLY_ADD

/* ---- x86-64 ---- */

#ifdef __x86_64__
#include <immintrin.h>

#define SET          _mm256_set1_ps
#define MULTIPLY_ADD _mm256_fmadd_ps
DEFINE_PEAK(peak_avx2, __attribute__((target("avx2,fma"))), __m256)
#undef SET
#undef MULTIPLY_ADD
#undef KEEP

#define KEEP(SUM)    __asm__("" : "+v"(SUM))
#define SET          _mm512_set1_ps
#define MULTIPLY_ADD _mm512_fmadd_ps
DEFINE_PEAK(peak_avx512, __attribute__((target("avx512f"))), __m512)

static enum peak widest(void) {
    if (__builtin_cpu_supports("avx512f"))
        return PEAK_AVX512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? PEAK_AVX2 : PEAK_PLAIN;
}
#else
#define peak_avx512 peak_plain
#define peak_avx2   peak_plain

static enum peak widest(void) {
    return PEAK_PLAIN;
}
#endif

/* ---- The clock ---- */

enum { CHAIN = 40000, CHAINS = 16 };

/* A chain of additions: every CPU adds two registers in one cycle. */
static void add_in_turn(void) {
    uint64_t x = 1, y = 3;
    for (int i = 0; i < CHAIN; i += 8) {
#define ADD                                                                                        \
    x += y;                                                                                        \
    __asm__ volatile("" : "+r"(x), "+r"(y));
        ADD ADD ADD ADD ADD ADD ADD ADD
#undef ADD
    }
}

double limit_clock(void) {
    double best = 0;
    for (int i = 0; i < CHAINS; i++) {
        double start = timer_now();
        add_in_turn();
        double hertz = CHAIN / (timer_now() - start);
        best = hertz > best ? hertz : best;
    }
    return best;
}

/* ---- By name ---- */

static enum peak peak_named(const char *isa) {
    const struct isa *row = isa ? kvmill_isa_by_name(isa, strlen(isa)) : NULL;
    int64_t lanes = isa == NULL ? 16 : row == NULL ? 4 : row->lanes;
    return lanes == 16 ? PEAK_AVX512 : lanes == 8 ? PEAK_AVX2 : PEAK_PLAIN;
}

enum peak peak_of(const char *isa) {
    enum peak named = peak_named(isa), most = widest();
    return named < most ? named : most;
}

/* ---- By all threads ---- */

static const struct {
    peak_function *function;
    int lanes;
} peaks[] = {[PEAK_PLAIN] = {peak_plain, 4},
             [PEAK_AVX2] = {peak_avx2, 8},
             [PEAK_AVX512] = {peak_avx512, 16}};

static void multiply_add(void *context, int64_t index) {
    const enum peak *peak = context;
    float out[MOST_LANES];
    (void)index;
    peaks[*peak].function(out);
    volatile float sink = out[0];
    (void)sink;
}

double limit_multiply_add(enum peak peak, kvmill_pool *pool) {
    int threads = kvmill_pool_threads(pool);
    kvmill_pool_for(pool, threads, multiply_add, &peak);
    return (double)ROUNDS * SUMS * peaks[peak].lanes * threads;
}
