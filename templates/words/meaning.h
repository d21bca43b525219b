/* meaning.h -- the words: functions on vectors of LANES elements that templates call, each with its meaning in plain C.
   An instruction set's own version of WORD is SET_WORD in the header of the set.  The generator pastes a set's header
   into a kernel, takes the last version of each word, and removes what the kernel does not use.  The page doc/words.md
   is made from the comments.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_WORDS_MEANING_H
#define KVMILL_WORDS_MEANING_H

#include "../../include/kvmill_kernel.h"

/* Headers of other widths define these two first. */
#ifndef LANE_COUNT
#define LANE_COUNT 4
#define EACH_LANE(f) f(0), f(1), f(2), f(3)
#endif

/* A quad is a piece of four lanes. */
enum { LANES = LANE_COUNT };
enum { QUADS = LANES / 4 };

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef int32_t vi_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
typedef uint8_t all_bytes __attribute__((vector_size(4 * LANES)));
typedef uint16_t all_shorts __attribute__((vector_size(4 * LANES)));
typedef int16_t shorts __attribute__((vector_size(4 * LANES)));
typedef uint16_t elements_u16 __attribute__((vector_size(4 * LANES)));
typedef uint32_t elements_u32 __attribute__((vector_size(4 * LANES)));

/* The body of a function: a vector with this value in each lane i. */
#define BY_LANE(TYPE, VALUE) TYPE result = {0}; for (int i = 0; i < LANES; i++) result[i] = VALUE; return result;
#define NUMBER(L) L

/* ---- Bits of a float ---- */

/* The bits of a float. */
static inline uint32_t bits_of(float value) {
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    return u;
}
/* The float with these bits. */
static inline float float_of(uint32_t u) {
    float value;
    memcpy(&value, &u, sizeof value);
    return value;
}

/* ---- Arithmetic ---- */

#define SAME(L) x
/* x in all lanes. */
static inline vf broadcast(float x) { return (vf){EACH_LANE(SAME)}; }
/* x in all lanes. */
static inline vi broadcast_words(int32_t x) { return (vi){EACH_LANE(SAME)}; }
/* p[0] in the lower half of the lanes, p[1] in the upper half. */
static inline vf broadcast_pair(const float *p) { BY_LANE(vf, p[i >= LANES / 2]) }
/* a where the mask is all ones, b where it is 0. */
static inline vf choose(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }
/* a where the sign bit of x is set, otherwise b. */
static inline vf where_negative(vf x, vf a, vf b) { return choose((vi)x >> 31, a, b); }
/* The magnitudes. */
static inline vf abs_f32(vf x) { return (vf)((vi)x & 0x7fffffff); }
/* The larger of each pair; b if one of them is NaN, or if both are zeros. */
static inline vf max_f32(vf a, vf b) { BY_LANE(vf, a[i] > b[i] ? a[i] : b[i]) }
/* The smaller of each pair; b if one of them is NaN, or if both are zeros. */
static inline vf min_f32(vf a, vf b) { BY_LANE(vf, a[i] < b[i] ? a[i] : b[i]) }
/* The smaller of each integer and `most`. */
static inline vi at_most(vi b, int32_t most) { BY_LANE(vi, b[i] < most ? b[i] : most) }
/* The rounded product.  Written as x * y, it could be fused with a sum that it is added to. */
static inline vf multiply(vf x, vf y) { BY_LANE(vf, x[i] * y[i]) }
/* x, in a register.  Otherwise compilers load a value that is used twice in a row from memory twice, which is one load
   too many in loops that are limited by loads. */
static inline vf held(vf x) { BY_LANE(vf, x[i]) }

/* From magnitudes of 2^23 on every float is an integer.  If the result of one of these is no int32_t, or x is NaN, the
   result is any integer. */

