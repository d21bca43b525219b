/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "../defs/dtype.h"
#include "../ops/element.h"
#include "../ops/extent.h"
#include "../ops/tensor_scatter.h"
#include "memory.h"
#include "scene_fill.h"
#include "scene_op.h"

enum { LINE = 64, INPUT_BYTES = 16 << 20, LEAST_INPUTS = 4, MOST_SETS = 1 << 16 };
static const int64_t most_bytes = INT64_C(6) << 30;

/* ---- Sizes ---- */

int64_t scene_bytes_of(const struct scene *scene, const DLTensor *tensor) {
    int64_t count = kvmill_element_count(tensor);
    return scene->op->unpacked ? count * kvmill_element_bytes(tensor->dtype)
                               : kvmill_dtype_bytes(tensor->dtype, count);
}

/* Returns the bytes from the beginning of a tensor's memory to its end; a view includes the gaps
   between its elements. */
static int64_t reach_of(const struct scene *scene, const DLTensor *tensor) {
    int64_t last = 0;
    if (tensor->strides == NULL)
        return scene_bytes_of(scene, tensor);
    for (int d = 0; d < tensor->ndim; d++)
        last += (tensor->shape[d] - 1) * tensor->strides[d];
    return (int64_t)tensor->byte_offset + kvmill_dtype_bytes(tensor->dtype, last + 1);
}

int64_t scene_tensor_bytes(const struct scene *scene, int tensor) {
    return scene->memory[scene->share[tensor]].set;
}

/* Sets all tensors of all steps, without data. */
static void shape_all(const struct scene *scene, struct scene_call *call) {
    *call = (struct scene_call){.scene = (struct scene *)(uintptr_t)scene, .size = scene->size};
    scene->op->shape(call);
}

static bool has_memory(const struct scene_call *call, int i) {
    const struct scene *scene = call->scene;
    bool again = scene->in_place && !scene->op->keeps_present && scene->op->present > 0 &&
                 i == scene->op->present;
    return call->tensors[i].dtype.bits != 0 && scene->use[i] != USE_NONE && !again;
}

/* A set is as large as the largest tensor that shares it; an empty tensor also gets an address. */
static void size_sets(struct scene *scene, const struct scene_call *call) {
    for (int i = 0; i < SCENE_TENSORS; i++)
        scene->memory[i].set = 0;
    for (int i = 0; i < scene->op->count; i++) {
        struct scene_memory *memory = &scene->memory[scene->share[i]];
        int64_t bytes = has_memory(call, i) ? reach_of(scene, &call->tensors[i]) : 0;
        memory->set = bytes > memory->set ? bytes : memory->set;
        memory->set += has_memory(call, i) && memory->set == 0;
    }
}

static int64_t walked_bytes(const struct scene *scene) {
    int64_t bytes = 0;
    if (scene->op->walked != NULL)
        return scene->op->walked(scene);
    for (int i = 0; i < scene->op->count; i++)
        bytes += scene->use[i] == USE_CACHE ? scene->memory[i].set : 0;
    return bytes;
}

static int64_t sets_of(const struct scene *scene, int i, int64_t walked) {
    int64_t set = scene->memory[i].set;
    if (scene->use[i] == USE_CACHE)
        return (scene->rotation + walked - 1) / walked;
    return scene->use[i] == USE_INPUT ? INPUT_BYTES / set + LEAST_INPUTS : 1;
}

/* Sets of inputs begin at cache lines. */
static void count_sets(struct scene *scene) {
    int64_t walked = walked_bytes(scene);
    for (int i = 0; i < scene->op->count; i++) {
        struct scene_memory *memory = &scene->memory[i];
        if (memory->set == 0)
            continue;
        if (scene->use[i] == USE_INPUT)
            memory->set = (memory->set + LINE - 1) / LINE * LINE;
        memory->sets = sets_of(scene, i, walked);
        memory->sets = memory->sets < MOST_SETS ? memory->sets : MOST_SETS;
    }
}

/* ---- Memory ---- */

static bool grow(struct scene_memory *memory, int64_t bytes) {
    bench_memory_release(memory->data, memory->bytes);
    memory->data = bench_memory_get(bytes);
    memory->bytes = memory->data != NULL ? bytes : 0;
    return memory->data != NULL;
}

