/* kvmill plan: what generate would write.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "inputs.h"
#include "kernel_table.h"

static const struct option_help options[] = {INPUT_OPTIONS, {NULL, NULL, NULL}};

/* ---- Layers ---- */

static const char *const kind_words[] = {
    [LAYER_FULL] = "full",
    [LAYER_SLIDING] = "sliding",
    [LAYER_LATENT] = "latent",
    [LAYER_NONE] = "no cache",
};

static void print_layer(const struct layer *layer, const char *range) {
    printf("  %-9s %-9s", range, kind_words[layer->kind]);
    if (layer->kind != LAYER_NONE)
        printf(" %3" PRId64 " query heads, %3" PRId64 " kv heads, key %" PRId64 ", value %" PRId64,
               layer->query_heads, layer->kv_heads, layer->key_dim, layer->value_dim);
    if (layer->window > 0)
        printf(", window %" PRId64, layer->window);
    printf("\n");
}

/* Neighbours that are alike share a line. */
static void print_layers(const struct model *model) {
    char range[32];
    printf("model %s, %d layers, %s, %" PRId64 " bytes of cache per token\n", model->type,
           model->layer_count, model->dtype->name, model_bytes_per_token(model));
    for (int first = 0, next; first < model->layer_count; first = next) {
        next = first + 1;
        while (next < model->layer_count &&
               memcmp(&model->layers[first], &model->layers[next], sizeof *model->layers) == 0)
            next++;
        snprintf(range, sizeof range, next == first + 1 ? "%d" : "%d-%d", first, next - 1);
        print_layer(&model->layers[first], range);
    }
    printf("\n");
}

/* ---- Specs and kernels ---- */

static void print_specs(const struct spec_list *specs) {
    for (size_t i = 0; i < specs->count; i++) {
        json_t *spec = spec_write(&specs->items[i]);
        char *text = json_dumps(spec, JSON_PRESERVE_ORDER);
        printf("  %s\n", text);
        free(text);
        json_decref(spec);
    }
    printf("\n");
}

static void print_sizes(const struct inputs *inputs) {
    for (int i = 0; i < inputs->isas.count; i++)
        printf("%s: about %" PRId64 " bytes of code\n", inputs->isas.items[i]->name,
               pack_code_bytes(&inputs->pack.kernels, inputs->isas.items[i]));
    printf("pack %s: %zu kernels, about %" PRId64 " bytes of code\n", inputs->name,
           inputs->pack.kernels.count, pack_code_bytes(&inputs->pack.kernels, NULL));
}

static bool plan(const struct options *given, struct error *error) {
    struct inputs inputs = {0};
    bool done = inputs_read(given, NULL, &inputs, error);
    if (done) {
        if (inputs.model.layer_count > 0)
            print_layers(&inputs.model);
        printf("%zu specs\n", inputs.specs.count);
        print_specs(&inputs.specs);
        print_kernel_table(&inputs.pack.kernels);
        printf("\n");
        print_sizes(&inputs);
    }
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
