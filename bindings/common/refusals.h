/* Refusals that bindings issue themselves, not the library.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_COMMON_REFUSALS_H
#define KVMILL_BINDINGS_COMMON_REFUSALS_H

#include <stdarg.h>
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

#endif
