/* Attention: PMX's over its caches, CacheAttend over any, ONNX's.  Included by kvmill.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ATTENTION_H
#define KVMILL_ATTENTION_H

#include <kvmill_core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Rings -------------------------------------------------------------------------------- */

/* With mode "circular" the slots of a sequence are a ring of M: position p is in slot p % M, so
   that the ring has the last M positions, whatever their format.  A query sees at most M positions:
   of those that causality and windows leave, the last M.  M is, in a static batch, the slots of the
   cache; in pages, those of a list: page_size times the pages that it has room for; with
   cache_mode 0, `capacity` from cachestarts[b] on.  A page list or a sequence that has not come
   round yet needs no more than it uses.

   KeyValueCache stores the last M of more than M new tokens, and reads back the last min (KV, M)
   positions.  MultiHeadCacheAttention gives what one token after the other would: where new tokens
   replace keys that earlier ones of them see, they take turns within a run, M - W + 1 at a time, W
   = left_window_size + 1 or M, whichever is less.  A ring of W + S - 1 slots takes S tokens in one
   turn, and costs what a linear cache does.  attn_mask has a column for each position, also for
   those that are gone.  start_pos and lengths are at most 2^62.

   CacheAttend stores nothing: of the last M of lengths[b] positions a query sees what causality and
   windows leave.  A query whose window is not longer than the ring, and begins before it, is
   refused.  ranges, slots and key_positions do not go with a ring, and page_ids need lengths. */

/* ---- PMX cache attention ------------------------------------------------------------------ */

/* PMX cache attention (openppl-public/ppl.pmx, OPMX 2024-07): KeyValueCache stores and reads back,
   MultiHeadAttention attends, MultiHeadCacheAttention stores and attends over what is then in the
   cache.  static and dynamic batching.  The attributes have their source's names and defaults where
   a comment gives one; kvmill_cache_attention_init sets them.  Extensions of ours are marked so.

   Query head h uses kv head h / (num_heads / num_kv_heads).  Causal masks are aligned bottom-right:
   the query at position p sees positions 0 ... p. */
typedef struct kvmill_cache_attention {
    size_t struct_size;       /* sizeof (kvmill_cache_attention) */
    int32_t dynamic_batching; /* 0: static batch; not 0: opmx.dynamic_batching */
    int32_t is_causal;        /* 1 */
    int32_t is_alibi;         /* 0 */
    int64_t num_heads;        /* required, but by KeyValueCache */
    int64_t head_dim;         /* required */
    int64_t num_kv_heads;     /* 0 = num_heads; required by KeyValueCache */
    int64_t num_layer;        /* 1 */
    int64_t layer_idx;        /* 0 */
    int64_t quant_bit;        /* 0, 8 or 4 */
    int64_t quant_group;      /* 8 */
    int64_t cache_layout;     /* 0, 1; dynamic: 0 to 3; ours: 4, paged */
    int64_t cache_mode;       /* dynamic: 0 offset, 1 paged */
    int64_t page_size;        /* 128 */
    int64_t num_repeat;       /* 1; KeyValueCache: copies of each head in the outputs */
    DLDataType T1; /* activations: float32, float16; ours: bfloat16; KeyValueCache: int8 */
    DLDataType T2; /* cache: float32, float16; ours: bfloat16; int8 or int4 where quantised.  uint8
                      where cache_format names llama.cpp's blocks */
    DLDataType T3; /* scale: float32, float16; ours: bfloat16 */
    double softmax_scale; /* 0 = 1 / sqrt (head_dim) */

    /* Ours. */
    int64_t left_window_size; /* -1; see Windows */
    double softcap; /* 0 = none; else softcap * tanh (score / softcap) before any mask */
    const char *math; /* "f32" (NULL); "near": integer arithmetic where that is faster, error at most
                         5e-4 of the largest output; "fast": float16, too, at most 3e-3 */
    int32_t partial;  /* attn_output is float32, and lse is an output: the logarithm of the sum of
                         exp (score), float32, of attn_output's shape without the last dim */
    int32_t empty_is_nan; /* a row that sees nothing gives NaN as in PMX's reference, else 0 */
    int64_t alibi_heads, alibi_first; /* heads of the whole model (0 = num_heads), and the first of
                                         these here: tensor parallelism */
    double alibi_scale;               /* 0 = 1; factor of all slopes */
    /* K and V may differ; value_cache (and value_scale) are then tensors of their own, and the kv
       dim of cache and value_cache is 1.  Used when value_differs is not 0. */
    int32_t value_differs;
    int64_t value_head_dim, value_quant_bit, value_quant_group;
    DLDataType value_T2, value_T3;
    const char *cache_format, *value_cache_format; /* NULL = T2's; "q8_0" and its like: rows of a
                                                      cache are llama.cpp's blocks, T2 is uint8, the
                                                      last dim their bytes, and there is no scale;
                                                      "tiles": int8 or int4 codes in an order of
                                                      kvmill's own, "transposed": keys of a page as
                                                      [head_dim, page_size], see kvmill(3) */
    const char *mode; /* "linear" (NULL) or "circular"; see Rings */
    int64_t capacity; /* slots of each sequence's ring: with dynamic_batching and cache_mode 0, where
                         no shape tells it; else 0 */
    /* Latent attention: V is the first value_head_dim elements of K's rows, as these are in the
       cache.  There is no current_value, value_cache or value_scale; value_T2 and the like are as
       K's, or 0.  MultiHeadCacheAttention; used when value_differs is not 0. */
    int32_t value_view;
} kvmill_cache_attention;

