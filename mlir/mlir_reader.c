/* Files of StableHLO text: chunks, modules, functions.

   SPDX-License-Identifier: Apache-2.0 */
#include "mlir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/input.h"
#include "mlir_bytecode.h"
#include "mlir_reader.h"

/* ---- Functions ---- */

/* Parses -> type, or -> (type {..}, ..). */
static bool parse_results(struct mlir_reader *reader, struct mlir_function *function) {
    struct mlir_attr ignored = {0};
    if (!mlir_accept(reader, "->"))
        return true;
    bool in_list = mlir_accept(reader, "(");
    if (in_list && mlir_accept(reader, ")"))
        return true;
    do {
        function->results =
            mlir_grow(reader, function->results, function->result_count, sizeof *function->results);
        if (function->results == NULL ||
            !mlir_parse_type(reader, &function->results[function->result_count++]) ||
            (in_list && mlir_accept(reader, "{") && !mlir_parse_fields(reader, "}", &ignored)))
            return false;
        ignored.count = 0;
    } while (in_list && mlir_accept(reader, ","));
    return !in_list || mlir_expect(reader, ")");
}

/* What a reader knows of the function that it is in. */
struct context {
    struct mlir_function *function;
    struct mlir_name **names, *newest;
    int64_t scope;
};

static struct context enter_function(struct mlir_reader *reader, struct mlir_function *function) {
    struct context outer = {reader->function, reader->names, reader->newest, reader->scope};
    reader->function = function;
    reader->names = NULL;
    reader->newest = NULL;
    return outer;
}

static void leave_function(struct mlir_reader *reader, struct context outer) {
    reader->function = outer.function;
    reader->names = outer.names;
    reader->newest = outer.newest;
    reader->scope = outer.scope;
}

/* Adds a function to the chunk. */
static struct mlir_function *add_function(struct mlir_reader *reader) {
    struct mlir_function *function = mlir_allocate(reader, 1, sizeof *function);
    struct mlir_chunk *chunk = reader->chunk;
    mlir_skip(reader);
    if (function == NULL)
        return NULL;
    function->at = reader->at;
    *(chunk->last ? &chunk->last->next : &chunk->functions) = function;
    return chunk->last = function;
}

static bool skip_attributes(struct mlir_reader *reader) {
    struct mlir_attr ignored = {0};
    return !mlir_accept(reader, "attributes") ||
           (mlir_expect(reader, "{") && mlir_parse_fields(reader, "}", &ignored));
}

/* Parses arguments; a declaration has their types alone. */
static bool parse_parameters(struct mlir_reader *reader, struct mlir_function *function) {
    struct mlir_reader ahead = *reader;
    if (!mlir_accept(&ahead, "("))
        return true;
    int c = mlir_peek(&ahead);
    if (c == '%' || c == ')' || c == 0)
        return mlir_parse_arguments(reader, &function->body);
    reader->at = ahead.at;
    return mlir_skip_balanced(reader, '(', ')');
}

/* Parses what follows "func.func" and its visibility. */
static bool parse_named_function(struct mlir_reader *reader, struct mlir_function *function) {
    if (!mlir_accept_sigil(reader, '@', &function->name) || !parse_parameters(reader, function) ||
        !parse_results(reader, function) || !skip_attributes(reader))
        return false;
    function->has_body = mlir_accept(reader, "{");
    return !function->has_body || mlir_parse_ops(reader, &function->body, "}");
}

/* Parses a function after "func.func". */
static bool parse_function(struct mlir_reader *reader) {
    static const char *const visibilities[] = {"public", "private", "nested"};
    for (size_t i = 0; i < sizeof visibilities / sizeof *visibilities; i++)
        if (mlir_accept(reader, visibilities[i]))
            break;
    struct mlir_function *function = add_function(reader);
    if (function == NULL)
        return false;
    struct context outer = enter_function(reader, function);
    bool done = mlir_enter(reader) && parse_named_function(reader, function);
    mlir_leave(reader);
    leave_function(reader, outer);
    return done && mlir_skip_location(reader);
}

/* ---- Modules ---- */

