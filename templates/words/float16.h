/* float16.h -- the meaning of words on vectors of HALVES float16 numbers, for instruction sets that compute with them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_WORDS_FLOAT16_H
#define KVMILL_WORDS_FLOAT16_H

#include "vector.h"

enum { HALVES = 2 * LANES };
typedef _Float16 vh __attribute__((vector_size(2 * HALVES)));

#define BY_HALF(VALUE) vh y = {0}; for (int i = 0; i < HALVES; i++) y[i] = VALUE; return y;
/* HALVES float16 numbers. */
static inline vh load_vh(const void *from) {
    vh x;
    memcpy(&x, from, sizeof x);
    return x;
}
/* Stores HALVES float16 numbers. */
static inline void store_vh(void *to, vh x) { memcpy(to, &x, sizeof x); }
/* Stores each number as a float16 twice, in both halves of a word. */
static inline void store_twice(uint32_t *to, vf x) {
    for (int i = 0; i < LANES; i++)
        to[i] = half_of(x[i]) * 0x10001;
}
/* The two float16 numbers of a word in all lanes. */
static inline vh broadcast_twice(uint32_t pair) { return (vh)broadcast_words((int32_t)pair); }
/* The floats of `low`, then those of `high`, as float16. */
static inline vh join_halves(vf low, vf high) {
    halves half[] = {to_halves(low), to_halves(high)};
    return load_vh(half);
}
/* Codes of int8 as float16. */
static inline vh load_vh_i8(const void *from) { BY_HALF(((const int8_t *)from)[i]) }
/* Codes of int4 as float16. */
static inline vh load_vh_i4(const void *from) { BY_HALF(((((const uint8_t *)from)[i / 2] >> i % 2 * 4 & 15) ^ 8) - 8) }
/* Each factor for `group` numbers; HALVES factors can be read. */
static inline vh spread_halves(const void *from, int group) { BY_HALF(((const _Float16 *)from)[i / group]) }
/* to = grow * to + x, in floats. */
static inline void add_halves(float *to, float grow, vh x) {
    for (int i = 0; i < HALVES; i++)
        to[i] = to[i] * grow + (float)x[i];
}

#endif
