/* Storing new K and V of attention.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bench_attention.h"

static const double seconds_per_race = 1.0;

static bool converts(const struct kvmill_cache_geometry *geometry) {
    return geometry->key.element != geometry->activation;
}

/* The bars are for K and V with 8 heads of 128 and float16 activations. */
static bool has_bars(const struct kvmill_cache_geometry *g) {
    return g->kv_heads == 8 && g->key.dim == 128 && g->value.dim == 128 &&
           g->activation == KVMILL_F16 && !g->value_differs;
}

/* ---- Many tokens ---- */

bool bench_open_half(struct attention_bench *bench, struct error *error) {
    const struct kvmill_cache_geometry *geometry = attention_geometry(bench);
    const struct scene_setting *setting = bench->base.setting;
    const kvmill_plan_options options = {.struct_size = sizeof options,
                                         .packs = &setting->pack,
                                         .pack_count = 1,
                                         .threads = setting->threads};
    kvmill_cache_attention *half = &bench->half_spec.attention.op;
    char kernel[SYMBOL_SIZE];
    if (!converts(geometry) || !has_bars(geometry))
        return true;
    bench->half_spec = *bench->base.spec;
    half->quant_bit = 0;
    half->T2 = half->T1;
    half->cache_format = NULL;
    if (!scene_begin(&bench->half, &bench->half_spec, &bench->base.scene.size, setting->rotation,
                     false, error) ||
        !scene_plan(&bench->half, STEP_RUN, &options, &bench->half_plan, error))
        return false;
    bench_kernel_in_plan(bench->half_plan.plan, &write_words, 0, kernel);
    bench->has_half = strncmp(kernel, "kvmill_portable", 15) != 0;
    return true;
}

/* Stores float16 without converting: the team's call on the scene `half`. */
static void run_half(struct rival *rival) {
    scene_call_next(rival->other, NULL);
}

static void rival_half(struct rival *rival, struct scene_call *call, int i) {
    (void)i;
    *rival = (struct rival){.name = "float16 cache", .call = call, .run = run_half};
}

static bool open_halves(struct attention_bench *bench, const struct run_size *size,
                        struct scene_call halves[TEAMS], struct error *error) {
    if (!scene_resize(&bench->half, size, error))
        return false;
    for (int t = 0; t < bench->base.teams; t++)
        scene_call_open(&halves[t], &bench->half, STEP_STORE, size, &bench->half_plan,
                        bench->base.pools[t]);
    return true;
}

bool bench_store(struct attention_bench *bench, const struct run_size *size, struct error *error) {
    static struct scene_call halves[TEAMS];
    const struct kvmill_cache_geometry *geometry = attention_geometry(bench);
    bool bars = has_bars(geometry), codes = bench->has_half;
    double bar = !bars ? 0 : codes ? 0.9 : converts(geometry) ? 0 : 0.85;
    struct bench_case each = {.step = STEP_STORE,
                              .size = *size,
                              .words = &write_words,
                              .seconds = seconds_per_race,
                              .is_right = scene_check,
                              .rivals = codes ? rival_half : rival_store,
                              .rival_count = codes ? 1 : COPIES,
                              .others = codes ? halves : NULL,
                              .bars = {bar, bar},
                              .compares = true,
                              .scaling_bar = bars ? 1.8 : 0};
    bench_say_case(bench, "store", size, each.what);
    return scene_resize(&bench->base.scene, size, error) &&
           (!codes || open_halves(bench, size, halves, error)) &&
           bench_race(&bench->base, &each, error);
}

/* ---- A row for each of many sequences ---- */

/* Each call stores to another slot; warm: always in the same small cache. */
struct rows_call {
    struct scene_call call;
    bool warm;
};

static int64_t place(const struct scene *scene, int64_t k) {
    return k * 7919 % scene->size.positions;
}

