/* SPDX-License-Identifier: Apache-2.0 */
#include "scatter_scene.h"

#include <inttypes.h>
#include <string.h>

#include "../ops/element.h"
#include "../tune/random.h"
#include "limits.h"
#include "memory.h"
#include "window_starts.h"

enum { LINE = 64, MEAN_RUN = 40 };

bool scatter_scene_serves(const struct spec *spec) {
    struct scatter_view view;
    struct kvmill_windows windows;
    struct kvmill_program program;
    if (spec->op != &window_scatter_spec || spec->window_scatter->count != 1)
        return false;
    scatter_view_make(spec->window_scatter, &view);
    return kvmill_scatter_check(&view.op, &windows, &program, NULL) == KVMILL_OK &&
           kvmill_element_equal(&view.elements[0], &view.update_elements[0]) &&
           kvmill_element_equal(&view.elements[0], &program.type[program.result[0]]);
}

/* ---- Indices ---- */

static void fill_indices(struct scatter_scene *scene, bool runs) {
    int64_t each = kvmill_element_bytes(scene->indices.dtype), value = 0;
    struct window_starts starts;
    uint64_t state = 1;
    window_starts_set(&starts, &scene->windows, &scene->indices);
    for (int64_t i = 0; i < scene->index_bytes / each; i++) {
        int64_t count = window_starts_at(&starts, i);
        bool goes_on = runs && random_below(&state, MEAN_RUN) > 0;
        value = goes_on ? (value + 1) % count : (int64_t)random_below(&state, (uint64_t)count);
        memcpy((char *)scene->indices.data + i * each, &value, (size_t)each);
    }
}

/* ---- What updates touch ---- */

kvmill_status scatter_scene_run(const struct scatter_scene *scene, const kvmill_plan *plan,
                                struct pool *pool, bool in_place, kvmill_error *reason) {
    const DLTensor *tensors[4 + KVMILL_MOST_CAPTURES] = {
        &scene->input, &scene->indices, &scene->updates, in_place ? &scene->input : &scene->result};
    for (int i = 0; i < KVMILL_MOST_CAPTURES; i++)
        tensors[4 + i] = &scene->capture[i];
    if (pool_threads(pool) == 1)
        return kvmill_run(plan, tensors, NULL, reason);
    return kvmill_run_parallel(plan, tensors, NULL, pool_for, pool, reason);
}

/* Bytes that make numbers of moderate size of every type. */
static void fill_moderate(const DLTensor *tensor, int64_t bytes, uint64_t *state) {
    int bits = tensor->dtype.code == KVMILL_DL_BOOL ? 1 : tensor->dtype.bits;
    unsigned char mask = (unsigned char)(bits < 8 ? (1 << bits) - 1 : 0xff), *data = tensor->data;
    for (int64_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(0x3c + random_below(state, 4)) & mask;
}

void scatter_scene_fill(struct scatter_scene *scene) {
    uint64_t state = 2;
    fill_moderate(&scene->input, scene->input_bytes, &state);
    fill_moderate(&scene->updates, scene->update_bytes, &state);
}

/* Results stay zeros, however often a region is applied: no sums that overflow. */
void scatter_scene_clear(struct scatter_scene *scene) {
    memset(scene->input.data, 0, (size_t)scene->input_bytes);
    memset(scene->updates.data, 0, (size_t)scene->update_bytes);
}

static bool is_touched(const unsigned char *line, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i++)
        if (line[i] != 0)
            return true;
    return false;
}

static void find_lines(struct scatter_scene *scene) {
    scene->line_count = 0;
    for (int64_t at = 0; at + LINE <= scene->input_bytes; at += LINE)
        if (is_touched((unsigned char *)scene->input.data + at, LINE))
            scene->lines[scene->line_count++] = at;
}

