/* Runs ops that only move elements (constants, broadcasts, slices, ...) and reductions.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "../defs/dtype_parts.h"
#include "mlir_eval.h"

/* ---- Places ---- */

/* Sets `at` to the coordinates of element i. */
static void coordinates(const struct tensor_shape *shape, int64_t i, int64_t *at) {
    for (int d = shape->rank - 1; d >= 0; d--) {
        at[d] = i % shape->dims[d];
        i /= shape->dims[d];
    }
}

static int64_t element_at(const struct tensor_shape *shape, const int64_t *at) {
    int64_t i = 0;
    for (int d = 0; d < shape->rank; d++)
        i = i * shape->dims[d] + at[d];
    return i;
}

static void copy_element(struct array *to, int64_t i, const struct array *from, int64_t k) {
    int64_t bytes = kvmill_element_bytes(from->shape.element.dtype);
    memcpy(to->data + i * bytes, from->data + k * bytes, (size_t)bytes);
}

static bool same_element(struct evaluation *evaluation, const struct mlir_op *op,
                         const struct array *a, const struct array *b) {
    return kvmill_element_equal(&a->shape.element, &b->shape.element) ||
           eval_fail(evaluation, op, "changes the element type; accepted: the operand's");
}

/* Reads a list of `count` integers, [1, 2] or array<i64: 1, 2>, each in [0, below). */
static bool read_list(struct evaluation *evaluation, const struct mlir_op *op, const char *key,
                      int count, int64_t below, int64_t *list) {
    const struct mlir_attr *attr = mlir_attr_of(&op->attrs, key);
    if (attr == NULL || attr->kind != MLIR_LIST || attr->count != count)
        return eval_fail(evaluation, op, "no %s, or not %d of them; accepted: a list", key, count);
    for (int i = 0; i < count; i++) {
        list[i] = attr->items[i].integer;
        if (attr->items[i].kind != MLIR_INTEGER || list[i] < 0 || list[i] >= below)
            return eval_fail(evaluation, op, "%s[%d] is %" PRId64 "; accepted: 0 to %" PRId64, key,
                             i, list[i], below - 1);
    }
    return true;
}

static const char *dims_key(const struct mlir_op *op) {
    return mlir_attr_of(&op->attrs, "dims")          ? "dims"
           : mlir_attr_of(&op->attrs, "permutation") ? "permutation"
           : mlir_attr_of(&op->attrs, "dimensions")  ? "dimensions"
                                                     : "broadcast_dimensions";
}

/* ---- Ops ---- */

static bool eval_constant(struct evaluation *evaluation, struct frame *frame,
                          const struct mlir_op *op) {
    const struct mlir_attr *value = mlir_attr_of(&op->attrs, "value");
    if (op->result_count != 1 || value == NULL || value->kind != MLIR_DENSE)
        return eval_fail(evaluation, op, "no value; accepted: dense<..> : tensor<..>");
    struct array *result = result_of(evaluation, frame, op);
    if (result == NULL)
        return false;
    const struct mlir_literal *literal = &value->literal;
    int64_t bytes = kvmill_element_bytes(result->shape.element.dtype);
    if (!mlir_is_literal_of(value, frame->function->values[op->first_result].type))
        return eval_fail(evaluation, op, "value and result differ in type; accepted: one type");
    for (int64_t i = 0; literal->is_splat && i < result->count; i++)
        memcpy(result->data + i * bytes, literal->data, (size_t)bytes);
    if (!literal->is_splat && result->count > 0)
        memcpy(result->data, literal->data, (size_t)(result->count * bytes));
    return true;
}

static bool eval_broadcast(struct evaluation *evaluation, struct frame *frame,
                           const struct mlir_op *op) {
    int64_t dims[KVMILL_MOST_RANK], at[KVMILL_MOST_RANK], from[KVMILL_MOST_RANK];
    const struct array *operand = operand_of(frame, op, 0);
    struct array *result = result_of(evaluation, frame, op);
    const struct tensor_shape *shape = &operand->shape;
    if (result == NULL || !same_element(evaluation, op, operand, result) ||
        !read_list(evaluation, op, dims_key(op), shape->rank, result->shape.rank, dims))
        return false;
    for (int d = 0; d < shape->rank; d++)
        if (shape->dims[d] != 1 && shape->dims[d] != result->shape.dims[dims[d]])
            return eval_fail(evaluation, op,
                             "axis %d is %" PRId64 " and becomes %" PRId64
                             "; accepted: 1, or the result's",
                             d, shape->dims[d], result->shape.dims[dims[d]]);
    for (int64_t i = 0; i < result->count; i++) {
        coordinates(&result->shape, i, at);
        for (int d = 0; d < shape->rank; d++)
            from[d] = shape->dims[d] == 1 ? 0 : at[dims[d]];
        copy_element(result, i, operand, element_at(shape, from));
    }
    return true;
}

