/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_scatter.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../gen/stablehlo.h"
#include "../ops/scatter_shape.h"
#include "../tune/pool.h"
#include "../tune/random.h"
#include "../tune/timer.h"
#include "limits.h"
#include "memory.h"

static const double seconds_per_case = 2.0;
static const double memory_bar = 0.9, scaling_bar = 1.8;

/* Below this, threads cost more than they gain. */
static const int64_t large_bytes = 4 << 20;

enum { LINE = 64, MEAN_RUN = 40 };

/* ---- One spec, and memory for it ---- */

struct scene {
    struct scatter_view view;
    struct kvmill_windows windows;
    DLTensor input, indices, updates, result;
    int64_t input_bytes, index_bytes, update_bytes;
    int64_t *lines; /* of the input, those that updates touch */
    int64_t line_count;
    kvmill_plan *plan;
};

/* A scene by the threads of a pool. */
struct team {
    struct scene *scene;
    struct pool *pool;
    bool in_place;
};

static int64_t bytes_of(const DLTensor *tensor) {
    int64_t bytes = kvmill_element_bytes(tensor->dtype);
    for (int d = 0; d < tensor->ndim; d++)
        bytes *= tensor->shape[d];
    return bytes;
}

/* ---- Indices ---- */

static int64_t largest_of(DLDataType type) {
    int bits = type.code == kDLInt ? type.bits - 1 : type.bits;
    return bits >= 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
}

/* Starts that each component may have. */
static void set_starts(const struct scene *scene, int64_t *starts) {
    const struct kvmill_windows *windows = &scene->windows;
    int64_t most = largest_of(scene->indices.dtype);
    for (int d = 0; d < windows->rank; d++) {
        int64_t last = windows->dim[d] - windows->window[d];
        if (windows->component[d] != KVMILL_NOT_THERE)
            starts[windows->component[d]] = (last < most ? last : most) + 1;
    }
}

/* Elements of the indices from one component of a vector to the next. */
static int64_t component_step(const struct scene *scene) {
    int64_t step = 1;
    for (int d = scene->windows.vector_axis + 1;
         scene->windows.vector_axis != KVMILL_NOT_THERE && d < scene->indices.ndim; d++)
        step *= scene->indices.shape[d];
    return step;
}

/* Slices of about 40 windows side by side (runs), or any order. */
static void fill_indices(struct scene *scene, bool runs) {
    int64_t starts[KVMILL_MOST_RANK] = {1}, step = component_step(scene), value = 0;
    int64_t each = kvmill_element_bytes(scene->indices.dtype);
    uint64_t state = 1;
    set_starts(scene, starts);
    for (int64_t i = 0; i < scene->index_bytes / each; i++) {
        int64_t start = starts[i / step % scene->windows.components];
        bool goes_on = runs && random_below(&state, MEAN_RUN) > 0;
        value = goes_on ? (value + 1) % start : (int64_t)random_below(&state, (uint64_t)start);
        memcpy((char *)scene->indices.data + i * each, &value, (size_t)each);
    }
}

/* ---- What updates touch ---- */

static kvmill_status scatter(const struct team *team, kvmill_error *reason) {
    const struct scene *scene = team->scene;
    const DLTensor *tensors[] = {&scene->input, &scene->indices, &scene->updates,
                                 team->in_place ? &scene->input : &scene->result};
    if (pool_threads(team->pool) == 1)
        return kvmill_run(scene->plan, tensors, NULL, reason);
    return kvmill_run_parallel(scene->plan, tensors, NULL, pool_for, team->pool, reason);
}

/* Inputs and updates of bytes that every combiner makes another byte of. */
static void fill_tensors(struct scene *scene, int combiner) {
    bool to_zero = combiner == KVMILL_COMBINE_MULTIPLY || combiner == KVMILL_COMBINE_MINIMUM ||
                   combiner == KVMILL_COMBINE_AND;
    memset(scene->input.data, to_zero, (size_t)scene->input_bytes);
    memset(scene->updates.data, !to_zero, (size_t)scene->update_bytes);
}

