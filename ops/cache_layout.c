/* Where the dims of PMX's caches are.

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