/* Fills caches with numbers up to 1 and inputs with numbers up to 3; touches results. */
static void fill(struct scene *scene, const struct scene_call *call, int i) {
    struct scene_memory *memory = &scene->memory[i];
    int element = kvmill_element_of(call->tensors[i].dtype);
    if (scene->op->fill != NULL && scene->op->fill(scene, i))
        return;
    if (scene->use[i] != USE_SAME && kvmill_is_activation(element))
        fill_memory_floats(memory, element, scene->use[i] == USE_INPUT ? 3 : 1, (uint32_t)i);
    else
        memset(memory->data, i + 1, (size_t)memory->bytes);
}

/* Allocates an eighth more if there are several sets, so that larger sizes fit, too. */
static bool reserve(struct scene *scene, const struct scene_call *call, int i) {
    struct scene_memory *memory = &scene->memory[i];
    int64_t bytes = memory->set * memory->sets;
    if (memory->set == 0 || bytes <= memory->bytes)
        return true;
    if (!grow(memory, memory->sets > 1 ? bytes + bytes / 8 : bytes))
        return false;
    fill(scene, call, i);
    return true;
}

static bool reserve_all(struct scene *scene, const struct scene_call *call, struct error *error) {
    int64_t bytes = 0;
    for (int i = 0; i < scene->op->count; i++)
        bytes += scene->use[i] == USE_CACHE ? scene->memory[i].set * scene->memory[i].sets : 0;
    bool done = bytes <= most_bytes;
    for (int i = 0; done && i < scene->op->count; i++)
        done = reserve(scene, call, i);
    return done || fail(error, EXIT_ENVIRONMENT, "not enough memory for caches of %" PRId64 " MiB",
                        bytes >> 20);
}

bool scene_resize(struct scene *scene, const struct run_size *size, struct error *error) {
    struct scene_call call;
    scene->size = *size;
    scene->turn = 0;
    scene->span_count = 0;
    shape_all(scene, &call);
    size_sets(scene, &call);
    count_sets(scene);
    return reserve_all(scene, &call, error) &&
           (scene->op->finish == NULL || scene->op->finish(scene, error));
}

/* ---- Closing and planning ---- */

void scene_close(struct scene *scene) {
    for (int i = 0; i < SCENE_TENSORS; i++)
        bench_memory_release(scene->memory[i].data, scene->memory[i].bytes);
    bench_memory_release(scene->expected.data, scene->expected.bytes);
    if (scene->op != NULL && scene->op->close != NULL)
        scene->op->close(scene);
    *scene = (struct scene){.op = NULL};
}

bool scene_demand(kvmill_status status, const kvmill_error *reason, struct error *error) {
    return status == KVMILL_OK ||
           fail(error, EXIT_BUG, "%s: %s", kvmill_status_name(status), reason->message);
}

bool scene_plan(const struct scene *scene, enum scene_step step, const kvmill_plan_options *options,
                struct owned_plan *plan, struct error *error) {
    struct scene_call call;
    kvmill_error reason;
    *plan = (struct owned_plan){0};
    shape_all(scene, &call);
    call.step = step;
    kvmill_status status = scene->op->plan(&call, options, &plan->plan, &reason);
    return owned_plan_finish(plan, status, &reason, error);
}

/* ---- Rotation ---- */

/* Returns memory that begins at a line: the next sets, or a changing place in the only set. */
unsigned char *scene_next_bytes(struct scene *scene, int tensor, int64_t *bytes) {
    const struct scene_memory *memory = &scene->memory[scene->share[tensor]];
    *bytes = kvmill_min(*bytes, memory->set * memory->sets);
    int64_t sets = (*bytes + memory->set - 1) / memory->set;
    if (memory->sets == 1)
        return memory->data + scene->turn++ * 7919 % (memory->set / *bytes) * *bytes / LINE * LINE;
    if (scene->turn % memory->sets + sets > memory->sets)
        scene->turn += memory->sets - scene->turn % memory->sets;
    unsigned char *at = memory->data + scene->turn % memory->sets * memory->set / LINE * LINE;
    scene->turn += sets;
    return at;
}

/* ---- Calls ---- */

