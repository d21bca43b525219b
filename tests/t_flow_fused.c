/* Flows whose scores have kernels against the same flows op by op: the same bits, the same lists.
   All flows that ship, and random ones; kernels of all linked packs, and the portable ones.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime/core/numbers.h"
#include "../runtime/flow/flow.h"
#include "common.h"
#include "flow_file.h"
#include "flow_index.h"
#include "packs.h"
#include "walk.h"

static uint64_t seed;

static void *take(size_t bytes) {
    void *memory = calloc(bytes + 1, 1);
    if (memory == NULL)
        bail_out("out of memory");
    return memory;
}

/* ---- A flow at work ---- */

enum { POOL = 40 };

struct scene {
    struct spec_list specs;
    struct kvmill_flow_problem problem;
    struct flow_schedule fused, steps;
    struct flow_cache cache;
    int32_t ids[POOL];
    unsigned char *query;
};

static float random_number(struct dice *dice, int strange) {
    static const float rare[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 6e-8f};
    if (strange > 0 && dice_once_in(dice, strange))
        return rare[dice_range(dice, 0, 5)];
    return (float)dice_range(dice, -100000, 100000) / (float)dice_range(dice, 1000, 300000);
}

static unsigned char *random_floats(int element, int64_t count, int strange, struct dice *dice) {
    unsigned char *memory = take((size_t)count * sizeof(float));
    for (int64_t i = 0; i < count; i++)
        kvmill_store_float(element, memory, i, random_number(dice, strange));
    return memory;
}

/* Codes are any bytes: what these programs compute comes from fields. */
static unsigned char *random_codes(int64_t bytes, struct dice *dice) {
    unsigned char *memory = take((size_t)bytes);
    for (int64_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)dice_range(dice, 0, 255);
    return memory;
}

/* [slot, head, dim]. */
static struct kvmill_cache_rows random_cache(const struct scene *scene,
                                             const struct kvmill_format *format,
                                             struct dice *dice) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    int64_t row = kvmill_format_row_bytes(format);
    int64_t rows = POOL * geometry->page_size * geometry->kv_heads;
    return (struct kvmill_cache_rows){
        .data = kvmill_is_activation(format->element)
                    ? random_floats(format->element, rows * format->dim, 0, dice)
                    : random_codes(rows * row, dice),
        .row_stride = geometry->kv_heads * row,
        .head_stride = row,
    };
}

static void scene_open(struct scene *scene, json_t *json, int strange, struct dice *dice) {
    kvmill_error reason;
    int64_t order[POOL];
    *scene = (struct scene){.query = NULL};
    if (kvmill_flow_verify(flow_open_json(json, &scene->specs), &scene->problem, &reason) !=
        KVMILL_OK)
        bail_out("%s", reason.message);
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    kvmill_flow_schedule(&scene->problem, KVMILL_INDEX_PROGRAM, &scene->fused);
    kvmill_flow_schedule_steps(&scene->problem, KVMILL_INDEX_PROGRAM, &scene->steps);
    dice_order(dice, order, POOL);
    for (int p = 0; p < POOL; p++)
        scene->ids[p] = (int32_t)order[p];
    scene->cache.key = random_cache(scene, &geometry->key, dice);
    scene->cache.page_rows = geometry->page_size;
    scene->cache.value = random_cache(scene, &geometry->value, dice);
    for (int i = 0; i < scene->problem.field_count; i++) {
        const struct kvmill_flow_field_data *field = &scene->problem.fields[i];
        scene->cache.field[i] =
            random_floats(field->element, POOL * geometry->kv_heads * field->rows * field->columns,
                          field->saved ? 0 : strange, dice);
    }
    scene->query =
        random_floats(geometry->activation, geometry->heads * geometry->key.dim, strange, dice);
}

static void scene_close(struct scene *scene) {
    free(scene->cache.key.data);
    free(scene->cache.value.data);
    for (int i = 0; i < scene->problem.field_count; i++)
        free(scene->cache.field[i]);
    free(scene->query);
    spec_list_free(&scene->specs);
}

static size_t field_bytes(const struct scene *scene, int i) {
    return (size_t)(POOL * scene->problem.geometry.kv_heads * scene->problem.fields[i].bytes);
}

/* ---- Scores ---- */

/* Of the first kv head, in memory of the caller's. */
static const float *score(const struct scene *scene, const struct flow_schedule *schedule,
                          const struct flow_kernels *kernels, int64_t pages, float **workspace) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    const struct flow_scoring scoring = {
        .problem = &scene->problem,
        .schedule = schedule,
        .kernels = kernels,
        .cache = &scene->cache,
        .query = scene->query,
        .query_stride = geometry->key.dim * (geometry->activation == KVMILL_F32 ? 4 : 2),
        .ids = scene->ids,
        .pages = pages};
    *workspace = take((size_t)kvmill_flow_workspace(schedule, pages));
    return score_all(&scoring, *workspace);
}

static bool same(float a, float b) {
    return (a != a && b != b) || kvmill_bits_of_float(a) == kvmill_bits_of_float(b);
}

