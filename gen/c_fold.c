/* Computes what the shape makes constant, and removes redundant parentheses.  Tokens are pushed one
   by one.  After each, the last tokens are examined together with the next one.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "c_text.h"

/* How tightly operators bind.  Tokens that are no operators, or that end an expression, bind
   least. */
enum { BINDS_LEAST = 0, BINDS_SHIFT = 8, BINDS_SUM = 9, BINDS_PRODUCT = 10, BINDS_MOST = 20 };

int c_binding(const struct c_token *mark) {
    static const struct {
        const char *marks;
        int binding;
    } table[] = {{"|| ", 1},          {"&& ", 2},
                 {"| ", 3},           {"^ ", 4},
                 {"& ", 5},           {"== != ", 6},
                 {"< > <= >= ", 7},   {"<< >> ", BINDS_SHIFT},
                 {"+ - ", BINDS_SUM}, {"* / % ", BINDS_PRODUCT}};
    char spelled[8] = "";
    if (!mark->is_binary || mark->length > 2)
        return BINDS_LEAST;
    memcpy(spelled, mark->at, mark->length);
    strcat(spelled, " ");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (const char *at = table[i].marks; (at = strstr(at, spelled)) != NULL; at++)
            if (at == table[i].marks || at[-1] == ' ')
                return table[i].binding;
    return BINDS_LEAST; /* assignments */
}

/* Returns how tightly a token in front of an operand binds it. */
static int binding_before(const struct c_token *token) {
    if (token->kind == C_WORD)
        return c_is(token, "return") ? BINDS_LEAST : BINDS_MOST;
    if (token->kind != C_MARK || c_is_closer(token))
        return BINDS_MOST;
    if (token->is_binary)
        return c_binding(token);
    return c_is_opener(token) || strchr(",;?:=", *token->at) != NULL ? BINDS_LEAST : BINDS_MOST;
}

/* Returns how tightly a token after an operand binds it. */
static int binding_after(const struct c_token *token) {
    if (token->kind != C_MARK)
        return BINDS_MOST;
    if (token->is_binary)
        return c_binding(token);
    return strchr(")],;?:}", *token->at) != NULL || c_is(token, "=") ? BINDS_LEAST : BINDS_MOST;
}

/* ---- The last tokens pushed ---- */

struct folder {
    struct c_token *tokens;
    size_t count;
    struct c_token *next;
};

/* Returns the token at `back` from the end, where 1 is the last; a token that matches nothing if
   there are fewer. */
static const struct c_token *last(const struct folder *folder, size_t back) {
    static const struct c_token none = {.at = "", .kind = C_DIRECTIVE};
    return back > folder->count ? &none : &folder->tokens[folder->count - back];
}

static bool is_number(const struct folder *folder, size_t back, int64_t value) {
    return last(folder, back)->kind == C_NUMBER && last(folder, back)->value == value;
}

static bool is_operator(const struct folder *folder, size_t back, const char *spelling) {
    return last(folder, back)->is_binary && c_is(last(folder, back), spelling);
}

/* Removes `count` tokens, the first at `back` from the end.  The token after them takes over their
   line break and space. */
static bool drop(struct folder *folder, size_t back, size_t count) {
    struct c_token *first = &folder->tokens[folder->count - back];
    if (back > count) {
        first[count].lines = first->lines;
        first[count].space = first->space;
    }
    memmove(first, first + count, (back - count) * sizeof *first);
    folder->count -= count;
    return true;
}

/* ---- Numbers ---- */

static bool compute(char operator, int64_t a, int64_t b, int64_t *result) {
    if ((operator== '/' || operator== '%') && b == 0)
        return false;
    *result = operator== '+' ? a + b :
              operator== '-' ? a - b
              :
              operator== '*' ? a * b
              :
              operator== '/' ? a / b
                             : a % b;
    return *result >= 0 && *result <= INT32_MAX;
}

/* Folds A + B, where the operator before A binds less. */
static bool fold_numbers(struct folder *folder) {
    const struct c_token *mark = last(folder, 2);
    int64_t result;
    if (last(folder, 1)->kind != C_NUMBER || last(folder, 3)->kind != C_NUMBER ||
        !mark->is_binary || c_binding(mark) < BINDS_SUM ||
        binding_before(last(folder, 4)) >= c_binding(mark) ||
        binding_after(folder->next) > c_binding(mark) ||
        !compute(*mark->at, last(folder, 3)->value, last(folder, 1)->value, &result))
        return false;
    folder->tokens[folder->count - 3].value = result;
    return drop(folder, 2, 2);
}

