/* SPDX-License-Identifier: Apache-2.0 */
#include "gather_scene.h"

#include <inttypes.h>
#include <string.h>

#include "../ops/element.h"
#include "../tune/random.h"
#include "limits.h"
#include "memory.h"
#include "window_starts.h"

static const int64_t rotation_bytes = 1 << 30;
enum { MOST_SETS = 1 << 16 };

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void fill_indices(struct gather_scene *scene) {
    int64_t each = kvmill_element_bytes(scene->indices.dtype);
    struct window_starts starts;
    uint64_t state = 1;
    window_starts_set(&starts, &scene->windows, &scene->indices);
    for (int64_t i = 0; i < scene->sets * scene->index_bytes / each; i++) {
        uint64_t index = random_below(&state, (uint64_t)window_starts_at(&starts, i));
        memcpy(scene->index_memory + i * each, &index, (size_t)each);
    }
}

void gather_scene_close(struct gather_scene *scene) {
    kvmill_plan_destroy(scene->plan);
    bench_memory_release(scene->operand.data, scene->operand_bytes);
    bench_memory_release(scene->index_memory, scene->index_bytes * scene->sets);
    bench_memory_release(scene->result.data, scene->result_bytes);
}

static bool open_memory(struct gather_scene *scene, struct error *error) {
    int64_t sets = rotation_bytes / scene->result_bytes + 1;
    scene->sets = smaller(sets, MOST_SETS);
    scene->operand.data = bench_memory_get(scene->operand_bytes);
    scene->index_memory = bench_memory_get(scene->index_bytes * scene->sets);
    scene->result.data = bench_memory_get(scene->result_bytes);
    if (scene->operand.data == NULL || scene->index_memory == NULL || scene->result.data == NULL)
        return fail(error, EXIT_ENVIRONMENT,
                    "not enough memory for an operand of %" PRId64 " MiB and a result of %" PRId64
                    " MiB",
                    scene->operand_bytes >> 20, scene->result_bytes >> 20);
    memset(scene->operand.data, 1, (size_t)scene->operand_bytes);
    memset(scene->result.data, 2, (size_t)scene->result_bytes);
    if (scene->index_bytes > 0)
        fill_indices(scene);
    return true;
}

bool gather_scene_plan(const struct gather_scene *scene, const kvmill_plan_options *options,
                       kvmill_plan **plan, struct error *error) {
    kvmill_error reason;
    return kvmill_plan_gather(&scene->view.op, options, plan, &reason) == KVMILL_OK ||
           fail(error, EXIT_BUG, "%s", reason.message);
}

bool gather_scene_open(struct gather_scene *scene, const struct spec *spec, const kvmill_pack *pack,
                       struct error *error) {
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = 1};
    kvmill_error reason;
    *scene = (struct gather_scene){.plan = NULL};
    gather_view_make(spec->gather, &scene->view);
    if (kvmill_gather_check(&scene->view.op, &scene->windows, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s: %s", spec->where, reason.message);
    kvmill_gather_result(&scene->windows, scene->result_dims);
    scene->operand = scene->view.operand;
    scene->indices = scene->view.start_indices;
    scene->result = scene->operand;
    scene->result.ndim = scene->windows.windowed_rank;
    scene->result.shape = scene->result_dims;
    scene->operand_bytes = dense_bytes(&scene->operand);
    scene->index_bytes = dense_bytes(&scene->indices);
    scene->result_bytes = dense_bytes(&scene->result);
    return scene->result_bytes == 0 ||
           (open_memory(scene, error) && gather_scene_plan(scene, &options, &scene->plan, error));
}

kvmill_status gather_scene_run(const struct gather_scene *scene, const kvmill_plan *plan,
                               struct pool *pool, int64_t k, kvmill_error *reason) {
    DLTensor indices = scene->indices;
    indices.data = scene->index_memory + k % scene->sets * scene->index_bytes;
    const DLTensor *tensors[] = {&scene->operand, &indices, &scene->result};
    if (pool_threads(pool) == 1)
        return kvmill_run(plan, tensors, NULL, reason);
    return kvmill_run_parallel(plan, tensors, NULL, pool_for, pool, reason);
}

int64_t gather_scene_copy(const struct gather_scene *scene, struct pool *pool, int64_t k) {
    int64_t bytes = smaller(scene->operand_bytes, scene->result_bytes);
    int64_t places = scene->operand_bytes / bytes;
    const struct copy copy = {scene->result.data,
                              (const char *)scene->operand.data + k * 7919 % places * bytes,
                              (size_t)bytes, pool};
    limit_memcpy(&copy);
    return bytes;
}
