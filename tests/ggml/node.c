/* SPDX-License-Identifier: Apache-2.0 */
#include "ggml_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGER = 3, WINDOW_CELLS = 20, MOST_DIM = 512 };

/* ---- Data ---- */

double draw(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 40) / (1 << 23) - 1;
}

static void fill_rows(struct ggml_tensor *tensor, uint64_t *seed) {
    const struct ggml_type_traits *traits = ggml_get_type_traits(tensor->type);
    float row[MOST_DIM];
    int64_t dim = tensor->ne[0];
    for (int64_t r = 0; r < ggml_nrows(tensor); r++) {
        unsigned char *data = (unsigned char *)tensor->data + (size_t)r * tensor->nb[1];
        float *to = tensor->type == GGML_TYPE_F32 ? (float *)(void *)data : row;
        for (int64_t i = 0; i < dim; i++)
            to[i] = (float)(2 * draw(seed));
        if (to == row)
            traits->from_float_ref(row, data, dim);
    }
}

static bool is_seen(const struct shape *shape, int64_t i, int64_t j, uint64_t *seed) {
    int64_t own = shape->cells - shape->hidden - shape->queries + i;
    switch (shape->mask) {
    case CAUSAL:
        return j <= own;
    case WINDOW:
        return j <= own && j > own - WINDOW_CELLS;
    case SEQUENCES:
        return j / 7 % 3 == i % 3;
    case HOLES:
        return i != 1 && draw(seed) > 0; /* query 1 sees nothing */
    default:
        return true;
    }
}

static void fill_mask(struct ggml_tensor *mask, const struct shape *shape, uint64_t *seed) {
    ggml_fp16_t *to = mask->data;
    for (int64_t n = 0; n < ggml_nelements(mask); n++) {
        int64_t j = n % mask->ne[0], i = n / mask->ne[0] % mask->ne[1];
        bool seen = is_seen(shape, i, j, seed);
        float value = shape->max_bias > 0    ? (float)(j - i) / 64
                      : shape->mask_of_heads ? (float)draw(seed)
                                             : 0;
        to[n] = ggml_fp32_to_fp16(seen ? value : -INFINITY);
    }
}

/* ---- Scenes ---- */

/* Caches have more cells than the node attends to. */
static struct ggml_tensor *new_cache(const struct shape *shape, struct ggml_context *context,
                                     enum ggml_type type, int64_t dim) {
    int64_t cells = shape->cells + LONGER;
    return shape->layout == TOKENS
               ? ggml_new_tensor_4d(context, type, dim, shape->kv_heads, cells, shape->streams)
               : ggml_new_tensor_4d(context, type, dim, cells, shape->kv_heads, shape->streams);
}

struct scene scene_open(const struct shape *shape, uint64_t seed, ggml_backend_buffer_type_t type) {
    struct scene scene = {.shape = *shape};
    struct ggml_context *context =
        ggml_init((struct ggml_init_params){16 * ggml_tensor_overhead(), NULL, true});
    scene.inputs = context;
    scene.query = ggml_new_tensor_4d(context, GGML_TYPE_F32, shape->key_dim, shape->heads,
                                     shape->queries, shape->streams);
    scene.cache[0] = new_cache(shape, context, shape->key, shape->key_dim);
    scene.cache[1] = new_cache(shape, context, shape->value, shape->value_dim);
    if (shape->mask != NONE)
        scene.mask = ggml_new_tensor_4d(context, GGML_TYPE_F16, shape->cells, shape->queries,
                                        shape->mask_of_heads ? shape->heads : 1, shape->streams);
    if (shape->sinks)
        scene.sinks = ggml_new_tensor_1d(context, GGML_TYPE_F32, shape->heads);
    scene.buffer = ggml_backend_alloc_ctx_tensors_from_buft(context, type);
    fill_rows(scene.query, &seed);
    fill_rows(scene.cache[0], &seed);
    fill_rows(scene.cache[1], &seed);
    if (scene.mask != NULL)
        fill_mask(scene.mask, shape, &seed);
    if (scene.sinks != NULL)
        fill_rows(scene.sinks, &seed);
    return scene;
}

void scene_close(struct scene *scene) {
    ggml_backend_buffer_free(scene->buffer);
    ggml_free(scene->inputs);
}

/* Returns a view with dims (dim, cells, heads, streams), as llama.cpp makes it. */
static struct ggml_tensor *view_of(const struct scene *scene, struct ggml_context *context, int v) {
    struct ggml_tensor *cache = scene->cache[v];
    const struct shape *shape = &scene->shape;
    if (shape->layout == HEADS)
        return ggml_view_4d(context, cache, cache->ne[0], shape->cells, shape->kv_heads,
                            shape->streams, cache->nb[1], cache->nb[2], cache->nb[3], 0);
    return ggml_permute(context,
                        ggml_view_4d(context, cache, cache->ne[0], shape->kv_heads, shape->cells,
                                     shape->streams, cache->nb[1], cache->nb[2], cache->nb[3], 0),
                        0, 2, 1, 3);
}

static float scale_of(const struct shape *shape) {
    return 1.5f / sqrtf((float)shape->key_dim);
}

