/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../defs/format.h"
#include "families.h"

const char *field_word(const struct field *field, int64_t value) {
    return (field->flags & FIELD_FORMAT) != 0 ? kvmill_format_name(value) : field->words[value];
}

/* ---- Writing a symbol ---- */

static size_t append(char *text, size_t at, const char *piece) {
    return at + (size_t)snprintf(text + at, SYMBOL_SIZE - at, "%s", piece);
}

static size_t append_field(char *text, size_t at, const struct field *field, int64_t value) {
    char number[24];
    if (field->prefix == NULL)
        return append(text, at, field_word(field, value));
    bool is_bits = (field->flags & FIELD_BITS) != 0;
    at = append(text, at, field->prefix);
    snprintf(number, sizeof number, is_bits ? "%016" PRIx64 : "%" PRId64, value);
    return append(text, at, value == ANY_COUNT && !is_bits ? "n" : number);
}

static bool is_left_out(const struct kernel *kernel, int i) {
    return (kernel->family->fields[i].flags & FIELD_OPTIONAL) != 0 && kernel->value[i] == 0;
}

void kernel_symbol(const struct kernel *kernel, char symbol[SYMBOL_SIZE]) {
    size_t at = append(symbol, 0, "kvmill_");
    at = append(symbol, at, kernel->family->name);
    for (int i = 0; i < kernel->family->field_count; i++) {
        if (is_left_out(kernel, i))
            continue;
        at = append(symbol, at, "_");
        at = append_field(symbol, at, &kernel->family->fields[i], kernel->value[i]);
    }
    at = append(symbol, at, "__");
    at = append(symbol, at, kernel->isa->name);
    at = append(symbol, at, "_");
    at = append(symbol, at, kernel->variant);
    if (*kernel->tuning != '\0')
        snprintf(symbol + at, SYMBOL_SIZE - at, "_%s", kernel->tuning);
}

bool symbols_do_the_same(const char *a, const char *b) {
    const char *how = strstr(a, "__");
    size_t length = how != NULL ? (size_t)(how - a) + 2 : strlen(a) + 1;
    return strncmp(a, b, length) == 0;
}

void kernel_shape_words(const struct kernel *kernel, char words[SYMBOL_SIZE]) {
    size_t at = append(words, 0, "");
    for (int i = 0; i < kernel->family->field_count; i++) {
        const struct field *field = &kernel->family->fields[i];
        if (field->prefix == NULL || is_left_out(kernel, i))
            continue;
        at = append(words, at, at ? "_" : "");
        at = append_field(words, at, field, kernel->value[i]);
    }
}

/* ---- Reading a symbol ---- */

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

/* ---- Lists ---- */

static bool kernels_equal(const struct kernel *a, const struct kernel *b) {
    return a->family == b->family && a->isa == b->isa && a->variant == b->variant &&
           memcmp(a->value, b->value, sizeof a->value) == 0 && strcmp(a->tuning, b->tuning) == 0;
}

/* The kernels' index follows them in the same memory: twice as many slots as there is room for
   kernels.  A slot has 1 + a position, or 0.  The room is the next power of two from the count
   on. */
enum { LEAST_ROOM = 16 };

static size_t room_for(size_t count) {
    size_t room = LEAST_ROOM;
    while (room < count)
        room *= 2;
    return room;
}

static uint64_t mix(uint64_t state, uint64_t word) {
    state = (state ^ word) * 0x9e3779b97f4a7c15;
    return state ^ state >> 32;
}

static uint64_t hash(const struct kernel *kernel) {
    uint64_t state = mix((uintptr_t)kernel->family, (uintptr_t)kernel->isa);
    state = mix(state, (uintptr_t)kernel->variant);
    for (int i = 0; i < MOST_FIELDS; i++)
        state = mix(state, (uint64_t)kernel->value[i]);
    for (const char *c = kernel->tuning; *c != '\0'; c++)
        state = mix(state, (unsigned char)*c);
    return state;
}

/* Returns the slot of an equal kernel, or the free slot for the kernel. */
static uint32_t *find_slot(const struct kernel *items, size_t room, const struct kernel *kernel) {
    uint32_t *slots = (uint32_t *)(items + room);
    size_t at = hash(kernel) % (2 * room);
    while (slots[at] != 0 && !kernels_equal(&items[slots[at] - 1], kernel))
        at = (at + 1) % (2 * room);
    return &slots[at];
}

static struct kernel *grow(const struct kernel_list *list, size_t room) {
    struct kernel *items = calloc(1, room * (sizeof *items + 2 * sizeof(uint32_t)));
    for (size_t i = 0; items != NULL && i < list->count; i++) {
        items[i] = list->items[i];
        *find_slot(items, room, &items[i]) = (uint32_t)i + 1;
    }
    return items;
}

static bool make_room(struct kernel_list *list, size_t room, struct error *error) {
    if (list->items != NULL && room == room_for(list->count))
        return true;
    struct kernel *items = grow(list, room);
    if (items == NULL)
        return out_of_memory(error);
    free(list->items);
    list->items = items;
    return true;
}

bool kernel_list_add(struct kernel_list *list, const struct kernel *kernel, struct error *error) {
    size_t room = room_for(list->count + 1);
    if (list->items != NULL && *find_slot(list->items, room_for(list->count), kernel) != 0)
        return true;
    if (!make_room(list, room, error))
        return false;
    list->items[list->count++] = *kernel;
    *find_slot(list->items, room, kernel) = (uint32_t)list->count;
    return true;
}

void kernel_list_free(struct kernel_list *list) {
    free(list->items);
    *list = (struct kernel_list){0};
}
