/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_limits.h"
#include "attention_race.h"

const struct kind store_kind = {"store", write_words, bench_kernel_in_plan};
static const struct kind store_cold = {"store, cold", write_words, bench_kernel_in_plan};
static const struct kind store_warm = {"store, warm", write_words, bench_kernel_in_plan};

static void run_store(void *context, int64_t k) {
    (void)k;
    attention_call_move(context);
    attention_call_store(context, NULL);
}

/* ---- Storing ---- */

bool bench_converts(const struct kvmill_cache_geometry *geometry) {
    return geometry->key.element != geometry->activation;
}

/* The bars are for K and V of 8 heads of 128, half precision in. */
bool bench_has_store_bars(const struct kvmill_cache_geometry *g) {
    return g->kv_heads == 8 && g->key.dim == 128 && g->value.dim == 128 &&
           g->activation == KVMILL_F16 && !g->value_differs;
}

static struct bench_result *add_store(struct bench *bench, const struct kind *kind,
                                      const struct attention_size *size, int team, double seconds) {
    struct bench_result *result = bench_add(bench, kind, size, team, seconds);
    result->bytes = attention_store_bytes(&bench->scene.geometry, size);
    return result;
}

/* What a team is held against: two ways to copy, and storing half precision. */
struct store_rivals {
    struct copier copiers[2];
    int store, copy[2], half;
};

static void enter_store(struct race *race, struct bench *bench, const struct attention_size *size,
                        int team, struct store_rivals *rivals) {
    static void (*const copies[])(const struct copy *) = {limit_memcpy, limit_nontemporal};
    static const char *const names[] = {"memcpy", "nontemporal"};
    rivals->store = race_enter_call(race, bench, size, team, run_store);
    for (int i = 0; i < 2; i++) {
        rivals->copiers[i] =
            (struct copier){&bench->scene, bench->pools[team],
                            attention_activation_bytes(&bench->scene.geometry, size), copies[i]};
        rivals->copy[i] =
            race_enter(race, names[i], run_copier, &rivals->copiers[i], bench->pools[team]);
    }
    if (!bench->has_half)
        return;
    struct attention_call *call = &race->calls[race->call_count++];
    attention_call_open(call, &bench->half, size, bench->pools[team]);
    rivals->half = race_enter(race, "float16 cache", run_store, call, bench->pools[team]);
}

static void add_store_results(struct bench *bench, const struct race *race,
                              const struct attention_size *size, int team,
                              const struct store_rivals *rivals) {
    const struct contender *limit = &race->contenders[rivals->copy[0]];
    const struct contender *other = &race->contenders[rivals->copy[1]];
    bool bars = bench_has_store_bars(&bench->scene.geometry), codes = bench->has_half;
    limit = codes ? &race->contenders[rivals->half] : other->median < limit->median ? other : limit;
    struct bench_result *result =
        add_store(bench, &store_kind, size, team, race_seconds(race, rivals->store));
    bool is_plain = !bench_converts(&bench->scene.geometry);
    bench_compare(result, limit->name, limit->median, !bars ? 0 : codes ? 1 : is_plain ? 0.85 : 0);
}

bool bench_store(struct bench *bench, const struct attention_size *size, struct error *error) {
    static struct race race;
    struct store_rivals rivals[TEAMS];
    race_begin(&race);
    if (!attention_set_shape(&bench->scene, size->batch, size->positions, size->tokens, error) ||
        (bench->has_half &&
         !attention_set_shape(&bench->half, size->batch, size->positions, size->tokens, error)))
        return false;
    for (int t = 0; t < bench->teams; t++)
        enter_store(&race, bench, size, t, &rivals[t]);
    if (!bench_check(&race.calls[0], bench, attention_check_store, error))
        return false;
    race_run(&race);
    for (int t = 0; t < bench->teams; t++)
        add_store_results(bench, &race, size, t, &rivals[t]);
    bool bars = bench_has_store_bars(&bench->scene.geometry);
    bench_add_scaling(bench, &store_kind, size, race_seconds(&race, rivals[0].store),
                      race_seconds(&race, rivals[bench->teams - 1].store), bars ? 1.8 : 0);
    return true;
}

