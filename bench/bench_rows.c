/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "../ops/dtype.h"
#include "../ops/tensor_scatter.h"
#include "../tune/threads.h"
#include "../tune/timer.h"
#include "limits.h"

static const double seconds_per_case = 1.0;
enum { DECODE_BATCH = 64, PREFILL_ROWS = 512 };
static const int64_t in_place_bytes = 512 << 20; /* more than the last-level cache */

/* ---- One case: a spec with all dims known, and memory for it ---- */

struct scene {
    DLTensor past, update, indices, present;
    struct kvmill_row_geometry geometry;
    int64_t row_bytes;
    int64_t *starts; /* the data of indices */
    kvmill_plan *plan;
    int threads;
    bool in_place;
};

static int64_t bytes_of(const DLTensor *tensor) {
    return kvmill_dtype_bytes(tensor->dtype, kvmill_element_count(tensor));
}

/* Touched, so that pages are there; NULL on failure. */
static void *get_memory(int64_t bytes, int fill) {
    void *memory = mmap(NULL, (size_t)bytes + 4096, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memset(memory, fill, (size_t)bytes + 4096);
}

static void release(DLTensor *tensor) {
    if (tensor->data != NULL)
        munmap(tensor->data, (size_t)bytes_of(tensor) + 4096);
    tensor->data = NULL;
}

static void close_scene(struct scene *scene) {
    kvmill_plan_destroy(scene->plan);
    if (!scene->in_place)
        release(&scene->present);
    release(&scene->past);
    release(&scene->update);
    release(&scene->indices);
}

static bool open_memory(struct scene *scene, struct error *error) {
    scene->past.data = get_memory(bytes_of(&scene->past), 1);
    scene->update.data = get_memory(bytes_of(&scene->update), 2);
    scene->present = scene->past;
    if (!scene->in_place)
        scene->present.data = get_memory(bytes_of(&scene->past), 3);
    scene->starts = scene->indices.data = get_memory(bytes_of(&scene->indices), 0);
    if (scene->past.data && scene->update.data && scene->present.data && scene->starts)
        return true;
    return fail(error, EXIT_ENVIRONMENT, "not enough memory for a cache of %" PRId64 " MiB",
                bytes_of(&scene->past) >> 20);
}

static bool open_plan(struct scene *scene, const char *mode, int64_t axis, const kvmill_pack *pack,
                      struct error *error) {
    kvmill_error reason;
    kvmill_plan_options options = {.struct_size = sizeof options, .packs = &pack, .pack_count = 1};
    kvmill_tensor_scatter op = {
        .struct_size = sizeof op,
        .axis = axis,
        .mode = mode,
        .past_cache = &scene->past,
        .update = &scene->update,
        .write_indices = &scene->indices,
    };
    if (kvmill_plan_tensor_scatter(&op, &options, &scene->plan, &reason) != KVMILL_OK ||
        kvmill_tensor_scatter_check(&op, &scene->geometry, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s", reason.message);
    scene->row_bytes = kvmill_dtype_bytes(scene->past.dtype, scene->geometry.row);
    return true;
}

/* Other slots for every call, so that a row is not in the cache because it was written just now. */
static void move_starts(struct scene *scene, int64_t k) {
    int64_t span = scene->geometry.capacity - scene->geometry.rows + 1;
    for (int64_t b = 0; b < scene->geometry.batch; b++)
        scene->starts[b] = (k * 7919 + b * 131) % span;
}

/* ---- Contenders ---- */

static void run_kvmill(void *context, int64_t k) {
    struct scene *scene = context;
    const DLTensor *tensors[] = {&scene->past, &scene->update, &scene->indices, &scene->present};
    move_starts(scene, k);
    if (scene->threads == 1)
        kvmill_run(scene->plan, tensors, NULL, NULL);
    else
        kvmill_run_parallel(scene->plan, tensors, NULL, threads_for, &scene->threads, NULL);
}

static void run_call(void *context, int64_t k) {
    struct scene *scene = context;
    const DLTensor *tensors[] = {&scene->past, &scene->update, &scene->indices, &scene->present};
    (void)k;
    kvmill_run(scene->plan, tensors, NULL, NULL);
}

static void run_memcpy_row(void *context, int64_t k) {
    struct scene *scene = context;
    (void)k;
    memcpy(scene->present.data, scene->update.data, (size_t)scene->row_bytes);
}

/* A loop of memcpy calls over the same runs of rows. */
static void run_memcpy_rows(void *context, int64_t k) {
    struct scene *scene = context;
    const struct kvmill_row_geometry *g = &scene->geometry;
    int64_t run = g->rows * scene->row_bytes;
    move_starts(scene, k);
    for (int64_t slab = 0; slab < g->batch * g->heads; slab++)
        memcpy((char *)scene->present.data +
                   (slab * g->capacity + scene->starts[slab / g->heads]) * scene->row_bytes,
               (char *)scene->update.data + slab * run, (size_t)run);
}

static struct copy copy_of(const struct scene *scene) {
    return (struct copy){scene->present.data, scene->past.data, (size_t)bytes_of(&scene->past),
                         scene->threads};
}

static void run_memcpy(void *context, int64_t k) {
    struct copy copy = copy_of(context);
    (void)k;
    limit_memcpy(&copy);
}

static void run_nontemporal(void *context, int64_t k) {
    struct copy copy = copy_of(context);
    (void)k;
    limit_nontemporal(&copy);
}

static void run_nontemporal_pages(void *context, int64_t k) {
    struct copy copy = copy_of(context);
    (void)k;
    limit_nontemporal_pages(&copy);
}

/* ---- Results ---- */

/* The name of the kernel behind `word` in the plan's description. */
static void kernel_in_plan(const kvmill_plan *plan, const char *word, char kernel[SYMBOL_SIZE]) {
    char text[1024];
    kvmill_plan_describe(plan, text, sizeof text);
    const char *at = strstr(text, word);
    at = at ? at + strlen(word) : "";
    snprintf(kernel, SYMBOL_SIZE, "%.*s", (int)strcspn(at, " "), at);
}

static void add_result(struct bench_results *results, const struct scene *scene, const char *what,
                       const struct contender *race, int count, double bytes) {
    struct bench_result *result = &results->items[results->count];
    int best = 1;
    results->count += results->count + 1 < MOST_RESULTS;
    for (int i = 2; i < count; i++)
        if (race[i].median < race[best].median)
            best = i;
    snprintf(result->what, sizeof result->what, "%s", what);
    kernel_in_plan(scene->plan, scene->in_place ? "store with " : "keep with ", result->kernel);
    result->threads = scene->threads;
    result->seconds = race[0].median;
    result->bytes = bytes;
    result->limit = race[best].name;
    result->limit_seconds = race[best].median;
}

static double moved_bytes(const struct scene *scene) {
    const struct kvmill_row_geometry *g = &scene->geometry;
    int64_t rows = scene->in_place ? g->rows : g->capacity;
    return 2.0 * (double)(g->batch * g->heads * rows * scene->row_bytes);
}

static void race_in_place(struct scene *scene, const char *what, struct bench_results *results) {
    struct contender race[] = {{.name = "kvmill", .run = run_kvmill, .context = scene},
                               {.name = "memcpy loop", .run = run_memcpy_rows, .context = scene}};
    timer_race(race, 2, seconds_per_case);
    add_result(results, scene, what, race, 2, moved_bytes(scene));
}

static void race_call(struct scene *scene, struct bench_results *results) {
    struct contender race[] = {{.name = "kvmill", .run = run_call, .context = scene},
                               {.name = "memcpy", .run = run_memcpy_row, .context = scene}};
    char what[96];
    snprintf(what, sizeof what, "one call of kvmill_run, one row of %" PRId64 " bytes",
             scene->row_bytes);
    timer_race(race, 2, seconds_per_case);
    add_result(results, scene, what, race, 2, moved_bytes(scene));
}

static void race_functional(struct scene *scene, const char *what, struct bench_results *results) {
    struct contender race[] = {
        {.name = "kvmill", .run = run_kvmill, .context = scene},
        {.name = "memcpy", .run = run_memcpy, .context = scene},
        {.name = "nontemporal", .run = run_nontemporal, .context = scene},
        {.name = "nontemporal x4", .run = run_nontemporal_pages, .context = scene}};
    timer_race(race, 4, 2 * seconds_per_case);
    add_result(results, scene, what, race, 4, moved_bytes(scene));
}

/* ---- Cases ---- */

enum { MOST_RANK = 16 };

/* Dims that the spec leaves open: the batch, then rows, then a capacity that makes the cache
   `bytes` large. */
static void fill_dims(const struct spec *spec, int64_t batch, int64_t bytes, int64_t *past,
                      int64_t *update) {
    const DLTensor *cache = &spec->scatter.past_cache, *rows = &spec->scatter.update;
    int rank = cache->ndim, axis = (int)(spec->scatter.axis + (spec->scatter.axis < 0 ? rank : 0));
    int64_t others = 1;
    for (int d = 0; d < rank; d++) {
        past[d] = cache->shape[d] >= 0 ? cache->shape[d] : d == 0 ? batch : 1;
        others *= d == axis ? 1 : past[d];
    }
    if (cache->shape[axis] < 0)
        past[axis] = bytes / kvmill_dtype_bytes(cache->dtype, others);
    memcpy(update, past, (size_t)rank * sizeof *past);
    update[axis] = rows->shape[axis] >= 0 ? rows->shape[axis] : PREFILL_ROWS;
    if (update[axis] > past[axis])
        update[axis] = past[axis];
}

struct shape_memory {
    int64_t past[MOST_RANK], update[MOST_RANK], indices[1];
};

static bool open_scene(struct scene *scene, struct shape_memory *dims, const struct spec *spec,
                       const kvmill_pack *pack, struct error *error) {
    int rank = spec->scatter.past_cache.ndim;
    DLTensor model = {.device = {kDLCPU, 0}, .ndim = rank, .dtype = spec->scatter.dtype};
    scene->past = scene->update = scene->indices = model;
    scene->past.shape = dims->past;
    scene->update.shape = dims->update;
    dims->indices[0] = dims->past[0];
    scene->indices.ndim = 1;
    scene->indices.dtype = (DLDataType){kDLInt, 64, 1};
    scene->indices.shape = dims->indices;
    return open_memory(scene, error) &&
           open_plan(scene, spec->scatter.mode, spec->scatter.axis, pack, error);
}

static const char *purpose_of(const struct spec *spec) {
    return spec->purpose[0] ? spec->purpose : "TensorScatter";
}

static bool bench_in_place(const struct spec *spec, const kvmill_pack *pack,
                           struct bench_results *results, struct error *error) {
    struct scene scene = {.threads = 1, .in_place = true};
    struct shape_memory dims;
    char what[96];
    int axis = spec->scatter.past_cache.ndim + (int)spec->scatter.axis;
    bool decode = spec->scatter.axis < 0 && spec->scatter.update.shape[axis] == 1;
    fill_dims(spec, decode ? DECODE_BATCH : 1, in_place_bytes, dims.past, dims.update);
    bool done = open_scene(&scene, &dims, spec, pack, error);
    if (done) {
        snprintf(what, sizeof what, "%s, in place, batch %" PRId64 ", %" PRId64 " rows",
                 purpose_of(spec), scene.geometry.batch, scene.geometry.rows);
        race_in_place(&scene, what, results);
    }
    close_scene(&scene);
    return done;
}

static bool bench_functional(const struct spec *spec, const kvmill_pack *pack, int64_t mebibytes,
                             int threads, struct bench_results *results, struct error *error) {
    struct scene scene = {.threads = threads};
    struct shape_memory dims;
    char what[96];
    fill_dims(spec, 8, mebibytes << 20, dims.past, dims.update);
    bool done = open_scene(&scene, &dims, spec, pack, error);
    if (done) {
        snprintf(what, sizeof what, "%s, functional, %" PRId64 " MiB", purpose_of(spec),
                 bytes_of(&scene.past) >> 20);
        race_functional(&scene, what, results);
    }
    close_scene(&scene);
    return done;
}

bool bench_rows(const struct spec *spec, const kvmill_pack *pack, int threads,
                struct bench_results *results, struct error *error) {
    int axis = spec->scatter.past_cache.ndim + (int)spec->scatter.axis;
    bool decode = spec->scatter.axis < 0 && spec->scatter.update.shape[axis] == 1;
    if (spec->scatter.past_cache.ndim > MOST_RANK)
        return true;
    if (!bench_in_place(spec, pack, results, error))
        return false;
    for (int64_t size = 64; decode && size <= 1024; size *= 16)
        for (int n = 1; n <= threads; n += threads > 1 ? threads - 1 : 1)
            if (!bench_functional(spec, pack, size, n, results, error))
                return false;
    return true;
}

bool bench_call(const struct spec *spec, const kvmill_pack *pack, struct bench_results *results,
                struct error *error) {
    struct shape_memory dims;
    struct scene scene = {.threads = 1, .in_place = true};
    fill_dims(spec, 1, 1024, dims.past, dims.update);
    bool done = open_scene(&scene, &dims, spec, pack, error);
    if (done)
        race_call(&scene, results);
    close_scene(&scene);
    return done;
}
