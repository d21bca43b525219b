/* Sparse flows: attention that reads only some of the pages.  Included by kvmill.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_FLOW_H
#define KVMILL_FLOW_H

#include <kvmill_attention.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Attention over a paged cache that reads only some of the pages, as vFlow programs describe it
   (Infini-AI-Lab/vortex_torch).  A page has page_size slots; each page has, for each kv head,
   matrices beside K and V, its *fields*.  The cache program fills them from a page; the index
   program scores pages for a query; the best are attended to.  A *row* is a list of pages: one for
   each request and kv head (or as `scope` says).

   With block_size a page of the cache is that of several *blocks*: `blocks` = page_size /
   block_size of them, block n of a request being block n % blocks of its page n / blocks.  They are
   pages in their own numbers: what is said of fields, programs, `select` and lists holds for blocks
   then.  page_ids, page_indptr, slot_mapping and limits are of the cache's pages always. */

/* "k" and "v" are fields of every flow, [block_size, head_dim] of the cache's types. */
typedef struct kvmill_flow_field {
    const char *name; /* no other tensor's, as "cache" */
    int64_t rows, columns;
    DLDataType dtype; /* float32, float16, bfloat16; of one that is appended also float8e4m3fn and
                         float8e5m2 (DLPack codes 10 and 12); of one with scales those and int8 */
} kvmill_flow_field;

/* Numbers of the index program, [taps, rows, columns] in row-major order.  taps is 1, except
   for the weights of Conv1d.  values NULL: an *input*, whose numbers come with each step, for each
   request and kv head: queries of an indexer, weights of its heads; taps is 1. */
typedef struct kvmill_flow_constant {
    const char *name;
    int64_t taps, rows, columns;
    const float *values;
} kvmill_flow_constant;

/* An operator, with what its source calls its result: a matrix for each page, or one for the row.
   Names are those of fields, constants, earlier outputs, and "q", [group, head_dim], in the index
   program.  Attributes that an op does not have are not looked at.  With x and y for its inputs,
   a for alpha and b for beta; broadcast where a dim is 1:

   GeMM                        [j, i] = sum of x[i, :] * y[j, :]
   Sum Mean Max Min L2Norm     over the one dim of `dims`; 0 is over the pages that are scored
   MeanInterleave MaxInterleave MinInterleave L2NormInterleave   over `group` neighbours
   Multiply Maximum Minimum    Add: a x + b y
   WhereEqual WhereNotEqual WhereGreater WhereGreaterEqual WhereLess WhereLessEqual   0 or -1e30
   Kron                        sizes multiply along `dims`, of 1 and 2: row i * (rows of y) + j
   Relu                        x >= a ? x : b
   Sigmoid                     1 / (1 + exp (b x + a));  Silu: x / (1 + exp (b x + a))
   Add_Mul Abs Log Exp         of b x + a
   Softmax                     over pages, of scale * x;  Normalize: x / its L2 norm over pages
   Conv1d                      sum over t of w[t] * x[page + t - taps / 2], w a constant
   Transpose Reshape           Reshape: to [rows, columns]
   MaskSlice                   a in [start, end) of the dim, b elsewhere; of the shape of x
   Fill                        a; its output is a field, k or v
   Load Save                   a field's value of before the step; x into the field `output`
   topK                        select by x, [1, 1] for each page
   Union                       select by x, then, of the pages that are left, `group` by y: a union
                               of two topK without doubles, and of as many pages as topK selects
   approxTopK                  as topK; alpha is the tolerance t, 0 to less than 1: of the best, a
                               share of 1 - t at least.  Selection is exact: the recall is 1

   An op of the cache program whose output is "k" or "v" writes the rows of a page that is complete,
   rounded as append rounds them; ops after it read them so.  Not with summary "incremental".

   Those of the cache program: no Sum, Kron, Softmax, Normalize, Conv1d, Transpose, Load, Save,
   topK, Union, approxTopK or dim 0; those of the index program: no Fill and no Interleave. */
