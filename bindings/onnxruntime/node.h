/* A node that kvmill computes: an op with attributes, plans for the shapes that its inputs have at
   run time, and memory for runs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_NODE_H
#define KVMILL_ONNXRUNTIME_NODE_H

#include "../common/plan_cache.h"
#include "attributes.h"
#include "settings.h"
#include "values.h"
#include "workspaces.h"

/* Inputs and outputs of an op: GroupQueryAttention has the most. */
enum { MOST_TENSORS = 21 };

/* What is known of a tensor before a run, KVMILL_DYNAMIC where only the run knows.  The rank of one
   that is not there is -1. */
struct known_tensor {
    DLDataType type;
    int32_t rank;
    int64_t dims[MOST_RANK];
};

/* What a plan depends on besides attributes: all its bytes are compared. */
struct plan_key {
    const struct node_op *op;
    uint64_t outputs; /* a bit for each tensor that is one and is there */
    struct known_tensor input[MOST_TENSORS];
};

struct node;

/* A run of a node in the runtime.  Tensors in the order of kvmill's op, as all numbers of tensors;
   NULL: not there. */
struct node_run {
    struct node *node;
    OrtKernelContext *context;
    const DLTensor *given[MOST_TENSORS];
    DLTensor tensor[MOST_TENSORS];
    int64_t dims[MOST_TENSORS][MOST_RANK];
};

/* Tensors in the order in which the runtime has a node's inputs, or its outputs. */
struct tensor_list {
    int count;
    unsigned char tensor[MOST_TENSORS];
};

struct node_op {
    const char *name;
    int tensors;
    struct tensor_list inputs, outputs;
    bool needs_kernels; /* portable ones are slower than the runtime's own; they copy as well */
    bool only_here;     /* the runtime has no such op, and portable ones will do */
    unsigned required;  /* inputs that must be there, a bit for each tensor */
    unsigned updated;   /* inputs that a run writes to */
    unsigned copied;    /* inputs whose memory the runtime's own op makes an output of */

    /* The input that an output is as a cache in blocks, bytes; -1: it is none.  NULL: none is. */
    int (*cache_of)(int tensor);

    /* Dims that plans are made for, a bit each; the others are left open. */
    unsigned (*fixed)(const struct node *node, int tensor, int rank);

    kvmill_status (*plan)(const struct node *node, const DLTensor *const *inputs, uint64_t outputs,
                          const kvmill_plan_options *options, kvmill_plan **plan,
                          kvmill_error *error);

    /* Whether kvmill is faster than the runtime's own, or why not; NULL: it always is.  There is a
       plan for the inputs. */
    kvmill_status (*pays)(const struct node *node, const DLTensor *const *inputs,
                          kvmill_error *error);

    /* The rank and the dims of an output; there is a plan for the inputs. */
    int (*shape)(const struct node *node, const DLTensor *const *inputs, int tensor,
                 int64_t dims[MOST_RANK]);

    /* Bytes that a run reads and writes, about. */
    int64_t (*work)(const DLTensor *const *given);

    OrtStatus *(*run)(struct node_run *run, const kvmill_plan *plan);
};

extern const struct node_op tensor_scatter_op, attention_op, step_op, group_query_op;

struct node {
    const struct node_op *op;
    struct attributes attributes;
    struct settings settings;
    int place[MOST_TENSORS]; /* of a tensor among the inputs, or outputs, of the runtime's node; -1
                              */
    struct plan_cache plans;
    struct workspaces workspaces;
};

static inline bool node_op_gives(const struct node_op *op, int tensor) {
    bool gives = false;
    for (int i = 0; i < op->outputs.count; i++)
        gives = gives || op->outputs.tensor[i] == tensor;
    return gives;
}

static inline int node_op_cache_of(const struct node_op *op, int tensor) {
    return op->cache_of != NULL ? op->cache_of(tensor) : -1;
}

/* A node without places; NULL: out of memory.  node_close also takes NULL. */
struct node *node_open(const struct node_op *op, const struct attributes *attributes,
                       const struct settings *settings);
void node_close(struct node *node);

/* Whether kvmill has a plan for a node with these inputs, by tensors, and the outputs that have
   places, which pays: KVMILL_OK, or why not.  fast: KVMILL_E_KERNEL refuses what no pack has fast
   kernels for.
 */
kvmill_status node_try(const struct node *node, const struct known_tensor *inputs, bool fast,
                       kvmill_error *error);

/* Run in the runtime's threads.  Any thread. */
OrtStatus *node_compute(struct node *node, OrtKernelContext *context);

/* What ops run with: a plan on tensors, and another of the ops on tensors. */
OrtStatus *node_run_plan(const struct node_run *run, const struct node_op *op,
                         const kvmill_plan *plan, const DLTensor *const *given);
OrtStatus *node_run_op(const struct node_run *run, const struct node_op *op,
                       const DLTensor *const *given);

/* Parts that any thread may run, in the runtime's threads where `bytes` that they read and write
   are many. */
OrtStatus *node_share(const struct node_run *run, int64_t bytes, int64_t parts,
                      void (*part)(void *data, int64_t index), void *data);

#endif
