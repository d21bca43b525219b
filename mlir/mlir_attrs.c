/* Attributes of StableHLO text.

   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/extent.h"
#include "mlir_reader.h"

bool mlir_add_attr(struct mlir_reader *reader, struct mlir_attr *dict, struct mlir_word key,
                   const struct mlir_attr *value) {
    for (int i = 0; i < dict->count; i++)
        if (dict->keys[i].length == key.length &&
            memcmp(dict->keys[i].text, key.text, key.length) == 0)
            return mlir_refuse(reader, "%.*s is given twice; accepted: once",
                               (int)kvmill_min((int64_t)key.length, 60), key.text);
    dict->kind = MLIR_DICT;
    dict->items = mlir_grow(reader, dict->items, dict->count, sizeof *dict->items);
    dict->keys =
        dict->items ? mlir_grow(reader, dict->keys, dict->count, sizeof *dict->keys) : NULL;
    if (dict->keys == NULL)
        return false;
    dict->items[dict->count] = *value;
    dict->keys[dict->count++] = key;
    return true;
}

static bool parse_field(struct mlir_reader *reader, struct mlir_attr *dict) {
    struct mlir_attr value = {.kind = MLIR_UNIT};
    struct mlir_word key;
    if (mlir_peek(reader) == '"') {
        if (!mlir_accept_string(reader, &key))
            return false;
    } else {
        key = mlir_accept_word(reader);
    }
    if (key.length == 0)
        return mlir_refuse(reader, "no name of an attribute here; accepted: name = value");
    value.at = value.end = reader->at;
    if (mlir_accept(reader, "=") && !mlir_parse_attr(reader, &value))
        return false;
    return mlir_add_attr(reader, dict, key, &value);
}

/* Parses items up to `close`, separated by commas; a comma may follow the last. */
static bool parse_list(struct mlir_reader *reader, const char *close, struct mlir_attr *list,
                       bool (*parse)(struct mlir_reader *reader, struct mlir_attr *list)) {
    if (!mlir_enter(reader))
        return false;
    while (!mlir_accept(reader, close)) {
        if (!parse(reader, list))
            return false;
        if (!mlir_accept(reader, ",")) {
            if (!mlir_expect(reader, close))
                return false;
            break;
        }
    }
    mlir_leave(reader);
    return true;
}

bool mlir_parse_fields(struct mlir_reader *reader, const char *close, struct mlir_attr *dict) {
    dict->kind = MLIR_DICT;
    return parse_list(reader, close, dict, parse_field);
}

static bool add_item(struct mlir_reader *reader, struct mlir_attr *list,
                     const struct mlir_attr *item) {
    list->items = mlir_grow(reader, list->items, list->count, sizeof *list->items);
    if (list->items == NULL)
        return false;
    list->items[list->count++] = *item;
    return true;
}

static bool parse_item(struct mlir_reader *reader, struct mlir_attr *list) {
    struct mlir_attr item = {.at = reader->at};
    return mlir_parse_attr(reader, &item) && add_item(reader, list, &item);
}

static bool parse_items(struct mlir_reader *reader, const char *close, struct mlir_attr *list) {
    list->kind = MLIR_LIST;
    return parse_list(reader, close, list, parse_item);
}

/* Parses what follows "array": <i64: 1, 2> or <i64>. */
static bool parse_array(struct mlir_reader *reader, struct mlir_attr *attr) {
    attr->kind = MLIR_LIST;
    if (!mlir_expect(reader, "<"))
        return false;
    if (mlir_accept_word(reader).length == 0)
        return mlir_refuse(reader, "no type of an array here; accepted: array<i64: 1, 2>");
    return mlir_accept(reader, ":") ? parse_items(reader, ">", attr) : mlir_expect(reader, ">");
}

/* Parses #stablehlo.gather<fields>; skips the content of unknown names. */
static bool parse_hash(struct mlir_reader *reader, struct mlir_attr *attr) {
    if (!mlir_accept_sigil(reader, '#', &attr->word))
        return false;
    bool known = mlir_word_is(attr->word, "stablehlo.gather") ||
                 mlir_word_is(attr->word, "stablehlo.scatter");
    attr->kind = MLIR_OPAQUE;
    if (!mlir_accept(reader, "<"))
        return true;
    if (mlir_word_is(attr->word, "stablehlo")) { /* #stablehlo<comparison_direction LT> */
        mlir_accept_word(reader);
        attr->kind = MLIR_STRING;
        attr->word = mlir_accept_word(reader);
    }
    return known ? mlir_parse_fields(reader, ">", attr) : mlir_skip_balanced(reader, '<', '>');
}

static bool is_float(struct mlir_word word) {
    bool hex = word.length > 2 && word.text[1] == 'x';
    for (size_t i = 0; !hex && i < word.length; i++)
        if (word.text[i] == '.' || word.text[i] == 'e' || word.text[i] == 'E')
            return true;
    return false;
}

