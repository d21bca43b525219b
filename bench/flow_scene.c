/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_scene.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime/numbers.h"
#include "attention_fill.h"
#include "memory.h"

enum { RING_BYTES = 8 << 20, PATTERN_ROWS = 1021, PATTERN_NUMBERS = 262147, LINE = 64 };
static const int64_t most_bytes = INT64_C(6) << 30;

static const struct kvmill_cache_geometry *geometry_of(const struct flow_scene *scene) {
    return &scene->problem.geometry;
}

/* ---- Sizes ---- */

static int64_t pool_pages(const struct flow_scene *scene) {
    return scene->pages * scene->requests;
}

static int64_t cache_row_bytes(const struct kvmill_format *format) {
    return kvmill_format_row_bytes(format) + kvmill_format_scale_bytes(format);
}

double flow_attend_bytes(const struct flow_scene *scene, int64_t pages) {
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    return (double)(pages * g->page_size * g->kv_heads *
                    (cache_row_bytes(&g->key) + cache_row_bytes(&g->value)));
}

static bool is_loaded(const struct kvmill_flow_program *program, int source, int number) {
    for (int i = 0; i < program->value_count; i++)
        if ((int)program->values[i].source == source && program->values[i].number == number)
            return program->values[i].uses > 0;
    return false;
}

double flow_index_bytes(const struct flow_scene *scene) {
    const struct kvmill_flow_program *program = &scene->problem.programs[KVMILL_INDEX_PROGRAM];
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    int64_t bytes = 0;
    for (int i = 0; i < scene->problem.field_count; i++)
        if (is_loaded(program, KVMILL_FLOW_FIELD, i))
            bytes += scene->problem.fields[i].bytes;
    if (is_loaded(program, KVMILL_FLOW_KEY, 0))
        bytes += g->page_size * cache_row_bytes(&g->key);
    if (is_loaded(program, KVMILL_FLOW_VALUE, 0))
        bytes += g->page_size * cache_row_bytes(&g->value);
    return (double)(bytes * g->kv_heads * flow_candidates(scene));
}

int64_t flow_selected(const struct flow_scene *scene) {
    int64_t most = kvmill_flow_budget_of(&scene->problem.budget, scene->pages);
    return most < scene->pages ? most : scene->pages;
}

int64_t flow_candidates(const struct flow_scene *scene) {
    const struct kvmill_flow_budget *budget = &scene->problem.budget;
    bool scores = kvmill_flow_scores(budget) && flow_selected(scene) < scene->pages;
    return scores ? scene->pages - budget->bos - budget->eos : 0;
}

/* ---- Memory ---- */

static bool reserve(unsigned char **data, int64_t *at, int64_t bytes) {
    *data = bench_memory_get(bytes);
    *at = *data != NULL ? bytes : 0;
    return *data != NULL;
}

static int64_t kinds_of(const struct flow_scene *scene) {
    return geometry_of(scene)->value_differs ? 1 : 2;
}

static bool fill_side(struct flow_scene *scene, int side) {
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    const struct kvmill_format *format = side < 2 ? &g->key : &g->value;
    bool is_scale = side % 2 == 1, there = side < 2 || g->value_differs;
    int64_t row = is_scale ? kvmill_format_scale_bytes(format) : kvmill_format_row_bytes(format);
    int64_t bytes = pool_pages(scene) * g->page_size * g->kv_heads * kinds_of(scene) * row, part;
    uint32_t state = (uint32_t)side;
    if (!there || row == 0)
        return true;
    if (!reserve(&scene->side[side].data, &scene->side[side].bytes, bytes))
        return false;
    part = PATTERN_ROWS * row < bytes ? PATTERN_ROWS * row : bytes;
    (is_scale ? fill_scales : fill_rows)(format, scene->side[side].data, part, &state);
    fill_repeat(scene->side[side].data, bytes, part);
    return true;
}

/* Numbers for every page, so that no two pages score alike. */
static bool fill_field(struct flow_scene *scene, int i) {
    const struct kvmill_flow_field_data *field = &scene->problem.fields[i];
    int64_t bytes = pool_pages(scene) * geometry_of(scene)->kv_heads * field->bytes;
    int64_t size = kvmill_activation_bytes(field->element);
    int64_t part = PATTERN_NUMBERS * size < bytes ? PATTERN_NUMBERS * size : bytes;
    uint32_t state = (uint32_t)(SIDES + i);
    if (!reserve(&scene->field[i].data, &scene->field[i].bytes, bytes))
        return false;
    fill_floats(field->element, scene->field[i].data, part / size, -1, 1, &state);
    fill_repeat(scene->field[i].data, bytes, part);
    return true;
}

