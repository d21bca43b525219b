/* The other ops of cache attention: sequences of any lengths, given keys and values, caches that
   are read back.

   SPDX-License-Identifier: Apache-2.0 */
#include "../tune/problem.h"
#include "attention_work.h"
#include "scene_op.h"

static const struct kvmill_cache_geometry *geometry_of(const struct scene *scene) {
    return &scene->attention.geometry;
}

static bool is_cache_op(const struct spec *spec, enum kvmill_cache_op which) {
    return spec_is(spec, OP_CACHE_ATTENTION) && attention_op_of(spec) == which;
}

static bool knows_batching(const struct spec *spec) {
    return is_cache_op(spec, KVMILL_MULTI_HEAD_CACHE_ATTENTION) &&
           spec->attention.op.dynamic_batching;
}

static bool knows_given(const struct spec *spec) {
    return is_cache_op(spec, KVMILL_MULTI_HEAD_ATTENTION);
}

static bool knows_read_back(const struct spec *spec) {
    return is_cache_op(spec, KVMILL_KEY_VALUE_CACHE);
}

static void say_batching(const struct scene *scene, char words[SAID_SIZE]) {
    side_describe(geometry_of(scene), words);
}

/* ---- Sequences ---- */

static struct run_size sequence(const struct scene *scene, int64_t b) {
    const struct run_size *size = &scene->size;
    const struct kvmill_call_size all = {size->batch, size->tokens, size->positions};
    if (!geometry_of(scene)->dynamic)
        return (struct run_size){1, size->tokens, size->positions};
    const struct kvmill_call_size one = problem_sequence(&all, b);
    return (struct run_size){1, one.tokens, one.positions};
}

static struct run_size all_sequences(const struct scene *scene) {
    struct run_size all = {.batch = scene->size.batch};
    for (int64_t b = 0; b < all.batch; b++) {
        const struct run_size one = sequence(scene, b);
        all.tokens += one.tokens;
        all.positions += one.positions;
    }
    return all;
}

static double total(const struct scene *scene,
                    double (*of)(const struct kvmill_cache_geometry *, const struct run_size *)) {
    double sum = 0;
    for (int64_t b = 0; b < scene->size.batch; b++) {
        const struct run_size one = sequence(scene, b);
        sum += of(geometry_of(scene), &one);
    }
    return sum;
}

/* ---- Tensors ---- */

/* Returns the slots of a sequence: whole pages, or whole tiles. */
static int64_t slots_of_sequence(const struct scene *scene) {
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    int64_t unit = g->paged ? g->page_size : KVMILL_KEY_TILE;
    int64_t slots = g->ring > 0 ? g->ring : scene->size.positions;
    return g->dynamic ? (slots + unit - 1) / unit * unit : slots;
}

static void shape_caches(struct scene_call *call) {
    const struct scene *scene = call->scene;
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    int64_t slots = slots_of_sequence(scene) * (g->dynamic ? scene->size.batch : 1);
    for (int i = 0; i < SIDES; i++)
        side_shape(call, &scene->attention.op, g, i, slots);
}

static void shape_batching(struct scene_call *call) {
    const struct scene *scene = call->scene;
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    const struct run_size all = all_sequences(scene);
    const int64_t starts[] = {all.batch, g->paged ? slots_of_sequence(scene) / g->page_size : 0};
    const struct op_dim words[] = {{"B", all.batch},
                                   {"S", scene->size.tokens},
                                   {"P", scene->size.positions},
                                   {"T", all.tokens},
                                   {"Q", all.positions},
                                   {"H", g->heads},
                                   {"KVH", g->kv_heads},
                                   {"R", g->repeat},
                                   {"D", g->key.dim},
                                   {"E", g->value.dim},
                                   {NULL, 0}};
    scene_set_described(call, scene->spec->op, &scene->attention.op, words);
    if (g->which == KVMILL_MULTI_HEAD_ATTENTION)
        return;
    if (g->dynamic)
        scene_set_tensor(call, KVMILL_CACHE_ATTENTION_CACHESTARTS, kvmill_int64, g->paged ? 2 : 1,
                         starts);
    shape_caches(call);
}

