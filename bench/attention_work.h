/* The amount of work in a call of cache attention, and the speed that the bars require.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_ATTENTION_WORK_H
#define KVMILL_BENCH_ATTENTION_WORK_H

#include "scene.h"

/* Returns the bytes of one head's row and of its scales. */
int64_t attention_format_bytes(const struct kvmill_format *format);

/* Returns the bytes of a row of K and V of all kv heads, and of their scales. */
int64_t attention_row_bytes(const struct kvmill_cache_geometry *geometry);

/* The positions that queries see.  positions: all; tokens: the queries, which start at position
   `first`.  Each query sees `left` positions before its own and `right` after it (-1: all). */
struct attention_sight {
    int64_t first, tokens, positions, left, right;
};

/* The number of pairs of a query and a position that it sees; the number of rows from the first to
   the last that any query sees. */
double attention_pairs(const struct attention_sight *sight);
int64_t attention_rows(const struct attention_sight *sight);

/* Returns the bytes of the cache that a call has to read; each counts once. */
double attention_read_bytes(const struct kvmill_cache_geometry *geometry,
                            const struct run_size *size);

/* Returns the floating-point operations of scores and weighted sums; a multiply-add counts as
   two. */
double attention_flops(const struct kvmill_cache_geometry *geometry, const struct run_size *size);

/* Returns the bytes that storing the new tokens reads and writes. */
double attention_store_bytes(const struct kvmill_cache_geometry *geometry,
                             const struct run_size *size);

/* Returns the part of these bytes that are activations: K and V of the new tokens. */
int64_t attention_activation_bytes(const struct kvmill_cache_geometry *geometry,
                                   const struct run_size *size);

/* ---- Bars: least ratios; 0: no bar ---- */

/* Decoding one new token: its bytes per second, divided by those that the machine reads.  isa: the
   instruction set of the kernel. */
double attention_decode_bar(const struct kvmill_cache_geometry *geometry, const char *isa);

/* A prompt: its share of the peak of float32 multiply-adds. */
double attention_prefill_bar(const struct kvmill_cache_geometry *geometry, const char *isa,
                             int64_t tokens);

#endif
