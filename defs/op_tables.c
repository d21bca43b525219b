/* SPDX-License-Identifier: Apache-2.0 */
#include "op.h"

#include <string.h>

#include "dtype.h"
#include "op_tables.h"

/* ---- TensorScatter ---- */

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

const char *const kvmill_mode_words[] = {"linear", "circular", NULL};
const char *const kvmill_infinite_words[] = {"infinite", "saturate", NULL};
const char *const kvmill_saturate_words[] = {"saturate", "infinite", NULL};

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

static const struct op tensor_scatter = {
    .name = "TensorScatter",
    .family = OP_TENSOR_SCATTER,
    .source = OP_ONNX,
    .parts = {&scatter_struct, &scatter_type_struct},
    OP_TENSORS(scatter_tensors),
    .help = "Write the rows of update into a copy of past_cache.",
};

/* ---- Structs that are no op's ---- */

#define SIZE_ALONE(NAME) .name = #NAME, .size = sizeof(NAME)
const struct op_struct kvmill_plan_options_struct = {SIZE_ALONE(kvmill_plan_options)};
const struct op_struct kvmill_pool_options_struct = {SIZE_ALONE(kvmill_pool_options)};
const struct op_struct kvmill_flow_layout_struct = {SIZE_ALONE(kvmill_flow_layout)};
const struct op_struct kvmill_flow_limits_struct = {SIZE_ALONE(kvmill_flow_limits)};

/* ---- The registry ---- */

const struct op *const kvmill_ops[] = {
    &tensor_scatter,
    &kvmill_cache_attention_ops[0],
    &kvmill_cache_attention_ops[1],
    &kvmill_cache_attention_ops[2],
    &kvmill_cache_attention_ops[3],
    &kvmill_cache_attention_ops[4],
    &kvmill_cache_attention_ops[5],
    &kvmill_gather_op,
    &kvmill_scatter_op,
    &kvmill_flow_op_def,
    &kvmill_attention_ops[0],
    &kvmill_attention_ops[1],
    &kvmill_cache_attend_op,
    &kvmill_write_rows_op,
    NULL,
};

const struct op *kvmill_op_by_name(const char *name) {
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        if (strcmp(kvmill_ops[i]->name, name) == 0)
            return kvmill_ops[i];
    return NULL;
}

const struct op *kvmill_op_of(enum op_family family, int number) {
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        if (kvmill_ops[i]->family == family && kvmill_ops[i]->number == number)
            return kvmill_ops[i];
    return NULL;
}

/* ---- Tensors ---- */

enum op_presence kvmill_op_presence(const struct op *op, const void *base,
                                    const struct op_tensor *tensor) {
    op_set bit = kvmill_op_bit(op), gives = tensor->out & ~tensor->in & ~tensor->optional;
    if (((tensor->in | tensor->out) & bit) == 0)
        return OP_ABSENT;
    if (!kvmill_op_holds(op->parts[0], base, &tensor->when))
        return OP_ABSENT;
    if (!kvmill_op_holds(op->parts[0], base, &tensor->used))
        return OP_IGNORED;
    return (tensor->needed | gives) & bit ? OP_REQUIRED : OP_OPTIONAL;
}

bool kvmill_op_gives(const struct op *op, const void *base, const struct op_tensor *tensor) {
    return (tensor->out & kvmill_op_bit(op)) != 0 &&
           kvmill_op_holds(op->parts[0], base, &tensor->when) &&
           kvmill_op_holds(op->parts[0], base, &tensor->used);
}

const struct op_tensor *kvmill_op_source_tensor(const struct op *op, bool out, int i) {
    for (int t = 0; t < op->tensor_count; t++) {
        const struct op_tensor *tensor = &op->tensors[t];
        op_set ops = out ? tensor->out & ~tensor->in : tensor->in;
        if (!tensor->ours && (ops & kvmill_op_bit(op)) != 0 && i-- == 0)
            return tensor;
    }
    return NULL;
}

bool kvmill_op_source_needs(const struct op *op, const struct op_tensor *tensor) {
    return (tensor->needed & kvmill_op_bit(op)) != 0 && tensor->used.names[0] == NULL;
}

bool kvmill_op_source_has(const struct op *op, const struct op_member *member) {
    op_set ops = member->ops & ~member->ours;
    return ops & kvmill_op_bit(op) && member->source == op->source && member->kind != OP_TYPE;
}

const struct op_struct *kvmill_op_types(const struct op *op) {
    for (int i = 0; i < OP_PARTS && op->parts[i] != NULL; i++)
        if (op->parts[i]->name == NULL)
            return op->parts[i];
    return op->parts[0];
}

static DLDataType type_named(const struct op *op, const void *types, const char *name) {
    if (name == NULL)
        return (DLDataType){0};
    const struct op_member *member = kvmill_op_member(kvmill_op_types(op), name);
    const struct kvmill_dtype *known = kvmill_dtype_by_name(name);
    if (member != NULL)
        return *(const DLDataType *)kvmill_member_of(member, types);
    return known != NULL ? known->dl : (DLDataType){0};
}

DLDataType kvmill_op_type(const struct op *op, const void *base, const void *types,
                          const struct op_tensor *tensor) {
    bool wide =
        tensor->wide_type != NULL && kvmill_op_holds(op->parts[0], base, &tensor->wide_when);
    return type_named(op, types, wide ? tensor->wide_type : tensor->type);
}

DLDataType kvmill_op_other_type(const struct op *op, const void *types,
                                const struct op_tensor *tensor) {
    return type_named(op, types, tensor->or_type);
}

const struct op_tensor *kvmill_op_tensor(const struct op *op, int index) {
    for (int i = 0; i < op->tensor_count; i++)
        if (op->tensors[i].index == index)
            return &op->tensors[i];
    return NULL;
}
