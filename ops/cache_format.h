/* Where a cache's attributes become formats.  PMX says a format by quant_bit, quant_group, T2, T3
   and cache_format; all other code asks the struct kvmill_format that they mean.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_CACHE_FORMAT_H
#define KVMILL_OPS_CACHE_FORMAT_H

#include <kvmill.h>

#include "../defs/format.h"
#include "cache_geometry.h"

/* The attributes of K's cache, or of V's. */
struct kvmill_side {
    const char *prefix; /* of their names */
    bool is_value;
    int64_t dim;
    struct kvmill_attributes attributes;
    int64_t page; /* rows of a page; 0: there are no pages */
    DLDataType T1;
    bool copies;                   /* T1 may be int8, whose codes are copied (D41) */
    const struct kvmill_side *key; /* V is the beginning of K's rows, which are this; or NULL */
};

/* The types of activations and rows that these attributes mean: D11 to D13, D41. */
kvmill_status kvmill_check_side(const struct kvmill_side *side, struct kvmill_convert_shape *shape,
                                kvmill_error *error);

/* The geometry's types, of activations, K and V. */
kvmill_status kvmill_check_sides(const struct kvmill_side *key, const struct kvmill_side *value,
                                 struct kvmill_cache_geometry *geometry, kvmill_error *error);

/* Check that interleaved rows have the places that they need. */
kvmill_status kvmill_check_tiles(const struct kvmill_cache_geometry *geometry, kvmill_error *error);

#endif
