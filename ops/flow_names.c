/* Checks of names and dims that fields, constants and values of programs have in common.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "flow_check.h"

bool kvmill_flow_is_reserved(const char *name) {
    return strcmp(name, "q") == 0 || strcmp(name, "k") == 0 || strcmp(name, "v") == 0;
}

kvmill_status kvmill_flow_check_name(const struct checker *checker, const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    static const char digits[] = "0123456789";
    if (name == NULL)
        return REFUSE(checker, NULL, "the name is NULL");
    size_t length = strlen(name), at = strspn(name, letters);
    while (at > 0 && at < length && strchr(digits, name[at]) != NULL)
        at += 1 + strspn(name + at + 1, letters);
    const char *word = name + strspn(name, "_"); /* private macros of templates begin with _ */
    bool ours = strncmp(word, "km_", 3) == 0 || strncmp(word, "m4_", 3) == 0;
    if (length == 0 || length > 47 || at != length || ours)
        return REFUSE(
            checker, ATTRIBUTE,
            "the name is \"%.60s\"; accepted: 1 to 47 letters, digits and underscores, no "
            "digit first, nor km_ or m4_ (after any underscores)",
            name);
    return KVMILL_OK;
}

int kvmill_flow_find_field(const kvmill_flow *flow, const char *name) {
    int field = (int)flow->field_count - 1;
    while (field >= 0 && strcmp(flow->fields[field].name, name) != 0)
        field--;
    return field;
}

kvmill_status kvmill_flow_check_dims(struct checker *checker, int64_t rows, int64_t columns) {
    if (rows > 0 && rows <= KVMILL_MOST_FLOW_ELEMENTS && columns > 0 &&
        columns <= KVMILL_MOST_FLOW_ELEMENTS && rows * columns <= KVMILL_MOST_FLOW_ELEMENTS)
        return KVMILL_OK;
    return REFUSE(checker, SHAPE,
                  "the shape is [%" PRId64 ", %" PRId64
                  "]; accepted: positive dims, %d elements at "
                  "most",
                  rows, columns, (int)KVMILL_MOST_FLOW_ELEMENTS);
}
