/* Plans for ONNX's gathers and scatters.

   SPDX-License-Identifier: Apache-2.0 */
#include "windows.h"

#include <inttypes.h>
#include <string.h>

#include "../common/refuse.h"

/* ---- Axes ---- */

static void push_range(struct windows_axes *axes, int64_t first, int64_t last) {
    for (int64_t i = first; i < last && axes->count < MOST_RANK; i++)
        axes->items[axes->count++] = i;
}

static kvmill_dims dims_of(const struct windows_axes *axes) {
    return (kvmill_dims){axes->items, axes->count};
}

static int64_t axis_of(const struct node *node, const DLTensor *data) {
    int64_t axis = node->attributes.windows.axis;
    return axis < 0 ? axis + data->ndim : axis;
}

static int64_t components_of(const DLTensor *indices) {
    return value_last_dim(indices);
}

/* ---- Dimension numbers, op by op ---- */

static void set_gather(const struct node *node, const DLTensor *data, const DLTensor *indices,
                       struct windows *windows) {
    int64_t axis = axis_of(node, data), points = indices->ndim;
    push_range(&windows->dropped, axis, axis + 1);
    push_range(&windows->offsets, 0, axis);
    push_range(&windows->offsets, axis + points, data->ndim - 1 + points);
    windows->vector = points;
}

static void set_gather_nd(const struct node *node, const DLTensor *data, const DLTensor *indices,
                          struct windows *windows) {
    int64_t batch = node->attributes.windows.batch_dims, points = indices->ndim - 1;
    int64_t first = batch + components_of(indices);
    push_range(&windows->batching, 0, batch);
    push_range(&windows->dropped, batch, first);
    push_range(&windows->offsets, points, points + data->ndim - first);
    windows->vector = points;
}

/* The data extends along the whole axis, and along other axes as far as the indices. */
static void set_scatter_elements(const struct node *node, const DLTensor *data,
                                 const DLTensor *indices, struct windows *windows) {
    int64_t axis = axis_of(node, data);
    push_range(&windows->dropped, axis, axis + 1);
    push_range(&windows->batching, 0, axis);
    push_range(&windows->batching, axis + 1, data->ndim);
    windows->vector = data->ndim;
    for (int d = 0; d < data->ndim; d++)
        windows->data[d] = d == axis ? data->shape[d] : indices->shape[d];
}

/* ---- Nodes that kvmill takes ---- */

static bool is_known(const DLTensor *tensor) {
    bool known = true;
    for (int d = 0; d < tensor->ndim; d++)
        known = known && tensor->shape[d] >= 0;
    return known;
}

static kvmill_status check_types(const struct node *node, const DLTensor *const *inputs,
                                 kvmill_error *error) {
    const DLTensor *data = inputs[WINDOWS_DATA], *indices = inputs[WINDOWS_INDICES];
    bool vectors = node->op == &gather_nd_op, wide = value_has_type(indices, kDLInt, 64);
    if (data->dtype.bits % 8 != 0)
        return refuse(error, "data has elements of %d bits; accepted: whole bytes",
                      data->dtype.bits);
    if (!wide && (vectors || !value_has_type(indices, kDLInt, 32)))
        return refuse(error, "indices are not int64%s", vectors ? "" : " or int32");
    if (strcmp(node->attributes.windows.reduction, "none") != 0)
        return refuse(error, "reduction is %s; accepted: none", node->attributes.windows.reduction);
    for (int i = WINDOWS_DATA; i <= WINDOWS_UPDATES; i++)
        if (inputs[i] != NULL && !is_known(inputs[i]))
            return refuse(error, "input %d has dims that the model does not state", i);
    return KVMILL_OK;
}

static kvmill_status check_rank(int64_t rank, kvmill_error *error) {
    return rank <= MOST_RANK
               ? KVMILL_OK
               : refuse(error, "the result has rank %" PRId64 "; accepted: at most %d", rank,
                        MOST_RANK);
}

static kvmill_status check_axis(const struct node *node, const DLTensor *data,
                                const DLTensor *indices, kvmill_error *error) {
    int64_t said = node->attributes.windows.axis;
    if (said >= data->ndim || said < -data->ndim)
        return refuse(error, "axis is %" PRId64 "; accepted for data of %d axes: %d to %d", said,
                      data->ndim, -data->ndim, data->ndim - 1);
    int64_t extent = data->shape[axis_of(node, data)];
    return indices->dtype.bits == 64 || extent <= INT32_MAX
               ? KVMILL_OK
               : refuse(error,
                        "data has %" PRId64 " elements along the axis; accepted with int32: "
                        "at most %d",
                        extent, INT32_MAX);
}

