/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_scene.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime/numbers.h"
#include "attention_fill.h"
#include "memory.h"

enum { PAGE = 4096, LINE = 64, RING_BYTES = 32 << 20 };
static const int64_t most_bytes = INT64_C(6) << 30;

static int64_t up_to(int64_t bytes, int64_t of) {
    return (bytes + of - 1) / of * of;
}

/* ---- Sides: K (and V) and its scales, V and its scales ---- */

static const struct kvmill_format *format_of(const struct attention_scene *scene, int side) {
    return side < 2 ? &scene->geometry.key : &scene->geometry.value;
}

DLDataType attention_side_type(const kvmill_cache_attention *op, int side) {
    const DLDataType types[SIDES] = {op->T2, op->T3, op->value_T2, op->value_T3};
    return types[side];
}

int64_t attention_last_dim(const struct kvmill_format *format, bool scale) {
    bool blocks = format->element == KVMILL_Q8_0 || format->element == KVMILL_Q4_0;
    if (scale)
        return format->group > 0 ? format->dim / format->group : 0;
    return blocks ? kvmill_format_row_bytes(format) : format->dim;
}

static void size_side(struct attention_scene *scene, int side) {
    const struct kvmill_format *format = format_of(scene, side);
    bool scale = side % 2 == 1, there = side < 2 || scene->geometry.value_differs;
    scene->side[side].last = attention_last_dim(format, scale);
    scene->side[side].row = !there  ? 0
                            : scale ? kvmill_format_scale_bytes(format)
                                    : kvmill_format_row_bytes(format);
}

/* Of K and V where they share a tensor. */
static int64_t kinds_of(const struct attention_scene *scene) {
    return scene->geometry.value_differs ? 1 : 2;
}

/* Bytes of a side of one cache. */
int64_t attention_side_bytes(const struct attention_scene *scene, int side) {
    return scene->batch * kinds_of(scene) * scene->geometry.kv_heads * scene->capacity *
           scene->side[side].row;
}

int64_t attention_cache_bytes(const struct attention_scene *scene) {
    int64_t bytes = 0;
    for (int i = 0; i < SIDES; i++)
        bytes += attention_side_bytes(scene, i);
    return bytes;
}

enum { PATTERN_ROWS = 1021 };

static void fill_side(struct attention_scene *scene, int side) {
    const struct kvmill_format *format = format_of(scene, side);
    unsigned char *data = scene->side[side].data;
    int64_t bytes = scene->side[side].bytes, part = PATTERN_ROWS * scene->side[side].row;
    uint32_t state = (uint32_t)side;
    part = part < bytes ? part : bytes;
    if (side % 2 == 1)
        fill_scales(format, data, part, &state);
    else
        fill_rows(format, data, part, &state);
    fill_repeat(data, bytes, part);
}

/* What is there stays if it is enough. */
static bool reserve_side(struct attention_scene *scene, int side) {
    int64_t bytes = scene->caches * attention_side_bytes(scene, side);
    if (bytes <= scene->side[side].bytes)
        return true;
    bytes += bytes / 8; /* so that it is enough for other shapes, too */
    bench_memory_release(scene->side[side].data, scene->side[side].bytes);
    scene->side[side].data = bench_memory_get(bytes);
    scene->side[side].bytes = scene->side[side].data != NULL ? bytes : 0;
    if (scene->side[side].data != NULL)
        fill_side(scene, side);
    return scene->side[side].data != NULL;
}

/* ---- Opening ---- */

static bool make_plan(const struct attention_scene *scene, const kvmill_plan_options *options,
                      struct owned_plan *plan, struct error *error) {
    kvmill_error reason;
    *plan = (struct owned_plan){0};
    kvmill_status status =
        kvmill_plan_multi_head_cache_attention(&scene->op, options, &plan->plan, &reason);
    return owned_plan_finish(plan, status, &reason, error);
}

bool attention_plan_open(const struct attention_scene *scene, const kvmill_pack *const *packs,
                         size_t count, const char *isa, int threads, struct owned_plan *plan,
                         struct error *error) {
    const kvmill_plan_options options = {.struct_size = sizeof options,
                                         .packs = packs,
                                         .pack_count = count,
                                         .isa = isa,
                                         .threads = threads};
    return make_plan(scene, &options, plan, error);
}

static bool make_plans(struct attention_scene *scene, const struct attention_setting *setting,
                       const char *isa, struct error *error) {
    const kvmill_plan_options portable = {.struct_size = sizeof portable, .portable = 1};
    return attention_plan_open(scene, &setting->pack, 1, isa, setting->threads, &scene->usual,
                               error) &&
           make_plan(scene, &portable, &scene->portable, error);
}

