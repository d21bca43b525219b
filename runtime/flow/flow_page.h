/* Converts a page's K, V and fields to floats, and floats to fields.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_FLOW_FLOW_PAGE_H
#define KVMILL_RUNTIME_FLOW_FLOW_PAGE_H

#include "flow_portable.h"

/* A page of one kv head. */
struct flow_page {
    const struct kvmill_flow_problem *problem;
    const struct flow_cache *cache;
    int64_t number, kv_head;
    int64_t rows; /* that exist */
};

/* A value of a page; what is KEY, VALUE or FIELD. */
void kvmill_flow_load(const struct flow_page *page, const struct kvmill_flow_value *value,
                      float *data);

/* Store rows of K or V (0, 1) as append does: rounded to activations, then to the cache's format.
   `data` is overwritten. */
void kvmill_flow_store_rows(const struct flow_page *page, int v, float *data);

/* Store a field, rounded to its type: up for the result of a Max (code), down for that of a Min,
   otherwise to nearest. */
void kvmill_flow_store(const struct flow_page *page, int field, int code, const float *data);

#endif
