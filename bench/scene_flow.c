/* Sparse flows: a pool of pages that is larger than the processor's caches, requests that take
   turns in it, and new queries in every call.  New tokens are a request's last ones.

   SPDX-License-Identifier: Apache-2.0 */
#include "scene_flow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/flow_tensors.h"
#include "attention_work.h"
#include "scene_fill.h"
#include "scene_op.h"

static const int64_t most_bytes = INT64_C(6) << 30;

static const struct kvmill_cache_geometry *geometry_of(const struct scene *scene) {
    return &scene->flow.problem.geometry;
}

/* ---- Sizes ---- */

int64_t flow_blocks(const struct scene *scene) {
    int64_t size = scene->flow.problem.block_size;
    return (scene->size.positions + size - 1) / size;
}

bool flow_pages_in_order(const struct scene *scene) {
    return scene->flow.problem.field_layout == KVMILL_FIELDS_BY_HEAD;
}

static int64_t pool_pages(const struct scene *scene) {
    return scene->flow.pages * scene->flow.requests;
}

static double flow_attend_bytes(const struct scene *scene, int64_t blocks) {
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    return (double)(blocks * scene->flow.problem.block_size * attention_row_bytes(g));
}

static bool is_loaded(const struct kvmill_flow_program *program, int source, int number) {
    for (int i = 0; i < program->value_count; i++)
        if ((int)program->values[i].source == source && program->values[i].number == number)
            return program->values[i].uses > 0;
    return false;
}

double flow_index_bytes(const struct scene *scene) {
    const struct kvmill_flow_problem *problem = &scene->flow.problem;
    const struct kvmill_flow_program *program = &problem->programs[KVMILL_INDEX_PROGRAM];
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    int64_t bytes = 0;
    for (int i = 0; i < problem->field_count; i++)
        if (is_loaded(program, KVMILL_FLOW_FIELD, i))
            bytes += problem->fields[i].bytes;
    if (is_loaded(program, KVMILL_FLOW_KEY, 0))
        bytes += problem->block_size * attention_format_bytes(&g->key);
    if (is_loaded(program, KVMILL_FLOW_VALUE, 0))
        bytes += problem->block_size * attention_format_bytes(&g->value);
    return (double)(bytes * g->kv_heads * flow_candidates(scene));
}

int64_t flow_selected(const struct scene *scene) {
    int64_t blocks = flow_blocks(scene);
    int64_t most = kvmill_flow_budget_of(&scene->flow.problem.budget, blocks);
    return most < blocks ? most : blocks;
}

int64_t flow_candidates(const struct scene *scene) {
    const struct kvmill_flow_budget *budget = &scene->flow.problem.budget;
    bool scores = kvmill_flow_scores(budget) && flow_selected(scene) < flow_blocks(scene);
    return scores ? flow_blocks(scene) - budget->bos - budget->eos : 0;
}

static int64_t new_tokens(const struct scene_call *call) {
    return call->size.tokens > 1 ? call->size.tokens : 1;
}

static double flow_flops(const struct scene_call *call) {
    const struct run_size size = {1, new_tokens(call), call->size.positions};
    return call->step == STEP_ATTEND ? attention_flops(geometry_of(call->scene), &size) : 0;
}

static double flow_bytes(const struct scene_call *call) {
    const struct scene *scene = call->scene;
    const struct run_size size = {1, new_tokens(call), call->size.positions};
    if (call->step == STEP_APPEND)
        return attention_store_bytes(geometry_of(scene), &size);
    if (call->step == STEP_INDEX)
        return flow_index_bytes(scene);
    if (call->step == STEP_ATTEND)
        return flow_attend_bytes(scene, flow_blocks(scene));
    return flow_attend_bytes(scene, flow_selected(scene)) + flow_index_bytes(scene);
}

/* ---- Opening ---- */

