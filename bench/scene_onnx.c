/* Attention and TensorScatterAttention.  A cache has one row per position.  It is the cache that a
   step updates in place; or a past, followed by room for the new tokens of a present; or K and V
   themselves.  All positions are valid, the new tokens are the last, and masks hide nothing.

   SPDX-License-Identifier: Apache-2.0 */
#include "scene_onnx.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../defs/dtype.h"
#include "attention_work.h"
#include "scene_fill.h"
#include "scene_op.h"

enum { TENSORS = KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS };

/* ---- Sizes ---- */

static bool has(const struct spec *spec, int tensor) {
    return spec->onnx_attention.tensor[tensor].shape != NULL;
}

/* Whether queries are at the end of the positions, and not at the beginning. */
static bool is_at_end(const struct spec *spec) {
    return has(spec, KVMILL_ATTENTION_PAST_KEY) || has(spec, KVMILL_ATTENTION_NONPAD_KV_SEQLEN);
}

static void set_counts(const struct spec *spec, const struct run_size *size,
                       struct kvmill_attention_geometry *geometry) {
    bool past = has(spec, KVMILL_ATTENTION_PAST_KEY);
    geometry->batch = size->batch;
    geometry->queries = size->tokens;
    geometry->keys = past ? size->tokens : size->positions;
    geometry->past = geometry->step ? size->positions : past ? size->positions - size->tokens : 0;
}

static bool find_geometry(const struct spec *spec, struct kvmill_attention_geometry *geometry) {
    struct error ignored;
    return spec_is(spec, OP_ATTENTION) && has(spec, KVMILL_ATTENTION_Q) &&
           onnx_attention_geometry(spec, geometry, &ignored) && !geometry->is_wide;
}

static bool may_be(int64_t planned, int64_t count) {
    return planned == KVMILL_DYNAMIC || planned == count;
}

static bool fits(const struct spec *spec, const struct kvmill_attention_geometry *planned,
                 const struct run_size *size) {
    struct kvmill_attention_geometry wanted = *planned;
    set_counts(spec, size, &wanted);
    return may_be(planned->batch, wanted.batch) && may_be(planned->queries, wanted.queries) &&
           may_be(planned->keys, wanted.keys) && may_be(planned->past, wanted.past);
}

bool onnx_serves(const struct spec *spec, const struct run_size *size) {
    struct kvmill_attention_geometry planned;
    if (!find_geometry(spec, &planned) || !fits(spec, &planned, size))
        return false;
    bool unbounded = planned.left < 0 && planned.right < 0;
    return unbounded || is_at_end(spec) || size->tokens == size->positions;
}

static int64_t known(int64_t planned, int64_t usual) {
    return planned == KVMILL_DYNAMIC ? usual : planned;
}

static int64_t own_positions(const struct spec *spec, const struct kvmill_attention_geometry *g,
                             int64_t tokens, int64_t usual) {
    int64_t least = usual < tokens ? tokens : usual;
    if (g->step)
        return known(g->past, least);
    if (has(spec, KVMILL_ATTENTION_PAST_KEY))
        return known(g->past, least - tokens) + tokens;
    return known(g->keys, usual);
}

bool onnx_own_size(const struct spec *spec, const struct run_size *usual, struct run_size *size) {
    struct kvmill_attention_geometry g;
    if (!find_geometry(spec, &g))
        return false;
    int64_t tokens = known(g.queries, usual->tokens);
    *size = (struct run_size){known(g.batch, usual->batch), tokens,
                              own_positions(spec, &g, tokens, usual->positions)};
    return size->batch > 0 && tokens > 0 && size->positions > 0 && fits(spec, &g, size);
}

/* ---- Work ---- */

static struct attention_sight sight_of(const struct scene *scene) {
    const struct kvmill_attention_geometry *g = &scene->onnx.geometry;
    int64_t positions = scene->size.positions;
    return (struct attention_sight){.first =
                                        is_at_end(scene->spec) ? positions - scene->size.tokens : 0,
                                    .tokens = g->queries,
                                    .positions = positions,
                                    .left = g->left,
                                    .right = g->right};
}

