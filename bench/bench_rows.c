/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/dtype.h"
#include "../ops/tensor_scatter.h"
#include "../tune/pool.h"
#include "../tune/timer.h"
#include "limits.h"
#include "memory.h"

static const double seconds_per_case = 1.0;
enum { DECODE_BATCH = 64, FUNCTIONAL_BATCH = 8, PREFILL_ROWS = 512 };
static const int64_t in_place_bytes = 512 << 20; /* more than the last-level cache */

/* ---- One case: a spec with all dims known, and memory for it ---- */

struct scene {
    DLTensor past, update, indices, present;
    struct kvmill_row_geometry geometry;
    int64_t *starts; /* the data of indices */
    kvmill_plan *plan;
    int threads;
    struct pool *pool;
    bool in_place;
};

static int64_t bytes_of(const DLTensor *tensor) {
    return kvmill_dtype_bytes(tensor->dtype, kvmill_element_count(tensor));
}

/* As much as the tensor says; NULL on failure. */
static void *get_memory(const DLTensor *tensor, int fill) {
    void *memory = bench_memory_get(bytes_of(tensor));
    return memory == NULL ? NULL : memset(memory, fill, (size_t)bytes_of(tensor));
}

static void release(DLTensor *tensor) {
    bench_memory_release(tensor->data, bytes_of(tensor));
    tensor->data = NULL;
}

