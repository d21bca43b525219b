/* TensorScatter.

   SPDX-License-Identifier: Apache-2.0 */
#include "op_tables.h"

static const char *const negative_words[] = {"refused", "floored", NULL};

#define MEMBER(NAME) .name = #NAME, .offset = offsetof(kvmill_tensor_scatter, NAME)
static const struct op_member scatter_members[] = {
    {MEMBER(struct_size), .kind = OP_SIZE},
    {MEMBER(axis), .kind = OP_AXIS, .ops = 1, .source = OP_ONNX, .always = true, .initial = -2,
     .help = "The dim of the cache that counts slots: -rank + 1 to -1, or 1 to rank - 1.  Dim 0 is "
             "the batch."},
    {MEMBER(mode), .kind = OP_WORD, .ops = 1, .source = OP_ONNX, .always = true,
     .words = kvmill_mode_words, .help = "circular: slots wrap around at the end of the cache."},
    {MEMBER(past_cache), .kind = OP_TENSOR},
    {MEMBER(update), .kind = OP_TENSOR},
    {MEMBER(write_indices), .kind = OP_TENSOR},
    {MEMBER(present_cache), .kind = OP_TENSOR},
    {MEMBER(negative_indices), .kind = OP_WORD, .ops = 1, .words = negative_words,
     .help =
         "For a ring.  floored: a negative write index counts modulo the capacity, as in np.mod.  "
         "ONNX allows no negative index, but its reference implementation counts in this way."},
};
#undef MEMBER

static const struct op_member scatter_types[] = {
    {.name = "dtype",
     .kind = OP_TYPE,
     .ops = 1,
     .needed = 1,
     .source = OP_ONNX,
     .always = true,
     .help = "Element type of past_cache, update and present_cache."},
};

static const struct op_struct scatter_struct = {
    .name = "kvmill_tensor_scatter",
    .size = sizeof(kvmill_tensor_scatter),
    OP_MEMBERS(scatter_members),
};
static const struct op_struct scatter_type_struct = {.size = sizeof(DLDataType),
                                                     OP_MEMBERS(scatter_types)};

static const struct op_tensor scatter_tensors[] = {
    {.name = "past_cache",
     .index = KVMILL_TENSOR_SCATTER_PAST_CACHE,
     .in = 1,
     .needed = 1,
     .type = "dtype",
     .help = "The cache, of rank 2 or more.  Dim axis is the capacity."},
    {.name = "update",
     .index = KVMILL_TENSOR_SCATTER_UPDATE,
     .in = 1,
     .needed = 1,
     .type = "dtype",
     .help = "New rows, shaped like past_cache except for dim axis, which counts them and is at "
             "most the capacity."},
    {.name = "write_indices",
     .index = KVMILL_TENSOR_SCATTER_WRITE_INDICES,
     .in = 1,
     .type = "int64",
     .shape = "B",
     .help = "The slot of each batch entry's first new row; default 0."},
    {.name = "present_cache",
     .index = KVMILL_TENSOR_SCATTER_PRESENT_CACHE,
     .out = 1,
     .type = "dtype",
     .help = "The cache afterwards."},
};

const struct op kvmill_tensor_scatter_op = {
    .name = "TensorScatter",
    .family = OP_TENSOR_SCATTER,
    .source = OP_ONNX,
    .parts = {&scatter_struct, &scatter_type_struct},
    OP_TENSORS(scatter_tensors),
    .help = "Write the rows of update into a copy of past_cache.",
};
