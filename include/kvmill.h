/* kvmill: kernels for the key/value cache of language models.

   Plan once, run many: creating a plan validates the problem and selects a kernel; running checks
   what only the data can tell, then copies or computes.  Running allocates nothing, takes no lock,
   prints nothing, and is re-entrant: one plan may run in any number of threads at a time.

   On any error nothing has been written: every tensor is bit-identical to before the call.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_H
#define KVMILL_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVMILL_VERSION_MAJOR 0
#define KVMILL_VERSION_MINOR 2
#define KVMILL_VERSION_PATCH 0
#define KVMILL_VERSION       "0.2.0"

/* Version of the library that is linked, as text.  Any thread. */
const char *kvmill_version(void);

/* ---- Errors ------------------------------------------------------------------------------- */

/* Numbers are stable; new codes are added at the end. */
typedef enum kvmill_status {
    KVMILL_OK = 0,
    KVMILL_E_NULL = 1,           /* a required pointer is NULL */
    KVMILL_E_ALIAS = 2,          /* tensors overlap in a way the op does not allow */
    KVMILL_E_INDEX_NEGATIVE = 3, /* an index is negative */
    KVMILL_E_INDEX_RANGE = 4,    /* an index points outside the tensor */
    KVMILL_E_SHAPE = 5,          /* ranks or dims do not fit the op, the plan or each other */
    KVMILL_E_OVERFLOW = 6,       /* a size in bytes exceeds PTRDIFF_MAX */
    KVMILL_E_DTYPE = 7,          /* an element type the op or the plan does not take */
    KVMILL_E_ATTRIBUTE = 8,      /* an attribute outside its range */
    KVMILL_E_STRIDE = 9,         /* strides the planned kernel cannot walk */
    KVMILL_E_DEVICE = 10,        /* not in CPU memory */
    KVMILL_E_WORKSPACE = 11,     /* workspace missing or too small */
    KVMILL_E_MEMORY = 12,        /* out of memory; plan creation only */
    KVMILL_E_ISA = 13,           /* an instruction set this build or CPU does not know */
    KVMILL_E_PACK = 14,          /* a pack of another version, to be generated again */
    KVMILL_E_VERSION = 15        /* a struct says more than this version of the library knows */
} kvmill_status;

/* "KVMILL_E_SHAPE" etc.; never NULL.  Any thread. */
const char *kvmill_status_name(kvmill_status status);

/* Message buffer of the caller; every function that takes one also takes NULL. */
typedef struct kvmill_error {
    char message[256]; /* which argument, its value, what is accepted; "" on success */
} kvmill_error;

/* ---- Structs ------------------------------------------------------------------------------ */

/* Structs that may grow begin with struct_size, the size that the program was compiled with, so
   that programs and libraries of different versions work together:

   - A smaller struct, of an older program: members that it lacks have their defaults.
   - A larger one, of a newer program: accepted where all bytes after those that this library knows
     are 0, else KVMILL_E_VERSION.  Members are only ever added at the end.
   - Any other size (0, above 4096, no multiple of sizeof (size_t)) is KVMILL_E_ATTRIBUTE.

   kvmill_NAME_init (&op, sizeof op) sets struct_size and every default; plan functions, specs and
   bindings have the same defaults.  A default that no comment names is 0, or NULL; a member whose
   default is another must be set by whoever does without the init function.  It writes struct_size
   bytes, does nothing where the pointer is NULL or the size is no struct's, and may be called on
   any thread.  The library reads a struct, and what it points to, during the call that it is given
   to, and keeps nothing of it unless a comment says so. */

/* ---- Windows ------------------------------------------------------------------------------ */

/* Windows mean the same everywhere, which is what ONNX and flash attention say: a query at position
   p sees the positions j with p - left_window_size <= j <= p + right_window_size, of those that
   nothing else hides.  -1, the default, is no bound; 0 is nothing on that side.  So a model's
   sliding window of n positions, the query's own included, is left_window_size n - 1. */

/* ---- Tensors ------------------------------------------------------------------------------ */

