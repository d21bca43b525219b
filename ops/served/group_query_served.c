/* SPDX-License-Identifier: Apache-2.0 */
#include "group_query_served.h"

#include <inttypes.h>
#include <string.h>

#include "refuse_served.h"

static const DLDataType float32 = {kDLFloat, 32, 1}, bytes = {kDLUInt, 8, 1};

static int64_t last_dim(const DLTensor *tensor) {
    return tensor->ndim > 0 ? tensor->shape[tensor->ndim - 1] : KVMILL_DYNAMIC;
}

void kvmill_group_query_init(struct kvmill_group_query *said) {
    *said = (struct kvmill_group_query){.local_window_size = -1,
                                        .smooth_softmax = -1,
                                        .causal = 1,
                                        .k_quant_type = "NONE",
                                        .v_quant_type = "NONE"};
}

/* ---- The node's attributes ---- */

static bool is_scale(const char *type) {
    return strcmp(type, "PER_TENSOR") == 0 || strcmp(type, "PER_CHANNEL") == 0;
}

enum { MOST_HEADS = 1 << 16 };

static kvmill_status check_attributes(const struct kvmill_group_query *said, kvmill_error *error) {
    if (said->num_heads < 1 || said->num_heads > MOST_HEADS || said->kv_num_heads < 1 ||
        said->num_heads % said->kv_num_heads != 0)
        return refuse(error,
                      "num_heads is %" PRId64 " and kv_num_heads %" PRId64
                      "; accepted: 1 to %d, and a divisor of that",
                      said->num_heads, said->kv_num_heads, (int)MOST_HEADS);
    if (said->qk_output != 0)
        return refuse(error, "qk_output is %" PRId64 "; accepted: 0", said->qk_output);
    if (said->sliding_window_cache != 0 &&
        (said->sliding_window_cache != 1 || said->local_window_size < 1))
        return refuse(error,
                      "sliding_window_cache is %" PRId64 " and local_window_size %" PRId64
                      "; accepted: 0, or 1 with a window of 1 or more",
                      said->sliding_window_cache, said->local_window_size);
    if (said->causal != 0 && said->causal != 1)
        return refuse(error, "causal is %" PRId64 "; accepted: 0 or 1", said->causal);
    if (said->local_window_size != -1 && (said->local_window_size < 1 || said->causal == 0))
        return refuse(error,
                      "local_window_size is %" PRId64 "; accepted: -1, or with causal 1 or more",
                      said->local_window_size);
    return KVMILL_OK;
}

static kvmill_status check_presence(const struct kvmill_group_query_node *node,
                                    kvmill_error *error) {
    const DLTensor *const *inputs = node->inputs;
    if (inputs[KVMILL_GROUP_QUERY_Q_NORM_WEIGHT] != NULL ||
        inputs[KVMILL_GROUP_QUERY_K_NORM_WEIGHT] != NULL)
        return refuse(error, "q_norm_weight or k_norm_weight is there; accepted: neither");
    if ((node->outputs >> KVMILL_GROUP_QUERY_PRESENT_KEY & 3) != 3 ||
        node->outputs >> KVMILL_GROUP_QUERY_OUTPUT_QK & 1)
        return refuse(error, "accepted: the outputs output, present_key and present_value");
    if ((inputs[KVMILL_GROUP_QUERY_KEY] == NULL) != (inputs[KVMILL_GROUP_QUERY_VALUE] == NULL) ||
        (inputs[KVMILL_GROUP_QUERY_PAST_KEY] == NULL) !=
            (inputs[KVMILL_GROUP_QUERY_PAST_VALUE] == NULL))
        return refuse(error, "K is given without V, or V without K; accepted: both or neither");
    if (node->said->sliding_window_cache != 0 && inputs[KVMILL_GROUP_QUERY_PAST_KEY] == NULL)
        return refuse(error, "sliding_window_cache without past_key; accepted: with both pasts");
    if (node->said->sliding_window_cache != 0 && inputs[KVMILL_GROUP_QUERY_ATTENTION_BIAS] != NULL)
        return refuse(error, "sliding_window_cache with attention_bias; accepted: one of them");
    if (node->said->do_rotary != 0 && (inputs[KVMILL_GROUP_QUERY_COS_CACHE] == NULL ||
                                       inputs[KVMILL_GROUP_QUERY_SIN_CACHE] == NULL))
        return refuse(error, "do_rotary without cos_cache and sin_cache; accepted: with both");
    return KVMILL_OK;
}

static kvmill_status check_plain_cache(const DLTensor *const *inputs,
                                       const struct kvmill_group_query *said,
                                       const struct kvmill_group_query_heads *heads,
                                       kvmill_error *error) {
    if (strcmp(said->v_quant_type, "NONE") != 0)
        return refuse(error, "V is quantised and K is not; accepted: both or neither");
    for (int i = KVMILL_GROUP_QUERY_PAST_KEY; i <= KVMILL_GROUP_QUERY_PAST_VALUE; i++)
        if (inputs[i] != NULL && !has_type(inputs[i], kDLFloat, heads->bits))
            return refuse(error, "a cache is not of the type of query; accepted: that, or with "
                                 "k_quant_type and v_quant_type codes");
    return KVMILL_OK;
}

