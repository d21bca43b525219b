/* SPDX-License-Identifier: Apache-2.0 */
#include "windows_served.h"

#include <inttypes.h>
#include <string.h>

#include "refuse_served.h"

enum { DATA, INDICES, UPDATES, MOST_RANK = KVMILL_WINDOWS_MOST_RANK };

/* The axis, counted from the first. */
static int64_t windows_axis(const struct kvmill_windows_node *node) {
    return node->axis < 0 ? node->axis + node->inputs[DATA]->ndim : node->axis;
}

/* The length of an index vector. */
static int64_t components_of(const struct kvmill_windows_node *node) {
    const DLTensor *indices = node->inputs[INDICES];
    return indices->ndim > 0 ? indices->shape[indices->ndim - 1] : KVMILL_DYNAMIC;
}

/* ---- Types ---- */

static bool is_known(const DLTensor *tensor) {
    bool known = true;
    for (int d = 0; d < tensor->ndim; d++)
        known = known && tensor->shape[d] >= 0;
    return known;
}

static kvmill_status check_types(const struct kvmill_windows_node *node, kvmill_error *error) {
    const DLTensor *data = node->inputs[DATA], *indices = node->inputs[INDICES];
    bool vectors = node->op == KVMILL_ONNX_GATHER_ND, wide = has_type(indices, kDLInt, 64);
    if (data->dtype.bits % 8 != 0)
        return refuse(error, "data has elements of %d bits; accepted: whole bytes",
                      data->dtype.bits);
    if (!wide && (vectors || !has_type(indices, kDLInt, 32)))
        return refuse(error, "indices are not int64%s", vectors ? "" : " or int32");
    if (strcmp(node->reduction, "none") != 0)
        return refuse(error, "reduction is %s; accepted: none", node->reduction);
    for (int i = DATA; i <= UPDATES; i++)
        if (node->inputs[i] != NULL && !is_known(node->inputs[i]))
            return refuse(error, "input %d has dims that the model does not state", i);
    return KVMILL_OK;
}

/* ---- Shapes ---- */

static kvmill_status check_rank(int64_t rank, kvmill_error *error) {
    return rank <= MOST_RANK
               ? KVMILL_OK
               : refuse(error, "the result has rank %" PRId64 "; accepted: at most %d", rank,
                        MOST_RANK);
}

static kvmill_status check_axis(const struct kvmill_windows_node *node, kvmill_error *error) {
    const DLTensor *data = node->inputs[DATA];
    if (node->axis >= data->ndim || node->axis < -data->ndim)
        return refuse(error, "axis is %" PRId64 "; accepted for data of %d axes: %d to %d",
                      node->axis, data->ndim, -data->ndim, data->ndim - 1);
    int64_t extent = data->shape[windows_axis(node)];
    return node->inputs[INDICES]->dtype.bits == 64 || extent <= INT32_MAX
               ? KVMILL_OK
               : refuse(error,
                        "data has %" PRId64 " elements along the axis; accepted with int32: "
                        "at most %d",
                        extent, INT32_MAX);
}

static kvmill_status check_vectors(const struct kvmill_windows_node *node, kvmill_error *error) {
    const DLTensor *data = node->inputs[DATA], *indices = node->inputs[INDICES];
    int64_t batch = node->batch_dims;
    if (batch < 0 || batch >= data->ndim || batch >= indices->ndim)
        return refuse(error,
                      "batch_dims is %" PRId64 "; accepted: less than axes of data and "
                      "indices, %d and %d",
                      batch, data->ndim, indices->ndim);
    int64_t count = components_of(node), most = data->ndim - batch;
    return count >= 1 && count <= most
               ? check_rank(indices->ndim - 1 + most - count, error)
               : refuse(error, "indices end with an axis of %" PRId64 "; accepted: 1 to %" PRId64,
                        count, most);
}

static kvmill_status check_elements(const struct kvmill_windows_node *node, kvmill_error *error) {
    const DLTensor *data = node->inputs[DATA], *indices = node->inputs[INDICES];
    bool fits = indices->ndim == data->ndim;
    for (int d = 0; fits && d < data->ndim; d++)
        fits = d == windows_axis(node) || indices->shape[d] <= data->shape[d];
    return fits ? KVMILL_OK : refuse(error, "indices reach beyond the data's other axes");
}

