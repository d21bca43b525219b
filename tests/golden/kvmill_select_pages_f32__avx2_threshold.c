/* Select the best pages by their scores.
   Generated; to reproduce: kvmill explain --source kvmill_select_pages_f32__avx2_threshold */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED static inline __attribute__((always_inline, unused, target("avx2,fma,f16c")))

enum { LANES = 8 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef int32_t vi_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef int8_t bytes __attribute__((vector_size(LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINED vf
load(const float *from)
{
    return *(const vf_any *)from;
}

INLINED void
store(float *to, vf x)
{
    *(vf_any *)to = x;
}

INLINED vf
all(float x)
{
    return (vf){x, x, x, x, x, x, x, x};
}

/* Where the mask is all ones a, where it is 0 b.  */
INLINED vf
choose(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

INLINED vi
load_words(const int32_t *from)
{
    return *(const vi_any *)from;
}

INLINED void
store_words(int32_t *to, vi x)
{
    *(vi_any *)to = x;
}

INLINED vi
all_words(int32_t x)
{
    return (vi){x, x, x, x, x, x, x, x};
}

INLINED vf
magnitude(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

/* The second where one is NaN.  */
INLINED vf
larger(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

INLINED vf
fraction(vf x)
{
    x = _mm256_max_ps(_mm256_set1_ps(-150.f), x);
    return x - _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x * 2^n, x in [1/2, 2]; 0 where n < -125.  */
INLINED vf
scaled(vf x, vf n)
{
    __m256i exponent = _mm256_cvtps_epi32(n);
    __m256 power = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23));
    __m256 gone = _mm256_cmp_ps(n, _mm256_set1_ps(-125.f), _CMP_LT_OQ);
    return _mm256_andnot_ps(gone, _mm256_mul_ps(x, power));
}

INLINED vf
from_halves(halves h)
{
    return _mm256_cvtph_ps((__m128i)h);
}

INLINED halves
to_halves(vf x)
{
    return (halves)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
}

/* Polynomial of least relative error, 2e-9.  NaN stays NaN.  */
INLINED vf
power_of_2(vf x)
{
    vf f = fraction(x);
    vf y = all(0.0001534581201f);
    y = y * f + 0.001339993122f;
    y = y * f + 0.009618488957f;
    y = y * f + 0.05550328777f;
    y = y * f + 0.2402264689f;
    y = y * f + 0.6931472057f;
    y = y * f + 1.0f;
    return scaled(y, x - f);
}

/* Lanes outside [low, high) become -infinity.  */
INLINED vf
hide(vf x, int64_t low, int64_t high)
{
    const vi lane = {0, 1, 2, 3, 4, 5, 6, 7};
    int32_t from = (int32_t)(low < 0 ? 0 : low > LANES ? LANES : low);
    int32_t to = (int32_t)(high < 0 ? 0 : high > LANES ? LANES : high);
    return choose((lane >= from) & (lane < to), x, all(-__builtin_inff()));
}

INLINED float
largest_of(vf x)
{
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

INLINED float
sum_of(vf x)
{
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

INLINED vu
widened(halves h)
{
    return (vu)_mm256_cvtepu16_epi32((__m128i)h);
}

/* A byte in each lane; each of half as many bytes in two lanes.  */
INLINED vi
spread(const void *from)
{
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64(from));
}

INLINED vi
spread_twice(uint64_t bytes)
{
    __m128i x = _mm_cvtsi64_si128((long long)bytes);
    return (vi)_mm256_cvtepu8_epi32(_mm_unpacklo_epi8(x, x));
}

INLINED vf
load_f32(const void *from)
{
    return *(const vf_any *)from;
}

INLINED void
store_f32(void *to, vf x)
{
    *(vf_any *)to = x;
}

INLINED vf
load_f16(const void *from)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return from_halves(h);
}

INLINED void
store_f16(void *to, vf x)
{
    halves h = to_halves(x);
    memcpy(to, &h, sizeof h);
}

INLINED vf
load_bf16(const void *from)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return (vf)(widened(h) << 16);
}

INLINED void
store_bf16(void *to, vf x)
{
    vu bits = (vu)x, rounded = bits + 0x7fff + (bits >> 16 & 1);
    vu result = (vu)choose(x != x, (vf)(bits | 0x400000), (vf)rounded) >> 16;
    halves h = __builtin_convertvector(result, halves);
    memcpy(to, &h, sizeof h);
}

INLINED vf
load_i8(const void *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from)));
}

INLINED vf
load_some_f32(const void *from, size_t count)
{
    unsigned char whole[4 * LANES] = {0};
    memcpy(whole, from, count * 4);
    return load_f32(whole);
}

INLINED vf
load_some_f16(const void *from, size_t count)
{
    unsigned char whole[2 * LANES] = {0};
    memcpy(whole, from, count * 2);
    return load_f16(whole);
}

INLINED vf
load_some_bf16(const void *from, size_t count)
{
    unsigned char whole[2 * LANES] = {0};
    memcpy(whole, from, count * 2);
    return load_bf16(whole);
}

INLINED vf
load_some_i8(const void *from, size_t count)
{
    unsigned char whole[1 * LANES] = {0};
    memcpy(whole, from, count * 1);
    return load_i8(whole);
}

INLINED void
store_some_f32(void *to, vf x, size_t count)
{
    unsigned char whole[4 * LANES];
    store_f32(whole, x);
    memcpy(to, whole, count * 4);
}

INLINED void
store_some_f16(void *to, vf x, size_t count)
{
    unsigned char whole[2 * LANES];
    store_f16(whole, x);
    memcpy(to, whole, count * 2);
}

INLINED void
store_some_bf16(void *to, vf x, size_t count)
{
    unsigned char whole[2 * LANES];
    store_bf16(whole, x);
    memcpy(to, whole, count * 2);
}

enum { QUADS = LANES / 4 };

INLINED vf
repeat(const float *from)
{
    return _mm256_broadcast_ps((const __m128 *)from);
}

/* Quad q of the result holds the sums of the quads q of a, b, c and d.  */
INLINED vf
sum_quads(vf a, vf b, vf c, vf d)
{
    vf ab = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13) + __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
    vf cd = __builtin_shufflevector(c, d, 0, 8, 1, 9, 4, 12, 5, 13) + __builtin_shufflevector(c, d, 2, 10, 3, 11, 6, 14, 7, 15);
    return __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13) +
           __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
}

