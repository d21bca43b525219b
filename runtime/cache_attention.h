/* The plans of cache attention: made by cache_attention_plan.c, their runs checked by
   cache_attention_check.c, what a run does to the cache in cache_attention_rows.c, and what it
   computes in cache_attention_attend.c.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CACHE_ATTENTION_H
#define KVMILL_RUNTIME_CACHE_ATTENTION_H

#include "../ops/cache_attention.h"
#include "given.h"
#include "plan.h"
#include "select.h"

/* ---- Plans ---- */

/* Dims of a cache; batch is -1 where sequences share the slots.  row: of a page's rows, where
   `slot` is that of pages; else 0. */
struct cache_layout {
    int rank, batch, layer, kv, slot, head, row;
};

/* Kernels of all tile sizes, ascending. */
struct tiles {
    struct attend_selection selection;
    int rows[MOST_TILES];
    struct kvmill_attend_shape wanted; /* the portable kernel has no shape of its own */
};

/* What a kernel's problems have as shape. */
static inline const struct kvmill_attend_shape *tile_shape(const struct tiles *tiles,
                                                           const struct kvmill_kernel *kernel) {
    return tiles->selection.portable ? &tiles->wanted : kernel->shape;
}

/* Where things lie in the workspace: for every thread a slot, then the partial results that are
   merged.  A slot begins with the flag that says who has it. */
struct workspace_layout {
    int64_t kernel, rows, slots, partial, masks; /* in a thread's slot */
    int64_t size;                                /* of a thread's slot */
    int64_t shared;                              /* partial results */
    int64_t more;                                /* behind them */
};

struct cache_call;

/* The parts of a phase may run in any order. */
struct phase {
    int64_t (*parts)(const struct cache_call *call);
    void (*part)(const struct cache_call *call, int64_t part);
};

struct onnx_plan;
struct onnx_run;

struct cache_plan {
    kvmill_plan base;
    struct kvmill_cache_geometry geometry;
    struct cache_layout layout;
    char name[48]; /* of the op */
    struct tensor_rule rules[KVMILL_CACHE_ATTENTION_TENSORS];
    struct kvmill_convert_shape shapes[2]; /* of K and V */
    struct by_size writers[2], readers[2]; /* likewise */
    struct tiles tiles[2];                 /* [1]: with an attn_mask */
    struct workspace_layout workspace;
    const struct phase *const *phases; /* end with NULL */
    struct onnx_plan *onnx;            /* of ONNX Attention; or NULL */
    int threads;
    bool partial;
    float empty;
    float slopes[]; /* of ALiBi, by query head */
};

/* The hooks of all plans of attention, but for begin. */
int64_t kvmill_cache_attention_parts(const struct call *call);
void kvmill_cache_attention_part(const struct call *call, int64_t part);
bool kvmill_cache_attention_next(struct call *call);

/* Threads that a plan is made for. */
kvmill_status kvmill_check_threads(const kvmill_plan_options *options, int *threads,
                                   kvmill_error *error);

/* The kernels that attend, without or with a mask.  The shape's rows and workspace are set. */
void kvmill_select_tiles(const struct shelf *shelf, const struct kvmill_attend_shape *wanted,
                         struct tiles *tiles);

/* " SYMBOL, SYMBOL (pack NAME)" */
struct words;
void kvmill_say_tiles(struct words *words, const struct tiles *tiles);

/* Everything of a plan but the announcement. */
kvmill_status kvmill_make_cache_plan(const kvmill_cache_attention *op, enum kvmill_cache_op which,
                                     const kvmill_plan_options *options, struct cache_plan **plan,
                                     kvmill_error *error);

/* ---- Runs ---- */

struct index_array {
    const kvmill_index *data;
    int64_t stride;
};

/* Activations by sequence, token and head: bytes between neighbours.  In dynamic batches tokens are
   counted through all sequences. */
struct token_rows {
    unsigned char *data;
    int64_t batch, token, head;
};

/* K or V as attention sees it: the address of sequence 0, and bytes between sequences. */
struct cache_side {
    struct kvmill_cache_rows rows;
    int64_t batch, scale_batch;
};

/* Pages of a sparse flow's requests: request b has pages ids[indptr[b]] ... for length[b] tokens.
   Some of them are attended to: those that a list names by their numbers, one list for each row of
   a request; the last page is the last of a list. */
struct page_lists {
    const int64_t *indptr, *length;
    const int32_t *ids;    /* NULL: there are no such pages */
    const int64_t *starts; /* of lists, rows * batch + 1; NULL: all pages */
    const int32_t *list;
    int64_t rows;     /* of a request: 1, kv heads, or query heads */
    bool heads_apart; /* tiles of one query head each */
};

