/* kvmill explain: describes kernels in words, or prints their C.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../base/text.h"
#include "../gen/generators.h"
#include "../gen/pack.h"
#include "../gen/variants.h"
#include "../import/spec_file.h"
#include "../spec/flow_spec.h"
#include "best_isa.h"
#include "commands.h"
#include "inputs.h"
#include "kernel_table.h"
#include "tuned.h"

static const struct option_help options[] = {
    {"source", NULL, "print the C of the kernels instead", NULL},
    {"tuned", "DB", "also show tuning results; may be repeated", &file_values},
    {"isa", "LIST",
     "for SPECS: instruction sets, or native, separated by commas (default: all for x86-64)",
     &isa_values},
    {"kernels", "SPECS", "for SYMBOL: specs with the flow program that its number stands for",
     &file_values},
    JSON_OPTION,
    {NULL, NULL, NULL, NULL},
};

/* ---- A kernel ---- */

/* Finds the size of a kernel's code.  *bytes is -1 if the symbol has only a number for its program,
   which tells neither the text nor its size. */
static bool find_size(const struct kernel *kernel, int64_t *bytes, struct error *error) {
    struct text source = {0};
    struct error unknown;
    *bytes = -1;
    if (kernel->family->complete != NULL && !kernel->family->complete(kernel, &unknown))
        return true;
    bool done = kernel_source(kernel, &source, error);
    if (done)
        *bytes = source_code_bytes(&source);
    text_free(&source);
    return done;
}

static void print_words(const struct kernel *kernel, FILE *stream) {
    char constants[SYMBOL_SIZE];
    kernel->family->explain(kernel, stream);
    kernel_constant_words(kernel, constants);
    if (*constants != '\0')
        fprintf(stream, "For problems with these numbers alone, which are constants: %s.\n",
                constants);
}

