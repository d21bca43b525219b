/* Where the dims of PMX's caches are, and in which order rows of a head lie.

   SPDX-License-Identifier: Apache-2.0 */
#include "cache_attention.h"

const struct kvmill_cache_layout *kvmill_cache_layout_of(
    const struct kvmill_cache_geometry *geometry) {
    static const struct kvmill_cache_layout of_static[] = {
        {.rank = 6, .batch = 0, .layer = 1, .kv = 2, .slot = 3, .head = 4},
        {.rank = 6, .layer = 0, .batch = 1, .kv = 2, .head = 3, .slot = 4},
    };
    static const struct kvmill_cache_layout of_dynamic[] = {
        {.rank = 5, .batch = -1, .slot = 0, .layer = 1, .kv = 2, .head = 3},
        {.rank = 5, .batch = -1, .layer = 0, .slot = 1, .kv = 2, .head = 3},
        {.rank = 5, .batch = -1, .layer = 0, .kv = 1, .slot = 2, .head = 3},
        {.rank = 5, .batch = -1, .layer = 0, .kv = 1, .head = 2, .slot = 3},
        {.rank = 6, .batch = -1, .layer = 0, .kv = 1, .slot = 2, .head = 3, .row = 4},
    };
    bool has_cache = geometry->which != KVMILL_MULTI_HEAD_ATTENTION;
    return (geometry->dynamic ? of_dynamic : of_static) + (has_cache ? geometry->layout : 0);
}

int kvmill_cache_dims(const struct kvmill_cache_geometry *geometry, int64_t last,
                      int64_t dims[KVMILL_MOST_CACHE_DIMS]) {
    const struct kvmill_cache_layout *layout = kvmill_cache_layout_of(geometry);
    for (int d = 0; d < layout->rank; d++)
        dims[d] = KVMILL_DYNAMIC;
    dims[layout->layer] = geometry->layers;
    dims[layout->kv] = geometry->value_differs ? 1 : 2;
    dims[layout->head] = geometry->kv_heads;
    if (layout->row > 0)
        dims[layout->row] = geometry->page_size;
    dims[layout->rank - 1] = last;
    return layout->rank;
}

int kvmill_cache_row_dim(const struct kvmill_cache_geometry *geometry) {
    const struct kvmill_cache_layout *layout = kvmill_cache_layout_of(geometry);
    return layout->row > 0 && geometry->page_size > 1 ? layout->row : layout->slot;
}
