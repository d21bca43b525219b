/* SPDX-License-Identifier: Apache-2.0 */
#include "scalar.h"

#include <math.h>
#include <string.h>

enum code {
    ABS,
    ADD,
    AND,
    ATAN2,
    CBRT,
    CEIL,
    CLAMP,
    COMPARE,
    COMPLEX,
    CONVERT,
    COSINE,
    CLZ,
    DIVIDE,
    EXP,
    EXPM1,
    FLOOR,
    IMAG,
    IS_FINITE,
    LOG,
    LOG1P,
    LOGISTIC,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    NEGATE,
    NOT,
    OR,
    POPCNT,
    POWER,
    REAL,
    REMAINDER,
    ROUND_AFZ,
    ROUND_EVEN,
    RSQRT,
    SELECT,
    SHL,
    SRA,
    SRL,
    SIGN,
    SINE,
    SQRT,
    SUBTRACT,
    TAN,
    TANH,
    XOR
};

#define BOOLS    (1u << KVMILL_BOOL)
#define INTS     (1u << KVMILL_INT | 1u << KVMILL_UINT)
#define FLOATS   (1u << KVMILL_FLOAT)
#define COMPLEXS (1u << KVMILL_COMPLEX)
#define NUMERIC  (INTS | FLOATS | COMPLEXS)
#define ANY      (BOOLS | NUMERIC)

