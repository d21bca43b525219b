/* The tensors of an attention cache, which flows share, and code that the ops of cache attention
   share.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../defs/arithmetic.h"
#include "scene_fill.h"
#include "scene_op.h"

static const struct kvmill_format *format_of(const struct kvmill_cache_geometry *geometry,
                                             int side) {
    return side < 2 ? &geometry->key : &geometry->value;
}

static bool is_scale(int side) {
    return side % 2 == 1;
}

/* Returns the bytes of one head's row; 0: the op has no such side. */
static int64_t side_row_bytes(const struct kvmill_cache_geometry *geometry, int side) {
    const struct kvmill_format *format = format_of(geometry, side);
    if (side >= 2 && (!geometry->value_differs || geometry->value_view))
        return 0;
    return is_scale(side) ? kvmill_format_scale_bytes(format) : kvmill_format_row_bytes(format);
}

static DLDataType side_type(const kvmill_cache_attention *op, int side) {
    const DLDataType types[SIDES] = {op->T2, op->T3, op->value_T2, op->value_T3};
    return types[side];
}

/* Returns the elements of the last dim of a side's tensor; for blocks, their bytes. */
static int64_t side_last_dim(const struct kvmill_cache_geometry *geometry, int side) {
    const struct kvmill_format *format = format_of(geometry, side);
    if (is_scale(side))
        return kvmill_format_scale_count(format);
    return kvmill_format_last_dim(format);
}

void side_shape(struct scene_call *call, const kvmill_cache_attention *op,
                const struct kvmill_cache_geometry *geometry, int side, int64_t slots) {
    const struct kvmill_cache_layout *layout = kvmill_cache_layout_of(geometry);
    int64_t dims[KVMILL_MOST_CACHE_DIMS];
    int rank = kvmill_cache_dims(geometry, side_last_dim(geometry, side), dims);
    if (side_row_bytes(geometry, side) == 0)
        return;
    if (layout->batch >= 0)
        dims[layout->batch] = call->scene->size.batch;
    dims[layout->slot] = layout->row > 0 ? slots / geometry->page_size : slots;
    scene_set_tensor(call, KVMILL_CACHE_ATTENTION_CACHE + side, side_type(op, side), rank, dims);
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

void side_format_name(const struct kvmill_format *format, char name[24]) {
    int length = snprintf(name, 24, "%s", kvmill_format_parts(format->element)->word);
    if (format->scale != 0)
        snprintf(name + length, 24 - (size_t)length, " g%d", format->quant_group);
}

void side_describe(const struct kvmill_cache_geometry *g, char words[SAID_SIZE]) {
    char key[24], value[24], value_dim[16] = "";
    side_format_name(&g->key, key);
    side_format_name(&g->value, value);
    bool same = strcmp(key, value) == 0;
    if (g->value.dim != g->key.dim)
        snprintf(value_dim, sizeof value_dim, "/%d", g->value.dim);
    snprintf(words, SAID_SIZE, "%" PRId64 "/%" PRId64 " x %d%s %s%s%s%s%s", g->heads, g->kv_heads,
             g->key.dim, value_dim, key, same ? "" : " and ", same ? "" : value, g->math ? " " : "",
             g->math ? kvmill_math_names[g->math] : "");
}

/* ---- Shared by the ops ---- */

bool attention_scene_open(struct scene *scene, struct error *error) {
    kvmill_error reason;
    scene->attention.op = one_layer_of(&scene->spec->attention.op);
    return kvmill_cache_attention_check(&scene->attention.op, attention_op_of(scene->spec),
                                        &scene->attention.geometry, &reason) == KVMILL_OK ||
           fail(error, EXIT_USER, "%s", reason.message);
}

bool attention_scene_fill(struct scene *scene, int tensor) {
    int side = tensor - KVMILL_CACHE_ATTENTION_CACHE;
    if (side < 0 || side >= SIDES)
        return false;
    side_fill(scene, &scene->attention.geometry, side);
    return true;
}

kvmill_status attention_scene_plan(const struct scene_call *call,
                                   const kvmill_plan_options *options, kvmill_plan **plan,
                                   kvmill_error *reason) {
    static kvmill_status (*const makers[])(const kvmill_cache_attention *,
                                           const kvmill_plan_options *, kvmill_plan **,
                                           kvmill_error *) = {
        [KVMILL_KEY_VALUE_CACHE] = kvmill_plan_key_value_cache,
        [KVMILL_MULTI_HEAD_ATTENTION] = kvmill_plan_multi_head_attention,
        [KVMILL_MULTI_HEAD_CACHE_ATTENTION] = kvmill_plan_multi_head_cache_attention};
    const struct scene *scene = call->scene;
    return makers[scene->attention.geometry.which](&scene->attention.op, options, plan, reason);
}

struct kvmill_cache_geometry attention_scene_arithmetic(const struct scene *scene) {
    return scene->attention.geometry;
}