/* Whether an integer is one of 64 bits without sign only, which kvmill needs nowhere. */
static bool is_unsigned_only(const char *text) {
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    return text[0] != '-' && *end == '\0' && errno == 0 && value > INT64_MAX;
}

static bool parse_number(struct mlir_reader *reader, struct mlir_attr *attr) {
    const struct mlir_type *type;
    char text[64];
    size_t begin = reader->at;
    attr->word = mlir_accept_number(reader);
    size_t length = attr->word.length < sizeof text ? attr->word.length : sizeof text - 1;
    memcpy(text, attr->word.text, length);
    text[length] = '\0';
    attr->number = strtod(text, NULL);
    bool is_hex = length > 2 && text[1] == 'x';
    attr->kind = is_float(attr->word)                ? MLIR_FLOAT
                 : !is_hex && is_unsigned_only(text) ? MLIR_OPAQUE
                                                     : MLIR_INTEGER;
    if (attr->kind == MLIR_INTEGER && !is_hex) {
        reader->at = begin;
        if (!mlir_accept_integer(reader, &attr->integer))
            return false;
    }
    return !mlir_accept(reader, ":") || mlir_parse_type(reader, &type);
}

/* Parses what follows "dense_resource" and the like: <..> : type. */
static bool parse_other_elements(struct mlir_reader *reader, struct mlir_attr *attr) {
    attr->kind = MLIR_OPAQUE;
    return mlir_expect(reader, "<") && mlir_skip_balanced(reader, '<', '>') &&
           mlir_expect(reader, ":") && mlir_parse_type(reader, &attr->literal.type);
}

/* Parses a type, or an attribute that begins with a word, such as affine_map<..> and loc(..). */
static bool parse_named(struct mlir_reader *reader, struct mlir_attr *attr) {
    attr->kind = MLIR_TYPE;
    if (!mlir_parse_type(reader, &attr->type))
        return false;
    if (mlir_accept(reader, "("))
        return mlir_skip_balanced(reader, '(', ')');
    return !mlir_accept(reader, "[") ||
           (mlir_skip_balanced(reader, '[', ']') &&
            (!mlir_accept(reader, "<") || mlir_skip_balanced(reader, '<', '>')));
}

static bool parse_word(struct mlir_reader *reader, struct mlir_attr *attr) {
    if (mlir_accept(reader, "dense"))
        return mlir_parse_dense(reader, attr);
    if (mlir_accept(reader, "array"))
        return parse_array(reader, attr);
    if (mlir_accept(reader, "unit"))
        return true;
    attr->integer = mlir_accept(reader, "true");
    if (attr->integer || mlir_accept(reader, "false")) {
        attr->kind = MLIR_BOOL;
        return true;
    }
    if (mlir_accept(reader, "dense_resource") || mlir_accept(reader, "sparse"))
        return parse_other_elements(reader, attr);
    return parse_named(reader, attr);
}

/* Parses @name, or @name::@other. */
static bool parse_symbol(struct mlir_reader *reader, struct mlir_attr *attr) {
    struct mlir_word other;
    attr->kind = MLIR_STRING;
    if (!mlir_accept_sigil(reader, '@', &attr->word))
        return false;
    while (mlir_accept(reader, "::"))
        if (!mlir_accept_sigil(reader, '@', &other))
            return false;
    return true;
}

static bool parse_value(struct mlir_reader *reader, struct mlir_attr *attr) {
    const struct mlir_type *type;
    int c = mlir_peek(reader);
    attr->at = reader->at;
    switch (c) {
    case '"':
        attr->kind = MLIR_STRING;
        return mlir_accept_string(reader, &attr->word) &&
               (!mlir_accept(reader, ":") || mlir_parse_type(reader, &type));
    case '@':
        return parse_symbol(reader, attr);
    case '[':
        reader->at++;
        return parse_items(reader, "]", attr);
    case '{':
        reader->at++;
        return mlir_parse_fields(reader, "}", attr);
    case '#':
        return parse_hash(reader, attr);
    case '(': /* a function type */
        attr->kind = MLIR_OPAQUE;
        reader->at++;
        if (!mlir_skip_balanced(reader, '(', ')') || !mlir_expect(reader, "->"))
            return false;
        if (mlir_accept(reader, "("))
            return mlir_skip_balanced(reader, '(', ')');
        return mlir_parse_type(reader, &type);
    }
    return c == '-' || (c >= '0' && c <= '9') ? parse_number(reader, attr)
                                              : parse_word(reader, attr);
}

bool mlir_parse_attr(struct mlir_reader *reader, struct mlir_attr *attr) {
    bool done = parse_value(reader, attr);
    attr->end = reader->at;
    return done;
}