/* ---- Numbers ---- */

/* Sets number i of a tensor, if the op has this tensor. */
static void set_number(struct scene *scene, int tensor, int64_t i, int64_t number) {
    const struct scene_memory *memory = &scene->memory[tensor];
    if (memory->set > 0)
        ((int64_t *)(void *)memory->data)[i] = number;
}

/* Puts pages out of order: the step from each page to the next is prime to their number. */
static void set_slots(struct scene *scene, int64_t b) {
    enum { STRIDE = 1000003 };
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    int64_t slots = slots_of_sequence(scene);
    int64_t pages = g->paged ? slots / g->page_size : 1, all = pages * scene->size.batch;
    for (int64_t p = b * pages; p < (b + 1) * pages; p++)
        set_number(scene, KVMILL_CACHE_ATTENTION_CACHESTARTS, p,
                   g->paged ? p * STRIDE % all * g->page_size : b * slots);
}

static void set_sequence(struct scene *scene, int64_t b, struct run_size *before) {
    const struct run_size one = sequence(scene, b);
    set_number(scene, KVMILL_CACHE_ATTENTION_START_POS, b, one.positions - one.tokens);
    set_slots(scene, b);
    before->tokens += one.tokens;
    before->positions += one.positions;
    set_number(scene, KVMILL_CACHE_ATTENTION_SEQSTARTS, b + 1, before->tokens);
    set_number(scene, KVMILL_CACHE_ATTENTION_KVSTARTS, b + 1, before->positions);
}

static bool set_numbers(struct scene *scene, struct error *error) {
    const struct run_size *size = &scene->size;
    struct run_size before = {0};
    (void)error;
    if (!geometry_of(scene)->dynamic) {
        set_number(scene, KVMILL_CACHE_ATTENTION_START_POS, 0, size->positions - size->tokens);
        return true;
    }
    set_number(scene, KVMILL_CACHE_ATTENTION_SEQSTARTS, 0, 0);
    set_number(scene, KVMILL_CACHE_ATTENTION_KVSTARTS, 0, 0);
    for (int64_t b = 0; b < size->batch; b++)
        set_sequence(scene, b, &before);
    set_number(scene, KVMILL_CACHE_ATTENTION_DECODING_BATCHES, 0, size->batch - (size->tokens > 1));
    set_number(scene, KVMILL_CACHE_ATTENTION_MAX_SEQLEN, 0, size->tokens);
    set_number(scene, KVMILL_CACHE_ATTENTION_MAX_KVLEN, 0, size->positions);
    return true;
}

/* ---- Work ---- */

static double batching_bytes(const struct scene_call *call) {
    return total(call->scene,
                 call->step == STEP_STORE ? attention_store_bytes : attention_read_bytes);
}

static double batching_flops(const struct scene_call *call) {
    return call->step == STEP_STORE ? 0 : total(call->scene, attention_flops);
}

static double read_back_bytes(const struct kvmill_cache_geometry *geometry,
                              const struct run_size *size) {
    const struct run_size all = {size->batch, size->positions, size->positions};
    return attention_store_bytes(geometry, &all);
}

static double bytes_of_cache(const struct scene_call *call) {
    return total(call->scene, call->step == STEP_STORE ? attention_store_bytes : read_back_bytes);
}

/* ---- The ops ---- */

#define COMMON                                                                                     \
    .say = say_batching, .open = attention_scene_open, .shape = shape_batching,                    \
    .fill = attention_scene_fill, .finish = set_numbers, .plan = attention_scene_plan,             \
    .rotation = ATTENTION_ROTATION, .count = KVMILL_CACHE_ATTENTION_TENSORS
