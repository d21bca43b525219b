/* Removes what a shape has made superfluous: loops of one turn, blocks that hold nothing apart, and
   calls of functions that do nothing.  Inner ones are removed before outer ones.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "c_text.h"

/* A function, or another item with braces, from its first token on; `body` is the brace. */
struct function {
    size_t first, body, end;
};

static const struct c_token *token_at(const struct c_text *text, size_t at) {
    static const struct c_token none = {.at = "", .kind = C_DIRECTIVE};
    return at < text->count ? &text->tokens[at] : &none;
}

static bool is_any(const struct c_token *token, const char *const *spellings) {
    for (; *spellings != NULL; spellings++)
        if (c_is(token, *spellings))
            return true;
    return false;
}

static void shorten(struct c_text *text, struct function *function, size_t first, size_t end) {
    c_erase(text, first, end);
    function->end -= end - first;
}

/* Whether a statement may begin at `at`. */
static bool begins_statement(const struct c_text *text, size_t at) {
    static const char *const ends[] = {";", "{", "}", NULL};
    const struct c_token *before = token_at(text, at - 1);
    return is_any(before, ends) || (before->kind == C_COMMENT && token_at(text, at)->lines > 0);
}

/* ---- Loops of one turn ---- */

enum { HEAD = 14 }; /* tokens of "for (TYPE NAME = 0; NAME < 1; NAME++)" */

static bool is_one_turn(const struct c_text *text, size_t at) {
    static const char *const head[HEAD] = {"for", "(", NULL, NULL, "=",  NULL, ";",
                                           NULL,  "<", NULL, ";",  NULL, "++", ")"};
    for (size_t i = 0; i < HEAD; i++)
        if (head[i] != NULL && !c_is(token_at(text, at + i), head[i]))
            return false;
    const struct c_token *name = token_at(text, at + 3), *from = token_at(text, at + 5);
    const struct c_token *to = token_at(text, at + 9);
    bool has_pragma = token_at(text, at - 1)->kind == C_DIRECTIVE;
    return !has_pragma && from->kind == C_NUMBER && from->value == 0 && to->kind == C_NUMBER &&
           to->value == 1 && c_is_same(token_at(text, at + 7), name) &&
           c_is_same(token_at(text, at + 11), name);
}

/* Returns the end of the statement at `at`. */
static size_t statement_end(const struct c_text *text, size_t at) {
    static const char *const heads[] = {"for", "if", "while", "switch", NULL};
    const struct c_token *token = token_at(text, at);
    if (token->kind == C_COMMENT || (token->kind == C_DIRECTIVE && at < text->count))
        return statement_end(text, at + 1);
    if (c_is(token, "{"))
        return c_after_brackets(text, at);
    if (is_any(token, heads)) {
        size_t end = statement_end(text, c_after_brackets(text, at + 1));
        return c_is(token_at(text, end), "else") ? statement_end(text, end + 1) : end;
    }
    while (at < text->count && !c_is(token_at(text, at), ";"))
        at = c_after_brackets(text, at);
    return at + 1;
}

/* Whether the word at `at` is a number that stays the same: it is not declared, set, or pointed to.
 */
