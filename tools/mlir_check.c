/* Runs check.expect_eq and related ops: prints and counts the results.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/text.h"
#include "mlir_eval.h"

/* ---- Distances ---- */

enum { UNEQUAL = INT32_MAX };

/* Maps a float to an integer with the same order; adjacent floats differ by 1. */
static int64_t rank_of(DLDataType type, uint64_t bits) {
    uint64_t sign = (uint64_t)1 << (type.bits - 1);
    return bits & sign ? -(int64_t)(bits & (sign - 1)) : (int64_t)bits;
}

static bool is_nan(DLDataType type, uint64_t bits) {
    double value = kvmill_float_of(type, bits);
    return value != value;
}

/* Returns the distance in units in the last place, or 0 for equal bits or two NaNs.  +0 and -0 are
   1 apart; the smallest positive and negative numbers are 1 apart from both. */
static int64_t float_distance(DLDataType type, uint64_t a, uint64_t b) {
    if (a == b || (is_nan(type, a) && is_nan(type, b)))
        return 0;
    if (is_nan(type, a) || is_nan(type, b))
        return UNEQUAL;
    int64_t x = rank_of(type, a), y = rank_of(type, b), distance;
    if (__builtin_sub_overflow(x > y ? x : y, x > y ? y : x, &distance) || distance > UNEQUAL)
        return UNEQUAL;
    return distance ? distance : 1;
}

static int64_t distance(const kvmill_element_type *type, struct kvmill_scalar a,
                        struct kvmill_scalar b) {
    DLDataType dtype = type->dtype, half = {kDLFloat, (uint8_t)(dtype.bits / 2), 1};
    int64_t real, imaginary;
    switch (kvmill_kind_of(dtype)) {
    case KVMILL_FLOAT:
        return float_distance(dtype, a.word[0], b.word[0]);
    case KVMILL_COMPLEX:
        real = float_distance(half, kvmill_real_of(dtype, a).word[0],
                              kvmill_real_of(dtype, b).word[0]);
        imaginary = float_distance(half, kvmill_imaginary_of(dtype, a).word[0],
                                   kvmill_imaginary_of(dtype, b).word[0]);
        return real > imaginary ? real : imaginary;
    default:
        return a.word[0] == b.word[0] ? 0 : UNEQUAL;
    }
}

/* ---- Words ---- */

static void say_element(const kvmill_element_type *type, struct kvmill_scalar value,
                        char text[64]) {
    DLDataType dtype = type->dtype;
    switch (kvmill_kind_of(dtype)) {
    case KVMILL_FLOAT:
        snprintf(text, 64, "%.17g (0x%" PRIX64 ")", kvmill_float_of(dtype, value.word[0]),
                 value.word[0]);
        return;
    case KVMILL_UINT:
        snprintf(text, 64, "%" PRIu64, value.word[0]);
        return;
    case KVMILL_COMPLEX:
        snprintf(text, 64, "0x%" PRIX64 ":0x%" PRIX64, value.word[1], value.word[0]);
        return;
    default:
        snprintf(text, 64, "%" PRId64, (int64_t)kvmill_integer_of(dtype, value.word[0]));
    }
}

static void say_place(const struct tensor_shape *shape, int64_t i, char text[128]) {
    struct axes at = {.count = shape->rank};
    struct kvmill_dims_text words;
    for (int d = shape->rank - 1; d >= 0; d--) {
        at.items[d] = i % shape->dims[d];
        i /= shape->dims[d];
    }
    snprintf(text, 128, "%s",
             kvmill_dims_words(&(kvmill_dims){at.items, (size_t)at.count}, &words));
}

/* The result of a comparison. */
struct finding {
    int64_t first;    /* first element that differs too much, or -1 */
    int64_t distance; /* the largest distance */
};

static struct finding compare(const struct array *have, const struct array *want, int64_t allowed) {
    struct finding finding = {.first = -1};
    for (int64_t i = 0; i < have->count; i++) {
        int64_t apart = distance(&have->shape.element, array_get(have, i), array_get(want, i));
        if (apart > finding.distance)
            finding.distance = apart;
        if (apart > allowed && finding.first < 0)
            finding.first = i;
    }
    return finding;
}

static size_t line_of(const struct mlir_file *file, size_t at) {
    size_t line = 1;
    for (size_t i = 0; i < at && i < file->length; i++)
        line += file->text[i] == '\n';
    return line;
}

static void report(struct evaluation *evaluation, const struct mlir_op *op, const char *name,
                   const struct array *have, const struct array *want,
                   const struct finding *finding) {
    char place[128], a[64], b[64];
    bool is_float = kvmill_kind_of(have->shape.element.dtype) == KVMILL_FLOAT;
    print_shown(stdout, "%s:%zu: check.%s: ", evaluation->file->name,
                line_of(evaluation->file, op->at), name);
    if (finding->first < 0) {
        print_shown(stdout, "pass, %" PRId64 " elements", have->count);
        if (is_float)
            print_shown(stdout, ", at most %" PRId64 " ULP", finding->distance);
        print_shown(stdout, "\n");
        return;
    }
    say_place(&have->shape, finding->first, place);
    say_element(&have->shape.element, array_get(have, finding->first), a);
    say_element(&have->shape.element, array_get(want, finding->first), b);
    print_shown(stdout, "fail at %s: %s; expected: %s\n", place, a, b);
}

