/* PMX cache attention: which problems are valid, and how they fold.  The same rules serve the
   generator (spec files) and the library (plans).

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_CACHE_ATTENTION_H
#define KVMILL_OPS_CACHE_ATTENTION_H

#include <kvmill.h>

#include "../defs/format.h"
#include "../defs/op.h"
#include "cache_geometry.h"

const struct op *kvmill_cache_op_of(const struct kvmill_cache_geometry *geometry);

/* Check everything that the attributes determine; geometry is set on success. */
kvmill_status kvmill_cache_attention_check(const kvmill_cache_attention *op,
                                           enum kvmill_cache_op which,
                                           struct kvmill_cache_geometry *geometry,
                                           kvmill_error *error);

/* Check the numbers of heads; kv_heads 0: as many. */
kvmill_status kvmill_check_heads(int64_t heads, int64_t kv_heads,
                                 struct kvmill_cache_geometry *geometry, kvmill_error *error);

/* The sides that have rows: K and V; or only K, if V is a view of it. */
static inline int kvmill_stored_sides(const struct kvmill_cache_geometry *geometry) {
    return geometry->value_view ? 1 : 2;
}

/* The dims of a cache.  batch is -1 if sequences share the slots.  row is the dim of a page's rows
   if `slot` counts pages, else 0. */
struct kvmill_cache_layout {
    int rank, batch, layer, kv, slot, head, row;
};
const struct kvmill_cache_layout *kvmill_cache_layout_of(
    const struct kvmill_cache_geometry *geometry);

/* The dims of a cache as far as the attributes determine them; the last one is `last`.  Returns
 * their number. */
enum { KVMILL_MOST_CACHE_DIMS = 6 };
int kvmill_cache_dims(const struct kvmill_cache_geometry *geometry, int64_t last,
                      int64_t dims[KVMILL_MOST_CACHE_DIMS]);

/* The dim along which a cache's rows are counted; pages of one row are rows. */
int kvmill_cache_row_dim(const struct kvmill_cache_geometry *geometry);

/* Whether K, V or both are in tiles, so that slots are counted in multiples of KVMILL_KEY_TILE. */
bool kvmill_has_tiles(const struct kvmill_cache_geometry *geometry);

/* The shapes of the kernels that a problem needs; rows and workspace of an attend shape stay 0.
   With `masked`, attend kernels also take an attn_mask. */
struct kvmill_convert_shape kvmill_convert_shape_of(const struct kvmill_cache_geometry *geometry,
                                                    bool value);
struct kvmill_attend_shape kvmill_attend_shape_of(const struct kvmill_cache_geometry *geometry,
                                                  bool masked);

/* Factor of the ALiBi bias of a head: 2^(-8 (k + 1) / n) for the first n heads, n the largest power
   of two <= heads; 2^(-4 m / n), m = 1, 3, 5 ..., for the rest. */
double kvmill_alibi_slope(int64_t heads, int64_t head);

#endif