typedef struct kvmill_flow_op {
    const char *op;
    const char *inputs[2];
    const char *output; /* a new name; a field; k or v (cache program); NULL: topK, Union */
    double alpha, beta, scale;
    uint32_t dims; /* bit d: dim d */
    int64_t group, start, end, rows, columns;
} kvmill_flow_op;

/* All pages of a row. */
#define KVMILL_FLOW_ALL INT32_MAX

/* How many pages a row of n has:  budget = max (bos + topk_val + eos, floor (ratio * n)), with a
   cap at most max (cap, bos + eos); min (n, budget) are selected: the first bos, the last eos, and
   between them the best by score, of equal ones the first.  NaN counts as -infinity. */
typedef struct kvmill_flow_select {
    int64_t topk_val, reserved_bos, reserved_eos;
    int64_t ratio_numerator, ratio_denominator; /* 0 to 1; denominator 0 = no ratio */
    int64_t cap;                                /* 0 = none */
    int64_t dense_below;                        /* rows of fewer tokens are read whole; 0 = none */
    const char *order; /* "logical" (NULL): ascending; "score": the best first */
    const char *scope; /* "kv_head" (NULL); "query_head": a row each, group 1; "request": one row,
                          scores added up over kv heads */
} kvmill_flow_select;

typedef struct kvmill_flow {
    size_t struct_size;                      /* sizeof (kvmill_flow) */
    const kvmill_cache_attention *attention; /* dynamic_batching, cache_mode 1: heads, page_size,
                                                types, scores */
    const kvmill_flow_field *fields;         /* without "k" and "v" */
    size_t field_count;
    const kvmill_flow_constant *constants;
    size_t constant_count;
    const kvmill_flow_op *cache, *index;
    size_t cache_count, index_count; /* no index program where nothing is ever scored */
    kvmill_flow_select select;
    const char *summary; /* "on_complete" (NULL): when a page's last slot is written; "incremental":
                            also of a page's first rows */
    /* Layers that read all pages and keep no fields, as attention's layer_idx counts them. */
    const int64_t *layers_skip;
    size_t layers_skip_count;
    /* Bit i: field i, [block_size, columns], has a row of its own for each token, which append
       stores as it comes: keys of an indexer, in float8 with their scales in another such field.
       The cache program may read it, and does not write it. */
    int64_t appended;
    int64_t block_size; /* tokens of a block, a divisor of page_size; 0: page_size */
    /* Matrices that field i has for all kv heads, a divisor of their number: kv heads next to each
       other share one, as keys of an indexer; 0, or NULL for all fields: one for each.  What is
       written to it is made of fields that they share, too. */
    const int64_t *field_heads;
    /* How fields lie in memory: "apart" (NULL): each in a piece of its own; "page": those of a page
       beside each other, in their order for a kv head, and kv heads after each other; "head": the
       same for a kv head, whose pages follow each other.  With the latter two all fields are views
       of one piece, and have equally many heads. */
    const char *field_layout;
    /* The name of the field that gets the scales of field i, or NULL; NULL for all fields: none do.
       Rows of field i, which is appended, come in the attention's T1 then, and append quantises
       them.  The scales are [block_size, groups] float32, as many heads; each is of columns /
       groups neighbours, as DeepSeek-V3.2 and vLLM quantise keys of its indexer: with m for their
       largest magnitude and most for the largest number (448, 57344, 127)
           scale = max (m, 1e-4) / most,      code = x / scale to the nearest, half to even
       in float32, no code beyond +-most.  Scales of what is not finite are so, its codes are 0. */
    const char *const *field_scales;
    int64_t powers; /* bit i: the scales of field i are rounded up to powers of two (ue8m0) */
    /* What the result of an op is to the ops that read it, and to topK: "float32" (NULL), or
       "bfloat16": rounded to the nearest, half to even, as vFlow keeps it.  Fields and rows of K and
       V are rounded as they are stored, and only so. */
    const char *temporaries;
} kvmill_flow;

