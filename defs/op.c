/* SPDX-License-Identifier: Apache-2.0 */
#include "op.h"

#include <string.h>

#include "dtype.h"

/* ---- Attributes ---- */

static bool is_integer(const struct op_member *member) {
    return member->kind == OP_COUNT || member->kind == OP_INTEGER || member->kind == OP_AXIS;
}

static void set_value(const struct op_member *member, void *base, int64_t value) {
    if (member->kind == OP_FLAG)
        *(int32_t *)kvmill_member_at(member, base) = (int32_t)value;
    else
        *(int64_t *)kvmill_member_at(member, base) = value;
}

void kvmill_op_init(const struct op_struct *part, void *base) {
    memset(base, 0, part->size);
    if (part->name != NULL)
        *(size_t *)base = part->size;
    for (int i = 0; i < part->member_count; i++)
        if (part->members[i].initial != 0)
            set_value(&part->members[i], base, part->members[i].initial);
}

const struct op_member *kvmill_op_member(const struct op_struct *part, const char *name) {
    for (int i = 0; i < part->member_count; i++)
        if (strcmp(part->members[i].name, name) == 0)
            return &part->members[i];
    return NULL;
}

size_t kvmill_member_size(const struct op_member *member) {
    switch (member->kind) {
    case OP_FLAG:
        return sizeof(int32_t);
    case OP_TYPE:
        return sizeof(DLDataType);
    case OP_DIMS:
        return sizeof(kvmill_dims);
    case OP_OWN:
        return 0;
    default:
        return 8;
    }
}

int64_t kvmill_member_value(const struct op_member *member, const void *base) {
    const void *at = kvmill_member_of(member, base);
    return member->kind == OP_FLAG ? *(const int32_t *)at : *(const int64_t *)at;
}

bool kvmill_member_is_zero(const struct op_member *member, const void *base) {
    static const char nothing[sizeof(kvmill_dims)];
    return memcmp(kvmill_member_of(member, base), nothing, kvmill_member_size(member)) == 0;
}

bool kvmill_member_is_default(const struct op_member *member, const void *base) {
    bool number = is_integer(member) || member->kind == OP_FLAG;
    return number ? kvmill_member_value(member, base) == member->initial
                  : kvmill_member_is_zero(member, base);
}

/* Whether a member counts: it is not zero, and the flag that it depends on, if any, is set. */
static bool counts(const struct op_struct *part, const struct op_member *member, const void *base) {
    return (member->with == NULL ||
            !kvmill_member_is_zero(kvmill_op_member(part, member->with), base)) &&
           !kvmill_member_is_zero(member, base);
}

bool kvmill_op_holds(const struct op_struct *part, const void *base,
                     const struct op_condition *condition) {
    for (int i = 0; i < OP_CONDITIONS && condition->names[i] != NULL; i++) {
        bool zero = condition->names[i][0] == '!';
        const struct op_member *member = kvmill_op_member(part, condition->names[i] + zero);
        if (counts(part, member, base) == zero)
            return false;
    }
    return true;
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
