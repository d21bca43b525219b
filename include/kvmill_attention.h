/* Attention: PMX's over its caches, CacheAttend over any cache, and ONNX's.  Included by kvmill.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ATTENTION_H
#define KVMILL_ATTENTION_H

#include <kvmill_core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Rings -------------------------------------------------------------------------------- */

/* With mode "circular", the slots of a sequence are a ring of M slots: position p is in slot p % M,
   so the ring holds the last M positions, in any format.  Of the positions that causality and
   windows leave, a query sees at most the last M.  In a static batch, M is the number of slots of
   the cache. With pages, it is page_size times the number of pages in a list.  With cache_mode 0 it
   is `capacity`, and the ring begins at cachestarts[b].  A list or a sequence that has not wrapped
   around yet needs no more than it uses.

   KeyValueCache stores the last M of more than M new tokens, and reads back the last min (KV, M)
   positions.  MultiHeadCacheAttention gives the same results as one token after the other: if new
   tokens would replace keys that earlier new tokens see, they take turns within a run.  A turn has
   M - W + 1 tokens, where W is the smaller of left_window_size + 1 and M.  A ring of W + S - 1
   slots takes S tokens in one turn, at the cost of a linear cache.  attn_mask has a column for each
   position, including those that are no longer in the ring.  start_pos and lengths are at most
   2^62.

   CacheAttend stores nothing: of the last M of lengths[b] positions, a query sees those that
   causality and windows leave.  If a query's window is not longer than the ring but begins before
   it, the run is refused.  ranges, slots and key_positions cannot be combined with a ring; page_ids
   need lengths. */

/* ---- PMX cache attention ------------------------------------------------------------------ */

/* PMX cache attention (openppl-public/ppl.pmx, OPMX 2024-07): KeyValueCache stores and reads back,
   MultiHeadAttention attends, MultiHeadCacheAttention stores and attends over what is then in the
   cache.  Static and dynamic batching.  Attributes have their source's names; comments give the
   defaults, which kvmill_cache_attention_init sets.  "Ours" marks extensions.

   Query head h uses kv head h / (num_heads / num_kv_heads).  Causal masks are aligned bottom-right:
   the query at position p sees positions 0 ... p. */
typedef struct kvmill_cache_attention {
    size_t struct_size;       /* sizeof (kvmill_cache_attention) */
    int32_t dynamic_batching; /* 0: static batch; not 0: opmx.dynamic_batching */
    int32_t is_causal;        /* 1 */
    int32_t is_alibi;         /* 0 */
    int64_t num_heads;        /* required, except for KeyValueCache */
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
    DLDataType T2; /* cache: float32, float16; ours: bfloat16; int8 or int4 if quantised; uint8 if
                      cache_format names llama.cpp's blocks */
    DLDataType T3; /* scale: float32, float16; ours: bfloat16 */
    double softmax_scale; /* 0 = 1 / sqrt (head_dim) */

    /* Ours. */
    int64_t left_window_size; /* -1; see Windows */
    double softcap;           /* 0 = none; else softcap * tanh (score / softcap) before any mask */
    const char *math; /* "f32" (NULL); "near": integer arithmetic where it is faster; "fast":
                         float16, too.  kvmill(3), Errors of attention, has the bound of each */
    int32_t partial;  /* attn_output is float32, and lse is an output: the logarithm of the sum of
                         exp (score), float32, with attn_output's shape except for the last dim */
    int32_t
        empty_is_nan; /* a row that sees nothing gives NaN, as in PMX's reference, instead of 0 */
    int64_t alibi_heads, alibi_first; /* for tensor parallelism: heads of the whole model (0 =
                                         num_heads), and the first of them that is here */
    double alibi_scale;               /* 0 = 1; factor of all slopes */
    /* K and V may differ.  value_cache (and value_scale) are then separate tensors, and the dim for
       K and V of cache and value_cache is 1.  Used if value_differs is not 0. */
    int32_t value_differs;
    int64_t value_head_dim, value_quant_bit, value_quant_group;
    DLDataType value_T2, value_T3;
    const char *cache_format,
        *value_cache_format; /* NULL = elements of T2; "q8_0" and the like: rows
                                are llama.cpp's blocks, T2 is uint8, the last
                                dim counts their bytes, and there is no scale;
                                "tiles": int8 or int4 codes in an order of
                                kvmill's own; "transposed": the keys of a page
                                as [head_dim, page_size]; see kvmill(3) */
    const char *mode;        /* "linear" (NULL) or "circular"; see Rings */
    int64_t capacity; /* slots of each sequence's ring, with dynamic_batching and cache_mode 0,
                         where no shape says it; otherwise 0 */
    /* Latent attention: V is the first value_head_dim elements of K's rows, as they are in the
       cache. There is no current_value, value_cache or value_scale; value_T2 and the like are K's,
       or 0. For MultiHeadCacheAttention; used if value_differs is not 0. */
    int32_t value_view;
    const char *scale_overflow; /* what becomes of a group with a scale that T3 cannot hold:
                                   "infinite" (NULL), as in PMX: the scale, so that elements are
                                   read back as infinity or NaN; "saturate": the scale is T3's
                                   largest number, and codes are the nearest for it */
} kvmill_cache_attention;

