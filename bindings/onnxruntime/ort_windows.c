/* Plans for ONNX's gathers and scatters.

   SPDX-License-Identifier: Apache-2.0 */
#include "ort_windows.h"

#include <string.h>

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

/* The node as ops/served/windows_served.h has it. */
static struct kvmill_windows_node neutral_of(const struct node *node,
                                             const DLTensor *const *inputs) {
    const struct windows_attributes *said = &node->attributes.windows;
    bool scatters = node->op == &scatter_elements_op;
    return (struct kvmill_windows_node){.op = scatters ? KVMILL_ONNX_SCATTER_ELEMENTS
                                              : node->op == &gather_nd_op ? KVMILL_ONNX_GATHER_ND
                                                                          : KVMILL_ONNX_GATHER,
                                        .axis = said->axis,
                                        .batch_dims = said->batch_dims,
                                        .reduction = said->reduction,
                                        .inputs = {inputs[WINDOWS_DATA], inputs[WINDOWS_INDICES],
                                                   scatters ? inputs[WINDOWS_UPDATES] : NULL}};
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

kvmill_status windows_find(const struct node *node, const DLTensor *const *inputs,
                           struct windows *windows, kvmill_error *error) {
    const DLTensor *data = inputs[WINDOWS_DATA], *indices = inputs[WINDOWS_INDICES];
    const struct kvmill_windows_node neutral = neutral_of(node, inputs);
    kvmill_status status = kvmill_windows_check(&neutral, error);
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

static unsigned fixed_windows(const struct node *node, int tensor, int rank) {
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

static int shape_of_gather(const struct node *node, const DLTensor *const *inputs, int tensor,
                           int64_t dims[MOST_RANK]) {
    const struct kvmill_windows_node neutral = neutral_of(node, inputs);
    (void)tensor;
    return kvmill_windows_result(&neutral, dims);
}

static int shape_of_scatter(const struct node *node, const DLTensor *const *inputs, int tensor,
                            int64_t dims[MOST_RANK]) {
    const DLTensor *data = inputs[WINDOWS_DATA];
    (void)node, (void)tensor;
    memcpy(dims, data->shape, (size_t)data->ndim * sizeof *dims);
    return data->ndim;
}

/* ---- The work ---- */

static kvmill_status pays(const struct node *node, const DLTensor *const *inputs,
                          kvmill_error *error) {
    const struct kvmill_windows_node neutral = neutral_of(node, inputs);
    return kvmill_windows_pays(&neutral, error);
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
        .required = 3, .fixed = fixed_windows, .plan = plan_gather, .pays = pays,                  \
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
    .fixed = fixed_windows,
    .plan = plan_scatter,
    .pays = pays,
    .shape = shape_of_scatter,
    .work = work_of_scatter,
    .run = windows_run_scatter,
};
