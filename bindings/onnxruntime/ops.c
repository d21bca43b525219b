/* The ops that nodes may have.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "node.h"
#include "ort_values.h"

/* ---- TensorScatter ---- */

enum { AFTER_AXIS = 1 };

static int axis_of(const struct node *node, int rank) {
    int64_t axis = node->attributes.axis;
    return (int)(axis < 0 ? axis + rank : axis);
}

/* Kernels are made for rows: dims after the axis are fixed. */
static unsigned fixed_of_scatter(const struct node *node, int tensor, int rank) {
    int axis = axis_of(node, rank);
    bool indices = tensor == KVMILL_TENSOR_SCATTER_WRITE_INDICES;
    return indices || axis < 0 || axis >= rank ? 0 : ~0u << (axis + AFTER_AXIS);
}

static kvmill_status plan_scatter(const struct node *node, const DLTensor *const *inputs,
                                  uint64_t outputs, const kvmill_plan_options *options,
                                  kvmill_plan **plan, kvmill_error *error) {
    kvmill_tensor_scatter op;
    (void)outputs;
    kvmill_tensor_scatter_init(&op, sizeof op);
    op.axis = node->attributes.axis;
    op.mode = node->attributes.is_circular ? "circular" : "linear";
    op.past_cache = inputs[KVMILL_TENSOR_SCATTER_PAST_CACHE];
    op.update = inputs[KVMILL_TENSOR_SCATTER_UPDATE];
    op.write_indices = inputs[KVMILL_TENSOR_SCATTER_WRITE_INDICES];
    return kvmill_plan_tensor_scatter(&op, options, plan, error);
}

static int copy_shape(const DLTensor *from, int64_t dims[MOST_RANK]) {
    memcpy(dims, from->shape, (size_t)from->ndim * sizeof *dims);
    return from->ndim;
}

static int shape_of_scatter(const struct node *node, const DLTensor *const *inputs, int tensor,
                            int64_t dims[MOST_RANK]) {
    (void)node, (void)tensor;
    return copy_shape(inputs[KVMILL_TENSOR_SCATTER_PAST_CACHE], dims);
}

static int64_t work_of_scatter(const DLTensor *const *given) {
    const DLTensor *past = given[KVMILL_TENSOR_SCATTER_PAST_CACHE];
    bool in_place = past->data == given[KVMILL_TENSOR_SCATTER_PRESENT_CACHE]->data;
    return value_bytes(in_place ? given[KVMILL_TENSOR_SCATTER_UPDATE] : past);
}

static OrtStatus *run_scatter(struct node_run *run, const kvmill_plan *plan) {
    return node_run_plan(run, &tensor_scatter_op, plan, run->given);
}

const struct node_op tensor_scatter_op = {
    .name = "TensorScatter",
    .tensors = KVMILL_TENSOR_SCATTER_TENSORS,
    .inputs = {3,
               {KVMILL_TENSOR_SCATTER_PAST_CACHE, KVMILL_TENSOR_SCATTER_UPDATE,
                KVMILL_TENSOR_SCATTER_WRITE_INDICES}},
    .outputs = {1, {KVMILL_TENSOR_SCATTER_PRESENT_CACHE}},
    .required = 1u << KVMILL_TENSOR_SCATTER_PAST_CACHE | 1u << KVMILL_TENSOR_SCATTER_UPDATE,
    .fixed = fixed_of_scatter,
    .plan = plan_scatter,
    .shape = shape_of_scatter,
    .work = work_of_scatter,
    .run = run_scatter,
};

/* ---- Attention ---- */

#define ATTENTION_INPUTS                                                                           \
    KVMILL_ATTENTION_Q, KVMILL_ATTENTION_K, KVMILL_ATTENTION_V, KVMILL_ATTENTION_ATTN_MASK,        \
        KVMILL_ATTENTION_PAST_KEY, KVMILL_ATTENTION_PAST_VALUE, KVMILL_ATTENTION_NONPAD_KV_SEQLEN
