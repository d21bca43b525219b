/* vector4.h -- the same for vectors of four lanes.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_WORDS_VECTOR4_H
#define KVMILL_WORDS_VECTOR4_H

#include "vector.h"

static inline vf vector4_load_quad(const float *from) {
    return __builtin_shufflevector(*(const vf_any *)from, *(const vf_any *)from, 0, 1, 2, 3);
}
#define EXCHANGE(I, J, LOW, HIGH)                                                                                      \
    a = x[I], b = x[J];                                                                                                \
    x[I] = __builtin_shufflevector(a, b, LOW);                                                                         \
    x[J] = __builtin_shufflevector(a, b, HIGH);
#define EVEN_LANES 0, 4, 2, 6
#define ODD_LANES 1, 5, 3, 7
#define LOWER_LANES 0, 1, 4, 5
#define UPPER_LANES 2, 3, 6, 7
static inline void vector4_transpose(vf x[LANES]) {
    vf a, b;
    EXCHANGE(0, 1, EVEN_LANES, ODD_LANES)
    EXCHANGE(2, 3, EVEN_LANES, ODD_LANES)
    EXCHANGE(0, 2, LOWER_LANES, UPPER_LANES)
    EXCHANGE(1, 3, LOWER_LANES, UPPER_LANES)
}

/* A byte for each of four lanes, as the highest byte of the lane. */
static inline vi load_high_bytes(const void *from) {
    const all_bytes none = {0};
    all_bytes b = (all_bytes)(vu){*(const kvmill_word4 *)from};
    b = __builtin_shufflevector(none, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return (vi)__builtin_shufflevector((all_shorts)none, (all_shorts)b, 0, 8, 1, 9, 2, 10, 3, 11);
}
static inline vf vector4_load_i8(const void *from) { return __builtin_convertvector(load_high_bytes(from) >> 24, vf); }
static inline vi vector4_load_u8(const void *from) { return (vi)((vu)load_high_bytes(from) >> 24); }
static inline vi vector4_load_s8(const void *from) { return load_high_bytes(from) >> 24; }

#define EVEN_BYTES(b) __builtin_shufflevector(b, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
static inline void vector4_store_low_bytes(void *to, vi x) {
    all_bytes b = (all_bytes)x;
    b = EVEN_BYTES(b);
    b = EVEN_BYTES(b);
    memcpy(to, &b, LANES);
}

#endif