/* A fraction in lowest terms. */
typedef struct kvmill_fraction {
    int64_t numerator, denominator;
} kvmill_fraction;

/* What a checked flow keeps for each page. */
typedef struct kvmill_flow_layout {
    size_t struct_size; /* sizeof (kvmill_flow_layout) */
    int64_t page_size, kv_heads, group;
    int64_t page_bytes;             /* of K, V and fields of a page and kv head, scales too; of
                                       fields that kv heads share, its part, rounded up */
    kvmill_fraction ratio_elements; /* elements of K, V and fields / (page_size * head_dim) */
    kvmill_fraction ratio_bytes;    /* bytes of K, V and fields / bytes of K's elements */
    kvmill_fraction ratio_fields;   /* of that, the fields alone */
    int64_t block_size;
} kvmill_flow_layout;

/* The flow's attention is a struct of its own, which kvmill_cache_attention_init sets. */
void kvmill_flow_init(kvmill_flow *flow, size_t struct_size);
void kvmill_flow_layout_init(kvmill_flow_layout *layout, size_t struct_size);

/* Check everything about a flow and say what it keeps.  layout may be NULL; else its struct_size is
   set, and of a larger one the bytes that this library does not know become 0.  Any thread. */
kvmill_status kvmill_flow_describe(const kvmill_flow *flow, kvmill_flow_layout *layout,
                                   kvmill_error *error);

/* Field number i: those of the flow in their order, then "k", then "v", whose dtype is the cache's.
   0 when there is none, or something is NULL that must not be.  The name belongs to the flow. */
int kvmill_flow_field_at(const kvmill_flow *flow, size_t i, kvmill_flow_field *field);

/* How many pages (blocks) each row of `batch` requests of seq_len[b] tokens will have, before
   anything runs: sel_indptr[batch * R + 1] is set to what index gives (R as below); its last number
   is the length that sel must have.  topk_vals: as below, or NULL.  Any thread; on error nothing is
   written. */
kvmill_status kvmill_flow_count(const kvmill_flow *flow, int64_t batch, const int64_t *seq_len,
                                const int64_t *topk_vals, int64_t *sel_indptr, kvmill_error *error);

/* What a plan is made for, at most: its workspace has a few bytes for each page. */
typedef struct kvmill_flow_limits {
    size_t struct_size;  /* sizeof (kvmill_flow_limits) */
    int64_t batch;       /* requests of a call */
    int64_t pages;       /* of a request */
    int64_t cache_pages; /* of the cache; append and summarise look at it */
} kvmill_flow_limits;

void kvmill_flow_limits_init(kvmill_flow_limits *limits, size_t struct_size);

/* Order of the tensors that plans of flows run on: those of cache attention of the same name, then
   these; others are NULL.  B requests, T tokens, R rows of a request (kv heads, query heads or 1,
   as `scope` says).

   query, attn_output (T, H, D), lse (T, H)   T is B unless seqstarts (B + 1), of attend, says more
   current_key, current_value (T, KVH, D)     append
   cache, scale, value_cache, value_scale     page p has rows p * page_size ...
   seq_len (B)                int64           tokens of a request, new ones included
   page_indptr (B + 1)        int64           request b has pages [page_indptr[b],
   page_ids                   int32             page_indptr[b + 1]) of these, one for each page_size
                                                tokens that are begun
   slot_mapping (T)           int64           row of the cache for each token, -1: none;
                                              tokens of a page are neighbours, their rows ascend
   sel_indptr (B * R + 1)     int64           the list of row r of request b is [sel_indptr[b * R +
   sel                        int32             r], ...[... + 1]) of these: pages as the request
                                              counts them, the reserved first ones first, its last
                                              one last (or without it, where a page is one token);
                                              with a window they ascend
   block_ids                  int32, int64    as vFlow has lists: page_ids[...] * KVH + kv head, and
                                              of blocks that * blocks + the block in its page; of
                                              scope request that of head 0; optional; [S], or
                                              [S, 1, 1]
   scores                     float32         of all pages of each row, rows one after the other, of
                                              blocks all that the pages have room for; NaN: of what
                                              is not scored; of Union those of x; optional
   topk_vals (B)              int64           what a request has in place of topk_val, topk_ratio
                                              and cap: -1: nothing, KVMILL_FLOW_ALL: it is read
                                              whole; optional
   fields                                     (pages * blocks, KVH, rows, columns) in the flow's
                                              order, row-major without gaps; KVH here and in the
                                              next one: field_heads where that says less; with a
                                              field_layout strides as it says: of page p (block p)
                                              and head h field i begins at (p * KVH + h) * all +
                                              before[i], layout "page", or (h * pages * blocks + p)
                                              * all + before[i], "head", bytes after the piece's
                                              begin, with `all` bytes of a matrix of each field,
                                              before[i] those of fields in front of i
   current_FIELD (T, KVH, columns)            of append, for each field whose rows come with tokens,
                                              in their order, of the field's type, or of T1 where it
                                              has scales; without gaps
   inputs (B, KVH, rows, columns)  float32    of index and decode, in the order of the constants
                                              that they are; without gaps

   page_ids, sel, block_ids and scores may be longer than what is used; integers are at multiples of
   their size and have no strides. */
