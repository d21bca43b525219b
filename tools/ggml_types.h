/* The types of llama.cpp's caches, by llama.cpp's names.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_GGML_TYPES_H
#define KVMILL_TOOLS_GGML_TYPES_H

#include "../base/error.h"
#include "../defs/format.h"

/* Lists all names; NULL ends the list. */
enum { MOST_GGML_WORDS = KVMILL_MOST_FORMATS + 8 };
void ggml_type_words(const char *words[MOST_GGML_WORDS]);

/* Returns the type of the name that is the first `length` characters of text, or NULL. */
const struct kvmill_format_parts *ggml_type_find(const char *text, size_t length);

/* Fails with a message that lists the values of --ggml. */
bool ggml_type_refuse(const char *given, struct error *error);

#endif
