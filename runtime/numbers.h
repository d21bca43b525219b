/* Float16 and bfloat16 by integer arithmetic, and activations as floats: the same bits on every
   machine, whatever its instructions and however a compiler contracts sums.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_NUMBERS_H
#define KVMILL_RUNTIME_NUMBERS_H

#include <stdbool.h>

#include <kvmill_kernel.h>

static inline uint32_t kvmill_bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float kvmill_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Exponents of float16 are 112 lower; what has none is a count of 2^-24. */
static inline float kvmill_f16_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    if (magnitude < 0x400)
        return kvmill_float_of_bits(sign | kvmill_bits_of_float((float)magnitude * 0x1p-24f));
    uint32_t bits = (magnitude << 13) + (112u << 23);
    if (magnitude >= 0x7c00)
        bits += 112u << 23;
    if (magnitude > 0x7c00)
        bits |= 0x400000; /* a quiet NaN */
    return kvmill_float_of_bits(sign | bits);
}

/* bits / 2^shift, half to even; 1 <= shift <= 31. */
static inline uint32_t kvmill_shift_to_even(uint32_t bits, int shift) {
    return (bits + (1u << (shift - 1)) - 1 + (bits >> shift & 1)) >> shift;
}

static inline uint16_t kvmill_f16_of_small(uint32_t magnitude) {
    int shift = 126 - (int)(magnitude >> 23);
    uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    return shift > 24 ? 0 : (uint16_t)kvmill_shift_to_even(mantissa, shift);
}

static inline uint16_t kvmill_f32_to_f16(float value) {
    uint32_t bits = kvmill_bits_of_float(value), magnitude = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) /* 65520: halfway to 2^16 */
        return sign | 0x7c00;
    if (magnitude < 0x38800000) /* 2^-14 */
        return sign | kvmill_f16_of_small(magnitude);
    return (uint16_t)(sign | kvmill_shift_to_even(magnitude - (112u << 23), 13));
}

static inline float kvmill_bf16_to_f32(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return kvmill_float_of_bits(is_nan ? bits | 0x400000 : bits);
}

static inline uint16_t kvmill_f32_to_bf16(float value) {
    uint32_t bits = kvmill_bits_of_float(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)kvmill_shift_to_even(bits, 16);
}

static inline bool kvmill_is_finite(float value) {
    return (kvmill_bits_of_float(value) & 0x7fffffff) < 0x7f800000;
}

/* ---- Elements: F32, F16 or BF16 of enum kvmill_element ---- */

static inline int64_t kvmill_activation_bytes(int element) {
    return element == KVMILL_F32 ? 4 : 2;
}

/* Element number `index` of data at any address. */
static inline float kvmill_load_float(int element, const unsigned char *data, int64_t index) {
    uint16_t half;
    float value;
    if (element == KVMILL_F32) {
        memcpy(&value, data + index * 4, sizeof value);
        return value;
    }
    memcpy(&half, data + index * 2, sizeof half);
    return element == KVMILL_F16 ? kvmill_f16_to_f32(half) : kvmill_bf16_to_f32(half);
}

static inline void kvmill_store_float(int element, unsigned char *data, int64_t index,
                                      float value) {
    if (element == KVMILL_F32) {
        memcpy(data + index * 4, &value, sizeof value);
        return;
    }
    uint16_t half = element == KVMILL_F16 ? kvmill_f32_to_f16(value) : kvmill_f32_to_bf16(value);
    memcpy(data + index * 2, &half, sizeof half);
}

/* The number of the element's type next to `value`. */
static inline float kvmill_round_as(int element, float value) {
    if (element == KVMILL_F16)
        return kvmill_f16_to_f32(kvmill_f32_to_f16(value));
    return element == KVMILL_BF16 ? kvmill_bf16_to_f32(kvmill_f32_to_bf16(value)) : value;
}

#endif
