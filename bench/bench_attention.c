/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_attention.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../defs/arithmetic.h"
#include "bench.h"
#include "scene_op.h"

static const double seconds_per_race = 1.0;

/* ---- Names ---- */

static void set_name(struct attention_bench *bench) {
    const struct kvmill_cache_geometry *g = attention_geometry(bench);
    const char *cap = bench->base.cap;
    char words[SAID_SIZE];
    side_describe(g, words);
    snprintf(bench->name, sizeof bench->name, "%.64s, layout %" PRId64 "%s%s", words, g->layout,
             cap ? ", " : "", cap ? cap : "");
}

/* The instruction set is in a kernel's symbol, between the first double underscore and the next
   one. */
static void set_isa(struct attention_bench *bench) {
    char kernel[SYMBOL_SIZE];
    bench_kernel_in_plan(bench->base.plans[STEP_RUN].plan, &decode_words, bench->base.query_rows,
                         kernel);
    const char *at = strstr(kernel, "__");
    at = at != NULL ? at + 2 : "";
    snprintf(bench->isa, sizeof bench->isa, "%.*s", (int)strcspn(at, "_"), at);
    bench->base.isa = bench->isa;
}

/* ---- One new token on a long cache; prompts, and chunks of them ---- */

static bool race(struct attention_bench *bench, const char *kind, const struct run_size *size,
                 struct bench_case *each, struct error *error) {
    each->size = *size;
    each->rows = (double)(size->batch * size->positions * attention_geometry(bench)->kv_heads);
    each->seconds = seconds_per_race;
    each->is_right = scene_check;
    each->compares = true;
    each->bars[1] = each->bars[0];
    bench_say_case(bench, kind, size, each->what);
    return scene_resize(&bench->base.scene, size, error) && bench_race(&bench->base, each, error);
}

static bool bench_decode(struct attention_bench *bench, const struct run_size *size,
                         struct error *error) {
    struct bench_case each = {.words = &decode_words,
                              .rivals = rival_read,
                              .rival_count = READINGS,
                              .bars = {attention_decode_bar(attention_geometry(bench), bench->isa)},
                              .scaling_bar = size->batch == 1 ? 1.9 : 0};
    return race(bench, "decode", size, &each, error);
}

static bool bench_prefill(struct attention_bench *bench, const struct run_size *size,
                          struct error *error) {
    struct bench_case each = {
        .words = &prefill_words,
        .rivals = rival_add,
        .rival_count = 1,
        .bars = {attention_prefill_bar(attention_geometry(bench), bench->isa, size->tokens)},
        .in_flops = true,
        .scaling_bar = size->tokens >= 512 ? 1.9 : 0};
    return race(bench, "prefill", size, &each, error);
}

/* ---- Few new tokens on a long cache, to be verified ---- */

enum { VERIFIES = 4 };

/* If memory limits decoding, a few queries should cost little more than one. */
static double verify_bar(const struct attention_bench *bench) {
    return attention_decode_bar(attention_geometry(bench), bench->isa) >= 0.8 ? 1 / 1.3 : 0;
}

static void add_verify(struct attention_bench *bench, const struct scene_call *call,
                       const struct contender *contender, double one) {
    char what[128];
    bench_say_case(bench, "verify", &call->size, what);
    struct bench_result *result =
        bench_add(&bench->base, what, STEP_RUN, &decode_words, 0, contender->median);
    result->bytes = scene_call_bytes(call);
    bench_compare(result, "one query", one, verify_bar(bench));
}

static bool bench_verify(struct attention_bench *bench, int64_t positions, struct error *error) {
    static struct scene_call calls[VERIFIES];
    struct contender contenders[VERIFIES];
    struct bench *base = &bench->base;
    if (!scene_resize(&base->scene, &(struct run_size){1, 1 << (VERIFIES - 1), positions}, error))
        return false;
    for (int i = 0; i < VERIFIES; i++) {
        const struct run_size size = {1, 1 << i, positions};
        scene_call_open(&calls[i], &base->scene, STEP_RUN, &size, &base->plans[STEP_RUN],
                        base->pools[0]);
        contenders[i] = bench_contender(NULL, run_call, &calls[i], base->pools[0]);
        if (!scene_check(&calls[i], error))
            return false;
    }
    bench_time(base->results, contenders, VERIFIES, seconds_per_race);
    for (int i = 1; i < VERIFIES; i++)
        add_verify(bench, &calls[i], &contenders[i], contenders[0].median);
    return true;
}

