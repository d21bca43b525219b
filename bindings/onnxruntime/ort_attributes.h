/* Attributes of nodes, from either source (provider or custom op).

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_ONNXRUNTIME_ORT_ATTRIBUTES_H
#define KVMILL_BINDINGS_ONNXRUNTIME_ORT_ATTRIBUTES_H

#include "../../ops/served/group_query_served.h"
#include "runtime.h"

/* The size of a word.  Longer words are cut off, and then are not known words. */
enum { ATTRIBUTE_WORD = KVMILL_GROUP_QUERY_WORD };

/* Attributes of gathers and scatters. */
struct windows_attributes {
    int64_t axis, batch_dims;
    char reduction[ATTRIBUTE_WORD];
};

/* Attributes of all ops. */
struct attributes {
    kvmill_attention attention; /* without tensors */
    int64_t axis;               /* TensorScatter's */
    char mode[ATTRIBUTE_WORD];
    bool is_circular;
    struct kvmill_group_query group_query;
    struct windows_attributes windows;
    char key_cache_format[ATTRIBUTE_WORD], value_cache_format[ATTRIBUTE_WORD]; /* CacheStep */
    kvmill_cache_attention cache_attention; /* of PMX's ops; without element types */
};

/* The value of num_layer if no attribute sets it; the cache then determines it. */
enum { PMX_LAYERS_UNSAID = INT32_MIN };

/* A source of attributes: a custom op's kernel info, or a node of a graph. */
struct attribute_source {
    /* Returns false if there is no attribute of that name.  kind: ORT_ATTRIBUTE_...; a text has at
       most size - 1 bytes, and longer ones are cut off. */
    bool (*read)(const void *node, const char *name, unsigned kind, void *value, size_t size);
    const void *node;
};

struct attribute_source attributes_of_kernel(const OrtKernelInfo *info);
struct attribute_source attributes_of_node(const OrtNode *node);

/* Fails if the node has an attribute that is not known, or whose value has another kind: it may
   change what the node computes.  pmx: the bit of PMX's op, or 0; also below. */
OrtStatus *attributes_check(const OrtNode *node, unsigned pmx);

/* Calls `take` for each attribute that an op has in the source; value: an int64_t, a float, or a
   text. */
void attributes_each(const struct attribute_source *source, unsigned pmx,
                     void (*take)(void *data, const char *name, unsigned kind, const void *value),
                     void *data);

/* Reads all attributes, or sets their defaults.  opset: Attention's, unless an attribute "opset"
   sets it. */
OrtStatus *attributes_read(struct attributes *attributes, const struct attribute_source *source,
                           int64_t opset, unsigned pmx);

#endif