/* Fields that are not apart share the memory of the first. */
static void use_own(struct scene *scene) {
    bool is_apart = scene->flow.problem.field_layout == KVMILL_FIELDS_APART;
    struct kvmill_flow_tensor own;
    for (int i = 0; kvmill_flow_tensor_at(&scene->flow.bound, i, &own); i++) {
        bool is_field = own.kind == KVMILL_FLOW_TENSOR_FIELD;
        scene->use[KVMILL_FLOW_FIELDS + i] = is_field ? USE_SAME : USE_INPUT;
        if (is_field && !is_apart)
            scene->share[KVMILL_FLOW_FIELDS + i] = KVMILL_FLOW_FIELDS;
    }
}

static bool open_flow(struct scene *scene, struct error *error) {
    const kvmill_flow *flow = flow_of_spec(scene->spec);
    kvmill_error reason;
    scene->flow.attention = one_layer_of(flow->attention);
    scene->flow.bound = *flow;
    scene->flow.bound.attention = &scene->flow.attention;
    scene->flow.bound.layers_skip_count = 0;
    if (kvmill_flow_verify(&scene->flow.bound, &scene->flow.problem, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s", reason.message);
    use_own(scene);
    int64_t page = geometry_of(scene)->page_size;
    scene->flow.pages = (scene->size.positions + page - 1) / page;
    double each = flow_attend_bytes(scene, scene->flow.pages * scene->flow.problem.page_blocks);
    scene->flow.requests = 1 + (int64_t)((double)scene->rotation / each);
    return each * (double)scene->flow.requests <= (double)most_bytes ||
           fail(error, EXIT_ENVIRONMENT, "not enough memory for %" PRId64 " pages",
                pool_pages(scene));
}

static bool set_slots(struct scene *scene, struct error *error) {
    int64_t size = geometry_of(scene)->page_size, count = pool_pages(scene) * size;
    free(scene->flow.slots);
    scene->flow.slots = malloc((size_t)count * sizeof *scene->flow.slots);
    for (int64_t i = 0; scene->flow.slots != NULL && i < count; i++)
        scene->flow.slots[i] = scene->flow.ids[i / size] * size + i % size;
    return scene->flow.slots != NULL || out_of_memory(error);
}

/* Pages are in random order, unless the fields require adjacent pages. */
static bool shuffle_pages(struct scene *scene, struct error *error) {
    int64_t count = pool_pages(scene);
    bool in_order = flow_pages_in_order(scene);
    uint64_t state = 1;
    free(scene->flow.ids);
    scene->flow.ids = malloc((size_t)count * sizeof *scene->flow.ids);
    for (int64_t i = 0; scene->flow.ids != NULL && i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int64_t j = in_order ? i : (int64_t)((state >> 33) % (uint64_t)(i + 1));
        scene->flow.ids[i] = scene->flow.ids[j];
        scene->flow.ids[j] = (int32_t)i;
    }
    return scene->flow.ids != NULL ? set_slots(scene, error) : out_of_memory(error);
}

static void close_flow(struct scene *scene) {
    free(scene->flow.ids);
    free(scene->flow.slots);
}

/* ---- Tensors ---- */

static void lay_field(struct scene_call *call, int i) {
    const struct kvmill_flow_problem *problem = &call->scene->flow.problem;
    DLTensor *tensor = &call->tensors[KVMILL_FLOW_FIELDS + i];
    const struct kvmill_field_place place = kvmill_flow_field_place(problem, i, tensor->shape[0]);
    int64_t element = tensor->dtype.bits / 8;
    const int64_t strides[] = {place.block / element, place.head / element, tensor->shape[3], 1};
    if (problem->field_layout == KVMILL_FIELDS_APART)
        return;
    memcpy(call->strides[i], strides, sizeof strides);
    tensor->strides = call->strides[i];
    tensor->byte_offset = (uint64_t)place.first;
}

/* Sets dims: fields have all pages, rows one for each new token, inputs one request. */
static void shape_own(struct scene_call *call, int i, struct kvmill_flow_tensor *own) {
    bool scores = call->step == STEP_RUN || call->step == STEP_INDEX;
    const bool used[] = {[KVMILL_FLOW_TENSOR_FIELD] = call->step != STEP_ATTEND,
                         [KVMILL_FLOW_TENSOR_ROWS] = call->step == STEP_APPEND,
                         [KVMILL_FLOW_TENSOR_INPUT] = scores};
    int64_t blocks = pool_pages(call->scene) * call->scene->flow.problem.page_blocks;
    own->dims[0] = own->kind == KVMILL_FLOW_TENSOR_FIELD  ? blocks
                   : own->kind == KVMILL_FLOW_TENSOR_ROWS ? new_tokens(call)
                                                          : 1;
    scene_set_tensor(call, KVMILL_FLOW_FIELDS + i, own->dtype, own->rank, own->dims);
    if (own->kind == KVMILL_FLOW_TENSOR_FIELD)
        lay_field(call, i);
    if (!used[own->kind])
        call->given[KVMILL_FLOW_FIELDS + i] = NULL;
}

/* Sets the tensors of a step: those of its description, pages, and the lists that it makes. */
static void shape_step(struct scene_call *call, const struct op *step) {
    const struct scene *scene = call->scene;
    const struct kvmill_cache_geometry *g = geometry_of(scene);
    int64_t rows = kvmill_flow_rows_of_request(&scene->flow.problem), starts = rows + 1;
    int64_t list = rows * flow_selected(scene);
    const int64_t two = 2;
    const struct op_dim words[] = {
        {"B", 1},          {"T", new_tokens(call)}, {"H", g->heads}, {"KVH", g->kv_heads},
        {"D", g->key.dim}, {"E", g->value.dim},     {NULL, 0}};
    scene_set_described(call, step, &scene->flow.attention, words);
    if (step->number != OP_FLOW_APPEND && step->number != OP_FLOW_SUMMARISE)
        scene_set_tensor(call, KVMILL_FLOW_PAGE_IDS, kvmill_int32, 1, &scene->flow.pages);
    if (step->number == OP_FLOW_ATTEND && new_tokens(call) > 1)
        scene_set_tensor(call, KVMILL_CACHE_ATTENTION_SEQSTARTS, kvmill_int64, 1, &two);
    if (step->number == OP_FLOW_INDEX) {
        scene_set_tensor(call, KVMILL_FLOW_SEL_INDPTR, kvmill_int64, 1, &starts);
        scene_set_tensor(call, KVMILL_FLOW_SEL, kvmill_int32, 1, &list);
    }
}

/* Sets the tensors of all steps, for memory; then gives those of the call's step. */
static void shape_flow(struct scene_call *call) {
    static const int numbers[SCENE_STEPS] = {[STEP_RUN] = OP_FLOW_DECODE,
                                             [STEP_APPEND] = OP_FLOW_APPEND,
                                             [STEP_INDEX] = OP_FLOW_INDEX,
                                             [STEP_ATTEND] = OP_FLOW_ATTEND};
    for (int i = 0; i < OP_FLOW_STEPS; i++)
        shape_step(call, &kvmill_flow_steps[i]);
    memset(call->given, 0, sizeof call->given);
    shape_step(call, &kvmill_flow_steps[numbers[call->step]]);
    const struct scene *scene = call->scene;
    for (int i = 0; i < SIDES; i++)
        side_shape(call, &scene->flow.attention, geometry_of(scene), i,
                   pool_pages(scene) * geometry_of(scene)->page_size);
    struct kvmill_flow_tensor own;
    for (int i = 0; kvmill_flow_tensor_at(&scene->flow.bound, i, &own); i++)
        shape_own(call, i, &own);
}

/* Fields have random numbers for all pages, so that no two pages have the same score. */
static bool fill_flow(struct scene *scene, int tensor) {
    int side = tensor - KVMILL_CACHE_ATTENTION_CACHE, number = tensor - KVMILL_FLOW_FIELDS;
    struct kvmill_flow_tensor own;
    if (side >= 0 && side < SIDES)
        side_fill(scene, geometry_of(scene), side);
    else if (number >= 0 && kvmill_flow_tensor_at(&scene->flow.bound, number, &own))
        fill_memory_floats(&scene->memory[tensor], kvmill_element_of(own.dtype), 1,
                           (uint32_t)(SIDES + number));
    else
        return false;
    return true;
}

/* ---- The next request ---- */

static void move_flow(struct scene_call *call, int64_t turn) {
    const struct scene *scene = call->scene;
    int64_t first = turn % scene->flow.requests * scene->flow.pages;
    int32_t *ids = scene->flow.ids + first;
    const int64_t numbers[] = {scene->size.positions, 0, scene->flow.pages, 0, new_tokens(call)};
    memcpy(call->numbers, numbers, sizeof numbers);
    call->tensors[KVMILL_FLOW_SLOT_MAPPING].data = scene->flow.slots +
                                                   first * geometry_of(scene)->page_size +
                                                   (call->size.positions - new_tokens(call));
    call->tensors[KVMILL_FLOW_SEQ_LEN].data = call->numbers;
    call->tensors[KVMILL_FLOW_PAGE_INDPTR].data = call->numbers + 1;
    call->tensors[KVMILL_CACHE_ATTENTION_SEQSTARTS].data = call->numbers + 3;
    call->tensors[KVMILL_FLOW_PAGE_IDS].data = ids;
}

static kvmill_status plan_flow(const struct scene_call *call, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *reason) {
    static kvmill_status (*const makers[SCENE_STEPS])(
        const kvmill_flow *, const kvmill_flow_limits *, const kvmill_plan_options *,
        kvmill_plan **, kvmill_error *) = {[STEP_RUN] = kvmill_plan_flow_decode,
                                           [STEP_APPEND] = kvmill_plan_flow_append,
                                           [STEP_INDEX] = kvmill_plan_flow_index,
                                           [STEP_ATTEND] = kvmill_plan_flow_attend};
    const struct scene *scene = call->scene;
    const kvmill_flow_limits limits = {sizeof limits, 1, scene->flow.pages, pool_pages(scene)};
    return makers[call->step](&scene->flow.bound, &limits, options, plan, reason);
}

static bool knows_flow(const struct spec *spec) {
    return spec_is(spec, OP_FLOW);
}

static struct kvmill_cache_geometry arithmetic(const struct scene *scene) {
    return *geometry_of(scene);
}

const struct scene_op flow_scene_op = {
    .words = "flow",
    .knows = knows_flow,
    .open = open_flow,
    .shape = shape_flow,
    .fill = fill_flow,
    .finish = shuffle_pages,
    .close = close_flow,
    .plan = plan_flow,
    .move = move_flow,
    .bytes = flow_bytes,
    .flops = flow_flops,
    .arithmetic = arithmetic,
    .rotation = 512 << 20,
    .count = SCENE_TENSORS,
    .use = {[KVMILL_CACHE_ATTENTION_QUERY] = USE_INPUT,
            [KVMILL_CACHE_ATTENTION_CURRENT_KEY] = USE_INPUT,
            [KVMILL_CACHE_ATTENTION_CURRENT_VALUE] = USE_INPUT,
            [KVMILL_CACHE_ATTENTION_CACHE] = USE_SAME,
            [KVMILL_CACHE_ATTENTION_SCALE] = USE_SAME,
            [KVMILL_CACHE_ATTENTION_VALUE_CACHE] = USE_SAME,
            [KVMILL_CACHE_ATTENTION_VALUE_SCALE] = USE_SAME,
            [KVMILL_CACHE_ATTENTION_ATTN_OUTPUT] = USE_SAME,
            [KVMILL_FLOW_SEL_INDPTR] = USE_SAME,
            [KVMILL_FLOW_SEL] = USE_SAME},
    .output = KVMILL_CACHE_ATTENTION_ATTN_OUTPUT,
    .read = KVMILL_CACHE_ATTENTION_CACHE,
    .written = {KVMILL_FLOW_SEL},
    .appended = {KVMILL_CACHE_ATTENTION_CACHE, KVMILL_CACHE_ATTENTION_SCALE,
                 KVMILL_CACHE_ATTENTION_VALUE_CACHE, KVMILL_CACHE_ATTENTION_VALUE_SCALE},
};