struct cache_call {
    struct call base;
    int phase;
    int sink_element;
    int64_t batch;
    int64_t tokens, positions; /* of all sequences together: new ones, all */
    int64_t seqlen, kvlen;     /* static batch: of every sequence */
    struct index_array seqstarts, kvstarts, cachestarts;
    int64_t page_stride, page_head; /* page_head: between kv heads with lists of their own, or 0 */
    int64_t page_rows;              /* row_strides from a page to the next */
    struct page_lists lists;
    int64_t decoding; /* so many sequences know no causal mask */
    struct cache_side side[2];
    struct token_rows current[2]; /* key and value, to be written; of ONNX Attention: new ones */
    struct token_rows loaded[2];  /* to be read back */
    struct token_rows query, output, lse;
    struct token_rows mask;      /* by token, then position */
    const struct onnx_run *onnx; /* of ONNX Attention; or NULL */
    unsigned char *sinks;
    int64_t sink_stride;
    const struct tiles *tiles;
    int64_t tile_tokens, tile_cuts; /* tokens of a tile; tiles that share the heads of a token */
    int64_t tile_rows;              /* query rows of a tile */
    int64_t units;                  /* tiles of all sequences and kv heads */
    int64_t splits;                 /* most pieces of a unit */
};

_Static_assert(sizeof(struct cache_call) <= sizeof(kvmill_call), "kvmill_call is too small");

static inline const struct cache_plan *cache_plan_of(const struct cache_call *call) {
    return (const struct cache_plan *)(const void *)call->base.plan;
}

static inline int64_t index_at(struct index_array array, int64_t i) {
    return array.data[i * array.stride];
}

/* New tokens, or positions, of the sequences before b. */
static inline int64_t tokens_before(const struct cache_call *call, int64_t b) {
    return call->seqstarts.data ? index_at(call->seqstarts, b) : b * call->seqlen;
}

static inline int64_t positions_before(const struct cache_call *call, int64_t b) {
    return call->kvstarts.data ? index_at(call->kvstarts, b) : b * call->kvlen;
}

static inline int64_t tokens_of(const struct cache_call *call, int64_t b) {
    return tokens_before(call, b + 1) - tokens_before(call, b);
}

static inline int64_t positions_of(const struct cache_call *call, int64_t b) {
    return positions_before(call, b + 1) - positions_before(call, b);
}

/* Address of token t of sequence b. */
static inline unsigned char *token_at(const struct cache_call *call, const struct token_rows *rows,
                                      int64_t b, int64_t t) {
    int64_t before = call->seqstarts.data ? index_at(call->seqstarts, b) : 0;
    return rows->data + b * rows->batch + (before + t) * rows->token;
}

/* Last sequence b in [0, batch) with before (call, b) <= number. */
int64_t kvmill_find_sequence(const struct cache_call *call,
                             int64_t (*before)(const struct cache_call *call, int64_t b),
                             int64_t number);

/* Positions that a query head of sequence b attends among: all, or those of its list. */
int64_t kvmill_positions_along(const struct cache_call *call, int64_t b, int64_t head);

/* The first of them that a window begins with, which leaves the last `window` tokens. */
int64_t kvmill_first_in_window(const struct cache_call *call, int64_t b, int64_t head,
                               int64_t window);

/* Cache rows of positions [first, first + count) of sequence b, as a query head attends to them. */
void kvmill_fill_slots(const struct cache_call *call, int64_t b, int64_t head, int64_t first,
                       int64_t count, int64_t *slots);

/* A kernel for this call. */
const struct kvmill_kernel *kvmill_kernel_of_call(const struct by_size *by_size,
                                                  const struct cache_call *call);

/* ---- Validation ---- */

/* A run while it is checked. */
struct given {
    struct given_tensors base;
    const struct cache_plan *plan;
    struct cache_call *call;
    int64_t capacity; /* rows of a sequence, or of all */
};

/* Set what a plan demands of every tensor. */
void kvmill_cache_attention_expect(struct cache_plan *plan, const kvmill_cache_attention *op);

/* Shapes of the caches and their scales, once the batch is known; sets the capacity. */
kvmill_status kvmill_check_caches(struct given *given);

/* Shapes of all others, once all lengths are known. */
kvmill_status kvmill_check_activations(const struct given *given);

/* All addresses of the call. */
void kvmill_set_addresses(const struct given *given);

/* Validate a run and fill the call; op.begin. */
kvmill_status kvmill_cache_attention_begin(struct call *call, const DLTensor *const *tensors,
                                           kvmill_error *error);

/* ---- Phases ---- */

extern const struct phase kvmill_write_phase, kvmill_read_phase, kvmill_attend_phase,
    kvmill_merge_phase;

/* Cut a run into tiles, units and pieces; before the first phase. */
void kvmill_attend_prepare(struct cache_call *call, bool masked);

/* Lay the workspace out, for the largest of the plan's tiles and `more` bytes. */
void kvmill_attend_lay_out(struct cache_plan *plan, size_t more);

#endif
