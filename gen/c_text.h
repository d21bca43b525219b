/* The C text that templates expand to, as tokens.  Constants are folded, superfluous loops and
   blocks are flattened, unused functions are removed, and lines are laid out.

   It expects C as the templates write it: spaces around binary operators, none around casts and
   unary operators, and a brace at the end of a line opens a block.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_C_TEXT_H
#define KVMILL_GEN_C_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/text.h"

enum c_kind {
    C_WORD,
    C_NUMBER, /* a decimal integer without a suffix, an int */
    C_OTHER,  /* other numbers, strings and characters */
    C_MARK,   /* operators and brackets */
    C_COMMENT,
    C_DIRECTIVE, /* a line of the preprocessor, with those that continue it */
};

struct c_token {
    const char *at;
    size_t length;
    int64_t value; /* of a number; the number is written from it */
    enum c_kind kind;
    int lines;      /* newlines before it: 0, 1, or 2 for a blank line */
    bool space;     /* a blank before it */
    bool is_binary; /* an operator of two operands */
};

struct c_text {
    struct c_token *tokens;
    size_t count;
};

/* Fold, prune and lay out `text` from its byte `from` on. */
bool c_text_tidy(struct text *text, size_t from, struct error *error);

/* The steps of c_text.  The tokens point into `text`, which must live as long.  false: out of
 * memory. */
bool c_text_scan(const char *text, struct c_text *tokens);
void c_text_fold(struct c_text *tokens);
void c_text_flatten(struct c_text *tokens);
bool c_text_prune_items(struct c_text *tokens); /* a part of the next */
bool c_text_prune(struct c_text *tokens);
bool c_text_lay_out(const struct c_text *tokens, struct text *text);

/* The lengths of a comment, and of a string or character, that begins at `at`. */
size_t c_comment_length(const char *at);
size_t c_quoted_length(const char *at);

bool c_is(const struct c_token *token, const char *spelling);
bool c_is_opener(const struct c_token *token);
bool c_is_closer(const struct c_token *token);

bool c_is_same(const struct c_token *a, const struct c_token *b); /* words */

/* Whether the token at `at` is the word `name`, and neither a member nor a tag. */
bool c_is_use(const struct c_text *text, size_t at, const struct c_token *name);

/* Returns the index after the token at `at`, or after the whole bracket if the token opens one. */
size_t c_after_brackets(const struct c_text *text, size_t at);
void c_erase(struct c_text *text, size_t first, size_t end);

/* The precedence of a binary operator; 0 for assignments and everything else. */
int c_binding(const struct c_token *token);

#endif