static bool fill_ring(struct flow_scene *scene) {
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    int64_t size = kvmill_activation_bytes(g->activation);
    uint32_t state = 99;
    scene->output_bytes = g->heads * g->value.dim * (int64_t)sizeof(float);
    scene->output = bench_memory_get(scene->output_bytes);
    if (scene->output == NULL || !reserve(&scene->ring, &scene->ring_bytes, RING_BYTES))
        return false;
    fill_floats(g->activation, scene->ring, PATTERN_NUMBERS, -3, 3, &state);
    fill_repeat(scene->ring, scene->ring_bytes, PATTERN_NUMBERS * size);
    return true;
}

static bool shuffle_pages(struct flow_scene *scene) {
    int64_t count = pool_pages(scene);
    uint64_t state = 1;
    scene->ids = malloc((size_t)count * sizeof *scene->ids);
    for (int64_t i = 0; scene->ids != NULL && i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int64_t j = (int64_t)((state >> 33) % (uint64_t)(i + 1));
        scene->ids[i] = scene->ids[j];
        scene->ids[j] = (int32_t)i;
    }
    return scene->ids != NULL;
}

static int64_t list_room(const struct flow_scene *scene) {
    return kvmill_flow_rows_of_request(&scene->problem) * flow_selected(scene);
}

static bool make_lists(struct flow_scene *scene) {
    scene->starts =
        malloc((size_t)(kvmill_flow_rows_of_request(&scene->problem) + 1) * sizeof *scene->starts);
    scene->list = malloc((size_t)list_room(scene) * sizeof *scene->list);
    return scene->starts != NULL && scene->list != NULL;
}

static bool fill_all(struct flow_scene *scene, struct error *error) {
    bool done = shuffle_pages(scene) && make_lists(scene) && fill_ring(scene);
    for (int i = 0; done && i < SIDES; i++)
        done = fill_side(scene, i);
    for (int i = 0; done && i < scene->problem.field_count; i++)
        done = fill_field(scene, i);
    return done || fail(error, EXIT_ENVIRONMENT, "not enough memory for %" PRId64 " pages",
                        pool_pages(scene));
}

/* ---- Opening ---- */

bool flow_scene_plan(const struct flow_scene *scene, enum flow_plan_kind kind,
                     const kvmill_plan_options *options, struct owned_plan *plan,
                     struct error *error) {
    static kvmill_status (*const makers[FLOW_PLANS])(
        const kvmill_flow *, const kvmill_flow_limits *, const kvmill_plan_options *,
        kvmill_plan **, kvmill_error *) = {kvmill_plan_flow_append, kvmill_plan_flow_index,
                                           kvmill_plan_flow_attend, kvmill_plan_flow_decode};
    const kvmill_flow_limits limits = {sizeof limits, 1, scene->pages, pool_pages(scene)};
    kvmill_error reason;
    *plan = (struct owned_plan){0};
    kvmill_status status = makers[kind](&scene->bound, &limits, options, &plan->plan, &reason);
    return owned_plan_finish(plan, status, &reason, error);
}

static bool make_plans(struct flow_scene *scene, const struct attention_setting *setting,
                       struct error *error) {
    const kvmill_plan_options options = {.struct_size = sizeof options,
                                         .packs = &setting->pack,
                                         .pack_count = 1,
                                         .threads = setting->threads};
    bool done = true;
    for (int i = 0; done && i < FLOW_PLANS; i++)
        done = flow_scene_plan(scene, (enum flow_plan_kind)i, &options, &scene->plans[i], error);
    return done;
}

static void bind(struct flow_scene *scene, const kvmill_flow *flow) {
    *scene = (struct flow_scene){.flow = flow, .attention = *flow->attention, .bound = *flow};
    scene->attention.num_layer = 1;
    scene->attention.layer_idx = 0;
    scene->attention.partial = 0;
    scene->bound.attention = &scene->attention;
    scene->bound.layers_skip_count = 0;
}