void scene_set_tensor(struct scene_call *call, int which, DLDataType type, int rank,
                      const int64_t *dims) {
    if (rank > 0)
        memcpy(call->dims[which], dims, (size_t)rank * sizeof *dims);
    call->tensors[which] =
        (DLTensor){.device = {kDLCPU, 0}, .ndim = rank, .dtype = type, .shape = call->dims[which]};
    call->given[which] = &call->tensors[which];
}

void scene_set_described(struct scene_call *call, const struct op *op, const void *attributes,
                         const struct op_dim *words) {
    for (int i = 0; i < op->tensor_count; i++) {
        const struct op_tensor *tensor = &op->tensors[i];
        int64_t dims[OP_MOST_RANK];
        int rank = kvmill_op_shape(kvmill_op_shape_words(op, tensor), 0, words, dims);
        if (rank >= 0 && kvmill_op_presence(op, attributes, tensor) == OP_REQUIRED)
            scene_set_tensor(call, tensor->index,
                             kvmill_op_type(op, attributes, attributes, tensor), rank, dims);
    }
}

/* Moves only tensors with several sets: calls may be shorter than a loop over all tensors. */
void scene_call_set(struct scene_call *call, int64_t turn) {
    const struct scene *scene = call->scene;
    for (int i = 0; i < call->moving_count; i++) {
        const struct scene_memory *memory = &scene->memory[scene->share[call->moving[i]]];
        call->tensors[call->moving[i]].data = memory->data + turn % memory->sets * memory->set;
    }
    if (scene->op->move != NULL)
        scene->op->move(call, turn);
}

void scene_call_use(struct scene_call *call, bool in_place) {
    const struct scene_op *op = call->scene->op;
    call->in_place = in_place;
    if (op->present > 0)
        call->given[op->present] = &call->tensors[in_place ? op->past : op->present];
}

static void place(struct scene_call *call) {
    const struct scene *scene = call->scene;
    for (int i = 0; i < scene->op->count; i++) {
        const struct scene_memory *memory = &scene->memory[scene->share[i]];
        if (call->given[i] == NULL || memory->data == NULL)
            continue;
        call->tensors[i].data = memory->data;
        if (memory->sets > 1)
            call->moving[call->moving_count++] = i;
    }
    scene_call_use(call, scene->in_place);
}

void scene_call_move(struct scene_call *call) {
    scene_call_set(call, call->scene->turn++);
}

void scene_call_open(struct scene_call *call, struct scene *scene, enum scene_step step,
                     const struct run_size *size, const struct owned_plan *plan,
                     kvmill_pool *pool) {
    *call = (struct scene_call){
        .scene = scene, .plan = plan, .pool = pool, .step = step, .size = *size};
    scene->op->shape(call);
    place(call);
    scene_call_set(call, 0);
}

static void run_part(void *context, int64_t part) {
    kvmill_part(context, part);
}

/* Runs the first phase, which writes K and V; the other phases do not run. */
static kvmill_status store(struct scene_call *call, kvmill_error *reason) {
    kvmill_call phases;
    kvmill_status status =
        kvmill_begin(&phases, call->plan->plan, call->given,
                     kvmill_plan_tensor_count(call->plan->plan), call->plan->workspace, reason);
    if (status == KVMILL_OK)
        kvmill_pool_for(call->pool, kvmill_parts(&phases), run_part, &phases);
    return status;
}

kvmill_status scene_call_alone(const struct scene_call *call, const struct owned_plan *plan,
                               kvmill_error *reason) {
    return kvmill_run(plan->plan, call->given, kvmill_plan_tensor_count(plan->plan),
                      plan->workspace, reason);
}

kvmill_status scene_call_run(struct scene_call *call, kvmill_error *reason) {
    const struct owned_plan *plan = call->plan;
    if (call->step == STEP_STORE)
        return store(call, reason);
    return kvmill_run_on(plan->plan, call->pool, call->given, kvmill_plan_tensor_count(plan->plan),
                         plan->workspace, reason);
}

kvmill_status scene_call_next(struct scene_call *call, kvmill_error *reason) {
    scene_call_move(call);
    return scene_call_run(call, reason);
}

double scene_call_bytes(const struct scene_call *call) {
    return call->scene->op->bytes(call);
}

double scene_call_flops(const struct scene_call *call) {
    return call->scene->op->flops != NULL ? call->scene->op->flops(call) : 0;
}
