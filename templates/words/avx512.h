/* avx512.h -- 64-byte vectors.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_WORDS_AVX512_H
#define KVMILL_WORDS_AVX512_H

#include <immintrin.h>

#define LANE_COUNT 16
#define EACH_LANE(f)                                                                                                   \
    f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11), f(12), f(13), f(14), f(15)
#define IN_REGISTER "+v"

#include "vector.h"

/* ---- For x86.h ---- */

#define V(op) _mm512_##op
#define SI(op) _mm512_##op##_si512
#define HALF_SI(op) _mm256_##op##_si256
#define VECTOR __m512i
#define HALF_VECTOR __m256i
#define MEMORY kvmill_word64
#define LOAD_QUARTER(from) _mm_loadu_si128((const __m128i *)from)
#define BOTH_HALVES(P) _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)P))
#define LOW_THEN_HIGH(a, b) _mm512_mask_unpackhi_epi8(_mm512_unpacklo_epi8(a, b), 0xffffffff00000000, a, b)
#define EVEN_PIECES(a, b) (vi)_mm512_shuffle_i32x4((__m512i)a, (__m512i)b, 0x88)
#define ODD_PIECES(a, b) (vi)_mm512_shuffle_i32x4((__m512i)a, (__m512i)b, 0xdd)
#define EACH_VECTOR_16(f) f(0)
#define EACH_VECTOR_32(f) f(0) f(16)
#define equal_16 _mm512_cmpeq_epi16_mask
#define equal_32 _mm512_cmpeq_epi32_mask
#define signs_16 _mm512_movepi16_mask
#define signs_32 _mm512_movepi32_mask
#define low_bytes _mm512_cvtepi16_epi8
#define for_unpacking in_order
/* Each 16 bytes of b have 4 bytes of each of four vectors; the result has one vector after the other. */
static inline __m512i in_order(__m512i b) {
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), b);
}
/* Bfloat16 in the upper halves of words; NaN stays quiet. */
static inline __m512i brain_above(vf x) {
    __m512i u = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, odd), _mm512_set1_epi32(0x7fff));
    return _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), u, _mm512_set1_epi32(0x400000));
}

/* ---- Elements ---- */

static inline halves avx512_narrowed(vi b) { return (halves)_mm512_cvtepi32_epi16((__m512i)b); }
static inline void avx512_store_low_bytes(void *to, vi x) {
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8((__m512i)x));
}
static inline void avx512_store_some_words(int32_t *to, vi x, int count) {
    _mm512_mask_storeu_epi32(to, (__mmask16)((1U << count) - 1), (__m512i)x);
}

/* ---- Arithmetic ---- */

static inline vf avx512_broadcast_pair(const float *p) {
    return _mm512_mask_broadcastss_ps(_mm512_set1_ps(p[0]), 0xff00, _mm_load_ss(p + 1));
}
static inline vf avx512_nearest_whole(vf x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf avx512_times_power(vf x, vf n) {
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(n, broadcast(-127.f), _CMP_NLE_UQ), x, n);
}

/* ---- Reductions and masks ---- */

static inline float avx512_largest_of(vf x) { return _mm512_reduce_max_ps(x); }
static inline float avx512_sum_of(vf x) { return _mm512_reduce_add_ps(x); }
static inline int avx512_any_from(vi b, int32_t least) {
    return _mm512_cmpge_epi32_mask((__m512i)b, _mm512_set1_epi32(least));
}
static inline int avx512_is_any_negative(vi b) { return _mm512_movepi32_mask((__m512i)b) != 0; }
static inline uint32_t avx512_lanes_from(vi x, vi least) { return _mm512_cmpge_epi32_mask((__m512i)x, (__m512i)least); }
static inline vi avx512_add_lanes_from(vi sum, vi x, vi least) {
    return (vi)_mm512_mask_sub_epi32((__m512i)sum, _mm512_cmpge_epi32_mask((__m512i)x, (__m512i)least), (__m512i)sum,
                                     _mm512_set1_epi32(-1));
}
static inline vi avx512_pack_lanes(vi x, uint32_t lanes) {
    return (vi)_mm512_maskz_compress_epi32((__mmask16)lanes, (__m512i)x);
}

/* ---- Moving lanes ---- */

