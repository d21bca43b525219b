/* CacheStep of kvmill's own domain, which `kvmill rewrite --cache` creates.  Its specs are for the
   kernels that bindings/onnxruntime runs a node with: CacheAttend, and WriteRows for K and for V.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "../../defs/format.h"
#include "../../ops/cache_attend.h"
#include "onnx_ops.h"

enum { QUERY, KEY, VALUE, ATTN_MASK };
enum { WORD = 16 };

bool onnx_is_cache_step(const struct onnx_node *node) {
    return strcmp(node->domain, "kvmill") == 0 && strcmp(node->op, "CacheStep") == 0;
}

/* ---- The node's attributes ---- */

static int64_t integer_of(const struct onnx_call *call, const char *name, int64_t otherwise) {
    struct error ignored;
    int64_t value;
    bool known = onnx_integer_of(call->model, call->node, name, otherwise, &value, &ignored);
    return known ? value : otherwise;
}

const char *onnx_block_format(const struct onnx_call *call, int side) {
    char word[WORD];
    struct error ignored;
    const char *name = side ? "value_cache_format" : "key_cache_format";
    if (!onnx_word_of(call->model, call->node, name, "", word, sizeof word, &ignored))
        return NULL;
    int element = kvmill_format_of_word(word, KVMILL_SCALES_INSIDE);
    return element != 0 ? kvmill_format_parts(element)->word : NULL;
}

/* Returns a constant string: specs do not copy words. */
static const char *format_of(const struct onnx_call *call, int input) {
    return onnx_block_format(call, input == VALUE);
}

/* Returns 0 if the number is not known. */
static int64_t heads_of(const struct onnx_call *call, int input) {
    const struct onnx_value *value = onnx_input(call, input);
    if (value == NULL || !value->has_shape)
        return 0;
    if (value->rank == 4)
        return value->dims[1];
    return integer_of(call, input == QUERY ? "q_num_heads" : "kv_num_heads", 0);
}

static int64_t dim_of(const struct onnx_call *call, int input) {
    const struct onnx_value *value = onnx_input(call, input);
    int64_t heads = heads_of(call, input);
    if (heads < 1 || value->rank < 3 || value->rank > 4)
        return 0;
    return value->rank == 4 ? value->dims[3] : value->dims[2] / heads;
}

static bool is_complete_cache_step(const struct onnx_call *call, char *words, size_t size) {
    bool complete = format_of(call, KEY) != NULL && format_of(call, VALUE) != NULL;
    for (int i = QUERY; i <= VALUE; i++)
        complete = complete && heads_of(call, i) > 0 && dim_of(call, i) > 0 &&
                   onnx_input(call, i)->dtype.bits != 0;
    if (!complete)
        snprintf(words, size,
                 "accepted: Q, K and V of known types, numbers and sizes of heads, and formats "
                 "that kvmill has");
    return complete;
}

/* ---- The specs ---- */

bool onnx_add_block_store(const struct onnx_call *call, int side, int64_t dim, DLDataType type,
                          struct spec_list *list, struct error *error) {
    struct spec *spec = onnx_begin_spec(call, list, error);
    if (spec == NULL || !spec_begin(spec, kvmill_op_of(OP_WRITE_ROWS, 0), error))
        return false;
    spec->write_rows.head_dim = dim;
    spec->write_rows.T1 = type;
    spec->write_rows.T2 = kvmill_uint8;
    spec->write_rows.cache_format = onnx_block_format(call, side);
    return spec_check(spec, error);
}

static bool add_store(const struct onnx_call *call, int input, struct spec_list *list,
                      struct error *error) {
    return onnx_add_block_store(call, input == VALUE, dim_of(call, input),
                                onnx_input(call, input)->dtype, list, error);
}

static bool add_key_store(const struct onnx_call *call, struct spec_list *list,
                          struct error *error) {
    return add_store(call, KEY, list, error);
}

static bool add_value_store(const struct onnx_call *call, struct spec_list *list,
                            struct error *error) {
    return add_store(call, VALUE, list, error);
}

static bool add_attend(const struct onnx_call *call, struct spec_list *list, struct error *error) {
    const struct onnx_value *mask = onnx_input(call, ATTN_MASK);
    struct spec *spec = onnx_begin_spec(call, list, error);
    if (spec == NULL || !spec_begin(spec, kvmill_op_of(OP_CACHE_ATTEND, 0), error))
        return false;
    kvmill_cache_attend *op = &spec->cache_attend;
    op->num_heads = heads_of(call, QUERY);
    op->num_kv_heads = heads_of(call, KEY);
    op->key_head_dim = dim_of(call, KEY);
    op->value_head_dim = dim_of(call, VALUE);
    op->T1 = onnx_input(call, QUERY)->dtype;
    op->mask_T1 = mask != NULL ? mask->dtype : (DLDataType){0};
    op->key_T2 = op->value_T2 = kvmill_uint8;
    op->key_cache_format = format_of(call, KEY);
    op->value_cache_format = format_of(call, VALUE);
    op->softmax_scale = onnx_number_of(call->node, "scale");
    op->softcap = onnx_number_of(call->node, "softcap");
    op->is_causal = integer_of(call, "is_causal", 0) != 0;
    op->left_window_size = integer_of(call, "left_window_size", -1);
    op->right_window_size = integer_of(call, "right_window_size", -1);
    *op = kvmill_cache_attend_resolve(op);
    return spec_check(spec, error);
}

static const struct onnx_op value_store = {
    .name = "CacheStep", .spec = "WriteRows", .add = add_value_store};
static const struct onnx_op key_store = {
    .name = "CacheStep", .spec = "WriteRows", .add = add_key_store, .next = &value_store};
const struct onnx_op onnx_cache_step = {.name = "CacheStep",
                                        .spec = "CacheAttend",
                                        .is_complete = is_complete_cache_step,
                                        .add = add_attend,
                                        .next = &key_store};
