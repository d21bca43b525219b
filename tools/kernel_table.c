/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_table.h"

#include <stdio.h>

static const char *or_dash(const char *text) {
    return *text ? text : "-";
}

/* The words among the fields: element type first, then e.g. the mode. */
static const char *word_field(const struct kernel *kernel, int nth) {
    for (int i = 0; i < kernel->family->field_count; i++) {
        const struct field *field = &kernel->family->fields[i];
        if (field->prefix == NULL && nth-- == 0)
            return field->words[kernel->value[i]];
    }
    return "-";
}

void print_kernel_table(const struct kernel_list *kernels) {
    char symbol[SYMBOL_SIZE], shape[SYMBOL_SIZE];
    printf("%-14s %-11s %-5s %-20s %-9s %-7s %-8s %s\n", "OP", "KERNEL", "TYPE", "SHAPE", "MODE",
           "ISA", "VARIANT", "SYMBOL");
    for (size_t i = 0; i < kernels->count; i++) {
        const struct kernel *kernel = &kernels->items[i];
        kernel_symbol(kernel, symbol);
        kernel_shape_words(kernel, shape);
        printf("%-14s %-11s %-5s %-20s %-9s %-7s %-8s %s\n", kernel->family->op,
               kernel->family->name, word_field(kernel, 0), or_dash(shape), word_field(kernel, 1),
               kernel->isa->name, kernel->variant, symbol);
    }
}
