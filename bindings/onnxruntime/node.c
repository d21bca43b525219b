/* SPDX-License-Identifier: Apache-2.0 */
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Below this, sharing the bytes among threads takes longer than the work. */
static const int64_t least_bytes = 128 << 10;

/* ---- Plans ---- */

static const DLTensor *prototype_of(struct known_tensor *known, DLTensor *tensor) {
    *tensor = (DLTensor){
        .device = {kDLCPU, 0}, .ndim = known->rank, .dtype = known->type, .shape = known->dims};
    return known->rank >= 0 ? tensor : NULL;
}

/* The inputs of a key; callers may change their dims. */
struct prototypes {
    struct plan_key key;
    const DLTensor *inputs[MOST_TENSORS];
    DLTensor tensors[MOST_TENSORS];
};

static void set_prototypes(struct prototypes *all, const struct plan_key *key) {
    all->key = *key;
    for (int i = 0; i < MOST_TENSORS; i++)
        all->inputs[i] = prototype_of(&all->key.input[i], &all->tensors[i]);
}

static kvmill_status plan_for(const struct node *node, const struct plan_key *key,
                              const kvmill_plan_options *options, kvmill_plan **plan,
                              kvmill_error *error) {
    struct prototypes all;
    set_prototypes(&all, key);
    return key->op->plan(node, all.inputs, key->outputs, options, plan, error);
}

/* Whether kvmill is faster.  `portable`, which tests set, skips this. */
static kvmill_status pays(const struct node *node, const struct plan_key *key,
                          kvmill_error *error) {
    struct prototypes all;
    set_prototypes(&all, key);
    return key->op->pays == NULL || node->settings.portable
               ? KVMILL_OK
               : key->op->pays(node, all.inputs, error);
}

static kvmill_status make_plan(void *data, const void *key, kvmill_plan **plan,
                               kvmill_error *error) {
    const struct node *node = data;
    const kvmill_plan_options options = plan_options_of(&node->settings.packs);
    return plan_for(node, key, &options, plan, error);
}

static void set_known(struct known_tensor *known, DLDataType type, int rank, const int64_t *dims,
                      unsigned fixed) {
    known->type = type;
    known->rank = rank;
    for (int d = 0; d < rank; d++)
        known->dims[d] = fixed >> d & 1 ? dims[d] : KVMILL_DYNAMIC;
}

static void start_key(struct plan_key *key, const struct node_op *op, uint64_t outputs) {
    memset(key, 0, sizeof *key);
    key->op = op;
    key->outputs = outputs;
    for (int i = 0; i < MOST_TENSORS; i++)
        key->input[i].rank = -1;
}

static OrtStatus *find_plan(struct node *node, const struct node_op *op,
                            const DLTensor *const *given, uint64_t outputs,
                            const kvmill_plan **plan) {
    struct plan_key key;
    kvmill_error error;
    start_key(&key, op, outputs);
    for (int i = 0; i < op->tensors; i++)
        if (given[i] != NULL && !node_op_has_output(op, i))
            set_known(&key.input[i], given[i]->dtype, given[i]->ndim, given[i]->shape,
                      op->fixed(node, i, given[i]->ndim));
    return runtime_refuse(plan_cache_find(&node->plans, &key, plan, &error), &error);
}

/* Returns a bit for each output that the node has. */
static uint64_t outputs_of(const struct node *node) {
    uint64_t outputs = 0;
    for (int i = 0; i < node->op->tensors; i++)
        if (node_op_has_output(node->op, i) && node->place[i] >= 0)
            outputs |= (uint64_t)1 << i;
    return outputs;
}

kvmill_status node_try(const struct node *node, const struct known_tensor *inputs, bool fast,
                       kvmill_error *error) {
    const struct node_op *op = node->op;
    kvmill_plan_options options = plan_options_of(&node->settings.packs);
    struct plan_key key;
    kvmill_plan *plan;
    if (fast)
        options.least_isa = plan_least_isa();
    start_key(&key, op, outputs_of(node));
    for (int i = 0; i < op->tensors; i++)
        if (inputs[i].rank >= 0 && !node_op_has_output(op, i))
            set_known(&key.input[i], inputs[i].type, inputs[i].rank, inputs[i].dims,
                      op->fixed(node, i, inputs[i].rank));
    kvmill_status status = plan_for(node, &key, &options, &plan, error);
    kvmill_plan_destroy(plan);
    return status == KVMILL_OK ? pays(node, &key, error) : status;
}

/* ---- Running an op ---- */

struct loop {
    const OrtKernelContext *context;
    bool is_short;
    OrtStatus *status;
    void (*part)(void *context, int64_t index);
    void *data;
};

static void run_part(void *data, size_t index) {
    const struct loop *loop = data;
    loop->part(loop->data, (int64_t)index);
}

static void share_out(void *data, int64_t parts, void (*part)(void *, int64_t), void *context) {
    struct loop *loop = data;
    loop->part = part;
    loop->data = context;
    if (!loop->is_short && parts > 1 && loop->status == NULL)
        loop->status =
            ort->KernelContext_ParallelFor(loop->context, run_part, (size_t)parts, 0, loop);
    else
        for (int64_t i = 0; i < parts; i++)
            part(context, i);
}

OrtStatus *node_run_plan(const struct node_run *run, const struct node_op *op,
                         const kvmill_plan *plan, const DLTensor *const *given) {
    struct loop loop = {.context = run->context, .is_short = op->work(given) < least_bytes};
    struct workspaces *all = &run->node->workspaces;
    struct workspace *workspace = workspace_acquire(all, kvmill_plan_workspace_size(plan));
    kvmill_error error;
    if (workspace == NULL)
        return runtime_fail(ORT_IS_FAILED, "out of memory for a workspace");
    kvmill_status status = kvmill_run_parallel(plan, given, (size_t)op->tensors, workspace->memory,
                                               share_out, &loop, &error);
    workspace_release(all, workspace);
    return status != KVMILL_OK ? runtime_refuse(status, &error) : loop.status;
}