/* Order of the tensors all cache attention plans run on; those that an op does not have, and absent
   optional ones, are NULL.  S = new tokens of a sequence, KV = start_pos + S.

   static, shapes             dynamic batching
   query (B, S, H, D)         (seqstarts[B], H, D)                           attn_output the same
   current_key, current_value (B, S, KVH, D)     (seqstarts[B], KVH, D)
   start_pos () or (1)        (B)                                            int64
   seqstarts, kvstarts        (B + 1)                                        int64
   cachestarts                (B), cache_mode 1: (B, pages)                  int64; ours,
                              MultiHeadCacheAttention: (B, KVH, pages), see below
   decoding_batches, max_seqlen, max_kvlen () or (1)                         int64
   attn_mask (S, >=KV), (H, S, >=KV) or (B or 1, H, S, >=KV)
                              (seqstarts[B], >=kvstarts[B]) or with H before
   key, value (B, KV, KVH, D) (kvstarts[B], KVH, D)      inputs of MultiHeadAttention, outputs of
                              KeyValueCache (KVH * num_repeat heads), which of a ring has the last
                              min (KV, M) positions of each sequence, one sequence after the other
   sinks (H)                  float32, or T1; ours
   lse (B, S, H)              (seqstarts[B], H)          float32; ours, with op.partial

   Layout 4: cache is [num_layer, 2, pages, KVH, page_size, D], row r of it is row r % page_size of
   page r / page_size, and cachestarts are multiples of page_size.

   cachestarts of rank 3 is a list of pages for each kv head, all of kvstarts' length: what that
   head attends to, though the cache may hold more.  Positions are counted along the list.  Pages of
   new tokens are the same for all heads. */
enum {
    KVMILL_CACHE_ATTENTION_QUERY = 0,
    KVMILL_CACHE_ATTENTION_CURRENT_KEY = 1,
    KVMILL_CACHE_ATTENTION_CURRENT_VALUE = 2,
    KVMILL_CACHE_ATTENTION_KEY = 3,
    KVMILL_CACHE_ATTENTION_VALUE = 4,
    KVMILL_CACHE_ATTENTION_START_POS = 5,
    KVMILL_CACHE_ATTENTION_SEQSTARTS = 6,
    KVMILL_CACHE_ATTENTION_KVSTARTS = 7,
    KVMILL_CACHE_ATTENTION_CACHESTARTS = 8,
    KVMILL_CACHE_ATTENTION_DECODING_BATCHES = 9,
    KVMILL_CACHE_ATTENTION_MAX_SEQLEN = 10,
    KVMILL_CACHE_ATTENTION_MAX_KVLEN = 11,
    KVMILL_CACHE_ATTENTION_CACHE = 12,
    KVMILL_CACHE_ATTENTION_SCALE = 13,
    KVMILL_CACHE_ATTENTION_VALUE_CACHE = 14,
    KVMILL_CACHE_ATTENTION_VALUE_SCALE = 15,
    KVMILL_CACHE_ATTENTION_ATTN_MASK = 16,
    KVMILL_CACHE_ATTENTION_SINKS = 17,
    KVMILL_CACHE_ATTENTION_ATTN_OUTPUT = 18,
    KVMILL_CACHE_ATTENTION_LSE = 19,
    KVMILL_CACHE_ATTENTION_TENSORS = 20
};