/* ---- Which cases ---- */

static bool is_llama(const struct kvmill_cache_geometry *g) {
    return g->heads == 32 && g->kv_heads == 8 && g->key.dim == 128;
}

enum { POSITIONS = 4096, MANY_POSITIONS = 32768, CHUNK = 512, ROWS = 64 };
static const struct run_size decode_size = {1, 1, POSITIONS}, chunk_size = {1, CHUNK, CHUNK};

static bool bench_few(struct attention_bench *bench, struct error *error) {
    return bench_decode(bench, &decode_size, error) && bench_prefill(bench, &chunk_size, error) &&
           bench_store(bench, &chunk_size, error);
}

static bool bench_many(struct attention_bench *bench, struct error *error) {
    static const struct run_size decodes[] = {
        {1, 1, POSITIONS}, {8, 1, POSITIONS}, {1, 1, MANY_POSITIONS}, {8, 1, MANY_POSITIONS}};
    static const struct run_size prefills[] = {{1, CHUNK, CHUNK}, {1, CHUNK, POSITIONS},
                                               {1, 64, CHUNK},    {1, 64, POSITIONS},
                                               {1, 16, CHUNK},    {1, 16, POSITIONS}};
    int most = is_llama(attention_geometry(bench)) ? 6 : 2;
    bool done = true;
    for (int i = 0; done && i < 4 && i < most - 1; i++)
        done = bench_decode(bench, &decodes[i], error);
    for (int i = 0; done && i < most; i++)
        done = bench_prefill(bench, &prefills[i], error);
    return done && (most < 6 || (bench_verify(bench, MANY_POSITIONS, error) &&
                                 bench_store(bench, &chunk_size, error) &&
                                 bench_store_rows(bench, ROWS, false, error) &&
                                 bench_store_rows(bench, ROWS, true, error)));
}

/* With AVX2, one size of each has cases. */
static bool bench_avx2(struct attention_bench *bench, struct error *error) {
    if (attention_decode_bar(attention_geometry(bench), bench->isa) == 0)
        return true;
    return bench_decode(bench, &decode_size, error) && bench_prefill(bench, &chunk_size, error);
}

/* ---- Opening ---- */

/* The plans are for any size; decode_size only opens the scene. */
static bool open(struct attention_bench *bench, struct error *error) {
    const struct scene_setting *setting = bench->base.setting;
    if (!scene_begin(&bench->base.scene, bench->base.spec, &decode_size, setting->rotation, false,
                     error) ||
        !bench_plan(&bench->base, STEP_RUN, error) || !bench_open_half(bench, error))
        return false;
    bench->base.query_rows = attention_geometry(bench)->ratio;
    set_name(bench);
    set_isa(bench);
    return true;
}

static bool bench_op(const struct spec *spec, const char *isa,
                     bool (*cases)(struct attention_bench *, struct error *),
                     const struct scene_setting *setting, struct bench_results *results,
                     struct error *error) {
    static struct attention_bench bench;
    bench = (struct attention_bench){.has_half = false};
    bool done = bench_open(&bench.base, spec, setting, results, error);
    bench.base.cap = isa;
    done = done && open(&bench, error) && cases(&bench, error);
    owned_plan_close(&bench.half_plan);
    scene_close(&bench.half);
    bench_close(&bench.base);
    return done;
}

bool bench_attention(const struct spec *spec, const struct scene_setting *setting,
                     struct bench_results *results, struct error *error) {
    if (!attention_scene_op.knows(spec))
        return bench_attend(spec, setting, results, error);
    if (!setting->all)
        return bench_op(spec, NULL, bench_few, setting, results, error);
    return bench_op(spec, NULL, bench_many, setting, results, error) &&
           (!kvmill_isa_usable("avx512") || !kvmill_isa_usable("avx2") ||
            bench_op(spec, "avx2", bench_avx2, setting, results, error));
}