#define ATTENTION_OUTPUTS                                                                          \
    KVMILL_ATTENTION_Y, KVMILL_ATTENTION_PRESENT_KEY, KVMILL_ATTENTION_PRESENT_VALUE,              \
        KVMILL_ATTENTION_QK_MATMUL_OUTPUT

enum {
    QUERIES_KEYS_VALUES =
        1u << KVMILL_ATTENTION_Q | 1u << KVMILL_ATTENTION_K | 1u << KVMILL_ATTENTION_V
};

/* Kernels are made for numbers and sizes of heads. */
static unsigned fixed_of_attention(const struct node *node, int tensor, int rank) {
    bool rows = tensor <= KVMILL_ATTENTION_V || tensor == KVMILL_ATTENTION_PAST_KEY ||
                tensor == KVMILL_ATTENTION_PAST_VALUE;
    (void)node;
    return !rows ? 0 : rank == 4 ? 1u << 1 | 1u << 3 : 1u << 2;
}

static kvmill_attention attention_of(const struct node *node, const DLTensor *const *inputs) {
    kvmill_attention op = node->attributes.attention;
    op.Q = inputs[KVMILL_ATTENTION_Q];
    op.K = inputs[KVMILL_ATTENTION_K];
    op.V = inputs[KVMILL_ATTENTION_V];
    op.attn_mask = inputs[KVMILL_ATTENTION_ATTN_MASK];
    op.past_key = inputs[KVMILL_ATTENTION_PAST_KEY];
    op.past_value = inputs[KVMILL_ATTENTION_PAST_VALUE];
    op.nonpad_kv_seqlen = inputs[KVMILL_ATTENTION_NONPAD_KV_SEQLEN];
    return op;
}

static kvmill_status plan_attention(const struct node *node, const DLTensor *const *inputs,
                                    uint64_t outputs, const kvmill_plan_options *options,
                                    kvmill_plan **plan, kvmill_error *error) {
    int64_t open[] = {KVMILL_DYNAMIC, KVMILL_DYNAMIC, KVMILL_DYNAMIC, KVMILL_DYNAMIC};
    const DLTensor keys = {.device = {kDLCPU, 0},
                           .ndim = 4,
                           .dtype = inputs[KVMILL_ATTENTION_Q]->dtype,
                           .shape = open};
    DLTensor values = keys;
    kvmill_attention op = attention_of(node, inputs);
    values.dtype = inputs[KVMILL_ATTENTION_V]->dtype;
    op.present_key = outputs >> KVMILL_ATTENTION_PRESENT_KEY & 1 ? &keys : NULL;
    op.present_value = outputs >> KVMILL_ATTENTION_PRESENT_VALUE & 1 ? &values : NULL;
    op.qk_matmul_output = outputs >> KVMILL_ATTENTION_QK_MATMUL_OUTPUT & 1 ? &keys : NULL;
    return kvmill_plan_attention(&op, options, plan, error);
}

/* The number of heads is an attribute if the tensor has rank 3. */
static int64_t heads_of(const DLTensor *tensor, int64_t said) {
    return tensor->ndim == 4 ? tensor->shape[1] : said;
}

static int64_t dim_of(const DLTensor *tensor, int64_t said) {
    return tensor->ndim == 4 ? tensor->shape[3] : tensor->shape[2] / said;
}

static int64_t rows_of(const DLTensor *tensor) {
    return tensor != NULL ? tensor->shape[tensor->ndim - 2] : 0;
}

static int shape_of_output(const struct node *node, const DLTensor *const *inputs,
                           int64_t dims[MOST_RANK]) {
    const kvmill_attention *op = &node->attributes.attention;
    const DLTensor *Q = inputs[KVMILL_ATTENTION_Q], *V = inputs[KVMILL_ATTENTION_V];
    int64_t dim = dim_of(V, op->kv_num_heads);
    copy_shape(Q, dims);
    dims[Q->ndim - 1] = Q->ndim == 4 ? dim : dim * op->q_num_heads;
    return Q->ndim;
}