/* Order of the tensors that all cache attention plans run on.  Tensors that an op does not have,
   and absent optional ones, are NULL.  S = new tokens of a sequence, KV = start_pos + S.

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
   key, value (B, KV, KVH, D) (kvstarts[B], KVH, D)      inputs of MultiHeadAttention; outputs of
                              KeyValueCache (KVH * num_repeat heads), which with a ring have the
                              last min (KV, M) positions of each sequence, one sequence after the
                              other
   sinks (H)                  float32, or T1; ours
   lse (B, S, H)              (seqstarts[B], H)          float32; ours, with op.partial

   Layout 4: cache is [num_layer, 2, pages, KVH, page_size, D]; row r is row r % page_size of page
   r / page_size, and cachestarts are multiples of page_size.

   cachestarts of rank 3 is a list of pages for each kv head, all of kvstarts' length.  The head
   attends only to these pages, although the cache may hold more.  Positions are counted along the
   list.  The pages of new tokens are the same for all heads. */
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

/* These plans need no shapes, which come with the tensors of each run.  Otherwise as
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

/* CacheAttend: attention over keys and values anywhere in memory, whoever wrote them.  It stores
   nothing.  Ours; PMX cache attention and ONNX's Attention are special cases of it.

   The score of a query at position p and a key at position j is softmax_scale * q.k; then
   softcap * tanh (score / softcap); then + slope * (j - p) + attn_mask.  Query head h uses kv head
   h / (num_heads / num_kv_heads).  A query that sees nothing gives 0, and lse -infinity.  Rows of
   the cache that no query sees are not read. */
typedef struct kvmill_cache_attend {
    size_t struct_size;     /* sizeof (kvmill_cache_attend) */
    int64_t num_heads;      /* H; required */
    int64_t num_kv_heads;   /* G; 0 = num_heads */
    int64_t key_head_dim;   /* D; required */
    int64_t value_head_dim; /* E; 0 = key_head_dim */
    DLDataType T1;          /* query: float32, float16, bfloat16 */
    DLDataType output_T1;   /* attn_output: T1 (bits 0), or float32 */
    DLDataType mask_T1;     /* attn_mask: bool, float16, bfloat16, float32; bits 0: there is none */

    /* Formats of K and V, as in cache attention: elements T2 if quant_bit is 0; codes of 8 or 4
       bits in groups that share a scale T3; or blocks of a cache_format.  4-bit codes may be passed
       as uint8, two in each, so that rows may have strides.  value_T2 bits 0: V has K's format. */
    int64_t key_quant_bit, key_quant_group, value_quant_bit, value_quant_group;
    DLDataType key_T2, key_T3, value_T2, value_T3;
    const char *key_cache_format, *value_cache_format;

    int64_t page_size;    /* rows of a page; 128 */
    double softmax_scale; /* 0 = 1 / sqrt (key_head_dim) */
    double softcap;       /* 0 = none */
    const char *math;     /* "f32" (NULL), "near" or "fast", as in cache attention */
    int32_t is_causal;    /* 0; else a query sees no key after its own position */
    int64_t left_window_size, right_window_size; /* -1; see Windows.  The second counts only if
                                                    is_causal is 0 */
    int32_t is_alibi; /* there are slopes: alibi_slopes, or computed ones: 2^(-max_bias (k + 1) / n)
                         for the first n heads, n the largest power of two <= alibi_heads, and
                         2^(-max_bias m / 2 n), m = 1, 3, 5 ..., for the rest */
    int32_t alibi_of_mask;            /* slopes multiply attn_mask, and nothing else is added */
    int64_t alibi_heads, alibi_first; /* heads of the whole model (0 = num_heads), and the first of
                                         them that is here */
    double max_bias;                  /* 0 = 8 */
    const char *mode;                 /* "linear" (NULL) or "circular"; see Rings */
} kvmill_cache_attend;

