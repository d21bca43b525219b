/* WriteRows: stores rows in the slots of a cache that the caller lists.

   SPDX-License-Identifier: Apache-2.0 */
#include "format.h"
#include "op_tables.h"

/* ---- Attributes ---- */

static const char *const activations[] = {"float32", "float16", "bfloat16", NULL};

#define MEMBER(NAME, KIND)                                                                         \
    .name = #NAME, .kind = (KIND), .offset = offsetof(kvmill_write_rows, NAME), .ops = 1
static const struct op_member members[] = {
    {.name = "struct_size", .kind = OP_SIZE},
    {MEMBER(head_dim, OP_COUNT), .needed = 1, .help = "Elements of a head of a row."},
    {MEMBER(T1, OP_TYPE), .needed = 1, .words = activations,
     .help = "Type of rows: float32, float16, bfloat16."},
    {MEMBER(quant_bit, OP_COUNT), .help = "Bits of codes: 0, 8, 4."},
    {MEMBER(quant_group, OP_COUNT), .help = "Elements that share a scale."},
    {MEMBER(T2, OP_TYPE), .needed = 1, .of_rows = true,
     .help = "Type of the elements of cache; with quant_bit 8 int8, with quant_bit 4 int4; with "
             "cache_format uint8."},
    {MEMBER(T3, OP_TYPE), .words = activations,
     .help = "Type of scales: float32, float16, bfloat16."},
    {MEMBER(cache_format, OP_WORD), .words = kvmill_block_words, .help = "Blocks of llama.cpp."},
    {MEMBER(scale_overflow, OP_WORD), .words = kvmill_saturate_words,
     .help = "What becomes of a scale that T3 cannot hold, as in KeyValueCache."},
};
#undef MEMBER

static const struct op_range ranges[] = {
    {.name = "head_dim",
     .offset = offsetof(kvmill_write_rows, head_dim),
     .ops = 1,
     .least = 1,
     .most = OP_MOST_DIM},
};

static const struct op_struct attributes = {
    .name = "kvmill_write_rows",
    .size = sizeof(kvmill_write_rows),
    OP_MEMBERS(members),
    OP_RANGES(ranges),
};

/* ---- Tensors ---- */

#define TENSOR(NAME, INDEX) .name = #NAME, .index = KVMILL_WRITE_ROWS_##INDEX, .in = 1, .needed = 1
static const struct op_tensor tensors[] = {
    {TENSOR(rows, ROWS), .rows = true, .type = "T1", .shape = "N H D", .help = "Rows."},
    {TENSOR(slots, SLOTS), .type = "int64", .or_type = "int32", .shape = "N",
     .help = "The row of the cache in which each row is stored; -1: none."},
    {TENSOR(cache, CACHE), .out = 1, .rows = true, .type = "T2",
     .help = "The cache, (C, H, D); the format determines the last dim."},
    {TENSOR(scale, SCALE), .out = 1, .when = {{"quant_bit"}}, .rows = true, .type = "T3",
     .help = "Scales, (C, H, D / quant_group)."},
};

const struct op kvmill_write_rows_op = {
    .name = "WriteRows",
    .family = OP_WRITE_ROWS,
    .source = OP_OURS,
    .parts = {&attributes},
    OP_TENSORS(tensors),
    .help = "Store rows in the slots of a cache that the tensor slots lists.",
};
