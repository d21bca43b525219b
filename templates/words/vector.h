/* vector.h -- words in C that compilers turn into vector instructions, for all instruction sets.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_WORDS_VECTOR_H
#define KVMILL_WORDS_VECTOR_H

#include "meaning.h"

/* The constraint of inline assembly for a vector that is read and written. */
#ifndef IN_REGISTER
#define IN_REGISTER "+m"
#endif

static inline vf vector_max_f32(vf a, vf b) { return choose(a > b, a, b); }
static inline vf vector_min_f32(vf a, vf b) { return choose(a < b, a, b); }
static inline vi vector_at_most(vi b, int32_t most) {
    vi limit = broadcast_words(most);
    return (vi)choose(b < limit, (vf)b, (vf)limit);
}
static inline vf vector_multiply(vf x, vf y) {
    vf v = x * y;
    __asm__("" : IN_REGISTER(v));
    return v;
}
static inline vf vector_held(vf x) {
    __asm__("" : IN_REGISTER(x));
    return x;
}
static inline vi vector_round_even(vf x) { return (vi)(x + 0x1.8p23f) - 0x4b400000; }
static inline vi vector_round_away(vf x) {
    vi n = round_even(x);
    vf rest = x - __builtin_convertvector(n, vf);
    return n - ((x > 0.f) & (rest == 0.5f)) + ((x < 0.f) & (rest == -0.5f));
}
static inline vi vector_truncate(vf x) { return __builtin_convertvector(x, vi); }
#define SHIFT_TO_SIGN(L) 31 - L
static inline vi vector_in_lanes(uint32_t lanes) {
    const vu above = {EACH_LANE(SHIFT_TO_SIGN)};
    return (vi)(((vu){0} + lanes) << above) >> 31;
}
static inline vi vector_add_lanes_from(vi sum, vi x, vi least) { return sum - (x >= least); }
static inline void vector_store_quads(float *to, int64_t step, vf x) {
    for (int q = 0; q < QUADS; q++)
        memcpy(to + q * step, (const char *)&x + 16 * q, 16);
}

#define LOW_PAIR(L) L / 4 * 4 + L % 2 + L % 4 / 2 * LANE_COUNT
#define HIGH_PAIR(L) L / 4 * 4 + L % 2 + 2 + L % 4 / 2 * LANE_COUNT
#define LOW_LANE(L) L / 4 * 4 + L % 4 / 2 + L % 2 * LANE_COUNT
#define HIGH_LANE(L) L / 4 * 4 + 2 + L % 4 / 2 + L % 2 * LANE_COUNT
#define LOW_PAIRS(a, b) __builtin_shufflevector(a, b, EACH_LANE(LOW_PAIR))
#define HIGH_PAIRS(a, b) __builtin_shufflevector(a, b, EACH_LANE(HIGH_PAIR))
#define LOW_LANES(a, b) __builtin_shufflevector(a, b, EACH_LANE(LOW_LANE))
#define HIGH_LANES(a, b) __builtin_shufflevector(a, b, EACH_LANE(HIGH_LANE))
static inline void vector_transpose_quads(vf x[4]) {
    vf a = LOW_LANES(x[0], x[1]), b = LOW_LANES(x[2], x[3]);
    vf c = HIGH_LANES(x[0], x[1]), d = HIGH_LANES(x[2], x[3]);
    x[0] = LOW_PAIRS(a, b), x[1] = HIGH_PAIRS(a, b);
    x[2] = LOW_PAIRS(c, d), x[3] = HIGH_PAIRS(c, d);
}
static inline vf vector_sum_quads(vf a, vf b, vf c, vf d) {
    vf ab = LOW_LANES(a, b) + HIGH_LANES(a, b);
    vf cd = LOW_LANES(c, d) + HIGH_LANES(c, d);
    return LOW_PAIRS(ab, cd) + HIGH_PAIRS(ab, cd);
}
static inline vf vector_largest_quads(vf a, vf b, vf c, vf d) {
    vf ab = max_f32(LOW_LANES(a, b), HIGH_LANES(a, b));
    vf cd = max_f32(LOW_LANES(c, d), HIGH_LANES(c, d));
    return max_f32(LOW_PAIRS(ab, cd), HIGH_PAIRS(ab, cd));
}

