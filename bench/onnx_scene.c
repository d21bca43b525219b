/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_scene.h"

#include <inttypes.h>
#include <string.h>

#include "../ops/dtype.h"
#include "attention_fill.h"
#include "attention_scene.h"
#include "limits.h"
#include "memory.h"
#include "window_starts.h"

enum { PATTERN_ROWS = 1021, LINE = 64, READ_BYTES = 32 << 20 };

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- Sizes ---- */

static bool has(const struct spec *spec, int tensor) {
    return spec->onnx_attention.tensor[tensor].shape != NULL;
}

/* Whether queries are the last of the positions, and not the first. */
static bool is_at_end(const struct spec *spec) {
    return has(spec, KVMILL_ATTENTION_PAST_KEY) || has(spec, KVMILL_ATTENTION_NONPAD_KV_SEQLEN);
}

static void set_counts(const struct spec *spec, const struct attention_size *size,
                       struct kvmill_attention_geometry *geometry) {
    bool past = has(spec, KVMILL_ATTENTION_PAST_KEY);
    geometry->batch = size->batch;
    geometry->queries = size->tokens;
    geometry->keys = past ? size->tokens : size->positions;
    geometry->past = geometry->step ? size->positions : past ? size->positions - size->tokens : 0;
}

static bool find_geometry(const struct spec *spec, struct kvmill_attention_geometry *geometry) {
    struct error ignored;
    return is_onnx_attention_spec(spec) && has(spec, KVMILL_ATTENTION_Q) &&
           onnx_attention_geometry(spec, geometry, &ignored) && !geometry->is_wide;
}

static bool may_be(int64_t planned, int64_t count) {
    return planned == KVMILL_DYNAMIC || planned == count;
}

static bool fits(const struct spec *spec, const struct kvmill_attention_geometry *planned,
                 const struct attention_size *size) {
    struct kvmill_attention_geometry wanted = *planned;
    set_counts(spec, size, &wanted);
    return may_be(planned->batch, wanted.batch) && may_be(planned->queries, wanted.queries) &&
           may_be(planned->keys, wanted.keys) && may_be(planned->past, wanted.past);
}