/* is_causal 1, num_layer 1, quant_group 8, page_size 128, num_repeat 1, left_window_size -1. */
void kvmill_cache_attention_init(kvmill_cache_attention *op, size_t struct_size);

/* The plans need no shapes: those come with the tensors of each run.  Otherwise as
   kvmill_plan_tensor_scatter. */
kvmill_status kvmill_plan_key_value_cache(const kvmill_cache_attention *op,
                                          const kvmill_plan_options *options, kvmill_plan **plan,
                                          kvmill_error *error);
kvmill_status kvmill_plan_multi_head_attention(const kvmill_cache_attention *op,
                                               const kvmill_plan_options *options,
                                               kvmill_plan **plan, kvmill_error *error);
kvmill_status kvmill_plan_multi_head_cache_attention(const kvmill_cache_attention *op,
                                                     const kvmill_plan_options *options,
                                                     kvmill_plan **plan, kvmill_error *error);

/* ---- Attention over any cache ------------------------------------------------------------- */

/* CacheAttend: attention over keys and values that are anywhere, written by anybody.  It stores
   nothing.  Ours; cache attention and ONNX's are special cases of it.

   score of a query at position p and a key at position j = softmax_scale * q.k; then softcap * tanh
   (score / softcap); then + slope * (j - p) + attn_mask.  Query head h uses kv head h / (num_heads
   / num_kv_heads).  A query that sees nothing gives 0, and lse -infinity.  Rows of the cache that
   no query sees are not read. */
typedef struct kvmill_cache_attend {
    size_t struct_size;     /* sizeof (kvmill_cache_attend) */
    int64_t num_heads;      /* H; required */
    int64_t num_kv_heads;   /* G; 0 = num_heads */
    int64_t key_head_dim;   /* D; required */
    int64_t value_head_dim; /* E; 0 = key_head_dim */
    DLDataType T1;          /* query: float32, float16, bfloat16 */
    DLDataType output_T1;   /* attn_output: T1 (bits 0), or float32 */
    DLDataType mask_T1;     /* attn_mask: bool, float16, bfloat16, float32; bits 0: there is none */

    /* Formats of K and V, as of cache attention: elements T2 where quant_bit is 0; codes of 8 or 4
       bits in groups that share a scale T3; or a cache_format's blocks.  4-bit codes may be given
       as uint8, two in each, so that their rows may have strides.  value_T2 bits 0: V has K's
       format. */
    int64_t key_quant_bit, key_quant_group, value_quant_bit, value_quant_group;
    DLDataType key_T2, key_T3, value_T2, value_T3;
    const char *key_cache_format, *value_cache_format;

    int64_t page_size;    /* rows of a page; 128 */
    double softmax_scale; /* 0 = 1 / sqrt (key_head_dim) */
    double softcap;       /* 0 = none */
    const char *math;     /* "f32" (NULL), "near" or "fast", as of cache attention */
    int32_t is_causal;    /* 0; else a query sees no key after its own position */
    int64_t left_window_size, right_window_size; /* -1; see Windows.  The second counts where
                                                    is_causal is 0 */
    int32_t is_alibi;     /* there are slopes: those of alibi_slopes, or computed: 2^(-max_bias (k +
                             1) / n) for the first n heads, n the largest power of two <=
                             alibi_heads; 2^(-max_bias m / 2 n), m = 1, 3, 5 ..., for the rest */
    int32_t alibi_of_mask;            /* slopes multiply attn_mask, and nothing else is added */
    int64_t alibi_heads, alibi_first; /* heads of the whole model (0 = num_heads), and the first of
                                         these here */
    double max_bias;                  /* 0 = 8 */
    const char *mode;                 /* "linear" (NULL) or "circular"; see Rings */
} kvmill_cache_attend;

