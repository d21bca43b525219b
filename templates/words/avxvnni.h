/* avxvnni.h -- integer dot products in the encoding of AVX, in addition to avx2.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_WORDS_AVXVNNI_H
#define KVMILL_WORDS_AVXVNNI_H

#include "avx2.h"

static inline vi avxvnni_add_products(vi sum, vi a, vi b) {
    return (vi)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
}

#endif
