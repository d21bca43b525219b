/* Sparse flows: attention that reads only some of the pages.  Included by kvmill.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_FLOW_H
#define KVMILL_FLOW_H

#include <kvmill_attention.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Attention over a paged cache that reads only some of the pages, as vFlow programs describe it
   (Infini-AI-Lab/vortex_torch).  A page has page_size slots.  In addition to K and V, each page has
   for each kv head small matrices, its *fields*.  The cache program computes them from a page; the
   index program scores pages for a query; the best pages are attended to.  A *row* is a list of
   pages: one for each request and kv head (or as `scope` says).

   With block_size, a page of the cache consists of several *blocks*: `blocks` = page_size /
   block_size of them.  Block n of a request is block n % blocks of its page n / blocks.  Blocks are
   numbered like pages, and everything below about fields, programs, `select` and lists then refers
   to blocks. page_ids, page_indptr, slot_mapping and limits always refer to pages of the cache. */

/* "k" and "v" are fields of every flow, [block_size, head_dim] of the cache's types. */
typedef struct kvmill_flow_field {
    const char *name; /* not that of another tensor, such as "cache" */
    int64_t rows, columns;
    DLDataType dtype; /* float32, float16, bfloat16; if it is appended, also float8e4m3fn and
                         float8e5m2 (DLPack codes 10 and 12); if it has scales, these two or int8 */
} kvmill_flow_field;

/* Numbers for the index program, [taps, rows, columns] in row-major order.  taps is 1, except for
   the weights of Conv1d.  values NULL: an *input*, whose numbers come with each step, for each
   request and kv head, such as the queries of an indexer or the weights of its heads; taps is 1. */
typedef struct kvmill_flow_constant {
    const char *name;
    int64_t taps, rows, columns;
    const float *values;
} kvmill_flow_constant;

/* An op, with the name of its result, which is a matrix for each page, or one for the row.  Inputs
   are names of fields, constants and earlier outputs, and in the index program "q", [group,
   head_dim]. Attributes that an op does not have are ignored.  Below, x and y are the inputs, a is
   alpha and b is beta.  A dim of 1 is broadcast.

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
   Load Save                   the value of a field before the step; store x in the field `output`
   topK                        select by x, [1, 1] for each page
   Union                       select by x; then, of the remaining pages, select `group` by y.  No
                               page is selected twice, and as many are selected as by topK
   approxTopK                  as topK; alpha is the tolerance t, 0 to less than 1: at least a share
                               of 1 - t of the best pages is selected.  kvmill's selection is exact

   If the output of an op of the cache program is "k" or "v", the op writes the rows of a page that
   is complete, rounded as append rounds them.  Later ops read the rounded rows.  Not allowed with
   summary "incremental".

   The cache program cannot use Sum, Kron, Softmax, Normalize, Conv1d, Transpose, Load, Save, topK,
   Union, approxTopK or dim 0; the index program cannot use Fill or the Interleave ops. */
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

/* How many pages of a row of n pages are selected: budget = max (bos + topk_val + eos, floor (ratio
   * n)), limited by a cap to max (cap, bos + eos); then min (n, budget).  Selected are the first
   bos pages, the last eos pages, and between them the best by score; of pages with equal scores the
   first.  NaN counts as -infinity. */
