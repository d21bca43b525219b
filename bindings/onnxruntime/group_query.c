/* SPDX-License-Identifier: Apache-2.0 */
#include "group_query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../common/refuse.h"
#include "blocks.h"
#include "values.h"

_Static_assert((int)GROUP_QUERY_TENSORS <= (int)MOST_TENSORS, "a node has room for its tensors");

/* ---- The node's attributes ---- */

static bool is_scale(const char *type) {
    return strcmp(type, "PER_TENSOR") == 0 || strcmp(type, "PER_CHANNEL") == 0;
}

enum { MOST_HEADS = 1 << 16 };

static kvmill_status check_attributes(const struct group_query *said, kvmill_error *error) {
    if (said->num_heads < 1 || said->num_heads > MOST_HEADS || said->kv_num_heads < 1 ||
        said->num_heads % said->kv_num_heads != 0)
        return refuse(error,
                      "num_heads is %" PRId64 " and kv_num_heads %" PRId64
                      "; accepted: 1 to %d, and a divisor of that",
                      said->num_heads, said->kv_num_heads, (int)MOST_HEADS);
    if (said->qk_output != 0)
        return refuse(error, "qk_output is %" PRId64 "; accepted: 0", said->qk_output);
    if (said->sliding_window_cache != 0)
        return refuse(error, "sliding_window_cache is %" PRId64 "; accepted: 0",
                      said->sliding_window_cache);
    if (said->causal != 0 && said->causal != 1)
        return refuse(error, "causal is %" PRId64 "; accepted: 0 or 1", said->causal);
    if (said->local_window_size != -1 && (said->local_window_size < 1 || said->causal == 0))
        return refuse(error,
                      "local_window_size is %" PRId64 "; accepted: -1, or with causal 1 or more",
                      said->local_window_size);
    return KVMILL_OK;
}

static kvmill_status check_presence(const DLTensor *const *inputs, uint64_t outputs,
                                    const struct group_query *said, kvmill_error *error) {
    if (inputs[GROUP_QUERY_Q_NORM_WEIGHT] != NULL || inputs[GROUP_QUERY_K_NORM_WEIGHT] != NULL)
        return refuse(error, "q_norm_weight or k_norm_weight is there; accepted: neither");
    if ((outputs >> GROUP_QUERY_PRESENT_KEY & 3) != 3 || outputs >> GROUP_QUERY_OUTPUT_QK & 1)
        return refuse(error, "accepted: the outputs output, present_key and present_value");
    if ((inputs[GROUP_QUERY_KEY] == NULL) != (inputs[GROUP_QUERY_VALUE] == NULL) ||
        (inputs[GROUP_QUERY_PAST_KEY] == NULL) != (inputs[GROUP_QUERY_PAST_VALUE] == NULL))
        return refuse(error, "K is given without V, or V without K; accepted: both or neither");
    if (said->do_rotary != 0 &&
        (inputs[GROUP_QUERY_COS_CACHE] == NULL || inputs[GROUP_QUERY_SIN_CACHE] == NULL))
        return refuse(error, "do_rotary without cos_cache and sin_cache; accepted: with both");
    return KVMILL_OK;
}

static kvmill_status check_plain_cache(const DLTensor *const *inputs,
                                       const struct group_query *said,
                                       const struct group_query_heads *heads, kvmill_error *error) {
    if (strcmp(said->v_quant_type, "NONE") != 0)
        return refuse(error, "V is quantised and K is not; accepted: both or neither");
    for (int i = GROUP_QUERY_PAST_KEY; i <= GROUP_QUERY_PAST_VALUE; i++)
        if (inputs[i] != NULL && !value_has_type(inputs[i], kDLFloat, heads->bits))
            return refuse(error, "a cache is not of the type of query; accepted: that, or with "
                                 "k_quant_type and v_quant_type codes");
    return KVMILL_OK;
}

/* The bytes of a row depend on the format; the run checks them. */
static kvmill_status check_blocks(const DLTensor *const *inputs, const struct group_query *said,
                                  kvmill_error *error) {
    if (strcmp(said->k_quant_type, "NONE") != 0 || strcmp(said->v_quant_type, "NONE") != 0)
        return refuse(error, "k_quant_type or v_quant_type with blocks; accepted: NONE");
    for (int i = GROUP_QUERY_PAST_KEY; i <= GROUP_QUERY_PAST_VALUE; i++)
        if (inputs[i] == NULL || !value_has_type(inputs[i], kDLUInt, 8))
            return refuse(error, "a past is not there as uint8; accepted: both, for blocks");
    return KVMILL_OK;
}

