/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_flow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../gen/flow.h"
#include "../ops/flow_atom.h"
#include "../tune/timer.h"
#include "limits.h"
#include "memory.h"

static const double seconds_per_case = 2.0, read_bar = 0.85;
enum { PAGES = 2048, QUERIES = 16, COLD_BYTES = 256 << 20 };

/* ---- Kernels ---- */

static int rank_of(const char *isa) {
    const char *name;
    for (int i = 0; (name = kvmill_isa_name((size_t)i)) != NULL; i++)
        if (strcmp(name, isa) == 0)
            return i;
    return -1;
}

/* The best that this CPU can run; NULL when the pack has none. */
static const struct kvmill_kernel *find_kernel(const kvmill_pack *pack, enum kvmill_family family,
                                               const void *shape, size_t size) {
    const struct kvmill_kernel *best = NULL;
    for (uint32_t i = 0; i < pack->count; i++) {
        const struct kvmill_kernel *kernel = pack->kernels[i];
        if (kernel->family == (uint32_t)family && kvmill_isa_usable(kernel->isa) &&
            memcmp(kernel->shape, shape, size) == 0 &&
            (best == NULL || rank_of(kernel->isa) > rank_of(best->isa)))
            best = kernel;
    }
    return best;
}

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* ---- Scores ---- */

/* Fields of many layers, [layer, field, page, kv head], so that none is in a cache any more. */
struct scene {
    const struct kvmill_kernel *kernel;
    struct kvmill_score_shape shape;
    int64_t kv_heads, page_bytes, field_bytes, layer_bytes, layers;
    unsigned char *memory;
    float *query, *score;
    int32_t ids[PAGES];
};

/* A scene by the threads of a pool. */
struct team {
    struct scene *scene;
    struct pool *pool;
    int64_t call;
};

static int64_t fields_of(const struct scene *scene) {
    return scene->shape.kind == KVMILL_SCORE_BOUND ? 2 : 1;
}

/* Finite numbers around 1: halves of words, of which float32 has two. */
static void fill_fields(struct scene *scene, uint64_t *state) {
    uint16_t base = scene->shape.element == KVMILL_F16 ? 0x3800 : 0x3f00;
    uint16_t *halves = (uint16_t *)(void *)scene->memory;
    for (int64_t i = 0; i < scene->layers * scene->layer_bytes / 2; i++)
        halves[i] = (uint16_t)(base | (next_random(state) & 0x80ff));
}

static void fill_scene(struct scene *scene) {
    uint64_t state = 88172645463325252;
    int64_t floats = QUERIES * scene->kv_heads * scene->shape.heads * scene->shape.dim;
    fill_fields(scene, &state);
    for (int64_t i = 0; i < floats; i++)
        scene->query[i] = ((float)(next_random(&state) % 1024) - 512) / 128;
    for (int32_t i = 0; i < PAGES; i++)
        scene->ids[i] = i;
    for (int32_t i = PAGES - 1; i > 0; i--) {
        uint64_t j = next_random(&state) % (uint64_t)(i + 1);
        int32_t id = scene->ids[i];
        scene->ids[i] = scene->ids[j];
        scene->ids[j] = id;
    }
}

static void scene_close(struct scene *scene) {
    bench_memory_release(scene->memory, scene->layers * scene->layer_bytes);
    free(scene->query);
    free(scene->score);
}

static bool scene_open(struct scene *scene, struct error *error) {
    const struct kvmill_score_shape *shape = &scene->shape;
    int64_t scores = scene->kv_heads * PAGES * shape->heads * shape->blocks;
    int64_t floats = QUERIES * scene->kv_heads * shape->heads * shape->dim;
    scene->page_bytes =
        (int64_t)shape->blocks * shape->dim * (shape->element == KVMILL_F32 ? 4 : 2);
    scene->field_bytes = PAGES * scene->kv_heads * scene->page_bytes;
    scene->layer_bytes = fields_of(scene) * scene->field_bytes;
    scene->layers = COLD_BYTES / scene->layer_bytes + 2;
    scene->memory = bench_memory_get(scene->layers * scene->layer_bytes);
    scene->query = calloc((size_t)floats, sizeof *scene->query);
    scene->score = calloc((size_t)scores, sizeof *scene->score);
    if (scene->memory == NULL || scene->query == NULL || scene->score == NULL)
        return out_of_memory(error);
    fill_scene(scene);
    return true;
}

static void score_head(void *context, int64_t head) {
    const struct team *team = context;
    const struct scene *scene = team->scene;
    const struct kvmill_score_shape *shape = &scene->shape;
    const unsigned char *layer =
        scene->memory + team->call % scene->layers * scene->layer_bytes + head * scene->page_bytes;
    int64_t query = team->call % QUERIES * scene->kv_heads + head;
    const struct kvmill_score_pages problem = {
        .shape = shape,
        .query = scene->query + query * shape->heads * shape->dim,
        .field = {layer, layer + (fields_of(scene) - 1) * scene->field_bytes},
        .stride = scene->kv_heads * scene->page_bytes,
        .ids = scene->ids,
        .pages = PAGES,
        .score = scene->score + head * PAGES * shape->heads * shape->blocks,
    };
    scene->kernel->run(&problem, 0, PAGES);
}

static void run_score(void *context, int64_t k) {
    struct team *team = context;
    team->call = k;
    pool_for(team->pool, team->scene->kv_heads, score_head, team);
}

struct reader {
    const struct team *team;
    int streams;
};

/* Of half the layers further on. */
static void run_read(void *context, int64_t k) {
    const struct reader *reader = context;
    const struct scene *scene = reader->team->scene;
    int64_t layer = (k + scene->layers / 2) % scene->layers;
    const struct reading reading = {(const char *)scene->memory + layer * scene->layer_bytes,
                                    (size_t)scene->layer_bytes, reader->streams,
                                    reader->team->pool};
    limit_read(&reading);
}