/* The nearest integers, ties to even. */
static inline vi round_even(vf x) { BY_LANE(vi, (int32_t)bits_of(x[i] + 0x1.8p23f) - 0x4b400000) }
/* The nearest integers, ties away from 0. */
static inline vi round_away(vf x) {
    vi n = round_even(x);
    for (int i = 0; i < LANES; i++) {
        float rest = x[i] - (float)n[i];
        n[i] += (x[i] > 0 && rest == 0.5f) - (x[i] < 0 && rest == -0.5f);
    }
    return n;
}
/* The nearest integers towards 0. */
static inline vi truncate(vf x) { BY_LANE(vi, (int32_t)x[i]) }

/* x / s, rounded to the nearest integer; at most 128. */
static inline vi code_f32(vf x, vf s, vf inverse) {
    (void)inverse;
    return round_even(x / s);
}
/* Adding and subtracting a power of two rounds to the bits that the type has, however small the quotient is. */
#define CODE_SHORT(POWER)                                                                                              \
    vf q = x / s, power = (vf)((vi)q & 0x7f800000) * POWER;                                                            \
    (void)inverse;                                                                                                     \
    return round_even((q + power) - power);
/* x / s, rounded to float16 and then to the nearest integer; at most 128. */
static inline vi code_f16(vf x, vf s, vf inverse) { CODE_SHORT(0x1.8p13f) }
/* x / s, rounded to bfloat16 and then to the nearest integer; at most 128. */
static inline vi code_bf16(vf x, vf s, vf inverse) { CODE_SHORT(0x1.8p16f) }

/* All ones in the lanes whose bit is set, 0 in the others. */
static inline vi in_lanes(uint32_t lanes) { BY_LANE(vi, -(int32_t)(lanes >> i & 1)) }

/* ---- Powers of two ---- */

/* The nearest integer, as a float; the sign of a zero may be lost. */
static inline vf nearest_whole(vf x) { return x + 12582912.f - 12582912.f; }
/* x * 2^n, for x in [1/2, 2] and an integer n of at least -127.  With n = -127, 1 becomes 0, and other x become at most
   2^-125. */
static inline vf times_power(vf x, vf n) {
    vu exponent = (vu)__builtin_convertvector(choose(n == n, n, broadcast(0.f)), vi);
    return (vf)((vu)x + (exponent << 23));
}
/* 2^x by a polynomial with a relative error of at most 2e-9; 0 if x is at most -127; NaN stays NaN. */
static inline vf power_of_2(vf x) {
    x = max_f32(broadcast(-127.f), x);
    vf n = nearest_whole(x), f = x - n;
    vf y = broadcast(0.0001534581201f);
    y = y * f + 0.001339993122f;
    y = y * f + 0.009618488957f;
    y = y * f + 0.05550328777f;
    y = y * f + 0.2402264689f;
    y = y * f + 0.6931472057f;
    y = y * f + 1.0f;
    return times_power(y, n);
}

/* ---- Reductions and masks ---- */

/* The largest lane. */
static inline float largest_of(vf x) {
    float y = x[0];
    for (int i = 1; i < LANES; i++)
        y = x[i] > y ? x[i] : y;
    return y;
}
/* The sum of the lanes, in any order. */
static inline float sum_of(vf x) {
    float y = x[0];
    for (int i = 1; i < LANES; i++)
        y += x[i];
    return y;
}
/* Whether any lane is at least `least`. */
static inline int any_from(vi b, int32_t least) {
    int any = 0;
    for (int i = 0; i < LANES; i++)
        any |= b[i] >= least;
    return any;
}
/* Whether any lane is negative. */
static inline int is_any_negative(vi b) {
    int any = 0;
    for (int i = 0; i < LANES; i++)
        any |= b[i] < 0;
    return any;
}
/* A bit for each lane, which is set if x is at least `least`. */
static inline uint32_t lanes_from(vi x, vi least) {
    uint32_t lanes = 0;
    for (int i = 0; i < LANES; i++)
        lanes |= (uint32_t)(x[i] >= least[i]) << i;
    return lanes;
}
/* `sum`, with 1 added in the lanes where x is at least `least`. */
static inline vi add_lanes_from(vi sum, vi x, vi least) { BY_LANE(vi, sum[i] + (x[i] >= least[i])) }
/* The lanes whose bit is set, in order, at the front; the rest of the result is undefined. */
static inline vi pack_lanes(vi x, uint32_t lanes) {
    vi y = {0};
    int count = 0;
    for (int i = 0; i < LANES; i++)
        if (lanes >> i & 1)
            y[count++] = x[i];
    return y;
}
/* x, with -infinity in the lanes outside [low, high). */
static inline vf hide_outside(vf x, int64_t low, int64_t high) {
    const vi lane = {EACH_LANE(NUMBER)};
    int32_t from = (int32_t)(low < 0 ? 0 : low > LANES ? LANES : low);
    int32_t to = (int32_t)(high < 0 ? 0 : high > LANES ? LANES : high);
    return choose((lane >= from) & (lane < to), x, broadcast(-__builtin_inff()));
}

