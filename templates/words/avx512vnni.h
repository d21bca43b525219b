/* avx512vnni.h -- integer dot products, in addition to avx512.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_WORDS_AVX512VNNI_H
#define KVMILL_WORDS_AVX512VNNI_H

#include "avx512.h"

static inline vi avx512vnni_add_products(vi sum, vi a, vi b) {
    return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
}
static inline vi avx512vnni_load_four(const void *a, const void *b, const void *c, const void *d) {
    __m512i x = _mm512_castsi128_si512(_mm_loadu_si128(a));
    x = _mm512_inserti32x4(x, _mm_loadu_si128(b), 1);
    x = _mm512_inserti32x4(x, _mm_loadu_si128(c), 2);
    return (vi)_mm512_inserti32x4(x, _mm_loadu_si128(d), 3);
}
static inline vi avx512vnni_side_by_side(vi x) {
    const __m512i lanes = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return turn_bytes((vi)_mm512_permutexvar_epi32(lanes, (__m512i)x));
}

#endif
