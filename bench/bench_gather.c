/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_gather.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../gen/stablehlo.h"
#include "../ops/element.h"
#include "../ops/gather.h"
#include "../tune/pool.h"
#include "../tune/random.h"
#include "../tune/timer.h"
#include "limits.h"
#include "memory.h"

static const double seconds_per_case = 2.0;

/* Calls take turns with so many sets of indices, which name more bytes together than caches hold.
 */
static const int64_t rotation_bytes = 1 << 30;
enum { MOST_SETS = 1 << 16 };

/* A call of fewer bytes is held against copying them and what a call may cost; a larger one against
   copying alone, and two threads against one.  Copying is no bar for windows that are shorter. */
static const int64_t small_bytes = 1 << 20, long_window = 1 << 10;
static const double call_seconds = 1e-6, large_bar = 0.9, scaling_bar = 1.8;

/* ---- One spec, and memory for it ---- */

struct scene {
    struct gather_view view;
    struct kvmill_windows windows;
    DLTensor operand, indices, result;
    int64_t result_dims[KVMILL_MOST_RANK];
    int64_t operand_bytes, index_bytes, result_bytes; /* of one set of indices */
    int64_t sets;
    unsigned char *index_memory;
    kvmill_plan *plan;
};

/* A scene by the threads of a pool. */
struct team {
    struct scene *scene;
    struct pool *pool;
};

