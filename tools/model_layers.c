/* SPDX-License-Identifier: Apache-2.0 */
#include "model_layers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../import/hf/specs_of_model.h"

static const char *const kind_words[] = {
    [LAYER_FULL] = "full",
    [LAYER_SLIDING] = "sliding",
    [LAYER_LATENT] = "latent",
    [LAYER_NONE] = "no cache",
};

/* Whether the layer's cache is a ring: it has a window, and is not llama.cpp's. */
static bool is_ring(const struct layer *layer, const struct cache_choice *choice) {
    return layer->kind == LAYER_SLIDING && choice->ggml[GGML_KEY] == NULL;
}

/* Returns the first layer after `first` that differs from it. */
static int end_of_alike(const struct model *model, int first) {
    int next = first + 1;
    while (next < model->layer_count &&
           memcmp(&model->layers[first], &model->layers[next], sizeof *model->layers) == 0)
        next++;
    return next;
}

/* ---- As text ---- */

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
                    is_ring(layer, choice) ? " in a ring" : "");
    if (layer->chunk > 0)
        print_shown(stdout, ", chunks of %" PRId64, layer->chunk);
    print_shown(stdout, "%s%s\n", layer->sinks ? ", sinks" : "",
                layer->merges ? ", next to a compressed stream" : "");
}

/* Writes the cache's type, such as "q8_0" or "float16, q4_0".  `own` is the word for the model's
   type. */
static void write_type(const struct cache_choice *choice, const char *own, char *type,
                       size_t size) {
    const struct kvmill_format_parts *const *ggml = choice->ggml;
    const struct kvmill_format_parts *key = choice->type, *value = choice->value_type;
    if (ggml[GGML_KEY] != NULL)
        key = ggml[GGML_KEY], value = ggml[GGML_VALUE];
    if (key == NULL)
        snprintf(type, size, "%s", own);
    else if (value == NULL || value == key)
        snprintf(type, size, "%s", key->word);
    else
        snprintf(type, size, "%s, %s", key->word, value->word);
}

void print_layers(const struct model *model, const struct cache_choice *choice) {
    char range[32], type[64];
    write_type(choice, choice->activations ? model->dtype->name : "", type, sizeof type);
    int64_t bytes = cache_bytes_per_token(model, choice);
    int64_t lasting = cache_bytes_without_windows(model, choice);
    print_shown(stdout, "model %s, %d layers, %s, %" PRId64 " bytes of %s%scache per token",
                model->type, model->layer_count, activations_word(model, choice), bytes, type,
                *type == '\0' ? "" : " ");
    if (lasting < bytes)
        print_shown(stdout, ", %" PRId64 " when windows are full", lasting);
    print_shown(stdout, "\n");
    for (int first = 0, next; first < model->layer_count; first = next) {
        next = end_of_alike(model, first);
        snprintf(range, sizeof range, next == first + 1 ? "%d" : "%d-%d", first, next - 1);
        print_layer(&model->layers[first], choice, range);
    }
    print_shown(stdout, "\n");
}

/* ---- As JSON ---- */

static json_t *json_of_layers(const struct layer *layer, const struct cache_choice *choice,
                              int first, int last) {
    json_t *object =
        json_pack("{s:i, s:i, s:s}", "first", first, "last", last, "kind", kind_words[layer->kind]);
    if (layer->kind == LAYER_NONE)
        return object;
    json_object_set_new(object, "query_heads", json_integer(layer->query_heads));
    json_object_set_new(object, "kv_heads", json_integer(layer->kv_heads));
    json_object_set_new(object, "key_elements", json_integer(layer->key_dim));
    json_object_set_new(object, "value_elements", json_integer(layer->value_dim));
    if (layer->window > 0)
        json_object_set_new(object, "window_tokens", json_integer(layer->window));
    json_object_set_new(object, "ring", json_boolean(is_ring(layer, choice)));
    if (layer->chunk > 0)
        json_object_set_new(object, "chunk_tokens", json_integer(layer->chunk));
    if (layer->sinks)
        json_object_set_new(object, "sinks", json_true());
    if (layer->merges)
        json_object_set_new(object, "compressed_stream", json_true());
    return object;
}

json_t *json_of_model(const struct model *model, const struct cache_choice *choice) {
    char type[64];
    write_type(choice, model->dtype->name, type, sizeof type);
    json_t *layers = json_array();
    for (int first = 0, next; first < model->layer_count; first = next) {
        next = end_of_alike(model, first);
        json_array_append_new(layers,
                              json_of_layers(&model->layers[first], choice, first, next - 1));
    }
    return json_pack("{s:s, s:i, s:s, s:s, s:I, s:I, s:o}", "type", model->type, "layer_count",
                     model->layer_count, "activations", activations_word(model, choice), "cache",
                     type, "cache_bytes_per_token",
                     (json_int_t)cache_bytes_per_token(model, choice),
                     "cache_bytes_per_token_when_windows_are_full",
                     (json_int_t)cache_bytes_without_windows(model, choice), "layers", layers);
}