INLINED void
store_quads(float *to, int64_t step, vf x)
{
    _mm_storeu_ps(to, _mm256_castps256_ps128(x));
    _mm_storeu_ps(to + step, _mm256_extractf128_ps(x, 1));
}

INLINED void
transpose(vf x[LANES])
{
    vf y[8];
    y[0] = _mm256_unpacklo_ps(x[0], x[1]);
    y[1] = _mm256_unpackhi_ps(x[0], x[1]);
    y[2] = _mm256_unpacklo_ps(x[2], x[3]);
    y[3] = _mm256_unpackhi_ps(x[2], x[3]);
    y[4] = _mm256_unpacklo_ps(x[4], x[5]);
    y[5] = _mm256_unpackhi_ps(x[4], x[5]);
    y[6] = _mm256_unpacklo_ps(x[6], x[7]);
    y[7] = _mm256_unpackhi_ps(x[6], x[7]);
    x[0] = _mm256_shuffle_ps(y[0], y[2], 0x44);
    x[1] = _mm256_shuffle_ps(y[0], y[2], 0xee);
    x[2] = _mm256_shuffle_ps(y[1], y[3], 0x44);
    x[3] = _mm256_shuffle_ps(y[1], y[3], 0xee);
    x[4] = _mm256_shuffle_ps(y[4], y[6], 0x44);
    x[5] = _mm256_shuffle_ps(y[4], y[6], 0xee);
    x[6] = _mm256_shuffle_ps(y[5], y[7], 0x44);
    x[7] = _mm256_shuffle_ps(y[5], y[7], 0xee);
    y[0] = _mm256_permute2f128_ps(x[0], x[4], 0x20);
    y[4] = _mm256_permute2f128_ps(x[0], x[4], 0x31);
    y[1] = _mm256_permute2f128_ps(x[1], x[5], 0x20);
    y[5] = _mm256_permute2f128_ps(x[1], x[5], 0x31);
    y[2] = _mm256_permute2f128_ps(x[2], x[6], 0x20);
    y[6] = _mm256_permute2f128_ps(x[2], x[6], 0x31);
    y[3] = _mm256_permute2f128_ps(x[3], x[7], 0x20);
    y[7] = _mm256_permute2f128_ps(x[3], x[7], 0x31);
    for (int i = 0; i < 8; i++)
        x[i] = y[i];
}

