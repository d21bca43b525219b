/* SPDX-License-Identifier: Apache-2.0 */
#include "bounded.h"

#include <stdarg.h>
#include <stdio.h>

void kvmill_bounded_add(struct kvmill_bounded *bounded, const char *format, ...) {
    size_t at = bounded->length < bounded->size ? bounded->length : bounded->size - 1;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(bounded->text + at, bounded->size - at, format, arguments);
    va_end(arguments);
    bounded->length += length < 0 ? 0 : (size_t)length;
}

bool kvmill_bounded_refuse(struct kvmill_bounded *bounded, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(bounded->text, bounded->size, format, arguments);
    va_end(arguments);
    return false;
}
