/* The plans of PMX cache attention.  cache_attention_plan.c creates them; cache_attention_check.c
   and cache_attention_tensors.c check their runs; cache_attention_rows.c stores to the cache and
   reads it; cache_attention_view.c makes the view for attention; cache_attention_ring.c handles
   rings.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_OPS_CACHE_ATTENTION_PLAN_H
#define KVMILL_RUNTIME_OPS_CACHE_ATTENTION_PLAN_H

#include "../../ops/cache_attention.h"
#include "../attend/engine.h"
#include "../core/check.h"
#include "../core/phase.h"

/* ---- Plans ---- */

struct cache_plan {
    kvmill_plan base;
    struct kvmill_cache_geometry geometry;
    struct kvmill_cache_layout layout;
    struct tensor_rule rules[KVMILL_CACHE_ATTENTION_TENSORS];
    struct kvmill_convert_shape shapes[2]; /* of K and V */
    struct by_size writers[2], readers[2]; /* for K and V */
    struct attend_plan attend;
    int said_problem, said_rows;       /* lengths of the description after these parts */
    const struct phase *const *phases; /* end with NULL */
    float slopes[];                    /* of ALiBi, for query heads */
};

/* Record that every run writes rows with the plan's kernels; a KeyValueCache also reads them. */
void kvmill_need_cache_rows(const struct cache_plan *plan, const struct kernel_search *search,
                            struct needs *needs);

/* Everything except kvmill_plan_finish. */
kvmill_status kvmill_make_cache_plan(const kvmill_cache_attention *op, enum kvmill_cache_op which,
                                     const kvmill_plan_options *options, struct cache_plan **plan,
                                     kvmill_error *error);

/* ---- Runs ---- */

struct cache_call {
    struct attend_call base;
    int64_t tokens;                /* new tokens of all sequences */
    struct sequence_counts length; /* positions of sequences */
    int64_t positions;             /* of all sequences */
    int64_t ring;                  /* slots of each sequence's ring; 0: the cache is linear */
    int64_t turn, turns;           /* of a ring: the present turn, and their number */
    int64_t stored;                /* the most tokens of a sequence that a turn stores */
    struct index_array cachestarts;
    int64_t page_stride, page_head; /* page_head: between kv heads with lists of their own, or 0 */
    int64_t page_rows;              /* row strides from a page to the next */
    int64_t decoding;               /* the first sequences, which have no causal mask */
    struct token_rows current[2];   /* key and value, to be written */
    struct token_rows loaded[2];    /* to be read back */
};

_Static_assert(sizeof(struct cache_call) <= sizeof(kvmill_call), "kvmill_call is too small");

static inline const struct cache_plan *cache_plan_of(const struct cache_call *call) {
    return (const struct cache_plan *)(const void *)call->base.base.base.plan;
}

static inline int64_t tokens_of(const struct cache_call *call, int64_t b) {
    return count_of(&call->base.view.tokens, b);
}

static inline int64_t positions_of(const struct cache_call *call, int64_t b) {
    return count_of(&call->length, b);
}

/* Whether a sequence is causal; a single token never is. */
static inline bool is_causal_sequence(const struct cache_call *call, int64_t b) {
    const struct kvmill_cache_geometry *geometry = &cache_plan_of(call)->geometry;
    return geometry->alibi || (geometry->causal && b >= call->decoding && tokens_of(call, b) > 1);
}

/* Where the positions of sequence b are for a query head. */
struct attend_pages kvmill_cache_pages(const struct cache_call *call, int64_t b, int64_t head);

/* Set what attention needs of a run whose tensors are known. */
void kvmill_set_view(struct cache_call *call);

/* ---- Rings ---- */

/* The positions of a sequence that are still in the cache, and those of all sequences before it. */
int64_t kvmill_kept(const struct cache_call *call, int64_t b);
int64_t kvmill_kept_before(const struct cache_call *call, int64_t b);

/* The most positions that a token sees, by window and ring; 0: all. */
int64_t kvmill_most_visible(const struct cache_call *call);

/* The tokens of a sequence in the present turn; and those of them that stay in the ring. */
struct token_span kvmill_tokens_of_turn(const struct cache_call *call, int64_t b);
struct token_span kvmill_tokens_to_store(const struct cache_call *call, int64_t b);

/* Count the turns of a run whose tensors are known; begin one. */
void kvmill_set_turns(struct cache_call *call);
void kvmill_begin_turn(struct cache_call *call, int64_t turn);

/* op.next: goes through phases, and then through turns. */
bool kvmill_cache_attention_next(struct call *call);

/* ---- Validation ---- */

/* A run while it is checked. */
struct given {
    struct given_tensors base;
    const struct cache_plan *plan;
    struct cache_call *call;
    int64_t capacity; /* rows of a sequence's cache, or of the shared cache */
};

static inline const char *given_name(const struct given *given, int which) {
    return given->base.rules[which].name;
}

/* Check the shapes of caches and scales, once the batch is known; sets the capacity. */
kvmill_status kvmill_check_caches(struct given *given);

/* Check the shapes of all other tensors, once all lengths are known. */
kvmill_status kvmill_check_activations(const struct given *given);

/* Set all addresses of the call. */
void kvmill_set_addresses(const struct given *given);

/* Validate a run and fill the call; op.begin. */
kvmill_status kvmill_cache_attention_begin(struct call *call, const DLTensor *const *tensors,
                                           kvmill_error *error);

/* ---- Phases ---- */

extern const struct phase kvmill_write_phase, kvmill_read_phase;

#endif
