/* What an op of cache attention has.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ATTENTION_OP_H
#define KVMILL_TESTS_ATTENTION_OP_H

#include <string.h>

#include "attention.h"

static inline bool has_cache(const struct attention *a) {
    return a->which != MULTI_HEAD_ATTENTION;
}

static inline bool has_query(const struct attention *a) {
    return a->which != KEY_VALUE_CACHE;
}

static inline int64_t kv_heads(const struct attention *a) {
    return a->op.num_kv_heads != 0 ? a->op.num_kv_heads : a->op.num_heads;
}

static inline int64_t value_dim(const struct attention *a) {
    bool own = a->op.value_differs && a->op.value_head_dim != 0;
    return own ? a->op.value_head_dim : a->op.head_dim;
}

/* V is the beginning of K's rows. */
static inline bool has_value_view(const struct attention *a) {
    return a->which == MULTI_HEAD_CACHE_ATTENTION && a->op.value_differs && a->op.value_view;
}

static inline bool has_value_cache(const struct attention *a) {
    return a->op.value_differs && !has_value_view(a);
}

/* Lists of pages that each sequence has; 0: one, which all heads share. */
static inline int64_t page_lists(const struct attention *a) {
    bool any = a->lists_of_heads && a->op.dynamic_batching && a->op.cache_mode == 1 &&
               a->which == MULTI_HEAD_CACHE_ATTENTION;
    return any ? kv_heads(a) : 0;
}

/* Positions of so many that a cache still has. */
static inline int64_t in_ring(const struct attention *a, int64_t length) {
    return a->ring > 0 && a->ring < length ? a->ring : length;
}

/* K's or V's attributes. */
struct side {
    int64_t dim, quant_bit, group;
    DLDataType T2, T3;
    const char *format;
};

static inline struct side side_of(const struct attention *a, bool value) {
    const kvmill_cache_attention *op = &a->op;
    if (value && has_value_cache(a))
        return (struct side){value_dim(a),
                             op->value_quant_bit,
                             op->value_quant_group != 0 ? op->value_quant_group : op->quant_group,
                             op->value_T2,
                             op->value_T3,
                             op->value_cache_format};
    return (struct side){value ? value_dim(a) : op->head_dim,
                         op->quant_bit,
                         op->quant_group,
                         op->T2,
                         op->T3,
                         op->cache_format};
}

static inline bool in_tiles(const struct side *side) {
    return side->format != NULL && strcmp(side->format, "tiles") == 0;
}

static inline bool has_tiles(const struct attention *a) {
    struct side key = side_of(a, false), value = side_of(a, true);
    return in_tiles(&key) || in_tiles(&value);
}

/* So many rows that they are whole tiles, where there are any. */
static inline int64_t whole_tiles(const struct attention *a, int64_t rows) {
    enum { TILE = 16 };
    return has_tiles(a) ? (rows + TILE - 1) / TILE * TILE : rows;
}

static inline void set_ring(struct attention *a) {
    int64_t page = a->op.dynamic_batching && a->op.cache_mode == 1 ? a->op.page_size : 1;
    bool has_offsets = a->op.dynamic_batching && a->op.cache_mode == 0;
    a->ring = has_cache(a) ? whole_tiles(a, (a->ring + page - 1) / page * page) : 0;
    a->op.mode = a->ring > 0 ? "circular" : NULL;
    a->op.capacity = has_offsets ? a->ring : 0;
}

static inline enum oracle_type type_of(const struct side *side) {
    if (side->format != NULL && !in_tiles(side))
        return oracle_of_word(side->format);
    return attention_type(side->T2);
}

static inline int64_t last_dim(const struct side *side) {
    return side->format != NULL && !in_tiles(side) ? oracle_bytes(type_of(side), side->dim)
                                                   : side->dim;
}

#endif