/* Skips a line that begins with # or !, which defines an alias; or {-# .. #-}, resources. */
static bool skip_alias(struct mlir_reader *reader) {
    int c = mlir_peek(reader);
    if (mlir_accept(reader, "{-#"))
        while (mlir_peek(reader) != 0 && !mlir_accept(reader, "#-}"))
            reader->at++;
    else if (c != '#' && c != '!')
        return false;
    while (reader->at < reader->file->length && reader->file->text[reader->at] != '\n')
        reader->at++;
    return true;
}

/* Whether an op of a module comes next, such as sdy.mesh. */
static bool is_op(struct mlir_reader ahead) {
    int c = mlir_peek(&ahead);
    return c == '"' || c == '%' || mlir_is_op_word(mlir_accept_word(&ahead));
}

/* Parses an op of a module, into a function without a name. */
static bool parse_module_op(struct mlir_reader *reader) {
    if (reader->function == NULL) {
        struct mlir_function *function = add_function(reader);
        if (function == NULL)
            return false;
        enter_function(reader, function);
    }
    return mlir_parse_op(reader, &reader->function->body);
}

static bool next_is_symbol(const struct mlir_reader *reader);
static bool parse_symbol(struct mlir_reader *reader);

/* Parses functions, modules and other ops up to `close`, or to the end if `close` is "". */
static bool parse_body(struct mlir_reader *reader, const char *close) {
    while (close[0] ? !mlir_accept(reader, close) : mlir_peek(reader) != 0) {
        if (skip_alias(reader))
            continue;
        if (next_is_symbol(reader) ? !parse_symbol(reader)
            : is_op(*reader)       ? !parse_module_op(reader)
                                   : !mlir_refuse(reader,
                                                  "neither module nor function; accepted: module, "
                                                        "func.func, other ops%s%s",
                                            close[0] ? ", " : "", close))
            return false;
    }
    return true;
}

/* Parses the ops of a module, whose names are its own. */
static bool parse_module_body(struct mlir_reader *reader) {
    if (!mlir_enter(reader))
        return false;
    struct context outer = enter_function(reader, NULL);
    bool done = parse_body(reader, "}");
    leave_function(reader, outer);
    mlir_leave(reader);
    return done;
}

/* Parses a module after "module". */
static bool parse_module(struct mlir_reader *reader) {
    struct mlir_word name;
    return (mlir_peek(reader) != '@' || mlir_accept_sigil(reader, '@', &name)) &&
           skip_attributes(reader) && mlir_expect(reader, "{") && parse_module_body(reader) &&
           mlir_skip_location(reader);
}

/* ---- Modules and functions in generic form ---- */

static bool next_is_generic(const struct mlir_reader *reader, const char *name) {
    struct mlir_reader ahead = *reader;
    struct mlir_word word;
    struct error ignored = {0};
    ahead.error = &ignored;
    return mlir_peek(&ahead) == '"' && mlir_accept_string(&ahead, &word) &&
           mlir_word_is(word, name);
}

/* Sets a function's name and the types of its results. */
static bool name_function(struct mlir_reader *reader, const struct mlir_attr *attrs,
                          struct mlir_function *function) {
    const struct mlir_attr *name = mlir_attr_of(attrs, "sym_name");
    const struct mlir_attr *type = mlir_attr_of(attrs, "function_type");
    struct mlir_signature signature = {0};
    if (name == NULL || name->kind != MLIR_STRING || type == NULL || type->kind != MLIR_OPAQUE)
        return mlir_fail(reader->error, reader->file, function->at,
                         "a function without name or type; accepted: sym_name = \"..\", "
                         "function_type = (..) -> ..");
    size_t end = reader->at;
    reader->at = type->at;
    bool done = mlir_parse_function_type(reader, &signature);
    reader->at = end;
    function->name = name->word;
    function->results = signature.results;
    function->result_count = signature.result_count;
    return done;
}

static bool parse_function_region(struct mlir_reader *reader, struct mlir_function *function) {
    struct context outer = enter_function(reader, function);
    bool done = mlir_parse_region(reader, &function->body);
    leave_function(reader, outer);
    function->has_body = function->body.first != NULL;
    return done;
}

/* Parses the region of a module, which may have a label. */
static bool parse_module_region(struct mlir_reader *reader) {
    struct mlir_word label;
    return (mlir_peek(reader) != '^' ||
            (mlir_accept_sigil(reader, '^', &label) && mlir_expect(reader, ":"))) &&
           parse_module_body(reader);
}

