/* What other programs call formats of caches: those that kvmill has by another word, and those
   that it does not support.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_OTHER_FORMATS_H
#define KVMILL_TOOLS_OTHER_FORMATS_H

#include <stddef.h>

/* "; fp8 is float8e4m3fn", of the first of the words between commas that is one; else "". */
const char *other_format_advice(const char *words, char *text, size_t size);

#endif
