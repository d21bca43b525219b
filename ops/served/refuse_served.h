/* What the files of ops/served share.  They are built where only kvmill.h is installed.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_SERVED_REFUSE_SERVED_H
#define KVMILL_OPS_SERVED_REFUSE_SERVED_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include <kvmill.h>

/* Sets the message.  Returns KVMILL_E_ATTRIBUTE. */
__attribute__((format(printf, 2, 3), unused)) static kvmill_status refuse(kvmill_error *error,
                                                                          const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return KVMILL_E_ATTRIBUTE;
}

static inline bool has_type(const DLTensor *tensor, unsigned code, int bits) {
    return tensor->dtype.code == code && tensor->dtype.bits == bits;
}

#endif