/* Numbers of the lanes of a mask.  */
static const uint8_t lanes_of[256][8] = {
    { },
    { 0, },
    { 1, },
    { 0, 1, },
    { 2, },
    { 0, 2, },
    { 1, 2, },
    { 0, 1, 2, },
    { 3, },
    { 0, 3, },
    { 1, 3, },
    { 0, 1, 3, },
    { 2, 3, },
    { 0, 2, 3, },
    { 1, 2, 3, },
    { 0, 1, 2, 3, },
    { 4, },
    { 0, 4, },
    { 1, 4, },
    { 0, 1, 4, },
    { 2, 4, },
    { 0, 2, 4, },
    { 1, 2, 4, },
    { 0, 1, 2, 4, },
    { 3, 4, },
    { 0, 3, 4, },
    { 1, 3, 4, },
    { 0, 1, 3, 4, },
    { 2, 3, 4, },
    { 0, 2, 3, 4, },
    { 1, 2, 3, 4, },
    { 0, 1, 2, 3, 4, },
    { 5, },
    { 0, 5, },
    { 1, 5, },
    { 0, 1, 5, },
    { 2, 5, },
    { 0, 2, 5, },
    { 1, 2, 5, },
    { 0, 1, 2, 5, },
    { 3, 5, },
    { 0, 3, 5, },
    { 1, 3, 5, },
    { 0, 1, 3, 5, },
    { 2, 3, 5, },
    { 0, 2, 3, 5, },
    { 1, 2, 3, 5, },
    { 0, 1, 2, 3, 5, },
    { 4, 5, },
    { 0, 4, 5, },
    { 1, 4, 5, },
    { 0, 1, 4, 5, },
    { 2, 4, 5, },
    { 0, 2, 4, 5, },
    { 1, 2, 4, 5, },
    { 0, 1, 2, 4, 5, },
    { 3, 4, 5, },
    { 0, 3, 4, 5, },
    { 1, 3, 4, 5, },
    { 0, 1, 3, 4, 5, },
    { 2, 3, 4, 5, },
    { 0, 2, 3, 4, 5, },
    { 1, 2, 3, 4, 5, },
    { 0, 1, 2, 3, 4, 5, },
    { 6, },
    { 0, 6, },
    { 1, 6, },
    { 0, 1, 6, },
    { 2, 6, },
    { 0, 2, 6, },
    { 1, 2, 6, },
    { 0, 1, 2, 6, },
    { 3, 6, },
    { 0, 3, 6, },
    { 1, 3, 6, },
    { 0, 1, 3, 6, },
    { 2, 3, 6, },
    { 0, 2, 3, 6, },
    { 1, 2, 3, 6, },
    { 0, 1, 2, 3, 6, },
    { 4, 6, },
    { 0, 4, 6, },
    { 1, 4, 6, },
    { 0, 1, 4, 6, },
    { 2, 4, 6, },
    { 0, 2, 4, 6, },
    { 1, 2, 4, 6, },
    { 0, 1, 2, 4, 6, },
    { 3, 4, 6, },
    { 0, 3, 4, 6, },
    { 1, 3, 4, 6, },
    { 0, 1, 3, 4, 6, },
    { 2, 3, 4, 6, },
    { 0, 2, 3, 4, 6, },
    { 1, 2, 3, 4, 6, },
    { 0, 1, 2, 3, 4, 6, },
    { 5, 6, },
    { 0, 5, 6, },
    { 1, 5, 6, },
    { 0, 1, 5, 6, },
    { 2, 5, 6, },
    { 0, 2, 5, 6, },
    { 1, 2, 5, 6, },
    { 0, 1, 2, 5, 6, },
    { 3, 5, 6, },
    { 0, 3, 5, 6, },
    { 1, 3, 5, 6, },
    { 0, 1, 3, 5, 6, },
    { 2, 3, 5, 6, },
    { 0, 2, 3, 5, 6, },
    { 1, 2, 3, 5, 6, },
    { 0, 1, 2, 3, 5, 6, },
    { 4, 5, 6, },
    { 0, 4, 5, 6, },
    { 1, 4, 5, 6, },
    { 0, 1, 4, 5, 6, },
    { 2, 4, 5, 6, },
    { 0, 2, 4, 5, 6, },
    { 1, 2, 4, 5, 6, },
    { 0, 1, 2, 4, 5, 6, },
    { 3, 4, 5, 6, },
    { 0, 3, 4, 5, 6, },
    { 1, 3, 4, 5, 6, },
    { 0, 1, 3, 4, 5, 6, },
    { 2, 3, 4, 5, 6, },
    { 0, 2, 3, 4, 5, 6, },
    { 1, 2, 3, 4, 5, 6, },
    { 0, 1, 2, 3, 4, 5, 6, },
    { 7, },
    { 0, 7, },
    { 1, 7, },
    { 0, 1, 7, },
    { 2, 7, },
    { 0, 2, 7, },
    { 1, 2, 7, },
    { 0, 1, 2, 7, },
    { 3, 7, },
    { 0, 3, 7, },
    { 1, 3, 7, },
    { 0, 1, 3, 7, },
    { 2, 3, 7, },
    { 0, 2, 3, 7, },
    { 1, 2, 3, 7, },
    { 0, 1, 2, 3, 7, },
    { 4, 7, },
    { 0, 4, 7, },
    { 1, 4, 7, },
    { 0, 1, 4, 7, },
    { 2, 4, 7, },
    { 0, 2, 4, 7, },
    { 1, 2, 4, 7, },
    { 0, 1, 2, 4, 7, },
    { 3, 4, 7, },
    { 0, 3, 4, 7, },
    { 1, 3, 4, 7, },
    { 0, 1, 3, 4, 7, },
    { 2, 3, 4, 7, },
    { 0, 2, 3, 4, 7, },
    { 1, 2, 3, 4, 7, },
    { 0, 1, 2, 3, 4, 7, },
    { 5, 7, },
    { 0, 5, 7, },
    { 1, 5, 7, },
    { 0, 1, 5, 7, },
    { 2, 5, 7, },
    { 0, 2, 5, 7, },
    { 1, 2, 5, 7, },
    { 0, 1, 2, 5, 7, },
    { 3, 5, 7, },
    { 0, 3, 5, 7, },
    { 1, 3, 5, 7, },
    { 0, 1, 3, 5, 7, },
    { 2, 3, 5, 7, },
    { 0, 2, 3, 5, 7, },
    { 1, 2, 3, 5, 7, },
    { 0, 1, 2, 3, 5, 7, },
    { 4, 5, 7, },
    { 0, 4, 5, 7, },
    { 1, 4, 5, 7, },
    { 0, 1, 4, 5, 7, },
    { 2, 4, 5, 7, },
    { 0, 2, 4, 5, 7, },
    { 1, 2, 4, 5, 7, },
    { 0, 1, 2, 4, 5, 7, },
    { 3, 4, 5, 7, },
    { 0, 3, 4, 5, 7, },
    { 1, 3, 4, 5, 7, },
    { 0, 1, 3, 4, 5, 7, },
    { 2, 3, 4, 5, 7, },
    { 0, 2, 3, 4, 5, 7, },
    { 1, 2, 3, 4, 5, 7, },
    { 0, 1, 2, 3, 4, 5, 7, },
    { 6, 7, },
    { 0, 6, 7, },
    { 1, 6, 7, },
    { 0, 1, 6, 7, },
    { 2, 6, 7, },
    { 0, 2, 6, 7, },
    { 1, 2, 6, 7, },
    { 0, 1, 2, 6, 7, },
    { 3, 6, 7, },
    { 0, 3, 6, 7, },
    { 1, 3, 6, 7, },
    { 0, 1, 3, 6, 7, },
    { 2, 3, 6, 7, },
    { 0, 2, 3, 6, 7, },
    { 1, 2, 3, 6, 7, },
    { 0, 1, 2, 3, 6, 7, },
    { 4, 6, 7, },
    { 0, 4, 6, 7, },
    { 1, 4, 6, 7, },
    { 0, 1, 4, 6, 7, },
    { 2, 4, 6, 7, },
    { 0, 2, 4, 6, 7, },
    { 1, 2, 4, 6, 7, },
    { 0, 1, 2, 4, 6, 7, },
    { 3, 4, 6, 7, },
    { 0, 3, 4, 6, 7, },
    { 1, 3, 4, 6, 7, },
    { 0, 1, 3, 4, 6, 7, },
    { 2, 3, 4, 6, 7, },
    { 0, 2, 3, 4, 6, 7, },
    { 1, 2, 3, 4, 6, 7, },
    { 0, 1, 2, 3, 4, 6, 7, },
    { 5, 6, 7, },
    { 0, 5, 6, 7, },
    { 1, 5, 6, 7, },
    { 0, 1, 5, 6, 7, },
    { 2, 5, 6, 7, },
    { 0, 2, 5, 6, 7, },
    { 1, 2, 5, 6, 7, },
    { 0, 1, 2, 5, 6, 7, },
    { 3, 5, 6, 7, },
    { 0, 3, 5, 6, 7, },
    { 1, 3, 5, 6, 7, },
    { 0, 1, 3, 5, 6, 7, },
    { 2, 3, 5, 6, 7, },
    { 0, 2, 3, 5, 6, 7, },
    { 1, 2, 3, 5, 6, 7, },
    { 0, 1, 2, 3, 5, 6, 7, },
    { 4, 5, 6, 7, },
    { 0, 4, 5, 6, 7, },
    { 1, 4, 5, 6, 7, },
    { 0, 1, 4, 5, 6, 7, },
    { 2, 4, 5, 6, 7, },
    { 0, 2, 4, 5, 6, 7, },
    { 1, 2, 4, 5, 6, 7, },
    { 0, 1, 2, 4, 5, 6, 7, },
    { 3, 4, 5, 6, 7, },
    { 0, 3, 4, 5, 6, 7, },
    { 1, 3, 4, 5, 6, 7, },
    { 0, 1, 3, 4, 5, 6, 7, },
    { 2, 3, 4, 5, 6, 7, },
    { 0, 2, 3, 4, 5, 6, 7, },
    { 1, 2, 3, 4, 5, 6, 7, },
    { 0, 1, 2, 3, 4, 5, 6, 7, },
};

