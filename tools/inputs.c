/* SPDX-License-Identifier: Apache-2.0 */
#include "inputs.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool read_cache_type(const struct options *options, struct cache_choice *choice,
                            struct error *error) {
    static const char *const accepted[] = {"float32", "float16", "bfloat16", NULL};
    const char *name = option_value(options, "cache");
    if (name == NULL)
        return true;
    for (int i = 0; accepted[i] != NULL; i++)
        if (strcmp(name, accepted[i]) == 0)
            choice->dtype = kvmill_dtype_by_name(name);
    return choice->dtype != NULL ||
           fail(error, EXIT_USER, "--cache: \"%.40s\"; accepted: float32, float16, bfloat16", name);
}

static bool read_model(const struct options *options, const char *file, struct inputs *inputs,
                       struct error *error) {
    struct cache_choice choice = {.layout = -1};
    long layout = -1;
    if (!read_cache_type(options, &choice, error) ||
        !option_integer(options, "cache-layout", 0, 1, &layout, error))
        return false;
    choice.layout = (int)layout;
    return model_read(file, &inputs->model, error) &&
           specs_of_model(&inputs->model, &choice, &inputs->specs, error);
}

static bool read_specs(const struct options *options, const char *file, struct inputs *inputs,
                       struct error *error) {
    static const char *const for_models[] = {"cache", "cache-layout", NULL};
    for (int i = 0; for_models[i] != NULL; i++)
        if (option_value(options, for_models[i]))
            return fail(error, EXIT_USER, "--%s goes with --model; a spec says it itself",
                        for_models[i]);
    return specs_read(file, &inputs->specs, error);
}

static bool read_source(const struct options *options, struct inputs *inputs, struct error *error) {
    const char *model = option_value(options, "model"), *specs = option_value(options, "kernels");
    if ((model == NULL) == (specs == NULL))
        return fail(error, EXIT_USER, "%s; accepted: one of --model CONFIG, --kernels SPECS",
                    model ? "both --model and --kernels were given" : "nothing to generate from");
    if (options->rest_count > 0)
        return fail(error, EXIT_USER, "\"%.200s\" is one argument too many", options->rest[0]);
    return model ? read_model(options, model, inputs, error)
                 : read_specs(options, specs, inputs, error);
}

/* The last part of a path as a C identifier. */
static void name_from(const char *path, char name[65]) {
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    snprintf(name, 65, "%s%.*s", isdigit((unsigned char)path[begin]) ? "_" : "", (int)(end - begin),
             path + begin);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
}

static bool set_name(const struct options *options, const char *directory, struct inputs *inputs,
                     struct error *error) {
    const char *name = option_value(options, "name");
    if (name == NULL)
        name_from(directory ? directory : "pack", inputs->name);
    else
        snprintf(inputs->name, sizeof inputs->name, "%s", name);
    return pack_name_check(name ? name : inputs->name, error);
}

/* Nothing is silently left out: say which specs only the portable kernels will serve. */
static bool note_without_kernels(const struct inputs *inputs, struct error *error) {
    for (size_t i = 0; i < inputs->specs.count; i++) {
        const struct spec *spec = &inputs->specs.items[i];
        struct kernel_list own = {0};
        bool done = spec->op->kernels(spec, inputs->isas.items[0], &own, error);
        if (done && own.count == 0)
            fprintf(stderr,
                    "%s: note: no kernel is generated (no data, or rows of 4-bit elements "
                    "whose number only the run knows); the portable one serves it\n",
                    spec->where);
        kernel_list_free(&own);
        if (!done)
            return false;
    }
    return true;
}

bool inputs_read(const struct options *options, const char *directory, struct inputs *inputs,
                 struct error *error) {
    *inputs = (struct inputs){0};
    if (!isa_list_parse(option_value(options, "isa"), &inputs->isas, error) ||
        !set_name(options, directory, inputs, error) || !read_source(options, inputs, error))
        return false;
    inputs->pack.name = inputs->name;
    inputs->pack.specs = &inputs->specs;
    return specs_kernels(&inputs->specs, &inputs->isas, &inputs->pack.kernels, error) &&
           note_without_kernels(inputs, error);
}

void inputs_free(struct inputs *inputs) {
    model_free(&inputs->model);
    spec_list_free(&inputs->specs);
    kernel_list_free(&inputs->pack.kernels);
}
