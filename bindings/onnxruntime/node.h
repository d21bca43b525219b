/* A node that kvmill computes: an op with attributes, plans for the shapes that its inputs have at
   run time, and memory for runs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_NODE_H
#define KVMILL_ONNXRUNTIME_NODE_H

#include "../common/plan_cache.h"
#include "ort_attributes.h"
#include "ort_settings.h"
#include "ort_values.h"
#include "workspaces.h"

/* The most inputs and outputs of an op: GroupQueryAttention's. */
enum { MOST_TENSORS = 21 };

/* What is known of a tensor before a run.  KVMILL_DYNAMIC: only known at run time.  rank -1:
   absent. */
struct known_tensor {
    DLDataType type;
    int32_t rank;
    int64_t dims[MOST_RANK];
};

/* What a plan depends on in addition to attributes.  All bytes are compared. */
struct plan_key {
    const struct node_op *op;
    uint64_t outputs; /* a bit for each output that the node has */
    struct known_tensor input[MOST_TENSORS];
};

struct node;

/* A run of a node.  Arrays have tensors in the order of kvmill's op; NULL: absent. */
struct node_run {
    struct node *node;
    OrtKernelContext *context;
    const DLTensor *given[MOST_TENSORS];
    DLTensor tensor[MOST_TENSORS];
    int64_t dims[MOST_TENSORS][MOST_RANK];
};

/* The inputs or outputs of the runtime's node, as numbers of kvmill's tensors. */
struct tensor_list {
    int count;
    unsigned char tensor[MOST_TENSORS];
};

struct node_op {
    const char *name;
    int tensors;
    struct tensor_list inputs, outputs;
    bool needs_kernels; /* portable kernels are slower than the runtime's op, except in copying */
    bool only_here;     /* the runtime has no such op, so portable kernels are acceptable */
    unsigned required;  /* inputs that must be present, a bit for each */
    unsigned updated;   /* inputs that a run writes to */
    unsigned copied;    /* inputs whose memory the runtime's own op may reuse for an output */

    /* Returns the input with the past of an output that is a cache in blocks; -1: it is not one.
       NULL: no output is one. */
    int (*cache_of)(int tensor);

    /* Returns the dims that plans are made for, a bit each; other dims are open. */
    unsigned (*fixed)(const struct node *node, int tensor, int rank);

    kvmill_status (*plan)(const struct node *node, const DLTensor *const *inputs, uint64_t outputs,
                          const kvmill_plan_options *options, kvmill_plan **plan,
                          kvmill_error *error);

    /* Whether kvmill is faster than the runtime's op; else an error with the reason.  NULL: always.
       Called only if the inputs have a plan. */
    kvmill_status (*pays)(const struct node *node, const DLTensor *const *inputs,
                          kvmill_error *error);

    /* Sets the dims of an output and returns its rank.  Called only if the inputs have a plan. */
    int (*shape)(const struct node *node, const DLTensor *const *inputs, int tensor,
                 int64_t dims[MOST_RANK]);

    /* Returns the approximate bytes that a run reads and writes. */
    int64_t (*work)(const DLTensor *const *given);

    OrtStatus *(*run)(struct node_run *run, const kvmill_plan *plan);
};

extern const struct node_op tensor_scatter_op, attention_op, step_op, group_query_op;

struct node {
    const struct node_op *op;
    struct attributes attributes;
    struct settings settings;
    int place[MOST_TENSORS]; /* index among the node's inputs or outputs, or -1 */
    struct plan_cache plans;
    struct workspaces workspaces;
};

static inline bool node_op_has_output(const struct node_op *op, int tensor) {
    bool gives = false;
    for (int i = 0; i < op->outputs.count; i++)
        gives = gives || op->outputs.tensor[i] == tensor;
    return gives;
}

static inline int node_op_cache_of(const struct node_op *op, int tensor) {
    return op->cache_of != NULL ? op->cache_of(tensor) : -1;
}

/* Returns a node without places, or NULL if out of memory.  node_close also takes NULL. */
struct node *node_open(const struct node_op *op, const struct attributes *attributes,
                       const struct settings *settings);
void node_close(struct node *node);

/* Checks that kvmill has a plan for a node with these inputs and the outputs that have places, and
   is faster.  fast: returns KVMILL_E_KERNEL if no pack has fast kernels for it. */
kvmill_status node_try(const struct node *node, const struct known_tensor *inputs, bool fast,
                       kvmill_error *error);

/* Runs a node on the runtime's threads.  Any thread. */
OrtStatus *node_compute(struct node *node, OrtKernelContext *context);

/* The first runs a plan on tensors; the second finds the plan of an op for the tensors, and runs
   it; the third only checks the tensors, as such a run does. */
OrtStatus *node_run_plan(const struct node_run *run, const struct node_op *op,
                         const kvmill_plan *plan, const DLTensor *const *given);
OrtStatus *node_run_op(const struct node_run *run, const struct node_op *op,
                       const DLTensor *const *given);
OrtStatus *node_check_op(const struct node_run *run, const struct node_op *op,
                         const DLTensor *const *given);

/* Runs parts, each of which may run on any thread; on the runtime's threads if `bytes`, read and
   written, are many. */
OrtStatus *node_share(const struct node_run *run, int64_t bytes, int64_t parts,
                      void (*part)(void *data, int64_t index), void *data);

#endif
