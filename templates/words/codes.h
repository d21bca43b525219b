/* codes.h -- the rest of meaning.h: words for small integers.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_WORDS_CODES_H
#define KVMILL_WORDS_CODES_H

#include "meaning.h"

/* ---- Storing the codes of four vectors ---- */

#define EACH_CODE(STATEMENT)                                                                                           \
    const vi c[] = {c0, c1, c2, c3};                                                                                   \
    for (int i = 0; i < 4 * LANES; i++) {                                                                              \
        int32_t code = c[i / LANES][i % LANES];                                                                        \
        STATEMENT;                                                                                                     \
    }
/* Stores codes of int8; they are clamped to [-127, 127]. */
static inline void store_i8(void *to, vi c0, vi c1, vi c2, vi c3) {
    EACH_CODE(((int8_t *)to)[i] = (int8_t)(code > 127 ? 127 : code < -127 ? -127 : code))
}
/* Stores codes of int4, which are in [-7, 7], two to a byte, low nibble first. */
static inline void store_i4(void *to, vi c0, vi c1, vi c2, vi c3) {
    EACH_CODE(((uint8_t *)to)[i / 2] = (uint8_t)(i % 2 == 0 ? code & 15 : ((uint8_t *)to)[i / 2] | code << 4))
}
/* Stores the low byte of each lane. */
static inline void store_low_bytes(void *to, vi x) {
    for (int i = 0; i < LANES; i++)
        ((uint8_t *)to)[i] = (uint8_t)x[i];
}

/* ---- Stores around the caches, if the instruction set has such stores; `to` is aligned ---- */

/* Stores floats around the caches. */
static inline void stream_f32(void *to, vf x) { store_f32(to, x); }
/* Stores float16 numbers around the caches. */
static inline void stream_f16(void *to, vf x) { store_f16(to, x); }
/* Stores bfloat16 numbers around the caches. */
static inline void stream_bf16(void *to, vf x) { store_bf16(to, x); }
/* Stores codes of int8 around the caches. */
static inline void stream_i8(void *to, vi c0, vi c1, vi c2, vi c3) { store_i8(to, c0, c1, c2, c3); }
/* Stores codes of int4 around the caches. */
static inline void stream_i4(void *to, vi c0, vi c1, vi c2, vi c3) { store_i4(to, c0, c1, c2, c3); }

/* ---- Largest magnitudes of elements of 16 and 32 bits, as integers: infinity is above all numbers, and NaN above
   infinity ---- */

#define ELEMENTS(TYPE, VALUE)                                                                                          \
    elements_##TYPE x;                                                                                                 \
    memcpy(&x, from, sizeof x);                                                                                        \
    return (vi)(VALUE);
#define BITS                                                                                                           \
    vi x;                                                                                                              \
    memcpy(&x, from, sizeof x);                                                                                        \
    return x;
/* The magnitudes of a vector of elements of 16 bits. */
static inline vi magnitudes_u16(const void *from) { ELEMENTS(u16, x & 0x7fff) }
/* The magnitudes of a vector of elements of 32 bits. */
static inline vi magnitudes_u32(const void *from) { ELEMENTS(u32, x & 0x7fffffff) }
/* The bits of elements of 16 bits.  The largest is the element farthest below 0. */
static inline vi bits_u16(const void *from) { BITS }
/* The bits of elements of 32 bits. */
static inline vi bits_u32(const void *from) { BITS }
/* The bits of elements of 16 bits, with the sign bit inverted.  The largest is the element farthest above 0. */
static inline vi flipped_u16(const void *from) { ELEMENTS(u16, x ^ 32768U) }
/* The bits of elements of 32 bits, with the sign bit inverted. */
static inline vi flipped_u32(const void *from) { ELEMENTS(u32, x ^ 2147483648U) }
/* Integers that are in the same order as the elements of 16 bits, -0 before +0. */
static inline vi keys_u16(const void *from) { ELEMENTS(u16, x ^ (-(x >> 15) | 32768U)) }
/* Integers that are in the same order as the elements of 32 bits, -0 before +0. */
static inline vi keys_u32(const void *from) { ELEMENTS(u32, x ^ (-(x >> 31) | 2147483648U)) }
/* The larger of each pair of unsigned integers of 16 bits. */
static inline vi larger_u16(vi a, vi b) {
    elements_u16 x = (elements_u16)a, y = (elements_u16)b;
    for (int i = 0; i < LANES * 2; i++)
        x[i] = x[i] > y[i] ? x[i] : y[i];
    return (vi)x;
}
/* The larger of each pair of unsigned integers of 32 bits. */
static inline vi larger_u32(vi a, vi b) {
    elements_u32 x = (elements_u32)a, y = (elements_u32)b;
    for (int i = 0; i < LANES; i++)
        x[i] = x[i] > y[i] ? x[i] : y[i];
    return (vi)x;
}
#define FOLD(TYPE)                                                                                                     \
    vi even = {0}, odd = {0};                                                                                          \
    for (int i = 0; i < LANES; i++) {                                                                                  \
        int at = i / 4 * 8 + i % 4;                                                                                    \
        even[i] = at < LANES ? a[at] : b[at - LANES];                                                                  \
        odd[i] = at + 4 < LANES ? a[at + 4] : b[at + 4 - LANES];                                                       \
    }                                                                                                                  \
    return larger_##TYPE(even, odd);
