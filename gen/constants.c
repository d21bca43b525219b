/* Numbers of a problem that are constants in a kernel (--specialise).

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "kernel.h"

void constants_add(struct constants *constants, const char *name, int64_t value) {
    if (value > 0 && value <= MOST_COUNT && constants->count < MOST_CONSTANTS)
        constants->items[constants->count++] = (struct constant){name, value};
}

static void fix(struct kernel *kernel, const struct constant *constant) {
    for (int i = 0; i < kernel->family->field_count; i++) {
        const struct field *field = &kernel->family->fields[i];
        bool is_open = is_constant(field) || kernel->value[i] == ANY_COUNT;
        if (is_open && strcmp(field->name, constant->name) == 0)
            kernel->value[i] = constant->value;
    }
}

void kernel_fix(struct kernel *kernel, const struct constants *constants) {
    for (int i = 0; i < constants->count; i++)
        fix(kernel, &constants->items[i]);
}

void kernel_constant_words(const struct kernel *kernel, char words[SYMBOL_SIZE]) {
    size_t at = 0;
    words[0] = '\0';
    for (int i = 0; i < kernel->family->field_count && at < SYMBOL_SIZE; i++)
        if (is_constant(&kernel->family->fields[i]) && kernel->value[i] != 0)
            at += (size_t)snprintf(words + at, SYMBOL_SIZE - at, "%s%s %" PRId64, at ? ", " : "",
                                   kernel->family->fields[i].name, kernel->value[i]);
}