/* Codes are int8, or two 4-bit codes in a uint8. */
static kvmill_status check_cache(const DLTensor *const *inputs, const struct group_query *said,
                                 struct group_query_heads *heads, kvmill_error *error) {
    bool quantised = strcmp(said->k_quant_type, "NONE") != 0;
    const DLTensor *key = inputs[GROUP_QUERY_PAST_KEY], *value = inputs[GROUP_QUERY_PAST_VALUE];
    heads->bits = quantised && !heads->blocks ? (int)said->kv_cache_bit_width
                  : heads->half               ? 16
                                              : 32;
    if (heads->blocks)
        return check_blocks(inputs, said, error);
    if (!quantised)
        return check_plain_cache(inputs, said, heads, error);
    if (!is_scale(said->k_quant_type) || !is_scale(said->v_quant_type))
        return refuse(error,
                      "k_quant_type is %s and v_quant_type %s; accepted: NONE for both, or "
                      "PER_TENSOR or PER_CHANNEL",
                      said->k_quant_type, said->v_quant_type);
    if ((heads->bits != 8 && heads->bits != 4) || heads->dim % 2 != 0)
        return refuse(error,
                      "kv_cache_bit_width is %d and a head has %" PRId64
                      " numbers; accepted: 8 or 4, even",
                      heads->bits, heads->dim);
    if (key == NULL || !value_has_type(key, heads->bits == 8 ? kDLInt : kDLUInt, 8) ||
        !value_has_type(value, key->dtype.code, 8))
        return refuse(error, "caches of %d bits are not there as %s", heads->bits,
                      heads->bits == 8 ? "int8" : "uint8");
    if (inputs[GROUP_QUERY_K_SCALE] == NULL || inputs[GROUP_QUERY_V_SCALE] == NULL ||
        !value_has_type(inputs[GROUP_QUERY_K_SCALE], kDLFloat, 32) ||
        !value_has_type(inputs[GROUP_QUERY_V_SCALE], kDLFloat, 32))
        return refuse(error, "k_scale or v_scale is not there as float32; accepted: both");
    return KVMILL_OK;
}

kvmill_status group_query_find_heads(const struct node *node, const DLTensor *const *inputs,
                                     uint64_t outputs, struct group_query_heads *heads,
                                     kvmill_error *error) {
    const struct group_query *said = &node->attributes.group_query;
    const DLTensor *query = inputs[GROUP_QUERY_QUERY];
    kvmill_status status = check_attributes(said, error);
    if (status == KVMILL_OK)
        status = check_presence(inputs, outputs, said, error);
    if (status != KVMILL_OK)
        return status;
    *heads = (struct group_query_heads){.heads = said->num_heads,
                                        .kv_heads = said->kv_num_heads,
                                        .half = value_has_type(query, kDLFloat, 16),
                                        .packed = inputs[GROUP_QUERY_KEY] == NULL,
                                        .blocks = node->op == &cache_group_query_op};
    int64_t count = heads->heads + (heads->packed ? 2 * heads->kv_heads : 0);
    if (!heads->half && !value_has_type(query, kDLFloat, 32))
        return refuse(error, "query is neither float32 nor float16; accepted: one of them");
    if (query->ndim != 3 || value_last_dim(query) < count || value_last_dim(query) % count != 0)
        return refuse(error,
                      "query has rank %d and rows of %" PRId64
                      "; accepted: rank 3, and a known multiple of %" PRId64,
                      query->ndim, value_last_dim(query), count);
    heads->dim = value_last_dim(query) / count;
    return check_cache(inputs, said, heads, error);
}

/* ---- Plans ---- */

static unsigned fixed(const struct node *node, int tensor, int rank) {
    (void)node, (void)rank;
    return tensor == GROUP_QUERY_QUERY ? 1u << 2 : 0;
}

static void set_caches(kvmill_cache_attend *op, const struct node *node,
                       const struct group_query_heads *heads) {
    const DLDataType float32 = {kDLFloat, 32, 1}, code = {kDLInt, (uint8_t)heads->bits, 1},
                     bytes = {kDLUInt, 8, 1};
    op->key_T2 = group_query_is_quantised(heads) ? code : op->T1;
    if (group_query_is_quantised(heads)) {
        op->key_quant_bit = heads->bits;
        op->key_quant_group = heads->dim;
        op->key_T3 = float32;
    }
    if (heads->blocks) {
        op->key_T2 = op->value_T2 = bytes;
        op->key_cache_format = blocks_format(node, 0);
        op->value_cache_format = blocks_format(node, 1);
    }
}

/* Queries of quantised caches are float32, because they are multiplied by the scales of keys. */
static kvmill_cache_attend attend_of(const struct node *node, const struct group_query_heads *heads,
                                     const DLTensor *const *inputs) {
    const DLDataType float32 = {kDLFloat, 32, 1};
    const struct group_query *said = &node->attributes.group_query;
    kvmill_cache_attend op;
    kvmill_cache_attend_init(&op, sizeof op);
    op.num_heads = heads->heads;
    op.num_kv_heads = heads->kv_heads;
    op.key_head_dim = heads->dim;
    op.T1 = group_query_is_quantised(heads) ? float32 : inputs[GROUP_QUERY_QUERY]->dtype;
    set_caches(&op, node, heads);
    if (inputs[GROUP_QUERY_ATTENTION_BIAS] != NULL)
        op.mask_T1 = inputs[GROUP_QUERY_ATTENTION_BIAS]->dtype;
    op.softmax_scale = node->attributes.attention.scale;
    op.softcap = node->attributes.attention.softcap;
    op.math = node->settings.math;
    op.is_causal = said->causal != 0;
    if (said->local_window_size > 0)
        op.left_window_size = said->local_window_size - 1;
    return op;
}

