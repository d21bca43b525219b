/* kvmill explain: kernels in words, or their C.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/text.h"
#include "../gen/flow.h"
#include "../gen/pack.h"
#include "../gen/variants.h"
#include "commands.h"
#include "inputs.h"
#include "tuned.h"

static const struct option_help options[] = {
    {"source", NULL, "print the C of the kernels instead"},
    {"tuned", "DB", "say also what tuning found; may be given several times"},
    {"isa", "LIST", "for SPECS: instruction sets, by commas (all for x86-64)"},
    {"kernels", "SPECS", "for SYMBOL: specs that have the program which it names by a number"},
    {NULL, NULL, NULL},
};

/* A symbol that names its program by a number alone says neither the text nor its size. */
static bool print_size(const struct kernel *kernel, struct error *error) {
    struct text source = {0};
    struct error unknown;
    if (kernel->family->complete != NULL && !kernel->family->complete(kernel, &unknown))
        return true;
    bool done = kernel_source(kernel, &source, error);
    if (done)
        print_shown(stdout, "; about %" PRId64 " bytes of code", source_code_bytes(&source));
    text_free(&source);
    return done;
}

/* tuned: NULL without --tuned. */
static bool explain_kernel(const struct kernel *kernel, const struct sweeps *tuned,
                           struct error *error) {
    char symbol[SYMBOL_SIZE];
    kernel_symbol(kernel, symbol);
    print_shown(stdout, "%s\n", symbol);
    kernel->family->explain(kernel, stdout);
    print_shown(stdout, "For %s of instruction set %s", kernel->family->op, kernel->isa->name);
    bool done = print_size(kernel, error);
    print_shown(stdout, ".\n");
    done = done && (tuned == NULL || tuned_explain(tuned, kernel, error));
    print_shown(stdout, "\n");
    return done;
}

static bool print_source(const struct kernel *kernel, struct error *error) {
    struct text text = {0};
    bool done = kernel_source(kernel, &text, error);
    if (done)
        put_shown(text.data, stdout);
    text_free(&text);
    return done;
}

/* Reading specs makes their programs known. */
static bool kernel_of_symbol(const struct options *given, struct kernel_list *kernels,
                             struct error *error) {
    struct kernel kernel;
    struct isa_list isas;
    struct spec_list specs = {0};
    struct kernel_list others = {0};
    const char *file = option_value(given, "kernels");
    if (option_value(given, "isa"))
        return fail(error, EXIT_USER, "--isa goes with SPECS; the symbol says its own");
    bool done = file == NULL ||
                (isa_list_parse("scalar", &isas, error) && specs_read(file, &specs, error) &&
                 specs_kernels(&specs, &isas, &others, error));
    done = done && kernel_parse(given->rest[0], &kernel, error) && tuning_check(&kernel, error) &&
           kernel_list_add(kernels, &kernel, error);
    kernel_list_free(&others);
    spec_list_free(&specs);
    return done;
}

static bool explain_flows(const struct spec_list *specs, struct error *error) {
    struct text text = {0};
    bool done = true;
    for (size_t i = 0; done && i < specs->count; i++)
        if (spec_family_of(&specs->items[i])->words != NULL)
            done = text_print(&text, "%s: ", specs->items[i].where) &&
                   spec_family_of(&specs->items[i])->words(&specs->items[i], &text) &&
                   (!spec_is(&specs->items[i], OP_FLOW) ||
                    flow_layout_words(&specs->items[i], &text)) &&
                   text_print(&text, "\n\n");
    if (done && text.length > 0)
        put_shown(text.data, stdout);
    text_free(&text);
    return done || out_of_memory(error);
}

static bool kernels_of(const struct options *given, struct kernel_list *kernels,
                       struct error *error) {
    struct isa_list isas;
    struct spec_list specs = {0};
    if (strncmp(given->rest[0], "kvmill_", 7) == 0)
        return kernel_of_symbol(given, kernels, error);
    if (option_value(given, "kernels"))
        return fail(error, EXIT_USER, "--kernels goes with a SYMBOL; SPECS say their programs");
    bool done = isa_list_parse(option_value(given, "isa"), &isas, error) &&
                specs_read(given->rest[0], &specs, error) &&
                specs_kernels(&specs, &isas, kernels, error) &&
                note_without_kernels(&specs, &isas, error) &&
                (option_value(given, "source") || explain_flows(&specs, error));
    spec_list_free(&specs);
    return done;
}

static bool explain_kernels(const struct kernel_list *kernels, const struct sweeps *tuned,
                            bool source, struct error *error) {
    bool done = true;
    for (size_t i = 0; done && i < kernels->count; i++)
        done = source ? print_source(&kernels->items[i], error)
                      : explain_kernel(&kernels->items[i], tuned, error);
    return done;
}

static bool explain(const struct options *given, struct error *error) {
    struct kernel_list kernels = {0};
    struct sweeps sweeps = {0};
    bool tuned = option_value(given, "tuned") != NULL;
    if (given->rest_count != 1)
        return fail(error, EXIT_USER, "kvmill explain: %d arguments; accepted: one SYMBOL or SPECS",
                    given->rest_count);
    bool done = kernels_of(given, &kernels, error) &&
                (!tuned || tuned_read(given, &sweeps, error)) &&
                explain_kernels(&kernels, tuned ? &sweeps : NULL,
                                option_value(given, "source") != NULL, error);
    sweeps_free(&sweeps);
    kernel_list_free(&kernels);
    return done;
}

const struct command explain_command = {
    .name = "explain",
    .synopsis = "SYMBOL|SPECS [options]",
    .summary = "Say in words what a kernel does and how; with --source print its C.",
    .options = options,
    .run = explain,
};
