/* CacheAttend. cache_attend_plan.c creates plans, cache_attend_check.c checks runs,
   cache_attend_lists.c reads the tensors that name rows, and cache_attend_view.c makes the view for
   attention.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_OPS_CACHE_ATTEND_H
#define KVMILL_RUNTIME_OPS_CACHE_ATTEND_H

#include "../../ops/cache_attend.h"
#include "../attend/engine.h"
#include "../core/check.h"

struct cache_attend_plan {
    kvmill_plan base;
    struct attend_plan attend;
    kvmill_cache_attend op; /* V's format filled in */
    struct kvmill_cache_geometry geometry;
    struct tensor_rule rules[KVMILL_CACHE_ATTEND_TENSORS];
    float slopes[]; /* computed, by query head */
};

struct cache_attend_call {
    struct attend_call base;
    int64_t queries;   /* of all sequences */
    int64_t rows;      /* of a sequence's cache, or of the one for all */
    int64_t page_rows; /* row strides from a page to the next */
    bool heads_apart;  /* lists of pages of each kv head */
    struct number_array lengths, ranges[2], page_ids, page_starts, slots, slot_starts;
    struct number_array positions, key_positions;
    int64_t key_batch; /* key_positions from a sequence to the next */
};

_Static_assert(sizeof(struct cache_attend_call) <= sizeof(kvmill_call), "kvmill_call is too small");

static inline const struct cache_attend_plan *cache_attend_plan_of(
    const struct cache_attend_call *call) {
    return (const struct cache_attend_plan *)(const void *)call->base.base.base.plan;
}

/* Where the list of pages of a kv head begins, and where it ends, in page_ids. */
static inline int64_t page_list_at(const struct cache_attend_call *call, int64_t b, int64_t kv_head,
                                   int64_t end) {
    int64_t heads = call->heads_apart ? cache_attend_plan_of(call)->geometry.kv_heads : 1;
    return number_at(&call->page_starts, b * heads + (heads > 1 ? kv_head : 0) + end);
}

/* Positions of a sequence, along the list of a kv head. */
int64_t kvmill_cache_attend_length(const struct cache_attend_call *call, int64_t b,
                                   int64_t kv_head);

/* Rows of the ring that they are in. */
int64_t kvmill_cache_attend_ring(const struct cache_attend_call *call, int64_t b, int64_t kv_head);

/* The sequence as the query heads from `head` on see it; view.look. */
void kvmill_cache_attend_look(const struct attend_view *view, int64_t b, int64_t head,
                              struct attend_sequence *sequence);

/* A run while it is checked. */
struct attend_given {
    struct given_tensors base;
    const struct cache_attend_plan *plan;
    struct cache_attend_call *call;
};

/* All addresses of a run whose tensors are checked, and what attention asks of it. */
void kvmill_cache_attend_set_view(const struct attend_given *given);

/* Integers along a tensor's first dim; none where there is no tensor. */
struct number_array kvmill_numbers_of(const struct attend_given *given, int which);

/* Element i is in [first, last]. */
kvmill_status kvmill_check_number(const struct attend_given *given, int which, int64_t i,
                                  int64_t first, int64_t last);

/* Sums of lengths of `count` sequences, from 0 on; the last is `end`. */
kvmill_status kvmill_check_starts(const struct attend_given *given, int which, int64_t count,
                                  int64_t end);

/* What names rows: which of the tensors there are, and what is in them. */
kvmill_status kvmill_check_places(const struct attend_given *given);
kvmill_status kvmill_check_lists(struct attend_given *given);

/* Validate a run and fill the call. */
kvmill_status kvmill_cache_attend_begin(struct cache_attend_call *call,
                                        const DLTensor *const *tensors, kvmill_error *error);

#endif
