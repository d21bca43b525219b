/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_windows.h"

#include <math.h>
#include <string.h>

#include "../elements.h"

const char *const operation_names[OPERATIONS] = {
    "replace", "add", "subtract", "multiply", "minimum", "maximum", "and", "or", "xor"};

int64_t oracle_element_bytes(DLDataType type) {
    return (type.bits * type.lanes + 7) / 8;
}

/* ---- Floats: double has enough bits to round the other types only once ---- */

static double extreme(double x, double y, bool largest) {
    if (x != x || y != y)
        return NAN;
    if (x == y)
        return (signbit(x) != 0) == largest ? y : x;
    return (x < y) == largest ? y : x;
}

static void combine_floats(DLDataType type, enum operation operation, unsigned char *a,
                           const unsigned char *b) {
    double x = number_get(type, a), y = number_get(type, b);
    number_put(type, a,
               operation == ADD        ? x + y
               : operation == SUBTRACT ? x - y
               : operation == MULTIPLY ? x * y
                                       : extreme(x, y, operation == MAXIMUM));
}

/* ---- Integers; types of less than 8 bits take a byte for each element ---- */

static uint64_t get_bits(DLDataType type, const unsigned char *at) {
    uint64_t bits = 0, sign = (uint64_t)1 << (type.bits - 1);
    memcpy(&bits, at, (size_t)oracle_element_bytes(type));
    if (type.bits < 64)
        bits &= 2 * sign - 1;
    return type.code == kDLInt && (bits & sign) ? bits - 2 * sign : bits;
}

static void combine_integers(DLDataType type, enum operation operation, unsigned char *a,
                             const unsigned char *b) {
    uint64_t x = get_bits(type, a), y = get_bits(type, b);
    bool is_less = type.code == kDLInt ? (int64_t)x < (int64_t)y : x < y;
    const uint64_t results[OPERATIONS] = {[ADD] = x + y,
                                          [SUBTRACT] = x - y,
                                          [MULTIPLY] = x * y,
                                          [MINIMUM] = is_less ? x : y,
                                          [MAXIMUM] = is_less ? y : x,
                                          [AND] = x & y,
                                          [OR] = x | y,
                                          [XOR] = x ^ y};
    uint64_t mask = type.bits < 64 ? ((uint64_t)1 << type.bits) - 1 : UINT64_MAX;
    uint64_t result = results[operation] & mask;
    memcpy(a, &result, (size_t)oracle_element_bytes(type));
}

/* ---- All types ---- */

static void combine(DLDataType type, enum operation operation, unsigned char *a,
                    const unsigned char *b) {
    const DLDataType half = {kDLFloat, (uint8_t)(type.bits / 2), 1};
    if (operation == REPLACE) {
        memcpy(a, b, (size_t)oracle_element_bytes(type));
    } else if (type.code == KVMILL_DL_BOOL) {
        *a = operation == AND ? *a && *b : operation == OR ? *a || *b : (*a != 0) != (*b != 0);
    } else if (type.code == kDLComplex) {
        combine(half, operation, a, b);
        combine(half, operation, a + type.bits / 16, b + type.bits / 16);
    } else if (type.code == kDLInt || type.code == kDLUInt) {
        combine_integers(type, operation, a, b);
    } else {
        combine_floats(type, operation, a, b);
    }
}

void oracle_combine_elements(void *context, unsigned char *const *accumulators,
                             const unsigned char *const *updates) {
    const struct combiner *combiner = context;
    combine(combiner->type, combiner->operation, accumulators[0], updates[0]);
}