/* Tensors are DLPack DLTensors in CPU memory; strides (in elements, NULL = row-major) and
   byte_offset are honoured.  kvmill borrows them for the duration of a call.  A tensor is looked at
   as a stranger's: rank 0 to 64 (KVMILL_E_SHAPE), then a shape that is not NULL, then dims, strides,
   a byte_offset of at most PTRDIFF_MAX (KVMILL_E_OVERFLOW), and data that is not NULL unless it is
   empty.  What cannot be checked: that the memory is there, as large as shape and strides say, and
   changed by nobody else while a call uses it; that texts end; that pointers that are not NULL point
   to what their type says.  4-bit types are
   packed two per byte, low nibble first, over the whole tensor, and must be row-major without gaps.
   Type codes that DLPack 0.6 lacks, with the values later versions gave them: */
#define KVMILL_DL_BOOL               6
#define KVMILL_DL_FLOAT8_E3M4        7
#define KVMILL_DL_FLOAT8_E4M3        8
#define KVMILL_DL_FLOAT8_E4M3B11FNUZ 9
#define KVMILL_DL_FLOAT8_E4M3FN      10
#define KVMILL_DL_FLOAT8_E4M3FNUZ    11
#define KVMILL_DL_FLOAT8_E5M2        12
#define KVMILL_DL_FLOAT8_E5M2FNUZ    13
#define KVMILL_DL_FLOAT8_E8M0FNU     14
#define KVMILL_DL_FLOAT6_E2M3FN      15
#define KVMILL_DL_FLOAT6_E3M2FN      16
#define KVMILL_DL_FLOAT4_E2M1FN      17

/* In the shape of a tensor given to a plan: known only when it runs. */
#define KVMILL_DYNAMIC (-1)

/* ---- Plans -------------------------------------------------------------------------------- */

typedef struct kvmill_plan kvmill_plan;

/* A pack of generated kernels, as the pack's own header declares it: kvmill_pack_NAME.  Immutable,
   for any thread.  What is in it is between packs and the library (kvmill_kernel.h). */
typedef struct kvmill_pack kvmill_pack;

typedef struct kvmill_plan_options {
    size_t struct_size;              /* sizeof (kvmill_plan_options) */
    const kvmill_pack *const *packs; /* searched for the best kernel; borrowed by the plan */
    size_t pack_count;
    const char *isa; /* best instruction set to use, NULL = all this CPU has */
    int portable;    /* not 0: use the portable kernels */
    int threads;     /* most threads that run parts of one call at a time, for the size of the
                        workspace; 0 = 1.  More threads than that wait for each other */
} kvmill_plan_options;

/* No packs, one thread. */
void kvmill_plan_options_init(kvmill_plan_options *options, size_t struct_size);

/* ONNX TensorScatter (opset 24): present = past with `rows` new rows of update written along
   `axis`, from slot write_indices[b] of batch entry b on; circular mode wraps around.

   The tensors are prototypes: shape, dtype and strides count, data is not looked at; a dim may be
   KVMILL_DYNAMIC.  past_cache and present_cache: equal shapes, rank >= 2.  update: the same except
   dim `axis`, which may be smaller.  write_indices: int64 [batch], or NULL for all zero.
   present_cache NULL = laid out as past_cache. */
typedef struct kvmill_tensor_scatter {
    size_t struct_size; /* sizeof (kvmill_tensor_scatter) */
    int64_t axis;       /* [-rank + 1, -1] or [1, rank - 1]; the specification's default is -2 */
    const char *mode;   /* "linear" or "circular"; NULL = linear */
    const DLTensor *past_cache, *update, *write_indices, *present_cache;
} kvmill_tensor_scatter;

/* axis -2. */
void kvmill_tensor_scatter_init(kvmill_tensor_scatter *op, size_t struct_size);

