/* Writes nodes of a graph as an ONNX model of their own, without weights, for `kvmill generate`.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_NODES_FILE_H
#define KVMILL_ONNXRUNTIME_NODES_FILE_H

#include "ort_problem.h"

/* The bytes of a model, which the caller frees.  data NULL: out of memory, or the runtime did not
   provide what is needed. */
struct nodes_file {
    unsigned char *data;
    size_t size;
};

/* Writes nodes that problem_of_node takes. */
struct nodes_file nodes_file_of(const OrtGraph *graph, const OrtNode *const *nodes, size_t count);

#endif
