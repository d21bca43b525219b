/* CacheStep, of kvmill's own domain: TensorScatter of K, TensorScatter of V and the Attention that
   reads both, over caches in blocks of llama.cpp (attributes key_cache_format, value_cache_format).
   New rows are stored (WriteRows), then kvmill attends to the caches (CacheAttend).

   Tensors are those of kvmill's TensorScatterAttention, its caches uint8.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_CACHE_STEP_H
#define KVMILL_ONNXRUNTIME_CACHE_STEP_H

#include "node.h"

extern const struct node_op cache_step_op;

#endif
