/* SPDX-License-Identifier: Apache-2.0 */
#include "gather.h"

#include <inttypes.h>
#include <string.h>

#include "attributes.h"
#include "element.h"
#include "extent.h"
#include "fail.h"
#include "refuse.h"

static const char *const words[] = {
    [KVMILL_WORD_WINDOW] = "offset_dims",
    [KVMILL_WORD_DROPPED] = "collapsed_slice_dims",
    [KVMILL_WORD_BATCHING] = "operand_batching_dims",
    [KVMILL_WORD_INDICES_BATCHING] = "start_indices_batching_dims",
    [KVMILL_WORD_MAP] = "start_index_map",
    [KVMILL_WORD_OPERAND] = "operand",
    [KVMILL_WORD_INDICES] = "start_indices",
    [KVMILL_WORD_WINDOWED] = "the result",
};

static struct kvmill_numbers numbers_of(const kvmill_gather *op) {
    struct kvmill_numbers numbers = {
        .words = words,
        .window = op->offset_dims,
        .dropped = op->collapsed_slice_dims,
        .batching = op->operand_batching_dims,
        .indices_batching = op->start_indices_batching_dims,
        .map = op->start_index_map,
        .index_vector_dim = op->index_vector_dim,
        .operand = op->operand,
        .indices = op->start_indices,
    };
    numbers.windowed_rank = (int)op->offset_dims.count + kvmill_space_rank(&numbers);
    return numbers;
}

/* In the order in which StableHLO's own verifier checks them; others follow. */
static const struct kvmill_constraint constraints[] = {
    {1, kvmill_check_axis_count},
    {2, kvmill_check_vector_dim},
    {3, kvmill_check_map_size},
    {4, kvmill_check_window_sorted},
    {6, kvmill_check_dropped_unique},
    {7, kvmill_check_dropped_sorted},
    {8, kvmill_check_dropped_range},
    {10, kvmill_check_batching_sorted},
    {11, kvmill_check_batching_range},
    {13, kvmill_check_indices_batching_unique},
    {14, kvmill_check_indices_batching_range},
    {15, kvmill_check_indices_batching_vector},
    {16, kvmill_check_pair_count},
    {17, kvmill_check_pair_extents},
    {18, kvmill_check_map_unique},
    {19, kvmill_check_map_range},
};

/* ---- Sizes of slices ---- */

static kvmill_status check_slice_count(const kvmill_gather *op, kvmill_error *error) {
    struct kvmill_dims_text have;
    if (op->slice_sizes.count == (size_t)op->operand->ndim)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "C20: slice_sizes is %s; accepted: one for each axis of operand, which has "
                       "rank %d",
                       kvmill_dims_words(&op->slice_sizes, &have), op->operand->ndim);
}

static kvmill_status check_slices_of_one(int number, const char *name, const kvmill_dims *axes,
                                         const kvmill_gather *op, kvmill_error *error) {
    for (size_t i = 0; op->slice_sizes.items != NULL && i < axes->count; i++) {
        int64_t size = op->slice_sizes.items[axes->items[i]];
        if (size > 1)
            return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                               "C%d: slice_sizes[%" PRId64 "], of %s, is %" PRId64
                               "; accepted: 0 or 1",
                               number, axes->items[i], name, size);
    }
    return KVMILL_OK;
}

static kvmill_status check_slice_range(const kvmill_gather *op, kvmill_error *error) {
    for (int d = 0; op->slice_sizes.items != NULL && d < op->operand->ndim; d++) {
        int64_t size = op->slice_sizes.items[d], dim = op->operand->shape[d];
        if (size < 0 || (dim != KVMILL_DYNAMIC && size > dim))
            return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                               "C21: slice_sizes[%d] is %" PRId64 "; accepted: 0 to %" PRId64
                               ", the extent of the operand",
                               d, size, dim == KVMILL_DYNAMIC ? INT64_MAX : dim);
    }
    return KVMILL_OK;
}

static kvmill_status check_slices(const kvmill_gather *op, kvmill_error *error) {
    kvmill_status status = check_slice_count(op, error);
    if (status == KVMILL_OK)
        status =
            check_slices_of_one(9, "collapsed_slice_dims", &op->collapsed_slice_dims, op, error);
    if (status == KVMILL_OK)
        status =
            check_slices_of_one(12, "operand_batching_dims", &op->operand_batching_dims, op, error);
    return status == KVMILL_OK ? check_slice_range(op, error) : status;
}

