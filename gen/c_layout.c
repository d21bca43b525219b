/* Lays out lines as a person would write them: four spaces for each level, at most 120 characters,
   no superfluous blank lines.  The templates determine the lines, except for statements that
   continue on the next line.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "c_text.h"

enum { STEP = 4, WIDTH = 120, LEAST_FILLED = 48, MOST_ALIGNED = 40, MOST_NESTED = 64 };
/* Ranks of places where a line may end: by open brackets, then by how tightly the operator
   binds. */
enum { BINDINGS = 32, MOST_RANK = MOST_NESTED * BINDINGS };

/* Heads of loops and conditions that still wait for their statement: 'i' for an if, 'l' for any
   other. */
struct heads {
    char heads[MOST_NESTED];
    int count;
};

/* The level around a block, the level of the line that begins it, and the heads before it. */
struct block {
    int level, own;
    struct heads heads;
};

struct layout {
    const struct c_text *tokens;
    struct text *text;
    struct block blocks[MOST_NESTED];
    int depth, level;           /* of blocks; of lines in the innermost block */
    struct heads heads, before; /* now; when the last statement ended */
    bool done;
};

static const struct c_token *token_at(const struct layout *layout, size_t at) {
    return &layout->tokens->tokens[at];
}

static size_t width_of(const struct c_token *token) {
    char digits[24];
    return token->kind == C_NUMBER
               ? (size_t)snprintf(digits, sizeof digits, "%" PRId64, token->value)
               : token->length;
}

static void put(struct layout *layout, const struct c_token *token) {
    layout->done = layout->done &&
                   (token->kind == C_NUMBER ? text_print(layout->text, "%" PRId64, token->value)
                                            : text_append(layout->text, token->at, token->length));
}

static void put_blanks(struct layout *layout, size_t count) {
    static const char blanks[] = "                                ";
    for (size_t some; layout->done && count > 0; count -= some) {
        some = count < sizeof blanks - 1 ? count : sizeof blanks - 1;
        layout->done = text_append(layout->text, blanks, some);
    }
}

/* ---- Long lines ---- */

/* The open brackets, and the column in which the contents of each begin. */
struct nest {
    size_t columns[MOST_NESTED];
    int depth;
};

static void enter(struct nest *nest, const struct c_token *token, size_t column) {
    if (c_is_opener(token) && nest->depth + 1 < MOST_NESTED)
        nest->columns[++nest->depth] = column;
    else if (c_is_closer(token) && nest->depth > 0)
        nest->depth--;
}

/* Whether a line may end after a token.  line_end() ends one after a bracket only as a last
   resort. */
static bool may_break(const struct c_token *token, const struct c_token *next) {
    return next->space &&
           (token->is_binary || (token->kind == C_MARK && strchr(",?:;=", *token->at) != NULL) ||
            (token->kind == C_OTHER && next->kind == C_OTHER));
}

/* Adjacent strings stay on separate lines if the template has them on separate lines. */
static bool parts_string(const struct c_token *token, const struct c_token *next) {
    return token->kind == C_OTHER && next->kind == C_OTHER && next->lines > 0;
}

/* Returns where a line that begins with `first` in `column` ends: of the places past LEAST_FILLED,
   the last one with the fewest open brackets. */
static size_t line_end(const struct layout *layout, size_t first, size_t end, size_t column,
                       struct nest nest) {
    const size_t filled = column + LEAST_FILLED;
    size_t best = end;
    int least = MOST_RANK + 1;
    for (size_t at = first; at < end; at++) {
        const struct c_token *token = token_at(layout, at);
        column += (at > first && token->space) + width_of(token);
        if (column > WIDTH)
            return best;
        enter(&nest, token, column);
        if (at + 1 < end && parts_string(token, &token[1]))
            return at + 1;
        int rank = column >= filled ? nest.depth * BINDINGS + c_binding(token) : MOST_RANK;
        bool is_last_resort = least > MOST_RANK && c_is(token, "(") && column >= filled;
        if (is_last_resort || (at + 1 < end && may_break(token, &token[1]) && rank <= least)) {
            best = at + 1;
            least = is_last_resort ? MOST_RANK + 1 : rank;
        }
    }
    return end;
}

static size_t rest_width(const struct layout *layout, size_t first, size_t end) {
    size_t width = 0;
    for (size_t at = first; at < end; at++)
        width += (at > first && token_at(layout, at)->space) + width_of(token_at(layout, at));
    return width;
}

/* Returns the column of the continuation line [first, end): below the contents of the bracket,
   unless that is too far to the right. */
static size_t continuation(const struct layout *layout, size_t first, size_t end,
                           struct nest *nest) {
    if (c_is(token_at(layout, first - 1), "("))
        nest->columns[nest->depth] = nest->columns[0] + STEP;
    size_t column = nest->columns[nest->depth];
    bool fits = column + rest_width(layout, first, end) <= WIDTH;
    return column > MOST_ALIGNED && !fits ? nest->columns[0] : column;
}

/* Writes tokens [first, end), from `column` on, in as many lines as they need. */
static void put_wrapped(struct layout *layout, size_t first, size_t end, size_t column) {
    struct nest nest = {.columns = {column + STEP}};
    const struct c_token *head = token_at(layout, first);
    if (c_is(head, "return"))
        nest.columns[0] = column + strlen("return ");
    while (first < end) {
        size_t stop = line_end(layout, first, end, column, nest);
        for (size_t at = first; at < stop; at++) {
            const struct c_token *token = token_at(layout, at);
            if (at > first && token->space)
                put_blanks(layout, 1), column++;
            put(layout, token);
            column += width_of(token);
            enter(&nest, token, column);
        }
        if ((first = stop) < end) {
            column = continuation(layout, first, end, &nest);
            layout->done = layout->done && text_append(layout->text, "\n", 1);
            put_blanks(layout, column);
        }
    }
}

