/* SPDX-License-Identifier: Apache-2.0 */
#include "scalar.h"

#include "scalar_kinds.h"

/* ---- Comparison ---- */

static bool holds(enum kvmill_direction direction, struct kvmill_order order) {
    switch (direction) {
    case KVMILL_EQ:
        return order.equal;
    case KVMILL_NE:
        return !order.equal;
    case KVMILL_GE:
        return !order.less && !order.unordered;
    case KVMILL_GT:
        return !order.less && !order.equal && !order.unordered;
    case KVMILL_LE:
        return order.less || order.equal;
    default:
        return order.less;
    }
}

/* Floats as integers in their total order. */
static int64_t total_rank(DLDataType type, uint64_t bits) {
    uint64_t magnitude = bits & (((uint64_t)1 << (type.bits - 1)) - 1);
    return bits >> (type.bits - 1) & 1 ? -(int64_t)magnitude - 1 : (int64_t)magnitude;
}

static struct kvmill_order total_order(DLDataType type, uint64_t a, uint64_t b) {
    int64_t left = total_rank(type, a), right = total_rank(type, b);
    return (struct kvmill_order){.less = left < right, .equal = left == right};
}

static struct kvmill_order float_order(DLDataType type, uint64_t a, uint64_t b) {
    double x = kvmill_float_of(type, a), y = kvmill_float_of(type, b);
    return (struct kvmill_order){.less = x < y, .equal = x == y, .unordered = x != x || y != y};
}

static struct kvmill_order integer_order(DLDataType type, uint64_t left, uint64_t right) {
    uint64_t a = kvmill_integer_of(type, left), b = kvmill_integer_of(type, right);
    bool is_signed = kvmill_kind_of(type) == KVMILL_INT;
    return (struct kvmill_order){.less = is_signed ? (int64_t)a < (int64_t)b : a < b,
                                 .equal = a == b};
}

static struct kvmill_order order_of(const struct kvmill_scalar_call *call, struct kvmill_scalar a,
                                    struct kvmill_scalar b) {
    DLDataType type = call->types[0]->dtype;
    switch (kvmill_kind_of(type)) {
    case KVMILL_FLOAT:
        return call->total ? total_order(type, a.word[0], b.word[0])
                           : float_order(type, a.word[0], b.word[0]);
    case KVMILL_COMPLEX:
        return kvmill_complex_order(type, a, b);
    default:
        return integer_order(type, a.word[0], b.word[0]);
    }
}

static bool is_finite(DLDataType type, uint64_t bits) {
    double value = kvmill_float_of(type, bits);
    return value - value == 0;
}

/* ---- Quantized: dequantize, apply, quantize ---- */

static struct kvmill_scalar apply_to_quantized(const struct kvmill_scalar_call *call,
                                               const struct kvmill_scalar *operands) {
    struct kvmill_scalar_call plain = *call;
    struct kvmill_scalar values[3] = {{{0, 0}}};
    kvmill_element_type types[3], result = *call->result;
    for (int i = 0; i < call->op->operands; i++) {
        types[i] = *call->types[i];
        if (kvmill_is_quantized(&types[i]))
            types[i] = (kvmill_element_type){.dtype = call->types[i]->expressed};
        values[i] = kvmill_scalar_convert(call->types[i], &types[i], operands[i]);
        plain.types[i] = &types[i];
    }
    if (kvmill_is_quantized(&result))
        result = (kvmill_element_type){.dtype = call->result->expressed};
    plain.result = &result;
    return kvmill_scalar_convert(&result, call->result, kvmill_scalar_apply(&plain, values));
}

static bool is_any_quantized(const struct kvmill_scalar_call *call) {
    bool found = kvmill_is_quantized(call->result);
    for (int i = 0; i < call->op->operands; i++)
        found |= kvmill_is_quantized(call->types[i]);
    return found;
}

struct kvmill_scalar kvmill_scalar_apply(const struct kvmill_scalar_call *call,
                                         const struct kvmill_scalar *operands) {
    switch (call->op->code) {
    case SCALAR_SELECT:
        return operands[operands[0].word[0] ? 1 : 2];
    case SCALAR_CONVERT:
        return kvmill_scalar_convert(call->types[0], call->result, operands[0]);
    }
    if (is_any_quantized(call))
        return apply_to_quantized(call, operands);
    if (call->op->code == SCALAR_COMPARE)
        return (struct kvmill_scalar){
            {holds(call->direction, order_of(call, operands[0], operands[1])), 0}};
    if (call->op->code == SCALAR_IS_FINITE)
        return (struct kvmill_scalar){{is_finite(call->types[0]->dtype, operands[0].word[0]), 0}};
    if (call->op->signature == KVMILL_PARTS)
        return kvmill_apply_to_parts(call, operands);
    switch (kvmill_kind_of(call->result->dtype)) {
    case KVMILL_FLOAT:
        return kvmill_apply_to_floats(call, operands);
    case KVMILL_COMPLEX:
        return kvmill_apply_to_complex(call, operands);
    default:
        return kvmill_apply_to_integers(call, operands);
    }
}
