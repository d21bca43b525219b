/* MultiHeadCacheAttention with a static batch.

   SPDX-License-Identifier: Apache-2.0 */
#include "attention_work.h"
#include "scene_op.h"

static const struct kvmill_cache_geometry *geometry_of(const struct scene *scene) {
    return &scene->attention.geometry;
}

static bool knows_attention(const struct spec *spec) {
    return spec_is(spec, OP_CACHE_ATTENTION) &&
           attention_op_of(spec) == KVMILL_MULTI_HEAD_CACHE_ATTENTION &&
           !spec->attention.op.dynamic_batching;
}

/* ---- Tensors ---- */

static void shape_attention(struct scene_call *call) {
    const struct scene *scene = call->scene;
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    const struct op_dim words[] = {
        {"B", call->size.batch}, {"S", call->size.tokens}, {"H", g->heads}, {"KVH", g->kv_heads},
        {"D", g->key.dim},       {"E", g->value.dim},      {NULL, 0}};
    scene_set_described(call, kvmill_op_by_name(scene->spec->op->name), &scene->attention.op,
                        words);
    for (int i = 0; i < SIDES; i++)
        side_shape(call, &scene->attention.op, g, i, scene->size.positions);
}

static void move_attention(struct scene_call *call, int64_t turn) {
    (void)turn;
    call->numbers[0] = call->size.positions - call->size.tokens;
    call->tensors[KVMILL_CACHE_ATTENTION_START_POS].data = call->numbers;
}

/* ---- Work ---- */

static double attention_bytes(const struct scene_call *call) {
    const struct kvmill_cache_geometry *geometry = geometry_of(call->scene);
    return call->step == STEP_STORE ? attention_store_bytes(geometry, &call->size)
                                    : attention_read_bytes(geometry, &call->size);
}

static double attention_scene_flops(const struct scene_call *call) {
    return call->step == STEP_STORE ? 0 : attention_flops(geometry_of(call->scene), &call->size);
}

/* ---- Checking: some tokens of the last sequence ---- */

/* Reduces a tensor to one token of one sequence. */
static void cut_activations(struct scene_call *cut, int which, int64_t b, int64_t token) {
    DLTensor *tensor = &cut->tensors[which];
    int64_t row = tensor->shape[2] * tensor->shape[3] * tensor->dtype.bits / 8;
    tensor->data = (unsigned char *)tensor->data + (b * tensor->shape[1] + token) * row;
    tensor->shape[0] = tensor->shape[1] = 1;
}

static void cut_side(struct scene_call *cut, int side, int64_t b) {
    DLTensor *tensor = &cut->tensors[KVMILL_CACHE_ATTENTION_CACHE + side];
    if (cut->given[KVMILL_CACHE_ATTENTION_CACHE + side] == NULL)
        return;
    tensor->data = (unsigned char *)tensor->data +
                   b * scene_tensor_bytes(cut->scene, KVMILL_CACHE_ATTENTION_CACHE + side) /
                       cut->scene->size.batch;
    tensor->shape[geometry_of(cut->scene)->layout == 0 ? 0 : 1] = 1;
}

/* Makes a copy of the call for one token of one sequence, with tensors of its own. */
static void cut_call(const struct scene_call *call, int64_t b, int64_t token,
                     struct scene_call *cut) {
    static const int activations[] = {
        KVMILL_CACHE_ATTENTION_QUERY, KVMILL_CACHE_ATTENTION_CURRENT_KEY,
        KVMILL_CACHE_ATTENTION_CURRENT_VALUE, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT};
    *cut = *call;
    for (int i = 0; i < KVMILL_CACHE_ATTENTION_TENSORS; i++) {
        cut->tensors[i].shape = cut->dims[i];
        cut->given[i] = call->given[i] != NULL ? &cut->tensors[i] : NULL;
    }
    cut->numbers[0] += token;
    cut->tensors[KVMILL_CACHE_ATTENTION_START_POS].data = cut->numbers;
    cut->tensors[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT].data = call->scene->expected.data;
    for (int i = 0; i < 4; i++)
        cut_activations(cut, activations[i], b, token);
    for (int i = 0; i < SIDES; i++)
        cut_side(cut, i, b);
}

static bool expect_token(const struct scene_call *call, int64_t token,
                         const struct owned_plan *portable, struct error *error) {
    struct scene *scene = call->scene;
    struct scene_call cut;
    kvmill_error reason;
    int64_t b = call->size.batch - 1;
    int64_t count = geometry_of(scene)->heads * geometry_of(scene)->value.dim;
    cut_call(call, b, token, &cut);
    scene->spans[scene->span_count++] =
        (struct scene_span){(b * call->size.tokens + token) * count, count};
    return scene_demand(scene_call_alone(&cut, portable, &reason), &reason, error);
}

/* Stores all tokens first, so that the call of one token finds the earlier ones in the cache.
   Expects the last token, and also the first one if attention is causal: else the first one sees
   later tokens in the full call, which a call of one token does not have. */
static bool expect(struct scene_call *call, const struct owned_plan *portable,
                   struct error *error) {
    const struct kvmill_cache_geometry *g = geometry_of(call->scene);
    struct scene_call storing = *call;
    int64_t last = call->size.tokens - 1;
    kvmill_error reason;
    storing.step = STEP_STORE;
    storing.plan = portable;
    call->scene->span_count = 0;
    return scene_demand(scene_call_run(&storing, &reason), &reason, error) &&
           expect_token(call, last, portable, error) &&
           (last == 0 || !(g->causal || g->alibi) || expect_token(call, 0, portable, error));
}

const struct scene_op attention_scene_op = {
    .words = "MultiHeadCacheAttention",
    .knows = knows_attention,
    .open = attention_scene_open,
    .shape = shape_attention,
    .fill = attention_scene_fill,
    .plan = attention_scene_plan,
    .move = move_attention,
    .bytes = attention_bytes,
    .flops = attention_scene_flops,
    .arithmetic = attention_scene_arithmetic,
    .expect = expect,
    .rotation = ATTENTION_ROTATION,
    .count = KVMILL_CACHE_ATTENTION_TENSORS,
    .use = {[KVMILL_CACHE_ATTENTION_QUERY] = USE_INPUT,
            [KVMILL_CACHE_ATTENTION_CURRENT_KEY] = USE_INPUT,
            [KVMILL_CACHE_ATTENTION_CURRENT_VALUE] = USE_INPUT,
            [KVMILL_CACHE_ATTENTION_CACHE] = USE_CACHE,
            [KVMILL_CACHE_ATTENTION_SCALE] = USE_CACHE,
            [KVMILL_CACHE_ATTENTION_VALUE_CACHE] = USE_CACHE,
            [KVMILL_CACHE_ATTENTION_VALUE_SCALE] = USE_CACHE,
            [KVMILL_CACHE_ATTENTION_ATTN_OUTPUT] = USE_SAME},
    .output = KVMILL_CACHE_ATTENTION_ATTN_OUTPUT,
    .read = KVMILL_CACHE_ATTENTION_CACHE,
    .written = {KVMILL_CACHE_ATTENTION_CACHE, KVMILL_CACHE_ATTENTION_SCALE,
                KVMILL_CACHE_ATTENTION_VALUE_CACHE, KVMILL_CACHE_ATTENTION_VALUE_SCALE},
};
