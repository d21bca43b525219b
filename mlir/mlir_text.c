/* Characters, words and numbers of StableHLO text, and where they are.

   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlir_reader.h"

/* ---- Memory ---- */

struct mlir_memory {
    struct mlir_memory *next;
    max_align_t data[];
};

void *mlir_allocate(struct mlir_reader *reader, size_t count, size_t size) {
    size_t bytes;
    struct mlir_memory *memory = NULL;
    if (!__builtin_mul_overflow(count, size, &bytes) && bytes < SIZE_MAX - sizeof *memory)
        memory = calloc(1, sizeof *memory + bytes);
    if (memory == NULL) {
        fail(reader->error, EXIT_ENVIRONMENT, "%s: out of memory", reader->file->name);
        return NULL;
    }
    memory->next = reader->file->memory;
    reader->file->memory = memory;
    return memory->data;
}

/* Doubles the room at each power of two. */
void *mlir_grow(struct mlir_reader *reader, void *array, int count, size_t size) {
    if ((count & (count - 1)) != 0)
        return array;
    void *grown = mlir_allocate(reader, count ? 2 * (size_t)count : 1, size);
    if (grown != NULL && count > 0)
        memcpy(grown, array, (size_t)count * size);
    return grown;
}

void mlir_free(struct mlir_file *file) {
    while (file->memory != NULL) {
        struct mlir_memory *next = file->memory->next;
        free(file->memory);
        file->memory = next;
    }
    free(file->text);
    *file = (struct mlir_file){0};
}

/* ---- Places ---- */

static bool fail_at(struct error *error, const struct mlir_file *file, size_t at,
                    const char *message) {
    size_t line = 1, begin = 0, end = at < file->length ? at : file->length;
    const char *next;
    while ((next = memchr(file->text + begin, '\n', end - begin)) != NULL) {
        begin = (size_t)(next - file->text) + 1;
        line++;
    }
    return fail(error, EXIT_USER, "%s:%zu:%zu: %s", file->name, line, end - begin + 1, message);
}

bool mlir_fail(struct error *error, const struct mlir_file *file, size_t at, const char *format,
               ...) {
    char message[640];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return fail_at(error, file, at, message);
}

bool mlir_refuse(struct mlir_reader *reader, const char *format, ...) {
    char message[640];
    va_list arguments;
    mlir_skip(reader);
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return fail_at(reader->error, reader->file, reader->at, message);
}

bool mlir_enter(struct mlir_reader *reader) {
    if (reader->depth == MLIR_DEEPEST)
        return mlir_refuse(reader, "nested too deep; accepted: %d levels", (int)MLIR_DEEPEST);
    reader->depth++;
    return true;
}

void mlir_leave(struct mlir_reader *reader) {
    reader->depth--;
}

/* ---- Words ---- */

static int char_at(const struct mlir_reader *reader, size_t at) {
    return at < reader->file->length ? (unsigned char)reader->file->text[at] : 0;
}

void mlir_skip(struct mlir_reader *reader) {
    for (;;) {
        while (isspace(char_at(reader, reader->at)))
            reader->at++;
        if (char_at(reader, reader->at) != '/' || char_at(reader, reader->at + 1) != '/')
            return;
        while (reader->at < reader->file->length && char_at(reader, reader->at) != '\n')
            reader->at++;
    }
}

int mlir_peek(struct mlir_reader *reader) {
    mlir_skip(reader);
    return char_at(reader, reader->at);
}

bool mlir_at_line_start(struct mlir_reader *reader) {
    mlir_skip(reader);
    size_t at = reader->at;
    while (at > 0 && reader->file->text[at - 1] != '\n' &&
           isspace((unsigned char)reader->file->text[at - 1]))
        at--;
    return at == 0 || reader->file->text[at - 1] == '\n';
}

static bool is_word_char(int c) {
    return isalnum(c) || c == '_' || c == '$' || c == '.';
}