static int64_t bytes_of(const DLTensor *tensor) {
    int64_t bytes = kvmill_element_bytes(tensor->dtype);
    for (int d = 0; d < tensor->ndim; d++)
        bytes *= tensor->shape[d];
    return bytes;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- Indices ---- */

static int64_t largest_of(DLDataType type) {
    int bits = type.code == kDLInt ? type.bits - 1 : type.bits;
    return bits >= 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
}

/* The most that each component may be. */
static void set_limits(const struct scene *scene, int64_t *limits) {
    const struct kvmill_windows *windows = &scene->windows;
    for (int d = 0; d < windows->rank; d++)
        if (windows->component[d] != KVMILL_NOT_THERE)
            limits[windows->component[d]] =
                smaller(windows->dim[d] - windows->window[d], largest_of(scene->indices.dtype));
}

/* Elements of the indices from one component of a vector to the next. */
static int64_t component_step(const struct scene *scene) {
    int64_t step = 1;
    if (scene->windows.vector_axis == KVMILL_NOT_THERE)
        return step;
    for (int d = scene->windows.vector_axis + 1; d < scene->indices.ndim; d++)
        step *= scene->indices.shape[d];
    return step;
}

static void fill_indices(struct scene *scene) {
    int64_t limits[KVMILL_MOST_RANK], step = component_step(scene);
    int64_t each = kvmill_element_bytes(scene->indices.dtype);
    uint64_t state = 1;
    set_limits(scene, limits);
    for (int64_t i = 0; i < scene->sets * scene->index_bytes / each; i++) {
        int64_t limit = limits[i / step % scene->windows.components];
        uint64_t index = random_below(&state, (uint64_t)limit + 1);
        memcpy(scene->index_memory + i * each, &index, (size_t)each);
    }
}

/* ---- The scene ---- */

static void close_scene(struct scene *scene) {
    kvmill_plan_destroy(scene->plan);
    bench_memory_release(scene->operand.data, scene->operand_bytes);
    bench_memory_release(scene->index_memory, scene->index_bytes * scene->sets);
    bench_memory_release(scene->result.data, scene->result_bytes);
}

static bool open_memory(struct scene *scene, struct error *error) {
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

static bool open_plan(struct scene *scene, const kvmill_pack *pack, struct error *error) {
    kvmill_error reason;
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = 1};
    return kvmill_plan_gather(&scene->view.op, &options, &scene->plan, &reason) == KVMILL_OK ||
           fail(error, EXIT_BUG, "%s", reason.message);
}

static bool open_scene(struct scene *scene, const struct spec *spec, const kvmill_pack *pack,
                       struct error *error) {
    kvmill_error reason;
    gather_view_make(spec->gather, &scene->view);
    if (kvmill_gather_check(&scene->view.op, &scene->windows, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s: %s", spec->where, reason.message);
    kvmill_gather_result(&scene->windows, scene->result_dims);
    scene->operand = scene->view.operand;
    scene->indices = scene->view.start_indices;
    scene->result = scene->operand;
    scene->result.ndim = scene->windows.windowed_rank;
    scene->result.shape = scene->result_dims;
    scene->operand_bytes = bytes_of(&scene->operand);
    scene->index_bytes = bytes_of(&scene->indices);
    scene->result_bytes = bytes_of(&scene->result);
    return scene->result_bytes == 0 || (open_memory(scene, error) && open_plan(scene, pack, error));
}

/* ---- Contenders ---- */

static kvmill_status gather(const struct team *team, int64_t k, kvmill_error *reason) {
    const struct scene *scene = team->scene;
    DLTensor indices = scene->indices;
    indices.data = scene->index_memory + k % scene->sets * scene->index_bytes;
    const DLTensor *tensors[] = {&scene->operand, &indices, &scene->result};
    if (pool_threads(team->pool) == 1)
        return kvmill_run(scene->plan, tensors, NULL, reason);
    return kvmill_run_parallel(scene->plan, tensors, NULL, pool_for, team->pool, reason);
}

static void run_gather(void *context, int64_t k) {
    gather(context, k, NULL);
}

/* As many bytes from another place in every call. */
static void run_memcpy(void *context, int64_t k) {
    const struct team *team = context;
    const struct scene *scene = team->scene;
    int64_t bytes = smaller(scene->operand_bytes, scene->result_bytes);
    int64_t places = scene->operand_bytes / bytes;
    const struct copy copy = {scene->result.data,
                              (const char *)scene->operand.data + k * 7919 % places * bytes,
                              (size_t)bytes, team->pool};
    limit_memcpy(&copy);
}

/* ---- Results ---- */

static struct bench_result *add_result(struct bench_results *results, const struct spec *spec,
                                       const struct team *team, const struct contender *contender) {
    struct bench_result *result = bench_results_add(results);
    snprintf(result->what, sizeof result->what, "%s, %" PRId64 " KiB",
             spec->purpose[0] ? spec->purpose : spec->op->name,
             (team->scene->result_bytes + 1023) >> 10);
    bench_kernel_in_plan(team->scene->plan, ": with ", result->kernel);
    result->threads = pool_threads(team->pool);
    result->seconds = contender->median;
    result->bytes = 2.0 * (double)team->scene->result_bytes;
    return result;
}

static void compare(struct bench_result *result, const char *limit, double seconds, double bar) {
    result->limit = limit;
    result->limit_seconds = seconds;
    result->bar = bar;
}

static bool has_bars(const struct scene *scene) {
    int64_t bytes = kvmill_element_bytes(scene->operand.dtype);
    for (int d = 0; d < scene->windows.rank; d++)
        bytes *= scene->windows.window[d];
    return bytes >= long_window;
}

static void add_results(struct bench_results *results, const struct spec *spec,
                        const struct team *teams, int count, const struct contender *race) {
    bool small = teams->scene->result_bytes < small_bytes, bars = has_bars(teams->scene);
    for (int t = 0; t < count; t++) {
        double copy = race[2 * t + 1].median;
        struct bench_result *result = add_result(results, spec, &teams[t], &race[2 * t]);
        if (small)
            compare(result, "1 us + memcpy", call_seconds + copy, bars && t == 0);
        else
            compare(result, "memcpy", copy, bars ? large_bar : 0);
    }
    if (count > 1 && !small)
        compare(add_result(results, spec, &teams[1], &race[2]), "one thread", race[0].median,
                bars && pool_threads(teams[1].pool) == 2 ? scaling_bar : 0);
}

/* ---- The race ---- */

static bool race_teams(struct team *teams, int count, const struct spec *spec,
                       struct bench_results *results, struct error *error) {
    struct contender race[4];
    kvmill_error reason;
    for (int t = 0; t < count; t++) {
        if (gather(&teams[t], 0, &reason) != KVMILL_OK)
            return fail(error, EXIT_BUG, "%s: %s", spec->where, reason.message);
        race[2 * t] = (struct contender){
            .name = "kvmill", .run = run_gather, .context = &teams[t], .pool = teams[t].pool};
        race[2 * t + 1] = (struct contender){
            .name = "memcpy", .run = run_memcpy, .context = &teams[t], .pool = teams[t].pool};
    }
    timer_race(race, 2 * count, seconds_per_case);
    add_results(results, spec, teams, count, race);
    return true;
}

static bool race_scene(struct scene *scene, int threads, const struct spec *spec,
                       struct bench_results *results, struct error *error) {
    struct team teams[] = {{scene, pool_open(1)}, {scene, pool_open(threads)}};
    bool done = (teams[0].pool != NULL && teams[1].pool != NULL) || out_of_memory(error);
    done = done && race_teams(teams, threads > 1 ? 2 : 1, spec, results, error);
    pool_close(teams[0].pool);
    pool_close(teams[1].pool);
    return done;
}

bool bench_gather(const struct spec *spec, const kvmill_pack *pack, int threads,
                  struct bench_results *results, struct error *error) {
    struct scene scene = {.sets = 0};
    bool done = open_scene(&scene, spec, pack, error);
    if (done && scene.result_bytes == 0)
        fprintf(stderr, "%s: not timed: its result is empty\n", spec->where);
    else
        done = done && race_scene(&scene, threads, spec, results, error);
    close_scene(&scene);
    return done;
}