/* Order of the tensors; those that are not given are NULL.  B sequences of S queries each, or of N
   queries together, from query_starts[b] to query_starts[b + 1].

   query (B, S, H, D), or (N, H, D) with query_starts     T1
   key, value: see below; the last dim as the format has it, of whole rows; others of any strides
   key_scale, value_scale                                 as key and value, last dim groups; T3
   query_starts (B + 1)                                   int64 or int32, as all numbers here
   lengths (B)            rows of each sequence that are there
   ranges (N, 2)          first and end position that each query sees, whatever is_causal and the
                          windows are; N = B * S
   page_ids (P), page_starts (B + 1)   row j of a sequence is row j % page_size of page
                          page_ids[page_starts[b] + j / page_size]; page_starts (B * G + 1): lists
                          of each kv head, those of head g in place b * G + g
   slots (M), slot_starts (B + 1)      row j is row slots[slot_starts[b] + j]
   positions (N)          of queries; else the last ones of their sequence
   key_positions          of rows: key's shape without (G, D); else their places in the sequence
   attn_mask (T), (S, T), (H, S, T), (B, H, S, T)         mask_T1; true is seen, floats are added,
                          -infinity hides; other dims may be 1; with query_starts S is N, and B 1.
                          Keys from T on are hidden.  Any strides
   alibi_slopes (H)       float32
   sinks (H)              float32 or T1; scores that have no value
   attn_output            query's shape, the last dim E   output_T1
   lse (B, S, H), (N, H)  float32; or NULL: logarithms of the sums of exp (score)

   Rows are named by lengths, ranges, page_ids or slots; of these there is one, but lengths may cut
   off the last page of lists.  key and value are (B, T, G, D), a cache for each sequence, or (C, G,
   D), one for all; with pages (C, G, D) or (pages, page_size, G, D); with slots (C, G, D). */
enum {
    KVMILL_CACHE_ATTEND_QUERY = 0,
    KVMILL_CACHE_ATTEND_KEY = 1,
    KVMILL_CACHE_ATTEND_VALUE = 2,
    KVMILL_CACHE_ATTEND_KEY_SCALE = 3,
    KVMILL_CACHE_ATTEND_VALUE_SCALE = 4,
    KVMILL_CACHE_ATTEND_QUERY_STARTS = 5,
    KVMILL_CACHE_ATTEND_LENGTHS = 6,
    KVMILL_CACHE_ATTEND_RANGES = 7,
    KVMILL_CACHE_ATTEND_PAGE_IDS = 8,
    KVMILL_CACHE_ATTEND_PAGE_STARTS = 9,
    KVMILL_CACHE_ATTEND_SLOTS = 10,
    KVMILL_CACHE_ATTEND_SLOT_STARTS = 11,
    KVMILL_CACHE_ATTEND_POSITIONS = 12,
    KVMILL_CACHE_ATTEND_KEY_POSITIONS = 13,
    KVMILL_CACHE_ATTEND_ATTN_MASK = 14,
    KVMILL_CACHE_ATTEND_ALIBI_SLOPES = 15,
    KVMILL_CACHE_ATTEND_SINKS = 16,
    KVMILL_CACHE_ATTEND_ATTN_OUTPUT = 17,
    KVMILL_CACHE_ATTEND_LSE = 18,
    KVMILL_CACHE_ATTEND_TENSORS = 19
};

/* page_size 128, windows -1. */
void kvmill_cache_attend_init(kvmill_cache_attend *op, size_t struct_size);

/* The plan needs no shapes: those come with the tensors of each run.  Otherwise as
   kvmill_plan_tensor_scatter. */
kvmill_status kvmill_plan_cache_attend(const kvmill_cache_attend *op,
                                       const kvmill_plan_options *options, kvmill_plan **plan,
                                       kvmill_error *error);

/* ---- WriteRows ---------------------------------------------------------------------------- */

/* WriteRows: row slots[n] of a cache becomes row n, in the cache's format.  Ours: what engines do
   that attend by CacheAttend and name the cells of their cache one by one; ggml's SET_ROWS.

   A slot of -1 stores nothing.  Of rows with the same slot the last one stays, on any number of
   threads.  Rows that no slot names are left as they are. */
typedef struct kvmill_write_rows {
    size_t struct_size;       /* sizeof (kvmill_write_rows) */
    int64_t head_dim;         /* D; required */
    DLDataType T1;            /* of rows; required */
    int64_t quant_bit;        /* these as of kvmill_cache_attention */
    int64_t quant_group;
    DLDataType T2;            /* of cache; required */
    DLDataType T3;
    const char *cache_format; /* NULL, or blocks of llama.cpp */
} kvmill_write_rows;

