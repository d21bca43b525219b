/* Appends text to a buffer of fixed size.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_BOUNDED_H
#define KVMILL_OPS_BOUNDED_H

#include <stdbool.h>
#include <stddef.h>

struct kvmill_bounded {
    char *text;
    size_t size;
    size_t length; /* of the whole text: `size` or more if it was cut */
};

void kvmill_bounded_add(struct kvmill_bounded *bounded, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Replace the text by the reason why there is none.  Always returns false. */
bool kvmill_bounded_refuse(struct kvmill_bounded *bounded, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
