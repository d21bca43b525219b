/* CacheAttend.  cache_attend_plan.c creates plans, cache_attend_check.c checks runs,
   cache_attend_lists.c reads the tensors that name rows, and cache_attend_view.c makes the view for
   attention.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_OPS_CACHE_ATTEND_PLAN_H
#define KVMILL_RUNTIME_OPS_CACHE_ATTEND_PLAN_H

#include "../../ops/cache_attend.h"
#include "../attend/engine.h"
#include "../core/check.h"

struct cache_attend_plan {
    kvmill_plan base;
    struct attend_plan attend;
    kvmill_cache_attend op; /* with V's format filled in */
    struct kvmill_cache_geometry geometry;
    struct tensor_rule rules[KVMILL_CACHE_ATTEND_TENSORS];
    float slopes[]; /* computed slopes of query heads */
};

struct cache_attend_call {
    struct attend_call base;
    int64_t queries;   /* of all sequences */
    int64_t rows;      /* of a sequence's cache, or of the cache that all share */
    int64_t page_rows; /* row strides from a page to the next */
    bool heads_apart;  /* kv heads have lists of pages of their own */
    struct number_array lengths, ranges[2], page_ids, page_starts, slots, slot_starts;
    struct number_array positions, key_positions;
    int64_t key_batch; /* stride of key_positions between sequences */
};

_Static_assert(sizeof(struct cache_attend_call) <= sizeof(kvmill_call), "kvmill_call is too small");

static inline const struct cache_attend_plan *cache_attend_plan_of(
    const struct cache_attend_call *call) {
    return (const struct cache_attend_plan *)(const void *)call->base.base.base.plan;
}

/* Where the list of pages of a kv head begins and ends in page_ids. */
static inline int64_t page_list_at(const struct cache_attend_call *call, int64_t b, int64_t kv_head,
                                   int64_t end) {
    int64_t heads = call->heads_apart ? cache_attend_plan_of(call)->geometry.kv_heads : 1;
    return number_at(&call->page_starts, b * heads + (heads > 1 ? kv_head : 0) + end);
}

/* The positions of a sequence, along the list of a kv head. */
int64_t kvmill_cache_attend_length(const struct cache_attend_call *call, int64_t b,
                                   int64_t kv_head);

/* The rows of the ring that holds them. */
int64_t kvmill_cache_attend_ring(const struct cache_attend_call *call, int64_t b, int64_t kv_head);

/* The sequence as the query heads from `head` on see it: view.look. */
void kvmill_cache_attend_look(const struct attend_view *view, int64_t b, int64_t head,
                              struct attend_sequence *sequence);

/* A run while it is checked. */
struct attend_given {
    struct given_tensors base;
    const struct cache_attend_plan *plan;
    struct cache_attend_call *call;
};

/* Set all addresses of a run whose tensors have been checked, and what attention needs of it. */
void kvmill_cache_attend_set_view(const struct attend_given *given);

/* The number of integers along a tensor's first dim; 0 if there is no tensor. */
struct number_array kvmill_numbers_of(const struct attend_given *given, int which);

/* Check that element i is in [first, last]. */
kvmill_status kvmill_check_number(const struct attend_given *given, int which, int64_t i,
                                  int64_t first, int64_t last);

/* Check running sums of the lengths of `count` sequences, from 0 to `end`. */
kvmill_status kvmill_check_starts(const struct attend_given *given, int which, int64_t count,
                                  int64_t end);

/* Check the tensors that name rows: which of them exist, and their contents. */
kvmill_status kvmill_check_places(const struct attend_given *given);
kvmill_status kvmill_check_lists(struct attend_given *given);

/* Validate a run and fill the call. */
kvmill_status kvmill_cache_attend_begin(struct cache_attend_call *call,
                                        const DLTensor *const *tensors, kvmill_error *error);

#endif
