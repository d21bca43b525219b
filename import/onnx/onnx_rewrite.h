/* ONNX models whose nodes are moved into kvmill's domain, that of bindings/onnxruntime.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_ONNX_ONNX_REWRITE_H
#define KVMILL_IMPORT_ONNX_ONNX_REWRITE_H

#include "../../base/text.h"

struct onnx_rewritten {
    struct text model; /* the rewritten file */
    struct text
        notes;      /* lines on nodes that stay as they are, or that the model says too little of */
    int nodes;      /* nodes that moved, or became part of a step */
    bool has_files; /* has elements in other files */
};

/* Moves the TensorScatter and Attention nodes of the main graph to domain "kvmill", with the same
   names; Attention gets the attribute "opset".  If Attention reads what two TensorScatter nodes
   store, and nothing else reads it, the three become one TensorScatterAttention: Q, K, V,
   attn_mask, past_key, past_value, nonpad_kv_seqlen, write_indices to Y, present_key,
   present_value.  Everything else stays, including what this reader does not know.  The caller
   frees the texts, also after a failure.

   formats: NULL, or the formats of blocks for caches of K and of V.  With formats only two things
   change: these three nodes become one CacheStep with the same inputs and outputs, and
   GroupQueryAttention of ONNX Runtime moves to the domain.  A cache that cannot have the format is
   refused. */
bool onnx_rewrite(const char *file, const char *const formats[2], struct onnx_rewritten *rewritten,
                  struct error *error);

#endif
