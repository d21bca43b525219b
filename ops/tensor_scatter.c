/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor_scatter.h"

#include <inttypes.h>
#include <string.h>

#include "dtype.h"
#include "fail.h"

#define OVERFLOWS (-2)

/* ---- Counts ---- */

int64_t kvmill_element_count(const DLTensor *tensor) {
    int64_t count = 1;
    bool dynamic = false, overflow = false;
    for (int d = 0; d < tensor->ndim; d++) {
        if (tensor->shape[d] == 0)
            return 0;
        if (tensor->shape[d] == KVMILL_DYNAMIC)
            dynamic = true;
        else
            overflow |= __builtin_mul_overflow(count, tensor->shape[d], &count);
    }
    return overflow ? OVERFLOWS : dynamic ? KVMILL_DYNAMIC : count;
}

static kvmill_status check_size(const DLTensor *tensor, const char *name, kvmill_error *error) {
    struct kvmill_shape_text words;
    int64_t limit = kvmill_dtype_most(tensor->dtype);
    int64_t count = kvmill_element_count(tensor);
    if (count == OVERFLOWS || count > limit)
        return kvmill_fail(error, KVMILL_E_OVERFLOW,
                           "%s has shape %s; accepted: at most %" PRId64 " elements", name,
                           kvmill_shape_words(tensor, &words), limit);
    return KVMILL_OK;
}

/* ---- Checks, in the order a reader of the specification meets them ---- */

static kvmill_status check_dims(const DLTensor *tensor, const char *name, kvmill_error *error) {
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] < KVMILL_DYNAMIC)
            return kvmill_fail(error, KVMILL_E_SHAPE,
                               "dim %d of %s is %" PRId64 "; accepted: 0 or more, or dynamic", d,
                               name, tensor->shape[d]);
    return check_size(tensor, name, error);
}

static kvmill_status check_presence(const kvmill_tensor_scatter *op, kvmill_error *error) {
    if (op->past_cache == NULL || op->update == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "%s is NULL; a tensor is required",
                           op->past_cache == NULL ? "past_cache" : "update");
    return KVMILL_OK;
}

static kvmill_status check_axis(const kvmill_tensor_scatter *op, kvmill_error *error) {
    int64_t rank = op->past_cache->ndim;
    if (rank < 2)
        return kvmill_fail(error, KVMILL_E_SHAPE,
                           "past_cache has rank %" PRId64 "; accepted: 2 or more", rank);
    if (op->axis <= -rank || op->axis >= rank || op->axis == 0)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "axis is %" PRId64 "; accepted for rank %" PRId64 ": %" PRId64
                           " to -1, or 1 to %" PRId64 " (axis 0 is the batch)",
                           op->axis, rank, 1 - rank, rank - 1);
    return KVMILL_OK;
}

static kvmill_status check_mode(const kvmill_tensor_scatter *op, kvmill_error *error) {
    if (op->mode == NULL || strcmp(op->mode, "linear") == 0 || strcmp(op->mode, "circular") == 0)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "mode is \"%.40s\"; accepted: \"linear\", \"circular\"", op->mode);
}

static kvmill_status check_dtype(const DLTensor *tensor, const char *name, DLDataType wanted,
                                 kvmill_error *error) {
    if (kvmill_dtype_equal(tensor->dtype, wanted))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_DTYPE, "%s has type %s; accepted: %s", name,
                       kvmill_dtype_name(tensor->dtype), kvmill_dtype_name(wanted));
}

static kvmill_status check_dtypes(const kvmill_tensor_scatter *op, kvmill_error *error) {
    DLDataType type = op->past_cache->dtype;
    if (!kvmill_dtype_known(type))
        return kvmill_fail(error, KVMILL_E_DTYPE,
                           "past_cache has type code %d with %d bits and %d lanes; accepted: the "
                           "types of TensorScatter-24",
                           type.code, type.bits, type.lanes);
    kvmill_status status = check_dtype(op->update, "update", type, error);
    if (status == KVMILL_OK && op->present_cache != NULL)
        status = check_dtype(op->present_cache, "present_cache", type, error);
    if (status == KVMILL_OK && op->write_indices != NULL)
        status =
            check_dtype(op->write_indices, "write_indices", (DLDataType){kDLInt, 64, 1}, error);
    return status;
}

static bool may_be_equal(int64_t a, int64_t b) {
    return a == b || a == KVMILL_DYNAMIC || b == KVMILL_DYNAMIC;
}

/* All dims of `tensor` equal those of past_cache, but for dim `except`. */
static kvmill_status check_same_shape(const kvmill_tensor_scatter *op, const DLTensor *tensor,
                                      const char *name, int except, kvmill_error *error) {
    const DLTensor *past = op->past_cache;
    struct kvmill_shape_text have, want;
    bool same = tensor->ndim == past->ndim;
    for (int d = 0; same && d < past->ndim; d++)
        same = d == except || may_be_equal(tensor->shape[d], past->shape[d]);
    if (same)
        return check_dims(tensor, name, error);
    return kvmill_fail(error, KVMILL_E_SHAPE, "%s has shape %s; accepted: past_cache's, %s%s", name,
                       kvmill_shape_words(tensor, &have), kvmill_shape_words(past, &want),
                       except < 0 ? "" : ", but for the sequence axis");
}

