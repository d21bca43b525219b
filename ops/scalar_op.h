/* StableHLO's elementwise ops on single numbers of any type; regions of scatters, and programs
   around gathers, consist of them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_SCALAR_OP_H
#define KVMILL_OPS_SCALAR_OP_H

#include "element.h"

enum kvmill_direction { KVMILL_EQ, KVMILL_NE, KVMILL_GE, KVMILL_GT, KVMILL_LE, KVMILL_LT };

/* false if there is none with this name. */
bool kvmill_direction_by_name(const char *name, enum kvmill_direction *direction);

/* How the types of an op are related. */
enum kvmill_signature {
    KVMILL_ALIKE,    /* all operands and the result are of one type */
    KVMILL_TO_BOOL,  /* i1 of numbers of one type: compare, is_finite */
    KVMILL_CHOOSES,  /* select: i1, T, T -> T */
    KVMILL_CONVERTS, /* one type of another */
    KVMILL_PARTS     /* real, imag, complex */
};

enum kvmill_scalar_code {
    SCALAR_ABS,
    SCALAR_ADD,
    SCALAR_AND,
    SCALAR_ATAN2,
    SCALAR_CBRT,
    SCALAR_CEIL,
    SCALAR_CLAMP,
    SCALAR_COMPARE,
    SCALAR_COMPLEX,
    SCALAR_CONVERT,
    SCALAR_COSINE,
    SCALAR_CLZ,
    SCALAR_DIVIDE,
    SCALAR_EXP,
    SCALAR_EXPM1,
    SCALAR_FLOOR,
    SCALAR_IMAG,
    SCALAR_IS_FINITE,
    SCALAR_LOG,
    SCALAR_LOG1P,
    SCALAR_LOGISTIC,
    SCALAR_MAXIMUM,
    SCALAR_MINIMUM,
    SCALAR_MULTIPLY,
    SCALAR_NEGATE,
    SCALAR_NOT,
    SCALAR_OR,
    SCALAR_POPCNT,
    SCALAR_POWER,
    SCALAR_REAL,
    SCALAR_REMAINDER,
    SCALAR_ROUND_AFZ,
    SCALAR_ROUND_EVEN,
    SCALAR_RSQRT,
    SCALAR_SELECT,
    SCALAR_SHL,
    SCALAR_SRA,
    SCALAR_SRL,
    SCALAR_SIGN,
    SCALAR_SINE,
    SCALAR_SQRT,
    SCALAR_SUBTRACT,
    SCALAR_TAN,
    SCALAR_TANH,
    SCALAR_XOR
};

struct kvmill_scalar_op {
    const char *name;
    int operands;
    enum kvmill_signature signature;
    unsigned kinds; /* a bit for each enum kvmill_kind that it takes */
    int code;       /* enum kvmill_scalar_code */
};

/* NULL if there is none with this name. */
const struct kvmill_scalar_op *kvmill_scalar_op_by_name(const char *name);

/* Whether the op takes operands of these types and has this result; otherwise `accepted` says what
 * is valid. */
bool kvmill_scalar_op_fits(const struct kvmill_scalar_op *op,
                           const kvmill_element_type *const *operands,
                           const kvmill_element_type *result, const char **accepted);

/* One application of an op, whose types fit.  direction and total are for compare. */
struct kvmill_scalar_call {
    const struct kvmill_scalar_op *op;
    const kvmill_element_type *types[3]; /* of the operands */
    const kvmill_element_type *result;
    enum kvmill_direction direction;
    bool total; /* compare as "TOTALORDER" */
};
#endif
