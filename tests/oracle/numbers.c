/* SPDX-License-Identifier: Apache-2.0 */
#include "numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Floating types ---- */

struct floating {
    int mantissa, exponent; /* bits */
    int saturates, finite;
};

static const struct floating floating[] = {
    [ORACLE_F32] = {.mantissa = 23, .exponent = 8},
    [ORACLE_F16] = {.mantissa = 10, .exponent = 5},
    [ORACLE_BF16] = {.mantissa = 7, .exponent = 8},
    [ORACLE_E4M3] = {.mantissa = 3, .exponent = 4, .saturates = 1, .finite = 1},
    [ORACLE_E5M2] = {.mantissa = 2, .exponent = 5, .saturates = 1},
};

static int least_exponent(struct floating type) {
    return 2 - (1 << (type.exponent - 1));
}

static int most_exponent(struct floating type) {
    return 1 - least_exponent(type);
}

static int exponent_of(double x) {
    int exponent;
    frexp(x, &exponent);
    return exponent - 1;
}

/* x times 2^exponent, for what is far from the ends of double: most of the oracle's time was
 * ldexp's. */
static double scaled(double x, int exponent) {
    uint64_t bits = (uint64_t)(1023 + exponent) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return x * power;
}

/* Numbers of this magnitude are multiples of 2^quantum. */
static int quantum_of(struct floating type, double x) {
    int exponent = exponent_of(x);
    if (exponent < least_exponent(type))
        exponent = least_exponent(type);
    return exponent - type.mantissa;
}

/* E4M3 has one more exponent, of which the last mantissa is NaN's. */
static double largest_number(struct floating type) {
    return scaled(2 - scaled(type.finite ? 2 : 1, -type.mantissa),
                  most_exponent(type) + type.finite);
}

static double saturated(struct floating type, double x) {
    return type.saturates && fabs(x) > largest_number(type) ? copysign(largest_number(type), x) : x;
}

double oracle_round(enum oracle_type number, double x) {
    struct floating type = floating[number];
    if (x == 0 || !isfinite(x))
        return saturated(type, x);
    int quantum = quantum_of(type, x);
    double rounded = scaled(nearbyint(scaled(x, -quantum)), quantum);
    rounded = saturated(type, rounded);
    return fabs(rounded) >= scaled(1, most_exponent(type) + 1 + type.finite) ? copysign(INFINITY, x)
                                                                             : rounded;
}

static uint32_t encode_magnitude(struct floating type, double x) {
    uint32_t infinity = ((1u << type.exponent) - 1) << type.mantissa;
    if (isnan(x))
        return infinity | (type.finite ? 7u : 1u << (type.mantissa - 1));
    if (isinf(x))
        return infinity;
    if (x < scaled(1, least_exponent(type)))
        return (uint32_t)scaled(x, type.mantissa - least_exponent(type));
    int exponent = exponent_of(x);
    uint32_t mantissa = (uint32_t)scaled(x, type.mantissa - exponent) - (1u << type.mantissa);
    return (uint32_t)(exponent - least_exponent(type) + 1) << type.mantissa | mantissa;
}

uint32_t oracle_encode(enum oracle_type number, double x) {
    struct floating type = floating[number];
    uint32_t sign = (uint32_t)(signbit(x) != 0) << (type.mantissa + type.exponent);
    return sign | encode_magnitude(type, fabs(oracle_round(number, x)));
}

double oracle_decode(enum oracle_type number, uint32_t bits) {
    struct floating type = floating[number];
    uint32_t mantissa = bits & ((1u << type.mantissa) - 1);
    int exponent = (int)(bits >> type.mantissa & ((1u << type.exponent) - 1));
    double sign = bits >> (type.mantissa + type.exponent) & 1 ? -1 : 1;
    if (exponent == (1 << type.exponent) - 1 && (!type.finite || mantissa == 7))
        return mantissa != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * scaled(mantissa, least_exponent(type) - type.mantissa);
    return sign * scaled(mantissa + (1u << type.mantissa),
                         exponent - 1 + least_exponent(type) - type.mantissa);
}

/* ---- Arrays ---- */

