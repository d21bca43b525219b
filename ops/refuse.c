/* SPDX-License-Identifier: Apache-2.0 */
#include "refuse.h"

#include <inttypes.h>
#include <stdio.h>

#include "../defs/dtype.h"
#include "extent.h"
#include "fail.h"

enum { MOST_RANK = 64 };

kvmill_status kvmill_refuse_null(const char *name, kvmill_error *error) {
    return kvmill_fail(error, KVMILL_E_NULL, "%s is NULL; a tensor is required", name);
}

kvmill_status kvmill_refuse_type(const char *name, DLDataType type, const char *word,
                                 const char *accepted, kvmill_error *error) {
    if (word == NULL && !kvmill_dtype_known(type))
        return kvmill_refuse_type_code(name, type, accepted, error);
    return kvmill_fail(error, KVMILL_E_DTYPE, "%s has type %s; accepted: %s", name,
                       word != NULL ? word : kvmill_dtype_name(type), accepted);
}

kvmill_status kvmill_refuse_type_code(const char *name, DLDataType type, const char *accepted,
                                      kvmill_error *error) {
    return kvmill_fail(error, KVMILL_E_DTYPE,
                       "%s has type code %d with %d bits and %d lanes; accepted: %s", name,
                       type.code, type.bits, type.lanes, accepted);
}

const char *kvmill_type_words(DLDataType type, struct kvmill_type_text *words) {
    if (kvmill_dtype_known(type))
        return kvmill_dtype_name(type);
    if (type.bits == 0)
        return "not set";
    snprintf(words->text, sizeof words->text, "type code %d with %d bits and %d lanes", type.code,
             type.bits, type.lanes);
    return words->text;
}

kvmill_status kvmill_refuse_shape(const char *name, const DLTensor *tensor, int rank,
                                  const int64_t *dims, const char *more, kvmill_error *error) {
    struct kvmill_shape_text have, want;
    const DLTensor wanted = {.ndim = rank, .shape = (int64_t *)(uintptr_t)dims};
    return kvmill_fail(error, KVMILL_E_SHAPE, "%s has shape %s; accepted: %s%s", name,
                       kvmill_shape_words(tensor, &have), kvmill_shape_words(&wanted, &want), more);
}

kvmill_status kvmill_refuse_number(kvmill_status status, const char *name, const char *index,
                                   int64_t value, struct kvmill_range accepted,
                                   kvmill_error *error) {
    const char *format = accepted.last < accepted.first    ? "none"
                         : accepted.last == accepted.first ? "%" PRId64
                         : accepted.last < INT64_MAX       ? "%" PRId64 " to %" PRId64
                                                           : "%" PRId64 " or more";
    char words[64];
    snprintf(words, sizeof words, format, accepted.first, accepted.last);
    return kvmill_fail(error, status, "%s%s is %" PRId64 "; accepted: %s", name, index, value,
                       words);
}

kvmill_status kvmill_refuse_element(kvmill_status status, const char *name, int64_t i,
                                    int64_t value, struct kvmill_range accepted,
                                    kvmill_error *error) {
    char index[32];
    snprintf(index, sizeof index, "[%" PRId64 "]", i);
    return kvmill_refuse_number(status, name, index, value, accepted, error);
}

kvmill_status kvmill_check_form(const char *name, const DLTensor *tensor, kvmill_error *error) {
    if (tensor->ndim < 0 || tensor->ndim > MOST_RANK)
        return kvmill_fail(error, KVMILL_E_SHAPE, "%s has rank %d; accepted: 0 to %d", name,
                           tensor->ndim, (int)MOST_RANK);
    if (tensor->ndim > 0 && tensor->shape == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "the shape of %s is NULL; its rank is %d", name,
                           tensor->ndim);
    return KVMILL_OK;
}

kvmill_status kvmill_check_dims(const char *name, const DLTensor *tensor, int64_t least,
                                kvmill_error *error) {
    struct kvmill_shape_text words;
    int64_t count = kvmill_element_count(tensor);
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] < least)
            return kvmill_fail(error, KVMILL_E_SHAPE,
                               "dim %d of %s is %" PRId64 "; accepted: 0 or more%s", d, name,
                               tensor->shape[d], least < 0 ? ", or dynamic" : "");
    if (count == KVMILL_TOO_MANY || kvmill_dtype_is_too_many(tensor->dtype, count))
        return kvmill_fail(error, KVMILL_E_OVERFLOW,
                           "%s has shape %s; accepted: at most %" PRId64 " elements", name,
                           kvmill_shape_words(tensor, &words), kvmill_dtype_most(tensor->dtype));
    return KVMILL_OK;
}