/* Order of the tensors; absent ones are NULL.  There are B sequences, each with S queries; or N
   queries in all, those of sequence b from query_starts[b] to query_starts[b + 1].

   query (B, S, H, D), or (N, H, D) with query_starts     T1
   key, value             see below; the last dim has whole rows in the cache's format; other dims
                          have any strides
   key_scale, value_scale                                 as key and value, last dim groups; T3
   query_starts (B + 1)                                   int64 or int32, like all integers here
   lengths (B)            valid rows of each sequence
   ranges (N, 2)          first and end position that each query sees, regardless of is_causal and
                          windows; N = B * S
   page_ids (P), page_starts (B + 1)   row j of a sequence is row j % page_size of page
                          page_ids[page_starts[b] + j / page_size]; page_starts (B * G + 1): a list
                          for each kv head; that of head g is number b * G + g
   slots (M), slot_starts (B + 1)      row j is row slots[slot_starts[b] + j]
   positions (N)          of queries; by default the last ones of their sequence
   key_positions          of rows: key's shape without (G, D); by default their places in the
                          sequence
   attn_mask (T), (S, T), (H, S, T), (B, H, S, T)         mask_T1; true is seen, floats are added,
                          -infinity hides; other dims may be 1; with query_starts S is N, and B
                          is 1.  Keys from T on are hidden.  Any strides
   alibi_slopes (H)       float32
   sinks (H)              float32 or T1; scores without a value
   attn_output            query's shape, the last dim E   output_T1
   lse (B, S, H), (N, H)  float32; or NULL: logarithms of the sums of exp (score)

   Exactly one of lengths, ranges, page_ids and slots names the rows, except that lengths may cut
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

/* The plan needs no shapes, which come with the tensors of each run.  Otherwise as
   kvmill_plan_tensor_scatter. */
kvmill_status kvmill_plan_cache_attend(const kvmill_cache_attend *op,
                                       const kvmill_plan_options *options, kvmill_plan **plan,
                                       kvmill_error *error);

/* ---- WriteRows ---------------------------------------------------------------------------- */

/* WriteRows: row n is stored in row slots[n] of a cache, in the cache's format.  Ours; for engines
   that attend with CacheAttend and name the slots of their cache one by one.  It is ggml's
   SET_ROWS.

   A slot of -1 stores nothing.  If several rows have the same slot, the last one remains, for any
   number of threads.  Rows that no slot names do not change. */
typedef struct kvmill_write_rows {
    size_t struct_size; /* sizeof (kvmill_write_rows) */
    int64_t head_dim;   /* D; required */
    DLDataType T1;      /* of rows; required */
    int64_t quant_bit;  /* this and the next ones as in kvmill_cache_attention */
    int64_t quant_group;
    DLDataType T2; /* of cache; required */
    DLDataType T3;
    const char *cache_format;   /* NULL, or blocks of llama.cpp */
    const char *scale_overflow; /* "saturate" (NULL) or "infinite", as in kvmill_cache_attention */
} kvmill_write_rows;

/* Tensors, where D is head_dim, H the number of heads of a row, N that of rows, and C that of rows
   of the cache:

   rows (N, H, D)         T1; rows and heads with any strides
   slots (N)              int64 or int32; -1 to C - 1
   cache (C, H, D)        T2; the last dim in the cache's format; rows and heads with any strides
   scale (C, H, D / quant_group)   T3; with quant_bit */
enum {
    KVMILL_WRITE_ROWS_ROWS = 0,
    KVMILL_WRITE_ROWS_SLOTS = 1,
    KVMILL_WRITE_ROWS_CACHE = 2,
    KVMILL_WRITE_ROWS_SCALE = 3,
    KVMILL_WRITE_ROWS_TENSORS = 4
};

/* All 0 or NULL. */
void kvmill_write_rows_init(kvmill_write_rows *op, size_t struct_size);

/* The plan needs no shapes, which come with the tensors of each run.  Otherwise as
   kvmill_plan_tensor_scatter. */
kvmill_status kvmill_plan_write_rows(const kvmill_write_rows *op,
                                     const kvmill_plan_options *options, kvmill_plan **plan,
                                     kvmill_error *error);

/* ---- ONNX Attention ----------------------------------------------------------------------- */

/* ONNX Attention, opsets 23, 24 and 25, with the semantics of ONNX 1.23.  Attributes have the names
   and defaults of the standard; kvmill_attention_init sets the defaults.

   scores = scale * Q K^T, then softcap, then + attn_mask, and -infinity for keys that is_causal, a
   window or nonpad_kv_seqlen hide; Y = softmax (scores) V.  Query head h uses kv head h /
   (q_num_heads / kv_num_heads).  Query i of batch entry b is at position p = offset + i; with
   is_causal it sees keys j <= p.  offset is the number of rows of past_key; or
   nonpad_kv_seqlen[b] - queries; or 0.  A query that sees no key gives 0; masks alone decide this,
   not the scores.  Rows of K and V from nonpad_kv_seqlen[b] on are not read.

   The tensors are prototypes, as in kvmill_tensor_scatter.  NULL: the tensor is absent, in each
   run, too; except for Y, which may be NULL here.  Numbers and sizes of heads must be known. */
