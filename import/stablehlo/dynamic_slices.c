/* dynamic_slice and dynamic_update_slice of StableHLO text, as a gather and a scatter of one
   window.

   An index vector has a component for each axis along which the window can move.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "stablehlo_import.h"

bool is_mlir_slice(const struct mlir_op *op) {
    return strcmp(op->name, "stablehlo.dynamic_slice") == 0;
}

bool is_mlir_update(const struct mlir_op *op) {
    return strcmp(op->name, "stablehlo.dynamic_update_slice") == 0;
}

/* The type of value `number`, which may be a result. */
static bool read_shape(const struct shape_reader *reader, const struct mlir_function *function,
                       int number, const char *name, struct tensor_shape *shape) {
    return shape_of_mlir(reader, name, function->values[number].type, shape);
}

static bool is_index(const struct tensor_shape *shape) {
    enum kvmill_kind kind = kvmill_kind_of(shape->element.dtype);
    return shape->rank == 0 && (kind == KVMILL_INT || kind == KVMILL_UINT);
}

/* Reads the starts, one for each axis: integers of one type. */
static bool read_starts(const struct shape_reader *reader, const struct mlir_function *function,
                        const struct mlir_op *op, int first, int rank,
                        kvmill_element_type *element) {
    struct tensor_shape shape;
    *element = kvmill_plain_element(kvmill_int32);
    if (op->operand_count != first + rank || op->result_count != 1)
        return mlir_fail(reader->error, reader->file, op->at,
                         "%s: %d operands and %d results; accepted: %d and 1, with a start for "
                         "each axis",
                         op->name, op->operand_count, op->result_count, first + rank);
    for (int i = first; i < op->operand_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "start %d", i - first);
        if (!read_shape(reader, function, op->operands[i], name, &shape))
            return false;
        if (!is_index(&shape) || (i > first && !kvmill_element_equal(element, &shape.element)))
            return mlir_fail(reader->error, reader->file, op->at,
                             "%s: %s is %.*s; accepted: integers of one type, tensor<i32>",
                             op->name, name,
                             mlir_word_length(function->values[op->operands[i]].type->word),
                             function->values[op->operands[i]].type->word.text);
        *element = shape.element;
    }
    return true;
}

/* Checks a type that another operand or the sizes imply; unknown extents match. */
static bool check_same(const struct shape_reader *reader, const char *name,
                       const struct tensor_shape *shape, const kvmill_element_type *element,
                       const int64_t *dims, int rank) {
    bool same = shape->rank == rank && kvmill_element_equal(&shape->element, element);
    for (int d = 0; same && d < rank; d++)
        same = shape->dims[d] == dims[d] || shape->dims[d] == KVMILL_DYNAMIC ||
               dims[d] == KVMILL_DYNAMIC;
    return same || mlir_fail(reader->error, reader->file, reader->at,
                             "%s: %s has another type; accepted: the operand's element type, and "
                             "the window's or operand's extents",
                             reader->op, name);
}

/* Checks that a window fits into an array, and lists the axes along which it can move. */
static bool find_moving(const struct shape_reader *reader, const struct tensor_shape *whole,
                        const struct axes *window, struct axes *moving) {
    moving->count = 0;
    for (int d = 0; d < whole->rank; d++) {
        int64_t extent = whole->dims[d], size = window->items[d];
        if (size != KVMILL_DYNAMIC && extent != KVMILL_DYNAMIC && size > extent)
            return mlir_fail(reader->error, reader->file, reader->at,
                             "%s: the window is %" PRId64 " along axis %d; accepted: 0 to %" PRId64,
                             reader->op, size, d, extent);
        if (size != extent || extent == KVMILL_DYNAMIC)
            moving->items[moving->count++] = d;
    }
    if (moving->count == 0 && whole->rank > 0)
        moving->items[moving->count++] = 0;
    return true;
}

static struct tensor_shape index_vector(kvmill_element_type element, const struct axes *moving) {
    return (struct tensor_shape){.element = element, .rank = 1, .dims = {moving->count}};
}

static void set_all_axes(int rank, struct axes *axes) {
    axes->count = rank;
    for (int d = 0; d < rank; d++)
        axes->items[d] = d;
}

