/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_program_family.h"

#include <inttypes.h>
#include <string.h>

#include "../ops/flow_text.h"
#include "known_programs.h"
#include "m4.h"
#include "statement.h"

enum { PROGRAM, FIELDS };

static const struct field fields[] = {
    [PROGRAM] = {"program", "p", NULL, FIELD_BITS},
};

/* In the order of enum kvmill_flow_part; a program's text begins with one of these names. */
static const char *const variants[] = {"cache", "index", NULL};

static const char *text_of(const struct kernel *kernel) {
    return program_of_number(kernel->value[PROGRAM]);
}

/* ---- Legal kernels ---- */

static bool is_legal_flow_program(const struct kernel *kernel) {
    const char *text = text_of(kernel);
    return kvmill_isa_plain(kernel->isa) == kernel->isa &&
           (text == NULL || strncmp(text, kernel->variant, strlen(kernel->variant)) == 0);
}

bool flow_program_kernels(const struct kvmill_flow_problem *problem, const struct isa *isa,
                          struct kernel_list *list, struct error *error) {
    bool done = true;
    for (int part = 0; done && part < KVMILL_FLOW_PROGRAMS; part++) {
        struct kvmill_flow_text text;
        struct kernel kernel = {.family = &flow_program_family,
                                .isa = kvmill_isa_plain(isa),
                                .variant = variants[part]};
        done = !kvmill_flow_text_make(problem, (enum kvmill_flow_part)part, &text) ||
               (program_remember(text.text, &kernel.value[PROGRAM], error) &&
                kernel_list_add(list, &kernel, error));
    }
    return done;
}

static bool is_complete_flow_program(const struct kernel *kernel, struct error *error) {
    char symbol[SYMBOL_SIZE];
    if (text_of(kernel) != NULL)
        return true;
    kernel_symbol(kernel, symbol);
    return fail(error, EXIT_USER,
                "%s: a symbol has only a number for its program; accepted: with --kernels SPECS, "
                "the spec that has the flow, as a pack's specs.json does",
                symbol);
}

/* ---- Words ---- */

static void explain_flow_program(const struct kernel *kernel, FILE *stream) {
    const char *text = text_of(kernel);
    bool is_cache = kernel->variant == variants[KVMILL_CACHE_PROGRAM];
    fprintf(stream, "%s\n",
            is_cache ? "Summarises a page of one kv head: fields of a flow, from rows of K and V."
                     : "Scores pages for a query of one kv head, by fields of a flow.");
    if (text != NULL)
        fprintf(stream, "The program: %s.\n", text);
    else
        fprintf(stream, "Of the program the symbol has only a number; --kernels SPECS shows it.\n");
}

/* ---- Definitions ---- */

static bool define_flow_program(const struct kernel *kernel, struct expansion *expansion) {
    const char *program = text_of(kernel);
    struct statement statement;
    struct text steps = {0};
    bool done = program == NULL || define_text(expansion, "program", program);
    for (const char *at = program; done && at != NULL && *at != '\0';) {
        at = statement_read(at, &statement);
        done = statement_call(&statement, &steps);
    }
    done = done && (program == NULL || define_text(expansion, "steps", steps.data));
    text_free(&steps);
    return done;
}

static const char *const libraries[] = {"flow_program", "flow_ops", NULL};

const struct family flow_program_family = {
    .name = "flow_program",
    .folder = "flow_program",
    .op = "flow",
    .libraries = libraries,
    .formats = true,
    .fields = fields,
    .field_count = FIELDS,
    .variants = variants,
    .legal = is_legal_flow_program,
    .explain = explain_flow_program,
    .define = define_flow_program,
    .complete = is_complete_flow_program,
};
