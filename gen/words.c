/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <stdlib.h>
#include <string.h>

#include "c_macros.h"
#include "c_text.h"
#include "places.h"

enum { MOST_FUNCTIONS = 512 };

/* A function.  `version` and `word` are 0, or 1 + the number of a function: the version of a word
   that kernels use, and the word of such a version. */
struct function {
    size_t name; /* a token */
    int header;  /* of the list of headers */
    int version, word;
};

struct words {
    struct text text;
    struct c_text tokens;
    struct header_list headers;
    bool has_versions[MOST_HEADERS]; /* others have meanings */
    struct function functions[MOST_FUNCTIONS];
    int count;
    FILE *out;
};

static const struct c_token *token_at(const struct words *words, size_t at) {
    return &words->tokens.tokens[at];
}

static bool is_function(const struct words *words, size_t at) {
    return c_is(token_at(words, at), "static") && c_is(token_at(words, at + 1), "inline");
}

/* Returns the end of the item at `at`: after its ';' or body, or a directive. */
static size_t item_end(const struct words *words, size_t at) {
    bool has_body = is_function(words, at);
    if (token_at(words, at)->kind == C_DIRECTIVE)
        return at + 1;
    for (; at < words->tokens.count; at = c_after_brackets(&words->tokens, at))
        if (c_is(token_at(words, at), ";") || (has_body && c_is(token_at(words, at), "{")))
            return c_after_brackets(&words->tokens, at);
    return at;
}

/* ---- Versions ---- */

/* Returns the number of the header that a line "#from NAME" names. */
static int header_of(const struct words *words, const struct c_token *line) {
    const char *name = line->at + strlen("#from ");
    size_t length = line->length - strlen("#from ");
    int header = 0;
    while (strlen(words->headers.names[header]) != length ||
           memcmp(words->headers.names[header], name, length) != 0)
        header++;
    return header;
}

static void find_functions(struct words *words) {
    int header = 0;
    for (size_t at = 0; at < words->tokens.count; at = item_end(words, at)) {
        size_t name = at;
        if (token_at(words, at)->kind == C_DIRECTIVE)
            header = header_of(words, token_at(words, at));
        if (!is_function(words, at) || words->count == MOST_FUNCTIONS)
            continue;
        while (name + 2 < words->tokens.count && !c_is(token_at(words, name + 1), "("))
            name++;
        words->functions[words->count++] = (struct function){.name = name, .header = header};
    }
}

static struct function *function_named(struct words *words, const char *at, size_t length) {
    for (int i = 0; i < words->count; i++) {
        const struct c_token *name = token_at(words, words->functions[i].name);
        if (name->length == length && memcmp(name->at, at, length) == 0)
            return &words->functions[i];
    }
    return NULL;
}

/* Returns the word of which the function is a version, SET_WORD in SET.h, or NULL. */
static struct function *word_of(struct words *words, const struct function *function) {
    const char *set = words->headers.names[function->header];
    const struct c_token *name = token_at(words, function->name);
    size_t length = strlen(set) + 1;
    bool is_version = name->length > length && memcmp(name->at, set, length - 1) == 0 &&
                      name->at[length - 1] == '_';
    return is_version ? function_named(words, name->at + length, name->length - length) : NULL;
}

static void find_versions(struct words *words) {
    for (int i = 0; i < words->count; i++) {
        struct function *word = word_of(words, &words->functions[i]);
        if (word == NULL)
            continue;
        if (word->version > 0)
            words->functions[word->version - 1].word = 0;
        word->version = i + 1;
        words->functions[i].word = (int)(word - words->functions) + 1;
        words->has_versions[words->functions[i].header] = true;
    }
}

/* ---- Text ---- */

static void put(const struct words *words, const struct c_token *token) {
    fwrite(token->at, 1, token->length, words->out);
}

/* Writes tokens, each line of the header as a line. */
static void put_lines(const struct words *words, size_t first, size_t end) {
    for (size_t at = first; at < end; at++) {
        const struct c_token *token = token_at(words, at);
        if (at > first && token->space)
            fputc(token->lines ? '\n' : ' ', words->out);
        put(words, token);
    }
    fputc('\n', words->out);
}

static bool is_head(const struct c_token *token) {
    return c_is(token, "for") || c_is(token, "if") || c_is(token, "while");
}

/* Writes the body of a function, each statement on a line of its own. */
static void put_body(const struct words *words, size_t first, size_t end) {
    int depth = 0;
    size_t head = end; /* the bracket after the for, if or while that is open */
    bool is_new = true;
    for (size_t at = first; at < end; at++) {
        const struct c_token *token = token_at(words, at), *before = token - 1;
        bool is_block = c_is(before, "}") && strchr(";,)", *token->at) == NULL;
        bool is_inside = depth > 0 || token->kind == C_COMMENT;
        if (token->lines > 0 || (!is_inside && (is_new || is_block)))
            fputs(c_is(before, "(") ? "" : "\n", words->out);
        else if (token->space)
            fputc(' ', words->out);
        put(words, token);
        if (c_is(token, "(") && depth++ == 0 && is_head(before))
            head = at;
        depth -= c_is(token, ")");
        is_new = depth == 0 && (c_is(token, ";") || (head < end && !c_is(&token[1], "{")));
        if (depth == 0)
            head = end;
    }
}

