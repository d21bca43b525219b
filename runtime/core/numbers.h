/* Converts small floats by integer arithmetic, and activations to floats.  The results have the
   same bits on every machine, whatever its instructions and however a compiler contracts sums.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_NUMBERS_H
#define KVMILL_RUNTIME_CORE_NUMBERS_H

#include <stdbool.h>

#include <kvmill_kernel.h>

#include "../../defs/format.h"
#include "../../ops/extent.h"

#if defined __FLT_EVAL_METHOD__ && (__FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2)
#error floats must be computed as floats; accepted: -msse2 -mfpmath=sse on i686, -std=gnu11 on s390x
#endif

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

/* bits / 2^shift, ties to even; 0 <= shift <= 31. */
static inline uint32_t kvmill_shift_to_even(uint32_t bits, int shift) {
    return shift == 0 ? bits : (bits + (1u << (shift - 1)) - 1 + (bits >> shift & 1)) >> shift;
}

/* ---- Narrow floats, by the sizes of their fields ---- */

/* The difference of its exponent bias from that of float32. */
static inline uint32_t kvmill_exponent_gap(struct kvmill_float_parts parts) {
    return 128u - (1u << (parts.exponent - 1));
}

/* The bits of infinity; without infinity, the bits after the largest number, which are NaN. */
static inline uint32_t kvmill_first_not_finite(struct kvmill_float_parts parts) {
    uint32_t after_all = 1u << (parts.exponent + parts.mantissa);
    return parts.finite ? after_all - 1 : after_all - (1u << parts.mantissa);
}

static inline uint32_t kvmill_nan_bits(struct kvmill_float_parts parts, uint32_t magnitude) {
    uint32_t quiet = 1u << (parts.mantissa - 1),
             payload = (magnitude & 0x7fffff) >> (23 - parts.mantissa);
    return kvmill_first_not_finite(parts) | (parts.finite ? 0 : quiet | payload);
}

/* A subnormal number is a multiple of the least number. */
static inline float kvmill_least_number(struct kvmill_float_parts parts) {
    return kvmill_float_of_bits((kvmill_exponent_gap(parts) + 1 - (uint32_t)parts.mantissa) << 23);
}

static inline uint32_t kvmill_small_bits(struct kvmill_float_parts parts, uint32_t magnitude) {
    int shift = 24 - parts.mantissa + (int)kvmill_exponent_gap(parts) - (int)(magnitude >> 23);
    return shift > 24 ? 0 : kvmill_shift_to_even((magnitude & 0x7fffff) | 0x800000, shift);
}

/* The nearest number, ties to even. */
static inline uint32_t kvmill_bits_of_number(struct kvmill_float_parts parts, float value) {
    uint32_t bits = kvmill_bits_of_float(value), magnitude = bits & 0x7fffffff;
    uint32_t sign = bits >> 31 << (parts.exponent + parts.mantissa);
    uint32_t gap = kvmill_exponent_gap(parts), end = kvmill_first_not_finite(parts);
    if (magnitude > 0x7f800000)
        return sign | kvmill_nan_bits(parts, magnitude);
    uint32_t near = gap > 0 && magnitude < (gap + 1) << 23
                        ? kvmill_small_bits(parts, magnitude)
                        : kvmill_shift_to_even(magnitude - (gap << 23), 23 - parts.mantissa);
    return sign | (near < end ? near : end - parts.saturates);
}

static inline float kvmill_number_of_bits(struct kvmill_float_parts parts, uint32_t bits) {
    uint32_t sign = bits >> (parts.exponent + parts.mantissa) << 31,
             gap = kvmill_exponent_gap(parts);
    uint32_t magnitude = bits & ((1u << (parts.exponent + parts.mantissa)) - 1);
    uint32_t wide = (magnitude << (23 - parts.mantissa)) + (gap << 23);
    uint32_t end = kvmill_first_not_finite(parts);
    if (gap > 0 && magnitude < 1u << parts.mantissa)
        wide = kvmill_bits_of_float((float)magnitude * kvmill_least_number(parts));
    if (magnitude >= end)
        wide |= 0x7f800000;
    if (magnitude > end || (magnitude == end && parts.finite))
        wide |= 0x400000; /* a quiet NaN */
    return kvmill_float_of_bits(sign | wide);
}

static const struct kvmill_float_parts kvmill_half = {.exponent = 5, .mantissa = 10};
static const struct kvmill_float_parts kvmill_brain = {.exponent = 8, .mantissa = 7};

static inline float kvmill_f16_to_f32(uint16_t half) {
    return kvmill_number_of_bits(kvmill_half, half);
}