/* Order of the tensors a TensorScatter plan runs on. */
enum {
    KVMILL_TENSOR_SCATTER_PAST_CACHE = 0,
    KVMILL_TENSOR_SCATTER_UPDATE = 1,
    KVMILL_TENSOR_SCATTER_WRITE_INDICES = 2,
    KVMILL_TENSOR_SCATTER_PRESENT_CACHE = 3,
    KVMILL_TENSOR_SCATTER_TENSORS = 4
};

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
    const char *cache_format, *value_cache_format; /* NULL = T2's; "q8_0", "q4_0": the rows of a
                                                      cache are llama.cpp's blocks, T2 is uint8, the
                                                      last dim their bytes, and there is no scale */
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
                              KeyValueCache (KVH * num_repeat heads)
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
                                                       keys behind it are hidden
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

/* ---- StableHLO gather and scatter --------------------------------------------------------- */

/* stablehlo.gather and stablehlo.scatter as of StableHLO 1.x with batching dims.  Attributes have
   their source's names.  All dims are known to the plan, rank is at most 32.

   Elements are any type of StableHLO; those of fewer than 8 bits take a byte each here (as in
   StableHLO's own constants), i1 is KVMILL_DL_BOOL with 8 bits. */

/* A list of axes or sizes; borrowed for the call it is given to. */
typedef struct kvmill_dims {
    const int64_t *items; /* may be NULL when count is 0 */
    size_t count;
} kvmill_dims;

/* An element type.  Of a quantized one (per tensor), dtype is the storage type:
   value = (stored - zero_point) * scale. */
typedef struct kvmill_element_type {
    DLDataType dtype;
    DLDataType
        expressed; /* type of the value; bits 0: not quantized, and the rest is not looked at */
    double scale;
    int64_t zero_point, storage_min, storage_max;
} kvmill_element_type;

/* result[r] = operand[clamp (start, 0, dim - slice) + batch + offset].  The tensors are prototypes,
   as those of kvmill_tensor_scatter. */
typedef struct kvmill_gather {
    size_t struct_size; /* sizeof (kvmill_gather) */
    kvmill_dims offset_dims, collapsed_slice_dims, operand_batching_dims;
    kvmill_dims start_indices_batching_dims, start_index_map, slice_sizes;
    int64_t index_vector_dim;
    int32_t indices_are_sorted; /* a hint; never changes a result */
    /* Ours: what a window becomes whose start is outside.  "clip" (NULL): start is clamped, as
       StableHLO says; "fill": all of it is fill_value, as JAX says. */
    const char *mode;
    const void
        *fill_value; /* one element; NULL = NaN, the least int, the largest unsigned int, true */
    const DLTensor *operand, *start_indices;
    const DLTensor *result; /* NULL = as it follows, row-major */
    /* Where they are quantized; NULL = the tensor's dtype. */
    const kvmill_element_type *operand_element, *result_element;
} kvmill_gather;

void kvmill_gather_init(kvmill_gather *op, size_t struct_size);

/* Order of the tensors a gather plan runs on. */
enum {
    KVMILL_GATHER_OPERAND = 0,
    KVMILL_GATHER_START_INDICES = 1,
    KVMILL_GATHER_RESULT = 2,
    KVMILL_GATHER_TENSORS = 3
};

/* An op of a scatter's region: a pure function of scalars, by its name without "stablehlo.":
   abs add and atan2 cbrt ceil clamp compare convert cosine count_leading_zeros divide exponential
   exponential_minus_one floor is_finite log log_plus_one logistic maximum minimum multiply negate
   not or popcnt power remainder round_nearest_afz round_nearest_even rsqrt select shift_left
   shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor; "constant";
   and "capture", a scalar from outside.  One rounding per op. */
typedef struct kvmill_region_op {
    const char *name;
    kvmill_element_type element;      /* of its value */
    int32_t operands[3];              /* numbers of values: arguments first, then ops */
    const char *comparison_direction; /* compare: "EQ", "NE", "GE", "GT", "LE", "LT" */
    const char *compare_type;         /* NULL, or "TOTALORDER" */
    uint64_t value[2];                /* constant: its bits; capture: its number */
} kvmill_region_op;

