/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/text.h"
#include "../defs/dtype.h"
#include "bench.h"
#include "race.h"
#include "scene_rows.h"

static const double seconds_per_case = 1.0;
enum { DECODE_BATCH = 64, FUNCTIONAL_BATCH = 8 };
static const int64_t in_place_bytes = 512 << 20; /* more than the last-level cache */

/* ---- Rivals ---- */

static void copy_rows(const struct scene_call *call, int64_t slab, int64_t start) {
    const struct kvmill_row_geometry *g = &call->scene->rows;
    const DLTensor *present = call->given[KVMILL_TENSOR_SCATTER_PRESENT_CACHE];
    const DLTensor *update = call->given[KVMILL_TENSOR_SCATTER_UPDATE];
    int64_t run = call->size.tokens * g->row, bits = kvmill_dtype_bits(update->dtype);
    int64_t to = (slab * call->size.positions + start) * g->row * bits / 8;
    memcpy((char *)present->data + to, (char *)update->data + slab * run * bits / 8,
           (size_t)kvmill_dtype_bytes(update->dtype, run));
}

/* A loop of memcpy calls over the same runs of rows; a run with an odd number of nibbles loses half
   a byte. */
static void run_memcpy_rows(struct rival *rival) {
    struct scene_call *call = rival->call;
    const int64_t *starts = call->tensors[KVMILL_TENSOR_SCATTER_WRITE_INDICES].data;
    int64_t heads = call->scene->rows.heads;
    scene_call_move(call);
    for (int64_t slab = 0; slab < call->size.batch * heads; slab++)
        copy_rows(call, slab, starts[slab / heads]);
}

static void memcpy_rows(struct rival *rival, struct scene_call *call, int i) {
    (void)i;
    *rival = (struct rival){.name = "memcpy loop", .call = call, .run = run_memcpy_rows};
}

static void run_memcpy_row(struct rival *rival) {
    const struct scene_call *call = rival->call;
    memcpy(call->given[KVMILL_TENSOR_SCATTER_PRESENT_CACHE]->data,
           call->given[KVMILL_TENSOR_SCATTER_UPDATE]->data,
           (size_t)scene_tensor_bytes(call->scene, KVMILL_TENSOR_SCATTER_UPDATE));
}

static void memcpy_row(struct rival *rival, struct scene_call *call, int i) {
    (void)i;
    *rival = (struct rival){.name = "memcpy", .call = call, .run = run_memcpy_row};
}

/* ---- Cases ---- */

static void run_again(void *call, int64_t k) {
    (void)k;
    scene_call_run(call, NULL);
}

static bool race(struct bench *bench, struct bench_case *each, struct error *error) {
    each->size = bench->scene.size;
    each->words = bench->scene.in_place ? &store_words : &keep_words;
    return bench_plan(bench, STEP_RUN, error) && bench_race(bench, each, error);
}

static bool race_in_place(struct bench *bench, const struct run_size *size, struct error *error) {
    struct bench_case each = {.seconds = seconds_per_case, .rivals = memcpy_rows, .rival_count = 1};
    snprintf(each.what, sizeof each.what, "%s, in place, batch %" PRId64 ", %" PRId64 " rows",
             bench_purpose(bench, "TensorScatter"), size->batch, size->tokens);
    return scene_open(&bench->scene, bench->spec, size, 0, true, error) &&
           race(bench, &each, error);
}

static bool race_functional(struct bench *bench, const struct run_size *size, struct error *error) {
    struct bench_case each = {.seconds = 2 * bench->teams * seconds_per_case,
                              .rivals = rival_rows,
                              .rival_count = COPIES};
    if (!scene_open(&bench->scene, bench->spec, size, 0, false, error))
        return false;
    snprintf(each.what, sizeof each.what, "%s, functional, %" PRId64 " MiB",
             bench_purpose(bench, "TensorScatter"),
             scene_tensor_bytes(&bench->scene, KVMILL_TENSOR_SCATTER_PAST_CACHE) >> 20);
    return race(bench, &each, error);
}

static bool bench_case_of(const struct spec *spec, const struct scene_setting *setting,
                          bool (*race)(struct bench *, const struct run_size *, struct error *),
                          const struct run_size *size, struct bench_results *results,
                          struct error *error) {
    struct bench bench;
    bool done = bench_open(&bench, spec, setting, results, error) && race(&bench, size, error);
    bench_close(&bench);
    return done;
}

static struct scene_setting alone(const struct scene_setting *setting) {
    struct scene_setting one = *setting;
    one.threads = 1;
    return one;
}

bool bench_rows(const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error) {
    const struct scene_setting one = alone(setting);
    bool decode = rows_is_decode(spec), done;
    struct run_size size;
    if (!rows_size(spec, decode ? DECODE_BATCH : 1, in_place_bytes, &size)) {
        print_shown(stderr, "%s: not timed: it moves nothing, or more than fits in memory\n",
                    spec->where);
        return true;
    }
    done = bench_case_of(spec, &one, race_in_place, &size, results, error);
    for (int64_t mib = 64; done && decode && mib <= 1024; mib *= 16)
        if (rows_size(spec, FUNCTIONAL_BATCH, mib << 20, &size))
            done = bench_case_of(spec, setting, race_functional, &size, results, error);
    return done;
}

/* ---- The cost of a call ---- */

static bool race_call(struct bench *bench, const struct run_size *size, struct error *error) {
    struct bench_case each = {
        .seconds = seconds_per_case, .run = run_again, .rivals = memcpy_row, .rival_count = 1};
    if (!scene_open(&bench->scene, bench->spec, size, 0, true, error))
        return false;
    snprintf(each.what, sizeof each.what, "one call of kvmill_run, one row of %" PRId64 " bytes",
             scene_tensor_bytes(&bench->scene, KVMILL_TENSOR_SCATTER_UPDATE));
    return race(bench, &each, error);
}

bool bench_call(const struct spec *spec, const kvmill_pack *pack, struct bench_results *results,
                struct error *error) {
    const struct scene_setting setting = {.pack = pack, .threads = 1};
    struct run_size size;
    return rows_size(spec, 1, 1024, &size) &&
           bench_case_of(spec, &setting, race_call, &size, results, error);
}
