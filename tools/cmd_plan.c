/* kvmill plan: shows what kvmill generate would write.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/json.h"
#include "../base/text.h"
#include "commands.h"
#include "inputs.h"
#include "kernel_spaces.h"
#include "kernel_table.h"
#include "model_layers.h"

static const struct option_help options[] = {
    INPUT_OPTIONS,
    {"layers", NULL, "print only the model's layers and their caches", NULL},
    {"variants", NULL, "print instead the variants and tunables that kvmill tune measures", NULL},
    JSON_OPTION,
    {NULL, NULL, NULL, NULL},
};

/* ---- As text ---- */

static bool print_specs(const struct spec_list *specs, struct error *error) {
    bool done = true;
    json_watch();
    for (size_t i = 0; done && i < specs->count; i++) {
        json_t *spec = spec_write(&specs->items[i]);
        char *text = json_dumps(spec, JSON_PRESERVE_ORDER);
        done = (text != NULL && !json_lacked()) || out_of_memory(error);
        print_shown(stdout, "  ");
        put_shown(done ? text : "", stdout);
        print_shown(stdout, "\n");
        free(text);
        json_decref(spec);
    }
    print_shown(stdout, "\n");
    return done;
}

static void print_sizes(const struct inputs *inputs, const struct output *files) {
    const struct pack *pack = &inputs->pack;
    for (int i = 0; i < inputs->isas.count; i++) {
        int64_t bytes = pack_code_bytes(pack, files, inputs->isas.items[i]);
        if (bytes > 0)
            print_shown(stdout, "%s: about %" PRId64 " bytes of code\n",
                        inputs->isas.items[i]->name, bytes);
        else
            print_shown(stdout, "%s: no kernels of its own\n", inputs->isas.items[i]->name);
    }
    print_shown(stdout, "pack %s: %zu kernels, about %" PRId64 " bytes of code\n", inputs->name,
                pack->kernels.count, pack_code_bytes(pack, files, NULL));
}

static bool print_plan(const struct inputs *inputs, const struct output *files,
                       struct error *error) {
    if (inputs->model.layer_count > 0)
        print_layers(&inputs->model, &inputs->choice);
    print_shown(stdout, "%zu spec%s\n", inputs->specs.count, inputs->specs.count == 1 ? "" : "s");
    if (!print_specs(&inputs->specs, error))
        return false;
    print_kernel_table(&inputs->pack.kernels);
    print_shown(stdout, "\n");
    print_sizes(inputs, files);
    return true;
}

/* ---- As JSON ---- */

static json_t *json_of_sizes(const struct inputs *inputs, const struct output *files) {
    json_t *sizes = json_object();
    for (int i = 0; i < inputs->isas.count; i++)
        json_object_set_new(
            sizes, inputs->isas.items[i]->name,
            json_integer(pack_code_bytes(&inputs->pack, files, inputs->isas.items[i])));
    return sizes;
}

static bool print_plan_json(const struct inputs *inputs, const struct output *files,
                            struct error *error) {
    json_watch();
    json_t *plan = json_pack("{s:s}", "pack", inputs->name), *specs = specs_write(&inputs->specs);
    if (inputs->model.layer_count > 0)
        json_object_set_new(plan, "model", json_of_model(&inputs->model, &inputs->choice));
    json_object_set(plan, "specs", json_object_get(specs, "kernels"));
    json_object_set_new(plan, "kernels", json_of_kernels(&inputs->pack.kernels));
    json_object_set_new(plan, "code_bytes_by_isa", json_of_sizes(inputs, files));
    json_object_set_new(plan, "code_bytes",
                        json_integer(pack_code_bytes(&inputs->pack, files, NULL)));
    json_decref(specs);
    return json_print(plan, error);
}

/* ---- The layers alone ---- */

static bool print_layers_json(const struct inputs *inputs, struct error *error) {
    json_watch();
    return json_print(json_of_model(&inputs->model, &inputs->choice), error);
}

/* Makes no kernels, which take most of the time. */
static bool plan_layers(const struct options *given, struct inputs *inputs, bool json,
                        struct error *error) {
    if (!inputs_read_specs(given, NULL, inputs, error))
        return false;
    if (inputs->model.layer_count == 0)
        return fail(error, EXIT_USER,
                    "--layers requires --model with a config.json or a GGUF model");
    put_shown(inputs->specs.notes.length ? inputs->specs.notes.data : "", stderr);
    if (json)
        return print_layers_json(inputs, error);
    print_layers(&inputs->model, &inputs->choice);
    return true;
}

/* ---- The command ---- */

static bool plan_pack(const struct inputs *inputs, bool json, struct error *error) {
    struct output files = {0};
    bool done = pack_files(&inputs->pack, &files, error) &&
                (json ? print_plan_json : print_plan)(inputs, &files, error);
    output_free(&files);
    return done;
}

static bool plan_kernels(const struct options *given, struct inputs *inputs, bool json,
                         struct error *error) {
    if (!inputs_read(given, NULL, inputs, error))
        return false;
    if (option_value(given, "variants") == NULL)
        return plan_pack(inputs, json, error);
    return (json ? print_variants_json : print_variants)(&inputs->pack.kernels, &inputs->isas,
                                                         error);
}

static bool show_plan(const struct options *given, struct error *error) {
    struct inputs inputs = {0};
    bool json = option_value(given, "json") != NULL;
    bool done = option_value(given, "layers") != NULL ? plan_layers(given, &inputs, json, error)
                                                      : plan_kernels(given, &inputs, json, error);
    inputs_free(&inputs);
    return done;
}

const struct command plan_command = {
    .name = "plan",
    .synopsis = "(--model CONFIG | --kernels SPECS) [options]",
    .summary = "Show what generate would write: specs, kernels, predicted size.",
    .options = options,
    .run = show_plan,
};
