/* Gather, and scatter of one input: whole tensors, whose dims are in the spec.

   SPDX-License-Identifier: Apache-2.0 */
#include "scene_windows.h"

#include <stdlib.h>
#include <string.h>

#include "../ops/gather.h"
#include "../ops/scatter.h"
#include "limits.h"
#include "scene_fill.h"
#include "scene_op.h"

static void give(struct scene_call *call, int which, const DLTensor *tensor) {
    call->tensors[which] = *tensor;
    call->given[which] = &call->tensors[which];
}

bool windows_move(const struct scene *scene) {
    struct scene_call call = {.scene = (struct scene *)(uintptr_t)scene, .size = scene->size};
    scene->op->shape(&call);
    int last = scene->op == &gather_scene_op ? KVMILL_GATHER_RESULT : 2;
    return scene_bytes_of(scene, &call.tensors[last]) > 0 &&
           scene_bytes_of(scene, &call.tensors[0]) > 0;
}

/* ---- Gather ---- */

static bool open_gather(struct scene *scene, struct error *error) {
    kvmill_error reason;
    gather_view_make(scene->spec->gather, &scene->gather.view);
    if (kvmill_gather_check(&scene->gather.view.op, &scene->gather.windows, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s: %s", scene->spec->where, reason.message);
    kvmill_gather_result(&scene->gather.windows, scene->gather.result);
    return true;
}

static void shape_gather(struct scene_call *call) {
    struct scene *scene = call->scene;
    DLTensor result = scene->gather.view.operand;
    result.ndim = scene->gather.windows.windowed_rank;
    result.shape = scene->gather.result;
    give(call, KVMILL_GATHER_OPERAND, &scene->gather.view.operand);
    give(call, KVMILL_GATHER_START_INDICES, &scene->gather.view.start_indices);
    give(call, KVMILL_GATHER_RESULT, &result);
}

/* Counts only results: the many sets of indices name more bytes than processors' caches hold. */
static int64_t walked_by_gather(const struct scene *scene) {
    return scene_tensor_bytes(scene, KVMILL_GATHER_RESULT);
}

static bool fill_gather(struct scene *scene, int tensor) {
    const DLTensor *indices = &scene->gather.view.start_indices;
    if (tensor != KVMILL_GATHER_START_INDICES)
        return false;
    if (scene_bytes_of(scene, indices) > 0)
        fill_memory_indices(&scene->memory[tensor], &scene->gather.windows, indices, 1);
    return true;
}

static kvmill_status plan_gather(const struct scene_call *call, const kvmill_plan_options *options,
                                 kvmill_plan **plan, kvmill_error *reason) {
    return kvmill_plan_gather(&call->scene->gather.view.op, options, plan, reason);
}

static double bytes_of_gather(const struct scene_call *call) {
    return 2.0 * (double)scene_tensor_bytes(call->scene, KVMILL_GATHER_RESULT);
}

static bool knows_gather(const struct spec *spec) {
    return spec_is(spec, OP_GATHER);
}

const struct scene_op gather_scene_op = {
    .words = "stablehlo.gather",
    .knows = knows_gather,
    .open = open_gather,
    .shape = shape_gather,
    .fill = fill_gather,
    .walked = walked_by_gather,
    .plan = plan_gather,
    .bytes = bytes_of_gather,
    .rotation = 1 << 30,
    .count = KVMILL_GATHER_TENSORS,
    .unpacked = true,
    .use = {USE_SAME, USE_CACHE, USE_SAME},
    .output = KVMILL_GATHER_RESULT,
    .read = KVMILL_GATHER_OPERAND,
    .written = {KVMILL_GATHER_RESULT},
};

/* ---- Scatter ---- */

enum { INPUT, INDICES, UPDATES, RESULT, CAPTURES };
enum { LINE = 64, MEAN_RUN = 40 };

/* Whether a scatter has one input, and all types are the same. */
static bool knows_scatter(const struct spec *spec) {
    struct scatter_view view;
    struct kvmill_windows windows;
    struct kvmill_program program;
    if (!spec_is(spec, OP_SCATTER) || spec->window_scatter->count != 1)
        return false;
    scatter_view_make(spec->window_scatter, &view);
    return kvmill_scatter_check(&view.op, &windows, &program, NULL) == KVMILL_OK &&
           kvmill_element_equal(&view.elements[0], &view.update_elements[0]) &&
           kvmill_element_equal(&view.elements[0], &program.type[program.result[0]]);
}

static bool open_scatter(struct scene *scene, struct error *error) {
    struct kvmill_program program;
    kvmill_error reason;
    uint64_t state = 3;
    scatter_view_make(scene->spec->window_scatter, &scene->scatter.view);
    if (kvmill_scatter_check(&scene->scatter.view.op, &scene->scatter.windows, &program, &reason) !=
        KVMILL_OK)
        return fail(error, EXIT_BUG, "%s: %s", scene->spec->where, reason.message);
    for (int i = 0; i < KVMILL_MOST_CAPTURES; i++) {
        scene->scatter.capture_type[i] = kvmill_program_capture(&program, i).dtype;
        fill_moderate(scene->scatter.capture_type[i], scene->scatter.captured[i],
                      sizeof scene->scatter.captured[i], &state);
    }
    return true;
}

static void close_scatter(struct scene *scene) {
    free(scene->scatter.lines);
}

static void shape_scatter(struct scene_call *call) {
    struct scene *scene = call->scene;
    give(call, INPUT, &scene->scatter.view.inputs[0]);
    give(call, INDICES, &scene->scatter.view.scatter_indices);
    give(call, UPDATES, &scene->scatter.view.updates[0]);
    give(call, RESULT, &scene->scatter.view.inputs[0]);
    for (int i = 0; i < KVMILL_MOST_CAPTURES; i++)
        give(call, CAPTURES + i,
             &(DLTensor){.data = scene->scatter.captured[i],
                         .device = {kDLCPU, 0},
                         .dtype = scene->scatter.capture_type[i]});
}

/* Fills with zeros, so that repeated runs of a region do not overflow. */
static bool fill_scatter(struct scene *scene, int tensor) {
    if (tensor == INPUT || tensor == UPDATES)
        memset(scene->memory[tensor].data, 0, (size_t)scene->memory[tensor].bytes);
    return tensor != RESULT;
}

/* ---- Lines that updates touch ---- */

static bool is_touched(const unsigned char *line) {
    for (int64_t i = 0; i < LINE; i++)
        if (line[i] != 0)
            return true;
    return false;
}

static bool find_lines(struct scene *scene, struct error *error) {
    const struct scene_memory *input = &scene->memory[INPUT];
    free(scene->scatter.lines);
    scene->scatter.lines = malloc((size_t)(input->set / LINE + 1) * sizeof(int64_t));
    scene->scatter.line_count = 0;
    if (scene->scatter.lines == NULL)
        return out_of_memory(error);
    for (int64_t at = 0; at + LINE <= input->set; at += LINE)
        if (is_touched(input->data + at))
            scene->scatter.lines[scene->scatter.line_count++] = at;
    return true;
}

/* Replaces zeros by ones, with the scatter's indices, to find the lines that it touches. */
static bool replace_by_ones(struct scene *scene, struct error *error) {
    kvmill_scatter op = scene->scatter.view.op;
    struct scene_call call;
    struct owned_plan plan = {0};
    kvmill_error reason;
    op.region = NULL;
    op.update_computation = "replace";
    kvmill_status status = kvmill_plan_scatter(&op, NULL, &plan.plan, &reason);
    if (!owned_plan_finish(&plan, status, &reason, error))
        return false;
    scene_call_open(&call, scene, STEP_RUN, &scene->size, &plan, NULL);
    call.given[RESULT] = call.given[INPUT];
    fill_scatter(scene, INPUT);
    memset(scene->memory[UPDATES].data, 0xff, (size_t)scene->memory[UPDATES].set);
    bool done = scene_demand(scene_call_alone(&call, &plan, &reason), &reason, error);
    owned_plan_close(&plan);
    return done;
}

bool scatter_aim(struct scene *scene, bool slices, struct error *error) {
    const DLTensor *indices = &scene->scatter.view.scatter_indices;
    if (scene_bytes_of(scene, indices) > 0 && scene->scatter.windows.components > 0)
        fill_memory_indices(&scene->memory[INDICES], &scene->scatter.windows, indices,
                            slices ? MEAN_RUN : 1);
    bool done = replace_by_ones(scene, error) && find_lines(scene, error);
    fill_scatter(scene, INPUT);
    fill_scatter(scene, UPDATES);
    return done;
}

static bool finish_scatter(struct scene *scene, struct error *error) {
    return scatter_aim(scene, false, error);
}

struct touching {
    const struct scene *scene;
    int64_t threads;
};

/* Reads and writes a share of the lines. */
static void touch_lines(void *context, int64_t index) {
    const struct touching *touching = context;
    const struct scene *scene = touching->scene;
    int64_t count = scene->scatter.line_count, last = count * (index + 1) / touching->threads;
    for (int64_t i = count * index / touching->threads; i < last; i++) {
        kvmill_word64 *line = (void *)(scene->memory[INPUT].data + scene->scatter.lines[i]);
        *line += 1;
    }
}

void scatter_touch(const struct scene_call *call) {
    const struct scene *scene = call->scene;
    const struct scene_memory *memory = scene->memory;
    struct touching touching = {scene, kvmill_pool_threads(call->pool)};
    const struct copy copy = {(char *)memory[RESULT].data, (const char *)memory[INPUT].data,
                              (size_t)memory[INPUT].set, call->pool};
    if (!call->in_place)
        limit_nontemporal_pages(&copy);
    limit_read(&(struct reading){.from = (const char *)memory[UPDATES].data,
                                 .bytes = (size_t)memory[UPDATES].set,
                                 .streams = 4,
                                 .pool = call->pool});
    kvmill_pool_for(call->pool, touching.threads, touch_lines, &touching);
}

static double bytes_of_scatter(const struct scene_call *call) {
    const struct scene *scene = call->scene;
    return (double)scene->memory[UPDATES].set + 2.0 * LINE * (double)scene->scatter.line_count +
           (call->in_place ? 0 : 2.0 * (double)scene->memory[INPUT].set);
}

/* ---- Planning and checking ---- */

static kvmill_status plan_scatter(const struct scene_call *call, const kvmill_plan_options *options,
                                  kvmill_plan **plan, kvmill_error *reason) {
    return kvmill_plan_scatter(&call->scene->scatter.view.op, options, plan, reason);
}

/* Before a check: fills with numbers that show errors, and runs out of place.  After it: restores
   both. */
static void prepare_scatter(struct scene_call *call, bool begin) {
    struct scene *scene = call->scene;
    uint64_t state = 2;
    scene_call_use(call, !begin && scene->in_place);
    for (int i = INPUT; i <= UPDATES; i += UPDATES)
        if (begin)
            fill_moderate(call->tensors[i].dtype, scene->memory[i].data, scene->memory[i].set,
                          &state);
        else
            fill_scatter(scene, i);
}

const struct scene_op scatter_scene_op = {
    .words = "stablehlo.scatter with one input and a combiner",
    .knows = knows_scatter,
    .open = open_scatter,
    .shape = shape_scatter,
    .fill = fill_scatter,
    .finish = finish_scatter,
    .close = close_scatter,
    .plan = plan_scatter,
    .bytes = bytes_of_scatter,
    .prepare = prepare_scatter,
    .count = CAPTURES + KVMILL_MOST_CAPTURES,
    .unpacked = true,
    .use = {USE_SAME, USE_SAME, USE_SAME, USE_SAME},
    .output = RESULT,
    .read = INPUT,
    .past = INPUT,
    .present = RESULT,
    .written = {RESULT},
    .keeps_present = true,
};