/* ---- The result ---- */

void kvmill_gather_result(const struct kvmill_windows *windows, int64_t dims[KVMILL_MOST_RANK]) {
    for (int j = 0; j < windows->space_rank; j++)
        dims[windows->space_axis[j]] = windows->space[j];
    for (int d = 0; d < windows->rank; d++)
        if (windows->axis[d] != KVMILL_NOT_THERE)
            dims[windows->axis[d]] = windows->window[d];
}

/* The slice sizes of window axes. */
static void window_extents(const kvmill_gather *op, int64_t extent[KVMILL_MOST_RANK]) {
    int next = 0;
    for (int d = 0; d < op->operand->ndim; d++)
        if (!kvmill_dims_contain(&op->collapsed_slice_dims, d) &&
            !kvmill_dims_contain(&op->operand_batching_dims, d))
            extent[next++] = op->slice_sizes.items ? op->slice_sizes.items[d] : KVMILL_DYNAMIC;
}

static void unfold(const kvmill_gather *op, struct kvmill_windows *windows) {
    int64_t extent[KVMILL_MOST_RANK];
    struct kvmill_numbers numbers = numbers_of(op);
    window_extents(op, extent);
    kvmill_windows_unfold(&numbers, extent, windows);
}

static kvmill_status check_result_shape(const kvmill_gather *op,
                                        const struct kvmill_windows *windows, kvmill_error *error) {
    int64_t dims[KVMILL_MOST_RANK];
    kvmill_gather_result(windows, dims);
    bool same = op->result->ndim == windows->windowed_rank;
    for (int d = 0; same && d < windows->windowed_rank; d++)
        same = kvmill_may_be_equal(op->result->shape[d], dims[d]);
    if (same)
        return KVMILL_OK;
    return kvmill_refuse_shape("C22: the result", op->result, windows->windowed_rank, dims, "",
                               error);
}

static kvmill_element_type gather_operand_element(const kvmill_gather *op) {
    return op->operand_element ? *op->operand_element : kvmill_plain_element(op->operand->dtype);
}

static kvmill_status check_result_type(const kvmill_gather *op, kvmill_error *error) {
    struct kvmill_element_text have, want;
    kvmill_status status = KVMILL_OK;
    kvmill_element_type operand = gather_operand_element(op), result = operand;
    if (op->result != NULL)
        result = op->result_element ? *op->result_element : kvmill_plain_element(op->result->dtype);
    if (op->operand_element && op->result && !op->result_element)
        result = operand; /* a quantized type is given only once */
    if (op->result != NULL)
        status = kvmill_check_stored("the result", &result, op->result, error);
    if (status != KVMILL_OK || kvmill_element_equal(&operand, &result))
        return status;
    return kvmill_fail(error, KVMILL_E_DTYPE,
                       "C23: the result has element type %s; accepted: the operand's, %s",
                       kvmill_element_words(&result, &have), kvmill_element_words(&operand, &want));
}

static kvmill_status check_result(const kvmill_gather *op, kvmill_error *error) {
    struct kvmill_windows windows;
    struct kvmill_numbers numbers = numbers_of(op);
    kvmill_status status = kvmill_check_window_range(5, &numbers, error);
    if (status == KVMILL_OK && numbers.windowed_rank > KVMILL_MOST_RANK)
        status = kvmill_fail(error, KVMILL_E_SHAPE, "the result has rank %d; accepted: 0 to %d",
                             numbers.windowed_rank, (int)KVMILL_MOST_RANK);
    if (status != KVMILL_OK)
        return status;
    unfold(op, &windows);
    if (op->result != NULL)
        status = check_result_shape(op, &windows, error);
    return status == KVMILL_OK ? check_result_type(op, error) : status;
}

/* ---- All of it ---- */