static void add_score(struct bench_results *results, const struct team *team,
                      const struct contender *race) {
    const struct scene *scene = team->scene;
    struct bench_result *result = bench_results_add(results);
    int best = 1;
    for (int i = 2; i <= READINGS; i++)
        best = race[i].median < race[best].median ? i : best;
    snprintf(result->what, sizeof result->what, "score %d pages of %" PRId64 " kv heads", PAGES,
             scene->kv_heads);
    snprintf(result->kernel, sizeof result->kernel, "%s", scene->kernel->symbol);
    result->threads = pool_threads(team->pool);
    result->seconds = race[0].median;
    result->bytes = (double)scene->layer_bytes;
    bench_compare(result, race[best].name, race[best].median, read_bar);
}

static bool race_team(struct scene *scene, int threads, struct bench_results *results,
                      struct error *error) {
    struct team team = {scene, pool_open(threads), 0};
    struct reader readers[READINGS];
    struct contender race[1 + READINGS] = {
        {.name = "kvmill", .run = run_score, .context = &team, .pool = team.pool}};
    if (team.pool == NULL)
        return out_of_memory(error);
    for (int i = 0; i < READINGS; i++) {
        readers[i] = (struct reader){&team, kinds_of_reading[i].streams};
        race[1 + i] = (struct contender){.name = kinds_of_reading[i].name,
                                         .run = run_read,
                                         .context = &readers[i],
                                         .pool = team.pool};
    }
    timer_race(race, 1 + READINGS, seconds_per_case);
    add_score(results, &team, race);
    pool_close(team.pool);
    return true;
}

static bool bench_score(const struct kvmill_flow_problem *problem,
                        const struct kvmill_flow_atom *atom, const kvmill_pack *pack, int threads,
                        struct bench_results *results, struct error *error) {
    struct scene scene = {.shape = kvmill_flow_atom_shape(problem, atom),
                          .kv_heads = problem->geometry.kv_heads};
    scene.kernel = find_kernel(pack, KVMILL_SCORE_PAGES, &scene.shape, sizeof scene.shape);
    if (scene.kernel == NULL)
        return true;
    bool done = scene_open(&scene, error) && race_team(&scene, 1, results, error) &&
                (threads == 1 || race_team(&scene, threads, results, error));
    scene_close(&scene);
    return done;
}

/* ---- Selection ---- */

struct selecting {
    const struct kvmill_kernel *kernel;
    int64_t count;
    float *score; /* [QUERIES, count] */
    int32_t *list, *keys;
};

static void run_select(void *context, int64_t k) {
    const struct selecting *selecting = context;
    int64_t count = selecting->count;
    const struct kvmill_select_pages problem = {selecting->score + k % QUERIES * count, count,
                                                count / 16, selecting->list, selecting->keys};
    selecting->kernel->run(&problem, 0, 1);
}

/* Scores as they are in nature: sums of many numbers. */
static void fill_scores(struct selecting *selecting) {
    uint64_t state = 88172645463325252;
    for (int64_t i = 0; i < QUERIES * selecting->count; i++) {
        float sum = 0;
        for (int n = 0; n < 8; n++)
            sum += (float)(next_random(&state) % 4096) - 2048;
        selecting->score[i] = sum;
    }
}

static void race_select(struct selecting *selecting, double wanted, const char *limit,
                        struct bench_results *results) {
    struct contender race = {.name = "kvmill", .run = run_select, .context = selecting};
    fill_scores(selecting);
    timer_race(&race, 1, seconds_per_case / 4);
    struct bench_result *result = bench_results_add(results);
    snprintf(result->what, sizeof result->what, "select 1 in 16 of %" PRId64 " pages",
             selecting->count);
    snprintf(result->kernel, sizeof result->kernel, "%s", selecting->kernel->symbol);
    result->threads = 1;
    result->seconds = race.median;
    bench_compare(result, limit, wanted, 1);
}

static bool bench_select(const kvmill_pack *pack, int64_t count, double wanted, const char *limit,
                         struct bench_results *results, struct error *error) {
    static const struct kvmill_select_shape shape = {KVMILL_F32};
    struct selecting selecting = {find_kernel(pack, KVMILL_SELECT_PAGES, &shape, sizeof shape),
                                  count, NULL, NULL, NULL};
    if (selecting.kernel == NULL)
        return true;
    selecting.score = calloc((size_t)(QUERIES * count), sizeof(float));
    selecting.list = calloc((size_t)count, sizeof(int32_t));
    selecting.keys = calloc((size_t)(count + KVMILL_SELECT_PADDING), sizeof(int32_t));
    bool done = selecting.score != NULL && selecting.list != NULL && selecting.keys != NULL;
    if (done)
        race_select(&selecting, wanted, limit, results);
    free(selecting.score);
    free(selecting.list);
    free(selecting.keys);
    return done || out_of_memory(error);
}

/* ---- A flow ---- */

bool bench_flow(const struct spec *spec, const kvmill_pack *pack, int threads,
                struct bench_results *results, struct error *error) {
    struct kvmill_flow_problem problem;
    struct kvmill_flow_atoms atoms;
    kvmill_error reason;
    bool done = true;
    if (kvmill_flow_verify(flow_of_spec(spec), &problem, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s: %s", spec->where, reason.message);
    kvmill_flow_find_atoms(&problem, &atoms);
    for (int i = 0; done && i < atoms.count; i++)
        done = bench_score(&problem, &atoms.atom[i], pack, threads, results, error);
    return done && bench_select(pack, 2048, 3e-6, "3 us", results, error) &&
           bench_select(pack, 8192, 10e-6, "10 us", results, error);
}
