/* Reads symbols.

   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "families.h"

/* Steps over `word` if the text begins with it and the word ends there. */
static bool take_word(const char **text, const char *word) {
    size_t length = strlen(word);
    if (strncmp(*text, word, length) != 0 || isalnum((unsigned char)(*text)[length]))
        return false;
    *text += length;
    return true;
}

static bool take_underscore(const char **text) {
    if (**text != '_')
        return false;
    ++*text;
    return true;
}

static bool take_count(const char **text, const char *prefix, int64_t *value) {
    size_t length = strlen(prefix);
    if (strncmp(*text, prefix, length) != 0)
        return false;
    *text += length;
    *value = ANY_COUNT;
    if (take_word(text, "n"))
        return true;
    if (!isdigit((unsigned char)**text) || (**text == '0' && isdigit((unsigned char)(*text)[1])))
        return false;
    char *end;
    errno = 0;
    *value = strtoll(*text, &end, 10);
    *text = end;
    return errno == 0 && *value <= MOST_COUNT && !isalnum((unsigned char)*end);
}

static bool take_bits(const char **text, const char *prefix, int64_t *value) {
    static const char digits[] = "0123456789abcdef";
    size_t length = strlen(prefix);
    if (strncmp(*text, prefix, length) != 0 || strspn(*text + length, digits) != 16 ||
        isalnum((unsigned char)(*text)[length + 16]))
        return false;
    *value = (int64_t)strtoull(*text + length, NULL, 16);
    *text += length + 16;
    return true;
}

static bool take_listed(const char **text, const struct field *field, int64_t *value) {
    const char *word;
    for (*value = 0; (word = field_word(field, *value)) != NULL; ++*value)
        if (take_word(text, word))
            return true;
    return false;
}

static bool take_value(const char **text, const struct field *field, int64_t *value) {
    if ((field->flags & FIELD_BITS) != 0)
        return take_bits(text, field->prefix, value);
    return field->prefix ? take_count(text, field->prefix, value) : take_listed(text, field, value);
}

/* Takes a field.  Stays in front of a part that is not the field's, and at the end of the parts. */
static bool take_field(const char **text, const struct field *field, int64_t *value) {
    const char *part = *text;
    if (!take_underscore(&part) || *part == '_')
        return false;
    *text = part;
    if (!take_value(&part, field, value))
        return false;
    *text = part;
    return true;
}

/* Takes a field; an optional field that is absent is 0. */
static bool take_if_there(const char **text, const struct field *field, int64_t *value) {
    const char *before = *text;
    bool optional = (field->flags & FIELD_OPTIONAL) != 0, found = take_field(text, field, value);
    bool good = found ? (is_constant(field) ? *value > 0 : *value != 0 || !optional) : optional;
    if (!found)
        *value = 0;
    if (optional && !(found && good))
        *text = before;
    return good;
}

static bool take_family(const char **text, struct kernel *kernel) {
    static const char start[] = "kvmill_";
    if (strncmp(*text, start, strlen(start)) != 0)
        return false;
    *text += strlen(start);
    for (size_t i = 0; (kernel->family = family_at(i)) != NULL; i++)
        if (take_word(text, kernel->family->name))
            return true;
    return false;
}

const struct family *family_of_symbol(const char *symbol) {
    struct kernel kernel = {.family = NULL};
    return take_family(&symbol, &kernel) ? kernel.family : NULL;
}

bool next_tunable(const char **tuning, char name[TUNING_SIZE], int64_t *value) {
    size_t length = 0;
    while (isalpha((unsigned char)(*tuning)[length]) && length < TUNING_SIZE - 1)
        length++;
    memcpy(name, *tuning, length);
    name[length] = '\0';
    const char *rest = *tuning + length;
    if (length == 0 || !take_count(&rest, "", value) || *value < 0 ||
        (*rest == '_' && rest[1] == '\0'))
        return false;
    *tuning = rest + (*rest == '_');
    return true;
}

/* Takes the tuning.  Only the templates know whether the family has these tunables. */
static bool take_tuning(const char **text, struct kernel *kernel) {
    char name[TUNING_SIZE];
    int64_t value;
    if (kernel->family->tunables == NULL || strlen(*text) >= TUNING_SIZE)
        return false;
    strcpy(kernel->tuning, *text);
    while (next_tunable(text, name, &value))
        ;
    return **text == '\0';
}

static bool take_how(const char **text, struct kernel *kernel) {
    const struct field variants = {.words = kernel->family->variants};
    int64_t variant;
    size_t length = strcspn(*text, "_");
    kernel->isa = kvmill_isa_by_name(*text, length);
    *text += kernel->isa != NULL ? length : 0;
    if (kernel->isa == NULL || !take_underscore(text) || !take_listed(text, &variants, &variant))
        return false;
    kernel->variant = kernel->family->variants[variant];
    return **text == '\0' || (take_underscore(text) && take_tuning(text, kernel));
}

static bool take_what(const char **text, struct kernel *kernel) {
    if (!take_family(text, kernel))
        return false;
    for (int i = 0; i < kernel->family->field_count; i++)
        if (!take_if_there(text, &kernel->family->fields[i], &kernel->value[i]))
            return false;
    return strncmp(*text, "__", 2) == 0;
}

bool kernel_parse(const char *symbol, struct kernel *kernel, struct error *error) {
    const char *text = symbol;
    *kernel = (struct kernel){0};
    bool whole = take_what(&text, kernel);
    if (whole) {
        text += 2;
        whole = take_how(&text, kernel);
    }
    if (whole && kernel->family->legal(kernel))
        return true;
    char where[64] = "no such kernel exists";
    if (!whole)
        snprintf(where, sizeof where, *text ? "wrong at \"%.40s\"" : "it ends too early%s", text);
    return fail(error, EXIT_USER,
                "\"%.160s\" is not a kernel's symbol (%s); accepted: "
                "kvmill_<kernel>_<types>_<shape>__<isa>_<variant>, as `kvmill list` prints them, "
                "and _<tunable><value> for each that is not the preset",
                symbol, where);
}