static inline vf vector_from_halves(halves h) {
    vu bits = __builtin_convertvector(h, vu), magnitude = bits & 0x7fff;
    vf normal = (vf)((magnitude << 13) + (112U << 23));
    vf special = (vf)((magnitude << 13) | 0x7f800000U);
    vf small = __builtin_convertvector((vi)magnitude, vf) * 0x1p-24f;
    vf x = choose((vi)magnitude >= 0x7c00, special, choose((vi)magnitude < 0x400, small, normal));
    return (vf)((vu)x | (bits & 0x8000) << 16);
}
static inline halves vector_to_halves(vf x) {
    vu bits = (vu)x, sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    vu normal = (magnitude - (112U << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    vu small = (vu)((vf)magnitude + 0.5f) - (vu)broadcast(0.5f);
    vu nan = (magnitude >> 13 & 0x3ff) | 0x7e00;
    vi is_small = (vi)magnitude < (113 << 23), is_large = (vi)magnitude >= 0x477ff000;
    vi is_nan = (vi)magnitude > 0x7f800000;
    vu result = (vu)choose(is_small, (vf)small, (vf)normal);
    result = (vu)choose(is_large, (vf)((vu){0} + 0x7c00), (vf)result);
    result = (vu)choose(is_nan, (vf)nan, (vf)result);
    return __builtin_convertvector(result | sign, halves);
}
static inline halves vector_to_brains(vf x) {
    vu bits = (vu)x, rounded = bits + 0x7fff + (bits >> 16 & 1);
    vu result = (vu)choose(x != x, (vf)(bits | 0x400000), (vf)rounded) >> 16;
    return __builtin_convertvector(result, halves);
}
static inline vu vector_widened(halves h) { return __builtin_convertvector(h, vu); }
static inline halves vector_narrowed(vi b) { return __builtin_convertvector(b, halves); }
#define NIBBLE_TO_TOP(L) 28 - L % 2 * 4
static inline vf vector_load_some_i4(const void *from, size_t count) {
    const vi left = {EACH_LANE(NIBBLE_TO_TOP)};
    uint64_t pairs = 0;
    memcpy(&pairs, from, count / 2);
    return __builtin_convertvector(twice(pairs) << left >> 28, vf);
}

#define STORE_LOW_BYTES(K) store_low_bytes((char *)to + K * LANE_COUNT, at_most(~at_most(~c##K, 126), 127));
static inline void vector_store_i8(void *to, vi c0, vi c1, vi c2, vi c3) {
    STORE_LOW_BYTES(0) STORE_LOW_BYTES(1) STORE_LOW_BYTES(2) STORE_LOW_BYTES(3)
}
#define KEEP_LOW_BYTES(K) store_low_bytes(codes + K * LANE_COUNT, c##K);
static inline void vector_store_i4(void *to, vi c0, vi c1, vi c2, vi c3) {
    uint8_t codes[4 * LANES];
    KEEP_LOW_BYTES(0) KEEP_LOW_BYTES(1) KEEP_LOW_BYTES(2) KEEP_LOW_BYTES(3)
    for (int i = 0; i < 2 * LANES; i++)
        ((uint8_t *)to)[i] = (uint8_t)((codes[2 * i] & 15) | codes[2 * i + 1] << 4);
}
static inline vi vector_element_of_key_u16(vi key) { return key ^ (0xffff - (key >> 15) * 0x7fff); }
static inline vi vector_element_of_key_u32(vi key) { return key ^ (~(key >> 31) | INT32_MIN); }
static inline vi vector_low_codes(vi x) { return (vi)((all_bytes)(x & 0x0f0f0f0f) - 8); }
static inline vi vector_signs_of_four(const float *from) { return turn_bytes((vi)load_quad(from) >> 31); }
static inline vi vector_with_signs(vi x, vi signs) {
    return (vi)(((all_bytes)x ^ (all_bytes)signs) - (all_bytes)signs);
}

#endif
