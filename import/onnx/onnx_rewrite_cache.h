/* Rewrites a cache of a model to blocks of llama.cpp.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_ONNX_ONNX_REWRITE_CACHE_H
#define KVMILL_IMPORT_ONNX_ONNX_REWRITE_CACHE_H

#include "onnx.h"
#include "onnx_reader.h"

struct onnx_cache {
    const struct onnx_model *model;
    const struct onnx_node *node; /* the node that stores to it */
    int past, present;            /* numbers of values */
    int readers;                  /* inputs of nodes that read past */
    int64_t kv_num_heads;         /* if the caches have no axis for heads */
    const char *format;           /* name of a format of blocks */
};

/* Changes past and present to uint8, with the bytes of a row as last dim.  Fails if they are not an
   input and an output of the model, or if their rows do not fit the format. */
bool onnx_set_cache(const struct onnx_cache *cache, Onnx__Graph *graph, struct error *error);

#endif