/* One layer, whichever it is; results that are done. */
static kvmill_cache_attention plain(const kvmill_cache_attention *op) {
    kvmill_cache_attention one = *op;
    one.num_layer = 1;
    one.layer_idx = 0;
    one.partial = 0;
    return one;
}

bool attention_open(struct attention_scene *scene, const kvmill_cache_attention *op,
                    const struct attention_setting *setting, const char *isa, struct error *error) {
    kvmill_error reason;
    *scene = (struct attention_scene){.op = plain(op), .rotation = setting->rotation};
    if (kvmill_cache_attention_check(&scene->op, KVMILL_MULTI_HEAD_CACHE_ATTENTION,
                                     &scene->geometry, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s", reason.message);
    for (int i = 0; i < SIDES; i++)
        size_side(scene, i);
    return make_plans(scene, setting, isa, error);
}

static void release_activations(struct attention_scene *scene) {
    bench_memory_release(scene->ring, scene->ring_bytes);
    bench_memory_release(scene->output, scene->output_bytes);
    bench_memory_release(scene->expected, scene->output_bytes);
    scene->ring = scene->output = scene->expected = NULL;
}

void attention_close(struct attention_scene *scene) {
    owned_plan_close(&scene->usual);
    owned_plan_close(&scene->portable);
    release_activations(scene);
    for (int i = 0; i < SIDES; i++)
        bench_memory_release(scene->side[i].data, scene->side[i].bytes);
}

/* ---- Shapes ---- */

static int64_t activations(const struct attention_scene *scene, int64_t tokens, int64_t heads,
                           int64_t dim) {
    return scene->batch * tokens * heads * dim *
           kvmill_activation_bytes(scene->geometry.activation);
}

/* Twice what a call takes, so that the next one takes others. */
static int64_t ring_bytes_for(const struct attention_scene *scene, int64_t tokens) {
    const struct kvmill_cache_geometry *g = &scene->geometry;
    int64_t call = activations(scene, tokens, g->heads, g->key.dim) +
                   activations(scene, tokens, g->kv_heads, g->key.dim + g->value.dim);
    return 2 * call + 4 * LINE > RING_BYTES ? 2 * call + 4 * LINE : RING_BYTES;
}

enum { PATTERN_NUMBERS = 262147 };

static bool reserve_activations(struct attention_scene *scene, int64_t tokens) {
    int64_t ring = ring_bytes_for(scene, tokens);
    int64_t output = activations(scene, tokens, scene->geometry.heads, scene->geometry.value.dim);
    if (ring <= scene->ring_bytes && output <= scene->output_bytes)
        return true;
    release_activations(scene);
    scene->ring_bytes = up_to(ring, LINE);
    scene->output_bytes = output;
    scene->ring = bench_memory_get(scene->ring_bytes);
    scene->output = bench_memory_get(output);
    scene->expected = bench_memory_get(output);
    if (scene->ring == NULL || scene->output == NULL || scene->expected == NULL)
        return false;
    uint32_t state = SIDES;
    fill_floats(scene->geometry.activation, scene->ring, PATTERN_NUMBERS, -3, 3, &state);
    fill_repeat(scene->ring, scene->ring_bytes,
                PATTERN_NUMBERS * kvmill_activation_bytes(scene->geometry.activation));
    return true;
}

bool attention_set_shape(struct attention_scene *scene, int64_t batch, int64_t capacity,
                         int64_t tokens, struct error *error) {
    scene->batch = batch;
    scene->capacity = capacity;
    int64_t bytes = attention_cache_bytes(scene);
    scene->caches = (scene->rotation + bytes - 1) / bytes;
    scene->next = 0;
    bool done = scene->caches * bytes <= most_bytes && reserve_activations(scene, tokens);
    for (int i = 0; done && i < SIDES; i++)
        done = reserve_side(scene, i);
    return done || fail(error, EXIT_ENVIRONMENT, "not enough memory for caches of %" PRId64 " MiB",
                        scene->caches * bytes >> 20);
}

/* ---- Rotation ---- */

static int64_t next_caches(struct attention_scene *scene, int64_t count) {
    if (scene->next + count > scene->caches)
        scene->next = 0;
    int64_t first = scene->next;
    scene->next += count;
    return first;
}

unsigned char *attention_next_bytes(struct attention_scene *scene, int64_t *bytes) {
    int64_t one = attention_side_bytes(scene, 0), count = (*bytes + one - 1) / one;
    count = count < scene->caches ? count : scene->caches;
    *bytes = *bytes < count * one ? *bytes : count * one;
    return scene->side[0].data + next_caches(scene, count) * one;
}

unsigned char *attention_next_activations(struct attention_scene *scene, int64_t bytes) {
    if (scene->ring_next + bytes > scene->ring_bytes)
        scene->ring_next = 0;
    unsigned char *at = scene->ring + scene->ring_next;
    scene->ring_next += up_to(bytes, LINE);
    return at;
}

/* ---- A call's tensors ---- */

static void set_tensor(struct attention_call *call, int which, DLDataType type, int rank,
                       const int64_t *dims, void *data) {
    for (int d = 0; d < rank; d++)
        call->shapes[which][d] = dims[d];
    call->tensors[which] = (DLTensor){.data = data,
                                      .device = {kDLCPU, 0},
                                      .ndim = rank,
                                      .dtype = type,
                                      .shape = call->shapes[which]};
    call->given[which] = &call->tensors[which];
}

static void set_activations(struct attention_call *call, int which, int64_t heads, int64_t dim) {
    const int64_t dims[] = {call->size.batch, call->size.tokens, heads, dim};
    set_tensor(call, which, call->scene->op.T1, 4, dims, call->scene->output);
}

static void set_side(struct attention_call *call, int side) {
    const struct attention_scene *scene = call->scene;
    int64_t b = scene->batch, kinds = kinds_of(scene), heads = scene->geometry.kv_heads;
    int64_t slots = scene->capacity, last = scene->side[side].last;
    const int64_t dims[2][6] = {{b, 1, kinds, slots, heads, last},
                                {1, b, kinds, heads, slots, last}};
    if (scene->side[side].row > 0)
        set_tensor(call, KVMILL_CACHE + side, attention_side_type(&scene->op, side), 6,
                   dims[scene->geometry.layout], scene->side[side].data);
}

static void set_all(struct attention_call *call) {
    const struct kvmill_cache_geometry *g = &call->scene->geometry;
    const DLDataType index = {kDLInt, 64, 1};
    set_activations(call, KVMILL_QUERY, g->heads, g->key.dim);
    set_activations(call, KVMILL_CURRENT_KEY, g->kv_heads, g->key.dim);
    set_activations(call, KVMILL_CURRENT_VALUE, g->kv_heads, g->value.dim);
    set_activations(call, KVMILL_ATTN_OUTPUT, g->heads, g->value.dim);
    set_tensor(call, KVMILL_START_POS, index, 0, NULL, &call->start);
    for (int i = 0; i < SIDES; i++)
        set_side(call, i);
}

void attention_call_set(struct attention_call *call, int64_t cache) {
    struct attention_scene *scene = call->scene;
    call->cache = cache;
    call->start = call->size.positions - call->size.tokens;
    for (int i = 0; i < SIDES; i++)
        call->tensors[KVMILL_CACHE + i].data =
            scene->side[i].data + cache * attention_side_bytes(scene, i);
    static const int inputs[] = {KVMILL_QUERY, KVMILL_CURRENT_KEY, KVMILL_CURRENT_VALUE};
    for (int i = 0; i < 3; i++) {
        DLTensor *tensor = &call->tensors[inputs[i]];
        int64_t bytes = activations(scene, tensor->shape[1], tensor->shape[2], tensor->shape[3]);
        tensor->data = attention_next_activations(scene, bytes);
    }
}

void attention_call_open(struct attention_call *call, struct attention_scene *scene,
                         const struct attention_size *size, struct pool *pool) {
    *call =
        (struct attention_call){.scene = scene, .plan = &scene->usual, .size = *size, .pool = pool};
    set_all(call);
    attention_call_set(call, 0);
}

void attention_call_move(struct attention_call *call) {
    attention_call_set(call, next_caches(call->scene, 1));
}

/* ---- Running ---- */

kvmill_status attention_call_run(struct attention_call *call, kvmill_error *reason) {
    const struct owned_plan *plan = call->plan;
    if (pool_threads(call->pool) == 1)
        return kvmill_run(plan->plan, call->given, plan->workspace, reason);
    return kvmill_run_parallel(plan->plan, call->given, plan->workspace, pool_for, call->pool,
                               reason);
}

static void run_part(void *context, int64_t part) {
    kvmill_part(context, part);
}

/* The first phase writes K and V; the others are not begun. */
kvmill_status attention_call_store(struct attention_call *call, kvmill_error *reason) {
    const struct owned_plan *plan = call->plan;
    kvmill_call phases;
    kvmill_status status = kvmill_begin(&phases, plan->plan, call->given, plan->workspace, reason);
    if (status == KVMILL_OK)
        pool_for(call->pool, kvmill_parts(&phases), run_part, &phases);
    return status;
}
