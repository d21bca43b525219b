/* Converts float16 to float and back, in portable C.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_HALVES_H
#define KVMILL_ONNXRUNTIME_HALVES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Multiplying by 2^112 converts a half's exponent to a float's, also for subnormal numbers. */
static inline float half_value(uint16_t half) {
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f;
    memcpy(&bits, &value, sizeof bits);
    bits |= (uint32_t)(half & 0x8000) << 16 | ((half & 0x7c00) == 0x7c00 ? 0x7f800000u : 0);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds to the nearest, ties to even. */
static inline uint16_t half_of(float value) {
    uint32_t bits, magnitude;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return sign | 0x7e00;
    if (magnitude >= 0x477ff000) /* 65520 rounds up */
        return sign | 0x7c00;
    if (magnitude < 0x38800000) { /* below 2^-14, where halves are 2^-24 apart */
        float shifted;
        memcpy(&shifted, &magnitude, sizeof shifted);
        shifted += 0.5f; /* the last bit is 2^-24 now */
        memcpy(&magnitude, &shifted, sizeof magnitude);
        return sign | (uint16_t)(magnitude - 0x3f000000);
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return sign | (uint16_t)((magnitude - 0x38000000) >> 13);
}

/* Returns number i of a float16 or a float array. */
static inline float number_at(const void *numbers, bool half, int64_t i) {
    return half ? half_value(((const uint16_t *)numbers)[i]) : ((const float *)numbers)[i];
}

#endif