/* Lanes where x is not below `least`.  */
INLINED uint32_t
lanes_from(vi x, vi least)
{
    return 255 & ~(uint32_t)_mm256_movemask_ps((__m256)_mm256_cmpgt_epi32((__m256i)least, (__m256i)x));
}

/* One more in these lanes.  */
INLINED vi
counted(vi sum, vi x, vi least)
{
    return sum + 1 + (vi)_mm256_cmpgt_epi32((__m256i)least, (__m256i)x);
}

/* Those lanes, one behind the other.  */
INLINED vi
packed(vi x, uint32_t lanes)
{
    return (vi)_mm256_permutevar8x32_epi32((__m256i)x, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)lanes_of[lanes])));
}

INLINED void
store_some_words(int32_t *to, vi x, int count)
{
    const vi lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
    _mm256_maskstore_epi32(to, (__m256i)(lane < count), (__m256i)x);
}

enum {
    STRIP = 32, /* keys that are counted at a time */
    SHRINK = 2, /* keys are packed when so few can still be the threshold */
    SAMPLE = 128,
    GUESS = 4096, /* scores from which the threshold is guessed first */
};

/* Both zeros are equal, NaN is -infinity.  */
INLINED vi
keys_of(vf score)
{
    vi bits = (vi)(larger(score, all(-__builtin_inff())) + all(0.f));
    return bits ^ (bits >> 31 & 0x7fffffff);
}