/* For groups of more than 16 bytes: each two neighbouring pieces of 16 bytes become one, with the larger elements. */
static inline vi fold_u16(vi a, vi b) { FOLD(u16) }
/* The same for elements of 32 bits. */
static inline vi fold_u32(vi a, vi b) { FOLD(u32) }
#define LARGEST(TYPE, COUNT)                                                                                           \
    const vi four[] = {a, b, c, d};                                                                                    \
    vi y = {0};                                                                                                        \
    for (int i = 0; i < 4 * LANES; i++) {                                                                              \
        elements_##TYPE x = (elements_##TYPE)four[i / LANES];                                                          \
        for (int j = 0; j < COUNT; j++) {                                                                              \
            int32_t element = (int32_t)x[i % LANES * COUNT + j];                                                       \
            y[i / 4] = element > y[i / 4] ? element : y[i / 4];                                                        \
        }                                                                                                              \
    }                                                                                                                  \
    return y;
/* a, b, c and d follow each other, and each 16 bytes are a group: the largest magnitude of 16 bits of each group. */
static inline vi largest_u16(vi a, vi b, vi c, vi d) { LARGEST(u16, 2) }
/* The same for elements of 32 bits. */
static inline vi largest_u32(vi a, vi b, vi c, vi d) { LARGEST(u32, 1) }
/* The bits of an element of 16 bits again, from its key; one element in each lane. */
static inline vi element_of_key_u16(vi key) { BY_LANE(vi, key[i] ^ (key[i] & 0x8000 ? 0x8000 : 0xffff)) }
/* The bits of an element of 32 bits again, from its key. */
static inline vi element_of_key_u32(vi key) { BY_LANE(vi, key[i] ^ (key[i] < 0 ? INT32_MIN : -1)) }
/* Whether the first of 32 elements of 16 bits with this magnitude is negative.  There is at least one with it. */
static inline uint32_t starts_negative_u16(const void *from, int32_t magnitude) {
    const kvmill_word2 *x = from;
    int i = 0;
    while ((x[i] & 0x7fff) != (kvmill_word2)magnitude)
        i++;
    return x[i] > 0x7fff;
}
/* The same for elements of 32 bits. */
static inline uint32_t starts_negative_u32(const void *from, int32_t magnitude) {
    const kvmill_word4 *x = from;
    int i = 0;
    while ((x[i] & 0x7fffffff) != (kvmill_word4)magnitude)
        i++;
    return x[i] > 0x7fffffff;
}

/* ---- Bytes and pairs of codes ---- */

/* sum[i] + the products of the four unsigned bytes a[i] with the four signed bytes b[i]. */
static inline vi add_products(vi sum, vi a, vi b) {
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 32; j += 8)
            sum[i] += (a[i] >> j & 255) * (int8_t)(b[i] >> j);
    return sum;
}
/* sum[i] + the products of the lower halves and of the upper halves: each word is a pair of signed integers of 16
   bits. */
static inline vi add_pairs(vi sum, vi a, vi b) {
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 32; j += 16)
            sum[i] = (int32_t)((uint32_t)sum[i] + (uint32_t)((int16_t)(a[i] >> j) * (int16_t)(b[i] >> j)));
    return sum;
}
/* Pairs: LANES integers of 16 bits from each of two places; a gives the lower halves, b the upper ones. */
static inline vi load_pairs(const void *a, const void *b) {
    BY_LANE(vi, ((const kvmill_word2 *)a)[i] | (int32_t)((uint32_t)((const kvmill_word2 *)b)[i] << 16))
}
#define HALF_PAIRS(FIRST)                                                                                              \
    int16_t from[2][2 * LANES], to[2 * LANES];                                                                         \
    memcpy(from[0], &a, sizeof a);                                                                                     \
    memcpy(from[1], &b, sizeof b);                                                                                     \
    for (int i = 0; i < 2 * LANES; i++)                                                                                \
        to[i] = from[i % 2][i / 8 * 8 + FIRST + i % 8 / 2];                                                            \
    memcpy(&a, to, sizeof a);                                                                                          \
    return a;