/* Writes the name that kernels know the function by. */
static void put_name(const struct words *words, const struct function *function) {
    const struct c_token *name = token_at(words, function->name);
    if (function->version > 0)
        fputs("meaning_", words->out);
    put(words, function->word ? token_at(words, words->functions[function->word - 1].name) : name);
}

static void put_function(const struct words *words, const struct function *function, size_t end) {
    size_t parameters = function->name + 1;
    size_t body = c_after_brackets(&words->tokens, parameters);
    size_t type = function->name;
    while (!c_is(token_at(words, type - 1), "inline"))
        type--;
    fputs("\nINLINED ", words->out);
    put_lines(words, type, function->name);
    put_name(words, function);
    put_lines(words, parameters, body);
    fputs("{", words->out);
    put_body(words, body + 1, end - 1);
    fputs("\n}\n", words->out);
}

static void put_words(const struct words *words) {
    int next = 0;
    for (size_t at = 0, end; at < words->tokens.count; at = end) {
        end = item_end(words, at);
        if (is_function(words, at))
            put_function(words, &words->functions[next++], end);
        else if (token_at(words, at)->kind != C_DIRECTIVE)
            put_lines(words, at, end);
    }
}

/* ---- Reading ---- */

/* Removes comments outside functions: they explain words to who reads the headers. */
static void drop_comments(struct c_text *tokens) {
    size_t count = 0;
    int depth = 0;
    for (size_t at = 0; at < tokens->count; at++) {
        depth += c_is(&tokens->tokens[at], "{") - c_is(&tokens->tokens[at], "}");
        if (depth > 0 || tokens->tokens[at].kind != C_COMMENT)
            tokens->tokens[count++] = tokens->tokens[at];
    }
    tokens->count = count;
}

static void words_free(struct words *words) {
    if (words == NULL)
        return;
    free(words->tokens.tokens);
    text_free(&words->text);
    free(words);
}

/* Returns the words of an instruction set, or NULL after an error. */
static struct words *read_words(const char *isa, struct error *error) {
    char folder[1024];
    struct words *words = calloc(1, sizeof *words);
    snprintf(folder, sizeof folder, "%s/templates/words", data_directory());
    bool done = words != NULL || out_of_memory(error);
    done = done && c_macros_expand(folder, isa, &words->text, &words->headers, error) &&
           (c_text_scan(words->text.data, &words->tokens) || out_of_memory(error));
    if (!done) {
        words_free(words);
        return NULL;
    }
    drop_comments(&words->tokens);
    find_functions(words);
    find_versions(words);
    if (words->count < MOST_FUNCTIONS)
        return words;
    fail(error, EXIT_BUG, "%s/%s.h: more than %d functions", folder, isa, MOST_FUNCTIONS - 1);
    words_free(words);
    return NULL;
}

/* ---- Signatures ---- */

/* Writes tokens on one line; what does not fit is cut. */
static void write_tokens(const struct words *words, size_t first, size_t end, char *text,
                         size_t size) {
    size_t length = 0;
    text[0] = '\0';
    for (size_t at = first; at < end && length < size; at++) {
        const struct c_token *token = token_at(words, at);
        length +=
            (size_t)snprintf(text + length, size - length, "%s%.*s",
                             at > first && token->space ? " " : "", (int)token->length, token->at);
    }
}

static void list_word(const struct words *words, const struct function *function,
                      struct word *word) {
    size_t name = function->name, type = name;
    while (!c_is(token_at(words, type - 1), "inline"))
        type--;
    write_tokens(words, type, name, word->type, WORD_SIZE);
    write_tokens(words, name, name + 1, word->name, WORD_SIZE);
    write_tokens(words, name + 2, c_after_brackets(&words->tokens, name + 1) - 1, word->parameters,
                 SIGNATURE_SIZE);
    word->version = function->version == 0
                        ? ""
                        : words->headers.names[words->functions[function->version - 1].header];
}

bool words_each(const char *isa, words_take *take, void *context, struct error *error) {
    struct words *words = read_words(isa, error);
    struct word word;
    bool done = words != NULL;
    for (int i = 0; done && i < words->count; i++)
        if (!words->has_versions[words->functions[i].header]) {
            list_word(words, &words->functions[i], &word);
            done = take(&word, context, error);
        }
    words_free(words);
    return done;
}

/* ---- Pasting ---- */

static bool append_words(const char *isa, struct text *text, struct error *error) {
    struct words *words = read_words(isa, error);
    if (words == NULL)
        return false;
    bool done = (words->out = text_stream(text)) != NULL;
    if (done) {
        put_words(words);
        done = !ferror(words->out);
        done = fclose(words->out) == 0 && done;
    }
    words_free(words);
    return done || out_of_memory(error);
}

bool words_paste(const char *isa, struct text *text, size_t from, struct error *error) {
    char line[64];
    snprintf(line, sizeof line, "#%s \"%s.h\"\n", "include", isa);
    const char *at = strstr(text->data + from, line);
    struct text rest = {0};
    if (at == NULL)
        return true;
    at += strlen(line);
    bool done = text_append(&rest, at, strlen(at)) || out_of_memory(error);
    text->length = (size_t)(at - text->data) - strlen(line);
    done = done && append_words(isa, text, error) &&
           (text_append(text, rest.data, rest.length) || out_of_memory(error));
    text_free(&rest);
    return done;
}