static kvmill_status plan(const struct node *node, const DLTensor *const *inputs, uint64_t outputs,
                          const kvmill_plan_options *options, kvmill_plan **plan,
                          kvmill_error *error) {
    struct group_query_heads heads;
    *plan = NULL;
    kvmill_status status = group_query_find_heads(node, inputs, outputs, &heads, error);
    if (status != KVMILL_OK)
        return status;
    const kvmill_cache_attend op = attend_of(node, &heads, inputs);
    return kvmill_plan_cache_attend(&op, options, plan, error);
}

/* ---- Outputs ---- */

/* The capacity is known only at run time, from total_sequence_length. */
static int64_t capacity(const DLTensor *const *inputs) {
    const DLTensor *given = inputs[GROUP_QUERY_TOTAL_SEQUENCE_LENGTH];
    if (given == NULL || given->data == NULL)
        return KVMILL_DYNAMIC;
    int64_t total = group_query_integer(given, 0), rows = group_query_past_rows(inputs);
    return rows > total ? rows : total;
}

static int shape(const struct node *node, const DLTensor *const *inputs, int tensor,
                 int64_t dims[MOST_RANK]) {
    const struct group_query *said = &node->attributes.group_query;
    const DLTensor *query = inputs[GROUP_QUERY_QUERY];
    const DLTensor *past =
        inputs[tensor == GROUP_QUERY_PRESENT_VALUE ? GROUP_QUERY_PAST_VALUE : GROUP_QUERY_PAST_KEY];
    bool packed = inputs[GROUP_QUERY_KEY] == NULL;
    int64_t dim = query->shape[2] / (said->num_heads + (packed ? 2 * said->kv_num_heads : 0));
    dims[0] = query->shape[0];
    dims[1] = tensor == GROUP_QUERY_OUTPUT ? query->shape[1] : said->kv_num_heads;
    dims[2] = tensor == GROUP_QUERY_OUTPUT ? dim * said->num_heads : capacity(inputs);
    dims[3] = past != NULL ? value_last_dim(past) : dim;
    return tensor == GROUP_QUERY_OUTPUT ? 3 : 4;
}

int64_t group_query_work(const DLTensor *const *given) {
    return (value_bytes(given[GROUP_QUERY_PRESENT_KEY]) +
            value_bytes(given[GROUP_QUERY_PRESENT_VALUE])) *
           given[GROUP_QUERY_QUERY]->shape[1];
}

static int cache_of(int tensor) {
    bool cache = tensor == GROUP_QUERY_PRESENT_KEY || tensor == GROUP_QUERY_PRESENT_VALUE;
    return cache ? tensor - GROUP_QUERY_PRESENT_KEY + GROUP_QUERY_PAST_KEY : -1;
}

/* ---- The ops ---- */

enum {
    REQUIRED = 1u << GROUP_QUERY_QUERY | 1u << GROUP_QUERY_SEQLENS_K |
               1u << GROUP_QUERY_TOTAL_SEQUENCE_LENGTH
};

#define GROUP_QUERY                                                                                \
    .name = "GroupQueryAttention", .tensors = GROUP_QUERY_TENSORS,                                 \
    .inputs = {17,                                                                                 \
               {GROUP_QUERY_QUERY, GROUP_QUERY_KEY, GROUP_QUERY_VALUE, GROUP_QUERY_PAST_KEY,       \
                GROUP_QUERY_PAST_VALUE, GROUP_QUERY_SEQLENS_K, GROUP_QUERY_TOTAL_SEQUENCE_LENGTH,  \
                GROUP_QUERY_COS_CACHE, GROUP_QUERY_SIN_CACHE, GROUP_QUERY_POSITION_IDS,            \
                GROUP_QUERY_ATTENTION_BIAS, GROUP_QUERY_HEAD_SINK, GROUP_QUERY_K_SCALE,            \
                GROUP_QUERY_V_SCALE, GROUP_QUERY_Q_NORM_WEIGHT, GROUP_QUERY_K_NORM_WEIGHT,         \
                GROUP_QUERY_QUERY_SEQLENS}},                                                       \
    .fixed = fixed, .plan = plan, .shape = shape, .work = group_query_work, .run = group_query_run

const struct node_op group_query_op = {
    GROUP_QUERY,
    .needs_kernels = true,
    .outputs = {4,
                {GROUP_QUERY_OUTPUT, GROUP_QUERY_PRESENT_KEY, GROUP_QUERY_PRESENT_VALUE,
                 GROUP_QUERY_OUTPUT_QK}},
    .required = REQUIRED,
};

const struct node_op cache_group_query_op = {
    GROUP_QUERY,
    .only_here = true,
    .outputs = {3, {GROUP_QUERY_OUTPUT, GROUP_QUERY_PRESENT_KEY, GROUP_QUERY_PRESENT_VALUE}},
    .required = REQUIRED | 1u << GROUP_QUERY_PAST_KEY | 1u << GROUP_QUERY_PAST_VALUE,
    .cache_of = cache_of,
};
