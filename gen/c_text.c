/* SPDX-License-Identifier: Apache-2.0 */
#include "c_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool c_is(const struct c_token *token, const char *spelling) {
    return token->kind != C_NUMBER && token->length == strlen(spelling) &&
           memcmp(token->at, spelling, token->length) == 0;
}

bool c_is_opener(const struct c_token *token) {
    return token->kind == C_MARK && strchr("([{", *token->at) != NULL;
}

bool c_is_closer(const struct c_token *token) {
    return token->kind == C_MARK && strchr(")]}", *token->at) != NULL;
}

bool c_is_same(const struct c_token *a, const struct c_token *b) {
    return a->kind == C_WORD && b->kind == C_WORD && a->length == b->length &&
           memcmp(a->at, b->at, a->length) == 0;
}

bool c_is_use(const struct c_text *text, size_t at, const struct c_token *name) {
    if (at == 0 || !c_is_same(&text->tokens[at], name))
        return false;
    const struct c_token *before = &text->tokens[at - 1];
    return !c_is(before, ".") && !c_is(before, "->") && !c_is(before, "struct");
}

size_t c_after_brackets(const struct c_text *text, size_t at) {
    int depth = 0;
    do {
        depth += c_is_opener(&text->tokens[at]) - c_is_closer(&text->tokens[at]);
        at++;
    } while (at < text->count && depth > 0);
    return at;
}

void c_erase(struct c_text *text, size_t first, size_t end) {
    memmove(text->tokens + first, text->tokens + end, (text->count - end) * sizeof *text->tokens);
    text->count -= end - first;
}

/* ---- Scanning ---- */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

size_t c_comment_length(const char *at) {
    const char *end = strstr(at + 2, "*/");
    return end ? (size_t)(end + 2 - at) : strlen(at);
}

static size_t directive_length(const char *at) {
    size_t length = strcspn(at, "\n");
    while (at[length] == '\n' && at[length - 1] == '\\')
        length += 1 + strcspn(at + length + 1, "\n");
    return length;
}

size_t c_quoted_length(const char *at) {
    size_t length = 1;
    while (at[length] != '\0' && at[length] != *at)
        length += at[length] == '\\' && at[length + 1] != '\0' ? 2 : 1;
    return length + (at[length] != '\0');
}

/* A number in C: 0x1.8p-3f, 112u, 1e-5f. */
static size_t number_length(const char *at) {
    size_t length = 0;
    bool is_hex = at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    while (is_word(at[length]) || at[length] == '.' ||
           ((at[length] == '-' || at[length] == '+') &&
            strchr(is_hex ? "pP" : "eE", at[length - 1]) != NULL))
        length++;
    return length;
}

static size_t mark_length(const char *at) {
    static const char *const marks[] = {"<<=", ">>=", "...", "->", "++", "--", "<<", ">>",
                                        "<=",  ">=",  "==",  "!=", "&&", "||", "+=", "-=",
                                        "*=",  "/=",  "%=",  "&=", "|=", "^="};
    if (at[1] == '\0' || strchr("<>=.-+&|", at[1]) == NULL)
        return 1;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strncmp(at, marks[i], strlen(marks[i])) == 0)
            return strlen(marks[i]);
    return 1;
}

/* Whether the text is a decimal integer that fits an int. */
static bool is_plain_number(const char *at, size_t length) {
    return length < 10 && strspn(at, "0123456789") == length && (length == 1 || *at != '0');
}

static void scan_token(struct c_token *token, const char *at) {
    token->at = at;
    token->kind = C_MARK;
    if (*at == '/' && at[1] == '*') {
        token->kind = C_COMMENT;
        token->length = c_comment_length(at);
    } else if (*at == '#') {
        token->kind = C_DIRECTIVE;
        token->length = directive_length(at);
    } else if (*at == '"' || *at == '\'') {
        token->kind = C_OTHER;
        token->length = c_quoted_length(at);
    } else if (isdigit((unsigned char)*at)) {
        token->length = number_length(at);
        token->kind = is_plain_number(at, token->length) ? C_NUMBER : C_OTHER;
        token->value = token->kind == C_NUMBER ? strtoll(at, NULL, 10) : 0;
    } else if (is_word(*at)) {
        token->kind = C_WORD;
        while (is_word(at[token->length]))
            token->length++;
    } else {
        token->length = mark_length(at);
        char after = at[token->length];
        token->is_binary = (token->space || token->lines > 0) &&
                           (after == ' ' || (after == '\n' && *at != '*')) &&
                           strchr("+-*/%<>=!&|^", *at) != NULL && !c_is(token, "=");
    }
}

bool c_text_scan(const char *text, struct c_text *tokens) {
    size_t room = 0;
    *tokens = (struct c_text){0};
    for (;;) {
        struct c_token token = {0};
        for (; *text == ' ' || *text == '\n'; text++) {
            token.lines += *text == '\n' && token.lines < 2;
            token.space = true;
        }
        if (*text == '\0')
            return true;
        if (tokens->count == room) {
            room = room * 2 + 1024;
            struct c_token *grown = realloc(tokens->tokens, room * sizeof *grown);
            if (grown == NULL)
                return false;
            tokens->tokens = grown;
        }
        scan_token(&token, text);
        tokens->tokens[tokens->count++] = token;
        text += token.length;
    }
}