static double onnx_bytes(const struct scene_call *call) {
    const struct kvmill_attention_geometry *g = &call->scene->onnx.geometry;
    const DLTensor *tensor = call->scene->spec->onnx_attention.tensor;
    const struct attention_sight sight = sight_of(call->scene);
    int64_t row = g->key_dim * (tensor[KVMILL_ATTENTION_K].dtype.bits / 8) +
                  g->value_dim * (tensor[KVMILL_ATTENTION_V].dtype.bits / 8);
    return (double)(g->batch * g->kv_heads) * (double)attention_rows(&sight) * (double)row;
}

static double onnx_flops(const struct scene_call *call) {
    const struct kvmill_attention_geometry *g = &call->scene->onnx.geometry;
    const struct attention_sight sight = sight_of(call->scene);
    return 2 * attention_pairs(&sight) * (double)(g->batch * g->heads) *
           (double)(g->key_dim + g->value_dim);
}

/* ---- Tensors in caches ---- */

static bool is_value(int tensor) {
    return tensor == KVMILL_ATTENTION_V || tensor == KVMILL_ATTENTION_PAST_VALUE ||
           tensor == KVMILL_ATTENTION_PRESENT_VALUE;
}

/* Returns K, or past_key: present_key shares its memory.  V's tensor is the next one. */
static int first_of_cache(const struct spec *spec) {
    return has(spec, KVMILL_ATTENTION_PAST_KEY) ? KVMILL_ATTENTION_PAST_KEY : KVMILL_ATTENTION_K;
}

static bool is_cached(const struct scene *scene, int tensor) {
    return scene->use[tensor] == USE_CACHE;
}

static void share_cache(struct scene *scene, int tensor) {
    scene->use[tensor] = USE_CACHE;
    scene->share[tensor] = first_of_cache(scene->spec) + is_value(tensor);
}

/* Sets dense strides, those of the tensor that fills the cache. */
static void set_strides(struct scene *scene, int v) {
    bool past = has(scene->spec, KVMILL_ATTENTION_PAST_KEY);
    int64_t dims[4], stride = 1;
    int rank = kvmill_attention_shape(
        &scene->onnx.geometry, (past ? KVMILL_ATTENTION_PRESENT_KEY : KVMILL_ATTENTION_K) + v,
        dims);
    for (int d = rank - 1; d >= 0; stride *= dims[d--])
        scene->onnx.strides[v][d] = stride;
}

static bool open_onnx(struct scene *scene, struct error *error) {
    if (!onnx_attention_geometry(scene->spec, &scene->onnx.geometry, error))
        return false;
    set_counts(scene->spec, &scene->size, &scene->onnx.geometry);
    scene->read = first_of_cache(scene->spec);
    for (int v = 0; v < 2; v++) {
        set_strides(scene, v);
        share_cache(scene, scene->read + v);
        if (scene->read == KVMILL_ATTENTION_PAST_KEY)
            share_cache(scene, KVMILL_ATTENTION_PRESENT_KEY + v);
    }
    return true;
}

/* ---- Tensors ---- */

/* A step also needs present caches and write indices. */
static bool is_needed(const struct spec *spec, int tensor) {
    bool of_step = tensor == KVMILL_ATTENTION_PRESENT_KEY ||
                   tensor == KVMILL_ATTENTION_PRESENT_VALUE ||
                   tensor == KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES;
    return tensor == KVMILL_ATTENTION_Y || has(spec, tensor) ||
           (of_step && is_onnx_attention_step(spec));
}

/* Keeps the mask's last dims, as many as the spec has. */
static void cut_mask(const DLTensor *planned, DLTensor *mask) {
    int less = mask->ndim - planned->ndim;
    mask->ndim = planned->ndim;
    for (int d = 0; d < planned->ndim; d++) {
        mask->shape[d] = mask->shape[d + less];
        if (planned->shape[d] != KVMILL_DYNAMIC)
            mask->shape[d] = planned->shape[d];
    }
}