OrtStatus *node_share(const struct node_run *run, int64_t bytes, int64_t parts,
                      void (*part)(void *data, int64_t index), void *data) {
    struct loop loop = {.context = run->context, .is_short = bytes < least_bytes};
    share_out(&loop, parts, part, data);
    return loop.status;
}

/* Finds the plan of an op for these tensors. */
static OrtStatus *plan_of_op(const struct node_run *run, const struct node_op *op,
                             const DLTensor *const *given, const kvmill_plan **plan) {
    uint64_t outputs = 0;
    for (int i = 0; i < op->tensors; i++)
        if (node_op_has_output(op, i) && given[i] != NULL)
            outputs |= (uint64_t)1 << i;
    return find_plan(run->node, op, given, outputs, plan);
}

OrtStatus *node_check_op(const struct node_run *run, const struct node_op *op,
                         const DLTensor *const *given) {
    const kvmill_plan *plan;
    struct workspaces *all = &run->node->workspaces;
    OrtStatus *status = plan_of_op(run, op, given, &plan);
    if (status != NULL)
        return status;
    struct workspace *workspace = workspace_acquire(all, kvmill_plan_workspace_size(plan));
    kvmill_call call;
    kvmill_error error;
    if (workspace == NULL)
        return runtime_fail(ORT_IS_FAILED, "out of memory for a workspace");
    status = runtime_refuse(
        kvmill_begin(&call, plan, given, (size_t)op->tensors, workspace->memory, &error), &error);
    workspace_release(all, workspace);
    return status;
}

OrtStatus *node_run_op(const struct node_run *run, const struct node_op *op,
                       const DLTensor *const *given) {
    const kvmill_plan *plan;
    OrtStatus *status = plan_of_op(run, op, given, &plan);
    return status != NULL ? status : node_run_plan(run, op, plan, given);
}

/* ---- A run in the runtime ---- */

static OrtStatus *check_input(const struct node *node, int i, const DLTensor *tensor) {
    if (tensor->dtype.bits == 0)
        return runtime_fail(ORT_IS_INVALID_ARGUMENT, "%s: input %d has a type that kvmill lacks",
                            node->op->name, i);
    if (tensor->ndim > MOST_RANK)
        return runtime_fail(ORT_IS_INVALID_ARGUMENT,
                            "%s: input %d has rank %d; accepted: at most %d", node->op->name, i,
                            tensor->ndim, MOST_RANK);
    return NULL;
}

static OrtStatus *take_input(struct node_run *run, int i) {
    const struct node *node = run->node;
    const OrtValue *value = NULL;
    OrtStatus *status = NULL;
    if (node->place[i] >= 0)
        status = ort->KernelContext_GetInput(run->context, (size_t)node->place[i], &value);
    if (status == NULL && value == NULL && (node->op->required >> i & 1))
        return runtime_fail(ORT_IS_INVALID_ARGUMENT, "%s: input %d is not there; accepted: one",
                            node->op->name, i);
    if (status != NULL || value == NULL)
        return status;
    run->given[i] = &run->tensor[i];
    status = value_tensor((OrtValue *)(uintptr_t)value, &run->tensor[i], run->dims[i]);
    return status != NULL ? status : check_input(node, i, &run->tensor[i]);
}

static OrtStatus *take_output(struct node_run *run, int i) {
    const struct node *node = run->node;
    int64_t *dims = run->dims[i];
    OrtValue *value = NULL;
    if (node->place[i] < 0)
        return NULL;
    int rank = node->op->shape(node, run->given, i, dims);
    OrtStatus *status = ort->KernelContext_GetOutput(run->context, (size_t)node->place[i], dims,
                                                     (size_t)rank, &value);
    if (status == NULL && value != NULL) {
        run->given[i] = &run->tensor[i];
        status = value_tensor(value, &run->tensor[i], run->dims[i]);
    }
    return status;
}

static OrtStatus *take_tensors(struct node_run *run, const kvmill_plan **plan) {
    struct node *node = run->node;
    OrtStatus *status = NULL;
    for (int i = 0; status == NULL && i < node->op->tensors; i++)
        if (!node_op_has_output(node->op, i))
            status = take_input(run, i);
    if (status == NULL)
        status = find_plan(node, node->op, run->given, outputs_of(node), plan);
    for (int i = 0; status == NULL && i < node->op->tensors; i++)
        if (node_op_has_output(node->op, i))
            status = take_output(run, i);
    return status;
}

OrtStatus *node_compute(struct node *node, OrtKernelContext *context) {
    struct node_run run = {.node = node, .context = context};
    const kvmill_plan *plan;
    OrtStatus *status = take_tensors(&run, &plan);
    return status != NULL ? status : node->op->run(&run, plan);
}

/* ---- Nodes ---- */

struct node *node_open(const struct node_op *op, const struct attributes *attributes,
                       const struct settings *settings) {
    struct node *node = calloc(1, sizeof *node);
    if (node == NULL)
        return NULL;
    node->op = op;
    node->attributes = *attributes;
    node->settings = *settings;
    for (int i = 0; i < MOST_TENSORS; i++)
        node->place[i] = -1;
    plan_cache_open(&node->plans, sizeof(struct plan_key), make_plan, node);
    workspaces_open(&node->workspaces);
    return node;
}

void node_close(struct node *node) {
    if (node == NULL)
        return;
    plan_cache_clear(&node->plans);
    workspaces_close(&node->workspaces);
    free(node);
}