typedef struct kvmill_attention {
    size_t struct_size;   /* sizeof (kvmill_attention) */
    int64_t opset;        /* 23, 24 or 25 */
    int64_t is_causal;    /* 0 */
    int64_t q_num_heads;  /* 0: not given.  Required for tensors of rank 3; with rank 4 allowed */
    int64_t kv_num_heads; /* only in opset 25 */
    double scale;         /* 0: 1 / sqrt (head size) */
    double softcap;       /* 0: none */
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

/* Order of the tensors that an attention plan runs on.  There are S new queries, N new keys and P
   past keys; T = P + N; D and E are the head sizes of keys and values.  T1 and T2 are float16,
   bfloat16, float32 or float64.

   Q (B, H, S, D) or (B, S, H * D)                     T1
   K (B, G, N, D) or (B, N, G * D)                     T1, of Q's rank
   V (B, G, N, E) or (B, N, G * E)                     T2
   attn_mask (T), (S, T), (H, S, T) or (B, H, S, T)    bool (true: seen), or integer or float, which
                                                       is added as a number of type T1; all dims
                                                       except the last may be 1; from opset 24 on
                                                       the last may be less than T: later keys are
                                                       hidden
   past_key, past_value (B, G, P, D), (B, G, P, E)     both or none
   nonpad_kv_seqlen (B)                                int64, 0 to T; not with a past; opset 24
   Y (B, H, S, E) or (B, S, H * E)                     T1
   present_key, present_value (B, G, T, D), (B, G, T, E)   past and new keys in one piece
   qk_matmul_output (B, H, S, T)                       T1

   Any of the last three may be missing.  A present tensor may begin with the memory of the past, or
   end with that of K or V (same addresses and strides); that part is not written.  Other overlaps
   of outputs are refused.  The last dim of tensors has stride 1, except for attn_mask. */
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

/* As kvmill_plan_tensor_scatter.  If no kernel of a pack computes the op (T1 or T2 float64,
   softmax_precision 11, qk_matmul_output), portable code does, and kvmill_plan_describe says so. */
kvmill_status kvmill_plan_attention(const kvmill_attention *op, const kvmill_plan_options *options,
                                    kvmill_plan **plan, kvmill_error *error);

/* A step of a model that has a cache of its own: TensorScatter of K and V, then Attention, in one
   plan. Ours.  It gives what the two ops give where they can express it, and the right result where
   they cannot: for queries of different lengths in one batch, and circular caches that have wrapped
   around.

   K and V of `attention` are the new rows, as many as there are queries.  past_key and past_value
   are the caches that they go into, from slot write_indices[b] on (mode "circular" wraps around);
   present_key and present_value are the caches afterwards.  Caches have Q's rank: (B, G, M, D) or
   (B, M, G * D). Query i is at position write_indices[b] + i.  Positions are the columns of
   attn_mask, M or, as always, fewer.  nonpad_kv_seqlen[b] is the number of valid keys after the
   step, write_indices[b] to write_indices[b] + S; NULL: there is no padding.  Rows and queries
   beyond it are padding, and these queries give 0.  Rows of padding go into a linear cache, as in
   TensorScatter, but not into a circular one, where they would replace valid keys.

   A circular cache holds the last M positions.  Of the keys up to the last one that a query may
   see, the query sees the last M, including those that the step itself replaces.  There is no
   attn_mask then. */
typedef struct kvmill_tensor_scatter_attention {
    size_t struct_size;                /* sizeof (kvmill_tensor_scatter_attention) */
    const kvmill_attention *attention; /* opset 24 or 25; without qk_matmul_output */
    const char *mode;                  /* "linear" or "circular"; NULL = linear */
    const DLTensor *write_indices;     /* int64 (B), or NULL for all zero */
} kvmill_tensor_scatter_attention;

void kvmill_tensor_scatter_attention_init(kvmill_tensor_scatter_attention *op, size_t struct_size);

/* It runs on the tensors of Attention and write_indices.  In place: present_key is past_key, or
   present_value is past_value, or both. */
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
   count arrays of [rows], row-major without gaps.  output and lse may be one of the inputs, and
   must not overlap otherwise.  count 0: output is 0 and lse -infinity.  With KVMILL_E_NULL (an
   array that is needed is NULL), KVMILL_E_SHAPE (a negative number) and KVMILL_E_OVERFLOW, output
   and lse do not change.  Arrays without numbers may be NULL: all if rows is 0, outputs and output
   if dim is 0, and outputs and lses if count is 0.  Any thread. */
kvmill_status kvmill_merge_partials(int64_t count, const float *const *outputs,
                                    const float *const *lses, int64_t rows, int64_t dim,
                                    float *output, float *lse);

#ifdef __cplusplus
}
#endif
#endif
