/* The amount of work in a call of cache attention, and the speed that the bars require.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_ATTENTION_WORK_H
#define KVMILL_BENCH_ATTENTION_WORK_H

#include "scene.h"

/* Bytes of a row of one head, and its scales. */
int64_t attention_format_bytes(const struct kvmill_format *format);

/* Bytes of K and V, and their scales, in a row of all kv heads. */
int64_t attention_row_bytes(const struct kvmill_cache_geometry *geometry);

/* What queries see: of `positions`, `tokens` queries from position `first` on see `left` before
   their own and `right` after it; -1: all. */
struct attention_sight {
    int64_t first, tokens, positions, left, right;
};

/* Pairs of a query and a position that it sees; rows between the first and the last that any
   sees. */
double attention_pairs(const struct attention_sight *sight);
int64_t attention_rows(const struct attention_sight *sight);

/* Bytes of the cache that a call has to read, each once. */
double attention_read_bytes(const struct kvmill_cache_geometry *geometry,
                            const struct run_size *size);

/* Floating-point operations, two to a multiply-add, for scores and sums of what each query sees. */
double attention_flops(const struct kvmill_cache_geometry *geometry, const struct run_size *size);

/* Bytes that storing the new tokens reads and writes. */
double attention_store_bytes(const struct kvmill_cache_geometry *geometry,
                             const struct run_size *size);

/* The part of these that K and V of the new tokens are as activations. */
int64_t attention_activation_bytes(const struct kvmill_cache_geometry *geometry,
                                   const struct run_size *size);

/* ---- Bars: least ratios; 0 where none was set ---- */

/* One new token: bytes per second over what the machine reads.  isa: of the kernel. */
double attention_decode_bar(const struct kvmill_cache_geometry *geometry, const char *isa);

/* Many: share of the peak of float32 multiply-adds. */
double attention_prefill_bar(const struct kvmill_cache_geometry *geometry, const char *isa,
                             int64_t tokens);

#endif