bool mlir_accept(struct mlir_reader *reader, const char *text) {
    size_t length = strlen(text);
    mlir_skip(reader);
    if (reader->file->length - reader->at < length ||
        memcmp(reader->file->text + reader->at, text, length) != 0)
        return false;
    if (is_word_char((unsigned char)text[length - 1]) &&
        is_word_char(char_at(reader, reader->at + length)))
        return false;
    reader->at += length;
    return true;
}

bool mlir_next_is(const struct mlir_reader *reader, const char *text) {
    struct mlir_reader ahead = *reader;
    return mlir_accept(&ahead, text);
}

/* Copies the next characters, for messages. */
static const char *found(struct mlir_reader *reader, char text[24]) {
    size_t n = 0;
    mlir_skip(reader);
    while (n < 20 && isprint(char_at(reader, reader->at + n)) &&
           (n == 0 || is_word_char(char_at(reader, reader->at + n)))) {
        text[n] = (char)char_at(reader, reader->at + n);
        n++;
    }
    text[n] = '\0';
    return n ? text : reader->at < reader->file->length ? "a character of no use" : "the end";
}

bool mlir_expect(struct mlir_reader *reader, const char *text) {
    char word[24];
    return mlir_accept(reader, text) ||
           mlir_refuse(reader, "found %s; accepted: %s", found(reader, word), text);
}

static struct mlir_word take(struct mlir_reader *reader, size_t length) {
    struct mlir_word word = {reader->file->text + reader->at, length};
    reader->at += length;
    return word;
}

struct mlir_word mlir_accept_word(struct mlir_reader *reader) {
    size_t n = 0;
    mlir_skip(reader);
    if (isalpha(char_at(reader, reader->at)) || char_at(reader, reader->at) == '_')
        while (is_word_char(char_at(reader, reader->at + n)))
            n++;
    return take(reader, n);
}

bool mlir_accept_string(struct mlir_reader *reader, struct mlir_word *word) {
    char text[24];
    size_t n = 1;
    if (mlir_peek(reader) != '"')
        return mlir_refuse(reader, "found %s; accepted: a string", found(reader, text));
    while (reader->at + n < reader->file->length && char_at(reader, reader->at + n) != '"')
        n += char_at(reader, reader->at + n) == '\\' ? 2 : 1;
    if (reader->at + n >= reader->file->length)
        return mlir_refuse(reader, "a string without end; accepted: \"...\"");
    *word = take(reader, n + 1);
    word->text++;
    word->length -= 2;
    return true;
}

bool mlir_accept_sigil(struct mlir_reader *reader, char sigil, struct mlir_word *word) {
    char text[24];
    size_t n = 0;
    if (mlir_peek(reader) != sigil)
        return mlir_refuse(reader, "found %s; accepted: %c and a name", found(reader, text), sigil);
    reader->at++;
    if (sigil == '@' && char_at(reader, reader->at) == '"')
        return mlir_accept_string(reader, word);
    while (is_word_char(char_at(reader, reader->at + n)) || char_at(reader, reader->at + n) == '-')
        n++;
    *word = take(reader, n);
    return n > 0 ||
           mlir_refuse(reader, "%c without a name; accepted: letters, digits, _ $ . -", sigil);
}

/* ---- Numbers ---- */

struct mlir_word mlir_accept_number(struct mlir_reader *reader) {
    size_t n = 0;
    mlir_skip(reader);
    n += char_at(reader, reader->at) == '-';
    if (!isdigit(char_at(reader, reader->at + n)))
        return (struct mlir_word){reader->file->text + reader->at, 0};
    bool hex = char_at(reader, reader->at + n) == '0' && char_at(reader, reader->at + n + 1) == 'x';
    n += hex ? 2 : 0;
    for (;; n++) {
        int c = char_at(reader, reader->at + n), before = char_at(reader, reader->at + n - 1);
        bool sign = !hex && (c == '+' || c == '-') && (before == 'e' || before == 'E');
        if (!(hex ? isxdigit(c) : isdigit(c) || c == '.' || c == 'e' || c == 'E') && !sign)
            return take(reader, n);
    }
}