static bool eval_transpose(struct evaluation *evaluation, struct frame *frame,
                           const struct mlir_op *op) {
    int64_t dims[KVMILL_MOST_RANK], at[KVMILL_MOST_RANK], from[KVMILL_MOST_RANK];
    bool seen[KVMILL_MOST_RANK] = {false};
    const struct array *operand = operand_of(frame, op, 0);
    struct array *result = result_of(evaluation, frame, op);
    int rank = operand->shape.rank;
    if (result == NULL || !same_element(evaluation, op, operand, result) ||
        !read_list(evaluation, op, dims_key(op), rank, rank, dims))
        return false;
    for (int d = 0; d < rank; d++) {
        if (seen[dims[d]] || result->shape.rank != rank ||
            result->shape.dims[d] != operand->shape.dims[dims[d]])
            return eval_fail(evaluation, op,
                             "not a permutation of the operand's axes; accepted: a permutation");
        seen[dims[d]] = true;
    }
    for (int64_t i = 0; i < result->count; i++) {
        coordinates(&result->shape, i, at);
        for (int d = 0; d < rank; d++)
            from[dims[d]] = at[d];
        copy_element(result, i, operand, element_at(&operand->shape, from));
    }
    return true;
}

static bool eval_reshape(struct evaluation *evaluation, struct frame *frame,
                         const struct mlir_op *op) {
    const struct array *operand = operand_of(frame, op, 0);
    struct array *result = result_of(evaluation, frame, op);
    if (result == NULL || !same_element(evaluation, op, operand, result))
        return false;
    if (operand->count != result->count)
        return eval_fail(evaluation, op,
                         "%" PRId64 " elements become %" PRId64 "; accepted: as many",
                         operand->count, result->count);
    for (int64_t i = 0; i < result->count; i++)
        copy_element(result, i, operand, i);
    return true;
}

static bool read_axis(struct evaluation *evaluation, const struct mlir_op *op,
                      const char *short_key, const char *key, int rank, int *axis) {
    const struct mlir_attr *attr = mlir_attr_of(&op->attrs, short_key);
    if (attr == NULL)
        attr = mlir_attr_of(&op->attrs, key);
    if (attr == NULL || attr->kind != MLIR_INTEGER || attr->integer < 0 || attr->integer >= rank)
        return eval_fail(evaluation, op, "no %s; accepted: 0 to %d", short_key, rank - 1);
    *axis = (int)attr->integer;
    return true;
}

/* Checks that operands have the result's shape, except along `axis`, where their extents add up to
   the result's. */
static bool check_pieces(struct evaluation *evaluation, const struct frame *frame,
                         const struct mlir_op *op, const struct array *result, int axis) {
    int64_t sum = 0;
    for (int i = 0; i < op->operand_count; i++) {
        const struct array *piece = operand_of(frame, op, i);
        if (!same_element(evaluation, op, piece, result))
            return false;
        bool same = piece->shape.rank == result->shape.rank;
        for (int d = 0; same && d < piece->shape.rank; d++)
            same = d == axis || piece->shape.dims[d] == result->shape.dims[d];
        if (!same || __builtin_add_overflow(sum, piece->shape.dims[axis], &sum))
            return eval_fail(evaluation, op,
                             "operand %d does not fit the result; accepted: its shape but "
                             "for axis %d",
                             i, axis);
    }
    return sum == result->shape.dims[axis] ||
           eval_fail(evaluation, op, "operands are %" PRId64 " long together; accepted: %" PRId64,
                     sum, result->shape.dims[axis]);
}

