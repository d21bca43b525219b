/* Tensors of a cache of attention, which flows have, too.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../defs/arithmetic.h"
#include "bench_attention.h"
#include "scene_fill.h"
#include "scene_op.h"

static const struct kvmill_format *format_of(const struct kvmill_cache_geometry *geometry,
                                             int side) {
    return side < 2 ? &geometry->key : &geometry->value;
}

static bool is_scale(int side) {
    return side % 2 == 1;
}

int64_t side_row_bytes(const struct kvmill_cache_geometry *geometry, int side) {
    const struct kvmill_format *format = format_of(geometry, side);
    if (side >= 2 && !geometry->value_differs)
        return 0;
    return is_scale(side) ? kvmill_format_scale_bytes(format) : kvmill_format_row_bytes(format);
}

static DLDataType side_type(const kvmill_cache_attention *op, int side) {
    const DLDataType types[SIDES] = {op->T2, op->T3, op->value_T2, op->value_T3};
    return types[side];
}

/* Elements of the last dim of a side's tensor; of blocks, their bytes. */
static int64_t side_last_dim(const struct kvmill_cache_geometry *geometry, int side) {
    const struct kvmill_format *format = format_of(geometry, side);
    if (is_scale(side))
        return format->quant_group > 0 ? format->dim / format->quant_group : 0;
    return kvmill_format_last_dim(format);
}

/* 2: K and V share a tensor. */
static int64_t side_kinds(const struct kvmill_cache_geometry *geometry) {
    return geometry->value_differs ? 1 : 2;
}

static void shape_side(struct scene_call *call, const kvmill_cache_attention *op,
                       const struct kvmill_cache_geometry *geometry, int side, int rank,
                       const int64_t *dims) {
    if (side_row_bytes(geometry, side) > 0)
        scene_set_tensor(call, KVMILL_CACHE_ATTENTION_CACHE + side, side_type(op, side), rank, dims);
}

void side_shape_static(struct scene_call *call, const kvmill_cache_attention *op,
                       const struct kvmill_cache_geometry *geometry, int side, int64_t slots) {
    int64_t batch = call->scene->size.batch, kinds = side_kinds(geometry);
    int64_t heads = geometry->kv_heads, last = side_last_dim(geometry, side);
    const int64_t dims[2][6] = {{batch, 1, kinds, slots, heads, last},
                                {1, batch, kinds, heads, slots, last}};
    shape_side(call, op, geometry, side, 6, dims[geometry->layout]);
}

void side_shape_pool(struct scene_call *call, const kvmill_cache_attention *op,
                     const struct kvmill_cache_geometry *geometry, int side, int64_t slots) {
    int64_t kinds = side_kinds(geometry), last = side_last_dim(geometry, side);
    int64_t heads = geometry->kv_heads, page = geometry->page_size;
    int64_t pages = geometry->layout == 4 ? slots / page : 0;
    const int64_t dims[][6] = {{slots, 1, kinds, heads, last},
                               {1, slots, kinds, heads, last},
                               {1, kinds, slots, heads, last},
                               {1, kinds, heads, slots, last},
                               {1, kinds, pages, heads, page, last}};
    shape_side(call, op, geometry, side, geometry->layout == 4 ? 6 : 5, dims[geometry->layout]);
}

void side_fill(struct scene *scene, const struct kvmill_cache_geometry *geometry, int side) {
    fill_memory_rows(&scene->memory[KVMILL_CACHE_ATTENTION_CACHE + side], format_of(geometry, side),
                     is_scale(side), side_row_bytes(geometry, side), (uint32_t)side);
}

kvmill_cache_attention one_layer_of(const kvmill_cache_attention *op) {
    kvmill_cache_attention one = *op;
    one.num_layer = 1;
    one.layer_idx = 0;
    one.partial = 0;
    return one;
}

void side_say(const struct kvmill_cache_geometry *g, char words[SAID_SIZE]) {
    char key[24], value[24];
    bench_format_name(&g->key, key);
    bench_format_name(&g->value, value);
    bool same = strcmp(key, value) == 0;
    snprintf(words, SAID_SIZE, "%" PRId64 "/%" PRId64 " x %d %s%s%s%s%s", g->heads, g->kv_heads,
             g->key.dim, key, same ? "" : " and ", same ? "" : value, g->math ? " " : "",
             g->math ? kvmill_math_names[g->math] : "");
}
