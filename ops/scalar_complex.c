/* SPDX-License-Identifier: Apache-2.0 */
#include "scalar_kinds.h"

/* Complex numbers. */

struct pair {
    double real, imaginary;
};

static struct pair pair_of(DLDataType type, struct kvmill_scalar scalar) {
    DLDataType half = {kDLFloat, (uint8_t)(type.bits / 2), 1};
    return (struct pair){kvmill_float_of(half, kvmill_real_of(type, scalar).word[0]),
                         kvmill_float_of(half, kvmill_imaginary_of(type, scalar).word[0])};
}

/* Ordered by the real part, then by the imaginary part. */
static bool pair_is_less(struct pair a, struct pair b) {
    return a.real < b.real || (a.real == b.real && a.imaginary < b.imaginary);
}

static bool pair_is_nan(struct pair a) {
    return a.real != a.real || a.imaginary != a.imaginary;
}

static struct pair quotient(struct pair a, struct pair b) {
    double square = b.real * b.real + b.imaginary * b.imaginary;
    return (struct pair){(a.real * b.real + a.imaginary * b.imaginary) / square,
                         (a.imaginary * b.real - a.real * b.imaginary) / square};
}

static struct pair extreme(struct pair a, struct pair b, bool largest) {
    if (pair_is_nan(a) || pair_is_nan(b))
        return pair_is_nan(a) ? a : b;
    return pair_is_less(a, b) == largest ? b : a;
}

static struct pair pair_apply(int code, struct pair a, struct pair b) {
    switch (code) {
    case SCALAR_ADD:
        return (struct pair){a.real + b.real, a.imaginary + b.imaginary};
    case SCALAR_DIVIDE:
        return quotient(a, b);
    case SCALAR_MAXIMUM:
        return extreme(a, b, true);
    case SCALAR_MINIMUM:
        return extreme(a, b, false);
    case SCALAR_MULTIPLY:
        return (struct pair){a.real * b.real - a.imaginary * b.imaginary,
                             a.real * b.imaginary + a.imaginary * b.real};
    case SCALAR_NEGATE:
        return (struct pair){-a.real, -a.imaginary};
    default:
        return (struct pair){a.real - b.real, a.imaginary - b.imaginary};
    }
}

struct kvmill_scalar kvmill_apply_to_complex(const struct kvmill_scalar_call *call,
                                             const struct kvmill_scalar *operands) {
    DLDataType type = call->result->dtype, half = {kDLFloat, (uint8_t)(type.bits / 2), 1};
    struct pair a = pair_of(type, operands[0]), b = a;
    if (call->op->operands > 1)
        b = pair_of(type, operands[1]);
    struct pair result = pair_apply(call->op->code, a, b);
    return kvmill_complex_of(type, kvmill_bits_of(half, result.real),
                             kvmill_bits_of(half, result.imaginary));
}

struct kvmill_scalar kvmill_apply_to_parts(const struct kvmill_scalar_call *call,
                                           const struct kvmill_scalar *operands) {
    if (call->op->code == SCALAR_REAL)
        return kvmill_real_of(call->types[0]->dtype, operands[0]);
    if (call->op->code == SCALAR_IMAG)
        return kvmill_imaginary_of(call->types[0]->dtype, operands[0]);
    return kvmill_complex_of(call->result->dtype, operands[0].word[0], operands[1].word[0]);
}

struct kvmill_order kvmill_complex_order(DLDataType type, struct kvmill_scalar left,
                                         struct kvmill_scalar right) {
    struct pair a = pair_of(type, left), b = pair_of(type, right);
    return (struct kvmill_order){.less = pair_is_less(a, b),
                                 .equal = a.real == b.real && a.imaginary == b.imaginary,
                                 .unordered = pair_is_nan(a) || pair_is_nan(b)};
}