static inline vf avx512_load_quad(const float *from) { return _mm512_broadcast_f32x4(_mm_loadu_ps(from)); }
static inline vf avx512_load_quads(const void *a, const void *b, const void *c, const void *d) {
    __m512 x = _mm512_broadcast_f32x4(_mm_loadu_ps(a));
    x = _mm512_mask_broadcast_f32x4(x, 0x00f0, _mm_loadu_ps(b));
    x = _mm512_mask_broadcast_f32x4(x, 0x0f00, _mm_loadu_ps(c));
    return _mm512_mask_broadcast_f32x4(x, 0xf000, _mm_loadu_ps(d));
}
#define STORE_QUAD(Q) _mm_storeu_ps(to + Q * step, _mm512_extractf32x4_ps(x, Q));
static inline void avx512_store_quads(float *to, int64_t step, vf x) {
    STORE_QUAD(0) STORE_QUAD(1) STORE_QUAD(2) STORE_QUAD(3)
}
/* Only the last two steps move lanes across 16-byte pieces. */
#define UNPACK_FLOATS(I)                                                                                               \
    y[I * 2] = _mm512_unpacklo_ps(x[I * 2], x[I * 2 + 1]);                                                             \
    y[I * 2 + 1] = _mm512_unpackhi_ps(x[I * 2], x[I * 2 + 1]);
#define UNPACK_PAIRS(I, J)                                                                                             \
    x[I * 4 + J * 2] = (vf)_mm512_unpacklo_pd((__m512d)y[I * 4 + J], (__m512d)y[I * 4 + J + 2]);                       \
    x[I * 4 + J * 2 + 1] = (vf)_mm512_unpackhi_pd((__m512d)y[I * 4 + J], (__m512d)y[I * 4 + J + 2]);
#define SHUFFLE_QUADS(I, J)                                                                                            \
    y[I * 8 + J] = _mm512_shuffle_f32x4(x[I * 8 + J], x[I * 8 + J + 4], 0x88);                                         \
    y[I * 8 + J + 4] = _mm512_shuffle_f32x4(x[I * 8 + J], x[I * 8 + J + 4], 0xdd);
#define SHUFFLE_LAST(J)                                                                                                \
    x[J] = _mm512_shuffle_f32x4(y[J], y[J + 8], 0x88);                                                                 \
    x[J + 8] = _mm512_shuffle_f32x4(y[J], y[J + 8], 0xdd);
static inline void avx512_transpose(vf x[LANES]) {
    vf y[16];
    UNPACK_FLOATS(0) UNPACK_FLOATS(1) UNPACK_FLOATS(2) UNPACK_FLOATS(3)
    UNPACK_FLOATS(4) UNPACK_FLOATS(5) UNPACK_FLOATS(6) UNPACK_FLOATS(7)
    UNPACK_PAIRS(0, 0) UNPACK_PAIRS(0, 1) UNPACK_PAIRS(1, 0) UNPACK_PAIRS(1, 1)
    UNPACK_PAIRS(2, 0) UNPACK_PAIRS(2, 1) UNPACK_PAIRS(3, 0) UNPACK_PAIRS(3, 1)
    SHUFFLE_QUADS(0, 0) SHUFFLE_QUADS(0, 1) SHUFFLE_QUADS(0, 2) SHUFFLE_QUADS(0, 3)
    SHUFFLE_QUADS(1, 0) SHUFFLE_QUADS(1, 1) SHUFFLE_QUADS(1, 2) SHUFFLE_QUADS(1, 3)
    SHUFFLE_LAST(0) SHUFFLE_LAST(1) SHUFFLE_LAST(2) SHUFFLE_LAST(3)
    SHUFFLE_LAST(4) SHUFFLE_LAST(5) SHUFFLE_LAST(6) SHUFFLE_LAST(7)
}

/* ---- Codes ---- */

static inline vi avx512_load_pairs(const void *a, const void *b) {
    __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256(a)), y = _mm512_cvtepu16_epi32(_mm256_loadu_si256(b));
    return (vi)_mm512_or_si512(x, _mm512_slli_epi32(y, 16));
}
static inline vi avx512_packed_words(vi a, vi b) {
    return (vi)_mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtsepi32_epi16((__m512i)a)),
                                  _mm512_cvtsepi32_epi16((__m512i)b), 1);
}

/* Not again if x86.h is read alone. */
#ifndef KVMILL_WORDS_X86_H
#include "x86.h"
#endif

#endif