static kvmill_status check_tensors(const kvmill_gather *op, kvmill_error *error) {
    if (op->operand == NULL || op->start_indices == NULL)
        return kvmill_refuse_null(op->operand == NULL ? "operand" : "start_indices", error);
    kvmill_status status = kvmill_check_axis_lists(OP_GATHER, op, "slice_sizes", error);
    if (status == KVMILL_OK)
        status = kvmill_check_rank("operand", op->operand, error);
    if (status == KVMILL_OK)
        status = kvmill_check_rank("start_indices", op->start_indices, error);
    if (status == KVMILL_OK && op->result != NULL)
        status = kvmill_check_rank("the result", op->result, error);
    if (status == KVMILL_OK && kvmill_kind_of(op->operand->dtype) == KVMILL_NO_KIND)
        return kvmill_refuse_type_code("operand", op->operand->dtype, "the types of StableHLO",
                                       error);
    if (status == KVMILL_OK && op->operand_element != NULL)
        status = kvmill_check_stored("operand", op->operand_element, op->operand, error);
    return status;
}

static kvmill_status check_index_type(const kvmill_gather *op, kvmill_error *error) {
    enum kvmill_kind kind = kvmill_kind_of(op->start_indices->dtype);
    if (kind == KVMILL_INT || kind == KVMILL_UINT)
        return KVMILL_OK;
    if (kind == KVMILL_NO_KIND)
        return kvmill_refuse_type_code("start_indices", op->start_indices->dtype,
                                       "integers of 2 to 64 bits", error);
    return kvmill_fail(error, KVMILL_E_DTYPE,
                       "start_indices has element type %s; accepted: integers of 2 to 64 bits",
                       kvmill_element_word(op->start_indices->dtype));
}

kvmill_status kvmill_gather_verify(const kvmill_gather *op, kvmill_error *error) {
    kvmill_status status = check_tensors(op, error);
    if (status == KVMILL_OK)
        status = check_index_type(op, error);
    if (status != KVMILL_OK)
        return status;
    struct kvmill_numbers numbers = numbers_of(op);
    status = kvmill_constraints_check(constraints, sizeof constraints / sizeof *constraints,
                                      &numbers, error);
    if (status == KVMILL_OK)
        status = check_slices(op, error);
    return status == KVMILL_OK ? check_result(op, error) : status;
}

/* Dropped and batching axes are not in the result.  They are read as slices of 1, even if the size
   is 0: there is a first element, unless the axis is empty. */
static kvmill_status check_read_axes(const struct kvmill_windows *windows, kvmill_error *error) {
    int64_t dims[KVMILL_MOST_RANK];
    kvmill_gather_result(windows, dims);
    for (int r = 0; r < windows->windowed_rank; r++)
        if (dims[r] == 0)
            return KVMILL_OK;
    for (int d = 0; d < windows->rank; d++)
        if (windows->dim[d] == 0)
            return kvmill_fail(error, KVMILL_E_SHAPE,
                               "axis %d of operand has extent 0 and the result has elements; "
                               "accepted: 1 or more, or an empty result",
                               d);
    return KVMILL_OK;
}

static kvmill_status check_all_known(const kvmill_gather *op, kvmill_error *error) {
    kvmill_status status = kvmill_check_known("operand", op->operand, error);
    if (status == KVMILL_OK)
        status = kvmill_check_known("start_indices", op->start_indices, error);
    if (status == KVMILL_OK && op->result != NULL)
        status = kvmill_check_known("the result", op->result, error);
    if (status == KVMILL_OK && op->slice_sizes.items == NULL && op->slice_sizes.count > 0)
        return kvmill_fail(error, KVMILL_E_NULL, "slice_sizes.items is NULL; accepted: constants");
    return status;
}

kvmill_status kvmill_gather_check(const kvmill_gather *op, struct kvmill_windows *windows,
                                  kvmill_error *error) {
    kvmill_status status = kvmill_gather_verify(op, error);
    if (status == KVMILL_OK)
        status = check_all_known(op, error);
    if (status == KVMILL_OK)
        status = kvmill_check_members(OP_GATHER, 0, op, error);
    if (status != KVMILL_OK)
        return status;
    int64_t dims[KVMILL_MOST_RANK];
    unfold(op, windows);
    kvmill_gather_result(windows, dims);
    DLTensor result = {.ndim = windows->windowed_rank, .shape = dims, .dtype = op->operand->dtype};
    status = kvmill_check_known("the result", &result, error);
    return status == KVMILL_OK ? check_read_axes(windows, error) : status;
}
