/* Attributes of nodes, whoever is asked for them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_ATTRIBUTES_H
#define KVMILL_ONNXRUNTIME_ATTRIBUTES_H

#include "runtime.h"

/* Those of TensorScatter and of Attention. */
struct attributes {
    kvmill_attention attention; /* its tensors are not set */
    int64_t axis;
    bool is_circular;
};

/* Where attributes are: a custom op's kernel info, or a node of a graph. */
struct attribute_source {
    /* false: there is none of that name.  kind: ORT_ATTRIBUTE_...; a text of at most size - 1
       bytes, a longer one is cut off */
    bool (*read)(const void *node, const char *name, unsigned kind, void *value, size_t size);
    const void *node;
};

struct attribute_source attributes_of_kernel(const OrtKernelInfo *info);
struct attribute_source attributes_of_node(const OrtNode *node);

/* All of them, or their defaults.  opset: of Attention, where no attribute "opset" says it. */
OrtStatus *attributes_read(struct attributes *attributes, const struct attribute_source *source,
                           int64_t opset);

#endif