/* LANES of them; behind the last score keys that are below all others.  */
INLINED vi
keys_at(const struct kvmill_select_pages *p, int64_t i)
{
    const vi lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
    if (i + LANES <= p->count)
        return keys_of(load(p->score + i));
    vi keys = keys_of(load_some_f32(p->score + i, (size_t)(p->count - i)));
    return (vi)choose(lane < (int32_t)(p->count - i), (vf)keys, (vf)all_words(INT32_MIN));
}

/* Keys of which one is the threshold: those in [low, high].  */
struct search {
    int32_t *keys;
    int64_t count;     /* in memory, */
    int64_t undecided; /* how many of these are in the range, */
    int64_t beyond;    /* and how many beyond it */
    int64_t above;     /* keys beyond it in memory or not */
    int32_t low, high;
};

/* Whole strips: behind the keys are some that are below all others.  */
INLINED void
pad(struct search *s)
{
    store_words(s->keys + s->count + 0, all_words(INT32_MIN));
    store_words(s->keys + s->count + 8, all_words(INT32_MIN));
    store_words(s->keys + s->count + 16, all_words(INT32_MIN));
    store_words(s->keys + s->count + 24, all_words(INT32_MIN));
}

INLINED int64_t
count_from(const struct search *s, int32_t least)
{
    vi sum = all_words(0), from = all_words(least);
    int64_t count = 0;
    for (int64_t i = 0; i < s->count; i += STRIP) {
        sum = counted(sum, load_words(s->keys + i + 0), from);
        sum = counted(sum, load_words(s->keys + i + 8), from);
        sum = counted(sum, load_words(s->keys + i + 16), from);
        sum = counted(sum, load_words(s->keys + i + 24), from);
    }
    for (int i = 0; i < LANES; i++)
        count += sum[i];
    return count;
}