/* Folds X + A + B and X * A * B. */
static bool fold_chain(struct folder *folder) {
    int64_t result;
    for (int product = 0; product < 2; product++) {
        const char *mark = product ? "*" : "+";
        if (last(folder, 1)->kind == C_NUMBER && is_operator(folder, 2, mark) &&
            last(folder, 3)->kind == C_NUMBER && is_operator(folder, 4, mark) &&
            binding_after(folder->next) <= c_binding(last(folder, 2)) &&
            compute(*mark, last(folder, 3)->value, last(folder, 1)->value, &result)) {
            folder->tokens[folder->count - 3].value = result;
            return drop(folder, 2, 2);
        }
    }
    return false;
}

/* Folds A * INT64_C(B). */
static bool fold_long_product(struct folder *folder) {
    int64_t result;
    if (!c_is(last(folder, 1), ")") || last(folder, 2)->kind != C_NUMBER ||
        !c_is(last(folder, 4), "INT64_C") || !is_operator(folder, 5, "*") ||
        last(folder, 6)->kind != C_NUMBER || binding_before(last(folder, 7)) >= BINDS_PRODUCT ||
        binding_after(folder->next) > BINDS_PRODUCT ||
        !compute('*', last(folder, 6)->value, last(folder, 2)->value, &result))
        return false;
    folder->tokens[folder->count - 6].value = result;
    return drop(folder, 5, 5);
}

/* Folds X + INT64_C(A), where A fits an int. */
static bool fold_long_term(struct folder *folder) {
    return c_is(last(folder, 1), ")") && last(folder, 2)->kind == C_NUMBER &&
           c_is(last(folder, 4), "INT64_C") && is_operator(folder, 5, "+") &&
           binding_after(folder->next) <= BINDS_SUM && drop(folder, 1, 1) && drop(folder, 3, 2);
}

/* Folds X + 0, X - 0, X * 1, X / 1, X << 0 and X >> 0. */
static bool fold_neutral_right(struct folder *folder) {
    int after = binding_after(folder->next);
    bool shift = is_number(folder, 1, 0) &&
                 (is_operator(folder, 2, "<<") || is_operator(folder, 2, ">>")) &&
                 after <= BINDS_SHIFT;
    bool sum = is_number(folder, 1, 0) &&
               (is_operator(folder, 2, "+") || is_operator(folder, 2, "-")) && after <= BINDS_SUM;
    bool product = is_number(folder, 1, 1) &&
                   (is_operator(folder, 2, "*") || is_operator(folder, 2, "/")) &&
                   after <= BINDS_PRODUCT;
    return (shift || sum || product) && drop(folder, 2, 2);
}

/* Folds 0 + X and 1 * X. */
static bool fold_neutral_left(struct folder *folder) {
    int before = binding_before(last(folder, 3));
    bool sum = is_number(folder, 2, 0) && is_operator(folder, 1, "+") && before < BINDS_SUM;
    bool product = is_number(folder, 2, 1) && is_operator(folder, 1, "*") && before < BINDS_PRODUCT;
    if (!sum && !product)
        return false;
    folder->next->lines = last(folder, 2)->lines;
    folder->next->space = last(folder, 2)->space;
    return drop(folder, 2, 2);
}

/* Returns the number of tokens of a name with members (a.b->c) that ends at `back`, or 0. */
static size_t name_length(const struct folder *folder, size_t back) {
    size_t length = 0;
    while (last(folder, back + length)->kind == C_WORD) {
        length++;
        if (!c_is(last(folder, back + length), ".") && !c_is(last(folder, back + length), "->"))
            return length;
        length++;
    }
    return 0;
}

/* Folds 0 * NAME and NAME * 0. */
static bool fold_zero(struct folder *folder) {
    size_t length = name_length(folder, 1);
    if (binding_after(folder->next) > BINDS_PRODUCT)
        return false;
    if (length > 0 && is_operator(folder, length + 1, "*") && is_number(folder, length + 2, 0) &&
        binding_before(last(folder, length + 3)) < BINDS_PRODUCT)
        return drop(folder, length + 1, length + 1);
    length = name_length(folder, 3);
    return is_number(folder, 1, 0) && is_operator(folder, 2, "*") && length > 0 &&
           binding_before(last(folder, length + 3)) < BINDS_PRODUCT &&
           drop(folder, length + 2, length + 1);
}

/* Folds A * (B * NAME). */
static bool fold_factors(struct folder *folder) {
    size_t length = name_length(folder, 2), first = length + 4;
    int64_t result;
    if (!c_is(last(folder, 1), ")") || length == 0 || !is_operator(folder, length + 2, "*") ||
        last(folder, length + 3)->kind != C_NUMBER || !c_is(last(folder, first), "(") ||
        !is_operator(folder, first + 1, "*") || last(folder, first + 2)->kind != C_NUMBER ||
        binding_before(last(folder, first + 3)) >= BINDS_PRODUCT ||
        binding_after(folder->next) > BINDS_PRODUCT ||
        !compute('*', last(folder, first + 2)->value, last(folder, length + 3)->value, &result))
        return false;
    folder->tokens[folder->count - first - 2].value = result;
    return drop(folder, 1, 1) && drop(folder, first, 3);
}