/* llama.cpp's. */
static const struct {
    const char *word;
    int bits, middle;
    bool minimum;
} blocks[] = {
    [ORACLE_Q8_0] = {"q8_0", 8, 0, false},  [ORACLE_Q4_0] = {"q4_0", 4, 8, false},
    [ORACLE_Q5_1] = {"q5_1", 5, 0, true},   [ORACLE_Q4_1] = {"q4_1", 4, 0, true},
    [ORACLE_Q5_0] = {"q5_0", 5, 16, false}, [ORACLE_IQ4_NL] = {"iq4_nl", 4, 0, false},
    [ORACLE_Q6_0] = {"q6_0", 6, 32, false}, [ORACLE_Q8_KV] = {"q8_kv", 8, 0, false},
};

int64_t oracle_bytes(enum oracle_type type, int64_t count) {
    static const int bits[] = {
        [ORACLE_F32] = 32, [ORACLE_F16] = 16, [ORACLE_BF16] = 16, [ORACLE_I8] = 8,
        [ORACLE_I4] = 4,   [ORACLE_E4M3] = 8, [ORACLE_E5M2] = 8};
    if (type == ORACLE_Q8_KV)
        return 4 + 4 + count;
    if (!oracle_is_blocks(type))
        return (count * bits[type] + 7) / 8;
    return count / ORACLE_BLOCK *
           (2 + (blocks[type].minimum ? 2 : 0) + blocks[type].bits * ORACLE_BLOCK / 8);
}

int oracle_get_nibble(const unsigned char *array, int64_t number) {
    return number % 2 == 0 ? array[number / 2] & 15 : array[number / 2] >> 4;
}

void oracle_put_nibble(unsigned char *array, int64_t number, int nibble) {
    int byte = array[number / 2];
    byte = number % 2 == 0 ? (byte & 0xf0) | (nibble & 15) : (byte & 15) | (nibble & 15) << 4;
    array[number / 2] = (unsigned char)byte;
}

double oracle_get(enum oracle_type type, const unsigned char *array, int64_t number) {
    if (type == ORACLE_I4) {
        int nibble = oracle_get_nibble(array, number);
        return nibble < 8 ? nibble : nibble - 16;
    }
    if (type == ORACLE_I8)
        return array[number] < 128 ? array[number] : array[number] - 256;
    uint32_t bits = 0;
    int64_t size = oracle_bytes(type, 1);
    for (int64_t i = size - 1; i >= 0; i--)
        bits = bits << 8 | array[number * size + i];
    return oracle_decode(type, bits);
}

void oracle_put(enum oracle_type type, unsigned char *array, int64_t number, double x) {
    int64_t size = oracle_bytes(type, 1);
    if (type == ORACLE_I4) {
        oracle_put_nibble(array, number, (int)x);
    } else if (type == ORACLE_I8) {
        array[number] = (unsigned char)(int)x;
    } else {
        uint32_t bits = oracle_encode(type, x);
        for (int64_t i = 0; i < size; i++)
            array[number * size + i] = (unsigned char)(bits >> 8 * i);
    }
}

/* ---- Blocks ---- */

const char *oracle_word_of_blocks(enum oracle_type type) {
    return blocks[type].word;
}

enum oracle_type oracle_of_word(const char *word) {
    for (int type = ORACLE_Q8_0; type < (int)(sizeof blocks / sizeof *blocks); type++)
        if (blocks[type].word != NULL && strcmp(blocks[type].word, word) == 0)
            return (enum oracle_type)type;
    abort();
}

bool oracle_is_blocks(enum oracle_type type) {
    return blocks[type].word != NULL;
}

int64_t oracle_block(enum oracle_type type, int64_t dim) {
    return type == ORACLE_Q8_KV ? dim : ORACLE_BLOCK;
}

enum oracle_type oracle_block_scale(enum oracle_type type) {
    return type == ORACLE_Q8_KV ? ORACLE_F32 : ORACLE_F16;
}

bool oracle_has_minimum(enum oracle_type type) {
    return blocks[type].minimum;
}

int oracle_code_bits(enum oracle_type type) {
    return blocks[type].bits;
}

int oracle_middle(enum oracle_type type) {
    return blocks[type].middle;
}

bool oracle_is_integer(enum oracle_type type) {
    return type == ORACLE_I8 || type == ORACLE_I4;
}
