/* GroupQueryAttention of com.microsoft, the domain of ONNX Runtime, and of kvmill's own, over
   caches in blocks. kvmill has no such op.  The specs are for the kernels that bindings/onnxruntime
   runs a node with: CacheAttend, and WriteRows for blocks.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "../../ops/cache_attend.h"
#include "onnx_ops.h"

enum { QUERY, KEY, PAST_KEY = ONNX_GROUP_QUERY_PAST, ATTENTION_BIAS = 10 };

bool onnx_is_group_query(const struct onnx_node *node) {
    return strcmp(node->domain, "com.microsoft") == 0 &&
           strcmp(node->op, "GroupQueryAttention") == 0;
}

bool onnx_is_cache_group_query(const struct onnx_node *node) {
    return strcmp(node->domain, "kvmill") == 0 && strcmp(node->op, "GroupQueryAttention") == 0;
}

static bool has_blocks(const struct onnx_call *call) {
    return onnx_is_cache_group_query(call->node);
}

/* ---- The node's attributes ---- */

/* Attributes that kernels depend on. */
struct said {
    int64_t heads, kv_heads, causal, window, bits;
};

static bool read_said(const struct onnx_call *call, struct said *said, struct error *error) {
    const struct onnx_model *model = call->model;
    const struct onnx_node *node = call->node;
    return onnx_integer_of(model, node, "num_heads", 0, &said->heads, error) &&
           onnx_integer_of(model, node, "kv_num_heads", 0, &said->kv_heads, error) &&
           onnx_integer_of(model, node, "causal", 1, &said->causal, error) &&
           onnx_integer_of(model, node, "local_window_size", -1, &said->window, error) &&
           onnx_integer_of(model, node, "kv_cache_bit_width", 0, &said->bits, error);
}

/* If there is no input `key`, K and V are part of the query.  Returns 0 if the size is not
   known. */
static int64_t head_dim_of(const struct onnx_call *call, const struct said *said) {
    const struct onnx_value *query = onnx_input(call, QUERY);
    int64_t heads = said->heads + (onnx_input(call, KEY) == NULL ? 2 * said->kv_heads : 0);
    bool known = query != NULL && query->has_shape && query->rank == 3 && said->heads > 0 &&
                 said->kv_heads > 0 && heads > 0;
    return known && query->dims[2] > 0 && query->dims[2] % heads == 0 ? query->dims[2] / heads : 0;
}

static bool is_quantised(const struct onnx_value *past) {
    return past != NULL && past->dtype.bits == 8;
}

/* Whether the library takes the caches: of the queries' type, of int8, or of uint8 with two 4-bit
   codes. */
static bool takes_cache(const struct onnx_call *call, const struct said *said) {
    const struct onnx_value *past = onnx_input(call, PAST_KEY);
    if (has_blocks(call))
        return onnx_block_format(call, 0) != NULL && onnx_block_format(call, 1) != NULL;
    if (past == NULL || kvmill_dtype_equal(past->dtype, onnx_input(call, QUERY)->dtype))
        return true;
    unsigned code = said->bits == 8 ? kDLInt : kDLUInt;
    return past->dtype.bits == 8 && past->dtype.code == code &&
           (said->bits == 8 || said->bits == 4);
}

static bool is_complete(const struct onnx_call *call, char *words, size_t size) {
    const struct onnx_value *query = onnx_input(call, QUERY);
    struct said said = {0};
    struct error error = {0};
    if (query != NULL && query->dtype.bits != 0 && read_said(call, &said, &error) &&
        head_dim_of(call, &said) > 0 && takes_cache(call, &said))
        return true;
    snprintf(
        words, size,
        "accepted: num_heads, kv_num_heads, known types, rows of query that are so many heads, "
        "and caches of its type, int8 or (kv_cache_bit_width 4) uint8, or formats that kvmill has");
    return false;
}

/* ---- The spec ---- */

/* Queries of quantised caches are float32: the library for ONNX Runtime converts them. */
static void set_types(const struct onnx_call *call, const struct said *said,
                      kvmill_cache_attend *op) {
    const DLDataType query = onnx_input(call, QUERY)->dtype;
    const struct onnx_value *past = onnx_input(call, PAST_KEY),
                            *bias = onnx_input(call, ATTENTION_BIAS);
    bool quantised = is_quantised(past) && !has_blocks(call);
    op->T1 = quantised ? kvmill_float32 : query;
    op->key_T2 = quantised ? (DLDataType){kDLInt, (uint8_t)said->bits, 1} : query;
    if (quantised) {
        op->key_quant_bit = said->bits;
        op->key_quant_group = op->key_head_dim;
        op->key_T3 = kvmill_float32;
    }
    if (has_blocks(call)) {
        op->key_T2 = op->value_T2 = kvmill_uint8;
        op->key_cache_format = onnx_block_format(call, 0);
        op->value_cache_format = onnx_block_format(call, 1);
    }
    if (bias != NULL)
        op->mask_T1 = query;
}

static bool add(const struct onnx_call *call, struct spec_list *list, struct error *error) {
    struct said said;
    struct spec *spec = onnx_begin_spec(call, list, error);
    if (spec == NULL || !read_said(call, &said, error) ||
        !spec_begin(spec, kvmill_op_of(OP_CACHE_ATTEND, 0), error))
        return false;
    kvmill_cache_attend *op = &spec->cache_attend;
    op->num_heads = said.heads;
    op->num_kv_heads = said.kv_heads;
    op->key_head_dim = head_dim_of(call, &said);
    op->softmax_scale = onnx_number_of(call->node, "scale");
    op->softcap = onnx_number_of(call->node, "softcap");
    op->is_causal = said.causal != 0;
    op->left_window_size = said.window > 0 ? said.window - 1 : -1;
    set_types(call, &said, op);
    *op = kvmill_cache_attend_resolve(op);
    return spec_check(spec, error);
}

static bool add_store(const struct onnx_call *call, int side, struct spec_list *list,
                      struct error *error) {
    struct said said;
    return read_said(call, &said, error) &&
           onnx_add_block_store(call, side, head_dim_of(call, &said),
                                onnx_input(call, QUERY)->dtype, list, error);
}

static bool add_key_store(const struct onnx_call *call, struct spec_list *list,
                          struct error *error) {
    return add_store(call, 0, list, error);
}

static bool add_value_store(const struct onnx_call *call, struct spec_list *list,
                            struct error *error) {
    return add_store(call, 1, list, error);
}

static const struct onnx_op value_store = {
    .name = "GroupQueryAttention", .spec = "WriteRows", .add = add_value_store};
static const struct onnx_op key_store = {
    .name = "GroupQueryAttention", .spec = "WriteRows", .add = add_key_store, .next = &value_store};
const struct onnx_op onnx_cache_group_query = {.name = "GroupQueryAttention",
                                               .spec = "CacheAttend",
                                               .is_complete = is_complete,
                                               .add = add,
                                               .next = &key_store};
const struct onnx_op onnx_group_query = {
    .name = "GroupQueryAttention", .spec = "CacheAttend", .is_complete = is_complete, .add = add};
