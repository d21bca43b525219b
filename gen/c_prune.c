/* Removes functions, types and objects that are defined and never named elsewhere in the file, and
   moves functions that are called before they are defined.  "(void)name;" in a template says that
   the name may be unused.  If it is, its declaration is removed too; otherwise only the statement
   is.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "c_text.h"

/* ---- Items of a file: directives, declarations and functions ---- */

struct item {
    size_t first, end;
    struct c_token name; /* C_OTHER: visible elsewhere or unnamed; C_MARK: an enum */
    bool is_enum, is_used, is_moved;
};

/* A name, and the item that defines it. */
struct name {
    struct c_token word;
    size_t item;
};

struct items {
    struct item *items;
    size_t count, room;
    struct name *names; /* sorted */
    size_t name_count;
};

/* Returns the end of the item that begins at `at`: a directive, a declaration with its ';', or a
   function with its body. */
static size_t item_end(const struct c_text *text, size_t at) {
    bool is_function = false;
    if (text->tokens[at].kind == C_DIRECTIVE)
        return at + 1;
    while (at < text->count && !c_is(&text->tokens[at], ";")) {
        bool is_body = is_function && c_is(&text->tokens[at], "{");
        is_function = c_is(&text->tokens[at], "(");
        at = c_after_brackets(text, at);
        if (is_body)
            return at;
    }
    return at + (at < text->count);
}

/* Sets the item's name: the last word before the parameters, before '=', '[' or ';', or before the
   attributes of a type. */
static void name_declared(const struct c_text *text, size_t at, size_t end, struct item *item) {
    bool is_type = c_is(&text->tokens[at], "typedef"), is_own = is_type;
    struct c_token name = {.kind = C_OTHER};
    for (; at < end && strchr("([{=;", *text->tokens[at].at) == NULL; at++) {
        if (c_is(&text->tokens[at], "__attribute__")) {
            if (is_type)
                break;
            at = c_after_brackets(text, at + 1) - 1;
            continue;
        }
        is_own |= c_is(&text->tokens[at], "static") || c_is(&text->tokens[at], "INLINED");
        item->is_enum |= c_is(&text->tokens[at], "enum") && c_is(&text->tokens[at + 1], "{");
        if (text->tokens[at].kind == C_WORD)
            name = text->tokens[at];
    }
    if (item->is_enum)
        item->name.kind = C_MARK;
    else if (is_own || c_is(&text->tokens[at], "{"))
        item->name = name;
}

static void name_directive(const struct c_token *directive, struct item *item) {
    static const char define[] = "#define ";
    if (strncmp(directive->at, define, strlen(define)) != 0)
        return;
    item->name = (struct c_token){.at = directive->at + strlen(define), .kind = C_WORD};
    item->name.length = strcspn(item->name.at, " (");
}

static bool find_items(const struct c_text *text, struct items *items) {
    for (size_t at = 0; at < text->count; at = items->items[items->count++].end) {
        if (items->count == items->room) {
            items->room = items->room * 2 + 64;
            struct item *grown = realloc(items->items, items->room * sizeof *grown);
            if (grown == NULL)
                return false;
            items->items = grown;
        }
        struct item *item = &items->items[items->count];
        *item = (struct item){.first = at, .end = text->count, .name = {.kind = C_OTHER}};
        while (at < text->count && text->tokens[at].kind == C_COMMENT)
            at++;
        if (at == text->count)
            continue;
        item->end = item_end(text, at);
        if (text->tokens[at].kind == C_DIRECTIVE)
            name_directive(&text->tokens[at], item);
        else
            name_declared(text, at, item->end, item);
    }
    return true;
}

/* ---- Names ---- */

static int compare_words(const struct c_token *a, const struct c_token *b) {
    return a->length != b->length ? (a->length > b->length) - (a->length < b->length)
                                  : memcmp(a->at, b->at, a->length);
}

static int compare_names(const void *a, const void *b) {
    return compare_words(&((const struct name *)a)->word, &((const struct name *)b)->word);
}

static void add_name(struct items *items, const struct c_token *word, size_t item) {
    if (word->kind == C_WORD)
        items->names[items->name_count++] = (struct name){*word, item};
}

static void add_constants(const struct c_text *text, struct items *items, size_t item) {
    for (size_t at = items->items[item].first + 1; at < items->items[item].end; at++)
        if (c_is(&text->tokens[at - 1], "{") || c_is(&text->tokens[at - 1], ","))
            add_name(items, &text->tokens[at], item);
}

static bool find_names(const struct c_text *text, struct items *items) {
    items->names = malloc((text->count + items->count + 1) * sizeof *items->names);
    if (items->names == NULL)
        return false;
    for (size_t i = 0; i < items->count; i++) {
        add_name(items, &items->items[i].name, i);
        if (items->items[i].is_enum)
            add_constants(text, items, i);
    }
    qsort(items->names, items->name_count, sizeof *items->names, compare_names);
    return true;
}

/* Returns the first of the names that are the word, or NULL; the others follow it. */
static const struct name *names_of(const struct items *items, const struct c_token *word) {
    size_t low = 0, high = word->kind == C_WORD ? items->name_count : 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare_words(&items->names[middle].word, word) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_found = low < items->name_count && c_is_same(&items->names[low].word, word);
    return is_found ? &items->names[low] : NULL;
}

