/* The numbers of a spec's problems that are constants in its kernels, if the spec asks for
   constants.  They follow from its attributes and dims, for tensors without gaps.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_SPEC_CONSTANTS_H
#define KVMILL_GEN_SPEC_CONSTANTS_H

#include "../ops/tensor_scatter.h"
#include "../spec/spec.h"
#include "kernel.h"

struct constants rows_constants(const struct spec *spec, const struct kvmill_row_geometry *geometry,
                                const struct kvmill_rows_shape *shape);

/* Constants of kernels that write K or V, or read it. */
struct constants convert_constants(const struct spec *spec,
                                   const struct kvmill_cache_geometry *geometry, bool value,
                                   bool writes);

struct constants attend_constants(const struct spec *spec,
                                  const struct kvmill_cache_geometry *geometry);

/* Constants of attention over a cache whose layout only a run knows: only heads. */
struct constants head_constants(const struct spec *spec, int64_t ratio);

/* Attention over tensors of [batch, kv_heads, keys, dim], or [batch, keys, kv_heads * dim]. */
struct constants onnx_constants(const struct spec *spec,
                                const struct kvmill_attention_geometry *geometry,
                                const struct kvmill_attend_shape *shape);

#endif
