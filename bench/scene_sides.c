/* Tensors of a cache of attention, which flows have, too.

   SPDX-License-Identifier: Apache-2.0 */
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

DLDataType side_type(const kvmill_cache_attention *op, int side) {
    const DLDataType types[SIDES] = {op->T2, op->T3, op->value_T2, op->value_T3};
    return types[side];
}

/* The last dim of a side's tensor; of blocks, their bytes. */
int64_t side_last_dim(const struct kvmill_cache_geometry *geometry, int side) {
    const struct kvmill_format *format = format_of(geometry, side);
    if (is_scale(side))
        return format->quant_group > 0 ? format->dim / format->quant_group : 0;
    return kvmill_format_last_dim(format);
}

int64_t side_kinds(const struct kvmill_cache_geometry *geometry) {
    return geometry->value_differs ? 1 : 2;
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
