/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "scalar_kinds.h"

/* Floats are computed in double precision; narrower types get the same result as if rounded once.
 */

static double larger(double a, double b) {
    if (a != a || b != b)
        return a + b;
    if (a == b)
        return signbit(a) ? b : a;
    return a > b ? a : b;
}

static double smaller(double a, double b) {
    if (a != a || b != b)
        return a + b;
    if (a == b)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

static double sign_of(double x) {
    return x > 0 ? 1 : x < 0 ? -1 : x;
}

static double clamped(double least, double x, double most) {
    return smaller(larger(least, x), most);
}

static double sum(double a, double b) {
    return a + b;
}

static double difference(double a, double b) {
    return a - b;
}

static double product(double a, double b) {
    return a * b;
}

static double quotient(double a, double b) {
    return a / b;
}

static double magnitude(double x) {
    return fabs(x);
}

static double negated(double x) {
    return -x;
}

static double logistic(double x) {
    return 1 / (1 + exp(-x));
}

static double inverse_root(double x) {
    return 1 / sqrt(x);
}

static double (*const of_one[])(double) = {
    [SCALAR_ABS] = magnitude,
    [SCALAR_CBRT] = cbrt,
    [SCALAR_CEIL] = ceil,
    [SCALAR_COSINE] = cos,
    [SCALAR_EXP] = exp,
    [SCALAR_EXPM1] = expm1,
    [SCALAR_FLOOR] = floor,
    [SCALAR_LOG] = log,
    [SCALAR_LOG1P] = log1p,
    [SCALAR_LOGISTIC] = logistic,
    [SCALAR_NEGATE] = negated,
    [SCALAR_ROUND_AFZ] = round,
    [SCALAR_ROUND_EVEN] = nearbyint,
    [SCALAR_RSQRT] = inverse_root,
    [SCALAR_SIGN] = sign_of,
    [SCALAR_SINE] = sin,
    [SCALAR_SQRT] = sqrt,
    [SCALAR_TAN] = tan,
    [SCALAR_TANH] = tanh,
};

static double (*const of_two[])(double, double) = {
    [SCALAR_ADD] = sum,        [SCALAR_ATAN2] = atan2,     [SCALAR_DIVIDE] = quotient,
    [SCALAR_MAXIMUM] = larger, [SCALAR_MINIMUM] = smaller, [SCALAR_MULTIPLY] = product,
    [SCALAR_POWER] = pow,      [SCALAR_REMAINDER] = fmod,  [SCALAR_SUBTRACT] = difference,
};

struct kvmill_scalar kvmill_apply_to_floats(const struct kvmill_scalar_call *call,
                                            const struct kvmill_scalar *operands) {
    double value[3] = {0, 0, 0};
    for (int i = 0; i < call->op->operands; i++)
        value[i] = kvmill_float_of(call->types[i]->dtype, operands[i].word[0]);
    int code = call->op->code;
    double result = call->op->operands == 1   ? of_one[code](value[0])
                    : call->op->operands == 2 ? of_two[code](value[0], value[1])
                                              : clamped(value[0], value[1], value[2]);
    return (struct kvmill_scalar){{kvmill_bits_of(call->result->dtype, result), 0}};
}
