/* ONNX's Gather, GatherND and ScatterElements: which nodes kvmill serves in ONNX Runtime.  These
   are nodes that kvmill has the ops for, and where it is at least as fast as the CPU provider.
   ScatterND and GatherElements are as fast there.

   Both the provider (bindings/onnxruntime) and the reader of models (import/onnx) ask here; see
   group_query_served.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_SERVED_WINDOWS_SERVED_H
#define KVMILL_OPS_SERVED_WINDOWS_SERVED_H

#include <stdbool.h>

#include <kvmill.h>

enum { KVMILL_WINDOWS_MOST_RANK = 8, KVMILL_WINDOWS_INPUTS = 3 };

enum kvmill_windows_op { KVMILL_ONNX_GATHER, KVMILL_ONNX_GATHER_ND, KVMILL_ONNX_SCATTER_ELEMENTS };

/* A node.  inputs: data, indices, updates (NULL: a gather); dims may be KVMILL_DYNAMIC. */
struct kvmill_windows_node {
    enum kvmill_windows_op op;
    int64_t axis, batch_dims;
    const char *reduction;
    const DLTensor *inputs[KVMILL_WINDOWS_INPUTS];
};

/* Checks types, attributes and shapes: kvmill has the op for a node that passes. */
kvmill_status kvmill_windows_check(const struct kvmill_windows_node *node, kvmill_error *error);

/* Sets the dims of a checked gather's result, and returns its rank. */
int kvmill_windows_result(const struct kvmill_windows_node *node,
                          int64_t dims[KVMILL_WINDOWS_MOST_RANK]);

/* Fails for a checked node that the CPU provider runs as fast. */
kvmill_status kvmill_windows_pays(const struct kvmill_windows_node *node, kvmill_error *error);

/* Fails for data that a node of the model makes, which a scatter would have to copy. */
kvmill_status kvmill_windows_refuse_made(int input, kvmill_error *error);

#endif
