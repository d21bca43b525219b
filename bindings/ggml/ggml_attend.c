/* SPDX-License-Identifier: Apache-2.0 */
#include "ggml_attend.h"

#include <math.h>
#include <string.h>

#include "ggml_plans.h"
#include "ggml_rows.h"

enum { QUERY, KEY, VALUE, MASK, SINKS }; /* sources of a node */
enum { SCALE, MAX_BIAS, SOFTCAP };       /* parameters of a node */
enum { MINUS_INFINITY = 0xfc00 };        /* in float16 */

/* ---- Nodes that kvmill takes ---- */

/* Whether kvmill can use the mask: it has no op for groups of heads that share a mask. */
static bool takes_mask(const struct ggml_tensor *node) {
    const struct ggml_tensor *mask = node->src[MASK], *query = node->src[QUERY];
    return mask == NULL ||
           (has_type(mask, GGML_TYPE_F16) && mask->ne[0] >= node->src[KEY]->ne[1] &&
            mask->ne[1] >= query->ne[1] && (mask->ne[2] == 1 || mask->ne[2] == query->ne[2]) &&
            (mask->ne[3] == 1 || mask->ne[3] == query->ne[3]));
}

/* Whether the sinks are one number for each head. */
static bool takes_sinks(const struct ggml_tensor *node) {
    const struct ggml_tensor *sinks = node->src[SINKS];
    return sinks == NULL ||
           (has_type(sinks, GGML_TYPE_F32) && sinks->ne[0] == node->src[QUERY]->ne[2] &&
            sinks->ne[1] == 1 && sinks->ne[2] == 1 && sinks->ne[3] == 1);
}

static bool takes_tensors(const struct ggml_tensor *node) {
    const struct ggml_tensor *query = node->src[QUERY], *key = node->src[KEY],
                             *value = node->src[VALUE];
    if (!has_type(node, GGML_TYPE_F32) || !has_type(query, GGML_TYPE_F32) || key == NULL ||
        value == NULL || !has_rows(key) || !has_rows(value))
        return false;
    bool heads = key->ne[2] > 0 && key->ne[2] == value->ne[2] && query->ne[2] % key->ne[2] == 0;
    bool streams = query->ne[3] == key->ne[3] && query->ne[3] == value->ne[3];
    return heads && streams && query->ne[0] == key->ne[0] && key->ne[1] == value->ne[1] &&
           takes_mask(node) && takes_sinks(node);
}

/* ---- The op ---- */

static float parameter(const struct ggml_tensor *node, int i) {
    float value;
    memcpy(&value, (const char *)node->op_params + (size_t)i * sizeof value, sizeof value);
    return value;
}

/* Plans are found by all bytes of the struct, so unused bytes must be 0. */
static void set_op(const struct ggml_tensor *node, kvmill_cache_attend *op) {
    const struct ggml_tensor *key = node->src[KEY], *value = node->src[VALUE];
    memset(op, 0, sizeof *op);
    kvmill_cache_attend_init(op, sizeof *op);
    op->num_heads = node->src[QUERY]->ne[2];
    op->num_kv_heads = key->ne[2];
    op->key_head_dim = key->ne[0];
    op->value_head_dim = value->ne[0];
    op->T1 = float32;
    op->mask_T1 = node->src[MASK] != NULL ? float16 : (DLDataType){0};
    op->key_T2 = row_type_of(key).element;
    op->key_cache_format = row_type_of(key).format;
    op->value_T2 = row_type_of(value).element;
    op->value_cache_format = row_type_of(value).format;
    op->softmax_scale = (double)parameter(node, SCALE);
    op->softcap = (double)parameter(node, SOFTCAP);
    op->max_bias = (double)parameter(node, MAX_BIAS);
    op->is_alibi = op->alibi_of_mask = op->max_bias > 0;
    op->math = "near";
}

/* A scale of 0 is refused, because it means the default in kvmill. */
const kvmill_plan *attend_plan(const struct ggml_tensor *node) {
    kvmill_cache_attend op;
    if (!takes_tensors(node) || parameter(node, SCALE) == 0)
        return NULL;
    set_op(node, &op);
    return plans_find(&op);
}

/* ---- A run ---- */

struct dims {
    int64_t shape[GGML_MAX_DIMS], strides[GGML_MAX_DIMS];
};

/* Returns a tensor with ggml's dims in the given order, slowest first; the last dim is in elements
   of row_type_of. */
