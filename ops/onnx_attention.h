/* ONNX Attention-23, 24 and 25: which problems are valid, and how they fold.  The same rules serve
   the generator (spec files) and the library (plans and runs).

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_ONNX_ATTENTION_H
#define KVMILL_OPS_ONNX_ATTENTION_H

#include <stdbool.h>

#include <kvmill.h>

#include "cache_attention.h"

/* In tensors of rank 3, heads are adjacent in the last dim.  Counts that are not known yet are
 * KVMILL_DYNAMIC. */
struct kvmill_attention_geometry {
    bool packed;         /* rank 3 */
    bool step, circular; /* TensorScatter first */
    int64_t batch, queries;
    int64_t keys, past; /* new rows; rows of the past or, for a step, the capacity of a cache */
    int64_t heads, kv_heads, ratio;
    int64_t key_dim, value_dim;
    double scale;
    int64_t left, right; /* windows; -1: unbounded.  Causality is right = 0 */
    bool is_wide;        /* float64 is needed */
};

/* The most keys that a query can see, and columns of an attn_mask. */
int64_t kvmill_attention_keys(const struct kvmill_attention_geometry *geometry);

/* The shape and rank of a tensor; for attn_mask, the largest. */
int kvmill_attention_shape(const struct kvmill_attention_geometry *geometry, int tensor,
                           int64_t dims[4]);

/* The name of a tensor by its index. */
const char *kvmill_attention_name(int tensor);

/* The op's tensors in that order, and the other way round. */
void kvmill_attention_tensors(const kvmill_attention *op, const DLTensor **tensors);
void kvmill_attention_set_tensors(const DLTensor *const *tensors, kvmill_attention *op);

/* Check everything that attributes and tensors determine; geometry is set on success.  The tensors
   are prototypes, or those of a run. */
kvmill_status kvmill_attention_check(const kvmill_attention *op,
                                     struct kvmill_attention_geometry *geometry,
                                     kvmill_error *error);

kvmill_status kvmill_attention_step_check(const kvmill_tensor_scatter_attention *op,
                                          struct kvmill_attention_geometry *geometry,
                                          kvmill_error *error);

/* The step's scatters: of K (v = 0) and V. */
kvmill_tensor_scatter kvmill_attention_scatter(const kvmill_tensor_scatter_attention *op, int v);

/* The same problem for the kernels of cache attention; not if it is wide. */
struct kvmill_cache_geometry kvmill_attention_cache_geometry(
    const kvmill_attention *op, const struct kvmill_attention_geometry *geometry);

/* T1 and T2 in DLPack's words. */
bool kvmill_is_attention_type(DLDataType type);

#endif
