/* kvmill plan: what generate would write.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/json.h"
#include "../base/text.h"
#include "../gen/variants.h"
#include "commands.h"
#include "inputs.h"
#include "kernel_table.h"

static const struct option_help options[] = {
    INPUT_OPTIONS,
    {"variants", NULL, "print instead what the kernels leave open: what kvmill tune chooses from"},
    {NULL, NULL, NULL},
};

/* ---- Layers ---- */

static const char *const kind_words[] = {
    [LAYER_FULL] = "full",
    [LAYER_SLIDING] = "sliding",
    [LAYER_LATENT] = "latent",
    [LAYER_NONE] = "no cache",
};

/* A ring, except in llama.cpp's cache. */
static void print_layer(const struct layer *layer, const struct cache_choice *choice,
                        const char *range) {
    print_shown(stdout, "  %-9s %-9s", range, kind_words[layer->kind]);
    if (layer->kind != LAYER_NONE)
        print_shown(stdout,
                    " %3" PRId64 " query heads, %3" PRId64 " kv heads, key %" PRId64
                    ", value %" PRId64,
                    layer->query_heads, layer->kv_heads, layer->key_dim, layer->value_dim);
    if (layer->window > 0)
        print_shown(stdout, ", window %" PRId64 "%s", layer->window,
                    layer->kind == LAYER_SLIDING && choice->ggml[GGML_KEY] == NULL ? " in a ring"
                                                                                   : "");
    print_shown(stdout, "\n");
}

/* "q8_0", "float16, q4_0"; "" for the model's. */
static void write_type(const struct cache_choice *choice, char *type, size_t size) {
    const struct kvmill_format_parts *const *ggml = choice->ggml;
    if (ggml[GGML_KEY] == NULL)
        snprintf(type, size, "%s", choice->type == NULL ? "" : choice->type->word);
    else if (ggml[GGML_KEY] == ggml[GGML_VALUE])
        snprintf(type, size, "%s", ggml[GGML_KEY]->word);
    else
        snprintf(type, size, "%s, %s", ggml[GGML_KEY]->word, ggml[GGML_VALUE]->word);
}

/* Neighbours that are alike share a line. */
static void print_layers(const struct model *model, const struct cache_choice *choice) {
    char range[32], type[64];
    write_type(choice, type, sizeof type);
    int64_t bytes = cache_bytes_per_token(model, choice);
    int64_t lasting = cache_bytes_without_windows(model, choice);
    print_shown(stdout, "model %s, %d layers, %s, %" PRId64 " bytes of %s%scache per token",
                model->type, model->layer_count, model->dtype->name, bytes, type,
                *type == '\0' ? "" : " ");
    if (lasting < bytes)
        print_shown(stdout, ", %" PRId64 " when windows are full", lasting);
    print_shown(stdout, "\n");
    for (int first = 0, next; first < model->layer_count; first = next) {
        next = first + 1;
        while (next < model->layer_count &&
               memcmp(&model->layers[first], &model->layers[next], sizeof *model->layers) == 0)
            next++;
        snprintf(range, sizeof range, next == first + 1 ? "%d" : "%d-%d", first, next - 1);
        print_layer(&model->layers[first], choice, range);
    }
    print_shown(stdout, "\n");
}

/* ---- Specs and kernels ---- */

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
    for (int i = 0; i < inputs->isas.count; i++)
        print_shown(stdout, "%s: about %" PRId64 " bytes of code\n", inputs->isas.items[i]->name,
                    pack_code_bytes(pack, files, inputs->isas.items[i]));
    print_shown(stdout, "pack %s: %zu kernels, about %" PRId64 " bytes of code\n", inputs->name,
                pack->kernels.count, pack_code_bytes(pack, files, NULL));
}

/* ---- What kernels leave open ---- */

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

/* A kernel that could not be another is not listed. */
static bool print_variants_of(const struct kernel *kernel, const struct isa_list *isas,
                              size_t *points, struct error *error) {
    struct kernel_list alternatives = {0};
    struct tunable_space spaces[MOST_ALTERNATIVES] = {0};
    bool done = kernel_alternatives(kernel, isas, &alternatives, error);
    *points = 0;
    for (size_t i = 0; done && i < alternatives.count; i++) {
        done = tunable_space_read(&alternatives.items[i], &spaces[i], error);
        *points += spaces[i].points.count;
    }
    if (done && *points > 1)
        print_spaces(kernel, &alternatives, spaces);
    for (size_t i = 0; i < alternatives.count; i++)
        tunable_space_free(&spaces[i]);
    kernel_list_free(&alternatives);
    return done;
}

static bool print_variants(const struct inputs *inputs, struct error *error) {
    const struct kernel_list *kernels = &inputs->pack.kernels;
    size_t all = 0, points = 0, open = 0;
    for (size_t i = 0; i < kernels->count; i++) {
        if (kernels->items[i].family->tunables == NULL)
            continue;
        if (!print_variants_of(&kernels->items[i], &inputs->isas, &points, error))
            return false;
        open += points > 1;
        all += points > 1 ? points : 0;
    }
    print_shown(stdout, "%zu of %zu kernels leave something open, %zu legal points together\n",
                open, kernels->count, all);
    return true;
}

static bool print_plan(const struct inputs *inputs, const struct output *files,
                       struct error *error) {
    if (inputs->model.layer_count > 0)
        print_layers(&inputs->model, &inputs->choice);
    print_shown(stdout, "%zu specs\n", inputs->specs.count);
    if (!print_specs(&inputs->specs, error))
        return false;
    print_kernel_table(&inputs->pack.kernels);
    print_shown(stdout, "\n");
    print_sizes(inputs, files);
    return true;
}

static bool plan_pack(const struct inputs *inputs, struct error *error) {
    struct output files = {0};
    bool done = pack_files(&inputs->pack, &files, error) && print_plan(inputs, &files, error);
    output_free(&files);
    return done;
}

static bool plan(const struct options *given, struct error *error) {
    struct inputs inputs = {0};
    bool done = inputs_read(given, NULL, &inputs, error);
    if (done)
        done = option_value(given, "variants") ? print_variants(&inputs, error)
                                               : plan_pack(&inputs, error);
    inputs_free(&inputs);
    return done;
}

const struct command plan_command = {
    .name = "plan",
    .synopsis = "(--model CONFIG | --kernels SPECS) [options]",
    .summary = "Print what generate would write: specs, kernels, predicted size.",
    .options = options,
    .run = plan,
};
