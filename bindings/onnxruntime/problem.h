/* Nodes of a graph that kvmill may be able to run.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_PROBLEM_H
#define KVMILL_ONNXRUNTIME_PROBLEM_H

#include "node.h"

enum { MOST_PARTS = 3 };

/* One node of an op, or the three of a step. */
struct problem {
    const struct node_op *op;
    struct attributes attributes;
    const OrtValueInfo *value[MOST_TENSORS]; /* NULL: not there */
    const OrtNode *parts[MOST_PARTS];
    size_t part_count;
};

/* Why a node is not taken, or what there is to say of one that is. */
struct reason {
    char text[384];
    bool slow; /* kvmill takes such nodes, but no pack has fast kernels for it */
};

/* Set the reason's words; false. */
__attribute__((format(printf, 2, 3))) bool problem_decline(struct reason *reason,
                                                           const char *format, ...);

/* The op of a node that kvmill has; NULL: another. */
const struct node_op *problem_op_of(const OrtNode *node);

/* A node of an op; false: why not. */
bool problem_of_node(const OrtNode *node, struct problem *problem, struct reason *reason);

/* An Attention node with the TensorScatter nodes that make its K and V, all among `nodes`; false:
   they are no step. */
bool problem_of_step(const OrtNode *attention, const OrtNode *const *nodes, size_t count,
                     struct problem *problem);

/* A node for the problem, which has a plan.  inputs, outputs: what the runtime will run it on;
   NULL: places do not matter yet.  NULL: why not; else the reason is empty, or what the log should
   say of it. */
struct values {
    const OrtValueInfo **items;
    size_t count;
};
struct node *problem_open(const struct problem *problem, const struct settings *settings,
                          const struct values *inputs, const struct values *outputs,
                          struct reason *reason);

/* A node's name, and its op's, for messages; and other names.  "": there is none. */
const char *problem_node_name(const OrtNode *node);
const char *problem_node_op(const OrtNode *node);
const char *problem_node_domain(const OrtNode *node);
const char *problem_value_name(const OrtValueInfo *value);

/* What the graph says of a value's type; the rank is -1 where it says none.  false: it is no
   tensor. */
bool problem_known(const OrtValueInfo *value, struct known_tensor *known);

/* A list that the runtime gives by its length and its items, to be freed; items NULL: there is
   none. */
struct values problem_inputs_of(const OrtNode *node);
struct values problem_outputs_of(const OrtNode *node);

#endif
