/* The meaning of CacheAttend's attributes.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_CACHE_ATTEND_H
#define KVMILL_OPS_CACHE_ATTEND_H

#include "cache_attention.h"

/* Check everything that the attributes tell; geometry is set on success: its activation is the
   kernels'. */
kvmill_status kvmill_cache_attend_check(const kvmill_cache_attend *op,
                                        struct kvmill_cache_geometry *geometry,
                                        kvmill_error *error);

/* The kernels that a checked op wants: with a mask, for what a range of positions cannot say, or
   without one. */
struct kvmill_attend_shape kvmill_cache_attend_shape(const kvmill_cache_attend *op,
                                                     const struct kvmill_cache_geometry *geometry,
                                                     bool masked);

/* Slope of a query head. */
float kvmill_cache_attend_slope(const kvmill_cache_attend *op, int64_t head);

/* The op with V's format where it has K's. */
kvmill_cache_attend kvmill_cache_attend_resolve(const kvmill_cache_attend *op);

/* There is an attn_mask. */
static inline bool kvmill_cache_attend_is_masked(const kvmill_cache_attend *op) {
    return op->mask_T1.bits != 0;
}

#endif
