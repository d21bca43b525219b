/* SPDX-License-Identifier: Apache-2.0 */
#include "c_macros.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "c_text.h"

enum { MOST_MACROS = 160, MOST_ARGUMENTS = 8, DEEPEST = 64 };

struct span {
    const char *at;
    size_t length;
};

struct macro {
    struct span name, parameters, body;
    bool is_function;
};

struct reader {
    const char *folder;
    struct text files[MOST_HEADERS]; /* macros point into them */
    struct header_list *headers;
    struct macro macros[MOST_MACROS];
    int count, depth;
    bool is_full; /* a limit was exceeded, or a macro names itself */
    bool lacks_memory;
    FILE *out;
    struct error *error;
};

/* ---- Pieces of text ---- */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static bool is_same(struct span a, struct span b) {
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

/* Returns the piece that begins at `at`: a word or number, a string, a comment, or a character. */
static struct span piece_at(const char *at) {
    size_t length = 1;
    if (is_word(*at))
        while (is_word(at[length]))
            length++;
    else if (*at == '"' || *at == '\'')
        length = c_quoted_length(at);
    else if (*at == '/' && at[1] == '*')
        length = c_comment_length(at);
    return (struct span){at, length};
}

static struct span trimmed(struct span span) {
    while (span.length > 0 && isspace((unsigned char)*span.at))
        span = (struct span){span.at + 1, span.length - 1};
    while (span.length > 0 && isspace((unsigned char)span.at[span.length - 1]))
        span.length--;
    return span;
}

/* Cuts the text at commas outside brackets; the last span has the rest.  Returns the count. */
static int split(struct span text, struct span spans[MOST_ARGUMENTS]) {
    int count = 0, depth = 0;
    const char *from = text.at, *end = text.at + text.length;
    for (const char *at = from; at < end; at += piece_at(at).length) {
        depth += (*at == '(' || *at == '{') - (*at == ')' || *at == '}');
        if (*at == ',' && depth == 0 && count + 1 < MOST_ARGUMENTS) {
            spans[count++] = trimmed((struct span){from, (size_t)(at - from)});
            from = at + 1;
        }
    }
    spans[count++] = trimmed((struct span){from, (size_t)(end - from)});
    return count;
}

/* Returns what is between the parentheses, the first of which is at `at`. */
static struct span within_parentheses(const char *at) {
    const char *from = at + 1;
    int depth = 0;
    do {
        depth += (*at == '(') - (*at == ')');
        at += piece_at(at).length;
    } while (depth > 0 && *at != '\0');
    return (struct span){from, (size_t)(at - 1 - from)};
}

/* ---- Macros ---- */

static void define(struct reader *reader, const char *at) {
    struct macro macro = {.name = piece_at(at)};
    size_t length = strcspn(at, "\n");
    const char *end = at + length;
    while (end[-1] == '\\')
        end += 1 + strcspn(end + 1, "\n");
    at += macro.name.length;
    if ((macro.is_function = *at == '(')) {
        macro.parameters = within_parentheses(at);
        at += macro.parameters.length + 2;
    }
    macro.body = (struct span){at, (size_t)(end - at)};
    if (reader->count == MOST_MACROS)
        reader->is_full = true;
    else
        reader->macros[reader->count++] = macro;
}

static const struct macro *macro_named(const struct reader *reader, struct span name) {
    for (int i = 0; i < reader->count; i++)
        if (is_same(reader->macros[i].name, name))
            return &reader->macros[i];
    return NULL;
}

/* Returns the argument that `word` stands for, or the word. */
static struct span argument_of(struct span word, const struct macro *macro,
                               const struct span *arguments, int given) {
    struct span names[MOST_ARGUMENTS];
    int count = macro->is_function ? split(macro->parameters, names) : 0;
    for (int i = 0; i < count; i++) {
        if (is_same(word, names[i]))
            return i < given ? arguments[i] : (struct span){"", 0};
        const struct span *last = &arguments[given - 1];
        if (is_same(names[i], (struct span){"...", 3}) &&
            is_same(word, (struct span){"__VA_ARGS__", strlen("__VA_ARGS__")}))
            return i < given ? (struct span){arguments[i].at,
                                             (size_t)(last->at + last->length - arguments[i].at)}
                             : (struct span){"", 0};
    }
    return word;
}

/* Appends the macro's body, with arguments in place of parameters. */
static bool substitute(const struct macro *macro, const struct span *arguments, int given,
                       struct text *text) {
    const char *at = macro->body.at, *end = at + macro->body.length;
    bool done = true;
    for (struct span piece; done && at < end; at += piece.length) {
        piece = piece_at(at);
        if (*at == '\\' && at[1] == '\n')
            continue;
        if (*at == '#' && at[1] == '#') {
            piece.length = 2 + strspn(at + 2, " ");
            while (text->length > 0 && text->data[text->length - 1] == ' ')
                text->length--;
            continue;
        }
        struct span chosen = argument_of(piece, macro, arguments, given);
        done = text_append(text, chosen.at, chosen.length);
    }
    return done;
}

static void expand(struct reader *reader, struct span text);

/* Writes the macro's expansion; `at` is after its name.  Returns where the text continues. */
static const char *replace(struct reader *reader, const struct macro *macro, const char *at) {
    struct span arguments[MOST_ARGUMENTS];
    struct text body = {0};
    int given = 0;
    if (macro->is_function) {
        struct span list = within_parentheses(at);
        given = split(list, arguments);
        at += list.length + 2;
    }
    if (reader->depth == DEEPEST)
        reader->is_full = true;
    else if (!substitute(macro, arguments, given, &body))
        reader->lacks_memory = true;
    else if (body.data != NULL) {
        reader->depth++;
        expand(reader, trimmed((struct span){body.data, body.length}));
        reader->depth--;
    }
    text_free(&body);
    return at;
}

/* Writes the text with its macros expanded. */
static void expand(struct reader *reader, struct span text) {
    const char *from = text.at, *end = text.at + text.length;
    for (const char *at = from; at < end;) {
        struct span piece = piece_at(at);
        const struct macro *macro = is_word(*at) ? macro_named(reader, piece) : NULL;
        at += piece.length;
        if (macro == NULL || (macro->is_function && (at >= end || *at != '(')))
            continue;
        fwrite(from, 1, (size_t)(piece.at - from), reader->out);
        from = at = replace(reader, macro, at);
    }
    if (end > from)
        fwrite(from, 1, (size_t)(end - from), reader->out);
}

/* ---- Files ---- */

static bool read_header(struct reader *reader, const char *name, size_t length);

static bool begins(const char *at, const char *word) {
    return strncmp(at, word, strlen(word)) == 0;
}

static const char *next_line(const char *at) {
    at += strcspn(at, "\n");
    while (at[0] == '\n' && at[-1] == '\\')
        at += 1 + strcspn(at + 1, "\n");
    return at + (*at == '\n');
}

/* Returns the line after the #endif that belongs to the #ifndef before `at`. */
static const char *after_endif(const char *at) {
    int depth = 1;
    for (; *at != '\0' && depth > 0; at = next_line(at))
        depth += begins(at, "#ifndef ") - begins(at, "#endif");
    return at;
}

/* Obeys the directive at `at`, and returns where the text continues. */
static const char *obey(struct reader *reader, const char *at, bool *done) {
    const char *next = next_line(at);
    static const char include[] = "include \"";
    if (begins(at + 1, include) && at[strlen(include) + 1] != '.') {
        at += strlen(include) + 1;
        *done = read_header(reader, at, strcspn(at, "."));
    } else if (begins(at, "#define ")) {
        define(reader, at + strlen("#define "));
    } else if (begins(at, "#ifndef ") &&
               macro_named(reader, piece_at(at + strlen("#ifndef "))) != NULL) {
        return after_endif(next);
    }
    return next;
}

/* Says from which header the text that follows is. */
static void mark(const struct reader *reader, const char *name) {
    fprintf(reader->out, "\n#from %s\n", name);
}

static bool read_text(struct reader *reader, const char *name, const char *at) {
    bool done = true;
    while (done && *at != '\0') {
        const char *line = at;
        mark(reader, name);
        while (*line != '\0' && *line != '#')
            line = next_line(line);
        expand(reader, (struct span){at, (size_t)(line - at)});
        at = *line == '#' ? obey(reader, line, &done) : line;
    }
    return done;
}

/* Adds a header to the list, and returns its name. */
static const char *add_header(struct header_list *headers, const char *name, size_t length) {
    char *added = headers->names[headers->count++];
    snprintf(added, HEADER_NAME, "%.*s", (int)length, name);
    return added;
}

static bool read_header(struct reader *reader, const char *name, size_t length) {
    char path[1200];
    struct header_list *headers = reader->headers;
    for (int i = 0; i < headers->count; i++)
        if (strlen(headers->names[i]) == length && memcmp(headers->names[i], name, length) == 0)
            return true; /* it has a guard */
    if (headers->count == MOST_HEADERS)
        return fail(reader->error, EXIT_BUG, "%s: more than %d headers", reader->folder,
                    MOST_HEADERS);
    struct text *file = &reader->files[headers->count];
    const char *added = add_header(headers, name, length);
    snprintf(path, sizeof path, "%s/%s.h", reader->folder, added);
    return (text_read_file(file, path) || fail_errno(reader->error, "read", path)) &&
           read_text(reader, added, file->data ? file->data : "");
}

bool c_macros_expand(const char *folder, const char *name, struct text *text,
                     struct header_list *headers, struct error *error) {
    struct reader *reader = calloc(1, sizeof *reader);
    headers->count = 0;
    if (reader == NULL)
        return out_of_memory(error);
    *reader = (struct reader){.folder = folder, .headers = headers, .error = error};
    reader->out = text_stream(text);
    bool done =
        (reader->out != NULL || out_of_memory(error)) && read_header(reader, name, strlen(name));
    if (done && reader->is_full)
        done = fail(error, EXIT_BUG, "%s/%s.h: too many macros, or one that names itself", folder,
                    name);
    done = done && ((!reader->lacks_memory && !ferror(reader->out)) || out_of_memory(error));
    if (reader->out != NULL && fclose(reader->out) != 0 && done)
        done = out_of_memory(error);
    for (int i = 0; i < headers->count; i++)
        text_free(&reader->files[i]);
    free(reader);
    return done;
}
