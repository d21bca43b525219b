/* avx2.h -- 32-byte vectors.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_WORDS_AVX2_H
#define KVMILL_WORDS_AVX2_H

#include <immintrin.h>

#define LANE_COUNT 8
#define EACH_LANE(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)
#define IN_REGISTER "+x"

#include "vector.h"

/* ---- For x86.h ---- */

#define V(op) _mm256_##op
#define SI(op) _mm256_##op##_si256
#define HALF_SI(op) _mm_##op##_si128
#define VECTOR __m256i
#define HALF_VECTOR __m128i
#define MEMORY kvmill_word32
#define LOAD_QUARTER(from) _mm_loadl_epi64((const __m128i *)from)
#define BOTH_HALVES(P) _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)P))
#define LOW_THEN_HIGH(a, b) _mm256_blend_epi32(_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b), 0xf0)
#define EVEN_PIECES(a, b) (vi)_mm256_permute2x128_si256((__m256i)a, (__m256i)b, 0x20)
#define ODD_PIECES(a, b) (vi)_mm256_permute2x128_si256((__m256i)a, (__m256i)b, 0x31)
#define EACH_VECTOR_16(f) f(0) f(16)
#define EACH_VECTOR_32(f) f(0) f(8) f(16) f(24)
#define equal_16(a, b) signs_16(_mm256_cmpeq_epi16(a, b))
#define equal_32(a, b) _mm256_movemask_ps((vf)_mm256_cmpeq_epi32(a, b))
#define signs_32(x) _mm256_movemask_ps((vf)x)
static inline int signs_16(__m256i x) {
    return _mm_movemask_epi8(_mm_packs_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}
/* Each 16 bytes of b have 4 bytes of each of four vectors; the result has one vector after the other. */
static inline __m256i in_order(__m256i b) {
    return _mm256_permutevar8x32_epi32(b, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
static inline __m256i for_unpacking(__m256i b) {
    return _mm256_permutevar8x32_epi32(b, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}
/* The low byte of each 16 bits. */
static inline __m128i low_bytes(__m256i b) {
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi16(b, b), 0x08));
}
/* Bfloat16 in the upper halves of words; NaN stays quiet. */
static inline __m256i brain_above(vf x) {
    __m256i u = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, odd), _mm256_set1_epi32(0x7fff));
    __m256 quiet = _mm256_castsi256_ps(_mm256_or_si256(u, _mm256_set1_epi32(0x400000)));
    return _mm256_castps_si256(
        _mm256_blendv_ps(_mm256_castsi256_ps(rounded), quiet, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

/* ---- Elements ---- */

static inline halves avx2_narrowed(vi b) {
    return (halves)_mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)b, (__m256i)b), 0x08));
}
static inline void avx2_store_low_bytes(void *to, vi x) {
    __m128i w = (__m128i)narrowed(x & 0xff);
    _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(w, w));
}
static inline void avx2_store_some_words(int32_t *to, vi x, int count) {
    const vi lane = {EACH_LANE(NUMBER)};
    _mm256_maskstore_epi32(to, (__m256i)(lane < count), (__m256i)x);
}

/* ---- Arithmetic ---- */

static inline vf avx2_where_negative(vf x, vf a, vf b) { return _mm256_blendv_ps(b, a, x); }
static inline vf avx2_nearest_whole(vf x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf avx2_times_power(vf x, vf n) {
    vu exponent = (vu)_mm256_cvtps_epi32(n); /* NaN gives 2^31, which the shift removes */
    return (vf)((vu)x + (exponent << 23));
}

/* ---- Reductions and masks ---- */

static inline float avx2_largest_of(vf x) {
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}
static inline float avx2_sum_of(vf x) {
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}
static inline int avx2_any_from(vi b, int32_t least) {
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32((__m256i)b, _mm256_set1_epi32(least - 1)));
}
static inline int avx2_is_any_negative(vi b) { return _mm256_movemask_ps((__m256)b) != 0; }
static inline uint32_t avx2_lanes_from(vi x, vi least) {
    return 255 & ~(uint32_t)_mm256_movemask_ps((__m256)_mm256_cmpgt_epi32((__m256i)least, (__m256i)x));
}
static inline vi avx2_add_lanes_from(vi sum, vi x, vi least) {
    return sum + 1 + (vi)_mm256_cmpgt_epi32((__m256i)least, (__m256i)x);
}
/* Row m of the table has the numbers of the bits that are set in m. */
#define SUBSETS_OF_0(...) {__VA_ARGS__},
#define SUBSETS_OF_1(...) SUBSETS_OF_0(__VA_ARGS__) SUBSETS_OF_0(0, __VA_ARGS__)
#define SUBSETS_OF_2(...) SUBSETS_OF_1(__VA_ARGS__) SUBSETS_OF_1(1, __VA_ARGS__)
#define SUBSETS_OF_3(...) SUBSETS_OF_2(__VA_ARGS__) SUBSETS_OF_2(2, __VA_ARGS__)
#define SUBSETS_OF_4(...) SUBSETS_OF_3(__VA_ARGS__) SUBSETS_OF_3(3, __VA_ARGS__)
#define SUBSETS_OF_5(...) SUBSETS_OF_4(__VA_ARGS__) SUBSETS_OF_4(4, __VA_ARGS__)
#define SUBSETS_OF_6(...) SUBSETS_OF_5(__VA_ARGS__) SUBSETS_OF_5(5, __VA_ARGS__)
#define SUBSETS_OF_7(...) SUBSETS_OF_6(__VA_ARGS__) SUBSETS_OF_6(6, __VA_ARGS__)
#define SUBSETS_OF_8(...) SUBSETS_OF_7(__VA_ARGS__) SUBSETS_OF_7(7, __VA_ARGS__)
static const uint8_t numbers_of_lanes[256][8] = {SUBSETS_OF_8()};
static inline vi avx2_pack_lanes(vi x, uint32_t lanes) {
    return (vi)_mm256_permutevar8x32_epi32(
        (__m256i)x, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)numbers_of_lanes[lanes])));
}

