/* Pastes the words of an instruction set, templates/words/ISA.h, into a kernel.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_WORDS_H
#define KVMILL_GEN_WORDS_H

#include "../base/text.h"

enum { WORD_SIZE = 32, SIGNATURE_SIZE = 128 };

/* A word of an instruction set: a function with a meaning. */
struct word {
    char name[WORD_SIZE], type[WORD_SIZE], parameters[SIGNATURE_SIZE];
    const char *version; /* the header whose version kernels use; "": the meaning */
};

/* Takes the words of an instruction set in the order of their headers, until one returns false. */
typedef bool words_take(const struct word *word, void *context, struct error *error);
bool words_each(const char *isa, words_take *take, void *context, struct error *error);

/* Replaces the line #include "ISA.h" of the text from its byte `from` on by the words of ISA, as C
   without macros and comments.  WORD is the last version: SET_WORD of the last header that has
   one.  Its meaning is then meaning_WORD. */
bool words_paste(const char *isa, struct text *text, size_t from, struct error *error);

#endif