static kvmill_status check_vectors(const struct node *node, const DLTensor *data,
                                   const DLTensor *indices, kvmill_error *error) {
    int64_t batch = node->attributes.windows.batch_dims;
    if (batch < 0 || batch >= data->ndim || batch >= indices->ndim)
        return refuse(error,
                      "batch_dims is %" PRId64 "; accepted: less than axes of data and "
                      "indices, %d and %d",
                      batch, data->ndim, indices->ndim);
    int64_t count = components_of(indices), most = data->ndim - batch;
    return count >= 1 && count <= most
               ? check_rank(indices->ndim - 1 + most - count, error)
               : refuse(error, "indices end with an axis of %" PRId64 "; accepted: 1 to %" PRId64,
                        count, most);
}

static kvmill_status check_elements(const struct node *node, const DLTensor *data,
                                    const DLTensor *indices, kvmill_error *error) {
    bool fits = indices->ndim == data->ndim;
    for (int d = 0; fits && d < data->ndim; d++)
        fits = d == axis_of(node, data) || indices->shape[d] <= data->shape[d];
    return fits ? KVMILL_OK : refuse(error, "indices reach beyond the data's other axes");
}

/* Checks shapes, so that the dimension numbers below are valid. */
static kvmill_status check_shapes(const struct node *node, const DLTensor *data,
                                  const DLTensor *indices, kvmill_error *error) {
    if (node->op == &gather_nd_op)
        return check_vectors(node, data, indices, error);
    kvmill_status status = check_axis(node, data, indices, error);
    if (status != KVMILL_OK)
        return status;
    return node->op == &gather_op ? check_rank(data->ndim + indices->ndim - 1, error)
                                  : check_elements(node, data, indices, error);
}

kvmill_status windows_find(const struct node *node, const DLTensor *const *inputs,
                           struct windows *windows, kvmill_error *error) {
    const DLTensor *data = inputs[WINDOWS_DATA], *indices = inputs[WINDOWS_INDICES];
    kvmill_status status = check_types(node, inputs, error);
    if (status == KVMILL_OK)
        status = check_shapes(node, data, indices, error);
    if (status != KVMILL_OK)
        return status;
    *windows = (struct windows){.vector = 0};
    memcpy(windows->data, data->shape, (size_t)data->ndim * sizeof *windows->data);
    (node->op == &gather_op      ? set_gather
     : node->op == &gather_nd_op ? set_gather_nd
                                 : set_scatter_elements)(node, data, indices, windows);
    windows->mapped = windows->dropped;
    return KVMILL_OK;
}

/* ---- Plans ---- */

static unsigned fixed(const struct node *node, int tensor, int rank) {
    (void)node, (void)tensor, (void)rank;
    return ~0u;
}

/* A window has one element along the axes that starts select, and all elements of the rest. */
static struct windows_axes slices_of(const struct windows *windows, int rank) {
    const struct windows_axes *lists[] = {&windows->dropped, &windows->batching};
    struct windows_axes slices = {.count = (size_t)rank};
    memcpy(slices.items, windows->data, (size_t)rank * sizeof *slices.items);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k]->count; i++) {
            int64_t *size = &slices.items[lists[k]->items[i]];
            *size = *size > 1 ? 1 : *size;
        }
    return slices;
}

static kvmill_status plan_gather(const struct node *node, const DLTensor *const *inputs,
                                 uint64_t outputs, const kvmill_plan_options *options,
                                 kvmill_plan **plan, kvmill_error *error) {
    struct windows windows;
    kvmill_gather op;
    (void)outputs;
    *plan = NULL;
    kvmill_status status = windows_find(node, inputs, &windows, error);
    if (status != KVMILL_OK)
        return status;
    const struct windows_axes slices = slices_of(&windows, inputs[WINDOWS_DATA]->ndim);
    kvmill_gather_init(&op, sizeof op);
    op.offset_dims = dims_of(&windows.offsets);
    op.collapsed_slice_dims = dims_of(&windows.dropped);
    op.operand_batching_dims = op.start_indices_batching_dims = dims_of(&windows.batching);
    op.start_index_map = dims_of(&windows.mapped);
    op.slice_sizes = dims_of(&slices);
    op.index_vector_dim = windows.vector;
    op.operand = inputs[WINDOWS_DATA];
    op.start_indices = inputs[WINDOWS_INDICES];
    return kvmill_plan_gather(&op, options, plan, error);
}

static kvmill_status plan_scatter(const struct node *node, const DLTensor *const *inputs,
                                  uint64_t outputs, const kvmill_plan_options *options,
                                  kvmill_plan **plan, kvmill_error *error) {
    struct windows windows;
    kvmill_scatter op;
    (void)outputs;
    *plan = NULL;
    kvmill_status status = windows_find(node, inputs, &windows, error);
    if (status != KVMILL_OK)
        return status;
    DLTensor reached = *inputs[WINDOWS_DATA];
    const DLTensor *all = &reached;
    reached.shape = windows.data;
    kvmill_scatter_init(&op, sizeof op);
    op.update_window_dims = dims_of(&windows.offsets);
    op.inserted_window_dims = dims_of(&windows.dropped);
    op.input_batching_dims = op.scatter_indices_batching_dims = dims_of(&windows.batching);
    op.scatter_dims_to_operand_dims = dims_of(&windows.mapped);
    op.index_vector_dim = windows.vector;
    op.update_computation = "replace";
    op.count = 1;
    op.inputs = &all;
    op.updates = &inputs[WINDOWS_UPDATES];
    op.scatter_indices = inputs[WINDOWS_INDICES];
    return kvmill_plan_scatter(&op, options, plan, error);
}

