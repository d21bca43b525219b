/* Nodes of a graph that kvmill may be able to run.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_ONNXRUNTIME_ORT_PROBLEM_H
#define KVMILL_BINDINGS_ONNXRUNTIME_ORT_PROBLEM_H

#include "node.h"

enum { MOST_PARTS = 3 };

/* One node of an op, or the three nodes of a step. */
struct problem {
    const struct node_op *op;
    struct attributes attributes;
    const OrtValueInfo *value[MOST_TENSORS]; /* NULL: absent */
    const OrtNode *parts[MOST_PARTS];
    size_t part_count;
};

/* Why a node is not taken, or a remark on a node that is taken. */
struct reason {
    char text[384];
    bool slow; /* the op is taken, but no pack has fast kernels for this node */
};

/* Sets the text of a reason.  Returns false. */
__attribute__((format(printf, 2, 3))) bool problem_decline(struct reason *reason,
                                                           const char *format, ...);

/* Returns kvmill's op for a node, or NULL if it has none. */
const struct node_op *problem_op_of(const OrtNode *node);

/* Reads a node of an op.  Returns false, with a reason, if it is not taken. */
bool problem_of_node(const OrtNode *node, struct problem *problem, struct reason *reason);

/* Reads an Attention node, and the TensorScatter nodes among `nodes` that make its K and V. Returns
   false if they are not a step. */
bool problem_of_step(const OrtNode *attention, const OrtNode *const *nodes, size_t count,
                     struct problem *problem);

/* Returns a node for a problem that has a plan, or NULL with a reason.  On success the reason is
   empty, or a remark for the log.  inputs, outputs: the values of the runtime's node; NULL: places
   do not matter yet. */
struct values {
    const OrtValueInfo **items;
    size_t count;
};
struct node *problem_open(const struct problem *problem, const struct settings *settings,
                          const struct values *inputs, const struct values *outputs,
                          struct reason *reason);

/* Return the names of a node, its op, its domain or a value, for messages; "" if it has none. */
const char *problem_node_name(const OrtNode *node);
const char *problem_node_op(const OrtNode *node);
const char *problem_node_domain(const OrtNode *node);
const char *problem_value_name(const OrtValueInfo *value);

/* Reads what the graph says of a value's type; the rank is -1 if it is unknown.  Returns false if
   the value is not a tensor. */
bool problem_known(const OrtValueInfo *value, struct known_tensor *known);

/* Return the inputs or outputs of a node.  The caller frees the items, which are NULL on
   failure. */
struct values problem_inputs_of(const OrtNode *node);
struct values problem_outputs_of(const OrtNode *node);

#endif