/* Pairs of the 16-bit integers in the lower half of each 16 bytes: a gives the lower halves of words, b the upper. */
static inline vi lower_pairs(vi a, vi b) { HALF_PAIRS(0) }
/* Pairs of the 16-bit integers in the upper half of each 16 bytes. */
static inline vi upper_pairs(vi a, vi b) { HALF_PAIRS(4) }
/* Words saturated to 16 bits: those of a, then those of b. */
static inline vi packed_words(vi a, vi b) {
    int32_t from[2 * LANES];
    int16_t to[2 * LANES];
    memcpy(from, &a, sizeof a);
    memcpy(from + LANES, &b, sizeof b);
    for (int i = 0; i < 2 * LANES; i++)
        to[i] = (int16_t)(from[i] < -32768 ? -32768 : from[i] > 32767 ? 32767 : from[i]);
    memcpy(&a, to, sizeof a);
    return a;
}
/* The lower of the two signed bytes in each 16 bits. */
static inline vi even_codes(vi x) { return (vi)(((shorts)x << 8) >> 8); }
/* The upper of the two signed bytes in each 16 bits. */
static inline vi odd_codes(vi x) { return (vi)((shorts)x >> 8); }
/* LANES bytes from each of four places. */
static inline vi load_four(const void *a, const void *b, const void *c, const void *d) {
    const void *const from[] = {a, b, c, d};
    vi x;
    for (int i = 0; i < 4; i++)
        memcpy((char *)&x + i * LANES, from[i], LANES);
    return x;
}
/* x has four rows of LANES bytes; lane i of the result has byte i of each row. */
static inline vi side_by_side(vi x) {
    uint8_t from[4][LANES], to[LANES][4];
    memcpy(from, &x, sizeof x);
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 4; j++)
            to[i][j] = from[j][i];
    memcpy(&x, to, sizeof x);
    return x;
}
/* Loads a vector of bytes from each of four rows: lane 4 q + i of x[j] has byte 16 q + 4 j + i of each row. */
static inline void rows_side_by_side(const void *a, const void *b, const void *c, const void *d, vf x[4]) {
    const void *const from[] = {a, b, c, d};
    uint8_t row[4][4 * LANES], to[4][LANES][4];
    for (int r = 0; r < 4; r++)
        memcpy(row[r], from[r], sizeof row[r]);
    for (int k = 0; k < 16 * LANES; k++)
        to[k / 4 % 4][k / 64 * 4 + k / 16 % 4][k % 4] = row[k % 4][k / 64 * 16 + k / 4 % 4 * 4 + k / 16 % 4];
    for (int j = 0; j < 4; j++)
        memcpy(&x[j], to[j], sizeof x[j]);
}
/* Loads a vector of bytes from each of four rows: lane i of x[j] has byte LANES j + i of each row. */
static inline void interleaved(const void *a, const void *b, const void *c, const void *d, vf x[4]) {
    const uint8_t *const row[] = {a, b, c, d};
    uint8_t to[4 * LANES][4];
    for (int i = 0; i < 16 * LANES; i++)
        to[i / 4][i % 4] = row[i % 4][i / 4];
    memcpy(x, to, sizeof to);
}
/* HALF_QUADS of q: km_byte_of_half of templates/lib/vectors.m4. */
#define HALF_QUADS ((LANE_COUNT + 4) / 8)
#define BYTE_OF_HALF(q) q % HALF_QUADS * 16 + q / HALF_QUADS * 8
/* Loads half a vector of bytes from each of four rows: lane 4 q + i of x[j] has byte BYTE_OF_HALF(q) + 4 j + i of each
   row. */
static inline void halves_side_by_side(const void *a, const void *b, const void *c, const void *d, vf x[2]) {
    const uint8_t *const row[] = {a, b, c, d};
    uint8_t to[2][LANES][4];
    for (int k = 0; k < 8 * LANES; k++) {
        int j = k / (4 * LANES), lane = k / 4 % LANES;
        to[j][lane][k % 4] = row[k % 4][BYTE_OF_HALF(lane / 4) + 4 * j + lane % 4];
    }
    memcpy(x, to, sizeof to);
}
/* The bytes of each quad transposed: byte j of lane i becomes byte i of lane j. */
static inline vi turn_bytes(vi x) {
    uint8_t from[LANES][4], to[LANES][4];
    memcpy(from, &x, sizeof x);
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 4; j++)
            to[i / 4 * 4 + j][i % 4] = from[i][j];
    memcpy(&x, to, sizeof x);
    return x;
}
/* The low nibble of each byte, minus 8. */
static inline vi low_codes(vi x) {
    int8_t b[4 * LANES];
    memcpy(b, &x, sizeof x);
    for (int i = 0; i < 4 * LANES; i++)
        b[i] = (int8_t)((b[i] & 15) - 8);
    memcpy(&x, b, sizeof x);
    return x;
}
/* Masks from the signs of four floats: byte i of every lane is all ones if float i is negative. */
static inline vi signs_of_four(const float *from) {
    uint32_t signs = 0;
    for (int i = 0; i < 4; i++)
        signs |= (__builtin_signbit(from[i]) ? 0xffU : 0) << 8 * i;
    return broadcast_words((int32_t)signs);
}
/* x, with the bytes negated whose mask is all ones. */
static inline vi with_signs(vi x, vi signs) {
    int8_t b[4 * LANES], mask[4 * LANES];
    memcpy(b, &x, sizeof x);
    memcpy(mask, &signs, sizeof signs);
    for (int i = 0; i < 4 * LANES; i++)
        b[i] = (int8_t)((b[i] ^ mask[i]) - mask[i]);
    memcpy(&x, b, sizeof x);
    return x;
}

#endif
