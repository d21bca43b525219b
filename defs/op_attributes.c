/* The attributes of ops, by their description.

   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "op.h"

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

/* ---- What is allowed ---- */

static struct op_breach check_range(const struct op *op, const struct op_struct *part,
                                    const struct op_range *range, const void *base) {
    struct op_breach found = {.name = range->name, .least = range->least, .most = range->most};
    if (!(range->ops & kvmill_op_bit(op)) || !kvmill_op_holds(part, base, &range->when))
        return found;
    if (range->below != NULL)
        found.most = kvmill_member_value(kvmill_op_member(part, range->below), base) - 1;
    found.value = *(const int64_t *)(const void *)((const char *)base + range->offset);
    if (found.value < found.least || found.value > found.most)
        found.kind = OP_OUT_OF_RANGE;
    return found;
}

static bool is_too_early(const struct op_struct *part, const struct op_member *member,
                         const void *base) {
    return member->since > 0 && !kvmill_member_is_default(member, base) &&
           kvmill_member_value(kvmill_op_member(part, "opset"), base) < member->since;
}

static bool is_wrong_word(const struct op_member *member, const void *base) {
    const char *const *words = member->words;
    const char *word =
        member->kind == OP_WORD ? *(const char *const *)kvmill_member_of(member, base) : NULL;
    while (word != NULL && *words != NULL && strcmp(word, *words) != 0)
        words++;
    return word != NULL && *words == NULL;
}

static bool is_wrong_factor(const struct op_member *member, const void *base) {
    double value = member->factor ? *(const double *)kvmill_member_of(member, base) : 0;
    return !(value >= 0 && isfinite((float)value));
}

/* A member that belongs to a flag counts only if the flag is set. */
static struct op_breach check_member(const struct op *op, const struct op_struct *part,
                                     const struct op_member *member, const void *base) {
    const struct op_condition with = {{member->with}};
    struct op_breach found = {.name = member->name, .member = member};
    if (!(member->ops & kvmill_op_bit(op)) || !kvmill_op_holds(part, base, &with))
        return found;
    found.kind = is_too_early(part, member, base) ? OP_TOO_EARLY
                 : is_wrong_word(member, base)    ? OP_NOT_A_WORD
                 : is_wrong_factor(member, base)  ? OP_NOT_A_FACTOR
                                                  : OP_ALLOWED;
    return found;
}

struct op_breach kvmill_op_breach(const struct op *op, const struct op_struct *part,
                                  const void *base) {
    struct op_breach found = {.kind = OP_ALLOWED};
    for (int i = 0; found.kind == OP_ALLOWED && i < part->range_count; i++)
        found = check_range(op, part, &part->ranges[i], base);
    for (int i = 0; found.kind == OP_ALLOWED && i < part->member_count; i++)
        found = check_member(op, part, &part->members[i], base);
    return found;
}