static bool eval_concatenate(struct evaluation *evaluation, struct frame *frame,
                             const struct mlir_op *op) {
    int64_t at[KVMILL_MOST_RANK], begin = 0;
    int axis;
    struct array *result = result_of(evaluation, frame, op);
    if (result == NULL ||
        !read_axis(evaluation, op, "dim", "dimension", result->shape.rank, &axis) ||
        !check_pieces(evaluation, frame, op, result, axis))
        return false;
    for (int k = 0; k < op->operand_count; k++) {
        const struct array *piece = operand_of(frame, op, k);
        for (int64_t i = 0; i < piece->count; i++) {
            coordinates(&piece->shape, i, at);
            at[axis] += begin;
            copy_element(result, element_at(&result->shape, at), piece, i);
        }
        begin += piece->shape.dims[axis];
    }
    return true;
}

static bool check_slice(struct evaluation *evaluation, const struct mlir_op *op,
                        const struct array *operand, const struct array *result,
                        const int64_t bounds[3][KVMILL_MOST_RANK]) {
    for (int d = 0; d < operand->shape.rank; d++) {
        int64_t start = bounds[0][d], limit = bounds[1][d], stride = bounds[2][d];
        bool valid = stride > 0 && start <= limit && limit <= operand->shape.dims[d] &&
                     result->shape.rank == operand->shape.rank;
        if (!valid ||
            result->shape.dims[d] != (limit - start) / stride + ((limit - start) % stride > 0))
            return eval_fail(evaluation, op,
                             "axis %d from %" PRId64 " to %" PRId64 " by %" PRId64
                             " is not in the operand or not the result; accepted: both",
                             d, start, limit, stride);
    }
    return result->shape.rank == operand->shape.rank ||
           eval_fail(evaluation, op, "the result's rank differs; accepted: the operand's");
}

static bool eval_slice(struct evaluation *evaluation, struct frame *frame,
                       const struct mlir_op *op) {
    int64_t bounds[3][KVMILL_MOST_RANK], at[KVMILL_MOST_RANK];
    const struct array *operand = operand_of(frame, op, 0);
    struct array *result = result_of(evaluation, frame, op);
    int rank = operand->shape.rank;
    if (result == NULL || !same_element(evaluation, op, operand, result) ||
        !read_list(evaluation, op, "start_indices", rank, INT64_MAX, bounds[0]) ||
        !read_list(evaluation, op, "limit_indices", rank, INT64_MAX, bounds[1]) ||
        !read_list(evaluation, op, "strides", rank, INT64_MAX, bounds[2]) ||
        !check_slice(evaluation, op, operand, result, (const int64_t(*)[KVMILL_MOST_RANK])bounds))
        return false;
    for (int64_t i = 0; i < result->count; i++) {
        coordinates(&result->shape, i, at);
        for (int d = 0; d < rank; d++)
            at[d] = bounds[0][d] + at[d] * bounds[2][d];
        copy_element(result, i, operand, element_at(&operand->shape, at));
    }
    return true;
}

static bool eval_iota(struct evaluation *evaluation, struct frame *frame,
                      const struct mlir_op *op) {
    const kvmill_element_type number = {.dtype = kvmill_int64};
    int64_t at[KVMILL_MOST_RANK];
    int axis;
    struct array *result = result_of(evaluation, frame, op);
    if (result == NULL ||
        !read_axis(evaluation, op, "dim", "iota_dimension", result->shape.rank, &axis))
        return false;
    for (int64_t i = 0; i < result->count; i++) {
        coordinates(&result->shape, i, at);
        array_set(result, i,
                  kvmill_scalar_convert(&number, &result->shape.element,
                                        (struct kvmill_scalar){{(uint64_t)at[axis], 0}}));
    }
    return true;
}

/* ---- Reductions ---- */

/* Returns the op that combines elements: from "applies", or the only op of the region. */
static const struct kvmill_scalar_op *reducer_of(const struct mlir_op *op) {
    char name[32] = "";
    const struct mlir_attr *applies = mlir_attr_of(&op->attrs, "applies");
    const struct mlir_op *inner = op->region_count == 1 ? op->regions[0].first : NULL;
    if (applies != NULL && applies->word.length > 10 && applies->word.length < 40)
        memcpy(name, applies->word.text + 10, applies->word.length - 10);
    if (applies == NULL && inner != NULL && inner->operand_count == 2 && inner->next != NULL &&
        inner->next->next == NULL)
        return kvmill_scalar_op_by_name(mlir_short_name(inner));
    return kvmill_scalar_op_by_name(name);
}