/* Prints the description of a kernel; tuned is NULL without --tuned. */
static bool explain_kernel(const struct kernel *kernel, const struct sweeps *tuned,
                           struct error *error) {
    char symbol[SYMBOL_SIZE];
    int64_t bytes;
    if (!find_size(kernel, &bytes, error))
        return false;
    kernel_symbol(kernel, symbol);
    print_shown(stdout, "%s\n", symbol);
    print_words(kernel, stdout);
    print_shown(stdout, "For %s of instruction set %s", kernel->family->op, kernel->isa->name);
    if (bytes >= 0)
        print_shown(stdout, "; about %" PRId64 " bytes of code", bytes);
    print_shown(stdout, ".\n");
    bool done = tuned == NULL || tuned_explain(tuned, kernel, stdout, error);
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

/* ---- As JSON ---- */

/* Sets a member to an array of lines: the kernel's description, or its tuning results if tuned is
   not NULL. */
static bool set_lines(json_t *object, const char *key, const struct kernel *kernel,
                      const struct sweeps *tuned, struct error *error) {
    struct text text = {0};
    FILE *stream = text_stream(&text);
    if (stream == NULL)
        return out_of_memory(error);
    json_t *lines = json_array();
    bool done = true;
    if (tuned == NULL)
        print_words(kernel, stream);
    else
        done = tuned_explain(tuned, kernel, stream, error);
    done = (fclose(stream) == 0 || out_of_memory(error)) && done;
    for (char *line = text.data, *end; done && line != NULL && *line != '\0'; line = end + 1) {
        end = strchrnul(line, '\n');
        json_array_append_new(lines, json_stringn(line, (size_t)(end - line)));
        if (*end == '\0')
            break;
    }
    json_object_set_new(object, key, lines);
    text_free(&text);
    return done;
}

static bool set_source(json_t *object, const struct kernel *kernel, struct error *error) {
    struct text text = {0};
    bool done = kernel_source(kernel, &text, error);
    if (done)
        json_object_set_new(object, "source", json_string(text.data));
    text_free(&text);
    return done;
}

/* Completes `object`, which has the columns of the kernel table. */
static bool complete_json(json_t *object, const struct kernel *kernel, const struct sweeps *tuned,
                          bool source, struct error *error) {
    int64_t bytes;
    if (!set_lines(object, "words", kernel, NULL, error) || !find_size(kernel, &bytes, error))
        return false;
    if (bytes >= 0)
        json_object_set_new(object, "code_bytes", json_integer(bytes));
    return (tuned == NULL || set_lines(object, "tuned", kernel, tuned, error)) &&
           (!source || set_source(object, kernel, error));
}

/* ---- Kernels and flows ---- */

/* Reads a kernel from its symbol.  Reads the specs of --kernels first, so that the programs in them
   are known. */
static bool kernel_of_symbol(const struct options *given, struct kernel_list *kernels,
                             struct error *error) {
    struct kernel kernel;
    struct isa_list isas;
    struct spec_list specs = {0};
    struct kernel_list others = {0};
    const char *file = option_value(given, "kernels");
    if (option_value(given, "isa"))
        return fail(error, EXIT_USER, "--isa is for SPECS; a symbol contains its instruction set");
    bool done = file == NULL ||
                (isa_list_parse("scalar", best_isa(), &isas, error) &&
                 specs_read(file, &specs, error) && specs_kernels(&specs, &isas, &others, error));
    done = done && kernel_parse(given->rest[0], &kernel, error) && tuning_check(&kernel, error) &&
           kernel_list_add(kernels, &kernel, error);
    kernel_list_free(&others);
    spec_list_free(&specs);
    return done;
}

static bool words_of_spec(const struct spec *spec, struct text *text) {
    return generator_of(spec)->words(spec, text) &&
           (!spec_is(spec, OP_FLOW) || flow_layout_words(spec, text));
}

/* Adds the descriptions of specs that have their own: sparse flows, which kernels alone do not
   describe. */
static bool explain_specs(const struct spec_list *specs, json_t *array, struct error *error) {
    bool done = true;
    for (size_t i = 0; done && i < specs->count; i++) {
        const struct spec *spec = &specs->items[i];
        struct text text = {0};
        if (generator_of(spec)->words == NULL)
            continue;
        done = words_of_spec(spec, &text) || out_of_memory(error);
        if (done)
            json_array_append_new(array, json_pack("{s:s, s:s}", "spec", spec->where, "words",
                                                   text.data ? text.data : ""));
        text_free(&text);
    }
    return done && (!json_lacked() || out_of_memory(error));
}

/* The kernels and specs to explain. */
struct subject {
    struct kernel_list kernels;
    json_t *specs; /* descriptions of sparse flows */
    struct sweeps sweeps;
    bool tuned;
};

static bool subject_of_specs(const struct options *given, struct subject *subject,
                             struct error *error) {
    struct isa_list isas;
    struct spec_list specs = {0};
    if (access(given->rest[0], F_OK) != 0)
        return fail(error, EXIT_USER,
                    "\"%.200s\" is neither a file nor a symbol that `kvmill list` prints",
                    given->rest[0]);
    if (option_value(given, "kernels"))
        return fail(error, EXIT_USER, "--kernels is for a SYMBOL; SPECS contain their programs");
    bool done = isa_list_parse(option_value(given, "isa"), best_isa(), &isas, error) &&
                specs_read(given->rest[0], &specs, error) &&
                specs_kernels(&specs, &isas, &subject->kernels, error) &&
                note_without_kernels(&specs, &isas, error) &&
                explain_specs(&specs, subject->specs, error);
    spec_list_free(&specs);
    return done;
}

static bool read_subject(const struct options *given, struct subject *subject,
                         struct error *error) {
    subject->specs = json_array();
    if (subject->specs == NULL)
        return out_of_memory(error);
    subject->tuned = option_value(given, "tuned") != NULL;
    bool done = strncmp(given->rest[0], "kvmill_", 7) == 0
                    ? kernel_of_symbol(given, &subject->kernels, error)
                    : subject_of_specs(given, subject, error);
    return done && (!subject->tuned || tuned_read(given, &subject->sweeps, error));
}

static void free_subject(struct subject *subject) {
    sweeps_free(&subject->sweeps);
    kernel_list_free(&subject->kernels);
    json_decref(subject->specs);
}

/* ---- The command ---- */

static void print_specs(const json_t *specs) {
    size_t i;
    json_t *item;
    json_array_foreach(specs, i, item) {
        print_shown(stdout, "%s: ", json_string_value(json_object_get(item, "spec")));
        put_shown(json_string_value(json_object_get(item, "words")), stdout);
        print_shown(stdout, "\n\n");
    }
}

static bool print_subject(const struct subject *subject, bool source, struct error *error) {
    const struct kernel_list *kernels = &subject->kernels;
    bool done = true;
    if (!source)
        print_specs(subject->specs);
    for (size_t i = 0; done && i < kernels->count; i++)
        done = source ? print_source(&kernels->items[i], error)
                      : explain_kernel(&kernels->items[i], subject->tuned ? &subject->sweeps : NULL,
                                       error);
    return done;
}

static bool print_subject_json(const struct subject *subject, bool source, struct error *error) {
    const struct kernel_list *kernels = &subject->kernels;
    json_t *array = json_of_kernels(kernels);
    bool done = true;
    for (size_t i = 0; done && i < kernels->count; i++)
        done = complete_json(json_array_get(array, i), &kernels->items[i],
                             subject->tuned ? &subject->sweeps : NULL, source, error);
    if (done)
        return json_print(json_pack("{s:O, s:o}", "specs", subject->specs, "kernels", array),
                          error);
    json_decref(array);
    return false;
}

static bool explain_all(const struct options *given, struct error *error) {
    struct subject subject = {0};
    bool json = option_value(given, "json") != NULL;
    if (given->rest_count != 1)
        return fail(error, EXIT_USER, "kvmill explain: %d arguments; accepted: one SYMBOL or SPECS",
                    given->rest_count);
    json_watch();
    bool done = read_subject(given, &subject, error) &&
                (json ? print_subject_json
                      : print_subject)(&subject, option_value(given, "source") != NULL, error);
    free_subject(&subject);
    return done;
}

const struct command explain_command = {
    .name = "explain",
    .synopsis = "SYMBOL|SPECS [options]",
    .summary = "Describe a kernel in words; with --source print its C.",
    .options = options,
    .arguments = &file_values,
    .run = explain_all,
};