/* Tensors, D head_dim, H heads of a row, N rows, C those of the cache:

   rows (N, H, D)         T1; rows and heads of any strides
   slots (N)              int64 or int32; -1 to C - 1
   cache (C, H, D)        T2; the last dim as the format has it, rows and heads of any strides
   scale (C, H, D / quant_group)   T3; with quant_bit */
enum {
    KVMILL_WRITE_ROWS_ROWS = 0,
    KVMILL_WRITE_ROWS_SLOTS = 1,
    KVMILL_WRITE_ROWS_CACHE = 2,
    KVMILL_WRITE_ROWS_SCALE = 3,
    KVMILL_WRITE_ROWS_TENSORS = 4
};

/* All is 0 or NULL. */
void kvmill_write_rows_init(kvmill_write_rows *op, size_t struct_size);

/* The plan needs no shapes: those come with the tensors of each run.  Otherwise as
   kvmill_plan_tensor_scatter. */
kvmill_status kvmill_plan_write_rows(const kvmill_write_rows *op,
                                     const kvmill_plan_options *options, kvmill_plan **plan,
                                     kvmill_error *error);

/* ---- ONNX Attention ----------------------------------------------------------------------- */

/* ONNX Attention, opsets 23, 24 and 25, with the semantics of ONNX 1.23.  Attributes have the names
   and defaults of the standard; kvmill_attention_init sets the defaults.

   scores = scale * Q K^T, then softcap, then + attn_mask, with -infinity where is_causal, a window
   or nonpad_kv_seqlen hide a key; Y = softmax (scores) V.  Query head h uses kv head h /
   (q_num_heads / kv_num_heads).  Query i of batch entry b is at position p = offset + i, and a
   causal one sees keys j
   <= p; offset = the rows of past_key; or nonpad_kv_seqlen[b] - queries; or 0.  A query that sees
   no key gives 0: that is decided by masks alone, whatever the scores are.  Rows of K and V from
   nonpad_kv_seqlen[b] on are not read.

   The tensors are prototypes, as those of kvmill_tensor_scatter; NULL: there is none, and so it
   must be in each run, except Y, which may be NULL here.  Numbers and sizes of heads must be
   known. */
typedef struct kvmill_attention {
    size_t struct_size;        /* sizeof (kvmill_attention) */
    int64_t opset;             /* 23, 24 or 25 */
    int64_t is_causal;         /* 0 */
    int64_t q_num_heads;       /* 0: not given.  Required for tensors of rank 3; for rank 4 not */
    int64_t kv_num_heads;      /* allowed by opset 25 */
    double scale;              /* 0: 1 / sqrt (head size) */
    double softcap;            /* 0: none */
    int64_t softmax_precision; /* 0: T1's; 1 float, 10 float16, 16 bfloat16: at least float32 is
                                  used; 11 double */
    int64_t
        qk_matmul_output_mode; /* 0: scaled products, 1: after softcap, 2: after masks, 3: softmax.
                                  Keys from nonpad_kv_seqlen on give 0 in modes 0 and 1 */
    int64_t left_window_size;  /* -1; see Windows.  Opset 25 */
    int64_t right_window_size; /* -1 */
    const DLTensor *Q, *K, *V, *attn_mask, *past_key, *past_value, *nonpad_kv_seqlen;
    const DLTensor *Y, *present_key, *present_value, *qk_matmul_output;
} kvmill_attention;

/* Order of the tensors an attention plan runs on; S new queries, N new keys, P keys of the past,
   T = P + N, D and E the head sizes of keys and values.  T1, T2: float16, bfloat16, float32,
   float64.

   Q (B, H, S, D) or (B, S, H * D)                     T1
   K (B, G, N, D) or (B, N, G * D)                     T1, of Q's rank
   V (B, G, N, E) or (B, N, G * E)                     T2
   attn_mask (T), (S, T), (H, S, T) or (B, H, S, T)    bool (true: seen), integer or float: added,
   as a number of type T1; dims but the last may be 1; from opset 24 on the last may be less than T:
                                                       keys after it are hidden
   past_key, past_value (B, G, P, D), (B, G, P, E)     both or none
   nonpad_kv_seqlen (B)                                int64, 0 to T; not with a past; opset 24
   Y (B, H, S, E) or (B, S, H * E)                     T1
   present_key, present_value (B, G, T, D), (B, G, T, E)   past and new keys in one piece
   qk_matmul_output (B, H, S, T)                       T1

   Any of the last three may be missing.  A present tensor may begin with the memory of the past, or
   end with that of K or V (same addresses and strides): that part is left as it is.  Other overlaps
   of outputs are refused.  The last dim of tensors has stride 1, except attn_mask's. */