/* ---- Statements ---- */

/* Whether the line ends after token `at`: all brackets are closed, and the statement or its head is
   complete. */
static bool is_complete(const struct layout *layout, size_t first, size_t at, int nest) {
    const struct c_token *token = token_at(layout, at), *head = token_at(layout, first);
    static const char *const heads[] = {"for", "if", "while", "else"};
    if (c_is(head, "}") && at > first)
        head++;
    if (nest > 0 || token->is_binary)
        return false;
    if (layout->depth == 0 || (token->kind == C_MARK && strchr(";{},", *token->at) != NULL))
        return !c_is(token, "=");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (c_is(head, heads[i]))
            return c_is(token, ")") || c_is(token, "else");
    return false;
}

/* Returns the end of the line that begins with `first`: after a '{' or a comment that ends a line
   of the template, or where the statement is complete. */
static size_t statement_end(const struct layout *layout, size_t first) {
    int nest = 0;
    for (size_t at = first; at < layout->tokens->count; at++) {
        const struct c_token *token = token_at(layout, at);
        bool is_last = at + 1 == layout->tokens->count || token[1].lines > 0;
        bool is_block = is_last && c_is(token, "{");
        nest += !is_block && c_is_opener(token);
        nest -= nest > 0 && c_is_closer(token);
        if (is_last && (is_block || token->kind == C_COMMENT || token->kind == C_DIRECTIVE))
            return at + 1;
        if (is_last && is_complete(layout, first, at, nest))
            return at + 1;
    }
    return layout->tokens->count;
}

static void push_head(struct heads *heads, char head) {
    if (heads->count < MOST_NESTED)
        heads->heads[heads->count++] = head;
}

/* Gives an else the indentation of its if. */
static void return_to_if(struct layout *layout) {
    layout->heads = layout->before;
    while (layout->heads.count > 0 && layout->heads.heads[layout->heads.count - 1] != 'i')
        layout->heads.count--;
    layout->heads.count -= layout->heads.count > 0;
}

static void close_block(struct layout *layout) {
    layout->depth -= layout->depth > 0;
    layout->level = layout->blocks[layout->depth].level;
    layout->before = layout->blocks[layout->depth].heads;
    layout->heads = (struct heads){.count = 0};
}

/* Returns the kind of head that a statement begins with: 'i', 'l', or 0 for no head. */
static char head_of(const struct layout *layout, size_t first, size_t end) {
    const struct c_token *token = token_at(layout, first);
    if (c_is(token, "else"))
        return first + 1 < end && c_is(&token[1], "if") ? 'i' : 'l';
    return c_is(token, "if") ? 'i' : c_is(token, "for") || c_is(token, "while") ? 'l' : '\0';
}

/* Updates level and heads for the line after [first, end). */
static void follow(struct layout *layout, size_t first, size_t end) {
    char head = head_of(layout, first, end);
    const struct c_token *last = token_at(layout, end - 1);
    while (last->kind == C_COMMENT && last > token_at(layout, first))
        last--;
    if (head != '\0' && !c_is(last, ";"))
        push_head(&layout->heads, head);
    if (c_is(last, "{") && layout->depth + 1 < MOST_NESTED) {
        int own = layout->level + layout->heads.count - (head != '\0');
        layout->blocks[layout->depth++] = (struct block){layout->level, own, layout->heads};
        layout->level = own + 1;
        layout->heads = (struct heads){.count = 0};
    } else if (c_is(last, ";")) {
        if (head == 'i')
            push_head(&layout->heads, head);
        layout->before = layout->heads;
        layout->heads = (struct heads){.count = 0};
    }
}

/* Writes a line, which may begin with a '}' and continue with the next part of the same
   statement. */
static void put_statement(struct layout *layout, size_t first, size_t end) {
    size_t at = first;
    if (c_is(token_at(layout, first), "}")) {
        close_block(layout);
        at++;
    }
    if (at < end && c_is(token_at(layout, at), "else"))
        return_to_if(layout);
    int own = at > first ? layout->blocks[layout->depth].own : layout->level + layout->heads.count;
    size_t level = (size_t)own;
    put_blanks(layout, level * STEP);
    put_wrapped(layout, first, end, level * STEP);
    if (at < end)
        follow(layout, at, end);
}

static bool wants_blank_line(const struct layout *layout, size_t first) {
    const struct c_token *token = token_at(layout, first), *last = token - 1;
    if (first == 0 || c_is(token, "}") || c_is(last, "{"))
        return false;
    return token->lines > 1 || (layout->depth == 0 && c_is(last, "}"));
}

bool c_text_lay_out(const struct c_text *tokens, struct text *text) {
    struct layout layout = {.tokens = tokens, .text = text, .done = true};
    for (size_t first = 0, end; layout.done && first < tokens->count; first = end) {
        end = statement_end(&layout, first);
        if (wants_blank_line(&layout, first))
            layout.done = text_append(text, "\n", 1);
        put_statement(&layout, first, end);
        layout.done = layout.done && text_append(text, "\n", 1);
    }
    return layout.done;
}