/* (acc0, acc1, ..., update0, update1, ...) -> (acc0, acc1, ...) */
typedef struct kvmill_region {
    const kvmill_element_type *arguments; /* two for each input */
    const kvmill_region_op *ops;
    size_t op_count;        /* at most 64 */
    const int32_t *results; /* numbers of values, one for each input */
    size_t capture_count;   /* at most 16 */
} kvmill_region;

/* results = inputs; then, for every element u of updates in row-major order, at p = start + batch +
   window: results[p] = region (results[p], updates[u]) if p is inside.  Inputs and updates are
   converted to the region's types first. */
typedef struct kvmill_scatter {
    size_t struct_size; /* sizeof (kvmill_scatter) */
    kvmill_dims update_window_dims, inserted_window_dims, input_batching_dims;
    kvmill_dims scatter_indices_batching_dims, scatter_dims_to_operand_dims;
    int64_t index_vector_dim;
    int32_t indices_are_sorted; /* a hint, which never changes a result */
    /* A promise that no element of results has two updates, so that parts may apply them in any
       order. Broken, it spoils those elements where several threads run, and nothing else. */
    int32_t unique_indices;
    /* Ours: a window that is partly outside is skipped by elements, "skip_element" (NULL), or as a
       whole, "skip_window", as XLA and JAX do. */
    const char *window_out_of_bounds;
    /* "replace", "add", "subtract", "multiply", "minimum", "maximum", "and", "or", "xor" of the
       inputs' types; NULL: region. */
    const char *update_computation;
    const kvmill_region *region;
    size_t count; /* of inputs, of updates and of results; at most 16 */
    const DLTensor *const *inputs, *const *updates;
    const DLTensor *scatter_indices;
    const DLTensor *const *results; /* NULL = shaped as inputs, of the region's types */
    const kvmill_element_type
        *elements; /* of inputs, where some are quantized; NULL = the dtypes */
    const kvmill_element_type *update_elements; /* NULL = the dtypes, or those of inputs */
    const kvmill_element_type *result_elements; /* NULL = the dtypes, or those of the region */
} kvmill_scatter;

void kvmill_scatter_init(kvmill_scatter *op, size_t struct_size);

/* A scatter plan runs on inputs, scatter_indices, updates, results and captures (rank 0), in this
   order.  In place: results[i] is inputs[i], for all i or none, and no type changes. */

/* Plans of these two need no workspace.  Otherwise as kvmill_plan_tensor_scatter. */
kvmill_status kvmill_plan_gather(const kvmill_gather *op, const kvmill_plan_options *options,
                                 kvmill_plan **plan, kvmill_error *error);
kvmill_status kvmill_plan_scatter(const kvmill_scatter *op, const kvmill_plan_options *options,
                                  kvmill_plan **plan, kvmill_error *error);

/* Merge partial results of the same queries over disjoint keys: output = sum of exp (lse[i] - lse)
   * outputs[i], lse = log of the sum of exp (lse[i]).  outputs: count arrays of [rows, dim]; lses:
   count arrays of [rows], row-major without gaps; output and lse may be one of the inputs, and do
   not overlap otherwise.  count 0: output is 0 and lse -infinity.  KVMILL_E_NULL, KVMILL_E_SHAPE (a
   negative number) and KVMILL_E_OVERFLOW leave output and lse as they are.  Any thread. */
kvmill_status kvmill_merge_partials(int64_t count, const float *const *outputs,
                                    const float *const *lses, int64_t rows, int64_t dim,
                                    float *output, float *lse);

/* Create a plan; *plan is NULL on error.  options NULL = no packs, portable kernels.  The plan is
   immutable and may be shared by threads; release it with kvmill_plan_destroy.  The environment
   variable KVMILL_ISA caps the instruction set like options->isa; with KVMILL_VERBOSE set, the
   choice is written to standard error: the one thing this library ever prints. */
kvmill_status kvmill_plan_tensor_scatter(const kvmill_tensor_scatter *op,
                                         const kvmill_plan_options *options, kvmill_plan **plan,
                                         kvmill_error *error);

