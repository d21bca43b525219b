/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/dtype.h"
#include "../tune/timer.h"
#include "limits.h"
#include "rows_scene.h"

static const double seconds_per_case = 1.0;
enum { DECODE_BATCH = 64, FUNCTIONAL_BATCH = 8 };
static const int64_t in_place_bytes = 512 << 20; /* more than the last-level cache */

/* ---- Contenders ---- */

/* Where an element begins; of an odd 4-bit one, the byte that it shares. */
static int64_t byte_offset(const struct rows_scene *scene, int64_t element) {
    return element * kvmill_dtype_bits(scene->past.dtype) / 8;
}

/* Before every race: what fails is quick, and must not win it. */
static bool check_run(struct rows_scene *scene, const char *what, struct error *error) {
    kvmill_error reason;
    kvmill_status status = rows_scene_run(scene, scene->plan, &reason);
    return status == KVMILL_OK ||
           fail(error, EXIT_BUG, "%s: %s: %s", what, kvmill_status_name(status), reason.message);
}

static void run_kvmill(void *context, int64_t k) {
    struct rows_scene *scene = context;
    rows_scene_move(scene, k);
    rows_scene_run(scene, scene->plan, NULL);
}

static void run_call(void *context, int64_t k) {
    struct rows_scene *scene = context;
    const DLTensor *tensors[] = {&scene->past, &scene->update, &scene->indices, &scene->present};
    (void)k;
    kvmill_run(scene->plan, tensors, NULL, NULL);
}

static void run_memcpy_row(void *context, int64_t k) {
    struct rows_scene *scene = context;
    (void)k;
    memcpy(scene->present.data, scene->update.data, (size_t)rows_tensor_bytes(&scene->update));
}

/* A loop of memcpy calls over the same runs of rows; those of odd nibbles lose half a byte. */
static void run_memcpy_rows(void *context, int64_t k) {
    struct rows_scene *scene = context;
    const struct kvmill_row_geometry *g = &scene->geometry;
    int64_t run = g->rows * g->row;
    size_t bytes = (size_t)kvmill_dtype_bytes(scene->past.dtype, run);
    rows_scene_move(scene, k);
    for (int64_t slab = 0; slab < g->batch * g->heads; slab++) {
        int64_t slot = slab * g->capacity + scene->starts[slab / g->heads];
        memcpy((char *)scene->present.data + byte_offset(scene, slot * g->row),
               (char *)scene->update.data + byte_offset(scene, slab * run), bytes);
    }
}

static struct copy copy_of(const struct rows_scene *scene) {
    return (struct copy){scene->present.data, scene->past.data,
                         (size_t)rows_tensor_bytes(&scene->past), scene->pool};
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

static void add_result(struct bench_results *results, const struct rows_scene *scene,
                       const char *what, const struct contender *race, int count, double bytes) {
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

static bool race_in_place(struct rows_scene *scene, const char *what, struct bench_results *results,
                          struct error *error) {
    struct contender race[] = {
        {.name = "kvmill", .run = run_kvmill, .context = scene, .pool = scene->pool},
        {.name = "memcpy loop", .run = run_memcpy_rows, .context = scene, .pool = scene->pool}};
    if (!check_run(scene, what, error))
        return false;
    timer_race(race, 2, seconds_per_case);
    add_result(results, scene, what, race, 2, rows_scene_bytes(scene));
    return true;
}

static bool race_call(struct rows_scene *scene, struct bench_results *results,
                      struct error *error) {
    struct contender race[] = {
        {.name = "kvmill", .run = run_call, .context = scene, .pool = scene->pool},
        {.name = "memcpy", .run = run_memcpy_row, .context = scene, .pool = scene->pool}};
    char what[96];
    snprintf(what, sizeof what, "one call of kvmill_run, one row of %" PRId64 " bytes",
             rows_tensor_bytes(&scene->update));
    if (!check_run(scene, what, error))
        return false;
    timer_race(race, 2, seconds_per_case);
    add_result(results, scene, what, race, 2, rows_scene_bytes(scene));
    return true;
}

static bool race_functional(struct rows_scene *scene, const char *what,
                            struct bench_results *results, struct error *error) {
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
    add_result(results, scene, what, race, 4, rows_scene_bytes(scene));
    return true;
}

/* ---- Cases ---- */

static const char *purpose_of(const struct spec *spec) {
    return spec->purpose[0] ? spec->purpose : "TensorScatter";
}

static bool bench_in_place(const struct rows_case *each, const kvmill_pack *pack,
                           struct bench_results *results, struct error *error) {
    struct rows_scene scene = {.threads = 1, .in_place = true};
    char what[96];
    bool done = rows_scene_open(&scene, each, pack, error);
    if (done) {
        snprintf(what, sizeof what, "%s, in place, batch %" PRId64 ", %" PRId64 " rows",
                 purpose_of(each->spec), scene.geometry.batch, scene.geometry.rows);
        done = race_in_place(&scene, what, results, error);
    }
    rows_scene_close(&scene);
    return done;
}

static bool bench_functional(const struct rows_case *each, const kvmill_pack *pack, int threads,
                             struct bench_results *results, struct error *error) {
    struct rows_scene scene = {.threads = threads};
    char what[96];
    bool done = rows_scene_open(&scene, each, pack, error);
    if (done) {
        snprintf(what, sizeof what, "%s, functional, %" PRId64 " MiB", purpose_of(each->spec),
                 rows_tensor_bytes(&scene.past) >> 20);
        done = race_functional(&scene, what, results, error);
    }
    rows_scene_close(&scene);
    return done;
}

bool bench_rows(const struct spec *spec, const kvmill_pack *pack, int threads,
                struct bench_results *results, struct error *error) {
    struct rows_case each;
    if (!rows_case_open(&each, spec, error))
        return false;
    if (!rows_case_size(&each, rows_case_is_decode(&each) ? DECODE_BATCH : 1, in_place_bytes)) {
        fprintf(stderr, "%s: not timed: it moves nothing, or more than fits memory\n", spec->where);
        return true;
    }
    if (!bench_in_place(&each, pack, results, error))
        return false;
    for (int64_t size = 64; rows_case_is_decode(&each) && size <= 1024; size *= 16)
        for (int n = 1; n <= threads; n += threads > 1 ? threads - 1 : 1)
            if (rows_case_size(&each, FUNCTIONAL_BATCH, size << 20) &&
                !bench_functional(&each, pack, n, results, error))
                return false;
    return true;
}

bool bench_call(const struct spec *spec, const kvmill_pack *pack, struct bench_results *results,
                struct error *error) {
    struct rows_case each;
    struct rows_scene scene = {.threads = 1, .in_place = true};
    if (!rows_case_open(&each, spec, error))
        return false;
    rows_case_size(&each, 1, 1024);
    bool done = rows_scene_open(&scene, &each, pack, error) && race_call(&scene, results, error);
    rows_scene_close(&scene);
    return done;
}