/* Zeros that ones replace. */
static bool set_lines(struct scatter_scene *scene, struct pool *pool, struct error *error) {
    const kvmill_plan_options options = {.struct_size = sizeof options};
    kvmill_scatter op = scene->view.op;
    kvmill_plan *plan;
    kvmill_error reason;
    op.region = NULL;
    op.update_computation = "replace";
    if (kvmill_plan_scatter(&op, &options, &plan, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s", reason.message);
    memset(scene->input.data, 0, (size_t)scene->input_bytes);
    memset(scene->updates.data, 0xff, (size_t)scene->update_bytes);
    bool done = scatter_scene_run(scene, plan, pool, true, &reason) == KVMILL_OK ||
                fail(error, EXIT_BUG, "%s", reason.message);
    kvmill_plan_destroy(plan);
    find_lines(scene);
    scatter_scene_clear(scene);
    return done;
}

bool scatter_scene_aim(struct scatter_scene *scene, bool runs, struct pool *pool,
                       struct error *error) {
    if (scene->index_bytes > 0 && scene->windows.components > 0)
        fill_indices(scene, runs);
    return set_lines(scene, pool, error);
}

/* ---- Opening ---- */

static int64_t lines_bytes(const struct scatter_scene *scene) {
    return (scene->input_bytes / LINE + 1) * (int64_t)sizeof *scene->lines;
}

void scatter_scene_close(struct scatter_scene *scene) {
    kvmill_plan_destroy(scene->plan);
    bench_memory_release(scene->input.data, scene->input_bytes);
    bench_memory_release(scene->result.data, scene->input_bytes);
    bench_memory_release(scene->updates.data, scene->update_bytes);
    bench_memory_release(scene->indices.data, scene->index_bytes);
    bench_memory_release(scene->lines, lines_bytes(scene));
}

static void set_captures(struct scatter_scene *scene, const struct kvmill_program *program) {
    uint64_t state = 3;
    for (int i = 0; i < KVMILL_MOST_CAPTURES; i++) {
        scene->capture[i] = (DLTensor){.data = scene->captured[i],
                                       .device = {kDLCPU, 0},
                                       .dtype = kvmill_program_capture(program, i).dtype};
        fill_moderate(&scene->capture[i], sizeof scene->captured[i], &state);
    }
}

static bool open_memory(struct scatter_scene *scene, struct error *error) {
    scene->input.data = bench_memory_get(scene->input_bytes);
    scene->result.data = bench_memory_get(scene->input_bytes);
    scene->updates.data = bench_memory_get(scene->update_bytes);
    scene->indices.data = bench_memory_get(scene->index_bytes);
    scene->lines = bench_memory_get(lines_bytes(scene));
    if (scene->input.data && scene->result.data && scene->updates.data && scene->indices.data &&
        scene->lines)
        return memset(scene->result.data, 2, (size_t)scene->input_bytes) != NULL;
    return fail(error, EXIT_ENVIRONMENT, "not enough memory for two tensors of %" PRId64 " MiB",
                scene->input_bytes >> 20);
}

bool scatter_scene_plan(const struct scatter_scene *scene, const kvmill_plan_options *options,
                        kvmill_plan **plan, struct error *error) {
    kvmill_error reason;
    return kvmill_plan_scatter(&scene->view.op, options, plan, &reason) == KVMILL_OK ||
           fail(error, EXIT_BUG, "%s", reason.message);
}

bool scatter_scene_open(struct scatter_scene *scene, const struct spec *spec,
                        const kvmill_pack *pack, struct error *error) {
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = 1};
    kvmill_error reason;
    struct kvmill_program program;
    *scene = (struct scatter_scene){.plan = NULL};
    scatter_view_make(spec->window_scatter, &scene->view);
    if (kvmill_scatter_check(&scene->view.op, &scene->windows, &program, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s: %s", spec->where, reason.message);
    scene->input = scene->result = scene->view.inputs[0];
    scene->updates = scene->view.updates[0];
    scene->indices = scene->view.scatter_indices;
    set_captures(scene, &program);
    scene->input_bytes = dense_bytes(&scene->input);
    scene->update_bytes = dense_bytes(&scene->updates);
    scene->index_bytes = dense_bytes(&scene->indices);
    return open_memory(scene, error) && scatter_scene_plan(scene, &options, &scene->plan, error);
}

/* ---- What the memory has to do ---- */

struct toucher {
    struct scatter_scene *scene;
    int64_t threads;
};

/* A share of the lines is read and written. */
static void touch_lines(void *context, int64_t index) {
    const struct toucher *toucher = context;
    const struct scatter_scene *scene = toucher->scene;
    int64_t last = scene->line_count * (index + 1) / toucher->threads;
    for (int64_t i = scene->line_count * index / toucher->threads; i < last; i++) {
        kvmill_word64 *line = (void *)((char *)scene->input.data + scene->lines[i]);
        *line += 1;
    }
}

void scatter_scene_touch(struct scatter_scene *scene, struct pool *pool, bool in_place) {
    struct toucher toucher = {scene, pool_threads(pool)};
    const struct reading reading = {scene->updates.data, (size_t)scene->update_bytes, 4, pool};
    const struct copy copy = {scene->result.data, scene->input.data, (size_t)scene->input_bytes,
                              pool};
    if (!in_place)
        limit_nontemporal_pages(&copy);
    limit_read(&reading);
    pool_for(pool, toucher.threads, touch_lines, &toucher);
}

double scatter_scene_bytes(const struct scatter_scene *scene, bool in_place) {
    return (double)scene->update_bytes + 2.0 * LINE * (double)scene->line_count +
           (in_place ? 0 : 2.0 * (double)scene->input_bytes);
}