/* Only keys of the range stay.  */
INLINED void
pack(struct search *s)
{
    vi low = all_words(s->low), high = all_words(s->high);
    int64_t kept = 0;
    for (int64_t i = 0; i < s->count; i += LANES) {
        vi x = load_words(s->keys + i);
        uint32_t lanes = lanes_from(x, low) & lanes_from(high, x);
        store_words(s->keys + kept, packed(x, lanes));
        kept += __builtin_popcount(lanes);
    }
    s->count = kept;
    s->beyond = 0;
    pad(s);
}

/* Half of the range.  */
INLINED void
halve(struct search *s, int64_t wanted)
{
    int32_t middle = (int32_t)((uint32_t)s->low + ((uint32_t)s->high - (uint32_t)s->low) / 2 + 1);
    int64_t upper = count_from(s, middle) - s->beyond;
    if (s->above + upper >= wanted) {
        s->low = middle;
        s->undecided = upper;
    } else {
        s->high = middle - 1;
        s->above += upper;
        s->beyond += upper;
        s->undecided -= upper;
    }
    if (s->undecided * SHRINK <= s->count)
        pack(s);
}

/* Until all from `low` on are wanted, or `low` is the key of the last one.  */
__attribute__((target("avx2,fma,f16c")))
static void
settle(struct search *s, int64_t wanted)
{
    while (s->low < s->high && s->above + s->undecided > wanted)
        halve(s, wanted);
}

