/* CacheAttend: attention over a cache that the caller has filled.

   SPDX-License-Identifier: Apache-2.0 */
#include "arithmetic.h"
#include "format.h"
#include "op_tables.h"

/* ---- Attributes ---- */

static const char *const types[] = {"float32", "float16", "bfloat16", "int8",
                                    "int4",    "uint8",   "bool",     NULL};

#define MEMBER(NAME, KIND)                                                                         \
    .name = #NAME, .kind = (KIND), .offset = offsetof(kvmill_cache_attend, NAME), .ops = 1
static const struct op_member members[] = {
    {.name = "struct_size", .kind = OP_SIZE},
    {MEMBER(num_heads, OP_COUNT), .needed = 1, .help = "Query heads."},
    {MEMBER(num_kv_heads, OP_COUNT),
     .help = "Heads of key and value, a divisor of num_heads; 0: num_heads."},
    {MEMBER(key_head_dim, OP_COUNT), .needed = 1, .help = "Elements of a head of query and key."},
    {MEMBER(value_head_dim, OP_COUNT), .help = "Elements of a head of value; 0: key_head_dim."},
    {MEMBER(T1, OP_TYPE), .needed = 1, .words = types,
     .help = "Type of query: float32, float16, bfloat16."},
    {MEMBER(output_T1, OP_TYPE), .words = types,
     .help = "Type of attn_output: T1, which is the default, or float32."},
    {MEMBER(mask_T1, OP_TYPE), .words = types,
     .help = "Type of attn_mask: bool, float16, bfloat16, float32.  If it is left out, there is no "
             "mask."},
    {MEMBER(key_quant_bit, OP_COUNT), .help = "Bits of codes: 0, 8, 4."},
    {MEMBER(key_quant_group, OP_COUNT), .help = "Elements that share a scale."},
    {MEMBER(key_T2, OP_TYPE), .needed = 1, .of_rows = true,
     .help = "Type of the elements of key; with key_quant_bit 8 int8, with key_quant_bit 4 int4; "
             "with key_cache_format uint8."},
    {MEMBER(key_T3, OP_TYPE), .words = types,
     .help = "Type of scales: float32, float16, bfloat16."},
    {MEMBER(key_cache_format, OP_WORD), .words = kvmill_block_words,
     .help = "Blocks of llama.cpp."},
    {MEMBER(value_quant_bit, OP_COUNT), .help = "V's quant_bit."},
    {MEMBER(value_quant_group, OP_COUNT), .help = "V's quant_group."},
    {MEMBER(value_T2, OP_TYPE), .of_rows = true,
     .help = "V's T2; if it is left out, V has K's format."},
    {MEMBER(value_T3, OP_TYPE), .words = types, .help = "V's T3."},
    {MEMBER(value_cache_format, OP_WORD), .words = kvmill_block_words, .help = "V's cache_format."},
    {MEMBER(page_size, OP_COUNT), .initial = 128, .help = "Rows of a page."},
    {MEMBER(softmax_scale, OP_REAL), .help = "Factor of scores; 0: 1 / sqrt (key_head_dim)."},
    {MEMBER(softcap, OP_REAL), .help = "Scores become softcap * tanh (score / softcap); 0: none."},
    {MEMBER(math, OP_WORD), .words = kvmill_math_names, .help = "As in MultiHeadCacheAttention."},
    {MEMBER(is_causal, OP_FLAG), .help = "The query at position p sees positions 0 to p."},
    {MEMBER(left_window_size, OP_INTEGER), .initial = -1, .was = "window", .was_more = 1,
     .help = "How many positions before its own a query sees; -1: all.  Specs of version 0.1 have "
             "window instead, which also counts the query's own position; 0: all."},
    {MEMBER(right_window_size, OP_INTEGER), .initial = -1, .was = "right_window",
     .help = "How many positions after its own a query sees, if is_causal is false; -1: all.  "
             "Specs of version 0.1 have right_window instead."},
    {MEMBER(is_alibi, OP_FLAG),
     .help = "There are slopes: those of alibi_slopes, or computed ones."},
    {MEMBER(alibi_of_mask, OP_FLAG), .help = "Slopes multiply attn_mask."},
    {MEMBER(alibi_heads, OP_COUNT), .help = "Heads of the whole model; 0: num_heads."},
    {MEMBER(alibi_first, OP_COUNT), .help = "The first of these heads that is computed here."},
    {MEMBER(max_bias, OP_REAL), .help = "The exponent of computed slopes; 0: 8."},
    {MEMBER(mode, OP_WORD), .words = kvmill_mode_words,
     .help = "circular: the rows of a sequence, or of its list of pages, are a ring.  lengths may "
             "be larger than it; queries then see the last positions."},
};
#undef MEMBER