/* Checks that the result has the operand's axes that are not reduced. */
static bool check_reduced(struct evaluation *evaluation, const struct mlir_op *op,
                          const struct array *operand, const struct array *result,
                          const bool *reduced) {
    int r = 0;
    bool same = true;
    for (int d = 0; d < operand->shape.rank; d++)
        if (!reduced[d]) {
            same =
                same && r < result->shape.rank && result->shape.dims[r] == operand->shape.dims[d];
            r++;
        }
    return (same && r == result->shape.rank) ||
           eval_fail(evaluation, op, "the result has another shape; accepted: the axes that stay");
}

/* The state of a reduction. */
struct reduction {
    const struct array *operand, *init;
    struct array *result;
    bool reduced[KVMILL_MOST_RANK];
    struct kvmill_scalar_call call;
};

static bool check_reducer(struct evaluation *evaluation, const struct mlir_op *op,
                          struct reduction *reduction) {
    const struct kvmill_scalar_op *reducer = reducer_of(op);
    const kvmill_element_type *type = &reduction->result->shape.element;
    const char *accepted;
    reduction->call =
        (struct kvmill_scalar_call){.op = reducer, .types = {type, type}, .result = type};
    bool fits = reducer != NULL && reducer->operands == 2 && reducer->signature == KVMILL_ALIKE &&
                kvmill_scalar_op_fits(reducer, reduction->call.types, type, &accepted);
    return (fits && reduction->init->count == 1) ||
           eval_fail(
               evaluation, op,
               "no op between elements of this type; accepted: stablehlo.and and others of two "
               "operands, and a scalar to begin with");
}

static bool read_reduced(struct evaluation *evaluation, const struct mlir_op *op,
                         struct reduction *reduction) {
    int64_t dims[KVMILL_MOST_RANK];
    const struct mlir_attr *attr = mlir_attr_of(&op->attrs, "dimensions");
    int rank = reduction->operand->shape.rank, count = attr ? attr->count : 0;
    if (count > rank)
        return eval_fail(evaluation, op, "%d dimensions; accepted: at most %d", count, rank);
    if (!read_list(evaluation, op, "dimensions", count, rank, dims))
        return false;
    for (int i = 0; i < count; i++)
        reduction->reduced[dims[i]] = true;
    return check_reduced(evaluation, op, reduction->operand, reduction->result, reduction->reduced);
}

static void reduce(const struct reduction *reduction) {
    int64_t at[KVMILL_MOST_RANK], to[KVMILL_MOST_RANK];
    const struct tensor_shape *shape = &reduction->operand->shape;
    for (int64_t i = 0; i < reduction->result->count; i++)
        array_set(reduction->result, i, array_get(reduction->init, 0));
    for (int64_t i = 0; i < reduction->operand->count; i++) {
        int r = 0;
        coordinates(shape, i, at);
        for (int d = 0; d < shape->rank; d++)
            if (!reduction->reduced[d])
                to[r++] = at[d];
        int64_t place = element_at(&reduction->result->shape, to);
        struct kvmill_scalar operands[2] = {array_get(reduction->result, place),
                                            array_get(reduction->operand, i)};
        array_set(reduction->result, place, kvmill_scalar_apply(&reduction->call, operands));
    }
}

static bool eval_reduce(struct evaluation *evaluation, struct frame *frame,
                        const struct mlir_op *op) {
    struct reduction reduction = {.operand = operand_of(frame, op, 0),
                                  .init = operand_of(frame, op, 1)};
    reduction.result = result_of(evaluation, frame, op);
    if (reduction.result == NULL ||
        !same_element(evaluation, op, reduction.operand, reduction.result) ||
        !same_element(evaluation, op, reduction.init, reduction.result) ||
        !check_reducer(evaluation, op, &reduction) || !read_reduced(evaluation, op, &reduction))
        return false;
    reduce(&reduction);
    return true;
}

const struct evaluator *shape_evaluator(const char *name) {
    static const struct evaluator evaluators[] = {
        {"constant", 0, eval_constant},
        {"broadcast_in_dim", 1, eval_broadcast},
        {"transpose", 1, eval_transpose},
        {"reshape", 1, eval_reshape},
        {"concatenate", -1, eval_concatenate},
        {"slice", 1, eval_slice},
        {"iota", 0, eval_iota},
        {"reduce", 2, eval_reduce},
    };
    for (size_t i = 0; i < sizeof evaluators / sizeof *evaluators; i++)
        if (strcmp(evaluators[i].name, name) == 0)
            return &evaluators[i];
    return NULL;
}