static void close_scene(struct scene *scene) {
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

static bool open_memory(struct scene *scene, struct error *error) {
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
    return true;
}

/* Where an element begins; of an odd 4-bit one, the byte that it shares. */
static int64_t byte_offset(const struct scene *scene, int64_t element) {
    return element * kvmill_dtype_bits(scene->past.dtype) / 8;
}

/* Other slots for every call, so that a row is not in the cache because it was written just now. */
static void move_starts(struct scene *scene, int64_t k) {
    int64_t span = scene->geometry.capacity - scene->geometry.rows + 1;
    for (int64_t b = 0; b < scene->geometry.batch; b++)
        scene->starts[b] = (k * 7919 + b * 131) % span;
}

/* ---- Contenders ---- */

static kvmill_status run_scene(struct scene *scene, kvmill_error *reason) {
    const DLTensor *tensors[] = {&scene->past, &scene->update, &scene->indices, &scene->present};
    if (scene->threads == 1)
        return kvmill_run(scene->plan, tensors, NULL, reason);
    return kvmill_run_parallel(scene->plan, tensors, NULL, pool_for, scene->pool, reason);
}

/* Before every race: what fails is quick, and must not win it. */
static bool check_run(struct scene *scene, const char *what, struct error *error) {
    kvmill_error reason;
    kvmill_status status = run_scene(scene, &reason);
    return status == KVMILL_OK ||
           fail(error, EXIT_BUG, "%s: %s: %s", what, kvmill_status_name(status), reason.message);
}

static void run_kvmill(void *context, int64_t k) {
    struct scene *scene = context;
    move_starts(scene, k);
    run_scene(scene, NULL);
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
    memcpy(scene->present.data, scene->update.data, (size_t)bytes_of(&scene->update));
}

/* A loop of memcpy calls over the same runs of rows; those of odd nibbles lose half a byte. */
static void run_memcpy_rows(void *context, int64_t k) {
    struct scene *scene = context;
    const struct kvmill_row_geometry *g = &scene->geometry;
    int64_t run = g->rows * g->row;
    size_t bytes = (size_t)kvmill_dtype_bytes(scene->past.dtype, run);
    move_starts(scene, k);
    for (int64_t slab = 0; slab < g->batch * g->heads; slab++) {
        int64_t slot = slab * g->capacity + scene->starts[slab / g->heads];
        memcpy((char *)scene->present.data + byte_offset(scene, slot * g->row),
               (char *)scene->update.data + byte_offset(scene, slab * run), bytes);
    }
}

static struct copy copy_of(const struct scene *scene) {
    return (struct copy){scene->present.data, scene->past.data, (size_t)bytes_of(&scene->past),
                         scene->pool};
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

static void add_result(struct bench_results *results, const struct scene *scene, const char *what,
                       const struct contender *race, int count, double bytes) {
    struct bench_result *result = bench_results_add(results);
    int best = 1;
    for (int i = 2; i < count; i++)
        if (race[i].median < race[best].median)
            best = i;
    snprintf(result->what, sizeof result->what, "%s", what);
    bench_kernel_in_plan(scene->plan, scene->in_place ? "store with " : "keep with ",
                         result->kernel);
    result->threads = scene->threads;
    result->seconds = race[0].median;
    result->bytes = bytes;
    result->limit = race[best].name;
    result->limit_seconds = race[best].median;
}

static double moved_bytes(const struct scene *scene) {
    return 2.0 * (double)bytes_of(scene->in_place ? &scene->update : &scene->past);
}

static bool race_in_place(struct scene *scene, const char *what, struct bench_results *results,
                          struct error *error) {
    struct contender race[] = {
        {.name = "kvmill", .run = run_kvmill, .context = scene, .pool = scene->pool},
        {.name = "memcpy loop", .run = run_memcpy_rows, .context = scene, .pool = scene->pool}};
    if (!check_run(scene, what, error))
        return false;
    timer_race(race, 2, seconds_per_case);
    add_result(results, scene, what, race, 2, moved_bytes(scene));
    return true;
}

static bool race_call(struct scene *scene, struct bench_results *results, struct error *error) {
    struct contender race[] = {
        {.name = "kvmill", .run = run_call, .context = scene, .pool = scene->pool},
        {.name = "memcpy", .run = run_memcpy_row, .context = scene, .pool = scene->pool}};
    char what[96];
    snprintf(what, sizeof what, "one call of kvmill_run, one row of %" PRId64 " bytes",
             bytes_of(&scene->update));
    if (!check_run(scene, what, error))
        return false;
    timer_race(race, 2, seconds_per_case);
    add_result(results, scene, what, race, 2, moved_bytes(scene));
    return true;
}

static bool race_functional(struct scene *scene, const char *what, struct bench_results *results,
                            struct error *error) {
    struct contender race[] = {
        {.name = "kvmill", .run = run_kvmill, .context = scene, .pool = scene->pool},
        {.name = "memcpy", .run = run_memcpy, .context = scene, .pool = scene->pool},
        {.name = "nontemporal", .run = run_nontemporal, .context = scene, .pool = scene->pool},
        {.name = "nontemporal x4",
         .run = run_nontemporal_pages,
         .context = scene,
         .pool = scene->pool}};
    if (!check_run(scene, what, error))
        return false;
    timer_race(race, 4, 2 * seconds_per_case);
    add_result(results, scene, what, race, 4, moved_bytes(scene));
    return true;
}

/* ---- Cases ---- */

/* A spec with what it folds to, and a size for what it leaves open. */
struct bench_case {
    const struct spec *spec;
    struct kvmill_row_geometry geometry; /* of the spec: counts may be KVMILL_DYNAMIC */
    int64_t batch, slots, rows;
};

static bool open_case(struct bench_case *each, const struct spec *spec, struct error *error) {
    kvmill_error reason;
    kvmill_tensor_scatter op = scatter_op_of(spec);
    *each = (struct bench_case){.spec = spec};
    if (kvmill_tensor_scatter_check(&op, &each->geometry, &reason) == KVMILL_OK)
        return true;
    return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
}

static bool is_decode(const struct bench_case *each) {
    return each->geometry.rows == 1;
}

/* A dim that one of the tensors fixes is not open. */
static int64_t dim_of(const struct bench_case *each, int d) {
    int64_t past = each->spec->scatter.past_cache.shape[d];
    int64_t dim = past >= 0 ? past : each->spec->scatter.update.shape[d];
    return dim >= 0 ? dim : d == 0 ? each->batch : 1;
}

/* Elements of all dims but the axis. */
static bool count_others(const struct bench_case *each, int64_t *count) {
    *count = 1;
    for (int d = 0; d < each->spec->scatter.past_cache.ndim; d++)
        if (d != each->geometry.axis && __builtin_mul_overflow(*count, dim_of(each, d), count))
            return false;
    return *count > 0;
}

/* Open dims: the batch, then a capacity that makes the cache `bytes` large and holds a row, then
   rows.  false: nothing would move, or more than can be counted. */
static bool size_case(struct bench_case *each, int64_t batch, int64_t bytes) {
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

static bool set_shape(DLTensor *tensor, const struct bench_case *each, int64_t slots,
                      struct error *error) {
    const DLTensor *past = &each->spec->scatter.past_cache;
    if (!spec_set_shape(tensor, past->shape, past->ndim, error))
        return false;
    for (int d = 0; d < past->ndim; d++)
        tensor->shape[d] = d == each->geometry.axis ? slots : dim_of(each, d);
    return true;
}

static bool open_scene(struct scene *scene, const struct bench_case *each, const kvmill_pack *pack,
                       struct error *error) {
    const struct scatter_spec *spec = &each->spec->scatter;
    scene->past = scene->update = (DLTensor){.device = {kDLCPU, 0}, .dtype = spec->dtype};
    scene->indices = (DLTensor){.device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLInt, 64, 1}};
    if (!set_shape(&scene->past, each, each->slots, error) ||
        !set_shape(&scene->update, each, each->rows, error))
        return false;
    scene->indices.shape = scene->past.shape; /* its first dim, the batch */
    return open_memory(scene, error) && open_plan(scene, spec->mode, spec->axis, pack, error);
}

static const char *purpose_of(const struct spec *spec) {
    return spec->purpose[0] ? spec->purpose : "TensorScatter";
}

static bool bench_in_place(const struct bench_case *each, const kvmill_pack *pack,
                           struct bench_results *results, struct error *error) {
    struct scene scene = {.threads = 1, .in_place = true};
    char what[96];
    bool done = open_scene(&scene, each, pack, error);
    if (done) {
        snprintf(what, sizeof what, "%s, in place, batch %" PRId64 ", %" PRId64 " rows",
                 purpose_of(each->spec), scene.geometry.batch, scene.geometry.rows);
        done = race_in_place(&scene, what, results, error);
    }
    close_scene(&scene);
    return done;
}

static bool bench_functional(const struct bench_case *each, const kvmill_pack *pack, int threads,
                             struct bench_results *results, struct error *error) {
    struct scene scene = {.threads = threads};
    char what[96];
    bool done = open_scene(&scene, each, pack, error);
    if (done) {
        snprintf(what, sizeof what, "%s, functional, %" PRId64 " MiB", purpose_of(each->spec),
                 bytes_of(&scene.past) >> 20);
        done = race_functional(&scene, what, results, error);
    }
    close_scene(&scene);
    return done;
}

bool bench_rows(const struct spec *spec, const kvmill_pack *pack, int threads,
                struct bench_results *results, struct error *error) {
    struct bench_case each;
    if (!open_case(&each, spec, error))
        return false;
    if (!size_case(&each, is_decode(&each) ? DECODE_BATCH : 1, in_place_bytes)) {
        fprintf(stderr, "%s: not timed: it moves nothing, or more than fits memory\n", spec->where);
        return true;
    }
    if (!bench_in_place(&each, pack, results, error))
        return false;
    for (int64_t size = 64; is_decode(&each) && size <= 1024; size *= 16)
        for (int n = 1; n <= threads; n += threads > 1 ? threads - 1 : 1)
            if (size_case(&each, FUNCTIONAL_BATCH, size << 20) &&
                !bench_functional(&each, pack, n, results, error))
                return false;
    return true;
}

bool bench_call(const struct spec *spec, const kvmill_pack *pack, struct bench_results *results,
                struct error *error) {
    struct bench_case each;
    struct scene scene = {.threads = 1, .in_place = true};
    if (!open_case(&each, spec, error))
        return false;
    size_case(&each, 1, 1024);
    bool done = open_scene(&scene, &each, pack, error) && race_call(&scene, results, error);
    close_scene(&scene);
    return done;
}