/* ---- Moving lanes ---- */

/* The same four floats in every quad. */
static inline vf load_quad(const float *from) { BY_LANE(vf, from[i % 4]) }
/* Stores quad q to to[q * step]. */
static inline void store_quads(float *to, int64_t step, vf x) {
    for (int q = 0; q < QUADS; q++)
        for (int i = 0; i < 4; i++)
            to[q * step + i] = x[4 * q + i];
}
/* Four floats for each quad, each quad from a place of its own. */
static inline vf load_quads(const void *a, const void *b, const void *c, const void *d) {
    const void *const from[] = {a, b, c, d};
    vf x;
    for (int q = 0; q < QUADS; q++)
        memcpy((char *)&x + 16 * q, from[q], 16);
    return x;
}
/* In each quad, x[i][j] becomes x[j][i]. */
static inline void transpose_quads(vf x[4]) {
    for (int q = 0; q < LANES; q += 4)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < i; j++) {
                float a = x[i][q + j];
                x[i][q + j] = x[j][q + i];
                x[j][q + i] = a;
            }
}
/* Quad q of the result has the sums of quad q of a, of b, of c and of d. */
static inline vf sum_quads(vf a, vf b, vf c, vf d) {
    const vf four[] = {a, b, c, d};
    BY_LANE(vf, (four[i % 4][i / 4 * 4] + four[i % 4][i / 4 * 4 + 2]) +
                    (four[i % 4][i / 4 * 4 + 1] + four[i % 4][i / 4 * 4 + 3]))
}
/* Quad q of the result has the largest lane of quad q of a, of b, of c and of d. */
static inline vf largest_quads(vf a, vf b, vf c, vf d) {
    const vf four[] = {a, b, c, d};
    vf even = {0}, odd = {0};
    for (int i = 0; i < LANES; i++) {
        const float *x = (const float *)&four[i % 4] + i / 4 * 4;
        even[i] = x[0] > x[2] ? x[0] : x[2];
        odd[i] = x[1] > x[3] ? x[1] : x[3];
    }
    return max_f32(even, odd);
}
#define EVEN_QUAD(L) L / 4 * 8 + L % 4
#define ODD_QUAD(L) L / 4 * 8 + L % 4 + 4
#define EVEN_QUADS(a, b) __builtin_shufflevector(a, b, EACH_LANE(EVEN_QUAD))
#define ODD_QUADS(a, b) __builtin_shufflevector(a, b, EACH_LANE(ODD_QUAD))
/* The sums of quads 0 and 1 of a, of quads 2 and 3, and so on, then those of b. */
static inline vf add_quads(vf a, vf b) { return EVEN_QUADS(a, b) + ODD_QUADS(a, b); }
/* The larger lanes of quads 0 and 1 of a, of quads 2 and 3, and so on, then those of b. */
static inline vf larger_quads(vf a, vf b) { return max_f32(EVEN_QUADS(a, b), ODD_QUADS(a, b)); }
/* x[i][j] becomes x[j][i]. */
static inline void transpose(vf x[LANES]) {
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < i; j++) {
            float a = x[i][j];
            x[i][j] = x[j][i];
            x[j][i] = a;
        }
}

/* ---- One element ---- */

/* A float16 as a float.  Its exponents are biased by 112 less than those of float32; its subnormals are multiples of
   2^-24. */