static kvmill_status check_rows(const kvmill_tensor_scatter *op, int axis, kvmill_error *error) {
    int64_t rows = op->update->shape[axis], capacity = op->past_cache->shape[axis];
    if (rows <= capacity || capacity == KVMILL_DYNAMIC)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_SHAPE,
                       "update has %" PRId64 " rows on axis %d; accepted: at most the %" PRId64
                       " of past_cache",
                       rows, axis, capacity);
}

static kvmill_status check_indices(const kvmill_tensor_scatter *op, kvmill_error *error) {
    const DLTensor *indices = op->write_indices;
    struct kvmill_shape_text words, batch;
    if (indices == NULL)
        return KVMILL_OK;
    if (indices->ndim == 1 && may_be_equal(indices->shape[0], op->past_cache->shape[0]))
        return check_dims(indices, "write_indices", error);
    DLTensor wanted = {.ndim = 1, .shape = op->past_cache->shape};
    return kvmill_fail(error, KVMILL_E_SHAPE, "write_indices has shape %s; accepted: %s, the batch",
                       kvmill_shape_words(indices, &words), kvmill_shape_words(&wanted, &batch));
}

static kvmill_status check_shapes(const kvmill_tensor_scatter *op, int axis, kvmill_error *error) {
    kvmill_status status = check_dims(op->past_cache, "past_cache", error);
    if (status == KVMILL_OK)
        status = check_same_shape(op, op->update, "update", axis, error);
    if (status == KVMILL_OK && op->present_cache != NULL)
        status = check_same_shape(op, op->present_cache, "present_cache", -1, error);
    if (status == KVMILL_OK)
        status = check_rows(op, axis, error);
    return status == KVMILL_OK ? check_indices(op, error) : status;
}

/* ---- Folding ---- */

int64_t kvmill_tensor_scatter_dim(const kvmill_tensor_scatter *op, int axis, int d) {
    int64_t dim = op->past_cache->shape[d];
    if (dim == KVMILL_DYNAMIC && op->present_cache != NULL)
        dim = op->present_cache->shape[d];
    if (dim == KVMILL_DYNAMIC && d != axis)
        dim = op->update->shape[d];
    if (dim == KVMILL_DYNAMIC && d == 0 && op->write_indices != NULL)
        dim = op->write_indices->shape[0];
    return dim;
}

/* Product of the cache's dims [from, to).  Too large only where another dim is 0, so that nothing
   moves: any value will do. */
static int64_t folded(const kvmill_tensor_scatter *op, int axis, int from, int to) {
    int64_t count = 1;
    bool dynamic = false, overflow = false;
    for (int d = from; d < to; d++) {
        int64_t dim = kvmill_tensor_scatter_dim(op, axis, d);
        if (dim == 0)
            return 0;
        if (dim == KVMILL_DYNAMIC)
            dynamic = true;
        else
            overflow |= __builtin_mul_overflow(count, dim, &count);
    }
    return overflow || count > kvmill_dtype_most(op->past_cache->dtype) ? 0
           : dynamic                                                    ? KVMILL_DYNAMIC
                                                                        : count;
}

static struct kvmill_row_geometry fold(const kvmill_tensor_scatter *op, int axis) {
    return (struct kvmill_row_geometry){
        .axis = axis,
        .circular = op->mode != NULL && strcmp(op->mode, "circular") == 0,
        .batch = kvmill_tensor_scatter_dim(op, axis, 0),
        .heads = folded(op, axis, 1, axis),
        .capacity = kvmill_tensor_scatter_dim(op, axis, axis),
        .rows = op->update->shape[axis],
        .row = folded(op, axis, axis + 1, op->past_cache->ndim),
    };
}

kvmill_status kvmill_tensor_scatter_check(const kvmill_tensor_scatter *op,
                                          struct kvmill_row_geometry *geometry,
                                          kvmill_error *error) {
    kvmill_status status = check_presence(op, error);
    if (status == KVMILL_OK)
        status = check_axis(op, error);
    if (status == KVMILL_OK)
        status = check_mode(op, error);
    if (status == KVMILL_OK)
        status = check_dtypes(op, error);
    if (status != KVMILL_OK)
        return status;
    int axis = (int)(op->axis < 0 ? op->axis + op->past_cache->ndim : op->axis);
    status = check_shapes(op, axis, error);
    if (status == KVMILL_OK)
        *geometry = fold(op, axis);
    return status;
}

/* Kernel units of a row: bytes, or nibbles. */
static int64_t row_units(int64_t row, int bits, bool nibbles) {
    if (row < 0 || nibbles)
        return row;
    return bits == 4 ? row / 2 : row * (bits / 8);
}

struct kvmill_rows_shape kvmill_rows_shape_of(const struct kvmill_row_geometry *geometry,
                                              DLDataType dtype) {
    int bits = kvmill_dtype_bits(dtype);
    bool nibbles = bits == 4 && (geometry->row < 0 || geometry->row % 2 != 0);
    return (struct kvmill_rows_shape){
        .unit_bits = nibbles ? 4 : 8,
        .circular = geometry->circular,
        .heads = geometry->heads,
        .capacity = geometry->capacity,
        .rows = geometry->rows,
        .row = row_units(geometry->row, bits, nibbles),
    };
}