#define ATTENDING                                                                                  \
    .bytes = batching_bytes, .flops = batching_flops, .arithmetic = attention_scene_arithmetic,    \
    .output = KVMILL_CACHE_ATTENTION_ATTN_OUTPUT
#define USE_OF_NUMBERS                                                                             \
    [KVMILL_CACHE_ATTENTION_SEQSTARTS] = USE_SAME, [KVMILL_CACHE_ATTENTION_KVSTARTS] = USE_SAME,   \
    [KVMILL_CACHE_ATTENTION_DECODING_BATCHES] = USE_SAME,                                          \
    [KVMILL_CACHE_ATTENTION_MAX_SEQLEN] = USE_SAME, [KVMILL_CACHE_ATTENTION_MAX_KVLEN] = USE_SAME
#define USE_OF_CACHES                                                                              \
    [KVMILL_CACHE_ATTENTION_CURRENT_KEY] = USE_INPUT,                                              \
    [KVMILL_CACHE_ATTENTION_CURRENT_VALUE] = USE_INPUT,                                            \
    [KVMILL_CACHE_ATTENTION_CACHE] = USE_CACHE, [KVMILL_CACHE_ATTENTION_SCALE] = USE_CACHE,        \
    [KVMILL_CACHE_ATTENTION_VALUE_CACHE] = USE_CACHE,                                              \
    [KVMILL_CACHE_ATTENTION_VALUE_SCALE] = USE_CACHE,                                              \
    [KVMILL_CACHE_ATTENTION_START_POS] = USE_SAME, [KVMILL_CACHE_ATTENTION_CACHESTARTS] = USE_SAME
#define WRITTEN_CACHES                                                                             \
    KVMILL_CACHE_ATTENTION_CACHE, KVMILL_CACHE_ATTENTION_SCALE,                                    \
        KVMILL_CACHE_ATTENTION_VALUE_CACHE, KVMILL_CACHE_ATTENTION_VALUE_SCALE

const struct scene_op batching_scene_op = {
    COMMON,
    ATTENDING,
    .words = "dynamic_batching.MultiHeadCacheAttention",
    .knows = knows_batching,
    .use = {USE_OF_NUMBERS, USE_OF_CACHES, [KVMILL_CACHE_ATTENTION_QUERY] = USE_INPUT,
            [KVMILL_CACHE_ATTENTION_ATTN_OUTPUT] = USE_SAME},
    .read = KVMILL_CACHE_ATTENTION_CACHE,
    .written = {WRITTEN_CACHES},
};

const struct scene_op given_scene_op = {
    COMMON,
    ATTENDING,
    .words = "MultiHeadAttention",
    .knows = knows_given,
    .use = {USE_OF_NUMBERS, [KVMILL_CACHE_ATTENTION_QUERY] = USE_INPUT,
            [KVMILL_CACHE_ATTENTION_KEY] = USE_CACHE, [KVMILL_CACHE_ATTENTION_VALUE] = USE_CACHE,
            [KVMILL_CACHE_ATTENTION_ATTN_OUTPUT] = USE_SAME},
    .read = KVMILL_CACHE_ATTENTION_KEY,
};

const struct scene_op read_back_scene_op = {
    COMMON,
    .words = "KeyValueCache",
    .knows = knows_read_back,
    .bytes = bytes_of_cache,
    .use = {USE_OF_NUMBERS, USE_OF_CACHES, [KVMILL_CACHE_ATTENTION_KEY] = USE_SAME,
            [KVMILL_CACHE_ATTENTION_VALUE] = USE_SAME},
    .output = KVMILL_CACHE_ATTENTION_KEY,
    .read = KVMILL_CACHE_ATTENTION_CACHE,
    .written = {KVMILL_CACHE_ATTENTION_KEY, KVMILL_CACHE_ATTENTION_VALUE, WRITTEN_CACHES},
};
