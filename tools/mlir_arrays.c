/* Values of programs in StableHLO text, and messages about their ops.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "mlir_eval.h"

bool eval_fail(struct evaluation *evaluation, const struct mlir_op *op, const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return mlir_fail(evaluation->error, evaluation->file, op->at, "%s: %s", op->name, message);
}

/* ---- Arrays ---- */

static int64_t bytes_of(const struct array *array) {
    return array->count * kvmill_element_bytes(array->shape.element.dtype);
}

struct array *array_make(struct evaluation *evaluation, const struct mlir_op *op,
                         const struct tensor_shape *shape) {
    struct array *array = calloc(1, sizeof *array);
    if (array == NULL) {
        fail(evaluation->error, EXIT_ENVIRONMENT, "%s: out of memory", evaluation->file->name);
        return NULL;
    }
    array->holders = 1;
    array->shape = *shape;
    array->count = 1;
    for (int d = 0; d < shape->rank; d++)
        if (__builtin_mul_overflow(array->count, shape->dims[d], &array->count))
            array->count = INT64_MAX / 32; /* too large, unless a later extent is 0 */
    if (array->count > evaluation->most_bytes ||
        bytes_of(array) > evaluation->most_bytes - evaluation->bytes) {
        eval_fail(evaluation, op,
                  "needs an array of %" PRId64
                  " elements; accepted: %lld MiB for all values; --max-memory allows more",
                  array->count, (long long)(evaluation->most_bytes >> 20));
        free(array);
        return NULL;
    }
    array->data = calloc((size_t)bytes_of(array) + 16, 1);
    if (array->data == NULL) {
        fail(evaluation->error, EXIT_ENVIRONMENT, "%s: out of memory", evaluation->file->name);
        free(array);
        return NULL;
    }
    evaluation->bytes += bytes_of(array);
    return array;
}

struct array *array_hold(struct array *array) {
    array->holders++;
    return array;
}

void array_release(struct evaluation *evaluation, struct array *array) {
    if (array == NULL || --array->holders > 0)
        return;
    evaluation->bytes -= bytes_of(array);
    free(array->data);
    free(array);
}

struct kvmill_scalar array_get(const struct array *array, int64_t i) {
    DLDataType type = array->shape.element.dtype;
    return kvmill_scalar_load(type, array->data + i * kvmill_element_bytes(type));
}

void array_set(struct array *array, int64_t i, struct kvmill_scalar value) {
    DLDataType type = array->shape.element.dtype;
    kvmill_scalar_store(type, value, array->data + i * kvmill_element_bytes(type));
}

struct array *operand_of(const struct frame *frame, const struct mlir_op *op, int i) {
    return frame->values[op->operands[i]];
}

struct array *result_of(struct evaluation *evaluation, struct frame *frame,
                        const struct mlir_op *op) {
    struct tensor_shape shape = {0};
    if (op->result_count != 1) {
        eval_fail(evaluation, op, "%d results; accepted: 1", op->result_count);
        return NULL;
    }
    const struct mlir_type *type = frame->function->values[op->first_result].type;
    const struct shape_reader reader = {evaluation->file, op->name, op->at, true,
                                        evaluation->error};
    if (!shape_of_mlir(&reader, "the result", type, &shape))
        return NULL;
    return frame->values[op->first_result] = array_make(evaluation, op, &shape);
}
