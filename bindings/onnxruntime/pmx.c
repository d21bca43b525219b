/* SPDX-License-Identifier: Apache-2.0 */
#include "pmx.h"

#include <string.h>

#include "ort_values.h"
#include "pmx_signatures.h"

const struct pmx_domain pmx_domains[PMX_DOMAINS] = {
    {"opmx", false},
    {"pmx", false},
    {"opmx.dynamic_batching", true},
    {"pmx.dynamic_batching", true},
};

/* ---- Finding an op ---- */

unsigned pmx_bit(const struct node_op *op) {
    for (int i = 0; i < PMX_OPS; i++)
        if (op == &pmx_ops[i])
            return 1u << i;
    return 0;
}

static bool is_dynamic(const struct node_op *op) {
    return op >= pmx_ops + PMX_STATIC_OPS;
}

const struct node_op *pmx_op_with(const struct node_op *op, size_t inputs) {
    const struct node_op *other = is_dynamic(op) ? op - PMX_STATIC_OPS : op;
    return inputs <= (size_t)other->inputs.count ? other : op;
}

const struct node_op *pmx_op_of_node(const char *domain, const char *name, size_t inputs) {
    for (int d = 0; d < PMX_DOMAINS; d++)
        for (int i = 0; strcmp(pmx_domains[d].name, domain) == 0 && i < PMX_STATIC_OPS; i++)
            if (strcmp(pmx_ops[i].name, name) == 0)
                return pmx_op_with(&pmx_ops[i + (pmx_domains[d].dynamic ? PMX_STATIC_OPS : 0)],
                                   inputs);
    return NULL;
}

/* ---- Plans ---- */

static int layer_axis(const struct node *node) {
    return node->attributes.cache_attention.cache_layout == 0;
}

/* KeyValueCache has no attributes for heads, and often only the cache's shape has the number of
   layers. */
static unsigned fixed_pmx(const struct node *node, int tensor, int rank) {
    bool heads = tensor == KVMILL_CACHE_ATTENTION_CURRENT_KEY && rank >= 2;
    if (tensor == KVMILL_CACHE_ATTENTION_CACHE)
        return 1u << layer_axis(node);
    return heads ? 3u << (rank - 2) : 0;
}

static void set_layers(const struct node *node, const DLTensor *cache, kvmill_cache_attention *op) {
    int axis = layer_axis(node);
    bool known = cache != NULL && cache->ndim > axis && cache->shape[axis] != KVMILL_DYNAMIC;
    if (op->num_layer == PMX_LAYERS_UNSAID)
        op->num_layer = known ? cache->shape[axis] : op->layer_idx + 1;
}

static int64_t known_or(const DLTensor *tensor, int from_end, int64_t otherwise) {
    bool known = tensor->ndim >= from_end && tensor->shape[tensor->ndim - from_end] >= 0;
    return known ? tensor->shape[tensor->ndim - from_end] : otherwise;
}

/* If the model does not say the heads, uses any valid ones: a run makes its own plan. */
static void set_heads(const DLTensor *key, kvmill_cache_attention *op) {
    op->num_kv_heads = known_or(key, 2, 1);
    op->head_dim = known_or(key, 1, op->quant_bit != 0 ? op->quant_group : 1);
}

static DLDataType type_of(const DLTensor *tensor, DLDataType otherwise) {
    return tensor != NULL ? tensor->dtype : otherwise;
}

static kvmill_cache_attention op_of(const struct node *node, const DLTensor *const *inputs) {
    const DLTensor *key = inputs[KVMILL_CACHE_ATTENTION_CURRENT_KEY];
    const DLTensor *cache = inputs[KVMILL_CACHE_ATTENTION_CACHE];
    const DLDataType half = {kDLFloat, 16, 1};
    kvmill_cache_attention op = node->attributes.cache_attention;
    op.dynamic_batching = is_dynamic(node->op);
    op.T1 = inputs[node->op->inputs.tensor[0]]->dtype;
    op.T2 = type_of(cache, op.T1);
    op.T3 = type_of(inputs[KVMILL_CACHE_ATTENTION_SCALE], op.T1.bits == 32 ? op.T1 : half);
    set_layers(node, cache, &op);
    if (inputs[KVMILL_CACHE_ATTENTION_QUERY] == NULL)
        set_heads(key, &op);
    else
        op.math = node->settings.math;
    return op;
}

