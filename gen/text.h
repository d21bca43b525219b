/* Text that grows.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_TEXT_H
#define KVMILL_GEN_TEXT_H

#include <stddef.h>

#include "error.h"

struct text {
    char *data; /* ends with NUL; NULL while empty */
    size_t length;
};

/* false: out of memory. */
__attribute__((format(printf, 2, 3))) bool text_print(struct text *text, const char *format, ...);
bool text_append(struct text *text, const char *data, size_t length);
void text_free(struct text *text);

#endif
