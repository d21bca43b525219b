/* SPDX-License-Identifier: Apache-2.0 */
#include "scatter_region_family.h"

#include <inttypes.h>
#include <string.h>

#include "known_programs.h"
#include "m4.h"
#include "scatter_family.h"
#include "statement.h"

enum { PROGRAM, INDEX, COMPONENTS, ROW, FIELDS };

static const struct field fields[] = {
    [PROGRAM] = {"program", "p", NULL, FIELD_BITS},
    [INDEX] = {"index", NULL, scatter_index_types, 0},
    [COMPONENTS] = {"components", "k", NULL, 0},
    [ROW] = {"row", "r", NULL, 0},
};

/* points: windows of one element; rows: larger windows. */
static const char *const variants[] = {"points", "rows", NULL};

static const char *region_of(const struct kernel *kernel) {
    return program_of_number(kernel->value[PROGRAM]);
}

/* ---- Legal kernels ---- */

static bool is_legal_scatter_region(const struct kernel *kernel) {
    const int64_t *value = kernel->value;
    return kvmill_isa_plain(kernel->isa) == kernel->isa && value[COMPONENTS] >= 0 &&
           value[COMPONENTS] <= MOST_SCATTER_COMPONENTS &&
           (value[ROW] == 1 || value[ROW] == ANY_COUNT) &&
           strcmp(kernel->variant, variants[value[ROW] != 1]) == 0;
}

bool scatter_region_kernels(const struct kvmill_scatter_region_shape *shape, const struct isa *isa,
                            struct kernel_list *list, struct error *error) {
    struct kernel kernel = {
        .family = &scatter_region_family,
        .isa = kvmill_isa_plain(isa),
        .value = {[INDEX] =
                      scatter_place_of(scatter_index_types, shape->index_code, shape->index_bits),
                  [COMPONENTS] = shape->components,
                  [ROW] = shape->row},
        .variant = variants[shape->row != 1]};
    if (scatter_index_types[kernel.value[INDEX]] == NULL || !is_legal_scatter_region(&kernel))
        return true;
    return program_remember(shape->program, &kernel.value[PROGRAM], error) &&
           kernel_list_add(list, &kernel, error);
}

static bool is_complete_scatter_region(const struct kernel *kernel, struct error *error) {
    char symbol[SYMBOL_SIZE];
    if (region_of(kernel) != NULL)
        return true;
    kernel_symbol(kernel, symbol);
    return fail(error, EXIT_USER,
                "%s: a symbol has only a number for its region; accepted: with --kernels SPECS, "
                "the spec that has the region, as a pack's specs.json does",
                symbol);
}

/* ---- Words ---- */

static void explain_scatter_region(const struct kernel *kernel, FILE *stream) {
    const int64_t *value = kernel->value;
    const char *region = region_of(kernel);
    fprintf(stream,
            "Applies updates to results by a region of its own, element by element in the order of "
            "updates,\nat places that %" PRId64
            " index component%s of %s tell; elements out of bounds are skipped.\n",
            value[COMPONENTS], value[COMPONENTS] == 1 ? "" : "s",
            scatter_index_types[value[INDEX]]);
    fprintf(stream, "%s\n",
            value[ROW] == 1 ? "One element for each index vector."
                            : "Windows of rows of any length, in loops that compilers vectorise.");
    if (region != NULL)
        fprintf(stream, "The region: %s.\n", region);
    else
        fprintf(stream, "Of the region the symbol has only a number; --kernels SPECS shows it.\n");
}

/* ---- Definitions ---- */

static bool define_numbered(struct expansion *expansion, const char *name, int number,
                            const char *value) {
    char numbered[32];
    snprintf(numbered, sizeof numbered, "%s_%d", name, number);
    return define_text(expansion, numbered, value);
}

static bool define_statement(struct expansion *expansion, const struct statement *statement,
                             int *slots, struct text *steps) {
    bool done = true;
    if (strcmp(statement->words[0], "slot") == 0) {
        done = define_numbered(expansion, "result", *slots, statement->words[1]) &&
               define_numbered(expansion, "update", *slots, statement->words[2]);
        ++*slots;
        return done;
    }
    if (strcmp(statement->words[0], "return") != 0)
        return statement_call(statement, steps);
    for (int i = 1; done && i < statement->count; i++)
        done = define_numbered(expansion, "return", i - 1, statement->words[i]);
    return done;
}

static bool define_region(struct expansion *expansion, const char *region) {
    struct statement statement;
    struct text steps = {0};
    int slots = 0;
    bool done = define_text(expansion, "region", region);
    for (const char *at = region; done && *at != '\0';) {
        at = statement_read(at, &statement);
        done = define_statement(expansion, &statement, &slots, &steps);
    }
    done = done && define_integer(expansion, "slots", slots) &&
           define_text(expansion, "steps", steps.data ? steps.data : "");
    text_free(&steps);
    return done;
}

static bool define_scatter_region(const struct kernel *kernel, struct expansion *expansion) {
    const char *region = region_of(kernel);
    DLDataType index = scatter_type_of(scatter_index_types[kernel->value[INDEX]]);
    return define_integer(expansion, "index_code", index.code) &&
           define_integer(expansion, "index_bits", index.bits) &&
           (region == NULL || define_region(expansion, region));
}

static const char *const libraries[] = {"scatter_region", "scatter", NULL};

const struct family scatter_region_family = {
    .name = "scatter_region",
    .folder = "scatter",
    .op = "stablehlo.scatter",
    .libraries = libraries,
    .fields = fields,
    .field_count = FIELDS,
    .variants = variants,
    .tunables = "scatter_region_tunables",
    .legal = is_legal_scatter_region,
    .explain = explain_scatter_region,
    .define = define_scatter_region,
    .complete = is_complete_scatter_region,
};
