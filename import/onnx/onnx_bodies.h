/* Graphs inside the main graph: bodies of control flow (If, Loop, Scan), which see the values
   around them, and calls of the model's own functions, which see their inputs.  Each is opened as a
   model of its own, at the node.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_ONNX_ONNX_BODIES_H
#define KVMILL_IMPORT_ONNX_ONNX_BODIES_H

#include "onnx.h"

/* Where a body is. */
struct onnx_body {
    const struct onnx_model *model; /* of the node */
    const struct onnx_node *node;
    const void *function; /* the function's message; NULL: the body is an attribute's */
    int depth;
    char words[160]; /* for messages: "then_branch of node 3 (If)" */
};

/* Returns the function that a node calls, or NULL. */
const void *onnx_function_of(const struct onnx_model *model, const struct onnx_node *node);

/* Open the graph in an attribute of a node, and the function that it calls.  The node's model must
   outlive the body.  Release the body with onnx_free, also after a failure. */
bool onnx_open_graph(const struct onnx_model *model, const struct onnx_node *node,
                     const struct onnx_attribute *attribute, struct onnx_body *body,
                     struct onnx_model *opened, struct error *error);
bool onnx_open_function(const struct onnx_model *model, const struct onnx_node *node,
                        struct onnx_body *body, struct onnx_model *opened, struct error *error);

#endif
