/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_attention.h"

#include <inttypes.h>
#include <math.h>

#include "../defs/arithmetic.h"
#include "../defs/op_tables.h"
#include "attributes.h"
#include "cache_format.h"
#include "fail.h"
#include "refuse.h"

const struct op *kvmill_cache_op_of(const struct kvmill_cache_geometry *geometry) {
    return kvmill_op_of(OP_CACHE_ATTENTION, (int)geometry->which + (geometry->dynamic ? 3 : 0));
}

bool kvmill_has_tiles(const struct kvmill_cache_geometry *geometry) {
    return kvmill_format_parts(geometry->key.element)->tile > 0 ||
           kvmill_format_parts(geometry->value.element)->tile > 0;
}

/* ---- Heads ---- */

static int64_t or_default(int64_t value, int64_t otherwise) {
    return value ? value : otherwise;
}

/* Heads [first, first + num_heads) of the whole model. */
static kvmill_status check_alibi(const kvmill_cache_attention *op,
                                 struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    int64_t heads = or_default(op->alibi_heads, op->num_heads), first = op->alibi_first;
    geometry->alibi = op->is_alibi != 0;
    geometry->alibi_heads = heads;
    geometry->alibi_first = op->alibi_first;
    geometry->alibi_scale = op->alibi_scale == 0 ? 1 : op->alibi_scale;
    if (!geometry->alibi)
        return KVMILL_OK;
    if (!isfinite((float)op->alibi_scale))
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "alibi_scale is %g; accepted: a finite float32, 0 = 1", op->alibi_scale);
    if (heads < op->num_heads || heads > OP_MOST_HEADS)
        return kvmill_refuse_number(KVMILL_E_ATTRIBUTE, "alibi_heads", "", heads,
                                    (struct kvmill_range){op->num_heads, OP_MOST_HEADS}, error);
    if (first < 0 || first > heads - op->num_heads)
        return kvmill_refuse_number(KVMILL_E_ATTRIBUTE, "alibi_first", "", first,
                                    (struct kvmill_range){0, heads - op->num_heads}, error);
    return KVMILL_OK;
}

kvmill_status kvmill_check_heads(int64_t heads, int64_t kv_heads,
                                 struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    geometry->heads = heads;
    geometry->kv_heads = or_default(kv_heads, heads);
    geometry->ratio = heads / geometry->kv_heads;
    if (heads % geometry->kv_heads == 0)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "num_kv_heads is %" PRId64
                       "; accepted: 0, or a divisor of num_heads, %" PRId64,
                       kv_heads, heads);
}

/* ---- Scores ---- */

static void set_scores(const kvmill_cache_attention *op, struct kvmill_cache_geometry *geometry) {
    geometry->saturates = kvmill_saturates(op->scale_overflow, false);
    if (geometry->which == KVMILL_KEY_VALUE_CACHE)
        return;
    geometry->causal = op->is_causal != 0;
    geometry->softcap = op->softcap;
    geometry->scale = op->softmax_scale == 0 ? 1 / sqrt((double)op->head_dim) : op->softmax_scale;
    geometry->math = kvmill_math_of(op->math);
    geometry->window = kvmill_window_of(op->left_window_size);
}

/* ---- Formats of K and V ---- */

/* MultiHeadAttention has no cache: it attends over activations. */
static struct kvmill_side key_side(const kvmill_cache_attention *op, enum kvmill_cache_op which) {
    const struct kvmill_attributes inputs = {.T2 = op->T1},
                                   cache = {op->quant_bit, op->quant_group, op->T2, op->T3,
                                            op->cache_format};
    return (struct kvmill_side){
        .prefix = "",
        .dim = op->head_dim,
        .attributes = which == KVMILL_MULTI_HEAD_ATTENTION ? inputs : cache,
        .page = op->dynamic_batching && op->cache_mode == 1 ? op->page_size : 0,
        .T1 = op->T1,
        .copies = which == KVMILL_KEY_VALUE_CACHE,
    };
}

static struct kvmill_side value_side(const kvmill_cache_attention *op, enum kvmill_cache_op which,
                                     const struct kvmill_side *key) {
    struct kvmill_side side = *key;
    side.is_value = true;
    if (kvmill_names_transposed(side.attributes.cache_format)) /* only keys are transposed */
        side.attributes.cache_format = NULL;
    if (!op->value_differs)
        return side;
    side.prefix = "value_";
    side.dim = or_default(op->value_head_dim, op->head_dim);
    if (which != KVMILL_MULTI_HEAD_ATTENTION)
        side.attributes = (struct kvmill_attributes){
            op->value_quant_bit, or_default(op->value_quant_group, op->quant_group), op->value_T2,
            op->value_T3, op->value_cache_format};
    if (which == KVMILL_MULTI_HEAD_CACHE_ATTENTION && op->value_view)
        side.key = key;
    return side;
}

