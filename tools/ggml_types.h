/* The types of llama.cpp's caches, by their names in llama.cpp.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_GGML_TYPES_H
#define KVMILL_TOOLS_GGML_TYPES_H

#include "../base/error.h"
#include "../defs/format.h"

/* All names; ends with NULL. */
enum { MOST_GGML_WORDS = KVMILL_MOST_FORMATS + 8 };
void ggml_type_words(const char *words[MOST_GGML_WORDS]);

/* The type of a name of that length; NULL where there is none. */
const struct kvmill_format_parts *ggml_type_find(const char *text, size_t length);

/* What --ggml may be. */
bool ggml_type_refuse(const char *given, struct error *error);

#endif