INLINED struct search
search_of(int32_t *keys, int64_t count)
{
    struct search s = { keys, count, count, 0, 0, INT32_MIN + 1, INT32_MAX };
    pad(&s);
    return s;
}

INLINED struct search
search_all(const struct kvmill_select_pages *p)
{
    for (int64_t i = 0; i < p->count; i += LANES)
        store_words(p->keys + i, keys_at(p, i));
    return search_of(p->keys, p->count);
}

/* Of a sample of the keys, the one from which on there are `rank`.  */
INLINED int32_t
sampled_key(const struct search *s, int64_t rank)
{
    int32_t keys[SAMPLE + STRIP];
    for (int64_t i = 0; i < SAMPLE; i++)
        keys[i] = s->keys[i * s->count / SAMPLE];
    struct search sample = search_of(keys, SAMPLE);
    settle(&sample, rank);
    return sample.low;
}

/* Keep what is near to the threshold of a sample; whether the threshold is there.  */
__attribute__((target("avx2,fma,f16c")))
static int
guess(struct search *s, int64_t wanted)
{
    int64_t rank = wanted * SAMPLE / s->count, spread = 2;
    while (spread * spread < 6 * rank)
        spread++;
    if (rank + spread < SAMPLE)
        s->low = sampled_key(s, rank + spread);
    if (rank > spread)
        s->high = sampled_key(s, rank - spread) - 1;
    if (s->high < s->low)
        s->high = s->low;
    if (s->high < INT32_MAX)
        s->above = count_from(s, s->high + 1);
    pack(s);
    s->undecided = s->count;
    return s->above < wanted && s->above + s->undecided >= wanted;
}

__attribute__((target("avx2,fma,f16c")))
static struct search
find_threshold(const struct kvmill_select_pages *p)
{
    struct search s = search_all(p);
    if (p->count >= GUESS && p->wanted < p->count && !guess(&s, p->wanted))
        s = search_all(p);
    settle(&s, p->wanted);
    return s;
}

/* Keys from the threshold on; of those that are equal to it the first, if there are too many.  */
__attribute__((target("avx2,fma,f16c")))
static void
list_from(const struct kvmill_select_pages *p, int32_t threshold, int64_t equal)
{
    vi least = all_words(threshold), place = { 0, 1, 2, 3, 4, 5, 6, 7 };
    int32_t *list = p->list;
    for (int64_t i = 0; i < p->count; i += LANES, place += LANES) {
        vi x = keys_at(p, i);
        uint32_t taken = lanes_from(x, least), same = taken & lanes_from(least, x);
        while (__builtin_popcount(same) > equal) {
            uint32_t last = 1U << (31 - __builtin_clz(same));
            same -= last;
            taken -= last;
        }
        equal -= __builtin_popcount(same);
        store_some_words(list, packed(place, taken), __builtin_popcount(taken));
        list += __builtin_popcount(taken);
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_select_pages *p = problem;
    if (first == last || p->wanted == 0)
        return;
    struct search s = find_threshold(p);
    list_from(p, s.low, p->wanted - s.above);
}

static const struct kvmill_select_shape shape = {
    .score = KVMILL_F32,
};

const struct kvmill_kernel kvmill_select_pages_f32__avx2_threshold = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_SELECT_PAGES,
    .symbol = "kvmill_select_pages_f32__avx2_threshold",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 0,
    .run = run,
};