/* What is saved moves the same way from the same beginning. */
static bool are_scores_same(struct scene *scene, const struct flow_kernels *kernels,
                            int64_t pages) {
    unsigned char *before[KVMILL_MOST_FLOW_FIELDS], *after[KVMILL_MOST_FLOW_FIELDS];
    float *spaces[2];
    for (int i = 0; i < scene->problem.field_count; i++) {
        before[i] = take(field_bytes(scene, i));
        memcpy(before[i], scene->cache.field[i], field_bytes(scene, i));
    }
    const float *wanted = score(scene, &scene->steps, NULL, pages, &spaces[0]);
    for (int i = 0; i < scene->problem.field_count; i++) {
        after[i] = scene->cache.field[i];
        scene->cache.field[i] = before[i];
    }
    const float *found = score(scene, &scene->fused, kernels, pages, &spaces[1]);
    bool right = true;
    for (int64_t p = 0; p < pages && right; p++) {
        right = same(found[p], wanted[p]);
        if (!right)
            diag("page %" PRId64 " of %" PRId64 ": %.9g, op by op %.9g", p, pages, found[p],
                 wanted[p]);
    }
    for (int i = 0; i < scene->problem.field_count; i++) {
        right = right && memcmp(after[i], scene->cache.field[i], field_bytes(scene, i)) == 0;
        free(after[i]);
    }
    free(spaces[0]);
    free(spaces[1]);
    return right;
}

/* ---- Lists ---- */

static bool are_lists_same(const struct scene *scene, const struct flow_kernels *kernels) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    const int64_t indptr[] = {0, POOL}, length[] = {POOL * geometry->page_size};
    const struct flow_batch batch = {1, POOL, indptr, scene->ids, length, POOL};
    const struct flow_queries queries = {
        scene->query, 0, geometry->key.dim * (geometry->activation == KVMILL_F32 ? 4 : 2)};
    const struct flow_schedule *schedules[] = {&scene->steps, &scene->fused};
    struct flow_row row =
        kvmill_flow_row_of(&scene->problem.budget, geometry->page_size, length[0]);
    int32_t list[2][POOL] = {{0}};
    for (int f = 0; f < 2; f++) {
        struct flow_index index = {
            .problem = &scene->problem,
            .schedule = schedules[f],
            .kernels = f ? kernels : NULL,
            .cache = &scene->cache,
            .batch = &batch,
            .queries = &queries,
            .row_bytes = kvmill_flow_head_workspace(&scene->problem, schedules[f], POOL)};
        index.workspace =
            take((size_t)(kvmill_flow_scored_heads(&scene->problem) * index.row_bytes));
        void *workspace = take((size_t)kvmill_flow_list_workspace(&scene->problem, POOL));
        list_row(&index, 0, 0, workspace, list[f]);
        free(index.workspace);
        free(workspace);
    }
    return memcmp(list[0], list[1], (size_t)row.selected * sizeof **list) == 0;
}

static bool saves(const struct kvmill_flow_problem *problem) {
    bool saved = false;
    for (int i = 0; i < problem->field_count; i++)
        saved = saved || problem->fields[i].saved;
    return saved;
}

/* ---- All instruction sets ---- */

static int generated; /* kernels of packs that scored */

static void count_generated(const struct scene *scene, const struct flow_kernels *kernels) {
    for (int i = 0; i < scene->fused.atoms.count; i++)
        generated += strstr(kernels->score[i].by_size.kernel->symbol, "portable") == NULL;
}

static bool is_right(struct scene *scene, const struct kernel_search *search, struct dice *dice) {
    struct flow_kernels kernels;
    kvmill_flow_select_kernels(search, &scene->problem, &scene->fused, &kernels);
    count_generated(scene, &kernels);
    return are_scores_same(scene, &kernels, POOL) &&
           are_scores_same(scene, &kernels, dice_range(dice, 0, POOL)) &&
           (saves(&scene->problem) || are_lists_same(scene, &kernels));
}

static void test_flow(json_t *json, const char *name, int strange) {
    const char *isa;
    struct dice dice = dice_for(seed, name);
    struct scene scene;
    bool right = true;
    scene_open(&scene, json, strange, &dice);
    if (scene.problem.programs[KVMILL_INDEX_PROGRAM].step_count == 0) {
        scene_close(&scene);
        return;
    }
    for (size_t i = 0; (isa = kvmill_isa_name(i)) != NULL && right; i++) {
        const struct kernel_search search = {packs, PACKS, (int)i, NULL};
        if (isa_is_allowed(isa))
            right = is_right(&scene, &search, &dice);
        if (!right)
            diag("with %s", isa);
    }
    const struct kernel_search none = {NULL, 0, 0, "asked for"};
    right = right && is_right(&scene, &none, &dice);
    ok(right, "%s%s", name, strange ? ", with numbers that are none" : "");
    scene_close(&scene);
}

/* ---- Flows that ship ---- */

