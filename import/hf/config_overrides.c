/* Layers with heads and sizes of their own: lists of head counts, per_layer_config, block_configs.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config_reader.h"

/* ---- Lists of head counts ---- */

/* Finds the first of these keys that has a list. */
static struct json_place find_list(const struct reader *r, const struct config_key *key) {
    struct json_place place = {.value = NULL};
    for (size_t i = 0; key->names[i] != NULL && !json_is_array(place.value); i++)
        place = json_member(&r->text, key->names[i]);
    return place;
}

/* Reads the entry of a layer.  A list may have more entries, for later predictions. */
static bool read_entry(struct reader *r, const struct json_place *list, int layer, int64_t least,
                       int64_t *value) {
    size_t entries = json_array_size(list->value);
    if (!json_is_array(list->value))
        return true;
    if (entries < (size_t)r->file_layers)
        return json_fail(r->error, list, "has %zu entries for %d layers; accepted: one for each",
                         entries, r->file_layers);
    struct json_place item = json_element(list, (size_t)layer);
    return json_get_integer(&item, least, MOST_HEADS, value, r->error);
}

/* A layer with 0 KV heads has no cache. */
static bool read_lists(struct reader *r) {
    struct json_place heads = find_list(r, &config_heads_key),
                      kv_heads = find_list(r, &config_kv_heads_key);
    const struct json_place *last = json_is_array(kv_heads.value) ? &kv_heads : &heads;
    if (!json_is_array(last->value))
        return true;
    for (int i = 0; i < r->file_layers; i++) {
        struct layer *layer = &r->model->layers[i];
        int64_t own = layer->kv_heads;
        if (layer->kind == LAYER_NONE)
            continue;
        if (!read_entry(r, &heads, i, 1, &layer->query_heads) ||
            !read_entry(r, &kv_heads, i, 0, &own))
            return false;
        if (layer->kind == LAYER_LATENT || layer->value_is_key)
            continue;
        layer->kv_heads = own;
        if (own == 0)
            *layer = (struct layer){.kind = LAYER_NONE};
        else if (!config_check_heads(r, last, layer))
            return false;
    }
    return true;
}

/* ---- per_layer_config ---- */

/* Reads a layer's keys as if they stood in the decoder's part. */
static bool read_own_shape(struct reader *r, const struct json_place *entry, struct layer *shape) {
    struct reader own = *r;
    own.common = (struct layer){.kind = LAYER_FULL};
    own.text.value = json_copy(r->text.value);
    memcpy(own.text.path, entry->path, sizeof own.text.path);
    bool done = own.text.value != NULL && json_object_update(own.text.value, entry->value) == 0;
    done = done ? config_heads(&own) && config_common(&own) : out_of_memory(r->error);
    *shape = own.common;
    json_decref(own.text.value);
    return done;
}

/* Whether the layer has no attention: "skip": ["attention"]. */
static bool skips_attention(const struct json_place *entry) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(entry->value, "skip"), i, item) {
        const char *word = json_string_value(item);
        if (word != NULL && (strstr(word, "attn") != NULL || strstr(word, "attention") != NULL))
            return true;
    }
    return false;
}

static bool read_own_window(struct reader *r, const struct json_place *entry, struct layer *layer) {
    static const struct config_key key = {{"sliding_window"}, 1, MOST_POSITIONS};
    return layer->kind != LAYER_SLIDING ||
           config_required(entry, &key, layer->window, &layer->window, r->error);
}

static bool read_layer_config(struct reader *r, const struct json_place *entry,
                              struct layer *layer) {
    struct layer shape = {0};
    if (!json_get_object(entry, r->error) || !config_judge(r, entry))
        return false;
    if (skips_attention(entry))
        *layer = (struct layer){.kind = LAYER_NONE};
    if (layer->kind == LAYER_NONE)
        return true;
    if (!read_own_shape(r, entry, &shape))
        return false;
    shape.sinks = layer->sinks;
    config_set_shape(layer, &shape);
    return read_own_window(r, entry, layer);
}

