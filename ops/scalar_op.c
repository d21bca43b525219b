/* SPDX-License-Identifier: Apache-2.0 */
#include "scalar_op.h"

#include <string.h>

#define BOOLS    (1u << KVMILL_BOOL)
#define INTS     (1u << KVMILL_INT | 1u << KVMILL_UINT)
#define FLOATS   (1u << KVMILL_FLOAT)
#define COMPLEXS (1u << KVMILL_COMPLEX)
#define NUMERIC  (INTS | FLOATS | COMPLEXS)
#define ANY      (BOOLS | NUMERIC)

static const struct kvmill_scalar_op scalar_ops[] = {
    {"abs", 1, KVMILL_ALIKE, 1u << KVMILL_INT | FLOATS, SCALAR_ABS},
    {"add", 2, KVMILL_ALIKE, ANY, SCALAR_ADD},
    {"and", 2, KVMILL_ALIKE, BOOLS | INTS, SCALAR_AND},
    {"atan2", 2, KVMILL_ALIKE, FLOATS, SCALAR_ATAN2},
    {"cbrt", 1, KVMILL_ALIKE, FLOATS, SCALAR_CBRT},
    {"ceil", 1, KVMILL_ALIKE, FLOATS, SCALAR_CEIL},
    {"clamp", 3, KVMILL_ALIKE, BOOLS | INTS | FLOATS, SCALAR_CLAMP},
    {"compare", 2, KVMILL_TO_BOOL, ANY, SCALAR_COMPARE},
    {"complex", 2, KVMILL_PARTS, FLOATS, SCALAR_COMPLEX},
    {"convert", 1, KVMILL_CONVERTS, ANY, SCALAR_CONVERT},
    {"cosine", 1, KVMILL_ALIKE, FLOATS, SCALAR_COSINE},
    {"count_leading_zeros", 1, KVMILL_ALIKE, INTS, SCALAR_CLZ},
    {"divide", 2, KVMILL_ALIKE, NUMERIC, SCALAR_DIVIDE},
    {"exponential", 1, KVMILL_ALIKE, FLOATS, SCALAR_EXP},
    {"exponential_minus_one", 1, KVMILL_ALIKE, FLOATS, SCALAR_EXPM1},
    {"floor", 1, KVMILL_ALIKE, FLOATS, SCALAR_FLOOR},
    {"imag", 1, KVMILL_PARTS, COMPLEXS, SCALAR_IMAG},
    {"is_finite", 1, KVMILL_TO_BOOL, FLOATS, SCALAR_IS_FINITE},
    {"log", 1, KVMILL_ALIKE, FLOATS, SCALAR_LOG},
    {"log_plus_one", 1, KVMILL_ALIKE, FLOATS, SCALAR_LOG1P},
    {"logistic", 1, KVMILL_ALIKE, FLOATS, SCALAR_LOGISTIC},
    {"maximum", 2, KVMILL_ALIKE, ANY, SCALAR_MAXIMUM},
    {"minimum", 2, KVMILL_ALIKE, ANY, SCALAR_MINIMUM},
    {"multiply", 2, KVMILL_ALIKE, ANY, SCALAR_MULTIPLY},
    {"negate", 1, KVMILL_ALIKE, NUMERIC, SCALAR_NEGATE},
    {"not", 1, KVMILL_ALIKE, BOOLS | INTS, SCALAR_NOT},
    {"or", 2, KVMILL_ALIKE, BOOLS | INTS, SCALAR_OR},
    {"popcnt", 1, KVMILL_ALIKE, INTS, SCALAR_POPCNT},
    {"power", 2, KVMILL_ALIKE, INTS | FLOATS, SCALAR_POWER},
    {"real", 1, KVMILL_PARTS, COMPLEXS, SCALAR_REAL},
    {"remainder", 2, KVMILL_ALIKE, INTS | FLOATS, SCALAR_REMAINDER},
    {"round_nearest_afz", 1, KVMILL_ALIKE, FLOATS, SCALAR_ROUND_AFZ},
    {"round_nearest_even", 1, KVMILL_ALIKE, FLOATS, SCALAR_ROUND_EVEN},
    {"rsqrt", 1, KVMILL_ALIKE, FLOATS, SCALAR_RSQRT},
    {"select", 3, KVMILL_CHOOSES, ANY, SCALAR_SELECT},
    {"shift_left", 2, KVMILL_ALIKE, INTS, SCALAR_SHL},
    {"shift_right_arithmetic", 2, KVMILL_ALIKE, INTS, SCALAR_SRA},
    {"shift_right_logical", 2, KVMILL_ALIKE, INTS, SCALAR_SRL},
    {"sign", 1, KVMILL_ALIKE, 1u << KVMILL_INT | FLOATS, SCALAR_SIGN},
    {"sine", 1, KVMILL_ALIKE, FLOATS, SCALAR_SINE},
    {"sqrt", 1, KVMILL_ALIKE, FLOATS, SCALAR_SQRT},
    {"subtract", 2, KVMILL_ALIKE, NUMERIC, SCALAR_SUBTRACT},
    {"tan", 1, KVMILL_ALIKE, FLOATS, SCALAR_TAN},
    {"tanh", 1, KVMILL_ALIKE, FLOATS, SCALAR_TANH},
    {"uniform_dequantize", 1, KVMILL_CONVERTS, ANY, SCALAR_CONVERT},
    {"uniform_quantize", 1, KVMILL_CONVERTS, ANY, SCALAR_CONVERT},
    {"xor", 2, KVMILL_ALIKE, BOOLS | INTS, SCALAR_XOR},
};

