/* The meaning of CacheAttend's attributes.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_CACHE_ATTEND_H
#define KVMILL_OPS_CACHE_ATTEND_H

#include "cache_attention.h"

/* Check everything that the attributes determine.  On success geometry is set; its activation is
   that of kernels. */
kvmill_status kvmill_cache_attend_check(const kvmill_cache_attend *op,
                                        struct kvmill_cache_geometry *geometry,
                                        kvmill_error *error);

/* The kernels that a checked op needs: with a mask, if a range of positions cannot express what is
   seen, or without one. */
struct kvmill_attend_shape kvmill_cache_attend_shape(const kvmill_cache_attend *op,
                                                     const struct kvmill_cache_geometry *geometry,
                                                     bool masked);

/* The slope of a query head. */
float kvmill_cache_attend_slope(const kvmill_cache_attend *op, int64_t head);

/* The op with V's format filled in, if V has K's. */
kvmill_cache_attend kvmill_cache_attend_resolve(const kvmill_cache_attend *op);

/* Whether there is an attn_mask. */
static inline bool kvmill_cache_attend_is_masked(const kvmill_cache_attend *op) {
    return op->mask_T1.bits != 0;
}

#endif