kvmill_status kvmill_windows_check(const struct kvmill_windows_node *node, kvmill_error *error) {
    kvmill_status status = check_types(node, error);
    if (status != KVMILL_OK)
        return status;
    if (node->op == KVMILL_ONNX_GATHER_ND)
        return check_vectors(node, error);
    status = check_axis(node, error);
    if (status != KVMILL_OK)
        return status;
    return node->op == KVMILL_ONNX_GATHER
               ? check_rank((int64_t)node->inputs[DATA]->ndim + node->inputs[INDICES]->ndim - 1,
                            error)
               : check_elements(node, error);
}

/* The result has the dims before the axis, then those of the indices, then those after the axis. */
int kvmill_windows_result(const struct kvmill_windows_node *node, int64_t dims[MOST_RANK]) {
    const DLTensor *data = node->inputs[DATA], *indices = node->inputs[INDICES];
    bool vectors = node->op == KVMILL_ONNX_GATHER_ND;
    int from = vectors ? 0 : (int)windows_axis(node), points = indices->ndim - vectors;
    int after = vectors ? (int)(node->batch_dims + components_of(node)) : from + 1, rank = 0;
    for (int d = 0; d < from; d++)
        dims[rank++] = data->shape[d];
    for (int d = 0; d < points; d++)
        dims[rank++] = indices->shape[d];
    for (int d = after; d < data->ndim; d++)
        dims[rank++] = data->shape[d];
    return rank;
}

/* ---- Where kvmill is faster ---- */

/* Measured by bench/onnxruntime_windows.py: the runtime copies adjacent rows as fast, and for small
   sizes a provider costs more time than it saves. */
enum { LEAST_RESULT = 512 << 10, LEAST_OF_ROWS = 8 << 20, LEAST_UPDATES = 1024 };

/* Multiplies dims, which a file may set to anything; INT64_MAX: at least. */
static int64_t product(int64_t first, int rank, const int64_t *dims) {
    bool many = false, empty = first == 0;
    for (int d = 0; d < rank; d++) {
        empty = empty || dims[d] == 0;
        many = many || __builtin_mul_overflow(first, dims[d], &first);
    }
    return empty ? 0 : many ? INT64_MAX : first;
}

static kvmill_status gather_pays(const struct kvmill_windows_node *node, kvmill_error *error) {
    bool rows = node->op == KVMILL_ONNX_GATHER && windows_axis(node) == 0;
    int64_t dims[MOST_RANK], least = rows ? LEAST_OF_ROWS : LEAST_RESULT;
    int rank = kvmill_windows_result(node, dims);
    int64_t bytes = product(node->inputs[DATA]->dtype.bits / 8, rank, dims);
    return bytes >= least ? KVMILL_OK
                          : refuse(error,
                                   "the result has %" PRId64 " bytes; accepted: %" PRId64
                                   " or more, below which the CPU provider is as fast",
                                   bytes, least);
}

static kvmill_status scatter_pays(const struct kvmill_windows_node *node, kvmill_error *error) {
    const DLTensor *updates = node->inputs[UPDATES];
    int64_t count = product(1, updates->ndim, updates->shape);
    return count >= LEAST_UPDATES
               ? KVMILL_OK
               : refuse(error,
                        "there are %" PRId64 " updates; accepted: %d or more, below which "
                        "the CPU provider is as fast",
                        count, LEAST_UPDATES);
}

kvmill_status kvmill_windows_pays(const struct kvmill_windows_node *node, kvmill_error *error) {
    return (node->op == KVMILL_ONNX_SCATTER_ELEMENTS ? scatter_pays : gather_pays)(node, error);
}

kvmill_status kvmill_windows_refuse_made(int input, kvmill_error *error) {
    return refuse(error,
                  "input %d is made by a node: the CPU provider may update it "
                  "in place, where kvmill copies it",
                  input);
}