/* ---- Outputs ---- */

/* The result has the dims before the axis, then those of the indices, then those after the axis. */
static int shape_of_gather(const struct node *node, const DLTensor *const *inputs, int tensor,
                           int64_t dims[MOST_RANK]) {
    const DLTensor *data = inputs[WINDOWS_DATA], *indices = inputs[WINDOWS_INDICES];
    bool vectors = node->op == &gather_nd_op;
    int from = vectors ? 0 : (int)axis_of(node, data), points = indices->ndim - vectors, rank = 0;
    int after =
        vectors ? (int)(node->attributes.windows.batch_dims + components_of(indices)) : from + 1;
    (void)tensor;
    for (int d = 0; d < from; d++)
        dims[rank++] = data->shape[d];
    for (int d = 0; d < points; d++)
        dims[rank++] = indices->shape[d];
    for (int d = after; d < data->ndim; d++)
        dims[rank++] = data->shape[d];
    return rank;
}

static int shape_of_scatter(const struct node *node, const DLTensor *const *inputs, int tensor,
                            int64_t dims[MOST_RANK]) {
    const DLTensor *data = inputs[WINDOWS_DATA];
    (void)node, (void)tensor;
    memcpy(dims, data->shape, (size_t)data->ndim * sizeof *dims);
    return data->ndim;
}

/* ---- Where kvmill is faster ---- */

/* Measured by bench/onnxruntime_windows.py: the runtime copies adjacent rows as fast, and for small
   sizes a provider costs more time than it saves. */
enum { LEAST_RESULT = 512 << 10, LEAST_OF_ROWS = 8 << 20, LEAST_UPDATES = 1024 };

static kvmill_status pays_of_gather(const struct node *node, const DLTensor *const *inputs,
                                    kvmill_error *error) {
    const DLTensor *data = inputs[WINDOWS_DATA];
    bool rows = node->op == &gather_op && axis_of(node, data) == 0;
    int64_t dims[MOST_RANK], least = rows ? LEAST_OF_ROWS : LEAST_RESULT;
    const DLTensor result = {.ndim = shape_of_gather(node, inputs, WINDOWS_GATHERED, dims),
                             .dtype = data->dtype,
                             .shape = dims};
    return value_bytes(&result) >= least
               ? KVMILL_OK
               : refuse(error,
                        "the result has %" PRId64 " bytes; accepted: %" PRId64
                        " or more, below which the CPU provider is as fast",
                        value_bytes(&result), least);
}

static kvmill_status pays_of_scatter(const struct node *node, const DLTensor *const *inputs,
                                     kvmill_error *error) {
    int64_t count = value_count(inputs[WINDOWS_UPDATES]);
    (void)node;
    return count >= LEAST_UPDATES
               ? KVMILL_OK
               : refuse(error,
                        "there are %" PRId64 " updates; accepted: %d or more, below which "
                        "the CPU provider is as fast",
                        count, LEAST_UPDATES);
}

static int64_t work_of_gather(const DLTensor *const *given) {
    return 2 * value_bytes(given[WINDOWS_GATHERED]);
}

static int64_t work_of_scatter(const DLTensor *const *given) {
    return value_bytes(given[WINDOWS_INDICES]) + 2 * value_bytes(given[WINDOWS_UPDATES]);
}

/* ---- The ops ---- */

#define GATHER(NAME)                                                                               \
    {                                                                                              \
        .name = NAME, .needs_kernels = true, .tensors = KVMILL_GATHER_TENSORS,                     \
        .inputs = {2, {WINDOWS_DATA, WINDOWS_INDICES}}, .outputs = {1, {WINDOWS_GATHERED}},        \
        .required = 3, .fixed = fixed, .plan = plan_gather, .pays = pays_of_gather,                \
        .shape = shape_of_gather, .work = work_of_gather, .run = windows_run_gather                \
    }
const struct node_op gather_op = GATHER("Gather"), gather_nd_op = GATHER("GatherND");
#undef GATHER

const struct node_op scatter_elements_op = {
    .name = "ScatterElements",
    .needs_kernels = true,
    .tensors = WINDOWS_SCATTERED + 1,
    .inputs = {3, {WINDOWS_DATA, WINDOWS_INDICES, WINDOWS_UPDATES}},
    .outputs = {1, {WINDOWS_SCATTERED}},
    .required = 7,
    .copied = 1u << WINDOWS_DATA,
    .fixed = fixed,
    .plan = plan_scatter,
    .pays = pays_of_scatter,
    .shape = shape_of_scatter,
    .work = work_of_scatter,
    .run = windows_run_scatter,
};