#define RANGE(NAME, LEAST, MOST)                                                                   \
    .name = #NAME, .offset = offsetof(kvmill_cache_attend, NAME), .ops = 1, .least = (LEAST),      \
    .most = (MOST)
static const struct op_range ranges[] = {
    {RANGE(num_heads, 1, OP_MOST_HEADS)},      {RANGE(num_kv_heads, 0, OP_MOST_HEADS)},
    {RANGE(key_head_dim, 1, OP_MOST_DIM)},     {RANGE(value_head_dim, 0, OP_MOST_DIM)},
    {RANGE(page_size, 1, INT32_MAX)},          {RANGE(left_window_size, -1, INT64_MAX)},
    {RANGE(right_window_size, -1, INT64_MAX)}, {RANGE(alibi_heads, 0, OP_MOST_HEADS)},
    {RANGE(alibi_first, 0, OP_MOST_HEADS)},
};

static const struct op_struct attributes = {
    .name = "kvmill_cache_attend",
    .size = sizeof(kvmill_cache_attend),
    OP_MEMBERS(members),
    OP_RANGES(ranges),
};

/* ---- Tensors ---- */

#define TENSOR(NAME, INDEX) .name = #NAME, .index = KVMILL_CACHE_ATTEND_##INDEX, .in = 1
#define NUMBERS             .type = "int64", .or_type = "int32"
static const struct op_tensor tensors[] = {
    {TENSOR(query, QUERY), .needed = 1, .rows = true, .type = "T1", .shape = "B S H D | N H D",
     .help = "Queries."},
    {TENSOR(key, KEY), .needed = 1, .rows = true, .type = "key_T2",
     .help = "Keys: (B, T, G, D), (C, G, D) or (pages, page_size, G, D)."},
    {TENSOR(value, VALUE), .needed = 1, .rows = true, .type = "value_T2",
     .help = "Values, in one of the same forms."},
    {TENSOR(key_scale, KEY_SCALE), .needed = 1, .when = {{"key_quant_bit"}}, .rows = true,
     .type = "key_T3", .help = "Scales of keys."},
    {TENSOR(value_scale, VALUE_SCALE), .needed = 1, .when = {{"value_quant_bit"}}, .rows = true,
     .type = "value_T3", .help = "Scales of values."},
    {TENSOR(query_starts, QUERY_STARTS), NUMBERS, .shape = "B+1",
     .help = "Where each sequence's queries begin."},
    {TENSOR(lengths, LENGTHS), NUMBERS, .shape = "B", .help = "Number of rows of each sequence."},
    {TENSOR(ranges, RANGES), NUMBERS, .shape = "N 2",
     .help = "First and end position that each query sees."},
    {TENSOR(page_ids, PAGE_IDS), NUMBERS, .shape = "P",
     .help = "The pages of each list, one list after another."},
    {TENSOR(page_starts, PAGE_STARTS), NUMBERS, .shape = "B+1 | B*G+1",
     .help = "Where the pages of each sequence, or of each kv head, begin."},
    {TENSOR(slots, SLOTS), NUMBERS, .shape = "M", .help = "Rows."},
    {TENSOR(slot_starts, SLOT_STARTS), NUMBERS, .shape = "B+1",
     .help = "Where each sequence's slots begin."},
    {TENSOR(positions, POSITIONS), NUMBERS, .shape = "N", .help = "Positions of queries."},
    {TENSOR(key_positions, KEY_POSITIONS), NUMBERS, .help = "Positions of the cache's rows."},
    {TENSOR(attn_mask, ATTN_MASK), .needed = 1, .when = {{"mask_T1"}}, .type = "mask_T1",
     .shape = "T | S T | H S T | B H S T",
     .help = "bool: whether a key is seen; numbers are added to scores."},
    {TENSOR(alibi_slopes, ALIBI_SLOPES), .when = {{"is_alibi"}}, .type = "float32", .shape = "H",
     .help = "Slopes of query heads."},
    OP_SINKS(KVMILL_CACHE_ATTEND_SINKS, 1),
    {OP_ATTN_OUTPUT(KVMILL_CACHE_ATTEND_ATTN_OUTPUT, 1, "output_T1", "output_T1"),
     .shape = "B S H E | N H E"},
    {OP_LSE(KVMILL_CACHE_ATTEND_LSE, 1), .optional = 1, .shape = "B S H | N H"},
};

const struct op kvmill_cache_attend_op = {
    .name = "CacheAttend",
    .family = OP_CACHE_ATTEND,
    .source = OP_OURS,
    .named = true,
    .parts = {&attributes},
    OP_TENSORS(tensors),
    .help = "Attend over keys and values that the caller stores, in any layout.",
};
