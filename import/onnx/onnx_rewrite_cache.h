/* Rewrites a cache of a model to blocks of llama.cpp.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_ONNX_ONNX_REWRITE_CACHE_H
#define KVMILL_IMPORT_ONNX_ONNX_REWRITE_CACHE_H

#include "onnx.h"
#include "onnx_reader.h"

struct onnx_cache {
    const struct onnx_model *model;
    const struct onnx_node *node; /* that stores into it */
    int past, present;            /* values */
    int readers;                  /* of past: inputs of nodes */
    int64_t kv_num_heads;         /* where these have no axis for heads */
    const char *format;           /* a word of formats in blocks */
};

/* Past and present become uint8, with the bytes of a row for the last dim.  Refused where the
   values are not a whole input and output of the model, or rows are none of that format. */
bool onnx_set_cache(const struct onnx_cache *cache, Onnx__Graph *graph, struct error *error);

#endif
