/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_attention.h"

#include <stdio.h>
#include <string.h>

#include "attention_race.h"

/* ---- Which cases ---- */

static bool is_llama(const struct kvmill_cache_geometry *g) {
    return g->heads == 32 && g->kv_heads == 8 && g->key.dim == 128;
}

enum { POSITIONS = 4096, MANY_POSITIONS = 32768, CHUNK = 512, ROWS = 64 };

static bool bench_few(struct bench *bench, struct error *error) {
    return bench_decode(bench, &(struct attention_size){1, 1, POSITIONS}, error) &&
           bench_prefill(bench, &(struct attention_size){1, CHUNK, CHUNK}, error) &&
           bench_store(bench, &(struct attention_size){1, CHUNK, CHUNK}, error);
}

static bool bench_many(struct bench *bench, struct error *error) {
    static const struct attention_size decodes[] = {
        {1, 1, POSITIONS}, {8, 1, POSITIONS}, {1, 1, MANY_POSITIONS}, {8, 1, MANY_POSITIONS}};
    static const struct attention_size prefills[] = {{1, CHUNK, CHUNK}, {1, CHUNK, POSITIONS},
                                                     {1, 64, CHUNK},    {1, 64, POSITIONS},
                                                     {1, 16, CHUNK},    {1, 16, POSITIONS}};
    int most = is_llama(&bench->scene.geometry) ? 6 : 2;
    bool done = true;
    for (int i = 0; done && i < 4 && i < most - 1; i++)
        done = bench_decode(bench, &decodes[i], error);
    for (int i = 0; done && i < most; i++)
        done = bench_prefill(bench, &prefills[i], error);
    return done && (most < 6 || (bench_verify(bench, MANY_POSITIONS, error) &&
                                 bench_store(bench, &prefills[0], error) &&
                                 bench_store_rows(bench, ROWS, false, error) &&
                                 bench_store_rows(bench, ROWS, true, error)));
}

/* The bars of AVX2 are for decoding by kernels that know one kind of arithmetic. */
static bool bench_avx2(struct bench *bench, struct error *error) {
    const struct kvmill_cache_geometry *geometry = &bench->scene.geometry;
    if (geometry->math != KVMILL_MATH_F32 || attention_decode_bar(geometry, bench->isa) == 0)
        return true;
    return bench_decode(bench, &(struct attention_size){1, 1, POSITIONS}, error);
}

/* ---- Opening ---- */

static bool open_half(struct bench *bench, const kvmill_cache_attention *op, struct error *error) {
    char kernel[SYMBOL_SIZE];
    kvmill_cache_attention half = *op;
    if (!bench_converts(&bench->scene.geometry) || !bench_has_store_bars(&bench->scene.geometry))
        return true;
    half.quant_bit = 0;
    half.T2 = half.T1;
    half.cache_format = NULL;
    if (!attention_open(&bench->half, &half, bench->setting, NULL, error))
        return false;
    bench_kernel_in_plan(bench->half.usual.plan, write_words, kernel);
    bench->has_half = strncmp(kernel, "kvmill_portable", 15) != 0;
    return true;
}

static bool open_bench(struct bench *bench, const kvmill_cache_attention *op, struct error *error) {
    int threads = bench->setting->threads;
    if (!attention_open(&bench->scene, op, bench->setting, bench->cap, error) ||
        !open_half(bench, op, error))
        return false;
    bench_set_name(bench);
    bench_set_isa(bench);
    bench->teams = threads > 1 ? TEAMS : 1;
    for (int t = 0; t < bench->teams; t++)
        if ((bench->pools[t] = pool_open(t == 0 ? 1 : threads)) == NULL)
            return out_of_memory(error);
    return true;
}

static void close_bench(struct bench *bench) {
    attention_close(&bench->scene);
    attention_close(&bench->half);
    for (int t = 0; t < TEAMS; t++)
        pool_close(bench->pools[t]);
}

static bool bench_op(const kvmill_cache_attention *op, const char *isa,
                     bool (*cases)(struct bench *, struct error *),
                     const struct attention_setting *setting, struct bench_results *results,
                     struct error *error) {
    struct bench bench = {.setting = setting, .results = results, .cap = isa};
    bool done = open_bench(&bench, op, error) && cases(&bench, error);
    close_bench(&bench);
    return done;
}

bool bench_can_attend(const struct spec *spec) {
    return is_attention_spec(spec) && attention_op_of(spec) == KVMILL_MULTI_HEAD_CACHE_ATTENTION &&
           !spec->attention.op.dynamic_batching;
}

bool bench_attention(const struct spec *spec, const struct attention_setting *setting,
                     struct bench_results *results, struct error *error) {
    const kvmill_cache_attention *op = &spec->attention.op;
    if (!bench_can_attend(spec)) {
        fprintf(stderr, "%s: not timed: only MultiHeadCacheAttention with a static batch is\n",
                spec->where);
        return true;
    }
    if (!setting->all)
        return bench_op(op, NULL, bench_few, setting, results, error);
    return bench_op(op, NULL, bench_many, setting, results, error) &&
           (!kvmill_isa_usable("avx512") ||
            bench_op(op, "avx2", bench_avx2, setting, results, error));
}
