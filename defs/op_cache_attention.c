/* PMX cache attention: KeyValueCache, MultiHeadAttention, MultiHeadCacheAttention, and the same
   with dynamic batching.

   SPDX-License-Identifier: Apache-2.0 */
#include "arithmetic.h"
#include "format.h"
#include "op_tables.h"

/* By enum kvmill_cache_op; then the same with dynamic batching. */
enum {
    STATIC = 7,
    DYNAMIC = STATIC << 3,
    CACHE = 1 | 1 << 3,  /* KeyValueCache */
    INPUTS = 2 | 2 << 3, /* MultiHeadAttention */
    FUSED = 4 | 4 << 3,  /* MultiHeadCacheAttention */
    STORE = CACHE | FUSED,
    SCORES = INPUTS | FUSED,
    ALL = STATIC | DYNAMIC
};

/* ---- Attributes ---- */

#define MEMBER(NAME, KIND, OPS)                                                                    \
    .name = #NAME, .kind = (KIND), .offset = offsetof(kvmill_cache_attention, NAME), .ops = (OPS)
#define PMX .source = OP_PMX, .always = true
#define V   .with = "value_differs"
static const struct op_member members[] = {
    {MEMBER(struct_size, OP_SIZE, 0)},
    {MEMBER(dynamic_batching, OP_FLAG, 0)},
    {MEMBER(num_heads, OP_COUNT, SCORES), PMX, .needed = SCORES, .help = "Query heads."},
    {MEMBER(head_dim, OP_COUNT, ALL), PMX, .needed = SCORES, .ours = CACHE,
     .help = "Elements of a head.  In run, KeyValueCache takes it from its inputs."},
    {MEMBER(is_causal, OP_FLAG, SCORES), PMX, .initial = 1,
     .help = "The query at position p sees positions 0 to p."},
    {MEMBER(is_alibi, OP_FLAG, SCORES), PMX,
     .help = "ALiBi: adds slope * (j - p) to the score of the query at position p and the key at "
             "position j.  Beware: as in PMX, this masks later keys even if is_causal is false."},
    {MEMBER(num_kv_heads, OP_COUNT, ALL), PMX, .ours = CACHE,
     .help = "Heads of K and V, a divisor of num_heads; 0: num_heads.  In run, KeyValueCache takes "
             "it from its inputs."},
    {MEMBER(num_layer, OP_COUNT, STORE), PMX, .initial = 1,
     .help = "Layers of the cache.  If it is left out, run takes it from the cache's shape."},
    {MEMBER(layer_idx, OP_COUNT, STORE), PMX, .help = "The layer of the cache that this op uses."},
    {MEMBER(quant_bit, OP_COUNT, STORE), PMX,
     .help = "Bits of a quantised cache's codes: 0, 8 or 4.  PMX names int4 but does not define "
             "it; in kvmill it is quantised like int8, but to -7 ... 7, in two's complement, with "
             "element 2i in the low half of byte i.  kvmill(3) has the formulas."},
    {MEMBER(quant_group, OP_COUNT, STORE), PMX, .initial = 8,
     .help = "Elements that share a scale: a divisor of head_dim; with quant_bit 4, an even one."},
    {MEMBER(cache_layout, OP_COUNT, STORE), PMX,
     .help = "Order of the cache's dims: 0 or 1; with dynamic batching 0 to 3, with pages 0 to 4."},
    {MEMBER(cache_mode, OP_COUNT, (STORE & DYNAMIC)), PMX, .help = "0: offsets, 1: pages."},
    {MEMBER(page_size, OP_COUNT, (STORE & DYNAMIC)), PMX, .initial = 128,
     .help = "Slots of a page."},
    {MEMBER(num_repeat, OP_COUNT, CACHE), PMX, .initial = 1,
     .help = "How many times each head is read back."},
    {MEMBER(T1, OP_TYPE, ALL), PMX, .needed = ALL, .of_rows = true,
     .help = "Type of activations: float32, float16, bfloat16.  KeyValueCache also takes int8, and "
             "copies the codes."},
    {MEMBER(T2, OP_TYPE, STORE), PMX, .of_rows = true,
     .help = "Type of the cache's elements.  Default: T1; with quant_bit 8 int8, with quant_bit 4 "
             "int4; with a cache_format of blocks uint8."},
    {MEMBER(T3, OP_TYPE, STORE), PMX, .of_rows = true,
     .help = "Type of scales: float32, float16, bfloat16.  Default: float16, but float32 if T1 is "
             "float32.  Every step of quantising uses the arithmetic of T1; then the scale is "
             "rounded to T3.  With T1 float32 and T3 float16, it loses up to 2^-11 of its value, "
             "or up to 0.3 % if it is below 2^-14; see scale_overflow for scales above 65504."},
    {MEMBER(softmax_scale, OP_REAL, SCORES), .help = "Factor of scores; 0: 1 / sqrt (head_dim)."},
    {MEMBER(left_window_size, OP_INTEGER, SCORES), .initial = -1, .was = "window", .was_more = 1,
     .help = "How many positions before its own a query sees; -1: all.  Specs of version 0.1 have "
             "window instead, which also counts the query's own position; 0: all."},
    {MEMBER(softcap, OP_REAL, SCORES),
     .help = "Scores become softcap * tanh (score / softcap) before any mask; 0: none."},
    {MEMBER(math, OP_WORD, SCORES), .words = kvmill_math_names,
     .help = "f32, the default: errors are those of sums in float32.  near: integer arithmetic; "
             "for usual data, errors are below 5e-4 of the largest output.  fast: float16, too; "
             "errors are below 8e-3.  kvmill(3), Errors of attention, has bounds for all data.  "
             "The choice is part of the plan and "
             "of the kernels' names; kvmill never switches by itself.  If there is no faster "
             "kernel for a fast plan, one for f32 is used."},
    {MEMBER(partial, OP_FLAG, SCORES), .help = "attn_output is float32, and lse is an output, so "
                                               "that results for parts of the keys can be merged."},
    {MEMBER(empty_is_nan, OP_FLAG, SCORES),
     .help = "A query that sees nothing gives NaN, as in PMX's reference, instead of 0."},
    {MEMBER(alibi_heads, OP_COUNT, SCORES), .help = "Heads of the whole model; 0: num_heads."},
    {MEMBER(alibi_first, OP_COUNT, SCORES),
     .help = "The first of these heads that is computed here."},
    {MEMBER(alibi_scale, OP_REAL, SCORES), .help = "Factor of all slopes; 0: 1."},
    {MEMBER(cache_format, OP_WORD, STORE), .words = kvmill_key_words,
     .help =
         "Rows are llama.cpp's blocks of 32 elements; the last dim counts their bytes, and "
         "there is no scale.  q8_kv: a row has one scale and the sum of its codes, then the "
         "codes.  tiles: the codes of quant_bit 8 or 4 are in the order in which kernels "
         "multiply them, a layout of kvmill's own.  transposed: keys of quant_bit 0 in pages, of "
         "which each has its keys as [head_dim, page_size]; values are as without it."},
    {MEMBER(mode, OP_WORD, STORE), .words = kvmill_mode_words,
     .help = "circular: the slots of a sequence are a ring, and a query sees at most the positions "
             "that are in it; see kvmill(3)."},
    {MEMBER(capacity, OP_COUNT, (STORE & DYNAMIC)),
     .help = "Slots of each sequence's ring if cache_mode is 0; with pages, the ring is the whole "
             "list of pages."},
    {MEMBER(value_differs, OP_FLAG, 0)},
    {MEMBER(value_head_dim, OP_COUNT, ALL), V, .help = "V's head_dim; default: K's."},
    {MEMBER(value_quant_bit, OP_COUNT, STORE), V, .help = "V's quant_bit."},
    {MEMBER(value_quant_group, OP_COUNT, STORE), V, .help = "V's quant_group; default: K's."},
    {MEMBER(value_T2, OP_TYPE, STORE), V, .of_rows = true, .help = "V's T2."},
    {MEMBER(value_T3, OP_TYPE, STORE), V, .of_rows = true, .help = "V's T3; default: K's."},
    {MEMBER(value_cache_format, OP_WORD, STORE), V, .words = kvmill_stored_words,
     .help = "V's cache_format."},
    {MEMBER(value_view, OP_FLAG, FUSED), V,
     .help = "V is the first value_head_dim elements of K's rows (latent attention).  There is no "
             "current_value, value_cache or value_scale, and V has K's format."},
    {MEMBER(scale_overflow, OP_WORD, STORE), .words = kvmill_infinite_words,
     .help =
         "What becomes of a group whose scale T3 cannot hold (T1 float32 or bfloat16, T3 "
         "float16, a scale from 65520 on).  infinite: as in PMX, the scale is infinite, and the "
         "group is read back as infinity or NaN.  saturate: the scale is 65504, and the codes "
         "are the nearest for it.  With quant_bit."},
    {.name = "attn_mask",
     .kind = OP_OWN,
     .ops = SCORES,
     .help = "Whether to make kernels for calls with an attn_mask, too; a truth value, default "
             "true.  Calls without one have kernels of their own, which are faster."},
};
#undef MEMBER
#undef PMX
#undef V