/* ---- Parentheses ---- */

/* Returns the position from the end of the bracket that the last token closes, or 0 if it has
   none. */
static size_t opener_of_last(const struct folder *folder) {
    int depth = 0;
    for (size_t back = 1; back <= folder->count; back++) {
        depth += c_is_closer(last(folder, back)) - c_is_opener(last(folder, back));
        if (depth == 0)
            return back;
    }
    return 0;
}

/* Returns the least binding operator between parentheses, or -1 if they hold a list or nothing. */
static int binding_within(const struct folder *folder, size_t back) {
    int depth = 0, least = BINDS_MOST;
    for (size_t at = back - 1; at > 1; at--) {
        const struct c_token *token = last(folder, at);
        depth += c_is_opener(token) - c_is_closer(token);
        if (depth != 0 || token->kind != C_MARK)
            continue;
        if (strchr(",;{", *token->at) != NULL || c_is(token, "="))
            return -1;
        int binding = token->is_binary            ? c_binding(token)
                      : strchr("?:=", *token->at) ? 0
                                                  : BINDS_MOST;
        least = binding < least ? binding : least;
    }
    return back > 2 ? least : -1;
}

/* Whether the parentheses are (TYPE) in front of an operand. */
static bool is_cast(const struct folder *folder) {
    bool is_operand_next =
        folder->next->kind != C_MARK || c_is_opener(folder->next) ||
        (!folder->next->is_binary && strchr("+-*&~!", *folder->next->at) != NULL);
    return is_operand_next || c_is(last(folder, 2), "*");
}

/* Sums next to bit operators and shifts keep their parentheses: compilers warn without them. */
static bool is_plain(int binding) {
    return binding == BINDS_LEAST || binding >= BINDS_SUM;
}

static bool drop_parentheses(struct folder *folder) {
    size_t back = c_is(last(folder, 1), ")") ? opener_of_last(folder) : 0;
    if (back == 0 || is_cast(folder) || c_is(last(folder, back + 2), "__attribute__"))
        return false;
    int within = binding_within(folder, back), before = binding_before(last(folder, back + 1));
    int after = binding_after(folder->next);
    bool is_whole = before == BINDS_LEAST && after == BINDS_LEAST && within >= 0 &&
                    !c_is(last(folder, back + 1), "?") && !c_is(last(folder, back + 1), ":") &&
                    !c_is(folder->next, "?") && !c_is(folder->next, ":");
    bool is_clear = within >= BINDS_SUM && before < within && after <= within && is_plain(before) &&
                    is_plain(after);
    bool is_pointer_cast = c_is(last(folder, back + 1), ")") && c_is(last(folder, back + 2), "*");
    bool is_operand = last(folder, back + 1)->kind == C_MARK &&
                      strchr("*&-~!", *last(folder, back + 1)->at) != NULL;
    bool is_term = within == BINDS_MOST && back == 3 &&
                   (before < BINDS_MOST || is_pointer_cast || is_operand) && after < BINDS_MOST;
    if (!is_whole && !is_clear && !is_term)
        return false;
    return drop(folder, 1, 1) && drop(folder, back - 1, 1);
}

/* Folds (NAME + X)[0] to NAME[X]. */
static bool fold_element(struct folder *folder) {
    bool is_first = c_is(last(folder, 1), "]") && is_number(folder, 2, 0) &&
                    c_is(last(folder, 3), "[") && c_is(last(folder, 4), ")");
    if (!is_first)
        return false;
    struct folder inner = *folder;
    inner.count -= 3;
    size_t back = opener_of_last(&inner);
    if (last(&inner, back - 1)->kind != C_WORD || !is_operator(&inner, back - 2, "+") ||
        binding_within(&inner, back) < BINDS_SUM ||
        binding_before(last(&inner, back + 1)) >= BINDS_MOST)
        return false;
    struct c_token *name = &folder->tokens[inner.count - back + 1];
    name[1] = (struct c_token){.at = "[", .length = 1, .kind = C_MARK};
    name[2].space = false;
    name[2].lines = 0;
    folder->tokens[inner.count - 1] = *last(folder, 1);
    folder->count -= 3;
    return drop(folder, back, 1);
}

void c_text_fold(struct c_text *tokens) {
    struct folder folder = {.tokens = tokens->tokens};
    for (size_t i = 0; i < tokens->count; i++) {
        tokens->tokens[folder.count++] = tokens->tokens[i];
        if (i + 1 == tokens->count)
            break;
        folder.next = &tokens->tokens[i + 1];
        while (fold_numbers(&folder) || fold_chain(&folder) || fold_long_term(&folder) ||
               fold_long_product(&folder) || fold_neutral_right(&folder) ||
               fold_neutral_left(&folder) || fold_zero(&folder) || fold_factors(&folder) ||
               fold_element(&folder) || drop_parentheses(&folder))
            continue;
    }
    tokens->count = folder.count;
}