static inline uint16_t kvmill_f32_to_f16(float value) {
    return (uint16_t)kvmill_bits_of_number(kvmill_half, value);
}

static inline float kvmill_bf16_to_f32(uint16_t half) {
    return kvmill_number_of_bits(kvmill_brain, half);
}

static inline uint16_t kvmill_f32_to_bf16(float value) {
    return (uint16_t)kvmill_bits_of_number(kvmill_brain, value);
}

static inline bool kvmill_is_finite(float value) {
    return (kvmill_bits_of_float(value) & 0x7fffffff) < 0x7f800000;
}

/* ---- The same for finite numbers, without branches, so that compilers vectorise loops ---- */

static inline float kvmill_finite_f16_to_f32(uint16_t half) {
    uint32_t magnitude = half & 0x7fff, is_small = 0 - (uint32_t)(magnitude < 0x400);
    uint32_t small = kvmill_bits_of_float((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t wide = (magnitude << 13) + (112u << 23);
    return kvmill_float_of_bits((uint32_t)(half & 0x8000) << 16 | (small & is_small) |
                                (wide & ~is_small));
}

static inline float kvmill_finite_bf16_to_f32(uint16_t half) {
    return kvmill_float_of_bits((uint32_t)half << 16);
}

/* As kvmill_bits_of_number, for formats of 8 bits and numbers up to their largest.  To round x, add
   a number with the exponent of x (or the least exponent) plus a fixed difference, so that the last
   bit of the sum is the last bit of the code. */
static inline uint32_t kvmill_bits_of_finite(struct kvmill_float_parts parts, float value) {
    int shift = 23 - parts.mantissa, sign_shift = 31 - parts.exponent - parts.mantissa;
    uint32_t least = (kvmill_exponent_gap(parts) + 1) << 23, wider = (uint32_t)shift << 23;
    uint32_t bits = kvmill_bits_of_float(value);
    int32_t above = (int32_t)(bits & 0x7f800000) - (int32_t)least;
    uint32_t exponents = (uint32_t)(above > 0 ? above : 0);
    float sum =
        kvmill_float_of_bits(bits & 0x7fffffff) + kvmill_float_of_bits(exponents + (least + wider));
    uint32_t code = kvmill_bits_of_float(sum) + (exponents >> shift);
    return (bits & 0x80000000) >> sign_shift | (code & 0xff);
}

/* ---- Elements: floats of enum kvmill_element, at any address ---- */

/* For F32, F16 and BF16. */
static inline int64_t kvmill_activation_bytes(int element) {
    return element == KVMILL_F32 ? 4 : 2;
}

static inline uint16_t kvmill_load_half(const unsigned char *data, int64_t index) {
    uint16_t half;
    memcpy(&half, data + index * 2, sizeof half);
    return half;
}

static inline float kvmill_load_float(int element, const unsigned char *data, int64_t index) {
    float value;
    switch (element) {
    case KVMILL_F32:
        memcpy(&value, data + index * 4, sizeof value);
        return value;
    case KVMILL_F16:
        return kvmill_f16_to_f32(kvmill_load_half(data, index));
    case KVMILL_BF16:
        return kvmill_bf16_to_f32(kvmill_load_half(data, index));
    case KVMILL_I8:
        return (float)(int8_t)data[index];
    default: /* one byte */
        return kvmill_number_of_bits(kvmill_format_parts(element)->real, data[index]);
    }
}

static inline void kvmill_store_half(unsigned char *data, int64_t index, uint16_t half) {
    memcpy(data + index * 2, &half, sizeof half);
}

static inline void kvmill_store_float(int element, unsigned char *data, int64_t index,
                                      float value) {
    switch (element) {
    case KVMILL_F32:
        memcpy(data + index * 4, &value, sizeof value);
        break;
    case KVMILL_F16:
        kvmill_store_half(data, index, kvmill_f32_to_f16(value));
        break;
    case KVMILL_BF16:
        kvmill_store_half(data, index, kvmill_f32_to_bf16(value));
        break;
    default:
        data[index] =
            (unsigned char)kvmill_bits_of_number(kvmill_format_parts(element)->real, value);
    }
}

/* The number of the element's type next to `value`. */
static inline float kvmill_round_as(int element, float value) {
    if (element == KVMILL_F16)
        return kvmill_f16_to_f32(kvmill_f32_to_f16(value));
    return element == KVMILL_BF16 ? kvmill_bf16_to_f32(kvmill_f32_to_bf16(value)) : value;
}

#endif