static void test_shipped(void) {
    for (const char *const *name = flows_shipped(); *name != NULL; name++) {
        json_t *json = flow_json(*name);
        if (json_array_size(json_object_get(json, "index")) > 0)
            json_object_set_new(json_object_get(json, "select"), "topk_val", json_integer(7));
        test_flow(json, *name, 0);
        test_flow(json, *name, 200);
        json_decref(json);
    }
}

/* Those of the tests' pack, so that all of its kernels have their turn. */
static void test_specs(const char *name) {
    const char *path = source_path("configs/specs/%s.json", name);
    json_t *json = json_load_file(path, 0, NULL), *kernels = json_object_get(json, "kernels");
    if (kernels == NULL)
        bail_out("cannot read %s", path);
    for (size_t i = 0; i < json_array_size(kernels); i++) {
        json_t *spec = json_array_get(kernels, i), *attention = json_object_get(spec, "attention");
        const char *op = json_string_value(json_object_get(spec, "op"));
        if (op == NULL || strcmp(op, "flow") != 0 || json_object_get(attention, "quant_bit"))
            continue;
        test_flow(spec, json_string_value(json_object_get(spec, "purpose")), 0);
        test_flow(spec, json_string_value(json_object_get(spec, "purpose")), 100);
    }
    json_decref(json);
}

/* ---- Random flows ---- */

/* Dots or bounds, with what is done to them: folds, and something that is none in between.  The
   query is whole, some of its channels, or its mean. */
static void print_index(FILE *out, bool bound, struct dice *dice) {
    static const char *const folds[] = {"Max", "Mean", "Sum", "Min"};
    const char *query = "q", *x = "x";
    if (dice_once_in(dice, 3)) {
        fprintf(out, "<mask = MaskSlice q dim=2 start=3 end=\"head_dim\" alpha=1 beta=0>, ");
        fprintf(out, "<some = Multiply q mask>, ");
        query = "some";
    }
    if (dice_once_in(dice, 3)) {
        fprintf(out, "<mean = Mean %s dim=1>, ", query);
        query = "mean";
    }
    if (bound)
        fprintf(out,
                "<above = Kron %s c dim=1>, <below = Kron %s d dim=1>, "
                "<most = Maximum above below>, <x = Sum most dim=2>, ",
                query, query);
    else
        fprintf(out, "<x = GeMM %s c>, ", query);
    if (dice_once_in(dice, 3)) {
        fprintf(out, "<y = Abs x>, ");
        x = "y";
    }
    int first = (int)dice_range(dice, 1, 2);
    fprintf(out, "<f = %s %s dim=%d>, ", folds[dice_range(dice, 0, 3)], x, first);
    fprintf(out, "<g = %s f dim=%d>, <topK g>", folds[dice_range(dice, 0, 3)], 3 - first);
}

static json_t *random_flow(struct dice *dice) {
    static const char *const dtypes[] = {"float32", "float16", "bfloat16"};
    const char *dtype = dtypes[dice_range(dice, 0, 2)];
    int kv_heads = (int)dice_range(dice, 1, 2), blocks = (int)dice_range(dice, 1, 4);
    int heads = kv_heads * (int)dice_range(dice, 1, dice_once_in(dice, 5) ? 16 : 5);
    bool bound = dice_once_in(dice, 2);
    char attention[200], *given = NULL;
    size_t size;
    FILE *out = open_memstream(&given, &size);
    snprintf(attention, sizeof attention,
             "\"num_heads\": %d, \"num_kv_heads\": %d, \"head_dim\": %d, \"page_size\": %d, "
             "\"T1\": \"%s\"",
             heads, kv_heads, (int)dice_range(dice, 4, dice_once_in(dice, 3) ? 300 : 40),
             4 * blocks, dtypes[dice_range(dice, 0, 2)]);
    fprintf(out, "\"fields\": [");
    for (int f = 0; f <= bound; f++)
        fprintf(out, "%s{\"name\": \"%c\", \"shape\": [%d, \"head_dim\"], \"dtype\": \"%s\"}",
                f ? ", " : "", 'c' + f, blocks, dtype);
    fprintf(out, "], \"cache\": [<c = MaxInterleave k dim=1 group=4>%s], \"index\": [",
            bound ? ", <d = MinInterleave k dim=1 group=4>" : "");
    print_index(out, bound, dice);
    fprintf(out, "]");
    fclose(out);
    char *text = flow_text("bare", given, attention);
    json_t *json = json_loads(text, 0, NULL);
    free(given);
    free(text);
    return json;
}

static void test_random(void) {
    for (int i = 0; i < (is_slow_run() ? few_cases(5) : 150); i++) {
        char name[64];
        snprintf(name, sizeof name, "random flow %d", i);
        struct dice dice = dice_for(seed, name);
        json_t *json = random_flow(&dice);
        test_flow(json, name, i % 3 == 0 ? 100 : 0);
        json_decref(json);
    }
}

int main(void) {
    seed = dice_seed();
    test_shipped();
    test_specs("test");
    test_specs("few");
    test_random();
    ok(generated > 0, "%d of the scores were a generated kernel's", generated);
    return done_testing();
}