static const struct kvmill_scalar_op scalar_ops[] = {
    {"abs", 1, KVMILL_ALIKE, 1u << KVMILL_INT | FLOATS, ABS},
    {"add", 2, KVMILL_ALIKE, ANY, ADD},
    {"and", 2, KVMILL_ALIKE, BOOLS | INTS, AND},
    {"atan2", 2, KVMILL_ALIKE, FLOATS, ATAN2},
    {"cbrt", 1, KVMILL_ALIKE, FLOATS, CBRT},
    {"ceil", 1, KVMILL_ALIKE, FLOATS, CEIL},
    {"clamp", 3, KVMILL_ALIKE, BOOLS | INTS | FLOATS, CLAMP},
    {"compare", 2, KVMILL_TO_BOOL, ANY, COMPARE},
    {"complex", 2, KVMILL_PARTS, FLOATS, COMPLEX},
    {"convert", 1, KVMILL_CONVERTS, ANY, CONVERT},
    {"cosine", 1, KVMILL_ALIKE, FLOATS, COSINE},
    {"count_leading_zeros", 1, KVMILL_ALIKE, INTS, CLZ},
    {"divide", 2, KVMILL_ALIKE, NUMERIC, DIVIDE},
    {"exponential", 1, KVMILL_ALIKE, FLOATS, EXP},
    {"exponential_minus_one", 1, KVMILL_ALIKE, FLOATS, EXPM1},
    {"floor", 1, KVMILL_ALIKE, FLOATS, FLOOR},
    {"imag", 1, KVMILL_PARTS, COMPLEXS, IMAG},
    {"is_finite", 1, KVMILL_TO_BOOL, FLOATS, IS_FINITE},
    {"log", 1, KVMILL_ALIKE, FLOATS, LOG},
    {"log_plus_one", 1, KVMILL_ALIKE, FLOATS, LOG1P},
    {"logistic", 1, KVMILL_ALIKE, FLOATS, LOGISTIC},
    {"maximum", 2, KVMILL_ALIKE, ANY, MAXIMUM},
    {"minimum", 2, KVMILL_ALIKE, ANY, MINIMUM},
    {"multiply", 2, KVMILL_ALIKE, ANY, MULTIPLY},
    {"negate", 1, KVMILL_ALIKE, NUMERIC, NEGATE},
    {"not", 1, KVMILL_ALIKE, BOOLS | INTS, NOT},
    {"or", 2, KVMILL_ALIKE, BOOLS | INTS, OR},
    {"popcnt", 1, KVMILL_ALIKE, INTS, POPCNT},
    {"power", 2, KVMILL_ALIKE, INTS | FLOATS, POWER},
    {"real", 1, KVMILL_PARTS, COMPLEXS, REAL},
    {"remainder", 2, KVMILL_ALIKE, INTS | FLOATS, REMAINDER},
    {"round_nearest_afz", 1, KVMILL_ALIKE, FLOATS, ROUND_AFZ},
    {"round_nearest_even", 1, KVMILL_ALIKE, FLOATS, ROUND_EVEN},
    {"rsqrt", 1, KVMILL_ALIKE, FLOATS, RSQRT},
    {"select", 3, KVMILL_CHOOSES, ANY, SELECT},
    {"shift_left", 2, KVMILL_ALIKE, INTS, SHL},
    {"shift_right_arithmetic", 2, KVMILL_ALIKE, INTS, SRA},
    {"shift_right_logical", 2, KVMILL_ALIKE, INTS, SRL},
    {"sign", 1, KVMILL_ALIKE, 1u << KVMILL_INT | FLOATS, SIGN},
    {"sine", 1, KVMILL_ALIKE, FLOATS, SINE},
    {"sqrt", 1, KVMILL_ALIKE, FLOATS, SQRT},
    {"subtract", 2, KVMILL_ALIKE, NUMERIC, SUBTRACT},
    {"tan", 1, KVMILL_ALIKE, FLOATS, TAN},
    {"tanh", 1, KVMILL_ALIKE, FLOATS, TANH},
    {"uniform_dequantize", 1, KVMILL_CONVERTS, ANY, CONVERT},
    {"uniform_quantize", 1, KVMILL_CONVERTS, ANY, CONVERT},
    {"xor", 2, KVMILL_ALIKE, BOOLS | INTS, XOR},
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
    const kvmill_element_type *whole = op->code == COMPLEX ? result : operands[0];
    const kvmill_element_type *part = op->code == COMPLEX ? operands[0] : result;
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

/* ---- Floats, in double precision: narrower ones come out as if rounded once ---- */

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

static double float_apply(int code, double a, double b, double c) {
    switch (code) {
    case ABS:
        return fabs(a);
    case ADD:
        return a + b;
    case ATAN2:
        return atan2(a, b);
    case CBRT:
        return cbrt(a);
    case CEIL:
        return ceil(a);
    case CLAMP:
        return smaller(larger(a, b), c);
    case COSINE:
        return cos(a);
    case DIVIDE:
        return a / b;
    case EXP:
        return exp(a);
    case EXPM1:
        return expm1(a);
    case FLOOR:
        return floor(a);
    case LOG:
        return log(a);
    case LOG1P:
        return log1p(a);
    case LOGISTIC:
        return 1 / (1 + exp(-a));
    case MAXIMUM:
        return larger(a, b);
    case MINIMUM:
        return smaller(a, b);
    case MULTIPLY:
        return a * b;
    case NEGATE:
        return -a;
    case POWER:
        return pow(a, b);
    case REMAINDER:
        return fmod(a, b);
    case ROUND_AFZ:
        return round(a);
    case ROUND_EVEN:
        return nearbyint(a);
    case RSQRT:
        return 1 / sqrt(a);
    case SIGN:
        return sign_of(a);
    case SINE:
        return sin(a);
    case SQRT:
        return sqrt(a);
    case SUBTRACT:
        return a - b;
    case TAN:
        return tan(a);
    default:
        return tanh(a);
    }
}

static struct kvmill_scalar apply_to_floats(const struct kvmill_scalar_call *call,
                                            const struct kvmill_scalar *operands) {
    double value[3] = {0, 0, 0};
    for (int i = 0; i < call->op->operands; i++)
        value[i] = kvmill_float_of(call->types[i]->dtype, operands[i].word[0]);
    double result = float_apply(call->op->code, value[0], value[1], value[2]);
    return (struct kvmill_scalar){{kvmill_bits_of(call->result->dtype, result), 0}};
}

/* ---- Integers: in 64 bits, sign- or zero-extended; what is stored wraps ---- */

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

/* x / 0 is -1 and x % 0 is x, as XLA has it. */
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
    uint64_t bits = type.bits;
    uint64_t mask = bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1;
    bool negative = arithmetic && (a >> (bits - 1) & 1);
    if (b >= bits)
        return negative ? ~(uint64_t)0 : 0;
    uint64_t shifted = (a & mask) >> b;
    return negative ? shifted | ~(mask >> b) : shifted;
}