bool onnx_scene_serves(const struct spec *spec, const struct attention_size *size) {
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

bool onnx_scene_own_size(const struct spec *spec, const struct attention_size *usual,
                         struct attention_size *size) {
    struct kvmill_attention_geometry g;
    if (!find_geometry(spec, &g))
        return false;
    int64_t tokens = known(g.queries, usual->tokens);
    *size = (struct attention_size){known(g.batch, usual->batch), tokens,
                                    own_positions(spec, &g, tokens, usual->positions)};
    return size->batch > 0 && tokens > 0 && size->positions > 0 && fits(spec, &g, size);
}

/* ---- What is read and computed ---- */

struct span {
    int64_t first, last;
};

static struct span seen(const struct onnx_scene *scene, int64_t token) {
    const struct kvmill_attention_geometry *g = &scene->geometry;
    int64_t positions = scene->size.positions;
    int64_t p = (is_at_end(&scene->spec) ? positions - scene->size.tokens : 0) + token;
    bool bounded = g->right >= 0 && g->right < positions - p;
    return (struct span){g->left < 0 || g->left > p ? 0 : p - g->left,
                         bounded ? p + 1 + g->right : positions};
}

double onnx_scene_bytes(const struct onnx_scene *scene) {
    const struct kvmill_attention_geometry *g = &scene->geometry;
    const DLTensor *tensor = scene->spec.onnx_attention.tensor;
    int64_t rows = seen(scene, g->queries - 1).last - seen(scene, 0).first;
    int64_t row = g->key_dim * (tensor[KVMILL_ATTENTION_K].dtype.bits / 8) +
                  g->value_dim * (tensor[KVMILL_ATTENTION_V].dtype.bits / 8);
    return (double)(g->batch * g->kv_heads) * (double)rows * (double)row;
}

double onnx_scene_flops(const struct onnx_scene *scene) {
    const struct kvmill_attention_geometry *g = &scene->geometry;
    double pairs = 0;
    for (int64_t token = 0; token < g->queries; token++) {
        struct span span = seen(scene, token);
        pairs += (double)(span.last - span.first);
    }
    return 2 * pairs * (double)(g->batch * g->heads) * (double)(g->key_dim + g->value_dim);
}

/* ---- Shapes ---- */

/* A step has to know where its tokens go. */
static bool is_needed(const struct spec *spec, int tensor) {
    bool of_step = tensor == KVMILL_ATTENTION_PRESENT_KEY ||
                   tensor == KVMILL_ATTENTION_PRESENT_VALUE ||
                   tensor == KVMILL_ATTENTION_WRITE_INDICES;
    return tensor == KVMILL_ATTENTION_Y || has(spec, tensor) ||
           (of_step && is_onnx_attention_step(spec));
}

/* The last dims; fewer where the spec says so. */
static void cut_mask(const DLTensor *planned, DLTensor *mask) {
    int less = mask->ndim - planned->ndim;
    mask->ndim = planned->ndim;
    for (int d = 0; d < planned->ndim; d++) {
        mask->shape[d] = mask->shape[d + less];
        if (planned->shape[d] != KVMILL_DYNAMIC)
            mask->shape[d] = planned->shape[d];
    }
}

static void shape_tensor(struct onnx_scene *scene, const struct spec *spec, int i) {
    DLTensor *tensor = &scene->spec.onnx_attention.tensor[i];
    tensor->device = (DLDevice){kDLCPU, 0};
    tensor->shape = scene->dims[i];
    tensor->ndim = kvmill_attention_shape(&scene->geometry, i, tensor->shape);
    if (i == KVMILL_ATTENTION_MASK)
        cut_mask(&spec->onnx_attention.tensor[i], tensor);
    scene->given[i] = tensor;
}

/* ---- Memory ---- */

static bool is_value(int tensor) {
    return tensor == KVMILL_ATTENTION_V || tensor == KVMILL_ATTENTION_PAST_VALUE ||
           tensor == KVMILL_ATTENTION_PRESENT_VALUE;
}

/* Whether it lies in caches: a past always, K and V without one, a present behind one. */
static bool is_cached(const struct spec *spec, int tensor) {
    bool past = has(spec, KVMILL_ATTENTION_PAST_KEY);
    switch (tensor) {
    case KVMILL_ATTENTION_K:
    case KVMILL_ATTENTION_V:
        return !past;
    case KVMILL_ATTENTION_PAST_KEY:
    case KVMILL_ATTENTION_PAST_VALUE:
        return true;
    case KVMILL_ATTENTION_PRESENT_KEY:
    case KVMILL_ATTENTION_PRESENT_VALUE:
        return past;
    default:
        return false;
    }
}

/* Dense, as the tensor that fills it. */
static void size_cache(struct onnx_scene *scene, int v) {
    bool past = has(&scene->spec, KVMILL_ATTENTION_PAST_KEY);
    int64_t dims[4], stride = 1;
    int rank = kvmill_attention_shape(
        &scene->geometry, (past ? KVMILL_ATTENTION_PRESENT_KEY : KVMILL_ATTENTION_K) + v, dims);
    for (int d = rank - 1; d >= 0; stride *= dims[d--])
        scene->cache[v].strides[d] = stride;
    scene->cache[v].bytes =
        stride * (scene->spec.onnx_attention.tensor[KVMILL_ATTENTION_K + v].dtype.bits / 8);
}

static void fill(const DLTensor *like, unsigned char *data, int64_t bytes, float most) {
    int element = kvmill_element_of(like->dtype);
    int64_t size = like->dtype.bits / 8, part = like->shape[like->ndim - 1] * PATTERN_ROWS;
    uint32_t state = (uint32_t)like->dtype.bits;
    part = smaller(part, bytes / size);
    fill_floats(element, data, part, -most, most, &state);
    fill_repeat(data, bytes, part * size);
}

static bool open_caches(struct onnx_scene *scene, int64_t rotation) {
    scene->caches = rotation / (scene->cache[0].bytes + scene->cache[1].bytes) + 1;
    for (int v = 0; v < 2; v++) {
        int64_t bytes = scene->caches * scene->cache[v].bytes;
        scene->cache[v].data = bench_memory_get(bytes);
        if (scene->cache[v].data == NULL)
            return false;
        fill(&scene->spec.onnx_attention.tensor[KVMILL_ATTENTION_K + v], scene->cache[v].data,
             bytes, 1);
    }
    return true;
}

static void fill_numbers(const DLTensor *tensor, int64_t number) {
    int64_t *numbers = tensor->data;
    for (int64_t b = 0; b < tensor->shape[0]; b++)
        numbers[b] = number;
}

/* Outputs, and masks that are added, stay zero. */
static void fill_tensor(const struct onnx_scene *scene, int i) {
    const DLTensor *tensor = &scene->spec.onnx_attention.tensor[i];
    if (i <= KVMILL_ATTENTION_V)
        fill(tensor, tensor->data, dense_bytes(tensor), 3);
    else if (i == KVMILL_ATTENTION_MASK && tensor->dtype.code == KVMILL_DL_BOOL)
        memset(tensor->data, 1, (size_t)dense_bytes(tensor));
    else if (i == KVMILL_ATTENTION_NONPAD_KV_SEQLEN)
        fill_numbers(tensor, scene->size.positions);
    else if (i == KVMILL_ATTENTION_WRITE_INDICES)
        fill_numbers(tensor, scene->size.positions - scene->size.tokens);
}

static bool open_tensor(struct onnx_scene *scene, int i) {
    DLTensor *tensor = &scene->spec.onnx_attention.tensor[i];
    if (is_cached(&scene->spec, i)) {
        tensor->strides = scene->cache[is_value(i)].strides;
        return true;
    }
    int64_t bytes = dense_bytes(tensor) + LINE;
    tensor->data = bench_memory_get(bytes);
    if (tensor->data == NULL)
        return false;
    scene->bytes[i] = bytes;
    fill_tensor(scene, i);
    return true;
}

static void set_cache(struct onnx_scene *scene, int64_t number) {
    for (int i = 0; i < ONNX_TENSORS; i++)
        if (scene->given[i] != NULL && is_cached(&scene->spec, i))
            scene->spec.onnx_attention.tensor[i].data =
                scene->cache[is_value(i)].data + number * scene->cache[is_value(i)].bytes;
}

static int64_t next_caches(struct onnx_scene *scene, int64_t count) {
    if (scene->next + count > scene->caches)
        scene->next = 0;
    scene->next += count;
    return scene->next - count;
}

/* ---- Opening ---- */

static bool open_memory(struct onnx_scene *scene, int64_t rotation) {
    bool done = open_caches(scene, rotation);
    for (int i = 0; done && i < ONNX_TENSORS; i++)
        done = scene->given[i] == NULL || open_tensor(scene, i);
    return done;
}

bool onnx_scene_open(struct onnx_scene *scene, const struct spec *spec,
                     const struct attention_size *size, int64_t rotation, struct error *error) {
    *scene = (struct onnx_scene){.spec = *spec, .size = *size};
    if (!onnx_attention_geometry(spec, &scene->geometry, error))
        return false;
    set_counts(spec, size, &scene->geometry);
    for (int i = 0; i < ONNX_TENSORS; i++)
        if (is_needed(spec, i))
            shape_tensor(scene, spec, i);
    for (int v = 0; v < 2; v++)
        size_cache(scene, v);
    if (!open_memory(scene, rotation))
        return fail(error, EXIT_ENVIRONMENT,
                    "%s: not enough memory for caches of %" PRId64 " tokens", spec->where,
                    size->positions);
    set_cache(scene, 0);
    return true;
}

static int64_t output_bytes(const struct onnx_scene *scene) {
    return dense_bytes(scene->given[KVMILL_ATTENTION_Y]);
}

void onnx_scene_close(struct onnx_scene *scene) {
    for (int i = 0; i < ONNX_TENSORS; i++)
        if (scene->bytes[i] > 0)
            bench_memory_release(scene->spec.onnx_attention.tensor[i].data, scene->bytes[i]);
    if (scene->expected != NULL)
        bench_memory_release(scene->expected, output_bytes(scene));
    for (int v = 0; v < 2; v++)
        bench_memory_release(scene->cache[v].data, scene->caches * scene->cache[v].bytes);
}

/* ---- Plans and runs ---- */

kvmill_status onnx_spec_plan(const struct spec *spec, const kvmill_plan_options *options,
                             kvmill_plan **plan, kvmill_error *reason) {
    kvmill_attention op = onnx_attention_op_of(spec);
    kvmill_tensor_scatter_attention step = onnx_attention_step_of(spec, &op);
    return is_onnx_attention_step(spec)
               ? kvmill_plan_tensor_scatter_attention(&step, options, plan, reason)
               : kvmill_plan_attention(&op, options, plan, reason);
}

bool onnx_scene_plan(const struct onnx_scene *scene, const kvmill_plan_options *options,
                     struct owned_plan *plan, struct error *error) {
    kvmill_error reason;
    *plan = (struct owned_plan){0};
    kvmill_status status = onnx_spec_plan(&scene->spec, options, &plan->plan, &reason);
    return owned_plan_finish(plan, status, &reason, error);
}

static kvmill_status run_on(struct onnx_scene *scene, int64_t cache, const struct owned_plan *plan,
                            struct pool *pool, kvmill_error *reason) {
    set_cache(scene, cache);
    if (pool_threads(pool) == 1)
        return kvmill_run(plan->plan, scene->given, plan->workspace, reason);
    return kvmill_run_parallel(plan->plan, scene->given, plan->workspace, pool_for, pool, reason);
}

kvmill_status onnx_scene_run(struct onnx_scene *scene, const struct owned_plan *plan,
                             struct pool *pool, kvmill_error *reason) {
    return run_on(scene, next_caches(scene, 1), plan, pool, reason);
}

int64_t onnx_scene_read(struct onnx_scene *scene, struct pool *pool) {
    int64_t one = scene->cache[0].bytes, count = smaller(READ_BYTES / one + 1, scene->caches);
    const unsigned char *from = scene->cache[0].data + next_caches(scene, count) * one;
    const struct reading reading = {(const char *)from, (size_t)(count * one),
                                    kinds_of_reading[READINGS - 1].streams, pool};
    limit_read(&reading);
    return count * one;
}

/* ---- Checks ---- */

/* On cache 0, over an output of NaN. */
static bool run_first(struct onnx_scene *scene, const struct owned_plan *plan, struct pool *pool,
                      struct error *error) {
    kvmill_error reason;
    memset(scene->given[KVMILL_ATTENTION_Y]->data, 0xff, (size_t)output_bytes(scene));
    kvmill_status status = run_on(scene, 0, plan, pool, &reason);
    return status == KVMILL_OK ||
           fail(error, EXIT_BUG, "%s: %s", kvmill_status_name(status), reason.message);
}

bool onnx_scene_expect(struct onnx_scene *scene, struct pool *pool, struct error *error) {
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .portable = 1, .threads = pool_threads(pool)};
    struct owned_plan portable;
    scene->expected = bench_memory_get(output_bytes(scene));
    bool done = (scene->expected != NULL || out_of_memory(error)) &&
                onnx_scene_plan(scene, &options, &portable, error);
    if (!done)
        return false;
    done = run_first(scene, &portable, pool, error);
    memcpy(scene->expected, scene->given[KVMILL_ATTENTION_Y]->data, (size_t)output_bytes(scene));
    owned_plan_close(&portable);
    return done;
}

bool onnx_scene_check(struct onnx_scene *scene, const struct owned_plan *plan, struct pool *pool,
                      struct error *error) {
    const DLTensor *y = scene->given[KVMILL_ATTENTION_Y];
    const kvmill_attention op = onnx_attention_op_of(&scene->spec);
    const struct kvmill_cache_geometry like =
        kvmill_attention_cache_geometry(&op, &scene->geometry);
    return run_first(scene, plan, pool, error) &&
           attention_outputs_agree(&like, y->data, scene->expected,
                                   output_bytes(scene) / (y->dtype.bits / 8), error);
}