/* ---- A slice ---- */

static bool read_sizes(const struct shape_reader *reader, const struct mlir_op *op, int rank,
                       struct axes *sizes) {
    const struct mlir_attr *attr = mlir_attr_of(&op->attrs, "sizes");
    if (attr == NULL)
        attr = mlir_attr_of(&op->attrs, "slice_sizes");
    if (!axes_of_mlir(reader->file, "sizes", attr, sizes, reader->error))
        return false;
    if (sizes->count != rank)
        return mlir_fail(reader->error, reader->file, op->at,
                         "%s: %d sizes; accepted: %d, one for each axis", op->name, sizes->count,
                         rank);
    for (int d = 0; d < rank; d++)
        if (sizes->items[d] < 0)
            return mlir_fail(reader->error, reader->file, op->at,
                             "%s: size %d is %" PRId64 "; accepted: 0 and more", op->name, d,
                             sizes->items[d]);
    return true;
}

bool gather_of_slice(const struct shape_reader *reader, const struct mlir_function *function,
                     const struct mlir_op *op, struct gather_problem *problem) {
    kvmill_element_type element;
    if (op->operand_count < 1 || op->result_count != 1)
        return mlir_fail(reader->error, reader->file, op->at,
                         "%s: %d operands and %d results; accepted: an operand, starts, and 1",
                         op->name, op->operand_count, op->result_count);
    if (!read_shape(reader, function, op->operands[0], "operand", &problem->operand) ||
        !read_shape(reader, function, op->first_result, "the result", &problem->result) ||
        !read_starts(reader, function, op, MLIR_SLICE_STARTS, problem->operand.rank, &element) ||
        !read_sizes(reader, op, problem->operand.rank, &problem->slice_sizes) ||
        !find_moving(reader, &problem->operand, &problem->slice_sizes, &problem->start_index_map) ||
        !check_same(reader, "the result", &problem->result, &problem->operand.element,
                    problem->slice_sizes.items, problem->slice_sizes.count))
        return false;
    problem->has_result = true;
    problem->start_indices = index_vector(element, &problem->start_index_map);
    set_all_axes(problem->operand.rank, &problem->offset_dims);
    return true;
}

/* ---- An update ---- */

bool scatter_of_update(const struct shape_reader *reader, const struct mlir_function *function,
                       const struct mlir_op *op, struct scatter_problem *problem) {
    kvmill_element_type element;
    struct tensor_shape *operand = &problem->inputs[0], *update = &problem->updates[0];
    struct axes window;
    if (op->operand_count < MLIR_UPDATE_STARTS || op->result_count != 1)
        return mlir_fail(reader->error, reader->file, op->at,
                         "%s: %d operands and %d results; accepted: an operand, an update, starts, "
                         "and 1",
                         op->name, op->operand_count, op->result_count);
    if (!read_shape(reader, function, op->operands[0], "operand", operand) ||
        !read_shape(reader, function, op->operands[1], "update", update) ||
        !read_shape(reader, function, op->first_result, "the result", &problem->results[0]) ||
        !read_starts(reader, function, op, MLIR_UPDATE_STARTS, operand->rank, &element))
        return false;
    if (update->rank != operand->rank)
        return mlir_fail(reader->error, reader->file, op->at,
                         "%s: update has %d axes; accepted: %d, those of the operand", op->name,
                         update->rank, operand->rank);
    window.count = update->rank;
    memcpy(window.items, update->dims, sizeof window.items);
    if (!find_moving(reader, operand, &window, &problem->scatter_dims_to_operand_dims) ||
        !check_same(reader, "update", update, &operand->element, update->dims, update->rank) ||
        !check_same(reader, "the result", &problem->results[0], &operand->element, operand->dims,
                    operand->rank))
        return false;
    problem->count = 1;
    problem->has_results = true;
    problem->op.unique_indices = true;
    strcpy(problem->update_computation, "replace");
    problem->scatter_indices = index_vector(element, &problem->scatter_dims_to_operand_dims);
    set_all_axes(operand->rank, &problem->update_window_dims);
    return true;
}