static DLTensor tensor_of(const struct ggml_tensor *tensor, const int order[GGML_MAX_DIMS],
                          struct dims *dims) {
    const struct row_type type = row_type_of(tensor);
    int64_t bytes = type.element.bits / 8;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        dims->shape[i] = tensor->ne[order[i]];
        dims->strides[i] = (int64_t)tensor->nb[order[i]] / bytes;
    }
    dims->shape[GGML_MAX_DIMS - 1] = tensor->ne[0] / type.values * (type.bytes / bytes);
    dims->strides[GGML_MAX_DIMS - 1] = 1;
    return (DLTensor){.data = tensor->data,
                      .device = {kDLCPU, 0},
                      .ndim = GGML_MAX_DIMS,
                      .dtype = type.element,
                      .shape = dims->shape,
                      .strides = dims->strides};
}

/* Returns the number of cells up to the last one that a row of a mask shows, if they are more than
   `least`. */
static int64_t cells_seen(const ggml_fp16_t *row, int64_t least, int64_t cells) {
    static const ggml_fp16_t hidden[] = {MINUS_INFINITY, MINUS_INFINITY, MINUS_INFINITY,
                                         MINUS_INFINITY};
    while (cells - 4 >= least && memcmp(row + cells - 4, hidden, sizeof hidden) == 0)
        cells -= 4;
    while (cells > least && row[cells - 1] == MINUS_INFINITY)
        cells--;
    return cells;
}

/* Returns the number of cells up to the last one that a query sees.  llama.cpp pads their number to
   multiples of 256, and masks the rest.  Queries see more and more: the last one is asked first. */
static int64_t cells_of(const struct ggml_tensor *node) {
    const struct ggml_tensor *mask = node->src[MASK];
    int64_t cells = node->src[KEY]->ne[1], seen = 0;
    if (mask == NULL)
        return cells;
    for (int64_t b = 0; b < mask->ne[3]; b++)
        for (int64_t h = 0; h < mask->ne[2]; h++)
            for (int64_t i = node->src[QUERY]->ne[1] - 1; i >= 0 && seen < cells; i--) {
                const char *row = (const char *)mask->data + (size_t)b * mask->nb[3] +
                                  (size_t)h * mask->nb[2] + (size_t)i * mask->nb[1];
                seen = cells_seen((const ggml_fp16_t *)(const void *)row, seen, cells);
            }
    return seen;
}

kvmill_status attend_run(const struct ggml_tensor *node, const kvmill_plan *plan, void *workspace,
                         kvmill_pool *pool, kvmill_error *error) {
    static const int tokens_first[] = {3, 1, 2, 0}, heads_first[] = {3, 2, 1, 0};
    const struct ggml_tensor *mask = node->src[MASK], *sinks = node->src[SINKS];
    struct dims dims[5];
    int64_t rows = node->src[KEY]->ne[1], seen = cells_of(node), none = 0;
    DLTensor query = tensor_of(node->src[QUERY], tokens_first, &dims[0]);
    DLTensor key = tensor_of(node->src[KEY], tokens_first, &dims[1]);
    DLTensor value = tensor_of(node->src[VALUE], tokens_first, &dims[2]);
    DLTensor output = tensor_of(node, heads_first, &dims[3]), masks, heads;
    DLTensor lengths = {&seen, {kDLCPU, 0}, 1, {kDLInt, 64, 1}, &dims[0].shape[0], &none, 0};
    const DLTensor *tensors[KVMILL_CACHE_ATTEND_TENSORS] = {
        [KVMILL_CACHE_ATTEND_QUERY] = &query,        [KVMILL_CACHE_ATTEND_KEY] = &key,
        [KVMILL_CACHE_ATTEND_VALUE] = &value,        [KVMILL_CACHE_ATTEND_LENGTHS] = &lengths,
        [KVMILL_CACHE_ATTEND_ATTN_OUTPUT] = &output,
    };
    if (mask != NULL) {
        masks = tensor_of(mask, heads_first, &dims[4]);
        dims[4].shape[2] = query.shape[1]; /* ggml's mask may have more rows, as padding */
        dims[4].shape[3] = rows;
        tensors[KVMILL_CACHE_ATTEND_ATTN_MASK] = &masks;
    }
    if (sinks != NULL) {
        heads = (DLTensor){sinks->data, {kDLCPU, 0}, 1, float32, &query.shape[2], NULL, 0};
        tensors[KVMILL_CACHE_ATTEND_SINKS] = &heads;
    }
    if (pool == NULL)
        return kvmill_run(plan, tensors, KVMILL_CACHE_ATTEND_TENSORS, workspace, error);
    return kvmill_run_on(plan, pool, tensors, KVMILL_CACHE_ATTEND_TENSORS, workspace, error);
}
