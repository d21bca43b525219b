/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_spaces.h"

#include <inttypes.h>
#include <stdio.h>

#include "../base/text.h"
#include "../gen/variants.h"

/* The kernels of a pack that have a choice: several variants or points. */
struct open_kernels {
    json_t *array; /* collects the kernels; NULL: print them */
    size_t count, points;
};

/* ---- As text ---- */

static void print_tunable(const struct tunable *tunable) {
    char values[TUNABLE_WORDS_SIZE];
    tunable_words(tunable, values);
    print_shown(stdout, "    %-10s %4" PRId64 "  of %-26s %s\n", tunable->name, tunable->preset,
                values, tunable->what);
}

static void print_space(const struct kernel *kernel, const struct tunable_space *space) {
    print_shown(stdout, "  %s on %s: %zu legal point%s\n", kernel->variant, kernel->isa->name,
                space->points.count, space->points.count == 1 ? "" : "s");
    for (int i = 0; i < space->count; i++)
        print_tunable(&space->tunables[i]);
}

static void print_spaces(const struct kernel *kernel, const struct kernel_list *alternatives,
                         const struct tunable_space *spaces) {
    char symbol[SYMBOL_SIZE];
    kernel_symbol(kernel, symbol);
    print_shown(stdout, "%s\n", symbol);
    for (size_t i = 0; i < alternatives->count; i++)
        print_space(&alternatives->items[i], &spaces[i]);
    print_shown(stdout, "\n");
}

/* ---- As JSON ---- */

static json_t *json_of_tunable(const struct tunable *tunable) {
    json_t *values = json_array();
    for (int i = 0; i < tunable->value_count; i++)
        json_array_append_new(values, json_integer(tunable->values[i]));
    return json_pack("{s:s, s:I, s:o, s:s}", "name", tunable->name, "preset",
                     (json_int_t)tunable->preset, "values", values, "words", tunable->what);
}

static json_t *json_of_space(const struct kernel *kernel, const struct tunable_space *space) {
    json_t *tunables = json_array();
    for (int i = 0; i < space->count; i++)
        json_array_append_new(tunables, json_of_tunable(&space->tunables[i]));
    return json_pack("{s:s, s:s, s:I, s:o}", "variant", kernel->variant, "isa", kernel->isa->name,
                     "points", (json_int_t)space->points.count, "tunables", tunables);
}

static json_t *json_of_spaces(const struct kernel *kernel, const struct kernel_list *alternatives,
                              const struct tunable_space *spaces) {
    char symbol[SYMBOL_SIZE];
    json_t *variants = json_array();
    for (size_t i = 0; i < alternatives->count; i++)
        json_array_append_new(variants, json_of_space(&alternatives->items[i], &spaces[i]));
    kernel_symbol(kernel, symbol);
    return json_pack("{s:s, s:o}", "symbol", symbol, "variants", variants);
}

/* ---- All kernels of a pack ---- */

/* Adds or prints a kernel, unless it has only one legal point. */
static void take(struct open_kernels *open, const struct kernel *kernel,
                 const struct kernel_list *alternatives, const struct tunable_space *spaces,
                 size_t points) {
    if (points <= 1)
        return;
    open->count++;
    open->points += points;
    if (open->array != NULL)
        json_array_append_new(open->array, json_of_spaces(kernel, alternatives, spaces));
    else
        print_spaces(kernel, alternatives, spaces);
}

static bool walk_variants_of(const struct kernel *kernel, const struct isa_list *isas,
                             struct open_kernels *open, struct error *error) {
    struct kernel_list alternatives = {0};
    struct tunable_space spaces[MOST_ALTERNATIVES] = {0};
    size_t points = 0;
    bool done = kernel_alternatives(kernel, isas, &alternatives, error);
    for (size_t i = 0; done && i < alternatives.count; i++) {
        done = tunable_space_read(&alternatives.items[i], &spaces[i], error);
        points += spaces[i].points.count;
    }
    if (done)
        take(open, kernel, &alternatives, spaces, points);
    for (size_t i = 0; i < alternatives.count; i++)
        tunable_space_free(&spaces[i]);
    kernel_list_free(&alternatives);
    return done;
}

static bool walk_variants(const struct kernel_list *kernels, const struct isa_list *isas,
                          struct open_kernels *open, struct error *error) {
    bool done = true;
    for (size_t i = 0; done && i < kernels->count; i++)
        done = kernels->items[i].family->tunables == NULL ||
               walk_variants_of(&kernels->items[i], isas, open, error);
    return done;
}

bool print_variants(const struct kernel_list *kernels, const struct isa_list *isas,
                    struct error *error) {
    struct open_kernels open = {0};
    if (!walk_variants(kernels, isas, &open, error))
        return false;
    print_shown(stdout, "%zu of %zu kernels have choices, %zu legal points together\n", open.count,
                kernels->count, open.points);
    return true;
}

bool print_variants_json(const struct kernel_list *kernels, const struct isa_list *isas,
                         struct error *error) {
    json_watch();
    struct open_kernels open = {.array = json_array()};
    if (walk_variants(kernels, isas, &open, error))
        return json_print(json_pack("{s:I, s:I, s:I, s:o}", "kernel_count",
                                    (json_int_t)kernels->count, "open_kernels",
                                    (json_int_t)open.count, "points", (json_int_t)open.points,
                                    "kernels", open.array),
                          error);
    json_decref(open.array);
    return false;
}