#define RANGE(NAME, OPS, LEAST, MOST)                                                              \
    .name = #NAME, .offset = offsetof(kvmill_cache_attention, NAME), .ops = (OPS),                 \
    .least = (LEAST), .most = (MOST)
static const struct op_range ranges[] = {
    {RANGE(num_heads, SCORES, 1, OP_MOST_HEADS)},
    {RANGE(head_dim, ALL, 1, OP_MOST_DIM)},
    {RANGE(num_kv_heads, SCORES, 0, OP_MOST_HEADS)},
    {RANGE(num_kv_heads, CACHE, 1, OP_MOST_HEADS)},
    {RANGE(num_layer, STORE, 1, INT64_MAX)},
    {RANGE(layer_idx, STORE, 0, 0), .below = "num_layer"},
    {RANGE(cache_layout, (STORE & STATIC), 0, 1)},
    {RANGE(cache_mode, (STORE & DYNAMIC), 0, 1)},
    {RANGE(cache_layout, (STORE & DYNAMIC), 0, 4), .when = {{"cache_mode"}}},
    {RANGE(cache_layout, (STORE & DYNAMIC), 0, 3), .when = {{"!cache_mode"}}},
    {RANGE(page_size, (STORE & DYNAMIC), 1, INT64_MAX), .when = {{"cache_mode"}}},
    {RANGE(num_repeat, CACHE, 1, OP_MOST_HEADS)},
    {RANGE(left_window_size, SCORES, -1, INT64_MAX)},
    {RANGE(value_head_dim, ALL, 0, OP_MOST_DIM), .when = {{"value_differs"}}},
};