static uint64_t integer_apply(DLDataType type, int code, uint64_t a, uint64_t b, uint64_t c) {
    bool is_signed = type.code == kDLInt, is_truth = type.code == KVMILL_DL_BOOL;
    switch (code) {
    case ABS:
        return (int64_t)a < 0 ? 0 - a : a;
    case ADD:
        return is_truth ? a | b : a + b;
    case AND:
        return a & b;
    case CLAMP:
        a = is_less(is_signed, b, a) ? a : b;
        return is_less(is_signed, c, a) ? c : a;
    case CLZ:
        return (uint64_t)leading_zeros(a, type.bits);
    case DIVIDE:
        return divided(is_signed, a, b, false);
    case MAXIMUM:
        return is_less(is_signed, a, b) ? b : a;
    case MINIMUM:
        return is_less(is_signed, b, a) ? b : a;
    case MULTIPLY:
        return is_truth ? a & b : a * b;
    case NEGATE:
        return 0 - a;
    case NOT:
        return is_truth ? !a : ~a;
    case OR:
        return a | b;
    case POPCNT:
        return (uint64_t)ones(type.bits == 64 ? a : a & (((uint64_t)1 << type.bits) - 1));
    case POWER:
        return raised(is_signed, a, b);
    case REMAINDER:
        return divided(is_signed, a, b, true);
    case SHL:
        return b >= type.bits ? 0 : a << b;
    case SRA:
        return shifted_right(type, a, b, true);
    case SRL:
        return shifted_right(type, a, b, false);
    case SIGN:
        return (int64_t)a < 0 ? ~(uint64_t)0 : a != 0;
    case SUBTRACT:
        return a - b;
    default:
        return a ^ b;
    }
}

static struct kvmill_scalar apply_to_integers(const struct kvmill_scalar_call *call,
                                              const struct kvmill_scalar *operands) {
    uint64_t value[3] = {0, 0, 0};
    DLDataType type = call->result->dtype;
    for (int i = 0; i < call->op->operands; i++)
        value[i] = kvmill_integer_of(call->types[i]->dtype, operands[i].word[0]);
    uint64_t result = integer_apply(type, call->op->code, value[0], value[1], value[2]);
    uint64_t mask = type.bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << type.bits) - 1;
    return (struct kvmill_scalar){{result & mask, 0}};
}

/* ---- Complex numbers ---- */

struct pair {
    double real, imaginary;
};

static struct pair pair_of(DLDataType type, struct kvmill_scalar scalar) {
    DLDataType half = {kDLFloat, (uint8_t)(type.bits / 2), 1};
    return (struct pair){kvmill_float_of(half, kvmill_real_of(type, scalar).word[0]),
                         kvmill_float_of(half, kvmill_imaginary_of(type, scalar).word[0])};
}

/* By real, then by imaginary part. */
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
    case ADD:
        return (struct pair){a.real + b.real, a.imaginary + b.imaginary};
    case DIVIDE:
        return quotient(a, b);
    case MAXIMUM:
        return extreme(a, b, true);
    case MINIMUM:
        return extreme(a, b, false);
    case MULTIPLY:
        return (struct pair){a.real * b.real - a.imaginary * b.imaginary,
                             a.real * b.imaginary + a.imaginary * b.real};
    case NEGATE:
        return (struct pair){-a.real, -a.imaginary};
    default:
        return (struct pair){a.real - b.real, a.imaginary - b.imaginary};
    }
}

