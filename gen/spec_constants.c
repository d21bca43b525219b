/* SPDX-License-Identifier: Apache-2.0 */
#include "spec_constants.h"

#include "../defs/format.h"
#include "../ops/extent.h"

static bool wants(const struct spec *spec, enum specialise what) {
    return (spec->specialise & what) != 0;
}

/* Returns the product of some dims, or 0 if one of them is unknown. */
static int64_t product(const int64_t *dims, int count) {
    int64_t size = 1;
    bool unknown = false;
    for (int i = 0; i < count; i++) {
        unknown |= dims[i] < 0;
        size = kvmill_times(size, dims[i], &unknown);
    }
    return unknown ? 0 : size;
}

/* Returns the stride of a dim, or 0 for a dim of one element: no loop steps along it. */
static int64_t step_along(const int64_t *dims, int dim, int rank) {
    return dims[dim] == 1 ? 0 : product(dims + dim + 1, rank - dim - 1);
}

/* ---- TensorScatter ---- */

enum { BATCH, HEAD, SLOT, ROW, FOLDED_DIMS };

struct constants rows_constants(const struct spec *spec, const struct kvmill_row_geometry *geometry,
                                const struct kvmill_rows_shape *shape) {
    const int64_t cache[FOLDED_DIMS] = {geometry->batch, shape->heads, shape->capacity, shape->row};
    const int64_t update[FOLDED_DIMS] = {geometry->batch, shape->heads, shape->rows, shape->row};
    struct constants constants = {.count = 0};
    if (wants(spec, SPECIALISE_HEADS))
        constants_add(&constants, "heads", shape->heads);
    if (!wants(spec, SPECIALISE_LAYOUT))
        return constants;
    constants_add(&constants, "present_stride.batch", step_along(cache, BATCH, FOLDED_DIMS));
    constants_add(&constants, "present_stride.head", step_along(cache, HEAD, FOLDED_DIMS));
    constants_add(&constants, "present_stride.row", step_along(cache, SLOT, FOLDED_DIMS));
    constants_add(&constants, "update_stride.batch", step_along(update, BATCH, FOLDED_DIMS));
    constants_add(&constants, "update_stride.head", step_along(update, HEAD, FOLDED_DIMS));
    constants_add(&constants, "update_stride.row", step_along(update, SLOT, FOLDED_DIMS));
    return constants;
}

/* ---- Cache attention ---- */

/* Returns the geometry with the number of layers unknown if only the run's cache determines it. */
static struct kvmill_cache_geometry known_geometry(const struct spec *spec,
                                                   const struct kvmill_cache_geometry *geometry) {
    struct kvmill_cache_geometry known = *geometry;
    if (spec_is(spec, OP_CACHE_ATTENTION) && spec->attention.layers_open)
        known.layers = KVMILL_DYNAMIC;
    return known;
}

/* Returns the bytes between neighbours along a dim of the cache, or of its scales; `bytes` is the
   size of a row. */
static int64_t cache_step(const struct kvmill_cache_geometry *geometry, int dim, int64_t bytes) {
    int64_t dims[KVMILL_MOST_CACHE_DIMS];
    int rank = kvmill_cache_dims(geometry, bytes, dims);
    return step_along(dims, dim, rank);
}

static const struct kvmill_format *side_of(const struct kvmill_cache_geometry *geometry,
                                           bool value) {
    return value ? &geometry->value : &geometry->key;
}

struct constants convert_constants(const struct spec *spec,
                                   const struct kvmill_cache_geometry *given, bool value,
                                   bool writes) {
    const struct kvmill_cache_geometry geometry = known_geometry(spec, given);
    const struct kvmill_format *format = side_of(&geometry, value);
    const struct kvmill_format plain = {.element = geometry.activation, .dim = format->dim};
    int64_t data = kvmill_format_row_bytes(format), scale = kvmill_format_scale_bytes(format);
    int64_t repeat = writes ? 1 : geometry.repeat;
    int rows = kvmill_cache_row_dim(&geometry), heads = kvmill_cache_layout_of(&geometry)->head;
    struct constants constants = {.count = 0};
    if (wants(spec, SPECIALISE_HEADS)) {
        constants_add(&constants, "heads", geometry.kv_heads);
        constants_add(&constants, "repeat", writes ? 0 : repeat);
    }
    if (!wants(spec, SPECIALISE_LAYOUT))
        return constants;
    if (geometry.kv_heads * repeat > 1)
        constants_add(&constants, "head_stride", kvmill_format_row_bytes(&plain));
    constants_add(&constants, "cache.row_stride", cache_step(&geometry, rows, data));
    constants_add(&constants, "cache.head_stride", cache_step(&geometry, heads, data));
    constants_add(&constants, "cache.scale_row_stride", cache_step(&geometry, rows, scale));
    constants_add(&constants, "cache.scale_head_stride", cache_step(&geometry, heads, scale));
    return constants;
}

/* ---- Attention ---- */

struct constants head_constants(const struct spec *spec, int64_t ratio) {
    struct constants constants = {.count = 0};
    constants_add(&constants, "rows", wants(spec, SPECIALISE_HEADS) ? ratio : 0);
    return constants;
}

/* Keys and values of MultiHeadAttention are [tokens, kv_heads, dim]. */
static int64_t row_step(const struct kvmill_cache_geometry *geometry, int64_t bytes) {
    return geometry->which == KVMILL_MULTI_HEAD_ATTENTION
               ? geometry->kv_heads * bytes
               : cache_step(geometry, kvmill_cache_row_dim(geometry), bytes);
}

struct constants attend_constants(const struct spec *spec,
                                  const struct kvmill_cache_geometry *given) {
    const struct kvmill_cache_geometry geometry = known_geometry(spec, given);
    const struct kvmill_format *key = &geometry.key;
    const struct kvmill_format *value = geometry.value_view ? key : &geometry.value;
    struct constants constants = head_constants(spec, geometry.ratio);
    if (!wants(spec, SPECIALISE_LAYOUT))
        return constants;
    constants_add(&constants, "key_stride", row_step(&geometry, kvmill_format_row_bytes(key)));
    constants_add(&constants, "value_stride", row_step(&geometry, kvmill_format_row_bytes(value)));
    constants_add(&constants, "key_scale_stride",
                  row_step(&geometry, kvmill_format_scale_bytes(key)));
    constants_add(&constants, "value_scale_stride",
                  row_step(&geometry, kvmill_format_scale_bytes(value)));
    return constants;
}

struct constants onnx_constants(const struct spec *spec,
                                const struct kvmill_attention_geometry *geometry,
                                const struct kvmill_attend_shape *shape) {
    /* New keys and keys of the past are in different tensors. */
    bool has_past = spec->onnx_attention.tensor[KVMILL_ATTENTION_PAST_KEY].shape != NULL;
    int64_t heads = geometry->packed ? geometry->kv_heads : 1;
    struct constants constants = head_constants(spec, has_past ? 0 : geometry->ratio);
    if (has_past || !wants(spec, SPECIALISE_LAYOUT))
        return constants;
    constants_add(&constants, "key_stride", heads * kvmill_format_row_bytes(&shape->key));
    constants_add(&constants, "value_stride", heads * kvmill_format_row_bytes(&shape->value));
    return constants;
}