bool flow_scene_open(struct flow_scene *scene, const kvmill_flow *flow,
                     const struct attention_setting *setting, int64_t positions,
                     struct error *error) {
    kvmill_error reason;
    bind(scene, flow);
    if (kvmill_flow_verify(&scene->bound, &scene->problem, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s", reason.message);
    int64_t size = geometry_of(scene)->page_size;
    scene->positions = positions;
    scene->pages = (positions + size - 1) / size;
    double bytes = flow_attend_bytes(scene, scene->pages);
    scene->requests = 1 + (int64_t)((double)setting->rotation / bytes);
    if (bytes * (double)scene->requests > (double)most_bytes)
        return fail(error, EXIT_ENVIRONMENT, "not enough memory for %" PRId64 " pages",
                    pool_pages(scene));
    return fill_all(scene, error) && make_plans(scene, setting, error);
}

void flow_scene_close(struct flow_scene *scene) {
    for (int i = 0; i < FLOW_PLANS; i++)
        owned_plan_close(&scene->plans[i]);
    for (int i = 0; i < SIDES; i++)
        bench_memory_release(scene->side[i].data, scene->side[i].bytes);
    for (int i = 0; i < scene->problem.field_count; i++)
        bench_memory_release(scene->field[i].data, scene->field[i].bytes);
    bench_memory_release(scene->ring, scene->ring_bytes);
    bench_memory_release(scene->output, scene->output_bytes);
    free(scene->ids);
    free(scene->starts);
    free(scene->list);
}

/* ---- Rotation ---- */

static int64_t next_request(struct flow_scene *scene) {
    scene->next = (scene->next + 1) % scene->requests;
    return scene->next;
}

static unsigned char *next_activations(struct flow_scene *scene, int64_t bytes) {
    if (scene->ring_next + bytes > scene->ring_bytes)
        scene->ring_next = 0;
    unsigned char *at = scene->ring + scene->ring_next;
    scene->ring_next += (bytes + LINE - 1) / LINE * LINE;
    return at;
}

const unsigned char *flow_next_bytes(struct flow_scene *scene, int64_t bytes) {
    int64_t places = scene->side[0].bytes / bytes;
    return scene->side[0].data + next_request(scene) * places / scene->requests * bytes;
}

/* ---- A call's tensors ---- */

static const DLDataType int64_type = {kDLInt, 64, 1}, int32_type = {kDLInt, 32, 1};

static void set_tensor(struct flow_bench_call *call, int which, DLDataType type, int rank,
                       const int64_t *dims, void *data) {
    memcpy(call->shapes[which], dims, (size_t)rank * sizeof *dims);
    call->tensors[which] = (DLTensor){.data = data,
                                      .device = {kDLCPU, 0},
                                      .ndim = rank,
                                      .dtype = type,
                                      .shape = call->shapes[which]};
    call->given[which] = &call->tensors[which];
}

static void set_side(struct flow_bench_call *call, int side) {
    const struct flow_scene *scene = call->scene;
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    if (scene->side[side].data == NULL)
        return;
    int64_t slots = pool_pages(scene) * g->page_size, kinds = kinds_of(scene);
    int64_t last = attention_last_dim(side < 2 ? &g->key : &g->value, side % 2 == 1);
    const int64_t dims[][6] = {{slots, 1, kinds, g->kv_heads, last},
                               {1, slots, kinds, g->kv_heads, last},
                               {1, kinds, slots, g->kv_heads, last},
                               {1, kinds, g->kv_heads, slots, last},
                               {1, kinds, pool_pages(scene), g->kv_heads, g->page_size, last}};
    int rank = g->layout == 4 ? 6 : 5;
    set_tensor(call, KVMILL_CACHE + side, attention_side_type(&scene->attention, side), rank,
               dims[g->layout], scene->side[side].data);
}

static void set_field(struct flow_bench_call *call, int i) {
    const struct flow_scene *scene = call->scene;
    const struct kvmill_flow_field_data *field = &scene->problem.fields[i];
    const int64_t dims[] = {pool_pages(scene), geometry_of(scene)->kv_heads, field->rows,
                            field->columns};
    set_tensor(call, KVMILL_FLOW_FIELDS + i, scene->flow->fields[i].dtype, 4, dims,
               scene->field[i].data);
}

static void set_activations(struct flow_bench_call *call, int which, int64_t heads, int64_t dim) {
    const int64_t dims[] = {1, heads, dim};
    set_tensor(call, which, call->scene->attention.T1, 3, dims, call->scene->output);
}

static void set_append(struct flow_bench_call *call) {
    const struct kvmill_cache_geometry *g = geometry_of(call->scene);
    const int64_t one = 1;
    set_activations(call, KVMILL_CURRENT_KEY, g->kv_heads, g->key.dim);
    set_activations(call, KVMILL_CURRENT_VALUE, g->kv_heads, g->value.dim);
    set_tensor(call, KVMILL_SLOT_MAPPING, int64_type, 1, &one, &call->slot);
}

static void set_request(struct flow_bench_call *call) {
    const struct flow_scene *scene = call->scene;
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    const int64_t one = 1, two = 2;
    call->length = scene->positions;
    call->indptr[1] = scene->pages;
    set_activations(call, KVMILL_QUERY, g->heads, g->key.dim);
    set_tensor(call, KVMILL_SEQ_LEN, int64_type, 1, &one, &call->length);
    set_tensor(call, KVMILL_PAGE_INDPTR, int64_type, 1, &two, call->indptr);
    set_tensor(call, KVMILL_PAGE_IDS, int32_type, 1, &scene->pages, scene->ids);
    if (call->kind != PLAN_INDEX)
        set_activations(call, KVMILL_ATTN_OUTPUT, g->heads, g->value.dim);
}

static void set_lists(struct flow_bench_call *call) {
    const struct flow_scene *scene = call->scene;
    int64_t starts = kvmill_flow_rows_of_request(&scene->problem) + 1, list = list_room(scene);
    set_tensor(call, KVMILL_SEL_INDPTR, int64_type, 1, &starts, scene->starts);
    set_tensor(call, KVMILL_SEL, int32_type, 1, &list, scene->list);
}

/* ---- The next request ---- */

static void move_append(struct flow_bench_call *call, int64_t request) {
    struct flow_scene *scene = call->scene;
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    int64_t size = kvmill_activation_bytes(g->activation), page = scene->pages - 1;
    call->slot = scene->ids[request * scene->pages + page] * g->page_size + call->slot_in_page;
    for (int v = 0; v < 2; v++)
        call->tensors[KVMILL_CURRENT_KEY + v].data =
            next_activations(scene, g->kv_heads * (v ? g->value.dim : g->key.dim) * size);
}

static void move_request(struct flow_bench_call *call, int64_t request) {
    struct flow_scene *scene = call->scene;
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    call->tensors[KVMILL_PAGE_IDS].data = scene->ids + request * scene->pages;
    call->tensors[KVMILL_QUERY].data =
        next_activations(scene, g->heads * g->key.dim * kvmill_activation_bytes(g->activation));
}

void flow_call_move(struct flow_bench_call *call) {
    int64_t request = next_request(call->scene);
    if (call->kind == PLAN_APPEND)
        move_append(call, request);
    else
        move_request(call, request);
}

void flow_call_open(struct flow_bench_call *call, struct flow_scene *scene,
                    enum flow_plan_kind kind, struct pool *pool) {
    *call = (struct flow_bench_call){.scene = scene, .kind = kind, .pool = pool};
    for (int i = 0; i < SIDES; i++)
        set_side(call, i);
    for (int i = 0; kind != PLAN_ATTEND && i < scene->problem.field_count; i++)
        set_field(call, i);
    if (kind == PLAN_APPEND)
        set_append(call);
    else
        set_request(call);
    if (kind == PLAN_INDEX)
        set_lists(call);
    flow_call_move(call);
}

/* ---- Running ---- */

kvmill_status flow_call_run_by(struct flow_bench_call *call, const struct owned_plan *plan,
                               struct pool *pool, kvmill_error *reason) {
    if (pool_threads(pool) == 1)
        return kvmill_run(plan->plan, call->given, plan->workspace, reason);
    return kvmill_run_parallel(plan->plan, call->given, plan->workspace, pool_for, pool, reason);
}

kvmill_status flow_call_run(struct flow_bench_call *call, kvmill_error *reason) {
    flow_call_move(call);
    return flow_call_run_by(call, &call->scene->plans[call->kind], call->pool, reason);
}

bool flow_call_check(struct flow_bench_call *call, struct pool *alone, struct error *error) {
    const struct flow_scene *scene = call->scene;
    const struct owned_plan *plan = &scene->plans[call->kind];
    size_t bytes = (size_t)scene->output_bytes;
    unsigned char *expected = malloc(bytes);
    kvmill_error reason;
    if (expected == NULL)
        return out_of_memory(error);
    kvmill_status status = flow_call_run_by(call, plan, alone, &reason);
    memcpy(expected, scene->output, bytes);
    memset(scene->output, 0xff, bytes);
    if (status == KVMILL_OK)
        status = flow_call_run_by(call, plan, call->pool, &reason);
    size_t written = (size_t)(geometry_of(scene)->heads * geometry_of(scene)->value.dim *
                              kvmill_activation_bytes(geometry_of(scene)->activation));
    bool same = memcmp(expected, scene->output, written) == 0;
    free(expected);
    if (status != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s: %s", kvmill_status_name(status), reason.message);
    return same || fail(error, EXIT_BUG, "%d threads and one give different outputs",
                        pool_threads(call->pool));
}