static void shape_tensor(struct scene_call *call, int i) {
    struct scene *scene = call->scene;
    const DLTensor *planned = &scene->spec->onnx_attention.tensor[i];
    int64_t dims[4];
    scene_set_tensor(call, i, planned->dtype,
                     kvmill_attention_shape(&scene->onnx.geometry, i, dims), dims);
    if (i == KVMILL_ATTENTION_ATTN_MASK)
        cut_mask(planned, &call->tensors[i]);
    if (is_cached(scene, i))
        call->tensors[i].strides = scene->onnx.strides[is_value(i)];
}

static void shape_onnx(struct scene_call *call) {
    for (int i = 0; i < TENSORS; i++)
        if (is_needed(call->scene->spec, i))
            shape_tensor(call, i);
}

/* Outputs and added masks stay zero. */
static bool fill_onnx(struct scene *scene, int i) {
    struct scene_memory *memory = &scene->memory[i];
    DLDataType type = scene->spec->onnx_attention.tensor[i].dtype;
    int64_t positions = scene->size.positions;
    if (is_cached(scene, i))
        return false;
    if (i <= KVMILL_ATTENTION_V)
        fill_memory_floats(memory, kvmill_element_of(type), 3, (uint32_t)i);
    else if (i == KVMILL_ATTENTION_ATTN_MASK && type.code == KVMILL_DL_BOOL)
        memset(memory->data, 1, (size_t)memory->bytes);
    else if (i == KVMILL_ATTENTION_NONPAD_KV_SEQLEN ||
             i == KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES)
        fill_memory_numbers(memory, i == KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES
                                        ? positions - scene->size.tokens
                                        : positions);
    return true;
}

/* ---- Plans and checks ---- */

kvmill_status onnx_spec_plan(const struct spec *spec, const kvmill_plan_options *options,
                             kvmill_plan **plan, kvmill_error *reason) {
    kvmill_attention op = onnx_attention_op_of(spec);
    kvmill_tensor_scatter_attention step = onnx_attention_step_of(spec, &op);
    return is_onnx_attention_step(spec)
               ? kvmill_plan_tensor_scatter_attention(&step, options, plan, reason)
               : kvmill_plan_attention(&op, options, plan, reason);
}

static kvmill_status plan_onnx(const struct scene_call *call, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *reason) {
    struct spec spec = *call->scene->spec;
    for (int i = 0; i < TENSORS; i++)
        if (call->given[i] != NULL)
            spec.onnx_attention.tensor[i] = call->tensors[i];
    return onnx_spec_plan(&spec, options, plan, reason);
}

static struct kvmill_cache_geometry arithmetic(const struct scene *scene) {
    const kvmill_attention op = onnx_attention_op_of(scene->spec);
    return kvmill_attention_cache_geometry(&op, &scene->onnx.geometry);
}

static bool knows_onnx(const struct spec *spec) {
    return spec_is(spec, OP_ATTENTION);
}

static void say_onnx(const struct scene *scene, char words[SAID_SIZE]) {
    const struct kvmill_attention_geometry *g = &scene->onnx.geometry;
    snprintf(words, SAID_SIZE, "%" PRId64 "/%" PRId64 " x %" PRId64 " %s", g->heads, g->kv_heads,
             g->key_dim,
             kvmill_dtype_name(scene->spec->onnx_attention.tensor[KVMILL_ATTENTION_Q].dtype));
}

const struct scene_op onnx_scene_op = {
    .words = "Attention, TensorScatterAttention",
    .knows = knows_onnx,
    .say = say_onnx,
    .open = open_onnx,
    .shape = shape_onnx,
    .fill = fill_onnx,
    .plan = plan_onnx,
    .bytes = onnx_bytes,
    .flops = onnx_flops,
    .arithmetic = arithmetic,
    .rotation = ATTENTION_ROTATION,
    .count = TENSORS,
    .use = {USE_SAME, USE_SAME, USE_SAME, USE_SAME, USE_SAME, USE_SAME, USE_SAME, USE_SAME,
            USE_SAME, USE_SAME, USE_SAME, USE_SAME},
    .output = KVMILL_ATTENTION_Y,
};
