/* SPDX-License-Identifier: Apache-2.0 */
#include "rows_scene.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/dtype.h"
#include "memory.h"

enum { PREFILL_ROWS = 512 };

/* ---- Cases ---- */

bool rows_case_open(struct rows_case *each, const struct spec *spec, struct error *error) {
    kvmill_error reason;
    kvmill_tensor_scatter op = scatter_op_of(spec);
    *each = (struct rows_case){.spec = spec};
    if (kvmill_tensor_scatter_check(&op, &each->geometry, &reason) == KVMILL_OK)
        return true;
    return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
}

bool rows_case_is_decode(const struct rows_case *each) {
    return each->geometry.rows == 1;
}

/* A dim that one of the tensors fixes is not open. */
static int64_t dim_of(const struct rows_case *each, int d) {
    int64_t past = each->spec->scatter.past_cache.shape[d];
    int64_t dim = past >= 0 ? past : each->spec->scatter.update.shape[d];
    return dim >= 0 ? dim : d == 0 ? each->batch : 1;
}

/* Elements of all dims but the axis. */
static bool count_others(const struct rows_case *each, int64_t *count) {
    *count = 1;
    for (int d = 0; d < each->spec->scatter.past_cache.ndim; d++)
        if (d != each->geometry.axis && __builtin_mul_overflow(*count, dim_of(each, d), count))
            return false;
    return *count > 0;
}

bool rows_case_size(struct rows_case *each, int64_t batch, int64_t bytes) {
    const struct kvmill_row_geometry *g = &each->geometry;
    int64_t others, elements, least = g->rows > 0 ? g->rows : 1;
    each->batch = batch;
    if (!count_others(each, &others))
        return false;
    each->slots = g->capacity;
    if (g->capacity < 0)
        each->slots = bytes / kvmill_dtype_bytes(each->spec->scatter.dtype, others);
    if (g->capacity < 0 && each->slots < least)
        each->slots = least;
    each->rows = g->rows >= 0 ? g->rows : PREFILL_ROWS;
    if (each->rows > each->slots)
        each->rows = each->slots;
    return each->rows > 0 && !__builtin_mul_overflow(others, each->slots, &elements) &&
           elements <= PTRDIFF_MAX / 16;
}

/* ---- Memory ---- */

int64_t rows_tensor_bytes(const DLTensor *tensor) {
    return kvmill_dtype_bytes(tensor->dtype, kvmill_element_count(tensor));
}

/* As much as the tensor says; NULL on failure. */
static void *get_memory(const DLTensor *tensor, int fill) {
    void *memory = bench_memory_get(rows_tensor_bytes(tensor));
    return memory == NULL ? NULL : memset(memory, fill, (size_t)rows_tensor_bytes(tensor));
}

static void release(DLTensor *tensor) {
    bench_memory_release(tensor->data, rows_tensor_bytes(tensor));
    tensor->data = NULL;
}

void rows_scene_close(struct rows_scene *scene) {
    kvmill_plan_destroy(scene->plan);
    pool_close(scene->pool);
    if (!scene->in_place)
        release(&scene->present);
    release(&scene->past);
    release(&scene->update);
    release(&scene->indices);
    free(scene->past.shape);
    free(scene->update.shape);
}

static bool open_memory(struct rows_scene *scene, struct error *error) {
    scene->past.data = get_memory(&scene->past, 1);
    scene->update.data = get_memory(&scene->update, 2);
    scene->present = scene->past;
    if (!scene->in_place)
        scene->present.data = get_memory(&scene->past, 3);
    scene->starts = scene->indices.data = get_memory(&scene->indices, 0);
    scene->pool = pool_open(scene->threads);
    if (scene->past.data && scene->update.data && scene->present.data && scene->starts &&
        scene->pool)
        return true;
    return fail(error, EXIT_ENVIRONMENT, "not enough memory for a cache of %" PRId64 " MiB",
                rows_tensor_bytes(&scene->past) >> 20);
}

/* ---- Opening ---- */

static kvmill_tensor_scatter op_of(const struct rows_scene *scene) {
    return (kvmill_tensor_scatter){
        .struct_size = sizeof(kvmill_tensor_scatter),
        .axis = scene->spec->scatter.axis,
        .mode = scene->spec->scatter.mode,
        .past_cache = &scene->past,
        .update = &scene->update,
        .write_indices = &scene->indices,
    };
}

bool rows_scene_plan(const struct rows_scene *scene, const kvmill_plan_options *options,
                     kvmill_plan **plan, struct error *error) {
    kvmill_error reason;
    kvmill_tensor_scatter op = op_of(scene);
    return kvmill_plan_tensor_scatter(&op, options, plan, &reason) == KVMILL_OK ||
           fail(error, EXIT_BUG, "%s", reason.message);
}

static bool open_plan(struct rows_scene *scene, const kvmill_pack *pack, struct error *error) {
    kvmill_error reason;
    const kvmill_tensor_scatter op = op_of(scene);
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = 1};
    if (kvmill_tensor_scatter_check(&op, &scene->geometry, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s", reason.message);
    return rows_scene_plan(scene, &options, &scene->plan, error);
}

static bool set_shape(DLTensor *tensor, const struct rows_case *each, int64_t slots,
                      struct error *error) {
    const DLTensor *past = &each->spec->scatter.past_cache;
    if (!spec_set_shape(tensor, past->shape, past->ndim, error))
        return false;
    for (int d = 0; d < past->ndim; d++)
        tensor->shape[d] = d == each->geometry.axis ? slots : dim_of(each, d);
    return true;
}

bool rows_scene_open(struct rows_scene *scene, const struct rows_case *each,
                     const kvmill_pack *pack, struct error *error) {
    const struct scatter_spec *spec = &each->spec->scatter;
    scene->spec = each->spec;
    scene->past = scene->update = (DLTensor){.device = {kDLCPU, 0}, .dtype = spec->dtype};
    scene->indices = (DLTensor){.device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLInt, 64, 1}};
    if (!set_shape(&scene->past, each, each->slots, error) ||
        !set_shape(&scene->update, each, each->rows, error))
        return false;
    scene->indices.shape = scene->past.shape; /* its first dim, the batch */
    return open_memory(scene, error) && open_plan(scene, pack, error);
}

/* ---- Running ---- */

double rows_scene_bytes(const struct rows_scene *scene) {
    return 2.0 * (double)rows_tensor_bytes(scene->in_place ? &scene->update : &scene->past);
}

void rows_scene_move(struct rows_scene *scene, int64_t k) {
    int64_t span = scene->geometry.capacity - scene->geometry.rows + 1;
    for (int64_t b = 0; b < scene->geometry.batch; b++)
        scene->starts[b] = (k * 7919 + b * 131) % span;
}

kvmill_status rows_scene_run(struct rows_scene *scene, const kvmill_plan *plan,
                             kvmill_error *reason) {
    const DLTensor *tensors[] = {&scene->past, &scene->update, &scene->indices, &scene->present};
    if (scene->threads == 1)
        return kvmill_run(plan, tensors, NULL, reason);
    return kvmill_run_parallel(plan, tensors, NULL, pool_for, scene->pool, reason);
}
