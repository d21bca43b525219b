/* Problems of cache attention for tests.  Attributes and lengths become tensors in fenced memory,
   filled with numbers where the op may read and with NaN where it may not.  Runs them, and compares
   the results with the oracle's.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ATTENTION_H
#define KVMILL_TESTS_ATTENTION_H

#include "elements.h"
#include "plans.h"

enum cache_op { KEY_VALUE_CACHE, MULTI_HEAD_ATTENTION, MULTI_HEAD_CACHE_ATTENTION };

enum { MOST_SEQUENCES = 16, TENSORS = KVMILL_CACHE_ATTENTION_TENSORS };

/* Layouts of a tensor. */
enum spread { DENSE, SPREAD };

struct attention {
    /* Inputs of attention_open. */
    enum cache_op which;
    kvmill_cache_attention op;
    int64_t sequences, tokens[MOST_SEQUENCES], start[MOST_SEQUENCES]; /* static: all equal */
    int64_t spare_batch, spare_rows; /* additional batch entries and rows of the cache */
    int64_t rows;                    /* of the cache, if not 0 */
    int64_t decoding, decoding_rank; /* rank of all inputs that are a single number */
    int64_t max_slack;               /* by how much max_seqlen and max_kvlen are too large */
    int64_t mask_rank;               /* 0: no mask */
    int64_t mask_padding;
    int64_t mask_one_batch, has_sinks, sinks_are_activations, share_prefix; /* flags */
    int64_t ring;           /* slots of each sequence's ring, in whole pages; 0: no ring */
    int64_t lists_of_heads; /* not 0: each kv head attends to pages of its own */
    int64_t query_size;
    int64_t idle_scale, idle_mask; /* empty tensors if the op does not take them; 0: NULL */
    bool whole_pages;              /* pages begin at multiples of their size, and all rows exist */
    enum spread spread;

    /* Set by attention_open. */
    struct fenced_tensor tensor[TENSORS];
    const DLTensor *given[TENSORS]; /* the arguments of a run; a test may change them */
    unsigned char *dense[TENSORS];  /* the elements without gaps */
    int64_t seqstarts[MOST_SEQUENCES + 1], kvstarts[MOST_SEQUENCES + 1];
    int64_t keptstarts[MOST_SEQUENCES + 1]; /* of the positions in the cache at the end */
    int64_t longest_tokens, longest_length, longest_kept, pages, capacity;

    /* Set by attention_expect. */
    struct fenced_tensor before[TENSORS], expected[TENSORS];
    struct oracle_result result;
    char words[700];
};

/* Makes tensors with contents, for a valid op and lengths. */
void attention_open(struct attention *attention, struct dice *dice);
void attention_close(struct attention *attention);

/* Set and get an element by its number; attention_set() writes the dense array and the tensor's
   memory. */
void attention_set(struct attention *attention, int tensor, int64_t number, double x);
double attention_get(const struct attention *attention, int tensor, int64_t number);

/* Copy the dense arrays to the tensors' memory, after a test has written to them. */
void attention_refresh(struct attention *attention, int tensor);
void attention_refresh_caches(struct attention *attention);

/* Returns the oracle's problem over the dense arrays. */
struct oracle_attention attention_problem(const struct attention *attention);

/* Computes the oracle's result, before the run and after the last change of a tensor. */
void attention_expect(struct attention *attention, struct dice *dice);

kvmill_status attention_plan(const struct attention *attention, const kvmill_plan_options *options,
                             kvmill_plan **plan, kvmill_error *error);

/* Plans, and runs in parts like run_in_parts, with traps on writes to inputs.  Returns NULL after a
   remark if either fails. */
kvmill_plan *attention_plan_and_run(const struct attention *attention,
                                    const kvmill_plan_options *options, int threads,
                                    struct dice *dice);

/* Check that all tensors are equal to the oracle's, and that nothing else was written; the second
   function also runs the plan. */
bool attention_is_right(struct attention *attention);
bool attention_runs_right(struct attention *attention, const kvmill_plan_options *options,
                          int threads, struct dice *dice);

/* Returns a tensor's name: "cache", ... */
const char *attention_tensor_name(int tensor);

/* ---- Properties of an op of cache attention ---- */

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

/* Whether V is the beginning of K's rows. */
static inline bool has_value_view(const struct attention *a) {
    return a->which == MULTI_HEAD_CACHE_ATTENTION && a->op.value_differs && a->op.value_view;
}

static inline bool has_value_cache(const struct attention *a) {
    return a->op.value_differs && !has_value_view(a);
}

/* Returns how many lists of pages each sequence has; 0 means one list for all heads. */
static inline int64_t page_lists(const struct attention *a) {
    bool any = a->lists_of_heads && a->op.dynamic_batching && a->op.cache_mode == 1 &&
               a->which == MULTI_HEAD_CACHE_ATTENTION;
    return any ? kv_heads(a) : 0;
}

/* Returns how many of `length` positions are still in the cache. */
static inline int64_t in_ring(const struct attention *a, int64_t length) {
    return a->ring > 0 && a->ring < length ? a->ring : length;
}

/* K's or V's attributes. */
struct side {
    int64_t dim, quant_bit, group;
    DLDataType T2, T3;
    const char *format;
};

static inline bool is_transposed(const char *format) {
    return format != NULL && strcmp(format, "transposed") == 0;
}

/* Returns the attributes of K or V.  Only keys are transposed. */
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
                         value && is_transposed(op->cache_format) ? NULL : op->cache_format};
}

static inline bool in_tiles(const struct side *side) {
    return side->format != NULL && strcmp(side->format, "tiles") == 0;
}

static inline bool has_tiles(const struct attention *a) {
    struct side key = side_of(a, false), value = side_of(a, true);
    return in_tiles(&key) || in_tiles(&value);
}

/* Rounds a number of rows up to whole tiles, or to whole pages if they are transposed. */
static inline int64_t whole_tiles(const struct attention *a, int64_t rows) {
    int64_t tile = is_transposed(a->op.cache_format) ? a->op.page_size : has_tiles(a) ? 16 : 1;
    return (rows + tile - 1) / tile * tile;
}

static inline void set_ring(struct attention *a) {
    int64_t page = a->op.dynamic_batching && a->op.cache_mode == 1 ? a->op.page_size : 1;
    bool has_offsets = a->op.dynamic_batching && a->op.cache_mode == 0;
    a->ring = has_cache(a) ? whole_tiles(a, (a->ring + page - 1) / page * page) : 0;
    a->op.mode = a->ring > 0 ? "circular" : NULL;
    a->op.capacity = has_offsets ? a->ring : 0;
}

static inline enum oracle_type type_of(const struct side *side) {
    if (side->format != NULL && !in_tiles(side) && !is_transposed(side->format))
        return oracle_of_word(side->format);
    return attention_type(side->T2);
}

static inline int64_t last_dim(const struct side *side) {
    return oracle_is_blocks(type_of(side)) ? oracle_bytes(type_of(side), side->dim) : side->dim;
}

#endif