/* Returns the layer's number, or -1 if `text` is not one; saved configs pad it with zeros. */
static int layer_number(const char *text, int count) {
    char *end;
    long number = strtol(text, &end, 10);
    bool plain = text[0] >= '0' && text[0] <= '9' && *end == '\0';
    return plain && number < count ? (int)number : -1;
}

static bool read_layer_configs(struct reader *r, const struct json_place *configs) {
    const char *key;
    json_t *value;
    if (!json_get_object(configs, r->error))
        return false;
    json_object_foreach(configs->value, key, value) {
        struct json_place entry = json_member(configs, key);
        int number = layer_number(key, r->file_layers);
        if (number < 0)
            return json_fail(r->error, &entry, "is not a layer; accepted: 0 to %d",
                             r->file_layers - 1);
        if (!read_layer_config(r, &entry, &r->model->layers[number]))
            return false;
    }
    return true;
}

/* ---- block_configs, of models that were pruned ---- */

/* Sets the kind and the KV heads of a layer.  Its group is the query heads that share a KV head. */
static bool read_block(struct reader *r, const struct json_place *attention, struct layer *layer) {
    static const struct config_key group_key = {{"n_heads_in_group"}, 1, MOST_HEADS},
                                   kv_key = {{"num_key_value_heads"}, 1, MOST_HEADS},
                                   window_key = {{"window_length"}, 1, MOST_POSITIONS},
                                   sinks_key = {{"num_sink_tokens"}, 0, 0};
    bool absent = false, linear = false;
    int64_t group = 0, kv_heads = 0, sinks = 0;
    if (!json_get_object(attention, r->error) ||
        !config_flag(attention, "no_op", false, &absent, r->error) ||
        !config_flag(attention, "replace_with_linear", false, &linear, r->error) ||
        !config_optional(attention, &group_key, 0, &group, r->error) ||
        !config_optional(attention, &kv_key, 0, &kv_heads, r->error) ||
        !config_optional(attention, &window_key, 0, &layer->window, r->error) ||
        !config_optional(attention, &sinks_key, 0, &sinks, r->error))
        return false;
    if (absent || linear || layer->kind == LAYER_NONE) {
        *layer = (struct layer){.kind = LAYER_NONE};
        return true;
    }
    if (layer->window > 0)
        layer->kind = LAYER_SLIDING;
    if (kv_heads == 0 && group > 0 && layer->query_heads % group == 0)
        kv_heads = layer->query_heads / group;
    if (kv_heads == 0)
        return json_fail(r->error, attention,
                         "has neither KV heads nor a group that divides %" PRId64
                         " heads; accepted: n_heads_in_group, num_key_value_heads, or no_op",
                         layer->query_heads);
    layer->kv_heads = kv_heads;
    return config_check_heads(r, attention, layer);
}

static bool read_blocks(struct reader *r, const struct json_place *blocks) {
    if (!json_get_array(blocks, r->error))
        return false;
    if (json_array_size(blocks->value) != (size_t)r->file_layers)
        return json_fail(r->error, blocks, "has %zu entries for %d layers; accepted: one for each",
                         json_array_size(blocks->value), r->file_layers);
    for (int i = 0; i < r->file_layers; i++) {
        struct json_place block = json_element(blocks, (size_t)i);
        if (!json_get_object(&block, r->error))
            return false;
        struct json_place attention = json_member(&block, "attention");
        if (!read_block(r, &attention, &r->model->layers[i]))
            return false;
    }
    return true;
}

/* ---- All of them ---- */

bool config_has_overrides(const struct reader *r) {
    struct json_place configs = json_member(&r->text, "per_layer_config");
    return json_given(&configs) && json_object_size(configs.value) > 0;
}

bool config_overrides(struct reader *r) {
    struct json_place configs = json_member(&r->text, "per_layer_config"),
                      blocks = json_member(&r->text, "block_configs");
    return read_lists(r) && (!json_given(&configs) || read_layer_configs(r, &configs)) &&
           (!json_given(&blocks) || read_blocks(r, &blocks));
}
