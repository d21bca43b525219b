/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor_scatter.h"

#include <inttypes.h>
#include <string.h>

#include "../defs/dtype.h"
#include "attributes.h"
#include "extent.h"
#include "fail.h"
#include "refuse.h"

/* ---- Checks, in the order a reader of the specification meets them ---- */

static kvmill_status check_dims(const DLTensor *tensor, const char *name, kvmill_error *error) {
    return kvmill_check_dims(name, tensor, KVMILL_DYNAMIC, error);
}

static kvmill_status check_presence(const kvmill_tensor_scatter *op, kvmill_error *error) {
    if (op->past_cache == NULL || op->update == NULL)
        return kvmill_refuse_null(op->past_cache == NULL ? "past_cache" : "update", error);
    return KVMILL_OK;
}

static kvmill_status check_forms(const kvmill_tensor_scatter *op, kvmill_error *error) {
    const struct {
        const char *name;
        const DLTensor *tensor;
    } given[] = {{"past_cache", op->past_cache},
                 {"update", op->update},
                 {"write_indices", op->write_indices},
                 {"present_cache", op->present_cache}};
    kvmill_status status = check_presence(op, error);
    for (size_t i = 0; status == KVMILL_OK && i < sizeof given / sizeof *given; i++)
        if (given[i].tensor != NULL)
            status = kvmill_check_form(given[i].name, given[i].tensor, error);
    return status;
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

static kvmill_status check_dtype(const DLTensor *tensor, const char *name, DLDataType wanted,
                                 kvmill_error *error) {
    if (kvmill_dtype_equal(tensor->dtype, wanted))
        return KVMILL_OK;
    return kvmill_refuse_type(name, tensor->dtype, NULL, kvmill_dtype_name(wanted), error);
}

static kvmill_status check_dtypes(const kvmill_tensor_scatter *op, kvmill_error *error) {
    DLDataType type = op->past_cache->dtype;
    if (!kvmill_dtype_known(type))
        return kvmill_refuse_type_code("past_cache", type, "the types of TensorScatter-24", error);
    kvmill_status status = check_dtype(op->update, "update", type, error);
    if (status == KVMILL_OK && op->present_cache != NULL)
        status = check_dtype(op->present_cache, "present_cache", type, error);
    if (status == KVMILL_OK && op->write_indices != NULL)
        status = check_dtype(op->write_indices, "write_indices", kvmill_int64, error);
    return status;
}

/* All dims of `tensor` equal those of past_cache, except dim `except`. */
static kvmill_status check_same_shape(const kvmill_tensor_scatter *op, const DLTensor *tensor,
                                      const char *name, int except, kvmill_error *error) {
    const DLTensor *past = op->past_cache;
    bool same = tensor->ndim == past->ndim;
    for (int d = 0; same && d < past->ndim; d++)
        same = d == except || kvmill_may_be_equal(tensor->shape[d], past->shape[d]);
    if (same)
        return check_dims(tensor, name, error);
    return kvmill_refuse_shape(
        name, tensor, past->ndim, past->shape,
        except < 0 ? ", as past_cache" : ", as past_cache except on the sequence axis", error);
}

kvmill_status kvmill_tensor_scatter_check_rows(const DLTensor *past, const DLTensor *update,
                                               int axis, kvmill_error *error) {
    int64_t rows = update->shape[axis], capacity = past->shape[axis];
    if (rows <= capacity || capacity == KVMILL_DYNAMIC)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_SHAPE,
                       "update has %" PRId64 " rows on axis %d; accepted: at most the %" PRId64
                       " of past_cache",
                       rows, axis, capacity);
}

static kvmill_status check_indices(const kvmill_tensor_scatter *op, kvmill_error *error) {
    const DLTensor *indices = op->write_indices;
    if (indices == NULL)
        return KVMILL_OK;
    if (indices->ndim == 1 && kvmill_may_be_equal(indices->shape[0], op->past_cache->shape[0]))
        return check_dims(indices, "write_indices", error);
    return kvmill_refuse_shape("write_indices", indices, 1, op->past_cache->shape, ", the batch",
                               error);
}

static kvmill_status check_shapes(const kvmill_tensor_scatter *op, int axis, kvmill_error *error) {
    kvmill_status status = check_dims(op->past_cache, "past_cache", error);
    if (status == KVMILL_OK)
        status = check_same_shape(op, op->update, "update", axis, error);
    if (status == KVMILL_OK && op->present_cache != NULL)
        status = check_same_shape(op, op->present_cache, "present_cache", -1, error);
    if (status == KVMILL_OK)
        status = kvmill_tensor_scatter_check_rows(op->past_cache, op->update, axis, error);
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

/* The product of the cache's dims [from, to).  It can only overflow if another dim is 0; nothing is
   moved then, and any value will do. */
static int64_t folded(const kvmill_tensor_scatter *op, int axis, int from, int to) {
    struct kvmill_count count = {.product = 1};
    for (int d = from; d < to; d++)
        kvmill_count_extent(&count, kvmill_tensor_scatter_dim(op, axis, d));
    bool is_too_large = count.overflow || count.product > kvmill_dtype_most(op->past_cache->dtype);
    return is_too_large ? 0 : kvmill_counted(&count);
}

static bool is_word(const char *given, const char *word) {
    return given != NULL && strcmp(given, word) == 0;
}

static kvmill_status check_words(const kvmill_tensor_scatter *op, kvmill_error *error) {
    kvmill_status status = kvmill_check_members(OP_TENSOR_SCATTER, 0, op, error);
    if (status != KVMILL_OK || !is_word(op->negative_indices, "floored") ||
        kvmill_is_circular(op->mode))
        return status;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "negative_indices is \"floored\" and mode is \"linear\"; accepted: "
                       "\"refused\", or mode \"circular\"");
}

static struct kvmill_row_geometry fold(const kvmill_tensor_scatter *op, int axis) {
    return (struct kvmill_row_geometry){
        .axis = axis,
        .circular = kvmill_is_circular(op->mode),
        .floored = is_word(op->negative_indices, "floored"),
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
    kvmill_status status = check_forms(op, error);
    if (status == KVMILL_OK)
        status = check_axis(op, error);
    if (status == KVMILL_OK)
        status = check_words(op, error);
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
