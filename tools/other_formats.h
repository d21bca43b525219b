/* Other programs' names of cache formats: formats that kvmill has under another name, and formats
   that it does not support.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_OTHER_FORMATS_H
#define KVMILL_TOOLS_OTHER_FORMATS_H

#include <stddef.h>

/* Returns advice for a message, such as "; fp8 is float8e4m3fn", about the first known word in a
   list with commas, or "". */
const char *other_format_advice(const char *words, char *text, size_t size);

#endif
