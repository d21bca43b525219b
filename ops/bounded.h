/* Appends text to a buffer of fixed size.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_BOUNDED_H
#define KVMILL_OPS_BOUNDED_H

#include <stdbool.h>
#include <stddef.h>

struct kvmill_bounded {
    char *text;
    size_t size;
    size_t length; /* of all pieces: `size` or more when they were cut */
};

void kvmill_bounded_add(struct kvmill_bounded *bounded, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Why there is no text, instead of it.  Always false. */
bool kvmill_bounded_refuse(struct kvmill_bounded *bounded, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