enum {
    KVMILL_FLOW_SEQ_LEN = KVMILL_CACHE_ATTENTION_TENSORS,
    KVMILL_FLOW_PAGE_INDPTR,
    KVMILL_FLOW_PAGE_IDS,
    KVMILL_FLOW_SLOT_MAPPING,
    KVMILL_FLOW_SEL_INDPTR,
    KVMILL_FLOW_SEL,
    KVMILL_FLOW_BLOCK_IDS,
    KVMILL_FLOW_SCORES,
    KVMILL_FLOW_TOPK_VALS,
    KVMILL_FLOW_FIELDS /* and as many as the flow has; then rows of new tokens, then inputs */
};

/* Append: K and V of new tokens into their slots, then the fields of the pages they complete.
   Summarise: the second half of append, of tokens that are in the cache already.  The cache is an
           output where the cache program writes to K or V: what is written again is what it
           makes of the rows as they are.
   Index:  score pages for the queries, select: sel_indptr, sel, block_ids are outputs.
   Attend: along lists that are given, or over all pages; of several tokens each sees those before
           it (prefill).  What it attends to is in the cache.
   Decode: index, then attend, without the lists; sel_indptr, sel, block_ids, scores may be given
   as outputs.

   Index and decode move the state of fields that are saved, of the pages that are between the
   reserved ones in rows that are not read whole, also where topk_val is 0.  The flow, its attention
   and all they point to are borrowed for the call.  Otherwise as kvmill_plan_tensor_scatter. */
kvmill_status kvmill_plan_flow_append(const kvmill_flow *flow, const kvmill_flow_limits *limits,
                                      const kvmill_plan_options *options, kvmill_plan **plan,
                                      kvmill_error *error);
kvmill_status kvmill_plan_flow_summarise(const kvmill_flow *flow, const kvmill_flow_limits *limits,
                                         const kvmill_plan_options *options, kvmill_plan **plan,
                                         kvmill_error *error);
kvmill_status kvmill_plan_flow_index(const kvmill_flow *flow, const kvmill_flow_limits *limits,
                                     const kvmill_plan_options *options, kvmill_plan **plan,
                                     kvmill_error *error);
kvmill_status kvmill_plan_flow_attend(const kvmill_flow *flow, const kvmill_flow_limits *limits,
                                      const kvmill_plan_options *options, kvmill_plan **plan,
                                      kvmill_error *error);
kvmill_status kvmill_plan_flow_decode(const kvmill_flow *flow, const kvmill_flow_limits *limits,
                                      const kvmill_plan_options *options, kvmill_plan **plan,
                                      kvmill_error *error);

#ifdef __cplusplus
}
#endif
#endif
