/* SPDX-License-Identifier: Apache-2.0 */
#include "jax_calls.h"

#include <stdbool.h>

#include "../common/refusals.h"

static kvmill_status copy_word(const char *name, const kvmill_ffi_span *span,
                               char word[JAX_WORD_SIZE], kvmill_error *error) {
    if (span->length >= JAX_WORD_SIZE || memchr(span->text, '\0', span->length) != NULL)
        return refuse(error, "%s has %zu bytes; accepted: at most %d, without a NUL", name,
                      span->length, JAX_WORD_SIZE - 1);
    memcpy(word, span->text, span->length);
    word[span->length] = '\0';
    return KVMILL_OK;
}

/* Reads "NAME" or "NAME[DIM,DIM]". */
static kvmill_status read_name(const char *list, const kvmill_ffi_span *span, struct jax_name *name,
                               kvmill_error *error) {
    kvmill_status status = copy_word(list, span, name->text, error);
    char *at = strchr(name->text, '[');
    name->ndim = -1;
    if (status != KVMILL_OK || at == NULL)
        return status;
    char whole[JAX_WORD_SIZE], *end = at;
    memcpy(whole, name->text, sizeof whole);
    *at = '\0';
    for (name->ndim = 0; name->ndim < JAX_MOST_RANK && *end != ']'; end += *end == ',') {
        at = end + (name->ndim == 0);
        name->dims[name->ndim++] = strtoll(at, &end, 10);
        if (end == at || (*end != ',' && *end != ']') || name->dims[name->ndim - 1] < 0)
            break;
    }
    if (end[0] == ']' && end[1] == '\0')
        return KVMILL_OK;
    return refuse(error, "%s has \"%s\"; accepted: NAME or NAME[DIM,...], at most %d dims", list,
                  whole, JAX_MOST_RANK);
}

/* Reads names that are separated by spaces. */
static kvmill_status read_names(const char *list, const kvmill_ffi_span *span,
                                struct jax_name *names, int *count, kvmill_error *error) {
    kvmill_ffi_span rest = *span;
    kvmill_status status = KVMILL_OK;
    for (*count = 0; status == KVMILL_OK && rest.length > 0; ++*count) {
        const char *space = (const char *)memchr(rest.text, ' ', rest.length);
        kvmill_ffi_span word = {rest.text, space ? (size_t)(space - rest.text) : rest.length};
        if (*count == JAX_MOST_TENSORS)
            return refuse(error, "%s: more than %d names", list, JAX_MOST_TENSORS);
        status = read_name(list, &word, &names[*count], error);
        rest.text += word.length + (space != NULL);
        rest.length -= word.length + (space != NULL);
    }
    return status;
}

kvmill_status jax_view_tensor(const kvmill_ffi_list *list, int at, const struct jax_name *name,
                              DLTensor *tensor, kvmill_error *error) {
    kvmill_status status = kvmill_ffi_tensor(list, at, name->text, tensor, error);
    if (status != KVMILL_OK || name->ndim < 0)
        return status;
    size_t count = jax_element_count(tensor);
    tensor->ndim = name->ndim;
    tensor->shape = (int64_t *)(uintptr_t)name->dims;
    if (jax_element_count(tensor) == count)
        return KVMILL_OK;
    return refuse(error, "%s has %zu elements; accepted: one for each dim of its view", name->text,
                  count);
}

enum { PRED = 1, S32 = 4, S64 = 5, F32 = 11, F64 = 12 }; /* XLA's numbers of types */

static kvmill_status read_scalar(const kvmill_ffi_scalar *scalar, kvmill_named_attribute *attribute,
                                 kvmill_error *error) {
    attribute->is_real = scalar->dtype == F32 || scalar->dtype == F64;
    switch (scalar->dtype) {
    case PRED:
        attribute->integer = *(const uint8_t *)scalar->value;
        return KVMILL_OK;
    case S32:
        attribute->integer = *(const int32_t *)scalar->value;
        return KVMILL_OK;
    case S64:
        attribute->integer = *(const int64_t *)scalar->value;
        return KVMILL_OK;
    case F32:
        attribute->real = *(const float *)scalar->value;
        return KVMILL_OK;
    case F64:
        attribute->real = *(const double *)scalar->value;
        return KVMILL_OK;
    default:
        return refuse(error, "%s has XLA's type number %d; accepted: bool, i32, i64, f32, f64",
                      attribute->name, (int)scalar->dtype);
    }
}

/* Reads an attribute of the op. */
static kvmill_status read_attribute(int32_t type, const void *item, const char *name,
                                    struct jax_call *call, kvmill_error *error) {
    size_t at = call->attribute_count++;
    kvmill_named_attribute *attribute = &call->attributes[at];
    if (at == JAX_MOST_ATTRIBUTES)
        return refuse(error, "more than %d attributes", JAX_MOST_ATTRIBUTES);
    memcpy(call->names[at], name, JAX_WORD_SIZE);
    *attribute = (kvmill_named_attribute){.name = call->names[at]};
    if (type == KVMILL_FFI_SCALAR)
        return read_scalar((const kvmill_ffi_scalar *)item, attribute, error);
    if (type != KVMILL_FFI_STRING)
        return refuse(error, "%s is of kind %d; accepted: numbers and texts", name, (int)type);
    attribute->word = call->words[at];
    return copy_word(name, (const kvmill_ffi_span *)item, call->words[at], error);
}

static kvmill_status read_one(const kvmill_ffi_attributes *list, int64_t at, struct jax_call *call,
                              kvmill_error *error) {
    char name[JAX_WORD_SIZE];
    const kvmill_ffi_span *text = (const kvmill_ffi_span *)list->items[at];
    kvmill_status status = copy_word("an attribute's name", list->names[at], name, error);
    if (status != KVMILL_OK)
        return status;
    bool pack = strcmp(name, "pack") == 0, op = strcmp(name, "op") == 0;
    bool operands = strcmp(name, "operands") == 0, results = strcmp(name, "results") == 0;
    if (!pack && !op && !operands && !results)
        return read_attribute(list->types[at], list->items[at], name, call, error);
    if (list->types[at] != KVMILL_FFI_STRING)
        return refuse(error, "%s is of kind %d; accepted: a text", name, (int)list->types[at]);
    if (operands)
        return read_names(name, text, call->operands, &call->operand_count, error);
    return results ? read_names(name, text, call->results, &call->result_count, error)
                   : copy_word(name, text, pack ? call->pack : call->op, error);
}

kvmill_status jax_read_call(const kvmill_ffi_frame *frame, struct jax_call *call,
                            kvmill_error *error) {
    kvmill_status status = KVMILL_OK;
    memset(call, 0, sizeof *call);
    for (int64_t i = 0; status == KVMILL_OK && i < frame->attributes.size; i++)
        status = read_one(&frame->attributes, i, call, error);
    if (status != KVMILL_OK)
        return status;
    if (call->operand_count != frame->arguments.size || call->result_count != frame->results.size)
        return refuse(error, "%d operands and %d results are named; accepted: %lld and %lld",
                      call->operand_count, call->result_count, (long long)frame->arguments.size,
                      (long long)frame->results.size);
    return KVMILL_OK;
}