/* Release a plan that no call uses any more; NULL is allowed.  Any thread. */
void kvmill_plan_destroy(kvmill_plan *plan);

/* Write what was planned, which kernels were selected and why; at most size bytes with the final
   NUL, none where text is NULL.  Returns the length of the whole text, like snprintf; of a plan that
   is NULL, 0 and "".  Any thread. */
size_t kvmill_plan_describe(const kvmill_plan *plan, char *text, size_t size);

/* Bytes of workspace a run of the plan needs, 64-byte aligned; 0 for TensorScatter.  It does not
   grow with the length of the cache.  Runs at the same time need a workspace each.  0 where plan is
   NULL.  Any thread. */
size_t kvmill_plan_workspace_size(const kvmill_plan *plan);

/* ---- Running ------------------------------------------------------------------------------ */

/* Run on the calling thread; any number of threads may run one plan at a time.  workspace: as many
   bytes as kvmill_plan_workspace_size says, at a multiple of 64; NULL where that is 0.  tensors: in
   the op's order, as many as its enumeration counts; an absent optional one is NULL.  In
   place: past_cache and present_cache are the same memory and strides.  Other overlaps of an output
   with anything are refused (KVMILL_E_ALIAS). */
kvmill_status kvmill_run(const kvmill_plan *plan, const DLTensor *const *tensors, void *workspace,
                         kvmill_error *error);

/* One run, split into parts for threads the caller owns, in one phase or several:

       kvmill_call call;                                     // on the stack; no destructor
       status = kvmill_begin (&call, plan, tensors, workspace, &error);   // validates everything
       do
           each part in [0, kvmill_parts (&call)), any thread, any order: kvmill_part (&call, part);
       while (kvmill_next (&call));                          // when all of these are done

   The result does not depend on who runs what.  The tensors and the workspace must stay valid until
   the end.  A call that kvmill_begin has refused, and one that has ended, has 0 parts, and
   kvmill_next gives 0; so has one that is all zeros.  kvmill_part does nothing where there is no
   such part.  A kvmill_call that was never begun, or a phase that is ended while parts run, cannot
   be told from a good one. */
typedef struct kvmill_call {
    uint64_t opaque[192];
} kvmill_call;

kvmill_status kvmill_begin(kvmill_call *call, const kvmill_plan *plan,
                           const DLTensor *const *tensors, void *workspace, kvmill_error *error);
int64_t kvmill_parts(const kvmill_call *call);
void kvmill_part(const kvmill_call *call, int64_t part);

/* End a phase: 0 when the run is done, not 0 when there are parts of another phase. */
int kvmill_next(kvmill_call *call);

/* A parallel loop of the caller's: call part (context, i) once for every i in [0, parts), then
   return.  data is the caller's own. */
typedef void (*kvmill_parallel_for)(void *data, int64_t parts,
                                    void (*part)(void *context, int64_t index), void *context);

/* kvmill_run over a caller's parallel loop.  kvmill_openmp.h has the same for OpenMP. */
kvmill_status kvmill_run_parallel(const kvmill_plan *plan, const DLTensor *const *tensors,
                                  void *workspace, kvmill_parallel_for parallel_for, void *data,
                                  kvmill_error *error);

/* ---- Sparse flows -------------------------------------------------------------------------- */

/* Attention over a paged cache that reads only some of the pages, as vFlow programs describe it
   (Infini-AI-Lab/vortex_torch).  A page has page_size slots; each page has, for each kv head,
   matrices beside K and V, its *fields*.  The cache program fills them from a page; the index
   program scores pages for a query; the best are attended to.  A *row* is a list of pages: one for
   each request and kv head (or as `scope` says). */

/* "k" and "v" are fields of every flow, [page_size, head_dim] of the cache's types. */
typedef struct kvmill_flow_field {
    const char *name; /* no other tensor's, as "cache" */
    int64_t rows, columns;
    DLDataType dtype; /* float32, float16, bfloat16 */
} kvmill_flow_field;