bool mlir_accept_integer(struct mlir_reader *reader, int64_t *value) {
    char text[24], digits[32], *end;
    size_t before = reader->at;
    struct mlir_word word = mlir_accept_number(reader);
    if (word.length == 0 || word.length >= sizeof digits) {
        reader->at = before;
        return mlir_refuse(reader, "found %s; accepted: an integer", found(reader, text));
    }
    memcpy(digits, word.text, word.length);
    digits[word.length] = '\0';
    errno = 0;
    *value = strtoll(digits, &end, 10);
    if (*end == '\0' && errno == 0)
        return true;
    reader->at = before;
    return mlir_refuse(reader, "%s is not a 64-bit integer; accepted: -2^63 to 2^63 - 1", digits);
}

/* ---- Brackets ---- */

enum { MOST_BRACKETS = 256 };

/* The closing brackets that are still to come, innermost last. */
struct brackets {
    int count;
    char closing[MOST_BRACKETS];
};

static bool open_bracket(struct mlir_reader *reader, struct brackets *brackets, char closing) {
    if (brackets->count == MOST_BRACKETS)
        return mlir_refuse(reader, "nested too deep; accepted: %d levels", (int)MOST_BRACKETS);
    brackets->closing[brackets->count++] = closing;
    return true;
}

/* A > that closes nothing is a comparison, and so is a < that is still open at another bracket. */
static bool close_bracket(struct mlir_reader *reader, struct brackets *brackets, char c) {
    int last = brackets->count - 1;
    if (c == '>' && brackets->closing[last] != '>')
        return true;
    while (last > 0 && c != '>' && brackets->closing[last] == '>')
        last--;
    if (brackets->closing[last] != c)
        return mlir_refuse(reader, "found %c; accepted: %c", c, brackets->closing[last]);
    brackets->count = last;
    return true;
}

bool mlir_skip_token(struct mlir_reader *reader) {
    struct mlir_word string;
    int c = mlir_peek(reader);
    if (c == '"')
        return mlir_accept_string(reader, &string);
    reader->at += c == '-' && char_at(reader, reader->at + 1) == '>' ? 2 : 1;
    return true;
}

static bool skip_within(struct mlir_reader *reader, struct brackets *brackets) {
    static const char opening[] = "([{<", closing[] = ")]}>";
    int c = mlir_peek(reader);
    const char *opener = strchr(opening, c);
    if (opener != NULL && !open_bracket(reader, brackets, closing[opener - opening]))
        return false;
    if (strchr(closing, c) != NULL && !close_bracket(reader, brackets, (char)c))
        return false;
    return mlir_skip_token(reader);
}

bool mlir_skip_balanced(struct mlir_reader *reader, char open, char close) {
    struct brackets brackets = {1, {close}};
    size_t begin = reader->at;
    while (brackets.count > 0) {
        if (mlir_peek(reader) == 0) {
            reader->at = begin;
            return mlir_refuse(reader, "a bracket without end; accepted: %c ... %c", open, close);
        }
        if (!skip_within(reader, &brackets))
            return false;
    }
    return true;
}

bool mlir_skip_location(struct mlir_reader *reader) {
    return !mlir_accept(reader, "loc") ||
           (mlir_expect(reader, "(") && mlir_skip_balanced(reader, '(', ')'));
}

/* ---- Predicates ---- */

bool mlir_word_is(struct mlir_word word, const char *text) {
    return strlen(text) == word.length && memcmp(word.text, text, word.length) == 0;
}

const struct mlir_attr *mlir_attr_of(const struct mlir_attr *dict, const char *key) {
    for (int i = 0; i < dict->count; i++)
        if (mlir_word_is(dict->keys[i], key))
            return &dict->items[i];
    return NULL;
}

int mlir_word_length(struct mlir_word word) {
    return word.length < 80 ? (int)word.length : 80;
}

const char *mlir_short_name(const struct mlir_op *op) {
    const char *prefix = "stablehlo.";
    return strncmp(op->name, prefix, strlen(prefix)) == 0 ? op->name + strlen(prefix) : op->name;
}