static struct kvmill_scalar apply_to_pairs(const struct kvmill_scalar_call *call,
                                           const struct kvmill_scalar *operands) {
    DLDataType type = call->result->dtype, half = {kDLFloat, (uint8_t)(type.bits / 2), 1};
    struct pair a = pair_of(type, operands[0]), b = a;
    if (call->op->operands > 1)
        b = pair_of(type, operands[1]);
    struct pair result = pair_apply(call->op->code, a, b);
    return kvmill_complex_of(type, kvmill_bits_of(half, result.real),
                             kvmill_bits_of(half, result.imaginary));
}

static struct kvmill_scalar apply_to_parts(const struct kvmill_scalar_call *call,
                                           const struct kvmill_scalar *operands) {
    if (call->op->code == REAL)
        return kvmill_real_of(call->types[0]->dtype, operands[0]);
    if (call->op->code == IMAG)
        return kvmill_imaginary_of(call->types[0]->dtype, operands[0]);
    return kvmill_complex_of(call->result->dtype, operands[0].word[0], operands[1].word[0]);
}

/* ---- Comparison ---- */

static bool holds(enum kvmill_direction direction, bool less, bool equal, bool unordered) {
    switch (direction) {
    case KVMILL_EQ:
        return equal;
    case KVMILL_NE:
        return !equal;
    case KVMILL_GE:
        return !less && !unordered;
    case KVMILL_GT:
        return !less && !equal && !unordered;
    case KVMILL_LE:
        return less || equal;
    default:
        return less;
    }
}

/* Floats as integers in their total order. */
static int64_t total_rank(DLDataType type, uint64_t bits) {
    uint64_t magnitude = bits & (((uint64_t)1 << (type.bits - 1)) - 1);
    return bits >> (type.bits - 1) & 1 ? -(int64_t)magnitude - 1 : (int64_t)magnitude;
}

static bool float_compare(const struct kvmill_scalar_call *call, uint64_t a, uint64_t b) {
    DLDataType type = call->types[0]->dtype;
    if (call->total)
        return holds(call->direction, total_rank(type, a) < total_rank(type, b),
                     total_rank(type, a) == total_rank(type, b), false);
    double x = kvmill_float_of(type, a), y = kvmill_float_of(type, b);
    return holds(call->direction, x < y, x == y, x != x || y != y);
}

static bool compare(const struct kvmill_scalar_call *call, const struct kvmill_scalar *operands) {
    DLDataType type = call->types[0]->dtype;
    enum kvmill_kind kind = kvmill_kind_of(type);
    if (kind == KVMILL_FLOAT)
        return float_compare(call, operands[0].word[0], operands[1].word[0]);
    if (kind == KVMILL_COMPLEX) {
        struct pair a = pair_of(type, operands[0]), b = pair_of(type, operands[1]);
        return holds(call->direction, pair_is_less(a, b),
                     a.real == b.real && a.imaginary == b.imaginary,
                     pair_is_nan(a) || pair_is_nan(b));
    }
    uint64_t a = kvmill_integer_of(type, operands[0].word[0]);
    uint64_t b = kvmill_integer_of(type, operands[1].word[0]);
    return holds(call->direction, is_less(kind == KVMILL_INT, a, b), a == b, false);
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
    case SELECT:
        return operands[operands[0].word[0] ? 1 : 2];
    case CONVERT:
        return kvmill_scalar_convert(call->types[0], call->result, operands[0]);
    }
    if (is_any_quantized(call))
        return apply_to_quantized(call, operands);
    if (call->op->code == COMPARE)
        return (struct kvmill_scalar){{compare(call, operands), 0}};
    if (call->op->code == IS_FINITE)
        return (struct kvmill_scalar){{is_finite(call->types[0]->dtype, operands[0].word[0]), 0}};
    if (call->op->signature == KVMILL_PARTS)
        return apply_to_parts(call, operands);
    switch (kvmill_kind_of(call->result->dtype)) {
    case KVMILL_FLOAT:
        return apply_to_floats(call, operands);
    case KVMILL_COMPLEX:
        return apply_to_pairs(call, operands);
    default:
        return apply_to_integers(call, operands);
    }
}
