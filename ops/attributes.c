/* SPDX-License-Identifier: Apache-2.0 */
#include "attributes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../defs/dtype.h"
#include "fail.h"
#include "refuse.h"

enum { MOST_ITEMS = 64 }; /* items of a list of axes */

kvmill_status kvmill_check_attributes(const struct op *op, const struct op_struct *part,
                                      const void *base, kvmill_error *error) {
    const struct op_breach breach = kvmill_op_breach(op, part, base);
    const void *at = breach.member != NULL ? kvmill_member_of(breach.member, base) : NULL;
    char accepted[KVMILL_WORDS_SIZE];
    switch (breach.kind) {
    case OP_OUT_OF_RANGE:
        return kvmill_refuse_number(KVMILL_E_ATTRIBUTE, breach.name, "", breach.value,
                                    (struct kvmill_range){breach.least, breach.most}, error);
    case OP_TOO_EARLY:
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "%s is %" PRId64 "; accepted: %" PRId64 ", in opset %" PRId64,
                           breach.name, kvmill_member_value(breach.member, base),
                           breach.member->initial,
                           kvmill_member_value(kvmill_op_member(part, "opset"), base));
    case OP_NOT_A_WORD:
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "%s is \"%.40s\"; accepted: %s", breach.name,
                           *(const char *const *)at,
                           kvmill_list_words(breach.member->words, "\"", accepted));
    case OP_NOT_A_FACTOR:
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "%s is %g; accepted: 0 or more, a finite float32", breach.name,
                           *(const double *)at);
    default:
        return KVMILL_OK;
    }
}

bool kvmill_is_circular(const char *mode) {
    return mode != NULL && strcmp(mode, "circular") == 0;
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