/* ---- Checks ---- */

static bool is_same_shape(const struct array *a, const struct array *b) {
    return a->shape.rank == b->shape.rank &&
           kvmill_element_equal(&a->shape.element, &b->shape.element) &&
           memcmp(a->shape.dims, b->shape.dims, (size_t)a->shape.rank * sizeof(int64_t)) == 0;
}

static bool read_slack(struct evaluation *evaluation, const struct mlir_op *op, const char *name,
                       int64_t *slack) {
    const struct mlir_attr *given = mlir_attr_of(&op->attrs, "max_ulp_difference");
    *slack = strcmp(name, "expect_close") == 0 ? 3 : 0;
    if (given == NULL)
        return true;
    *slack = given->integer;
    return (given->kind == MLIR_INTEGER && *slack >= 0 && *slack < UNEQUAL) ||
           eval_fail(evaluation, op,
                     "max_ulp_difference is not a small integer; accepted: 0, 1, ...");
}

/* Returns an array with the constant of expect_eq_const, or NULL after a message. */
static struct array *constant_of(struct evaluation *evaluation, const struct mlir_op *op,
                                 const struct array *have) {
    const struct mlir_attr *value = mlir_attr_of(&op->attrs, "value");
    if (value == NULL || value->kind != MLIR_DENSE) {
        eval_fail(evaluation, op, "no constant; accepted: dense<..> : tensor<..>");
        return NULL;
    }
    const struct mlir_literal *literal = &value->literal;
    int64_t bytes = kvmill_element_bytes(have->shape.element.dtype);
    if (mlir_type_count(literal->type) != have->count ||
        kvmill_element_bytes(literal->type->element.dtype) != bytes) {
        eval_fail(evaluation, op, "the constant has another type; accepted: that of the operand");
        return NULL;
    }
    struct array *constant = array_make(evaluation, op, &have->shape);
    for (int64_t i = 0; constant != NULL && i < have->count; i++)
        memcpy(constant->data + i * bytes, literal->data + (literal->is_splat ? 0 : i * bytes),
               (size_t)bytes);
    return constant;
}

/* Sets the result of check.eq: whether the operands are equal.  Other checks have none. */
static bool set_result(struct evaluation *evaluation, struct frame *frame, const struct mlir_op *op,
                       bool passed) {
    if (op->result_count == 0)
        return true;
    struct array *result = result_of(evaluation, frame, op);
    if (result == NULL)
        return false;
    if (result->shape.rank != 0 || kvmill_kind_of(result->shape.element.dtype) != KVMILL_BOOL)
        return eval_fail(evaluation, op, "gives another type; accepted: tensor<i1>");
    array_set(result, 0, (struct kvmill_scalar){{passed, 0}});
    return true;
}

static bool check_pair(struct evaluation *evaluation, struct frame *frame, const struct mlir_op *op,
                       const char *name, const struct array *have, const struct array *want) {
    int64_t slack;
    if (!is_same_shape(have, want))
        return eval_fail(evaluation, op, "compares different types; accepted: one type");
    if (!read_slack(evaluation, op, name, &slack))
        return false;
    struct finding finding = compare(have, want, slack);
    bool passed = finding.first < 0;
    report(evaluation, op, name, have, want, &finding);
    *(passed ? &evaluation->passed : &evaluation->failed) += 1;
    return set_result(evaluation, frame, op, passed);
}

bool eval_check(struct evaluation *evaluation, struct frame *frame, const struct mlir_op *op,
                const char *name) {
    static const char *const names[] = {"expect_eq", "eq", "expect_close", "expect_eq_const"};
    size_t known = 0;
    while (known < 4 && strcmp(names[known], name) != 0)
        known++;
    int operands = known == 3 ? 1 : 2;
    if (known == 4)
        return eval_fail(evaluation, op,
                         "not a check that kvmill knows; accepted: check.expect_eq, "
                         "check.expect_eq_const, check.expect_close, check.eq");
    if (op->operand_count != operands)
        return eval_fail(evaluation, op, "%d operands; accepted: %d", op->operand_count, operands);
    struct array *have = operand_of(frame, op, 0);
    if (operands == 2)
        return check_pair(evaluation, frame, op, name, have, operand_of(frame, op, 1));
    struct array *want = constant_of(evaluation, op, have);
    bool done = want != NULL && check_pair(evaluation, frame, op, name, have, want);
    array_release(evaluation, want);
    return done;
}