static int shape_of_attention(const struct node *node, const DLTensor *const *inputs, int tensor,
                              int64_t dims[MOST_RANK]) {
    const kvmill_attention *op = &node->attributes.attention;
    const DLTensor *Q = inputs[KVMILL_ATTENTION_Q], *K = inputs[KVMILL_ATTENTION_K];
    bool value = tensor == KVMILL_ATTENTION_PRESENT_VALUE;
    if (tensor == KVMILL_ATTENTION_Y)
        return shape_of_output(node, inputs, dims);
    dims[0] = Q->shape[0];
    dims[1] = heads_of(K, op->kv_num_heads);
    dims[2] = rows_of(inputs[KVMILL_ATTENTION_PAST_KEY]) + rows_of(K);
    dims[3] = dim_of(value ? inputs[KVMILL_ATTENTION_V] : K, op->kv_num_heads);
    if (tensor == KVMILL_ATTENTION_QK_MATMUL_OUTPUT) {
        dims[1] = heads_of(Q, op->q_num_heads);
        dims[3] = dims[2];
        dims[2] = rows_of(Q);
    }
    return 4;
}

/* Counts keys and values once per query. */
static int64_t work_of_attention(const DLTensor *const *given) {
    static const int read[] = {KVMILL_ATTENTION_K, KVMILL_ATTENTION_V, KVMILL_ATTENTION_PAST_KEY,
                               KVMILL_ATTENTION_PAST_VALUE};
    int64_t bytes = 0;
    for (int i = 0; i < 4; i++)
        bytes += given[read[i]] != NULL ? value_bytes(given[read[i]]) : 0;
    return bytes * rows_of(given[KVMILL_ATTENTION_Q]);
}

static OrtStatus *run_attention(struct node_run *run, const kvmill_plan *plan) {
    return node_run_plan(run, &attention_op, plan, run->given);
}

const struct node_op attention_op = {
    .name = "Attention",
    .needs_kernels = true,
    .tensors = KVMILL_ATTENTION_TENSORS,
    .inputs = {7, {ATTENTION_INPUTS}},
    .outputs = {4, {ATTENTION_OUTPUTS}},
    .required = QUERIES_KEYS_VALUES,
    .fixed = fixed_of_attention,
    .plan = plan_attention,
    .shape = shape_of_attention,
    .work = work_of_attention,
    .run = run_attention,
};

/* ---- TensorScatter of K and V, then Attention to the valid keys ---- */

static kvmill_status plan_step(const struct node *node, const DLTensor *const *inputs,
                               uint64_t outputs, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    const kvmill_attention attention = attention_of(node, inputs);
    kvmill_tensor_scatter_attention op;
    (void)outputs;
    kvmill_tensor_scatter_attention_init(&op, sizeof op);
    op.attention = &attention;
    op.write_indices = inputs[KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES];
    return kvmill_plan_tensor_scatter_attention(&op, options, plan, error);
}

static int shape_of_step(const struct node *node, const DLTensor *const *inputs, int tensor,
                         int64_t dims[MOST_RANK]) {
    if (tensor == KVMILL_ATTENTION_Y)
        return shape_of_output(node, inputs, dims);
    bool key = tensor == KVMILL_ATTENTION_PRESENT_KEY;
    return copy_shape(inputs[key ? KVMILL_ATTENTION_PAST_KEY : KVMILL_ATTENTION_PAST_VALUE], dims);
}

static int64_t number_at(const DLTensor *tensor, int64_t i) {
    return tensor != NULL ? ((const int64_t *)tensor->data)[i] : 0;
}

/* Whether the step can run as one op: the two ops put an entry's queries at the end of its valid
   keys, the step puts them where its new rows are. */