/* ---- Storing a row for each of many sequences ---- */

/* Rows lie at another place in every call; warm: of one small cache. */
struct rows_call {
    struct attention_call call;
    bool warm;
};

static int64_t place(const struct attention_scene *scene, int64_t k) {
    return k * 7919 % scene->capacity;
}

static void run_store_rows(void *context, int64_t k) {
    struct rows_call *rows = context;
    rows->call.size.positions = place(rows->call.scene, k) + 1;
    if (rows->warm)
        attention_call_set(&rows->call, 0);
    else
        attention_call_move(&rows->call);
    attention_call_store(&rows->call, NULL);
}

/* The same rows of activations as they are, to a cache of the same shape that holds such. */
static void copy_side(struct attention_scene *scene, unsigned char *cache, int64_t row,
                      int64_t slot) {
    int64_t heads = scene->geometry.kv_heads, slots = scene->capacity;
    bool by_head = scene->geometry.layout == 1;
    const struct copy_rows copy = {
        .to = (char *)cache + slot * (by_head ? row : heads * row),
        .from = (const char *)attention_next_activations(scene, scene->batch * heads * row),
        .bytes = (size_t)row,
        .tokens = scene->batch,
        .heads = heads,
        .to_token = 2 * heads * slots * row,
        .to_head = by_head ? slots * row : row,
        .from_token = heads * row,
        .from_head = row,
    };
    limit_copy_rows(&copy);
}

static void run_copy_rows(void *context, int64_t k) {
    const struct rows_call *rows = context;
    struct attention_scene *scene = rows->call.scene;
    const struct kvmill_cache_geometry *g = &scene->geometry;
    int64_t row = g->key.dim * (g->activation == KVMILL_F32 ? 4 : 2);
    int64_t side = g->kv_heads * scene->capacity * row, cache = scene->batch * 2 * side;
    int64_t caches = scene->side[0].bytes / cache;
    unsigned char *at = scene->side[0].data + (rows->warm ? 0 : k % caches * cache);
    for (int v = 0; v < 2; v++)
        copy_side(scene, at + v * side, row, place(scene, k));
}

bool bench_store_rows(struct bench *bench, int64_t batch, bool warm, struct error *error) {
    static struct race race;
    static struct rows_call rows[TEAMS];
    const struct kvmill_cache_geometry *g = &bench->scene.geometry;
    const struct kind *kind = warm ? &store_warm : &store_cold;
    const struct attention_size size = {batch, 1, warm ? 4 : 512};
    race_begin(&race);
    if (!attention_set_shape(&bench->scene, batch, size.positions, 1, error))
        return false;
    for (int t = 0; t < bench->teams; t++) {
        rows[t].warm = warm;
        attention_call_open(&rows[t].call, &bench->scene, &size, bench->pools[t]);
        race_enter(&race, "", run_store_rows, &rows[t], bench->pools[t]);
    }
    if (!bench_check(&rows[0].call, bench, attention_check_store, error))
        return false;
    int copy = race_enter(&race, "copy of rows", run_copy_rows, &rows[0], bench->pools[0]);
    race_run(&race);
    struct bench_result *result = add_store(bench, kind, &size, 0, race_seconds(&race, 0));
    bench_compare(result, "copy of rows", race_seconds(&race, copy),
                  !bench_has_store_bars(g) ? 0
                  : bench_converts(g)      ? 1 / 1.8
                                           : 1);
    bench_add_scaling(bench, kind, &size, race_seconds(&race, 0),
                      race_seconds(&race, bench->teams - 1), bench_has_store_bars(g) ? 1.8 : 0);
    return true;
}