/* ---- Moving lanes ---- */

static inline vf avx2_load_quad(const float *from) { return _mm256_broadcast_ps((const __m128 *)from); }
/* Loads that broadcast do not use the shuffle port, as an insertion would. */
static inline vf avx2_load_quads(const void *a, const void *b, const void *c, const void *d) {
    (void)c, (void)d;
    return _mm256_blend_ps(_mm256_broadcast_ps((const __m128 *)a), _mm256_broadcast_ps((const __m128 *)b), 0xf0);
}
static inline void avx2_store_quads(float *to, int64_t step, vf x) {
    _mm_storeu_ps(to, _mm256_castps256_ps128(x));
    _mm_storeu_ps(to + step, _mm256_extractf128_ps(x, 1));
}
#define UNPACK_FLOATS(I)                                                                                               \
    y[I * 2] = _mm256_unpacklo_ps(x[I * 2], x[I * 2 + 1]);                                                             \
    y[I * 2 + 1] = _mm256_unpackhi_ps(x[I * 2], x[I * 2 + 1]);
#define SHUFFLE_PAIRS(I, J)                                                                                            \
    x[I * 4 + J * 2] = _mm256_shuffle_ps(y[I * 4 + J], y[I * 4 + J + 2], 0x44);                                        \
    x[I * 4 + J * 2 + 1] = _mm256_shuffle_ps(y[I * 4 + J], y[I * 4 + J + 2], 0xee);
#define PERMUTE_HALVES(I)                                                                                              \
    y[I] = _mm256_permute2f128_ps(x[I], x[I + 4], 0x20);                                                               \
    y[I + 4] = _mm256_permute2f128_ps(x[I], x[I + 4], 0x31);
static inline void avx2_transpose(vf x[LANES]) {
    vf y[8];
    UNPACK_FLOATS(0) UNPACK_FLOATS(1) UNPACK_FLOATS(2) UNPACK_FLOATS(3)
    SHUFFLE_PAIRS(0, 0) SHUFFLE_PAIRS(0, 1) SHUFFLE_PAIRS(1, 0) SHUFFLE_PAIRS(1, 1)
    PERMUTE_HALVES(0) PERMUTE_HALVES(1) PERMUTE_HALVES(2) PERMUTE_HALVES(3)
    for (int i = 0; i < 8; i++)
        x[i] = y[i];
}

/* ---- Codes ---- */

static inline vi avx2_load_pairs(const void *a, const void *b) {
    __m256i x = _mm256_broadcastsi128_si256(_mm_loadu_si128(a)), y = _mm256_broadcastsi128_si256(_mm_loadu_si128(b));
    return (vi)_mm256_blend_epi32(_mm256_unpacklo_epi16(x, y), _mm256_unpackhi_epi16(x, y), 0xf0);
}
static inline vi avx2_packed_words(vi a, vi b) {
    return (vi)_mm256_permute4x64_epi64(_mm256_packs_epi32((__m256i)a, (__m256i)b), 0xd8);
}
/* Loads that broadcast, and blends, do not use the shuffle port. */
#define EIGHT_BYTES(P) _mm256_set1_epi64x((long long)*(const kvmill_word8 *)P)
static inline vi avx2_load_four(const void *a, const void *b, const void *c, const void *d) {
    __m256i x = _mm256_blend_epi32(EIGHT_BYTES(a), EIGHT_BYTES(b), 0x0c);
    return (vi)_mm256_blend_epi32(x, _mm256_blend_epi32(EIGHT_BYTES(c), EIGHT_BYTES(d), 0xc0), 0xf0);
}
static inline vi avx2_side_by_side(vi x) {
    const __m256i lanes = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    return turn_bytes((vi)_mm256_permutevar8x32_epi32((__m256i)x, lanes));
}

/* Not again if x86.h is read alone. */
#ifndef KVMILL_WORDS_X86_H
#include "x86.h"
#endif

#endif
