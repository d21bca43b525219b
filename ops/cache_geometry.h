/* A cache and what attends to it, as kernels see them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_CACHE_GEOMETRY_H
#define KVMILL_OPS_CACHE_GEOMETRY_H

#include <stdbool.h>

#include <kvmill_kernel.h>

enum kvmill_cache_op {
    KVMILL_KEY_VALUE_CACHE,
    KVMILL_MULTI_HEAD_ATTENTION,
    KVMILL_MULTI_HEAD_CACHE_ATTENTION
};

/* The positions that a query sees, including its own; 0: all. */
static inline int64_t kvmill_window_of(int64_t left_window_size) {
    bool is_bound = left_window_size >= 0 && left_window_size < INT64_MAX;
    return is_bound ? left_window_size + 1 : 0;
}

/* The attributes with defaults filled in, and types as kernels see them. */
struct kvmill_cache_geometry {
    enum kvmill_cache_op which;
    bool dynamic, causal, alibi, paged;
    int64_t heads, kv_heads, ratio; /* ratio = heads / kv_heads */
    int64_t layers, layer, layout, page_size, repeat;
    int activation;                  /* enum kvmill_element; I8: codes are copied (D41) */
    struct kvmill_format key, value; /* of the cache; for MultiHeadAttention, of the inputs */
    bool value_differs, value_view;
    bool saturates; /* scales that their type cannot hold become its largest number */
    int math;
    double scale, softcap;
    int64_t window; /* kvmill_window_of */
    bool circular;
    int64_t ring; /* slots of a ring that do not depend on the tensors' shapes; or 0 */
    int64_t alibi_heads, alibi_first;
    double alibi_scale;
};

#endif
