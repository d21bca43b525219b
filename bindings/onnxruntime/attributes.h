/* Attributes of nodes, from either source (provider or custom op).

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_ATTRIBUTES_H
#define KVMILL_ONNXRUNTIME_ATTRIBUTES_H

#include "runtime.h"

/* A word: longer ones are cut off, and are none that is known. */
enum { ATTRIBUTE_WORD = 16 };

/* GroupQueryAttention's; scale and softcap are those of Attention. */
struct group_query {
    int64_t num_heads, kv_num_heads, do_rotary, rotary_interleaved, local_window_size,
        smooth_softmax, causal, qk_output, sliding_window_cache, kv_cache_bit_width;
    char k_quant_type[ATTRIBUTE_WORD], v_quant_type[ATTRIBUTE_WORD];
};

/* Those of gathers and scatters. */
struct windows_attributes {
    int64_t axis, batch_dims;
    char reduction[ATTRIBUTE_WORD];
};

/* Those of all ops. */
struct attributes {
    kvmill_attention attention; /* its tensors are not set */
    int64_t axis;               /* TensorScatter's */
    char mode[ATTRIBUTE_WORD];
    bool is_circular;
    struct group_query group_query;
    struct windows_attributes windows;
    char key_cache_format[ATTRIBUTE_WORD], value_cache_format[ATTRIBUTE_WORD]; /* CacheStep */
    kvmill_cache_attention cache_attention; /* PMX's; element types are not set */
};

/* num_layer where no attribute says it: the cache does. */
enum { PMX_LAYERS_UNSAID = INT32_MIN };

/* Where attributes are: a custom op's kernel info, or a node of a graph. */
struct attribute_source {
    /* false: there is none of that name.  kind: ORT_ATTRIBUTE_...; a text of at most size - 1
       bytes, a longer one is cut off */
    bool (*read)(const void *node, const char *name, unsigned kind, void *value, size_t size);
    const void *node;
};

struct attribute_source attributes_of_kernel(const OrtKernelInfo *info);
struct attribute_source attributes_of_node(const OrtNode *node);

/* Refused: an attribute of the node that is none of them, or has no value of its kind: it may
   change what the node computes.  pmx: the bit of PMX's op, or 0, as below. */
OrtStatus *attributes_check(const OrtNode *node, unsigned pmx);

/* Those of an op that are there, with values of the kind: an int64_t, a float, or a text. */
void attributes_each(const struct attribute_source *source, unsigned pmx,
                     void (*take)(void *data, const char *name, unsigned kind, const void *value),
                     void *data);

/* All of them, or their defaults.  opset: of Attention, where no attribute "opset" says it. */
OrtStatus *attributes_read(struct attributes *attributes, const struct attribute_source *source,
                           int64_t opset, unsigned pmx);

#endif