static inline float float_of_half(uint32_t half) {
    uint32_t sign = (half & 0x8000) << 16, u = (half & 0x7fff) << 13;
    if (u < 1u << 23)
        return float_of(sign | bits_of((float)(half & 0x7fff) * 0x1p-24f));
    if (u < 31u << 23)
        return float_of(sign | (u + (112u << 23)));
    return float_of(sign | 255u << 23 | u | (uint32_t)(u > 31u << 23) << 22);
}
/* A float, rounded to float16. */
static inline uint32_t half_of(float value) {
    uint32_t sign = bits_of(value) >> 16 & 0x8000, u = bits_of(value) & 0x7fffffff;
    if (u > 255u << 23)
        return sign | 0x7e00 | (u >> 13 & 0x3ff);
    if (u >= 0x477ff000)
        return sign | 0x7c00;
    if (u < 113u << 23)
        return sign | (bits_of(float_of(u) + 0.5f) - bits_of(0.5f));
    return sign | ((u - (112u << 23) + 0xfff + (u >> 13 & 1)) >> 13);
}
/* A float, rounded to bfloat16. */
static inline uint32_t brain_of(float value) {
    uint32_t u = bits_of(value);
    return (u & 0x7fffffff) > 255u << 23 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
/* A float16. */
static inline float load_one_f16(const void *from) { return float_of_half(*(const kvmill_word2 *)from); }
/* Stores x as a float16. */
static inline void store_one_f16(void *to, float x) { *(kvmill_word2 *)to = (uint16_t)half_of(x); }
/* A bfloat16. */
static inline float load_one_bf16(const void *from) { return float_of((uint32_t)*(const kvmill_word2 *)from << 16); }
/* Stores x as a bfloat16. */
static inline void store_one_bf16(void *to, float x) { *(kvmill_word2 *)to = (uint16_t)brain_of(x); }

/* ---- 16-bit types: bits to floats and back ---- */

/* The bits of float16 as floats. */
static inline vf from_halves(halves h) { BY_LANE(vf, float_of_half(h[i])) }
/* Floats as the bits of float16. */
static inline halves to_halves(vf x) { BY_LANE(halves, (uint16_t)half_of(x[i])) }
/* Floats as the bits of bfloat16. */
static inline halves to_brains(vf x) { BY_LANE(halves, (uint16_t)brain_of(x[i])) }
/* Integers of 16 bits as integers of 32. */
static inline vu widened(halves h) { BY_LANE(vu, h[i]) }
/* Integers below 2^16 as integers of 16 bits. */
static inline halves narrowed(vi b) { BY_LANE(halves, (uint16_t)b[i]) }
/* The floats with these bits. */
static inline vf value_f32(vi b) { return (vf)b; }
/* The float16 numbers with these bits. */
static inline vf value_f16(vi b) { return from_halves(narrowed(b)); }
/* The bfloat16 numbers with these bits. */
static inline vf value_bf16(vi b) { return (vf)(b << 16); }
/* x, rounded to float16. */
static inline vf round_f16(vf x) { return from_halves(to_halves(x)); }
/* x, rounded to bfloat16. */
static inline vf round_bf16(vf x) { return (vf)(widened(to_brains(x)) << 16); }

/* ---- LANES elements.  A new type needs a load_TYPE, and a store_TYPE if kernels write it ---- */

/* Floats. */
static inline vf load_f32(const void *from) { return *(const vf_any *)from; }
/* Stores floats. */
static inline void store_f32(void *to, vf x) { *(vf_any *)to = x; }
/* Float16 numbers. */
static inline vf load_f16(const void *from) {
    halves h;
    memcpy(&h, from, sizeof h);
    return from_halves(h);
}
/* Stores float16 numbers. */
static inline void store_f16(void *to, vf x) {
    halves h = to_halves(x);
    memcpy(to, &h, sizeof h);
}
/* Bfloat16 numbers. */
static inline vf load_bf16(const void *from) {
    halves h;
    memcpy(&h, from, sizeof h);
    return (vf)(widened(h) << 16);
}
/* Stores bfloat16 numbers. */
static inline void store_bf16(void *to, vf x) {
    halves h = to_brains(x);
    memcpy(to, &h, sizeof h);
}
/* Integers of 32 bits. */
static inline vi load_words(const int32_t *from) { return *(const vi_any *)from; }
/* Stores integers of 32 bits. */
static inline void store_words(int32_t *to, vi x) { *(vi_any *)to = x; }
/* Stores floats and makes compilers forget what was stored, so that they load it from memory again: such a load can
   broadcast at no cost. */
static inline void store_kept(float *to, vf x) { store_f32(to, x); }
/* Codes of int8 as floats. */
static inline vf load_i8(const void *from) { BY_LANE(vf, (float)((const int8_t *)from)[i]) }
/* A byte for each lane, unsigned. */
static inline vi load_u8(const void *from) { BY_LANE(vi, ((const uint8_t *)from)[i]) }
/* A byte for each lane, signed. */
static inline vi load_s8(const void *from) { BY_LANE(vi, ((const int8_t *)from)[i]) }
/* The low nibbles (shift 0) or high nibbles (shift 4) of LANES bytes, looked up in a table of 16 numbers. */
static inline vf load_table(const void *table, const void *from, int shift) {
    BY_LANE(vf, (float)((const int8_t *)table)[((const uint8_t *)from)[i] >> shift & 15])
}
#define BYTE_OF_TWO(L) (int32_t)(bytes >> L / 2 * 8 & 255)
/* Each of LANES / 2 bytes in two lanes. */
static inline vi twice(uint64_t bytes) { return (vi){EACH_LANE(BYTE_OF_TWO)}; }

/* ---- Fewer than LANES elements: the other lanes are 0; no memory after the elements is touched ---- */

#define LOAD_SOME(TYPE, SIZE)                                                                                          \
    unsigned char whole[SIZE * LANES] = {0};                                                                           \
    memcpy(whole, from, count * SIZE);                                                                                 \
    return load_##TYPE(whole);
#define STORE_SOME(TYPE, SIZE)                                                                                         \
    unsigned char whole[SIZE * LANES];                                                                                 \
    store_##TYPE(whole, x);                                                                                            \
    memcpy(to, whole, count * SIZE);
/* `count` floats. */
static inline vf load_some_f32(const void *from, size_t count) { LOAD_SOME(f32, 4) }
/* `count` float16 numbers. */
static inline vf load_some_f16(const void *from, size_t count) { LOAD_SOME(f16, 2) }
/* `count` bfloat16 numbers. */
static inline vf load_some_bf16(const void *from, size_t count) { LOAD_SOME(bf16, 2) }
/* `count` codes of int8. */
static inline vf load_some_i8(const void *from, size_t count) { LOAD_SOME(i8, 1) }
/* Stores `count` floats. */
static inline void store_some_f32(void *to, vf x, size_t count) { STORE_SOME(f32, 4) }
/* Stores `count` float16 numbers. */
static inline void store_some_f16(void *to, vf x, size_t count) { STORE_SOME(f16, 2) }
/* Stores `count` bfloat16 numbers. */
static inline void store_some_bf16(void *to, vf x, size_t count) { STORE_SOME(bf16, 2) }
/* `count` codes of int4, an even number: two's complement, two to a byte, low nibble first. */
static inline vf load_some_i4(const void *from, size_t count) {
    vf y = {0};
    for (size_t i = 0; i < count; i++)
        y[i] = (float)(((((const uint8_t *)from)[i / 2] >> i % 2 * 4 & 15) ^ 8) - 8);
    return y;
}
/* LANES codes of int4. */
static inline vf load_i4(const void *from) { return load_some_i4(from, LANES); }
/* Stores `count` integers. */
static inline void store_some_words(int32_t *to, vi x, int count) {
    for (int i = 0; i < count; i++)
        to[i] = x[i];
}

/* Not again if codes.h is read alone. */
#ifndef KVMILL_WORDS_CODES_H
#include "codes.h"
#endif

#endif