typedef struct kvmill_flow_select {
    int64_t topk_val, reserved_bos;
    int64_t reserved_eos; /* 0 only with "incremental" summaries: the last page is then scored like
                             the others, and may be left out; if it is selected, it is the last of
                             its list.  The index program may then only read fields that the cache
                             program writes, unless a page or block is one token */
    int64_t ratio_numerator, ratio_denominator; /* 0 to 1; denominator 0 = no ratio */
    int64_t cap;                                /* 0 = none */
    int64_t dense_below;                        /* rows of fewer tokens are read whole; 0 = none */
    const char *order; /* "logical" (NULL): ascending; "score": the best first */
    const char *scope; /* "kv_head" (NULL); "query_head": a row for each, with group 1; "request":
                          one row, with scores added up over kv heads */
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
    size_t cache_count, index_count; /* no index program if nothing is ever scored */
    kvmill_flow_select select;
    const char *summary; /* "on_complete" (NULL): when a page's last slot is written; "incremental":
                            also when only the first rows of a page are */
    /* Layers that read all pages and keep no fields, numbered like attention's layer_idx. */
    const int64_t *layers_skip;
    size_t layers_skip_count;
    /* Bit i: field i, [block_size, columns], has a row for each token, which append stores as it
       comes: keys of an indexer, possibly in float8 with their scales in another such field.  The
       cache program may read the field, but not write it. */
    int64_t appended;
    int64_t block_size; /* tokens of a block, a divisor of page_size; 0: page_size */
    /* The matrices that field i has for all kv heads, a divisor of their number: neighbouring kv
       heads share one, such as the keys of an indexer.  0, or NULL for all fields: one for each kv
       head. Only results of fields that are shared in the same way may be written to it. */
    const int64_t *field_heads;
    /* How fields are arranged in memory: "apart" (NULL): each in a piece of its own; "page": the
       fields of a page and kv head are adjacent, in their order, followed by those of the next kv
       head, and then by the next page; "head": the same, but all pages of a kv head are adjacent.
       With the latter two, all fields are views of one piece, and have the same number of heads. */
    const char *field_layout;
    /* The name of the field for the scales of field i, or NULL; NULL for all fields: there are
       none.  Rows of field i, which is appended, then come in the attention's T1, and append
       quantises them.  The scales are [block_size, groups] float32, with the same number of heads;
       each is for columns / groups neighbours, as DeepSeek-V3.2 and vLLM quantise the keys of an
       indexer.  With m for their largest magnitude and `most` for the largest number of the
       field's type (448, 57344, 127):
          scale = max (m, 1e-4) / most
          code = x / scale, to the nearest, ties to even
       in float32, with codes limited to +-most.  If a group is not finite, its scale is not finite
       either, and its codes are 0. */
    const char *const *field_scales;
    int64_t powers; /* bit i: the scales of field i are rounded up to powers of two (ue8m0) */
    /* The precision in which the result of an op reaches the ops that read it, and topK: "float32"
       (NULL), or "bfloat16": rounded to the nearest, ties to even, as in vFlow.  Fields and rows of
       K and V are rounded only to the type in which they are stored. */
    const char *temporaries;
} kvmill_flow;

/* A fraction in lowest terms. */
typedef struct kvmill_fraction {
    int64_t numerator, denominator;
} kvmill_fraction;

/* What a checked flow stores for each page. */
typedef struct kvmill_flow_layout {
    size_t struct_size; /* sizeof (kvmill_flow_layout) */
    int64_t page_size, kv_heads, group;
    int64_t page_bytes; /* of K, V and fields of a page and kv head, including scales; of
                           fields that kv heads share, its part, rounded up */
    kvmill_fraction ratio_elements; /* elements of K, V and fields / (page_size * head_dim) */
    kvmill_fraction ratio_bytes;    /* bytes of K, V and fields / bytes of K's elements */
    kvmill_fraction ratio_fields;   /* the part of ratio_bytes that belongs to fields */
    int64_t block_size;
} kvmill_flow_layout;

/* The flow's attention is a struct of its own, which kvmill_cache_attention_init sets. */
void kvmill_flow_init(kvmill_flow *flow, size_t struct_size);
void kvmill_flow_layout_init(kvmill_flow_layout *layout, size_t struct_size);

/* Check everything about a flow, and say what it stores.  layout may be NULL; otherwise its
   struct_size must be set, and the bytes of a larger struct that this library does not know become
   0.  Any thread. */
kvmill_status kvmill_flow_describe(const kvmill_flow *flow, kvmill_flow_layout *layout,
                                   kvmill_error *error);

/* Field number i: the flow's fields in their order, then "k", then "v", with the cache's dtype.
   Returns 0 if there is no such field, or if a required pointer is NULL.  The name belongs to the
   flow. */
int kvmill_flow_field_at(const kvmill_flow *flow, size_t i, kvmill_flow_field *field);

/* How many pages (blocks) each row of `batch` requests with seq_len[b] tokens will have, before
   anything runs: sets sel_indptr[batch * R + 1] to what index will give (R as below).  Its last
   number is the length that sel must have.  topk_vals: as below, or NULL.  Any thread; on error
   nothing is written. */