const struct op_struct kvmill_cache_attention_attributes = {
    .name = "kvmill_cache_attention",
    .size = sizeof(kvmill_cache_attention),
    OP_MEMBERS(members),
    OP_RANGES(ranges),
};

/* ---- Tensors ---- */

static const char dims[] =
    "B is the number of sequences, S that of new tokens of a sequence, P that of its positions, T "
    "and Q those of all sequences together, H that of query heads, KVH that of kv heads, D and E "
    "those of elements of a key and of a value, and R is num_repeat:";

/* Inputs in the order of PMX's signatures. */
static const struct op_tensor tensors[] = {
    {.name = "query",
     .index = KVMILL_CACHE_ATTENTION_QUERY,
     .in = SCORES,
     .needed = SCORES,
     .rows = true,
     .type = "T1",
     .shape = "B S H D",
     .dynamic_shape = "T H D",
     .help = "New queries."},
    {.name = "current_key",
     .index = KVMILL_CACHE_ATTENTION_CURRENT_KEY,
     .in = STORE,
     .needed = STORE,
     .rows = true,
     .type = "T1",
     .shape = "B S KVH D",
     .dynamic_shape = "T KVH D",
     .help = "New keys."},
    {.name = "current_value",
     .index = KVMILL_CACHE_ATTENTION_CURRENT_VALUE,
     .in = STORE,
     .needed = STORE,
     .when = {{"!value_view"}},
     .rows = true,
     .type = "T1",
     .shape = "B S KVH E",
     .dynamic_shape = "T KVH E",
     .help = "New values."},
    {.name = "key",
     .index = KVMILL_CACHE_ATTENTION_KEY,
     .in = INPUTS,
     .needed = INPUTS,
     .out = CACHE,
     .rows = true,
     .type = "T1",
     .shape = "B P KVH*R D",
     .dynamic_shape = "Q KVH*R D",
     .help = "Keys that are attended to, or read back."},
    {.name = "value",
     .index = KVMILL_CACHE_ATTENTION_VALUE,
     .in = INPUTS,
     .needed = INPUTS,
     .out = CACHE,
     .rows = true,
     .type = "T1",
     .shape = "B P KVH*R E",
     .dynamic_shape = "Q KVH*R E",
     .help = "Values that are attended to, or read back."},
    {.name = "seqstarts",
     .index = KVMILL_CACHE_ATTENTION_SEQSTARTS,
     .in = DYNAMIC,
     .needed = DYNAMIC,
     .type = "int64",
     .shape = "B+1",
     .help = "Where each sequence's new tokens begin."},
    {.name = "kvstarts",
     .index = KVMILL_CACHE_ATTENTION_KVSTARTS,
     .in = DYNAMIC,
     .needed = DYNAMIC,
     .type = "int64",
     .shape = "B+1",
     .help = "Where each sequence's positions begin."},
    {.name = "cachestarts",
     .index = KVMILL_CACHE_ATTENTION_CACHESTARTS,
     .in = STORE & DYNAMIC,
     .needed = STORE & DYNAMIC,
     .type = "int64",
     .help = "The first slot of each sequence, or with cache_mode 1 of each of its pages."},
    {.name = "start_pos",
     .index = KVMILL_CACHE_ATTENTION_START_POS,
     .in = STORE,
     .needed = STORE,
     .type = "int64",
     .shape = "1 | ",
     .dynamic_shape = "B",
     .help = "Number of positions before the new tokens."},
    {.name = "decoding_batches",
     .index = KVMILL_CACHE_ATTENTION_DECODING_BATCHES,
     .in = SCORES & DYNAMIC,
     .needed = SCORES & DYNAMIC,
     .type = "int64",
     .shape = "1 | ",
     .help = "Number of sequences that have one new token; these come first."},
    {.name = "max_seqlen",
     .index = KVMILL_CACHE_ATTENTION_MAX_SEQLEN,
     .in = DYNAMIC,
     .needed = DYNAMIC,
     .hint = true,
     .type = "int64",
     .shape = "1 | ",
     .help = "Largest number of new tokens of a sequence."},
    {.name = "max_kvlen",
     .index = KVMILL_CACHE_ATTENTION_MAX_KVLEN,
     .in = DYNAMIC,
     .needed = DYNAMIC,
     .hint = true,
     .type = "int64",
     .shape = "1 | ",
     .help = "Largest number of positions of a sequence."},
    OP_CACHES(STORE, STORE),
    {.name = "attn_mask",
     .index = KVMILL_CACHE_ATTENTION_ATTN_MASK,
     .in = SCORES,
     .rows = true,
     .empty_is_absent = true,
     .padded = true,
     .type = "T1",
     .shape = "S P | H S P | B H S P | 1 H S P",
     .dynamic_shape = "T Q | H T Q",
     .help = "Added to scores; its last dim may be longer."},
    OP_SINKS(KVMILL_CACHE_ATTENTION_SINKS, SCORES),
    {OP_ATTN_OUTPUT(KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, SCORES, "float32", "partial"),
     .shape = "B S H E", .dynamic_shape = "T H E"},
    {OP_LSE(KVMILL_CACHE_ATTENTION_LSE, SCORES), .when = {{"partial"}}, .shape = "B S H",
     .dynamic_shape = "T H"},
};

/* ---- The ops ---- */

#define CACHE_OP(NAME, NUMBER, HELP)                                                               \
    {                                                                                              \
        .name = (NAME), .family = OP_CACHE_ATTENTION, .number = (NUMBER), .dynamic = (NUMBER) > 2, \
        .source = OP_PMX, .named = true, .parts = {&kvmill_cache_attention_attributes},            \
        OP_TENSORS(tensors), .dims = dims, .help = (HELP)                                          \
    }
const struct op kvmill_cache_attention_ops[] = {
    CACHE_OP("KeyValueCache", 0, "Store new keys and values and read the cache back."),
    CACHE_OP("MultiHeadAttention", 1, "Attend over keys and values that are given."),
    CACHE_OP("MultiHeadCacheAttention", 2, "Store, and attend over what is then in the cache."),
    CACHE_OP("dynamic_batching.KeyValueCache", 3, "KeyValueCache of sequences of any lengths."),
    CACHE_OP("dynamic_batching.MultiHeadAttention", 4,
             "MultiHeadAttention of sequences of any lengths."),
    CACHE_OP("dynamic_batching.MultiHeadCacheAttention", 5,
             "MultiHeadCacheAttention of sequences of any lengths."),
};
