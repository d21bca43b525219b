/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Floating types ---- */

struct floating {
    int mantissa, bias, bytes; /* the mantissa in bits */
    bool saturates, finite;
};

static const struct floating floating[] = {
    [ORACLE_F32] = {.mantissa = 23, .bias = 127, .bytes = 4},
    [ORACLE_F16] = {.mantissa = 10, .bias = 15, .bytes = 2},
    [ORACLE_BF16] = {.mantissa = 7, .bias = 127, .bytes = 2},
    [ORACLE_E4M3] = {.mantissa = 3, .bias = 7, .bytes = 1, .saturates = true, .finite = true},
    [ORACLE_E5M2] = {.mantissa = 2, .bias = 15, .bytes = 1, .saturates = true},
};

enum { MANTISSA = 52, BIAS = 1023 }; /* of double */

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double number_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns 2^exponent, a normal double.  ldexp took much of the oracle's time. */
static double power(int exponent) {
    return number_of((uint64_t)(BIAS + exponent) << MANTISSA);
}

/* Returns the power of 2 that is above all numbers.  E4M3 has one more exponent; its last mantissa
   is NaN. */
static double end_of(const struct floating *type) {
    return power(type->bias + 1 + type->finite);
}

static double largest_number(const struct floating *type) {
    return end_of(type) * (1 - power(-type->mantissa - 1) * (type->finite ? 2 : 1));
}

/* Returns the exponent of the unit in the last place: numbers of this magnitude are multiples of
   2^quantum. */
static int quantum_of(const struct floating *type, double magnitude) {
    int exponent = (int)(bits_of(magnitude) >> MANTISSA) - BIAS, least = 1 - type->bias;
    return (exponent < least ? least : exponent) - type->mantissa;
}

/* Returns the nearest multiple of 2^quantum: it is the last bit of a sum that is 2^52 times as
   large. nearbyint is slower. */
static double nearest_multiple(double magnitude, int quantum) {
    double large = power(MANTISSA + quantum);
    return magnitude + large - large;
}

double oracle_round(enum oracle_type number, double x) {
    const struct floating *type = &floating[number];
    double magnitude = fabs(x);
    if (magnitude < end_of(type))
        magnitude = nearest_multiple(magnitude, quantum_of(type, magnitude));
    if (magnitude >= end_of(type))
        magnitude = INFINITY;
    if (type->saturates && magnitude > largest_number(type))
        magnitude = largest_number(type);
    return copysign(magnitude, x);
}

static uint32_t infinity_of(const struct floating *type) {
    return (2 * (uint32_t)type->bias + 1) << type->mantissa;
}

static uint32_t sign_of(const struct floating *type) {
    return 1u << (8 * type->bytes - 1);
}

/* Encodes a magnitude: the bits of a double, with the other exponent bias. */
static uint32_t encode_magnitude(const struct floating *type, double x) {
    if (isnan(x))
        return infinity_of(type) | (type->finite ? 7u : 1u << (type->mantissa - 1));
    if (isinf(x))
        return infinity_of(type);
    return (uint32_t)(bits_of(x * power(type->bias - BIAS)) >> (MANTISSA - type->mantissa));
}

uint32_t oracle_encode(enum oracle_type number, double x) {
    const struct floating *type = &floating[number];
    uint32_t magnitude = encode_magnitude(type, fabs(oracle_round(number, x)));
    return signbit(x) ? magnitude | sign_of(type) : magnitude;
}

static bool is_number(const struct floating *type, uint32_t magnitude) {
    return magnitude < infinity_of(type) || (type->finite && magnitude != infinity_of(type) + 7);
}

static double decode_magnitude(const struct floating *type, uint32_t bits) {
    if (!is_number(type, bits))
        return bits == infinity_of(type) ? INFINITY : NAN;
    return number_of((uint64_t)bits << (MANTISSA - type->mantissa)) * power(BIAS - type->bias);
}

double oracle_decode(enum oracle_type number, uint32_t bits) {
    const struct floating *type = &floating[number];
    double magnitude = decode_magnitude(type, bits & (sign_of(type) - 1));
    return bits & sign_of(type) && !isnan(magnitude) ? -magnitude : magnitude;
}

/* ---- Arrays ---- */

/* The types of blocks of llama.cpp. */
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

/* Numbers have the processor's byte order. */
static uint32_t bits_at(const unsigned char *at, int bytes) {
    uint32_t word;
    uint16_t half;
    if (bytes == 1)
        return *at;
    memcpy(&half, at, sizeof half);
    if (bytes == 2)
        return half;
    memcpy(&word, at, sizeof word);
    return word;
}

static void put_bits(unsigned char *at, int bytes, uint32_t word) {
    uint16_t half = (uint16_t)word;
    if (bytes == 1)
        *at = (unsigned char)word;
    else if (bytes == 2)
        memcpy(at, &half, sizeof half);
    else
        memcpy(at, &word, sizeof word);
}

double oracle_get(enum oracle_type type, const unsigned char *array, int64_t number) {
    if (type == ORACLE_I4) {
        int nibble = oracle_get_nibble(array, number);
        return nibble < 8 ? nibble : nibble - 16;
    }
    if (type == ORACLE_I8)
        return array[number] < 128 ? array[number] : array[number] - 256;
    int bytes = floating[type].bytes;
    return oracle_decode(type, bits_at(array + number * bytes, bytes));
}

void oracle_put(enum oracle_type type, unsigned char *array, int64_t number, double x) {
    if (type == ORACLE_I4) {
        oracle_put_nibble(array, number, (int)x);
    } else if (type == ORACLE_I8) {
        array[number] = (unsigned char)(int)x;
    } else {
        int bytes = floating[type].bytes;
        put_bits(array + number * bytes, bytes, oracle_encode(type, x));
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