kvmill_status kvmill_flow_count(const kvmill_flow *flow, int64_t batch, const int64_t *seq_len,
                                const int64_t *topk_vals, int64_t *sel_indptr, kvmill_error *error);

/* The limits that a plan is made for; its workspace has a few bytes for each page. */
typedef struct kvmill_flow_limits {
    size_t struct_size;  /* sizeof (kvmill_flow_limits) */
    int64_t batch;       /* requests of a call */
    int64_t pages;       /* of a request */
    int64_t cache_pages; /* of the cache; only append and summarise use it */
} kvmill_flow_limits;

void kvmill_flow_limits_init(kvmill_flow_limits *limits, size_t struct_size);

/* Order of the tensors that plans of flows run on: those of cache attention with the same names,
   then these; others are NULL.  There are B requests, T tokens, and R rows of a request (kv heads,
   query heads or 1, as `scope` says).

   query, attn_output (T, H, D), lse (T, H)   T is B, unless attend has seqstarts (B + 1)
   current_key, current_value (T, KVH, D)     append
   cache, scale, value_cache, value_scale     page p has the rows from p * page_size on
   seq_len (B)                int64           tokens of a request, including new ones
   page_indptr (B + 1)        int64           request b has pages [page_indptr[b],
   page_ids                   int32             page_indptr[b + 1]) of these: one for each page_size
                                                tokens, the last may be partial
   slot_mapping (T)           int64           row of the cache for each token, -1: none; tokens of a
                                              page are neighbours, and their rows ascend
   sel_indptr (B * R + 1)     int64           the list of row r of b is [sel_indptr[b * R + r],
   sel                        int32             sel_indptr[b * R + r + 1]) of these: pages as the
                                                request counts them; first the reserved first ones,
                                                last the request's last page (which may be missing
                                                if reserved_eos is 0); with a window they ascend
   block_ids                  int32, int64    the lists in vFlow's numbering: page_ids[...] * KVH +
                                              kv head; for blocks, that * blocks + the block in its
                                              page; with scope request, for head 0; optional; [S],
                                              or [S, 1, 1]
   scores                     float32         of all pages of each row, one row after the other; for
                                              blocks, of all that the pages have room for; NaN if
                                              not scored; for Union those of x; optional
   topk_vals (B)              int64           replaces topk_val, topk_ratio and cap for a request;
                                              -1: does not; KVMILL_FLOW_ALL: the request is read
                                              whole; optional
   fields                                     (pages * blocks, KVH, rows, columns) in the flow's
                                              order, row-major without gaps.  KVH, here and in the
                                              next line, is field_heads if that is less.  With a
                                              field_layout, strides follow from it, see below
   current_FIELD (T, KVH, columns)            append: for each field that is appended, in their
                                              order, of the field's type, or of T1 if it has scales;
                                              without gaps
   inputs (B, KVH, rows, columns)  float32    index and decode: for each constant that is an input,
                                              in their order; without gaps

   With field_layout "page", field i of block p and head h begins (p * KVH + h) * all + before[i]
   bytes after the beginning of the piece; with "head", (h * pages * blocks + p) * all + before[i]
   bytes.  `all` is the bytes of one matrix of every field, and before[i] those of the fields before
   field i.

   page_ids, sel, block_ids and scores may be longer than needed; integers are aligned to their size
   and have no strides. */
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
    KVMILL_FLOW_FIELDS /* the flow's fields; then rows of new tokens, then inputs */
};

/* Append: store K and V of new tokens in their slots, then compute the fields of the pages that
           they complete.
   Summarise: the second half of append, for tokens that are already in the cache.  If the cache
           program writes K or V, the cache is an output, and the program is applied to the rows as
           they are.
   Index:  score pages for the queries, and select; sel_indptr, sel and block_ids are outputs.
   Attend: along given lists, or over all pages; with several tokens, each sees those before it
           (prefill). All keys and values are already in the cache.
   Decode: index, then attend, without given lists; sel_indptr, sel, block_ids and scores may be
           outputs.

   Index and decode update the state of saved fields, for the pages between the reserved ones of
   rows that are not read whole, even if topk_val is 0.  The flow, its attention and all they point
   to are borrowed for the call.  Otherwise as kvmill_plan_tensor_scatter. */
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
