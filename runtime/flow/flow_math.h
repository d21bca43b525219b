/* Exponential and logarithm of float32, using only sums and products, each of which is rounded: the
   same bits on every machine.  templates/kernel/flow_program/flow_program.m4 has the same
   operations in the same order. Errors are below one unit in the last place.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_FLOW_FLOW_MATH_H
#define KVMILL_RUNTIME_FLOW_FLOW_MATH_H

#include "../core/numbers.h"

/* a if `truth` is 1, b if it is 0; by bits, so that compilers make no branch. */
static inline float kvmill_chosen(uint32_t truth, float a, float b) {
    uint32_t first = kvmill_bits_of_float(a), second = kvmill_bits_of_float(b);
    return kvmill_float_of_bits(second ^ ((first ^ second) & -truth));
}

/* x = n ln 2 + r, |r| <= ln 2 / 2.  The result is scaled by 2^n in two steps; only the second
 * rounds. */
static inline float kvmill_exp(float x) {
    float above = x > 89.f ? 89.f : x, within = above < -104.f ? -104.f : above;
    float shifted = within * 1.44269504f + 0x1.8p23f, n = shifted - 0x1.8p23f;
    float first = within - n * 0x1.63p-1f, r = first - n * -2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.f;
    int32_t k = (int32_t)(kvmill_bits_of_float(shifted) - 0x4b400000u), half = k >> 1;
    return y * kvmill_float_of_bits((uint32_t)(half + 127) << 23) *
           kvmill_float_of_bits((uint32_t)(k - half + 127) << 23);
}

/* x = 2^n (1 + z), with 1 + z between the square roots of 1/2 and 2. */
static inline float kvmill_log(float x) {
    uint32_t small = x < 0x1p-126f;
    uint32_t bits = kvmill_bits_of_float(kvmill_chosen(small, x * 0x1p23f, x));
    int32_t exponent = (int32_t)(bits - 0x3f3504f3u) >> 23;
    float z = kvmill_float_of_bits(bits - ((uint32_t)exponent << 23)) - 1.f, square = z * z;
    float n = (float)(exponent - 23 * (int32_t)small);
    float y = 7.0376836292e-2f;
    y = y * z + -1.1514610310e-1f;
    y = y * z + 1.1676998740e-1f;
    y = y * z + -1.2420140846e-1f;
    y = y * z + 1.4249322787e-1f;
    y = y * z + -1.6668057665e-1f;
    y = y * z + 2.0000714765e-1f;
    y = y * z + -2.4999993993e-1f;
    y = y * z + 3.3333331174e-1f;
    y = y * z * square + n * -2.12194440e-4f;
    y = z + (y - 0.5f * square) + n * 0x1.63p-1f;
    y = kvmill_chosen(x < __builtin_inff(), y, x);
    y = kvmill_chosen(x == 0, -__builtin_inff(), y);
    return kvmill_chosen(x < 0, __builtin_nanf(""), y);
}

#endif