#define PLAN(NAME)                                                                                 \
    static kvmill_status plan_##NAME(const struct node *node, const DLTensor *const *inputs,       \
                                     uint64_t outputs, const kvmill_plan_options *options,         \
                                     kvmill_plan **plan, kvmill_error *error) {                    \
        const kvmill_cache_attention op = op_of(node, inputs);                                     \
        (void)outputs;                                                                             \
        return kvmill_plan_##NAME(&op, options, plan, error);                                      \
    }
PLAN(key_value_cache)
PLAN(multi_head_attention)
PLAN(multi_head_cache_attention)
#undef PLAN

/* ---- Outputs ---- */

/* Returns the last number of a tensor; KVMILL_DYNAMIC: it has no memory yet. */
static int64_t last_number(const DLTensor *tensor) {
    int64_t count = tensor != NULL ? value_count(tensor) : 0;
    if (count < 1 || tensor->data == NULL || !value_has_type(tensor, kDLInt, 64))
        return KVMILL_DYNAMIC;
    return ((const int64_t *)tensor->data)[count - 1];
}

/* Returns the rows that are read back.  For invalid lengths it returns `added`: the run refuses
   them, but needs outputs for that. */
static int64_t rows_read(const struct node *node, const DLTensor *const *inputs, int64_t added) {
    bool dynamic = is_dynamic(node->op);
    const DLTensor *cache = inputs[KVMILL_CACHE_ATTENTION_CACHE];
    int64_t last = last_number(
        inputs[dynamic ? KVMILL_CACHE_ATTENTION_KVSTARTS : KVMILL_CACHE_ATTENTION_START_POS]);
    if (cache == NULL || cache->data == NULL) /* before a run */
        return KVMILL_DYNAMIC;
    if (last < 0 || last > value_count(cache))
        return added;
    return dynamic ? last : last + added;
}

/* An output has the shape of query, or of the keys that are read back. */
static int shape_pmx(const struct node *node, const DLTensor *const *inputs, int tensor,
                     int64_t dims[MOST_RANK]) {
    const DLTensor *first = inputs[node->op->inputs.tensor[0]];
    int rank = first->ndim;
    memcpy(dims, first->shape, (size_t)rank * sizeof *dims);
    if (tensor != KVMILL_CACHE_ATTENTION_ATTN_OUTPUT && rank >= 3) {
        dims[rank - 3] = rows_read(node, inputs, dims[rank - 3]);
        dims[rank - 2] *= node->attributes.cache_attention.num_repeat;
    }
    return rank;
}

/* ---- Runs ---- */

/* Counts the whole cache once per new token. */
static int64_t work_pmx(const DLTensor *const *given) {
    const DLTensor *query = given[KVMILL_CACHE_ATTENTION_QUERY];
    const DLTensor *first = query != NULL ? query : given[KVMILL_CACHE_ATTENTION_CURRENT_KEY];
    const DLTensor *key = given[KVMILL_CACHE_ATTENTION_KEY];
    const DLTensor *cache = given[KVMILL_CACHE_ATTENTION_CACHE];
    int64_t tokens = first->ndim >= 3 ? first->shape[first->ndim - 3] : 1;
    int64_t bytes = cache != NULL ? value_bytes(cache) : 2 * value_bytes(key);
    return query != NULL ? bytes * tokens : bytes;
}

static OrtStatus *run_pmx(struct node_run *run, const kvmill_plan *plan) {
    return node_run_plan(run, run->node->op, plan, run->given);
}

/* ---- The ops ---- */

enum { UPDATED = 1u << KVMILL_CACHE_ATTENTION_CACHE | 1u << KVMILL_CACHE_ATTENTION_SCALE };

#define OP(NUMBER, NAME)                                                                           \
    {                                                                                              \
        PMX_SIGNATURE_##NUMBER, .tensors = KVMILL_CACHE_ATTENTION_TENSORS, .only_here = true,      \
                                .updated = UPDATED, .fixed = fixed_pmx, .plan = plan_##NAME,       \
                                .shape = shape_pmx, .work = work_pmx, .run = run_pmx               \
    }
const struct node_op pmx_ops[PMX_OPS] = {
    OP(0, key_value_cache), OP(1, multi_head_attention), OP(2, multi_head_cache_attention),
    OP(3, key_value_cache), OP(4, multi_head_attention), OP(5, multi_head_cache_attention),
};