static bool is_one_step(const DLTensor *const *given) {
    const DLTensor *starts = given[KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES];
    const DLTensor *lengths = given[KVMILL_ATTENTION_NONPAD_KV_SEQLEN];
    int64_t rows = rows_of(given[KVMILL_ATTENTION_K]);
    bool same = rows == rows_of(given[KVMILL_ATTENTION_Q]) && lengths->ndim == 1 &&
                (starts == NULL || (starts->ndim == 1 && starts->shape[0] == lengths->shape[0]));
    for (int64_t b = 0; same && b < lengths->shape[0]; b++)
        same = number_at(lengths, b) - rows == number_at(starts, b);
    return same;
}

typedef OrtStatus *(*op_action)(const struct node_run *run, const struct node_op *op,
                                const DLTensor *const *given);

static OrtStatus *store(const struct node_run *run, int side, op_action act) {
    const DLTensor *const given[KVMILL_TENSOR_SCATTER_TENSORS] = {
        run->given[KVMILL_ATTENTION_PAST_KEY + side],
        run->given[KVMILL_ATTENTION_K + side],
        run->given[KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES],
        run->given[KVMILL_ATTENTION_PRESENT_KEY + side],
    };
    return act(run, &tensor_scatter_op, given);
}

static OrtStatus *attend(const struct node_run *run, op_action act) {
    const DLTensor *given[KVMILL_ATTENTION_TENSORS] = {
        [KVMILL_ATTENTION_Q] = run->given[KVMILL_ATTENTION_Q],
        [KVMILL_ATTENTION_K] = run->given[KVMILL_ATTENTION_PRESENT_KEY],
        [KVMILL_ATTENTION_V] = run->given[KVMILL_ATTENTION_PRESENT_VALUE],
        [KVMILL_ATTENTION_ATTN_MASK] = run->given[KVMILL_ATTENTION_ATTN_MASK],
        [KVMILL_ATTENTION_NONPAD_KV_SEQLEN] = run->given[KVMILL_ATTENTION_NONPAD_KV_SEQLEN],
        [KVMILL_ATTENTION_Y] = run->given[KVMILL_ATTENTION_Y],
    };
    return act(run, &attention_op, given);
}

static OrtStatus *three_nodes(const struct node_run *run, op_action act) {
    OrtStatus *status = store(run, 0, act);
    if (status == NULL)
        status = store(run, 1, act);
    return status != NULL ? status : attend(run, act);
}

/* All is checked before the first store, which may write to the caller's cache. */
static OrtStatus *run_step(struct node_run *run, const kvmill_plan *plan) {
    if (is_one_step(run->given))
        return node_run_plan(run, &step_op, plan, run->given);
    OrtStatus *status = three_nodes(run, node_check_op);
    return status != NULL ? status : three_nodes(run, node_run_op);
}

static int64_t work_of_step(const DLTensor *const *given) {
    return (value_bytes(given[KVMILL_ATTENTION_PAST_KEY]) +
            value_bytes(given[KVMILL_ATTENTION_PAST_VALUE])) *
           rows_of(given[KVMILL_ATTENTION_Q]);
}

const struct node_op step_op = {
    .name = "TensorScatterAttention",
    .needs_kernels = true,
    .tensors = KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS,
    .inputs = {8, {ATTENTION_INPUTS, KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES}},
    .outputs = {4, {ATTENTION_OUTPUTS}}, /* qk_matmul_output is always absent */
    .required = QUERIES_KEYS_VALUES | 1u << KVMILL_ATTENTION_PAST_KEY |
                1u << KVMILL_ATTENTION_PAST_VALUE | 1u << KVMILL_ATTENTION_NONPAD_KV_SEQLEN,
    .fixed = fixed_of_attention,
    .plan = plan_step,
    .shape = shape_of_step,
    .work = work_of_step,
    .run = run_step,
};
