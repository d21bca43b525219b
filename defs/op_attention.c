/* ONNX Attention, and TensorScatter and Attention in one: TensorScatterAttention.

   SPDX-License-Identifier: Apache-2.0 */
#include "op_tables.h"

enum { ATTENTION = 1, STEP = 2, BOTH = ATTENTION | STEP };

/* ---- Attributes ---- */

#define MEMBER(NAME, KIND)                                                                         \
    .name = #NAME, .kind = (KIND), .offset = offsetof(kvmill_attention, NAME), .ops = BOTH,        \
    .source = OP_ONNX
#define TENSOR(NAME)                                                                               \
    { .name = #NAME, .kind = OP_TENSOR, .offset = offsetof(kvmill_attention, NAME) }
static const struct op_member members[] = {
    {.name = "struct_size", .kind = OP_SIZE},
    {MEMBER(opset, OP_INTEGER), .always = true, .initial = 25,
     .help = "The version of the standard that says what is valid."},
    {MEMBER(is_causal, OP_INTEGER), .help = "1: a query sees the keys up to its own position."},
    {MEMBER(q_num_heads, OP_INTEGER), .help = "Query heads; required for tensors of rank 3."},
    {MEMBER(kv_num_heads, OP_INTEGER), .help = "Heads of keys; required for tensors of rank 3."},
    /* The standard multiplies Q and K by the square root of scale, so scale cannot be negative.  It
       contradicts itself on a negative softcap: one place does not cap scores, and another does. */
    {MEMBER(scale, OP_REAL), .factor = true,
     .help = "Factor of scores; default 1 / sqrt (head size).  A scale of 0 is refused."},
    {MEMBER(softcap, OP_REAL), .factor = true,
     .help = "Scores become softcap * tanh (score / softcap); 0: none."},
    {MEMBER(softmax_precision, OP_INTEGER),
     .help = "1 float, 10 float16, 11 double, 16 bfloat16; at least float32 is used."},
    {MEMBER(qk_matmul_output_mode, OP_INTEGER),
     .help = "0: scaled products, 1: after softcap, 2: after masks, 3: softmax."},
    {MEMBER(left_window_size, OP_INTEGER), .since = 25, .initial = -1,
     .help = "How many positions before its own a query sees; -1: all."},
    {MEMBER(right_window_size, OP_INTEGER), .since = 25, .initial = -1,
     .help = "How many positions after its own a query sees; -1: all."},
    TENSOR(Q),
    TENSOR(K),
    TENSOR(V),
    TENSOR(attn_mask),
    TENSOR(past_key),
    TENSOR(past_value),
    TENSOR(nonpad_kv_seqlen),
    TENSOR(Y),
    TENSOR(present_key),
    TENSOR(present_value),
    TENSOR(qk_matmul_output),
};
#undef MEMBER

#define RANGE(NAME, OPS, LEAST, MOST)                                                              \
    .name = #NAME, .offset = offsetof(kvmill_attention, NAME), .ops = (OPS), .least = (LEAST),     \
    .most = (MOST)
static const struct op_range ranges[] = {
    {RANGE(opset, ATTENTION, 23, 25)},
    {RANGE(opset, STEP, 24, 25)},
    {RANGE(is_causal, BOTH, 0, 1)},
    {RANGE(qk_matmul_output_mode, BOTH, 0, 3)},
    {RANGE(q_num_heads, BOTH, 0, OP_MOST_HEADS)},
    {RANGE(kv_num_heads, BOTH, 0, OP_MOST_HEADS)},
    {RANGE(left_window_size, BOTH, -1, INT64_MAX)},
    {RANGE(right_window_size, BOTH, -1, INT64_MAX)},
};

static const struct op_struct attributes = {
    .name = "kvmill_attention",
    .size = sizeof(kvmill_attention),
    OP_MEMBERS(members),
    OP_RANGES(ranges),
};

static const char *const type_words[] = {"float32", "float16", "bfloat16", "float64", "bool",
                                         "int8",    "int16",   "int32",    "int64",   "uint8",
                                         "uint16",  "uint32",  "uint64",   NULL};
#define TYPE(NAME, AT)                                                                             \
    .name = #NAME, .kind = OP_TYPE, .offset = (AT) * sizeof(DLDataType), .ops = BOTH,              \
    .source = OP_ONNX, .words = type_words
static const struct op_member types[] = {
    {TYPE(T1, 0), .needed = BOTH,
     .help = "Type of Q, K and all tensors of the same type: float32, float16, bfloat16, float64."},
    {TYPE(T2, 1), .help = "Type of V: one of these; default T1."},
    {TYPE(U, 2), .help = "Type of attn_mask: one of these, bool, or an integer type; default T1."},
};
#undef TYPE
static const struct op_struct type_struct = {.size = 3 * sizeof(DLDataType), OP_MEMBERS(types)};

#define MEMBER(NAME) .name = #NAME, .offset = offsetof(kvmill_tensor_scatter_attention, NAME)
static const struct op_member step_members[] = {
    {MEMBER(struct_size), .kind = OP_SIZE},
    {MEMBER(attention), .kind = OP_POINTER},
    {MEMBER(mode), .kind = OP_WORD, .ops = STEP, .source = OP_ONNX, .always = true,
     .words = kvmill_mode_words, .help = "circular: slots wrap around at the end of the caches."},
    {MEMBER(write_indices), .kind = OP_TENSOR},
};
const struct op_struct kvmill_step_struct = {
    .name = "kvmill_tensor_scatter_attention",
    .size = sizeof(kvmill_tensor_scatter_attention),
    OP_MEMBERS(step_members),
};

/* ---- Tensors ---- */

static const char dims[] = "B is the batch size, S the number of new queries, N that of new keys, "
                           "P that of past keys, T = P + N, H that of query heads, G that of kv "
                           "heads, D and E those of elements of a key and of a value:";

static const struct op_tensor tensors[] = {
    {.name = "Q",
     .index = KVMILL_ATTENTION_Q,
     .in = BOTH,
     .needed = BOTH,
     .rows = true,
     .type = "T1",
     .shape = "B H S D | B S H*D",
     .help = "Queries."},
    {.name = "K",
     .index = KVMILL_ATTENTION_K,
     .in = BOTH,
     .needed = BOTH,
     .rows = true,
     .type = "T1",
     .shape = "B G N D | B N G*D",
     .help = "New keys."},
    {.name = "V",
     .index = KVMILL_ATTENTION_V,
     .in = BOTH,
     .needed = BOTH,
     .rows = true,
     .type = "T2",
     .shape = "B G N E | B N G*E",
     .help = "New values."},
    {.name = "attn_mask",
     .index = KVMILL_ATTENTION_ATTN_MASK,
     .in = BOTH,
     .type = "U",
     .shape = "B H S T | H S T | S T | T",
     .help = "bool: whether a key is seen; numbers are added to scores.  All dims except the last "
             "may be 1; from opset 24 on, the last may be less than T."},
    {.name = "past_key",
     .index = KVMILL_ATTENTION_PAST_KEY,
     .in = BOTH,
     .needed = STEP,
     .rows = true,
     .type = "T1",
     .shape = "B G P D | B P G*D",
     .help = "Past keys; for a step, the cache."},
    {.name = "past_value",
     .index = KVMILL_ATTENTION_PAST_VALUE,
     .in = BOTH,
     .needed = STEP,
     .rows = true,
     .type = "T2",
     .shape = "B G P E | B P G*E",
     .help = "Past values; for a step, the cache."},
    {.name = "nonpad_kv_seqlen",
     .index = KVMILL_ATTENTION_NONPAD_KV_SEQLEN,
     .in = BOTH,
     .type = "int64",
     .shape = "B",
     .help = "Number of valid keys of each batch entry; from opset 24 on."},
    {.name = "Y",
     .index = KVMILL_ATTENTION_Y,
     .out = BOTH,
     .rows = true,
     .type = "T1",
     .shape = "B H S E | B S H*E",
     .help = "The result."},
    {.name = "present_key",
     .index = KVMILL_ATTENTION_PRESENT_KEY,
     .out = BOTH,
     .optional = ATTENTION,
     .rows = true,
     .type = "T1",
     .shape = "B G T D | B T G*D",
     .help = "Past and new keys."},
    {.name = "present_value",
     .index = KVMILL_ATTENTION_PRESENT_VALUE,
     .out = BOTH,
     .optional = ATTENTION,
     .rows = true,
     .type = "T2",
     .shape = "B G T E | B T G*E",
     .help = "Past and new values."},
    {.name = "qk_matmul_output",
     .index = KVMILL_ATTENTION_QK_MATMUL_OUTPUT,
     .out = ATTENTION,
     .optional = ATTENTION,
     .rows = true,
     .type = "T1",
     .shape = "B H S T",
     .help = "Scores."},
    {.name = "write_indices",
     .index = KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES,
     .in = STEP,
     .type = "int64",
     .shape = "B",
     .help = "The slot of each batch entry's first new row; default 0."},
};

/* ---- The ops ---- */

const struct op kvmill_attention_ops[] = {
    {.name = "Attention",
     .family = OP_ATTENTION,
     .number = 0,
     .source = OP_ONNX,
     .parts = {&attributes, &type_struct},
     OP_TENSORS(tensors),
     .dims = dims,
     .help = "ONNX Attention of opset 23, 24 or 25."},
    {.name = "TensorScatterAttention",
     .family = OP_ATTENTION,
     .number = 1,
     .source = OP_OURS,
     .parts = {&attributes, &type_struct, &kvmill_step_struct},
     OP_TENSORS(tensors),
     .dims = dims,
     .help = "TensorScatter of K and V, then Attention, in one plan."},
};