/* Numbers of the index program, [taps, rows, columns] in row-major order.  taps is 1, except
   for the weights of Conv1d. */
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
   Fill                        a; its output is a field
   Load Save                   a field's value of before the step; x into the field `output`
   topK                        select by x, [1, 1] for each page

   Those of the cache program: no Sum, Kron, Softmax, Normalize, Conv1d, Transpose, Load, Save, topK
   or dim 0; those of the index program: no Fill and no Interleave. */
typedef struct kvmill_flow_op {
    const char *op;
    const char *inputs[2];
    const char *output; /* a new name, or a field; NULL: topK */
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
} kvmill_flow;

/* A fraction in lowest terms. */
typedef struct kvmill_fraction {
    int64_t numerator, denominator;
} kvmill_fraction;

/* What a checked flow keeps for each page. */
typedef struct kvmill_flow_layout {
    size_t struct_size; /* sizeof (kvmill_flow_layout) */
    int64_t page_size, kv_heads, group;
    int64_t page_bytes;             /* of K, V and fields of a page and kv head, scales too */
    kvmill_fraction ratio_elements; /* elements of K, V and fields / (page_size * head_dim) */
    kvmill_fraction ratio_bytes;    /* page_bytes / bytes of K's elements */
    kvmill_fraction ratio_fields;   /* of that, the fields alone */
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

/* What a plan is made for, at most: its workspace has a few bytes for each page. */
typedef struct kvmill_flow_limits {
    size_t struct_size;  /* sizeof (kvmill_flow_limits) */
    int64_t batch;       /* requests of a call */
    int64_t pages;       /* of a request */
    int64_t cache_pages; /* of the cache; append alone looks at it */
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
   slot_mapping (T)           int64           row of the cache for each token, -1: not written;
                                              tokens of a page are neighbours, their rows ascend
   sel_indptr (B * R + 1)     int64           the list of row r of request b is [sel_indptr[b * R +
   sel                        int32             r], ...[... + 1]) of these: pages as the request
                                              counts them, the reserved first ones first, its last
                                              one last (or without it, where a page is one token);
                                              with a window they ascend
   block_ids                  int32           as vFlow has lists: page_ids[...] * KVH + kv head; of
                                              scope request that of head 0; optional
   fields                                     (pages, KVH, rows, columns) in the flow's order,
                                              row-major without gaps

   page_ids, sel and block_ids may be longer than what is used; integers are at multiples of their
   size and have no strides. */
enum {
    KVMILL_FLOW_SEQ_LEN = KVMILL_CACHE_ATTENTION_TENSORS,
    KVMILL_FLOW_PAGE_INDPTR,
    KVMILL_FLOW_PAGE_IDS,
    KVMILL_FLOW_SLOT_MAPPING,
    KVMILL_FLOW_SEL_INDPTR,
    KVMILL_FLOW_SEL,
    KVMILL_FLOW_BLOCK_IDS,
    KVMILL_FLOW_FIELDS /* and as many as the flow has */
};

/* Append: K and V of new tokens into their slots, then the fields of the pages they complete.
   Index:  score pages for the queries, select: sel_indptr, sel, block_ids are outputs.
   Attend: along lists that are given, or over all pages; of several tokens each sees those before
           it (prefill).  What it attends to is in the cache.
   Decode: index, then attend, without the lists; sel_indptr, sel, block_ids may be given as
   outputs.

   Index and decode move the state of fields that are saved.  The flow, its attention and all they
   point to are borrowed for the call.  Otherwise as kvmill_plan_tensor_scatter. */
kvmill_status kvmill_plan_flow_append(const kvmill_flow *flow, const kvmill_flow_limits *limits,
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

/* ---- CPU ---------------------------------------------------------------------------------- */

/* Name of the i-th instruction set kvmill generates for, worst first, or NULL after the last.  Any
   thread, as the next. */
const char *kvmill_isa_name(size_t i);

/* Whether this CPU (and operating system) runs it; unknown names, and NULL, give 0. */
int kvmill_isa_usable(const char *isa);

#ifdef __cplusplus
}
#endif
#endif
