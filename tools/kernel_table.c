/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_table.h"

#include <stdio.h>
#include <string.h>

#include "../base/text.h"

enum { OP, FAMILY, TYPE, SHAPE, MODE, ISA, VARIANT, SYMBOL, COLUMNS };

static const char *const titles[COLUMNS] = {"OP",   "KERNEL", "TYPE",    "SHAPE",
                                            "MODE", "ISA",    "VARIANT", "SYMBOL"};
static const char *const keys[COLUMNS] = {"op",   "kernel", "type",    "shape",
                                          "mode", "isa",    "variant", "symbol"};

/* The least width of each column, so that most tables look alike. */
static const int least_widths[COLUMNS] = {14, 11, 5, 20, 9, 7, 8, 0};

struct row {
    char cells[COLUMNS][SYMBOL_SIZE];
};

/* Whether a word belongs in the MODE column; other words are types. */
static bool is_mode(const struct field *field) {
    return strcmp(field->name, "mode") == 0 || strcmp(field->name, "bounds") == 0 ||
           strcmp(field->name, "math") == 0 || strcmp(field->name, "terms") == 0;
}

static bool is_shown(const struct kernel *kernel, int i, bool modes) {
    const struct field *field = &kernel->family->fields[i];
    bool left_out = (field->flags & FIELD_OPTIONAL) != 0 && kernel->value[i] == 0;
    return field->prefix == NULL && is_mode(field) == modes && !left_out;
}

/* Joins a kernel's words: its modes if `modes` is true, else its types. */
static void join_words(const struct kernel *kernel, bool modes, char words[SYMBOL_SIZE]) {
    size_t at = 0;
    strcpy(words, "-");
    for (int i = 0; i < kernel->family->field_count; i++) {
        if (is_shown(kernel, i, modes) && at < SYMBOL_SIZE)
            at += (size_t)snprintf(words + at, SYMBOL_SIZE - at, "%s%s", at ? "_" : "",
                                   field_word(&kernel->family->fields[i], kernel->value[i]));
    }
}

static void fill(struct row *row, const struct kernel *kernel) {
    snprintf(row->cells[OP], SYMBOL_SIZE, "%s", kernel->family->op);
    snprintf(row->cells[FAMILY], SYMBOL_SIZE, "%s", kernel->family->name);
    join_words(kernel, false, row->cells[TYPE]);
    kernel_shape_words(kernel, row->cells[SHAPE]);
    if (row->cells[SHAPE][0] == '\0')
        strcpy(row->cells[SHAPE], "-");
    join_words(kernel, true, row->cells[MODE]);
    snprintf(row->cells[ISA], SYMBOL_SIZE, "%s", kernel->isa->name);
    snprintf(row->cells[VARIANT], SYMBOL_SIZE, "%s", kernel->variant);
    kernel_symbol(kernel, row->cells[SYMBOL]);
}

static void find_widths(const struct kernel_list *kernels, int widths[COLUMNS]) {
    struct row row;
    memcpy(widths, least_widths, sizeof least_widths);
    for (size_t i = 0; i < kernels->count; i++) {
        fill(&row, &kernels->items[i]);
        for (int c = 0; c < SYMBOL; c++)
            if ((int)strlen(row.cells[c]) > widths[c])
                widths[c] = (int)strlen(row.cells[c]);
    }
}

void print_kernel_table(const struct kernel_list *kernels) {
    int widths[COLUMNS];
    struct row row;
    find_widths(kernels, widths);
    for (int c = 0; c < COLUMNS; c++)
        print_shown(stdout, "%-*s%c", widths[c], titles[c], c < SYMBOL ? ' ' : '\n');
    for (size_t i = 0; i < kernels->count; i++) {
        fill(&row, &kernels->items[i]);
        for (int c = 0; c < COLUMNS; c++)
            print_shown(stdout, "%-*s%c", widths[c], row.cells[c], c < SYMBOL ? ' ' : '\n');
    }
}

json_t *json_of_kernels(const struct kernel_list *kernels) {
    json_t *array = json_array();
    struct row row;
    for (size_t i = 0; i < kernels->count; i++) {
        fill(&row, &kernels->items[i]);
        json_t *object = json_object();
        for (int c = 0; c < COLUMNS; c++)
            json_object_set_new(object, keys[c], json_string(row.cells[c]));
        json_array_append_new(array, object);
    }
    return array;
}