struct ggml_tensor *scene_node(const struct scene *scene, struct ggml_context *context) {
    struct ggml_tensor *query = ggml_permute(context, scene->query, 0, 2, 1, 3);
    struct ggml_tensor *node = ggml_flash_attn_ext(
        context, query, view_of(scene, context, 0), view_of(scene, context, 1), scene->mask,
        scale_of(&scene->shape), scene->shape.max_bias, scene->shape.softcap);
    ggml_flash_attn_ext_add_sinks(node, scene->sinks);
    return node;
}

/* ---- What is right ---- */

static const float *row_of(const struct scene *scene, int v, int64_t stream, int64_t head,
                           int64_t cell, float row[MOST_DIM]) {
    const struct ggml_tensor *cache = scene->cache[v];
    bool tokens = scene->shape.layout == TOKENS;
    const unsigned char *data = (const unsigned char *)cache->data + (size_t)stream * cache->nb[3] +
                                (size_t)head * cache->nb[tokens ? 1 : 2] +
                                (size_t)cell * cache->nb[tokens ? 2 : 1];
    if (cache->type == GGML_TYPE_F32)
        return (const float *)(const void *)data;
    ggml_get_type_traits(cache->type)->to_float(data, row, cache->ne[0]);
    return row;
}

static double slope_of(const struct shape *shape, int64_t head) {
    int64_t most = 1;
    while (2 * most <= shape->heads)
        most *= 2;
    double bias = (double)shape->max_bias;
    if (bias == 0)
        return 1;
    return head < most ? exp2(-bias * (double)(head + 1) / (double)most)
                       : exp2(-bias / 2 * (double)(2 * (head - most) + 1) / (double)most);
}

/* Returns what the mask adds to a score; -infinity hides a cell. */
static double added(const struct scene *scene, int64_t b, int64_t h, int64_t i, int64_t j) {
    const struct ggml_tensor *mask = scene->mask;
    if (mask == NULL)
        return 0;
    int64_t at = ((b * mask->ne[2] + h % mask->ne[2]) * mask->ne[1] + i) * mask->ne[0] + j;
    return slope_of(&scene->shape, h) *
           (double)ggml_fp16_to_fp32(((const ggml_fp16_t *)mask->data)[at]);
}

static double score(const struct scene *scene, const float *query, const float *key) {
    const struct shape *shape = &scene->shape;
    double sum = 0, cap = (double)shape->softcap;
    for (int64_t d = 0; d < shape->key_dim; d++)
        sum += (double)query[d] * (double)key[d];
    sum *= (double)scale_of(shape);
    return cap == 0 ? sum : cap * tanh(sum / cap);
}

/* Computes a row without subtracting the maximum, because scores are small. */
static void expect_row(const struct scene *scene, int64_t b, int64_t i, int64_t h, double *result) {
    const struct shape *shape = &scene->shape;
    const float *query = (const float *)scene->query->data +
                         ((b * shape->queries + i) * shape->heads + h) * shape->key_dim;
    int64_t head = h / (shape->heads / shape->kv_heads);
    double sum = shape->sinks ? exp((double)((const float *)scene->sinks->data)[h]) : 0;
    float row[MOST_DIM];
    for (int64_t d = 0; d < shape->value_dim; d++)
        result[d] = 0;
    for (int64_t j = 0; j < shape->cells; j++) {
        double weight =
            exp(score(scene, query, row_of(scene, 0, b, head, j, row)) + added(scene, b, h, i, j));
        const float *value = row_of(scene, 1, b, head, j, row);
        sum += weight;
        for (int64_t d = 0; d < shape->value_dim; d++)
            result[d] += weight * (double)value[d];
    }
    for (int64_t d = 0; d < shape->value_dim; d++)
        result[d] /= sum == 0 ? 1 : sum;
}

int64_t scene_size(const struct scene *scene) {
    const struct shape *shape = &scene->shape;
    return shape->streams * shape->queries * shape->heads * shape->value_dim;
}

void scene_expect(const struct scene *scene, double *result) {
    const struct shape *shape = &scene->shape;
    for (int64_t n = 0; n < shape->streams * shape->queries * shape->heads; n++)
        expect_row(scene, n / (shape->queries * shape->heads), n / shape->heads % shape->queries,
                   n % shape->heads, result + n * shape->value_dim);
}

/* ---- Other nodes ---- */

void node_change(struct ggml_tensor *node, const struct change *change) {
    for (int i = 0; i <= 4; i++) {
        struct ggml_tensor *tensor = i == 0 ? node : node->src[i - 1];
        if (!(change->tensors >> i & 1))
            continue;
        if (change->what == EXTENT)
            tensor->ne[change->dim] += change->by;
        else if (change->what == STRIDE)
            tensor->nb[change->dim] += (size_t)change->by;
        else if (change->what == OP)
            tensor->op = (enum ggml_op)change->by;
        else if (change->what == NO_SCALE)
            memset(tensor->op_params, 0, sizeof(float));
        else {
            tensor->type = (enum ggml_type)change->by;
            tensor->nb[0] = ggml_type_size(tensor->type);
        }
    }
}