static void run_store_rows(void *context, int64_t k) {
    struct rows_call *rows = context;
    struct scene_call *call = &rows->call;
    call->size.positions = place(call->scene, k) + 1;
    scene_call_move(call);
    for (int i = KVMILL_CACHE_ATTENTION_CACHE;
         rows->warm && i <= KVMILL_CACHE_ATTENTION_VALUE_SCALE; i++)
        call->tensors[i].data = call->scene->memory[i].data;
    scene_call_run(call, NULL);
}

/* Copies rows of the same activations, unconverted, to a cache of the same shape that holds
   activations. */
static void copy_side(struct scene *scene, unsigned char *cache, int64_t row, int64_t slot) {
    int64_t heads = scene->attention.geometry.kv_heads, slots = scene->size.positions;
    int64_t bytes = scene->size.batch * heads * row;
    bool by_head = scene->attention.geometry.layout == 1;
    limit_copy_rows(&(struct copy_rows){
        .to = (char *)cache + slot * (by_head ? row : heads * row),
        .from = (const char *)scene_next_bytes(scene, KVMILL_CACHE_ATTENTION_CURRENT_KEY, &bytes),
        .bytes = (size_t)row,
        .tokens = scene->size.batch,
        .heads = heads,
        .to_token = 2 * heads * slots * row,
        .to_head = by_head ? slots * row : row,
        .from_token = heads * row,
        .from_head = row,
    });
}

static void run_copy_rows(void *context, int64_t k) {
    const struct rows_call *rows = context;
    struct scene *scene = rows->call.scene;
    const struct kvmill_cache_geometry *g = &scene->attention.geometry;
    const struct scene_memory *memory = &scene->memory[KVMILL_CACHE_ATTENTION_CACHE];
    int64_t row = g->key.dim * (g->activation == KVMILL_F32 ? 4 : 2);
    int64_t side = g->kv_heads * scene->size.positions * row, cache = scene->size.batch * 2 * side;
    unsigned char *at = memory->data + (rows->warm ? 0 : k % (memory->bytes / cache) * cache);
    for (int v = 0; v < 2; v++)
        copy_side(scene, at + v * side, row, place(scene, k));
}

static void add_store_rows(struct attention_bench *bench, const char *kind,
                           const struct run_size *size, const struct contender *race) {
    const struct kvmill_cache_geometry *g = attention_geometry(bench);
    const struct contender *copy = &race[bench->base.teams];
    bool bars = has_bars(g);
    char what[128];
    bench_say_case(bench, kind, size, what);
    struct bench_result *result =
        bench_add(&bench->base, what, STEP_STORE, &write_words, 0, race[0].median);
    result->bytes = attention_store_bytes(g, size);
    bench_compare(result, copy->name, copy->median, !bars ? 0 : converts(g) ? 1 / 1.5 : 1);
    if (bench->base.teams == 1)
        return;
    result = bench_add(&bench->base, what, STEP_STORE, &write_words, 1, race[1].median);
    bench_compare(result, "one thread", race[0].median, bars && result->threads == 2 ? 1.8 : 0);
}

bool bench_store_rows(struct attention_bench *bench, int64_t batch, bool warm,
                      struct error *error) {
    static struct rows_call rows[TEAMS];
    struct bench *base = &bench->base;
    const struct run_size size = {batch, 1, warm ? 4 : 512};
    struct contender race[TEAMS + 1];
    if (!scene_resize(&base->scene, &size, error))
        return false;
    for (int t = 0; t < base->teams; t++) {
        rows[t].warm = warm;
        scene_call_open(&rows[t].call, &base->scene, STEP_STORE, &size, &base->plans[STEP_RUN],
                        base->pools[t]);
        race[t] = bench_contender("", run_store_rows, &rows[t], base->pools[t]);
    }
    race[base->teams] = bench_contender("copy of rows", run_copy_rows, &rows[0], base->pools[0]);
    if (!scene_check(&rows[0].call, error))
        return false;
    bench_time(base->results, race, base->teams + 1, seconds_per_race);
    add_store_rows(bench, warm ? "store, warm" : "store, cold", &size, race);
    return true;
}
