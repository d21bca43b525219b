/* SPDX-License-Identifier: Apache-2.0 */
#include "fail.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* End a message that does not fit after a whole word, with "...". */
static void end_after_word(char *message, size_t size) {
    static const char end[] = " ...";
    size_t at = size - sizeof end;
    while (at > 0 && message[at] != ' ')
        at--;
    memcpy(message + at, end, sizeof end);
}

kvmill_status kvmill_fail(kvmill_error *error, kvmill_status status, const char *format, ...) {
    if (error == NULL)
        return status;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof error->message)
        end_after_word(error->message, sizeof error->message);
    return status;
}

kvmill_status kvmill_succeed(kvmill_error *error) {
    if (error != NULL)
        error->message[0] = '\0';
    return KVMILL_OK;
}

static size_t append_dim(char *text, size_t size, size_t at, int64_t dim, const char *separator) {
    int written = dim < 0 ? snprintf(text + at, size - at, "%s?", separator)
                          : snprintf(text + at, size - at, "%s%" PRId64, separator, dim);
    return at + (size_t)written < size ? at + (size_t)written : size - 1;
}

const char *kvmill_shape_words(const DLTensor *tensor, struct kvmill_shape_text *words) {
    const size_t size = sizeof words->text - 1;
    size_t at = 0;
    words->text[0] = '\0';
    for (int d = 0; d < tensor->ndim; d++)
        at = append_dim(words->text, size, at, tensor->shape[d], d == 0 ? "[" : ", ");
    snprintf(words->text + at, sizeof words->text - at, tensor->ndim == 0 ? "[]" : "]");
    return words->text;
}

const char *kvmill_status_name(kvmill_status status) {
    static const char *const names[] = {"KVMILL_OK",
                                        "KVMILL_E_NULL",
                                        "KVMILL_E_ALIAS",
                                        "KVMILL_E_INDEX_NEGATIVE",
                                        "KVMILL_E_INDEX_RANGE",
                                        "KVMILL_E_SHAPE",
                                        "KVMILL_E_OVERFLOW",
                                        "KVMILL_E_DTYPE",
                                        "KVMILL_E_ATTRIBUTE",
                                        "KVMILL_E_STRIDE",
                                        "KVMILL_E_DEVICE",
                                        "KVMILL_E_WORKSPACE",
                                        "KVMILL_E_MEMORY",
                                        "KVMILL_E_ISA",
                                        "KVMILL_E_PACK",
                                        "KVMILL_E_VERSION",
                                        "KVMILL_E_KERNEL"};
    size_t count = sizeof names / sizeof *names;
    return (size_t)status < count ? names[status] : "unknown kvmill_status";
}