/* The bytes of a row depend on the format; the run checks them. */
static kvmill_status check_blocks(const DLTensor *const *inputs,
                                  const struct kvmill_group_query *said, kvmill_error *error) {
    if (strcmp(said->k_quant_type, "NONE") != 0 || strcmp(said->v_quant_type, "NONE") != 0)
        return refuse(error, "k_quant_type or v_quant_type with blocks; accepted: NONE");
    for (int i = KVMILL_GROUP_QUERY_PAST_KEY; i <= KVMILL_GROUP_QUERY_PAST_VALUE; i++)
        if (inputs[i] == NULL || !has_type(inputs[i], kDLUInt, 8))
            return refuse(error, "a past is not there as uint8; accepted: both, for blocks");
    return KVMILL_OK;
}

/* Codes are int8, or two 4-bit codes in a uint8. */
static kvmill_status check_cache(const DLTensor *const *inputs,
                                 const struct kvmill_group_query *said,
                                 struct kvmill_group_query_heads *heads, kvmill_error *error) {
    bool quantised = strcmp(said->k_quant_type, "NONE") != 0;
    const DLTensor *key = inputs[KVMILL_GROUP_QUERY_PAST_KEY],
                   *value = inputs[KVMILL_GROUP_QUERY_PAST_VALUE];
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
    if (key == NULL || !has_type(key, heads->bits == 8 ? kDLInt : kDLUInt, 8) ||
        !has_type(value, key->dtype.code, 8))
        return refuse(error, "caches of %d bits are not there as %s", heads->bits,
                      heads->bits == 8 ? "int8" : "uint8");
    if (inputs[KVMILL_GROUP_QUERY_K_SCALE] == NULL || inputs[KVMILL_GROUP_QUERY_V_SCALE] == NULL ||
        !has_type(inputs[KVMILL_GROUP_QUERY_K_SCALE], kDLFloat, 32) ||
        !has_type(inputs[KVMILL_GROUP_QUERY_V_SCALE], kDLFloat, 32))
        return refuse(error, "k_scale or v_scale is not there as float32; accepted: both");
    return KVMILL_OK;
}

kvmill_status kvmill_group_query_check(const struct kvmill_group_query_node *node,
                                       struct kvmill_group_query_heads *heads,
                                       kvmill_error *error) {
    const struct kvmill_group_query *said = node->said;
    const DLTensor *query = node->inputs[KVMILL_GROUP_QUERY_QUERY];
    kvmill_status status = check_attributes(said, error);
    if (status == KVMILL_OK)
        status = check_presence(node, error);
    if (status != KVMILL_OK)
        return status;
    *heads =
        (struct kvmill_group_query_heads){.heads = said->num_heads,
                                          .kv_heads = said->kv_num_heads,
                                          .half = has_type(query, kDLFloat, 16),
                                          .packed = node->inputs[KVMILL_GROUP_QUERY_KEY] == NULL,
                                          .blocks = node->formats != NULL};
    int64_t count = heads->heads + (heads->packed ? 2 * heads->kv_heads : 0);
    if (!heads->half && !has_type(query, kDLFloat, 32))
        return refuse(error, "query is neither float32 nor float16; accepted: one of them");
    if (query->ndim != 3 || last_dim(query) < count || last_dim(query) % count != 0)
        return refuse(error,
                      "query has rank %d and rows of %" PRId64
                      "; accepted: rank 3, and a known multiple of %" PRId64,
                      query->ndim, last_dim(query), count);
    heads->dim = last_dim(query) / count;
    return check_cache(node->inputs, said, heads, error);
}

/* ---- The node's attention ---- */

static void set_caches(kvmill_cache_attend *op, const struct kvmill_group_query_node *node,
                       const struct kvmill_group_query_heads *heads) {
    const DLDataType code = {kDLInt, (uint8_t)heads->bits, 1};
    op->key_T2 = kvmill_group_query_is_quantised(heads) ? code : op->T1;
    if (kvmill_group_query_is_quantised(heads)) {
        op->key_quant_bit = heads->bits;
        op->key_quant_group = heads->dim;
        op->key_T3 = float32;
    }
    if (heads->blocks) {
        op->key_T2 = op->value_T2 = bytes;
        op->key_cache_format = node->formats[0];
        op->value_cache_format = node->formats[1];
    }
}

kvmill_cache_attend kvmill_group_query_attend(const struct kvmill_group_query_node *node,
                                              const struct kvmill_group_query_heads *heads) {
    const struct kvmill_group_query *said = node->said;
    const DLTensor *bias = node->inputs[KVMILL_GROUP_QUERY_ATTENTION_BIAS];
    kvmill_cache_attend op;
    kvmill_cache_attend_init(&op, sizeof op);
    op.num_heads = heads->heads;
    op.num_kv_heads = heads->kv_heads;
    op.key_head_dim = heads->dim;
    op.T1 = kvmill_group_query_is_quantised(heads) ? float32
                                                   : node->inputs[KVMILL_GROUP_QUERY_QUERY]->dtype;
    set_caches(&op, node, heads);
    if (bias != NULL)
        op.mask_T1 = bias->dtype;
    op.softmax_scale = said->scale;
    op.softcap = said->softcap;
    op.is_causal = said->causal != 0;
    if (said->local_window_size > 0)
        op.left_window_size = said->local_window_size - 1;
    return op;
}
