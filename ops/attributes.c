/* SPDX-License-Identifier: Apache-2.0 */
#include "attributes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../defs/dtype.h"
#include "fail.h"
#include "refuse.h"

enum { MOST_ITEMS = 64 }; /* items of a list of axes */

static kvmill_status check_range(const struct op *op, const struct op_struct *part,
                                 const struct op_range *range, const void *base,
                                 kvmill_error *error) {
    int64_t most = range->most;
    if (!(range->ops & kvmill_op_bit(op)) || !kvmill_op_holds(part, base, &range->when))
        return KVMILL_OK;
    if (range->below != NULL)
        most = kvmill_member_value(kvmill_op_member(part, range->below), base) - 1;
    int64_t value = *(const int64_t *)(const void *)((const char *)base + range->offset);
    if (value >= range->least && value <= most)
        return KVMILL_OK;
    return kvmill_refuse_number(KVMILL_E_ATTRIBUTE, range->name, "", value,
                                (struct kvmill_range){range->least, most}, error);
}

/* Before the source's version that added a member, it has its default. */
static kvmill_status check_since(const struct op_struct *part, const struct op_member *member,
                                 const void *base, kvmill_error *error) {
    if (member->since == 0 || kvmill_member_is_default(member, base))
        return KVMILL_OK;
    int64_t version = kvmill_member_value(kvmill_op_member(part, "opset"), base);
    if (version >= member->since)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "%s is %" PRId64 "; accepted: %" PRId64 ", in opset %" PRId64, member->name,
                       kvmill_member_value(member, base), member->initial, version);
}

static bool is_among(const char *word, const char *const *words) {
    for (; *words != NULL; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

static kvmill_status check_word(const struct op_member *member, const void *base,
                                kvmill_error *error) {
    char accepted[KVMILL_WORDS_SIZE];
    const char *word = *(const char *const *)kvmill_member_of(member, base);
    if (word == NULL || is_among(word, member->words))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "%s is \"%.40s\"; accepted: %s", member->name,
                       word, kvmill_list_words(member->words, "\"", accepted));
}

/* A member that belongs to a flag counts only if the flag is set. */
static bool is_said(const struct op_struct *part, const struct op_member *member,
                    const void *base) {
    const struct op_condition with = {{member->with}};
    return kvmill_op_holds(part, base, &with);
}

kvmill_status kvmill_check_attributes(const struct op *op, const struct op_struct *part,
                                      const void *base, kvmill_error *error) {
    kvmill_status status = KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < part->range_count; i++)
        status = check_range(op, part, &part->ranges[i], base, error);
    for (int i = 0; status == KVMILL_OK && i < part->member_count; i++) {
        const struct op_member *member = &part->members[i];
        if (!(member->ops & kvmill_op_bit(op)) || !is_said(part, member, base))
            continue;
        status = check_since(part, member, base, error);
        if (status == KVMILL_OK && member->kind == OP_WORD)
            status = check_word(member, base, error);
    }
    return status;
}

bool kvmill_is_circular(const char *mode) {
    return mode != NULL && strcmp(mode, "circular") == 0;
}

bool kvmill_saturates(const char *scale_overflow, bool otherwise) {
    return scale_overflow == NULL ? otherwise : strcmp(scale_overflow, "saturate") == 0;
}

kvmill_status kvmill_refuse_saturation(kvmill_error *error) {
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "scale_overflow is \"saturate\"; accepted without quant_bit: \"infinite\"");
}

static kvmill_status check_list(const char *name, const kvmill_dims *list, bool may_be_open,
                                kvmill_error *error) {
    if (list->count > MOST_ITEMS)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "%s has %zu items; accepted: 0 to %d", name,
                           list->count, (int)MOST_ITEMS);
    if (list->count > 0 && list->items == NULL && !may_be_open)
        return kvmill_fail(error, KVMILL_E_NULL, "%s.items is NULL; its count is %zu", name,
                           list->count);
    return KVMILL_OK;
}

kvmill_status kvmill_check_axis_lists(enum op_family family, const void *base, const char *open,
                                      kvmill_error *error) {
    const struct op_struct *part = kvmill_op_of(family, 0)->parts[0];
    kvmill_status status = KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < part->member_count; i++) {
        const struct op_member *member = &part->members[i];
        if (member->kind == OP_DIMS)
            status = check_list(member->name, kvmill_member_of(member, base),
                                open != NULL && strcmp(member->name, open) == 0, error);
    }
    return status;
}

kvmill_status kvmill_check_members(enum op_family family, int number, const void *base,
                                   kvmill_error *error) {
    const struct op *op = kvmill_op_of(family, number);
    return kvmill_check_attributes(op, op->parts[0], base, error);
}

kvmill_status kvmill_check_factor(const char *name, double value, kvmill_error *error) {
    if (value >= 0 && isfinite((float)value))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "%s is %g; accepted: 0 or more, a finite float32",
                       name, value);
}

kvmill_status kvmill_refuse_member_type(const char *prefix, const char *name, DLDataType type,
                                        const char *accepted, kvmill_error *error) {
    struct kvmill_type_text words;
    return kvmill_fail(error, KVMILL_E_DTYPE, "%s%s is %s; accepted: %s", prefix, name,
                       kvmill_type_words(type, &words), accepted);
}

const char *kvmill_list_activations(char text[KVMILL_WORDS_SIZE]) {
    const char *words[KVMILL_MOST_FORMATS + 1];
    kvmill_activation_words(words);
    return kvmill_list_words(words, "", text);
}
