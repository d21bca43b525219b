/* The descriptions of ops, for the registry.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_DEFS_OP_TABLES_H
#define KVMILL_DEFS_OP_TABLES_H

#include "op.h"

#define OP_MEMBERS(TABLE) .members = (TABLE), .member_count = sizeof(TABLE) / sizeof *(TABLE)
#define OP_RANGES(TABLE)  .ranges = (TABLE), .range_count = sizeof(TABLE) / sizeof *(TABLE)
#define OP_TENSORS(TABLE) .tensors = (TABLE), .tensor_count = sizeof(TABLE) / sizeof *(TABLE)

/* Rows that are kept: keys and values, or those of K alone and of V; with their scales. */
#define OP_ROWS(TAKES, GIVES, TYPE)                                                                \
    .in = (TAKES), .needed = (TAKES), .out = (GIVES), .rows = true, .type = (TYPE)
#define OP_CACHES(TAKES, GIVES)                                                                    \
    {.name = "cache",                                                                              \
     .index = KVMILL_CACHE_ATTENTION_CACHE,                                                        \
     OP_ROWS(TAKES, GIVES, "T2"),                                                                  \
     .help = "Keys and values, as cache_layout orders them."},                                     \
        {.name = "scale",                                                                          \
         .index = KVMILL_CACHE_ATTENTION_SCALE,                                                    \
         OP_ROWS(TAKES, GIVES, "T3"),                                                              \
         .used = {{"quant_bit"}},                                                                  \
         .help = "Scales, shaped like cache except for the last dim: one scale for each "          \
                 "quant_group elements."},                                                         \
        {.name = "value_cache",                                                                    \
         .index = KVMILL_CACHE_ATTENTION_VALUE_CACHE,                                              \
         OP_ROWS(TAKES, GIVES, "value_T2"),                                                        \
         .ours = true,                                                                             \
         .when = {{"value_differs", "!value_view"}},                                               \
         .help = "Values only."},                                                                  \
    {                                                                                              \
        .name = "value_scale", .index = KVMILL_CACHE_ATTENTION_VALUE_SCALE,                        \
        OP_ROWS(TAKES, GIVES, "value_T3"), .ours = true,                                           \
        .when = {{"value_differs", "!value_view"}}, .used = {{"value_quant_bit"}},                 \
        .help = "Scales of value_cache."                                                           \
    }

/* Tensors that everything that attends describes alike. */
#define OP_SINKS(INDEX, OPS)                                                                       \
    {                                                                                              \
        .name = "sinks", .index = (INDEX), .in = (OPS), .ours = true, .type = "T1",                \
        .or_type = "float32", .shape = "H", .help = "A score for each head, without a value."      \
    }
#define OP_ATTN_OUTPUT(INDEX, OPS, WIDE_TYPE, WIDE_WHEN)                                           \
    .name = "attn_output", .index = (INDEX), .out = (OPS), .rows = true, .type = "T1",             \
    .wide_type = (WIDE_TYPE), .wide_when = {{WIDE_WHEN}}, .help = "The result."
#define OP_LSE(INDEX, OPS)                                                                         \
    .name = "lse", .index = (INDEX), .out = (OPS), .ours = true, .type = "float32",                \
    .help = "Logarithms of the sums of exp (score)."

extern const char *const kvmill_mode_words[]; /* of slots: linear, circular */

/* What becomes of scales that their type cannot hold, as in PMX, and as in kvmill's own ops. */
extern const char *const kvmill_infinite_words[], *const kvmill_saturate_words[];

extern const struct op_struct kvmill_cache_attention_attributes;
extern const struct op kvmill_cache_attention_ops[]; /* by enum kvmill_cache_op; then dynamic */
extern const struct op kvmill_attention_ops[];       /* Attention, TensorScatterAttention */
extern const struct op kvmill_gather_op, kvmill_scatter_op, kvmill_flow_op_def;
extern const struct op kvmill_tensor_scatter_op, kvmill_cache_attend_op, kvmill_write_rows_op;

/* What an op adds to another's: TensorScatterAttention's own. */
extern const struct op_struct kvmill_step_struct;

/* Structs that callers fill, and that are no op's. */
extern const struct op_struct kvmill_plan_options_struct, kvmill_pool_options_struct,
    kvmill_flow_layout_struct, kvmill_flow_limits_struct;

#endif
