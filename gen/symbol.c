/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

#include <inttypes.h>
#include <string.h>

#include "../defs/format.h"

const char *field_word(const struct field *field, int64_t value) {
    return (field->flags & FIELD_FORMAT) != 0 ? kvmill_format_name(value) : field->words[value];
}

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
