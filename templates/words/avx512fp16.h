/* avx512fp16.h -- arithmetic on float16, in addition to avx512vnni.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_WORDS_AVX512FP16_H
#define KVMILL_WORDS_AVX512FP16_H

#include "avx512vnni.h"
#include "float16.h"

static inline vh avx512fp16_load_vh(const void *from) { return (vh)_mm512_loadu_si512(from); }
static inline void avx512fp16_store_vh(void *to, vh x) { _mm512_storeu_si512(to, (__m512i)x); }
static inline void avx512fp16_store_twice(uint32_t *to, vf x) {
    __m512i half = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    _mm512_storeu_si512(to, _mm512_or_si512(half, _mm512_slli_epi32(half, 16)));
}
static inline vh avx512fp16_broadcast_twice(uint32_t pair) { return (vh)_mm512_set1_epi32((int32_t)pair); }
static inline vh avx512fp16_join_halves(vf low, vf high) {
    __m512i x = _mm512_castsi256_si512(_mm512_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT));
    return (vh)_mm512_inserti64x4(x, _mm512_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT), 1);
}
static inline vh avx512fp16_load_vh_i8(const void *from) {
    return (vh)_mm512_cvtepi16_ph(_mm512_cvtepi8_epi16(_mm256_loadu_si256(from)));
}
/* 0x6400 + n is the float16 number 1024 + n; here n is the code plus 8. */
static inline vh avx512fp16_load_vh_i4(const void *from) {
    __m512i pair = _mm512_cvtepu8_epi32(_mm_loadu_si128(from));
    __m512i code = _mm512_ternarylogic_epi32(pair, _mm512_slli_epi32(pair, 12), _mm512_set1_epi32(0x000f000f), 0xa8);
    return (vh)_mm512_xor_si512(code, _mm512_set1_epi32(0x64086408)) - broadcast_twice(0x64086408);
}
static inline vh avx512fp16_spread_halves(const void *from, int group) {
    typedef uint16_t numbers __attribute__((vector_size(2 * HALVES)));
    const __m512i lane = _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13,
                                          12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i factor = _mm512_loadu_si512(from);
    return (vh)_mm512_permutexvar_epi16((__m512i)((numbers)lane / (uint16_t)group), factor);
}
static inline void avx512fp16_add_halves(float *to, float grow, vh x) {
    vf a = _mm512_cvtph_ps(_mm512_castsi512_si256((__m512i)x));
    vf b = _mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)x, 1));
    store_f32(to, load_f32(to) * grow + a);
    store_f32(to + LANES, load_f32(to + LANES) * grow + b);
}

#endif
