/* SPDX-License-Identifier: Apache-2.0 */
#include "scalar_kinds.h"

/* Integers: in 64 bits, sign- or zero-extended; what is stored wraps. */

static uint64_t mask_of(DLDataType type) {
    return type.bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << type.bits) - 1;
}

static int leading_zeros(uint64_t value, int bits) {
    int count = 0;
    while (count < bits && !(value >> (bits - 1 - count) & 1))
        count++;
    return count;
}

static int ones(uint64_t value) {
    int count = 0;
    for (; value; value &= value - 1)
        count++;
    return count;
}

/* x / 0 is -1 and x % 0 is x, as in XLA. */
static uint64_t divided(bool is_signed, uint64_t a, uint64_t b, bool remainder) {
    if (b == 0)
        return remainder ? a : ~(uint64_t)0;
    if (!is_signed)
        return remainder ? a % b : a / b;
    if ((int64_t)b == -1)
        return remainder ? 0 : 0 - a;
    return (uint64_t)(remainder ? (int64_t)a % (int64_t)b : (int64_t)a / (int64_t)b);
}

static uint64_t raised(bool is_signed, uint64_t a, uint64_t b) {
    uint64_t result = 1;
    if (is_signed && (int64_t)b < 0)
        return a == 1 ? 1 : a == ~(uint64_t)0 ? (b & 1 ? a : 1) : 0;
    for (; b; b >>= 1, a *= a)
        if (b & 1)
            result *= a;
    return result;
}

static bool is_less(bool is_signed, uint64_t a, uint64_t b) {
    return is_signed ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t shifted_right(DLDataType type, uint64_t a, uint64_t b, bool arithmetic) {
    uint64_t bits = type.bits, mask = mask_of(type);
    bool negative = arithmetic && (a >> (bits - 1) & 1);
    if (b >= bits)
        return negative ? ~(uint64_t)0 : 0;
    uint64_t shifted = (a & mask) >> b;
    return negative ? shifted | ~(mask >> b) : shifted;
}

static uint64_t bits_apply(DLDataType type, int code, uint64_t a, uint64_t b) {
    bool is_truth = type.code == KVMILL_DL_BOOL;
    switch (code) {
    case SCALAR_AND:
        return a & b;
    case SCALAR_CLZ:
        return (uint64_t)leading_zeros(a, type.bits);
    case SCALAR_NOT:
        return is_truth ? !a : ~a;
    case SCALAR_OR:
        return a | b;
    case SCALAR_POPCNT:
        return (uint64_t)ones(a & mask_of(type));
    case SCALAR_SHL:
        return b >= type.bits ? 0 : a << b;
    case SCALAR_SRA:
        return shifted_right(type, a, b, true);
    case SCALAR_SRL:
        return shifted_right(type, a, b, false);
    default:
        return a ^ b;
    }
}

static uint64_t integer_apply(DLDataType type, int code, uint64_t a, uint64_t b, uint64_t c) {
    bool is_signed = type.code == kDLInt, is_truth = type.code == KVMILL_DL_BOOL;
    switch (code) {
    case SCALAR_ABS:
        return (int64_t)a < 0 ? 0 - a : a;
    case SCALAR_ADD:
        return is_truth ? a | b : a + b;
    case SCALAR_CLAMP:
        a = is_less(is_signed, b, a) ? a : b;
        return is_less(is_signed, c, a) ? c : a;
    case SCALAR_DIVIDE:
        return divided(is_signed, a, b, false);
    case SCALAR_MAXIMUM:
        return is_less(is_signed, a, b) ? b : a;
    case SCALAR_MINIMUM:
        return is_less(is_signed, b, a) ? b : a;
    case SCALAR_MULTIPLY:
        return is_truth ? a & b : a * b;
    case SCALAR_NEGATE:
        return 0 - a;
    case SCALAR_POWER:
        return raised(is_signed, a, b);
    case SCALAR_REMAINDER:
        return divided(is_signed, a, b, true);
    case SCALAR_SIGN:
        return (int64_t)a < 0 ? ~(uint64_t)0 : a != 0;
    case SCALAR_SUBTRACT:
        return a - b;
    default:
        return bits_apply(type, code, a, b);
    }
}

struct kvmill_scalar kvmill_apply_to_integers(const struct kvmill_scalar_call *call,
                                              const struct kvmill_scalar *operands) {
    uint64_t value[3] = {0, 0, 0};
    DLDataType type = call->result->dtype;
    for (int i = 0; i < call->op->operands; i++)
        value[i] = kvmill_integer_of(call->types[i]->dtype, operands[i].word[0]);
    uint64_t result = integer_apply(type, call->op->code, value[0], value[1], value[2]);
    return (struct kvmill_scalar){{result & mask_of(type), 0}};
}