static kvmill_status check_formats(const kvmill_cache_attention *op,
                                   struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    const struct kvmill_side key = key_side(op, geometry->which),
                             value = value_side(op, geometry->which, &key);
    geometry->value_differs = op->value_differs != 0;
    geometry->value_view = value.key != NULL;
    return kvmill_check_sides(&key, &value, geometry, error);
}

/* ---- Places ---- */

/* Shapes determine how many slots a sequence has, unless sequences share all slots. */
static kvmill_status check_ring(const kvmill_cache_attention *op,
                                struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    bool has_cache = geometry->which != KVMILL_MULTI_HEAD_ATTENTION;
    geometry->circular = has_cache && kvmill_is_circular(op->mode);
    bool shared = geometry->circular && geometry->dynamic && !geometry->paged;
    geometry->ring = shared ? op->capacity : 0;
    if (!has_cache || (shared ? op->capacity > 0 : op->capacity == 0))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "capacity is %" PRId64 "; accepted: %s",
                       op->capacity,
                       shared ? "1 or more, with mode \"circular\" and cache_mode 0"
                              : "0, except with dynamic batching, mode \"circular\" and "
                                "cache_mode 0");
}

static kvmill_status check_places(const kvmill_cache_attention *op,
                                  struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    geometry->paged = geometry->dynamic && op->cache_mode == 1;
    geometry->layers = op->num_layer;
    geometry->layer = op->layer_idx;
    geometry->layout = op->cache_layout;
    geometry->page_size = op->page_size;
    geometry->repeat = geometry->which == KVMILL_KEY_VALUE_CACHE ? op->num_repeat : 1;
    kvmill_status status = check_ring(op, geometry, error);
    return status == KVMILL_OK ? kvmill_check_tiles(geometry, error) : status;
}

/* ---- All of it ---- */

kvmill_status kvmill_cache_attention_check(const kvmill_cache_attention *op,
                                           enum kvmill_cache_op which,
                                           struct kvmill_cache_geometry *geometry,
                                           kvmill_error *error) {
    struct kvmill_cache_geometry found = {.which = which, .dynamic = op->dynamic_batching != 0};
    bool scores = which != KVMILL_KEY_VALUE_CACHE;
    kvmill_status status = kvmill_check_attributes(kvmill_cache_op_of(&found),
                                                   &kvmill_cache_attention_attributes, op, error);
    if (status == KVMILL_OK)
        status = kvmill_check_heads(scores ? op->num_heads : op->num_kv_heads, op->num_kv_heads,
                                    &found, error);
    if (status == KVMILL_OK)
        status = check_formats(op, &found, error);
    if (status == KVMILL_OK)
        status = check_places(op, &found, error);
    if (status == KVMILL_OK && scores)
        status = check_alibi(op, &found, error);
    if (status != KVMILL_OK)
        return status;
    set_scores(op, &found);
    if (found.saturates && found.key.scale == 0 && found.value.scale == 0)
        return kvmill_refuse_saturation(error);
    *geometry = found;
    return KVMILL_OK;
}

/* ---- Shapes of kernels ---- */

struct kvmill_convert_shape kvmill_convert_shape_of(const struct kvmill_cache_geometry *geometry,
                                                    bool value) {
    return (struct kvmill_convert_shape){
        .activation = geometry->activation,
        .format = value ? geometry->value : geometry->key,
    };
}

struct kvmill_attend_shape kvmill_attend_shape_of(const struct kvmill_cache_geometry *geometry,
                                                  bool masked) {
    bool bias = masked || geometry->alibi;
    return (struct kvmill_attend_shape){
        .activation = geometry->activation,
        .key = geometry->key,
        .value = geometry->value,
        .math = geometry->math,
        .terms = (geometry->softcap != 0 ? KVMILL_TERM_SOFTCAP : 0) | (bias ? KVMILL_TERM_BIAS : 0),
    };
}

/* ---- ALiBi ---- */

double kvmill_alibi_slope(int64_t heads, int64_t head) {
    int64_t n = 1;
    while (2 * n <= heads)
        n *= 2;
    double step = head < n ? 8.0 * (double)(head + 1) : 4.0 * (double)(2 * (head - n) + 1);
    return exp2(-step / (double)n);
}