enum {
    KVMILL_ATTENTION_Q = 0,
    KVMILL_ATTENTION_K = 1,
    KVMILL_ATTENTION_V = 2,
    KVMILL_ATTENTION_ATTN_MASK = 3,
    KVMILL_ATTENTION_PAST_KEY = 4,
    KVMILL_ATTENTION_PAST_VALUE = 5,
    KVMILL_ATTENTION_NONPAD_KV_SEQLEN = 6,
    KVMILL_ATTENTION_Y = 7,
    KVMILL_ATTENTION_PRESENT_KEY = 8,
    KVMILL_ATTENTION_PRESENT_VALUE = 9,
    KVMILL_ATTENTION_QK_MATMUL_OUTPUT = 10,
    KVMILL_ATTENTION_TENSORS = 11
};

/* opset 25, windows -1. */
void kvmill_attention_init(kvmill_attention *op, size_t struct_size);

/* Otherwise as kvmill_plan_tensor_scatter.  What no kernel of a pack computes (T1 or T2 float64,
   softmax_precision 11, qk_matmul_output) a portable one does, and kvmill_plan_describe says so. */
kvmill_status kvmill_plan_attention(const kvmill_attention *op, const kvmill_plan_options *options,
                                    kvmill_plan **plan, kvmill_error *error);

/* A step of a model with a cache of its own: TensorScatter of K and V, then Attention, in one plan.
   Ours; what the two ops give where they can say it, and right where they cannot: queries of
   different lengths in one batch, and circular caches that have wrapped around.

   K and V of `attention` are the new rows, as many as there are queries; past_key and past_value
   are the caches that they go into, from slot write_indices[b] on (mode "circular" wraps around),
   and present_key and present_value the caches afterwards.  Caches have Q's rank: (B, G, M, D) or
   (B, M, G * D).  Query i is at position write_indices[b] + i, and positions are the columns of
   attn_mask, M or, as always, fewer.  nonpad_kv_seqlen[b] is the number of valid keys after the
   step, write_indices[b] to write_indices[b] + S: rows and queries beyond it are padding, and the
   queries give 0.  NULL: nothing is padding.  Rows of padding go into a linear cache, as
   TensorScatter would have it, but not into a circular one, where they would replace valid keys.

   A circular cache holds the last M positions: of the keys up to the last that a query may see, it
   sees the last M, those that the step itself replaces among them.  It has no attn_mask. */
typedef struct kvmill_tensor_scatter_attention {
    size_t struct_size;                /* sizeof (kvmill_tensor_scatter_attention) */
    const kvmill_attention *attention; /* opset 24 or 25; without qk_matmul_output */
    const char *mode;                  /* "linear" or "circular"; NULL = linear */
    const DLTensor *write_indices;     /* int64 (B), or NULL for all zero */
} kvmill_tensor_scatter_attention;

void kvmill_tensor_scatter_attention_init(kvmill_tensor_scatter_attention *op, size_t struct_size);

/* It runs on the tensors of Attention and one more.  In place: present_key is past_key, and
   present_value past_value, in any combination. */
enum {
    KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES = KVMILL_ATTENTION_TENSORS,
    KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS
};

kvmill_status kvmill_plan_tensor_scatter_attention(const kvmill_tensor_scatter_attention *op,
                                                   const kvmill_plan_options *options,
                                                   kvmill_plan **plan, kvmill_error *error);

/* ---- Partial results ---------------------------------------------------------------------- */

/* Merge partial results of the same queries over disjoint keys: output = sum of exp (lse[i] - lse)
   * outputs[i], lse = log of the sum of exp (lse[i]).  outputs: count arrays of [rows, dim]; lses:
   count arrays of [rows], row-major without gaps; output and lse may be one of the inputs, and do
   not overlap otherwise.  count 0: output is 0 and lse -infinity.  KVMILL_E_NULL, KVMILL_E_SHAPE (a
   negative number) and KVMILL_E_OVERFLOW leave output and lse as they are.  Any thread. */
kvmill_status kvmill_merge_partials(int64_t count, const float *const *outputs,
                                    const float *const *lses, int64_t rows, int64_t dim,
                                    float *output, float *lse);

#ifdef __cplusplus
}
#endif
#endif