const struct kvmill_scalar_op *kvmill_scalar_op_by_name(const char *name) {
    for (size_t i = 0; i < sizeof scalar_ops / sizeof *scalar_ops; i++)
        if (strcmp(scalar_ops[i].name, name) == 0)
            return &scalar_ops[i];
    return NULL;
}

bool kvmill_direction_by_name(const char *name, enum kvmill_direction *direction) {
    static const char names[][3] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
    for (int i = 0; i < 6; i++)
        if (strcmp(names[i], name) == 0) {
            *direction = (enum kvmill_direction)i;
            return true;
        }
    return false;
}

/* ---- Types ---- */

static bool takes(const struct kvmill_scalar_op *op, const kvmill_element_type *type) {
    DLDataType value = kvmill_is_quantized(type) ? type->expressed : type->dtype;
    return (op->kinds >> kvmill_kind_of(value) & 1) != 0;
}

static bool is_bool(const kvmill_element_type *type) {
    return kvmill_kind_of(type->dtype) == KVMILL_BOOL;
}

static bool are_alike(const kvmill_element_type *const *types, int from, int count) {
    for (int i = from + 1; i < count; i++)
        if (!kvmill_element_equal(types[from], types[i]))
            return false;
    return true;
}

static bool parts_fit(const struct kvmill_scalar_op *op, const kvmill_element_type *const *operands,
                      const kvmill_element_type *result) {
    const kvmill_element_type *whole = op->code == SCALAR_COMPLEX ? result : operands[0];
    const kvmill_element_type *part = op->code == SCALAR_COMPLEX ? operands[0] : result;
    return are_alike(operands, 0, op->operands) && kvmill_kind_of(whole->dtype) == KVMILL_COMPLEX &&
           kvmill_kind_of(part->dtype) == KVMILL_FLOAT && part->dtype.bits * 2 == whole->dtype.bits;
}

bool kvmill_scalar_op_fits(const struct kvmill_scalar_op *op,
                           const kvmill_element_type *const *operands,
                           const kvmill_element_type *result, const char **accepted) {
    int first = op->signature == KVMILL_CHOOSES;
    *accepted = "a type that the op is defined for";
    if (!takes(op, operands[first]) ||
        !takes(op, op->signature == KVMILL_ALIKE ? result : operands[first]))
        return false;
    switch (op->signature) {
    case KVMILL_ALIKE:
        *accepted = "operands and result of one type";
        return are_alike(operands, 0, op->operands) && kvmill_element_equal(operands[0], result);
    case KVMILL_TO_BOOL:
        *accepted = "operands of one type, and i1";
        return are_alike(operands, 0, op->operands) && is_bool(result);
    case KVMILL_CHOOSES:
        *accepted = "i1, and three of one type";
        return is_bool(operands[0]) && are_alike(operands, 1, 3) &&
               kvmill_element_equal(operands[1], result);
    case KVMILL_PARTS:
        *accepted = "complex numbers and their halves";
        return parts_fit(op, operands, result);
    default:
        return true;
    }
}