static bool is_constant(const struct c_text *text, size_t at) {
    static const char *const before[] = {"&", "++", "--", NULL};
    static const char *const after[] = {
        "=", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", NULL};
    const struct c_token *previous = token_at(text, at - 1);
    bool is_declared = previous->kind == C_WORD && !c_is(previous, "return");
    bool is_pointed_to = !previous->is_binary && is_any(previous, before);
    return !is_declared && !is_pointed_to && !is_any(token_at(text, at + 1), after);
}

static bool may_unroll(const struct c_text *text, const struct c_token *name, size_t first,
                       size_t end) {
    static const char *const jumps[] = {"break", "continue", "goto", "do", NULL};
    for (size_t at = first; at < end; at++)
        if (is_any(token_at(text, at), jumps) ||
            (c_is_use(text, at, name) && !is_constant(text, at)))
            return false;
    return true;
}

/* Puts the brace of the body [at, end) on the line of its head, and an else on that of the brace.
 */
static void join_body(struct c_text *text, size_t at, size_t end) {
    text->tokens[at].lines = 0;
    if (c_is(token_at(text, end), "else")) {
        text->tokens[end].lines = 0;
        text->tokens[end].space = true;
    }
}

/* Replaces the loop at `at` by its body. */
static void unroll(struct c_text *text, struct function *function, size_t at) {
    const struct c_token head = *token_at(text, at), name = *token_at(text, at + 3);
    size_t end = statement_end(text, at + HEAD);
    if (!may_unroll(text, &name, at + HEAD, end))
        return;
    for (size_t i = at + HEAD; i < end; i++)
        if (c_is_use(text, i, &name)) {
            text->tokens[i].kind = C_NUMBER;
            text->tokens[i].value = 0;
        }
    shorten(text, function, at, at + HEAD);
    text->tokens[at].lines = head.lines;
    text->tokens[at].space = true;
    if (c_is(token_at(text, at), "{") && !begins_statement(text, at))
        join_body(text, at, end - HEAD);
}

/* ---- Blocks ---- */

/* Whether a declaration begins at `at`, rather than another statement. */
static bool is_declaration(const struct c_text *text, size_t at) {
    static const char *const others[] = {"return", "goto", "else", "case", "do", NULL};
    static const char *const attributes[] = {"__attribute__", "_Alignas", NULL};
    const struct c_token *token = token_at(text, at), *next = token_at(text, at + 1);
    bool is_typed =
        next->kind == C_WORD || c_is(next, "{") || (c_is(next, "*") && !next->is_binary);
    return token->kind == C_WORD && !is_any(token, others) &&
           (is_typed || is_any(token, attributes));
}

/* Whether the word at `at` of a declaration, outside brackets, is what it declares. */
static bool is_declared(const struct c_text *text, size_t at) {
    static const char *const after[] = {"=", ";", "[", ",", NULL};
    if (token_at(text, at)->kind != C_WORD || !is_any(token_at(text, at + 1), after))
        return false;
    while (c_is(token_at(text, at - 1), "*") && !token_at(text, at - 1)->is_binary)
        at--;
    const struct c_token *before = token_at(text, at - 1);
    return before->kind == C_WORD || c_is(before, ",") || c_is(before, ")");
}

static bool is_named_outside(const struct c_text *text, const struct function *function,
                             size_t first, size_t end, const struct c_token *name) {
    for (size_t at = function->first; at < function->end; at++) {
        if (at == first)
            at = end;
        if (c_is_use(text, at, name))
            return true;
    }
    return false;
}

/* Whether the declaration at `at` of the block [first, end) has a name that the function uses
   outside of the block, or declares a type. */
static bool clashes(const struct c_text *text, const struct function *function, size_t first,
                    size_t end, size_t at) {
    for (size_t next; at < end && !c_is(token_at(text, at), ";"); at = next) {
        next = c_after_brackets(text, at);
        bool is_type = c_is(token_at(text, at), "{") && token_at(text, at - 1)->kind == C_WORD;
        if (is_type || (is_declared(text, at) &&
                        is_named_outside(text, function, first, end, token_at(text, at))))
            return true;
    }
    return false;
}

/* Whether a block among statements begins at `at`. */
static bool is_block(const struct c_text *text, size_t at) {
    return c_is(token_at(text, at), "{") && token_at(text, at + 1)->lines > 0 &&
           begins_statement(text, at);
}

/* Whether the block [first, end) is all that another block holds. */
static bool is_whole_block(const struct c_text *text, const struct function *function, size_t first,
                           size_t end) {
    return first - 1 > function->body && c_is(token_at(text, first - 1), "{") &&
           c_is(token_at(text, end), "}");
}

/* Removes the braces of the block at `at`, unless its names would then mean something else. */
static void flatten(struct c_text *text, struct function *function, size_t at) {
    size_t end = c_after_brackets(text, at);
    bool is_whole = is_whole_block(text, function, at, end);
    for (size_t i = at + 1; !is_whole && i < end - 1; i = c_after_brackets(text, i))
        if (begins_statement(text, i) && is_declaration(text, i) &&
            clashes(text, function, at, end, i))
            return;
    int lines = token_at(text, at)->lines;
    shorten(text, function, end - 1, end);
    shorten(text, function, at, at + 1);
    text->tokens[at].lines = lines;
}

/* ---- Functions that do nothing ---- */

/* Whether the body at `at` has nothing but "(void)NAME;" and "(void)NAME, (void)NAME;". */
static bool is_idle(const struct c_text *text, size_t at) {
    static const char *const ends[] = {";", ",", NULL};
    for (at++; c_is(token_at(text, at), "(") && c_is(token_at(text, at + 1), "void") &&
               is_any(token_at(text, at + 4), ends);)
        at += 5;
    return c_is(token_at(text, at), "}");
}

/* Whether the statement at `at` is a call of `name` whose arguments only name or compute: the first
   parenthesis that closes is the call's. */
static bool is_plain_call(const struct c_text *text, size_t at, const struct c_token *name) {
    if (!c_is_use(text, at, name) || !c_is(token_at(text, at + 1), "(") ||
        !begins_statement(text, at))
        return false;
    for (at += 2; !c_is(token_at(text, at), ")"); at++)
        if (at >= text->count)
            return false;
    return c_is(token_at(text, at + 1), ";");
}

static void drop_calls(struct c_text *text, const struct function *idle) {
    size_t at = idle->body - 1;
    while (at > idle->first && !c_is(token_at(text, at), "("))
        at--;
    const struct c_token name = *token_at(text, at - 1);
    for (at = text->count; at-- > idle->end;)
        if (is_plain_call(text, at, &name))
            c_erase(text, at, statement_end(text, at));
}

/* ---- All functions ---- */

/* Finds the next item with braces from `at` on. */
static bool find_function(const struct c_text *text, size_t at, struct function *function) {
    function->first = at;
    for (; at < text->count; at = c_after_brackets(text, at)) {
        if (c_is(token_at(text, at), ";"))
            function->first = at + 1;
        if (c_is(token_at(text, at), "{")) {
            function->body = at;
            function->end = c_after_brackets(text, at);
            return true;
        }
    }
    return false;
}

void c_text_flatten(struct c_text *text) {
    struct function function;
    for (size_t next = 0; find_function(text, next, &function); next = function.end) {
        for (size_t at = function.end; at-- > function.body + 1;) {
            if (is_one_turn(text, at))
                unroll(text, &function, at);
            if (is_block(text, at))
                flatten(text, &function, at);
        }
        if (c_is(token_at(text, function.body - 1), ")") && is_idle(text, function.body))
            drop_calls(text, &function);
    }
}