/* Parses "func.func"() <{..}> ({..}) {..} : () -> (), and the same of a module. */
static bool parse_generic_symbol(struct mlir_reader *reader, bool is_function) {
    struct mlir_word word;
    struct mlir_attr attrs = {0};
    struct mlir_signature signature;
    struct mlir_function *function = is_function ? add_function(reader) : NULL;
    if ((is_function && function == NULL) || !mlir_accept_string(reader, &word) ||
        !mlir_expect(reader, "(") || !mlir_expect(reader, ")"))
        return false;
    if (mlir_accept(reader, "<") &&
        (!mlir_expect(reader, "{") || !mlir_parse_fields(reader, "}", &attrs) ||
         !mlir_expect(reader, ">")))
        return false;
    if (!mlir_expect(reader, "(") || !mlir_expect(reader, "{") ||
        !(is_function ? parse_function_region(reader, function) : parse_module_region(reader)) ||
        !mlir_expect(reader, ")") ||
        (mlir_accept(reader, "{") && !mlir_parse_fields(reader, "}", &attrs)))
        return false;
    return mlir_expect(reader, ":") && mlir_parse_function_type(reader, &signature) &&
           mlir_skip_location(reader) && (!is_function || name_function(reader, &attrs, function));
}

static bool next_is_symbol(const struct mlir_reader *reader) {
    static const char *const words[] = {"module", "builtin.module", "func.func", "func"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (mlir_next_is(reader, words[i]))
            return true;
    return next_is_generic(reader, "builtin.module") || next_is_generic(reader, "func.func");
}

static bool parse_symbol(struct mlir_reader *reader) {
    if (mlir_accept(reader, "module") || mlir_accept(reader, "builtin.module"))
        return parse_module(reader);
    if (mlir_accept(reader, "func.func") || mlir_accept(reader, "func"))
        return parse_function(reader);
    return parse_generic_symbol(reader, next_is_generic(reader, "func.func"));
}

/* ---- Chunks ---- */

/* Returns the offset of the next line "// -----", or the length of the text; *after: where the text
   continues. */
static size_t find_separator(const struct mlir_file *file, size_t from, size_t *after) {
    static const char separator[] = "// -----";
    for (size_t at = from; at < file->length;) {
        const char *end = memchr(file->text + at, '\n', file->length - at);
        size_t next = end ? (size_t)(end - file->text) + 1 : file->length;
        *after = next;
        if (next - at >= sizeof separator - 1 &&
            memcmp(file->text + at, separator, sizeof separator - 1) == 0)
            return at;
        at = next;
    }
    *after = file->length;
    return file->length;
}

static bool parse_chunks(struct mlir_reader *reader) {
    struct mlir_file *file = reader->file;
    struct mlir_chunk **end = &file->chunks;
    size_t length = file->length, after = 0;
    for (size_t from = 0; from < length || file->chunks == NULL; from = after) {
        *end = mlir_allocate(reader, 1, sizeof **end);
        if (*end == NULL)
            return false;
        file->length = find_separator(file, from, &after);
        reader->at = from;
        reader->chunk = *end;
        reader->function = NULL;
        bool done = parse_body(reader, "");
        file->length = length;
        if (!done)
            return false;
        end = &(*end)->next;
    }
    return true;
}

/* ---- Texts ---- */

/* Parses an op, or a module or function, in a region. */
static bool parse_item(struct mlir_reader *reader, struct mlir_block *block) {
    return next_is_symbol(reader) ? parse_symbol(reader) : mlir_parse_op(reader, block);
}

static bool begin(const char *name, const char *text, size_t length, struct mlir_file *file,
                  struct mlir_reader *reader, struct error *error) {
    *file = (struct mlir_file){.length = length};
    *reader = (struct mlir_reader){.file = file, .error = error, .parse_item = parse_item};
    snprintf(file->name, sizeof file->name, "%s", name);
    file->text = malloc(length + 1);
    if (file->text == NULL)
        return fail(error, EXIT_ENVIRONMENT, "%s: out of memory", name);
    memcpy(file->text, text, length);
    file->text[length] = '\0';
    const char *zero = memchr(file->text, '\0', length);
    return zero == NULL ||
           mlir_fail(error, file, (size_t)(zero - file->text), "a byte of value 0; accepted: text");
}

bool mlir_read_text(const char *name, const char *text, size_t length, struct mlir_file *file,
                    struct error *error) {
    struct mlir_reader reader;
    return begin(name, text, length, file, &reader, error) && parse_chunks(&reader);
}

static bool add_capture(struct mlir_reader *reader, const struct mlir_capture *capture,
                        struct mlir_block *block) {
    struct mlir_file types;
    const struct mlir_type *type;
    int number;
    struct mlir_type *copy = mlir_allocate(reader, 1, sizeof *copy);
    bool done = copy != NULL &&
                mlir_read_type(reader->file->name, capture->type, &types, &type, reader->error);
    if (copy != NULL && done) {
        done = (type->is_tensor && !type->is_unranked && !type->is_unknown && type->rank == 0) ||
               fail(reader->error, EXIT_USER,
                    "%s: capture %s is %.80s; accepted: a scalar, tensor<f32>", reader->file->name,
                    capture->name, capture->type);
        *copy = *type;
        copy->dims = NULL;
        copy->word = (struct mlir_word){capture->type, strlen(capture->type)};
        mlir_free(&types);
    } else if (copy != NULL) {
        mlir_free(&types);
    }
    struct mlir_word name = {capture->name, strlen(capture->name)};
    if (name.length > 0 && name.text[0] == '%')
        name = (struct mlir_word){name.text + 1, name.length - 1};
    struct mlir_value value = {.name = name, .type = copy};
    block->argument_count++;
    return done && mlir_add_value(reader, &value, &number) && mlir_define(reader, name, number, 1);
}

bool mlir_read_region(const char *name, const char *text, size_t length,
                      const struct mlir_capture *captures, int capture_count,
                      struct mlir_file *file, struct error *error) {
    struct mlir_reader reader;
    struct mlir_word label;
    if (!begin(name, text, length, file, &reader, error))
        return false;
    file->chunks = mlir_allocate(&reader, 1, sizeof *file->chunks);
    struct mlir_function *function =
        file->chunks ? mlir_allocate(&reader, 1, sizeof *function) : NULL;
    if (function == NULL)
        return false;
    file->chunks->functions = function;
    enter_function(&reader, function);
    struct mlir_block outside = {0};
    for (int i = 0; i < capture_count; i++)
        if (!add_capture(&reader, &captures[i], &outside))
            return false;
    function->has_body = true;
    return mlir_accept_sigil(&reader, '^', &label) &&
           mlir_parse_arguments(&reader, &function->body) && mlir_expect(&reader, ":") &&
           mlir_parse_ops(&reader, &function->body, "");
}

bool mlir_read_type(const char *name, const char *text, struct mlir_file *file,
                    const struct mlir_type **type, struct error *error) {
    struct mlir_reader reader;
    return begin(name, text, strlen(text), file, &reader, error) &&
           mlir_parse_type(&reader, type) &&
           (mlir_peek(&reader) == 0 || mlir_refuse(&reader, "more than a type; accepted: one"));
}

bool mlir_read_element(const char *name, const char *text, size_t length,
                       kvmill_element_type *element, struct error *error) {
    struct mlir_file file;
    struct mlir_reader reader;
    bool done =
        begin(name, text, length, &file, &reader, error) && mlir_parse_element(&reader, element) &&
        (mlir_peek(&reader) == 0 || mlir_refuse(&reader, "more than a type; accepted: one"));
    mlir_free(&file);
    return done;
}

/* ---- Files ---- */

static const struct input_kind mlir_input = {
    .words = "StableHLO text", .most = 256 << 20, .streams = true};

bool mlir_read(const char *name, struct mlir_file *file, struct error *error) {
    struct text text = {0};
    *file = (struct mlir_file){0};
    bool done = input_read(name, &mlir_input, &text, error) &&
                (!is_mlir_bytecode(&text) || mlir_text_of_bytecode(name, &text, error)) &&
                mlir_read_text(name, text.data, text.length, file, error);
    text_free(&text);
    return done;
}