static bool is_touched(const unsigned char *line, int64_t bytes, unsigned char before) {
    for (int64_t i = 0; i < bytes; i++)
        if (line[i] != before)
            return true;
    return false;
}

static void find_lines(struct scene *scene, unsigned char before) {
    scene->line_count = 0;
    for (int64_t at = 0; at < scene->input_bytes; at += LINE) {
        int64_t bytes = scene->input_bytes - at < LINE ? scene->input_bytes - at : LINE;
        if (is_touched((unsigned char *)scene->input.data + at, bytes, before) && bytes == LINE)
            scene->lines[scene->line_count++] = at;
    }
}

static bool set_lines(struct scene *scene, struct pool *pool, struct error *error) {
    const struct team team = {scene, pool, true};
    struct kvmill_scatter_shape shape;
    struct kvmill_program program;
    kvmill_error reason;
    if (kvmill_scatter_check(&scene->view.op, &scene->windows, &program, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s", reason.message);
    kvmill_scatter_shape_of(&scene->view.op, &scene->windows, &program, 0, &shape);
    fill_tensors(scene, shape.combiner);
    unsigned char before = *(unsigned char *)scene->input.data;
    if (scatter(&team, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s", reason.message);
    find_lines(scene, before);
    return true;
}

/* ---- The scene ---- */

static int64_t lines_bytes(const struct scene *scene) {
    return (scene->input_bytes / LINE + 1) * (int64_t)sizeof *scene->lines;
}

static void close_scene(struct scene *scene) {
    kvmill_plan_destroy(scene->plan);
    bench_memory_release(scene->input.data, scene->input_bytes);
    bench_memory_release(scene->result.data, scene->input_bytes);
    bench_memory_release(scene->updates.data, scene->update_bytes);
    bench_memory_release(scene->indices.data, scene->index_bytes);
    bench_memory_release(scene->lines, lines_bytes(scene));
}

static bool open_memory(struct scene *scene, struct error *error) {
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

static bool open_plan(struct scene *scene, const kvmill_pack *pack, struct error *error) {
    kvmill_error reason;
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = 1};
    return kvmill_plan_scatter(&scene->view.op, &options, &scene->plan, &reason) == KVMILL_OK ||
           fail(error, EXIT_BUG, "%s", reason.message);
}

static bool open_scene(struct scene *scene, const struct spec *spec, const kvmill_pack *pack,
                       struct error *error) {
    kvmill_error reason;
    struct kvmill_program program;
    scatter_view_make(spec->window_scatter, &scene->view);
    if (kvmill_scatter_check(&scene->view.op, &scene->windows, &program, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s: %s", spec->where, reason.message);
    scene->input = scene->result = scene->view.inputs[0];
    scene->updates = scene->view.updates[0];
    scene->indices = scene->view.scatter_indices;
    scene->input_bytes = bytes_of(&scene->input);
    scene->update_bytes = bytes_of(&scene->updates);
    scene->index_bytes = bytes_of(&scene->indices);
    return open_memory(scene, error) && open_plan(scene, pack, error);
}

/* ---- Contenders ---- */

static void run_scatter(void *context, int64_t k) {
    (void)k;
    scatter(context, NULL);
}

/* A share of the lines is read and written. */
static void touch_lines(void *context, int64_t index) {
    const struct team *team = context;
    const struct scene *scene = team->scene;
    int64_t threads = pool_threads(team->pool);
    int64_t last = scene->line_count * (index + 1) / threads;
    for (int64_t i = scene->line_count * index / threads; i < last; i++) {
        kvmill_word64 *line = (void *)((char *)scene->input.data + scene->lines[i]);
        *line += 1;
    }
}

static void run_memory(void *context, int64_t k) {
    const struct team *team = context;
    const struct scene *scene = team->scene;
    const struct reading reading = {scene->updates.data, (size_t)scene->update_bytes, 4,
                                    team->pool};
    const struct copy copy = {scene->result.data, scene->input.data, (size_t)scene->input_bytes,
                              team->pool};
    (void)k;
    if (!team->in_place)
        limit_nontemporal_pages(&copy);
    limit_read(&reading);
    pool_for(team->pool, pool_threads(team->pool), touch_lines, context);
}

/* ---- Results ---- */

/* Read: updates; read and written: what they touch, and in a functional run all that is copied. */
static double moved_bytes(const struct team *team) {
    const struct scene *scene = team->scene;
    return (double)scene->update_bytes + 2.0 * LINE * (double)scene->line_count +
           (team->in_place ? 0 : 2.0 * (double)scene->input_bytes);
}

static struct bench_result *add_result(struct bench_results *results, const struct spec *spec,
                                       const char *order, const struct team *team,
                                       const struct contender *contender) {
    struct bench_result *result = bench_results_add(results);
    snprintf(result->what, sizeof result->what, "%.60s, %s, %s",
             spec->purpose[0] ? spec->purpose : spec->op->name, order,
             team->in_place ? "in place" : "functional");
    bench_kernel_in_plan(team->scene->plan, "apply with ", result->kernel);
    result->threads = pool_threads(team->pool);
    result->seconds = contender->median;
    result->bytes = moved_bytes(team);
    return result;
}

static void compare(struct bench_result *result, const char *limit, double seconds, double bar) {
    result->limit = limit;
    result->limit_seconds = seconds;
    result->bar = bar;
}

static void race(struct team *teams, int count, const struct spec *spec, const char *order,
                 struct bench_results *results) {
    struct contender runs[4];
    bool large = teams[0].scene->update_bytes >= large_bytes;
    for (int t = 0; t < count; t++) {
        runs[2 * t] = (struct contender){
            .name = "kvmill", .run = run_scatter, .context = &teams[t], .pool = teams[t].pool};
        runs[2 * t + 1] = (struct contender){
            .name = "memory", .run = run_memory, .context = &teams[t], .pool = teams[t].pool};
    }
    timer_race(runs, 2 * count, seconds_per_case);
    for (int t = 0; t < count; t++)
        compare(add_result(results, spec, order, &teams[t], &runs[2 * t]), "memory",
                runs[2 * t + 1].median, large ? memory_bar : 0);
    if (count > 1 && large)
        compare(add_result(results, spec, order, &teams[1], &runs[2]), "one thread", runs[0].median,
                pool_threads(teams[1].pool) == 2 ? scaling_bar : 0);
}

/* ---- The cases ---- */

static bool race_order(struct scene *scene, struct pool *const pools[2], int count, bool runs,
                       const struct spec *spec, struct bench_results *results,
                       struct error *error) {
    if (scene->index_bytes > 0 && scene->windows.components > 0)
        fill_indices(scene, runs);
    if (!set_lines(scene, pools[0], error))
        return false;
    for (int in_place = 0; in_place < 2; in_place++) {
        struct team teams[] = {{scene, pools[0], in_place}, {scene, pools[1], in_place}};
        race(teams, count, spec, runs ? "slices" : "any order", results);
    }
    return true;
}

static bool race_scene(struct scene *scene, int threads, const struct spec *spec,
                       struct bench_results *results, struct error *error) {
    struct pool *const pools[] = {pool_open(1), pool_open(threads)};
    int count = threads > 1 ? 2 : 1;
    bool done = (pools[0] != NULL && pools[1] != NULL) || out_of_memory(error);
    done = done && race_order(scene, pools, count, false, spec, results, error) &&
           race_order(scene, pools, count, true, spec, results, error);
    pool_close(pools[0]);
    pool_close(pools[1]);
    return done;
}

bool bench_scatter(const struct spec *spec, const kvmill_pack *pack, int threads,
                   struct bench_results *results, struct error *error) {
    struct scene scene = {.line_count = 0};
    if (spec->window_scatter->count != 1 || !spec->window_scatter->update_computation[0]) {
        fprintf(stderr, "%s: not timed: its region is more than one combiner\n", spec->where);
        return true;
    }
    bool done = open_scene(&scene, spec, pack, error);
    if (done && (scene.input_bytes == 0 || scene.update_bytes == 0))
        fprintf(stderr, "%s: not timed: it updates nothing\n", spec->where);
    else
        done = done && race_scene(&scene, threads, spec, results, error);
    close_scene(&scene);
    return done;
}
