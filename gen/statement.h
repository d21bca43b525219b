/* Statements of the programs in kernels: their words, and calls of km_step for the templates.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_STATEMENT_H
#define KVMILL_GEN_STATEMENT_H

#include "../base/text.h"

enum { MOST_STATEMENT_WORDS = 2 + 16, STATEMENT_WORD_SIZE = 24 };

struct statement {
    char words[MOST_STATEMENT_WORDS][STATEMENT_WORD_SIZE];
    int count;
};

/* The statement at the beginning of a text; it ends with ';' or with the text.  Returns where the
 * next one begins. */
const char *statement_read(const char *at, struct statement *statement);

/* km_step(«v0», «add», «f32», «f32», «r0», «u0»); false: out of memory. */
bool statement_call(const struct statement *statement, struct text *steps);

#endif
