/* GGUF headers for tests, from a line of text; written without the reader's code.

   Pieces between ", ": KEY=TYPE:VALUE, where TYPE is u, i, q, f, b, s (uint32, int32, uint64,
   float32, bool, a string), or one of these after [ for an array of VALUE,VALUE...; @NUMBER,
   another version; +NUMBER, more keys than there are; and names of tensors.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_GGUF_TEXT_H
#define KVMILL_TESTS_GGUF_TEXT_H

#include "../base/text.h"

/* Release with text_free. */
void gguf_write(const char *description, struct text *file);

#endif
