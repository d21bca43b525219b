/* SPDX-License-Identifier: Apache-2.0 */
#include "stablehlo_mlir.h"

#include <stdio.h>
#include <string.h>

#include "../defs/dtype.h"

/* ---- Shapes ---- */

static bool refuse_shape(const struct shape_reader *reader, const char *tensor,
                         const struct mlir_type *type, const char *what) {
    return mlir_fail(
        reader->error, reader->file, reader->at,
        "%s: %s is %.*s, %s; accepted: known extents, as kernels are made for one shape",
        reader->op, tensor, mlir_word_length(type->word), type->word.text, what);
}

bool shape_of_mlir(const struct shape_reader *reader, const char *tensor,
                   const struct mlir_type *type, struct tensor_shape *shape) {
    if (!type->is_tensor)
        return mlir_fail(reader->error, reader->file, reader->at,
                         "%s: %s is %.*s; accepted: a tensor", reader->op, tensor,
                         mlir_word_length(type->word), type->word.text);
    if (type->is_unranked)
        return refuse_shape(reader, tensor, type, "which has no rank");
    if (type->is_unknown)
        return mlir_fail(reader->error, reader->file, reader->at,
                         "%s: %s is %.*s, and kvmill does not have the element type; accepted: %s",
                         reader->op, tensor, mlir_word_length(type->word), type->word.text,
                         mlir_known_elements);
    if (reader->known && type->has_encoding)
        return refuse_shape(reader, tensor, type, "which has bounds or an encoding");
    for (int d = 0; reader->known && d < type->rank; d++)
        if (type->dims[d] == KVMILL_DYNAMIC) {
            char words[40];
            snprintf(words, sizeof words, "and axis %d is not known", d);
            return refuse_shape(reader, tensor, type, words);
        }
    shape->element = type->element;
    shape->rank = type->rank;
    if (type->rank > 0)
        memcpy(shape->dims, type->dims, (size_t)type->rank * sizeof *type->dims);
    return true;
}

/* ---- Axes ---- */

bool mlir_is_axes_type(const struct mlir_type *type) {
    if (!type->is_tensor || type->is_unranked || type->is_unknown || type->rank != 1)
        return false;
    enum kvmill_kind kind = kvmill_kind_of(type->element.dtype);
    return (kind == KVMILL_INT || kind == KVMILL_UINT) && type->dims[0] >= 0 &&
           type->dims[0] <= KVMILL_MOST_RANK;
}

void axes_of_literal(const struct mlir_literal *literal, struct axes *axes) {
    DLDataType dtype = literal->type->element.dtype;
    axes->count = (int)literal->type->dims[0];
    for (int i = 0; i < axes->count; i++) {
        int64_t at = literal->is_splat ? 0 : i;
        const unsigned char *data = literal->data + at * kvmill_element_bytes(dtype);
        axes->items[i] = (int64_t)kvmill_integer_of(dtype, kvmill_scalar_load(dtype, data).word[0]);
    }
}

bool axes_of_mlir(const struct mlir_file *file, const char *key, const struct mlir_attr *attr,
                  struct axes *axes, struct error *error) {
    axes->count = 0;
    if (attr == NULL)
        return true;
    if (attr->kind == MLIR_DENSE && mlir_is_axes_type(attr->literal.type)) {
        axes_of_literal(&attr->literal, axes);
        return true;
    }
    if (attr->kind != MLIR_LIST)
        return mlir_fail(error, file, attr->at,
                         "%s is not a list of integers; accepted: [0, 1], array<i64: 0, 1>", key);
    for (int i = 0; i < attr->count; i++) {
        if (attr->items[i].kind != MLIR_INTEGER)
            return mlir_fail(error, file, attr->items[i].at,
                             "%s[%d] is not an integer; accepted: [0, 1]", key, i);
        if (axes->count == KVMILL_MOST_RANK)
            return mlir_fail(error, file, attr->at,
                             "%s has more than %d elements; accepted: at most "
                             "that many",
                             key, (int)KVMILL_MOST_RANK);
        axes->items[axes->count++] = attr->items[i].integer;
    }
    return true;
}
