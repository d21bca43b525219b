/* ONNX models whose nodes are moved into kvmill's domain, that of bindings/onnxruntime.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_ONNX_ONNX_REWRITE_H
#define KVMILL_IMPORT_ONNX_ONNX_REWRITE_H

#include "../../base/text.h"

struct onnx_rewritten {
    struct text model; /* the file */
    struct text
        notes;      /* lines on nodes that stay as they are, or that the model says too little of */
    int nodes;      /* that were moved, or became part of one that was */
    bool has_files; /* elements in files beside the model */
};

/* TensorScatter and Attention nodes of the main graph that kvmill takes become ops of the same
   names in domain "kvmill", Attention with the attribute "opset"; where Attention reads what two
   TensorScatter nodes store, and nobody else does, the three become one TensorScatterAttention: Q,
   K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen, write_indices to Y, present_key,
   present_value.  Everything else stays as it is, also what this reader does not know.  The texts
   are the caller's to free, also after a failure.

   formats: NULL, or words of blocks for caches of K and of V.  Then only those three nodes change:
   they become one CacheStep, with the same inputs and outputs; and GroupQueryAttention of ONNX
   Runtime, which goes into the domain.  A cache that cannot have the format is refused. */
bool onnx_rewrite(const char *file, const char *const formats[2], struct onnx_rewritten *rewritten,
                  struct error *error);

#endif
