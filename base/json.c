/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "text.h"

/* ---- Reading ---- */

static _Thread_local bool has_lacked;

static void *take(size_t size) {
    void *data = malloc(size);
    has_lacked |= data == NULL;
    return data;
}

void json_watch(void) {
    has_lacked = false;
}

void json_watch_memory(void) {
    json_set_alloc_funcs(take, free);
    json_watch();
}

bool json_lacked(void) {
    return has_lacked;
}

/* Refuses files that are not text, or in another code, but are known by their first bytes. */
static bool refuse_known(const char *file, const struct text *text, struct error *error) {
    static const struct {
        const char *begins, *words;
    } known[] = {
        {"\xff\xfe", "text in UTF-16; accepted: UTF-8"},
        {"\xfe\xff", "text in UTF-16; accepted: UTF-8"},
        {"GGUF", "a GGUF model; accepted: --model with a name that ends with .gguf"},
        {"ML\xefR", "MLIR bytecode; accepted: --kernels with a name that ends with .mlirbc"},
        {"\x7f"
         "ELF",
         "a library or a program; accepted: a config or spec file"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (text->length >= 4 && memcmp(text->data, known[i].begins, strlen(known[i].begins)) == 0)
            return fail(error, EXIT_USER, "%s: is %s", file, known[i].words);
    return true;
}

/* Jansson's words, except those that name one of its flags. */
static const char *words_of(const json_error_t *where) {
    return json_error_code(where) == json_error_null_character ? "a string has \\u0000"
                                                               : where->text;
}

/* Some editors begin a file with these bytes. */
static const char byte_order_mark[] = "\xef\xbb\xbf";

json_t *json_parse(const char *file, const char *text, size_t length, struct error *error) {
    enum { MARK = sizeof byte_order_mark - 1 };
    size_t skipped = length >= MARK && memcmp(text, byte_order_mark, MARK) == 0 ? MARK : 0;
    json_error_t where;
    json_watch();
    json_t *value = json_loadb(text + skipped, length - skipped, JSON_REJECT_DUPLICATES, &where);
    bool is_out = value == NULL && json_error_code(&where) == json_error_out_of_memory;
    if (is_out || json_lacked()) {
        json_decref(value);
        out_of_memory(error);
        return NULL;
    }
    if (value == NULL) {
        fail(error, EXIT_USER, "%s:%d:%d: %s; accepted: JSON", file, where.line, where.column,
             words_of(&where));
        return NULL;
    }
    if (json_is_object(value))
        return value;
    json_decref(value);
    fail(error, EXIT_USER, "%s:1:1: the document is not an object; accepted: {...}", file);
    return NULL;
}

/* A pipe is accepted, so that a shell's <(command) and /dev/stdin work. */
static const struct input_kind json_input = {
    .words = "a config or spec file", .most = 16 << 20, .streams = true, .refuse = refuse_known};

/* Python's words for numbers that JSON does not have, and what stands for them: JSON of the same
   length, so that places in messages stay right. */
static const struct {
    const char *word, *json;
} python_words[] = {{"Infinity", "1.79e308"}, {"NaN", "\"N\""}};

static bool is_part_of_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '+';
}

/* Replaces the word that starts at `at`, if it is one of Python's.  Returns its length, or 0. */
static size_t replace_python_word(const struct text *text, size_t at) {
    for (size_t i = 0; i < sizeof python_words / sizeof *python_words; i++) {
        size_t length = strlen(python_words[i].word);
        if (text->length - at >= length &&
            memcmp(text->data + at, python_words[i].word, length) == 0 &&
            !is_part_of_word(text->data[at + length])) {
            memcpy(text->data + at, python_words[i].json, length);
            return length;
        }
    }
    return 0;
}

/* Returns the place after a string, which begins at `at` with a quotation mark. */
static size_t end_of_string(const struct text *text, size_t at) {
    for (at++; at < text->length && text->data[at] != '"'; at++)
        at += text->data[at] == '\\';
    return at + 1;
}

/* Replaces Python's words outside strings. */
static void replace_python_words(const struct text *text) {
    for (size_t at = 0; at < text->length;) {
        bool begins = at == 0 || !is_part_of_word(text->data[at - 1]);
        size_t length = begins ? replace_python_word(text, at) : 0;
        if (length == 0 && text->data[at] == '"')
            at = end_of_string(text, at);
        else
            at += length > 0 ? length : 1;
    }
}

static json_t *read_file(const char *file, bool python, struct error *error) {
    struct text text = {0};
    json_t *value = NULL;
    if (input_read(file, &json_input, &text, error)) {
        if (python)
            replace_python_words(&text);
        value = json_parse(file, text.data, text.length, error);
    }
    text_free(&text);
    return value;
}

json_t *json_read(const char *file, struct error *error) {
    return read_file(file, false, error);
}

json_t *json_read_python(const char *file, struct error *error) {
    return read_file(file, true, error);
}

/* ---- Places ---- */

struct json_place json_root(const char *file, json_t *value) {
    return (struct json_place){.file = file, .value = value};
}

struct json_place json_member(const struct json_place *object, const char *key) {
    struct json_place place = {.file = object->file, .value = json_object_get(object->value, key)};
    snprintf(place.path, sizeof place.path, "%.120s/%.64s", object->path, key);
    if (object->seen != NULL)
        json_object_set_new(object->seen, key, json_true());
    return place;
}

struct json_place json_element(const struct json_place *array, size_t index) {
    struct json_place place = {.file = array->file, .value = json_array_get(array->value, index)};
    snprintf(place.path, sizeof place.path, "%.160s/%zu", array->path, index);
    return place;
}

bool json_fail(struct error *error, const struct json_place *place, const char *format, ...) {
    char message[640];
    if (json_lacked())
        return out_of_memory(error);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return fail(error, EXIT_USER, "%s: %s: %s", place->file, place->path[0] ? place->path : "/",
                message);
}

/* ---- Typed reads ---- */

bool json_given(const struct json_place *place) {
    return place->value != NULL && !json_is_null(place->value);
}

static const char *found(const json_t *value) {
    static const char *const words[] = {"an object",     "an array", "a string", "an integer",
                                        "a real number", "true",     "false",    "null"};
    return value == NULL ? "missing" : words[json_typeof(value)];
}

/* "0 to 8", "1 or more": the numbers that a caller accepts, which are its own bounds only if they
   are not those of C's types. */
static const char *range_words(int64_t least, int64_t most, char words[64]) {
    if (least <= INT32_MIN)
        snprintf(words, 64, "an integer%s", most == INT32_MAX ? " of 32 bits" : "");
    else
        snprintf(words, 64, most == INT64_MAX ? "%" PRId64 " or more" : "%" PRId64 " to %" PRId64,
                 least, most);
    return words;
}

bool json_get_integer(const struct json_place *place, int64_t least, int64_t most, int64_t *value,
                      struct error *error) {
    char words[64];
    range_words(least, most, words);
    if (!json_is_integer(place->value))
        return json_fail(error, place, "is %s; accepted: %s%s", found(place->value),
                         least <= INT32_MIN  ? ""
                         : most == INT64_MAX ? "an integer, "
                                             : "an integer from ",
                         least <= INT32_MIN ? "an integer" : words);
    *value = json_integer_value(place->value);
    if (*value < least || *value > most)
        return json_fail(error, place, "is %" PRId64 "; accepted: %s", *value, words);
    return true;
}

bool json_get_string(const struct json_place *place, const char **value, struct error *error) {
    *value = json_string_value(place->value);
    if (*value == NULL)
        return json_fail(error, place, "is %s; accepted: a string", found(place->value));
    return text_is_plain(*value, "\t\n") ||
           json_fail(error, place, "has a control character; accepted: text");
}

bool json_get_array(const struct json_place *place, struct error *error) {
    return json_is_array(place->value) ||
           json_fail(error, place, "is %s; accepted: an array", found(place->value));
}

bool json_get_object(const struct json_place *place, struct error *error) {
    return json_is_object(place->value) ||
           json_fail(error, place, "is %s; accepted: an object", found(place->value));
}

/* ---- Keys ---- */

static bool is_listed(const char *word, const char *const *list) {
    for (; *list != NULL; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

static void join(char *text, size_t size, const char *const *words) {
    size_t at = 0;
    for (text[0] = '\0'; *words != NULL && at < size; words++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", *words);
}

static bool refuse_key(const struct json_place *object, const char *key, const char *const *known,
                       struct error *error) {
    char accepted[560];
    struct json_place member = json_member(object, key);
    const char *nearest = nearest_word(key, known);
    if (nearest != NULL)
        return json_fail(error, &member, "is not a known key; did you mean \"%s\"?", nearest);
    join(accepted, sizeof accepted, known);
    return json_fail(error, &member, "is not a known key; accepted: %s", accepted);
}

bool json_only_keys(const struct json_place *object, const char *const *known,
                    struct error *error) {
    const char *key;
    json_t *value;
    json_object_foreach(object->value, key, value) {
        if (!is_listed(key, known))
            return refuse_key(object, key, known, error);
    }
    return true;
}

/* ---- Writing ---- */

bool json_write(json_t *document, struct text *text, struct error *error) {
    char *dump = json_dumps(document, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    bool whole = dump != NULL && !json_lacked() && text_print(text, "%s\n", dump);
    free(dump);
    json_decref(document);
    return whole || out_of_memory(error);
}

bool json_print(json_t *document, struct error *error) {
    struct text text = {0};
    bool done = json_write(document, &text, error);
    if (done)
        text_put(&text, stdout);
    text_free(&text);
    return done;
}

json_t *json_take_text(struct text *text, bool whole) {
    json_t *string = whole ? json_string(text->data) : NULL;
    has_lacked |= !whole;
    text_free(text);
    return string;
}

void json_set_positive(json_t *object, const char *key, double value) {
    if (value > 0)
        json_object_set_new(object, key, json_real(value));
}