/* ---- Uses ---- */

/* Marks an item, and all items that it names, as used. */
static void use(const struct c_text *text, struct items *items, struct item *item) {
    const struct name *end = items->names + items->name_count;
    item->is_used = true;
    for (size_t at = item->first; at < item->end; at++)
        for (const struct name *name = names_of(items, &text->tokens[at]);
             name != NULL && name < end && c_is_same(&name->word, &text->tokens[at]); name++)
            if (!items->items[name->item].is_used)
                use(text, items, &items->items[name->item]);
}

/* Moves an item, after the functions that it calls. */
static void move(const struct c_text *text, struct items *items, struct item *item,
                 struct c_text *moved) {
    item->is_moved = true;
    for (size_t at = item->first; at < item->end; at++) {
        const struct name *name = at + 1 < item->end && c_is(&text->tokens[at + 1], "(")
                                      ? names_of(items, &text->tokens[at])
                                      : NULL;
        if (name != NULL && !items->items[name->item].is_moved)
            move(text, items, &items->items[name->item], moved);
    }
    memcpy(moved->tokens + moved->count, text->tokens + item->first,
           (item->end - item->first) * sizeof *text->tokens);
    moved->count += item->end - item->first;
}

static void keep_used(struct c_text *text, struct items *items, struct c_text *moved) {
    for (size_t i = 0; i < items->count; i++)
        if (items->items[i].name.kind == C_OTHER && !items->items[i].is_used)
            use(text, items, &items->items[i]);
    for (size_t i = 0; i < items->count; i++)
        if (items->items[i].is_used && !items->items[i].is_moved)
            move(text, items, &items->items[i], moved);
    memcpy(text->tokens, moved->tokens, moved->count * sizeof *text->tokens);
    text->count = moved->count;
}

bool c_text_prune_items(struct c_text *text) {
    struct items items = {0};
    struct c_text moved = {.tokens = malloc((text->count + 1) * sizeof *text->tokens)};
    bool done = moved.tokens != NULL && find_items(text, &items) && find_names(text, &items);
    if (done)
        keep_used(text, &items, &moved);
    free(moved.tokens);
    free(items.items);
    free(items.names);
    return done;
}

/* ---- Locals ---- */

/* Whether "(void)NAME" begins at `at`. */
static bool is_unused(const struct c_text *text, size_t at) {
    return at + 4 < text->count && c_is(&text->tokens[at], "(") &&
           c_is(&text->tokens[at + 1], "void") && c_is(&text->tokens[at + 2], ")") &&
           text->tokens[at + 3].kind == C_WORD;
}

/* Whether "(void)NAME;" begins at `at`. */
static bool is_disclaimer(const struct c_text *text, size_t at) {
    return is_unused(text, at) && c_is(&text->tokens[at + 4], ";");
}

/* Splits "(void)a, (void)b;" into one statement each. */
static void part_disclaimers(struct c_text *text) {
    for (size_t at = 0; at < text->count; at++)
        if (is_unused(text, at) && c_is(&text->tokens[at + 4], ",") && is_unused(text, at + 5)) {
            text->tokens[at + 4].at = ";";
            text->tokens[at + 5].lines = 1;
        }
}

static bool is_end(const struct c_token *token) {
    return token->kind == C_COMMENT || c_is(token, ";") || c_is(token, "{") || c_is(token, "}");
}

/* Erases the declaration that contains the word at `at`, with its ';'. */
static void erase_declaration(struct c_text *text, size_t at) {
    size_t first = at, end = at;
    while (!is_end(&text->tokens[first - 1]))
        first--;
    while (!c_is(&text->tokens[end], ";"))
        end = c_after_brackets(text, end);
    c_erase(text, first, end + 1);
}

/* Removes the disclaimer at `at`, in the function that begins at `first`, if it is superfluous or
   if the name is unused; then the name's declaration, too.  Returns whether it was removed. */
static bool settle(struct c_text *text, size_t first, size_t body, size_t end, size_t at) {
    const struct c_token name = text->tokens[at + 3];
    size_t uses = 0, declared = 0;
    for (size_t i = end; i-- > first;)
        if (i != at + 3 && c_is_use(text, i, &name)) {
            declared = i;
            uses++;
        }
    if (uses < 2 && declared < body)
        return false;
    c_erase(text, at, at + 5);
    if (uses == 1)
        erase_declaration(text, declared);
    return true;
}

static void prune_locals(struct c_text *text) {
    for (size_t first = 0, end; first < text->count; first = end) {
        size_t before = text->count, body = first;
        end = text->tokens[first].kind == C_COMMENT ? first + 1 : item_end(text, first);
        while (body < end && !c_is(&text->tokens[body], "{"))
            body++;
        for (size_t at = body; at < end; at++)
            while (is_disclaimer(text, at) && settle(text, first, body, end, at)) {
                end -= before - text->count;
                before = text->count;
                at = body;
            }
    }
}

bool c_text_prune(struct c_text *text) {
    part_disclaimers(text);
    prune_locals(text);
    return c_text_prune_items(text);
}
