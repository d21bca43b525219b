/* What each layer stores: its window, its heads and their sizes, if these differ between layers.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/text.h"
#include "config_reader.h"
#include "config_words.h"

static const struct config_key chunk_key = {{"attention_chunk_size"}, 1, MOST_POSITIONS};

/* ---- The window ---- */

/* A key that only one class has, and what its number means in tokens. */
static bool read_window_of_class(struct reader *r) {
    const struct config_key key = {{r->class->window_key}, 1, MOST_POSITIONS};
    int64_t size = 0;
    if (r->class->window_key == NULL)
        return true;
    if (!config_optional(&r->text, &key, 0, &size, r->error))
        return false;
    if (size > 0)
        r->window.size = size / (r->class->window_halved ? 2 : 1) + r->class->window_more;
    return true;
}

/* 0 and -1 switch a window off, as does use_sliding_window. */
static bool read_window(struct reader *r) {
    static const struct config_key key = {
        {"sliding_window", "sliding_window_size", "attention_window_size"}, -1, MOST_POSITIONS};
    struct window *window = &r->window;
    struct json_place place = config_find(&r->text, key.names);
    bool used = false, listed = json_is_array(place.value);
    if ((!listed && !config_optional(&r->text, &key, r->class->window, &window->size, r->error)) ||
        !read_window_of_class(r) ||
        !config_flag(&r->text, "use_sliding_window", !r->class->window_off, &used, r->error))
        return false;
    window->off = !used || window->size < 0 || (json_is_integer(place.value) && window->size == 0);
    window->active = used && window->size > 0;
    struct json_place everywhere = json_member(&r->text, "attention_window_size");
    window->everywhere = json_given(&everywhere);
    return true;
}

/* ---- Kinds ---- */

static bool refuse_missing_window(struct reader *r, int layer) {
    struct json_place place = json_member(&r->text, "sliding_window");
    return json_fail(
        r->error, &place,
        "is missing or null, but layer %d is %s; accepted: a number of tokens, or full "
        "attention",
        layer, r->words[layer]->text);
}

/* A window of all positions is none. */
static bool set_window(struct reader *r, int number) {
    struct layer *layer = &r->model->layers[number];
    int64_t positions = r->model->max_positions;
    if (layer->window == 0 && r->window.size > 0)
        layer->window = r->window.size;
    if (layer->window == 0 && !r->window.off)
        return refuse_missing_window(r, number);
    if (r->window.off || (positions != 0 && layer->window >= positions)) {
        layer->kind = LAYER_FULL;
        layer->window = 0;
    }
    return true;
}

static bool note_chunks(const struct reader *r) {
    return text_print(r->notes,
                      "%s: note: layers with chunks of %" PRId64
                      " tokens are planned as full attention; the engine starts each chunk with an "
                      "empty cache\n",
                      r->outer.file, r->chunk) ||
           out_of_memory(r->error);
}

static bool set_kinds(struct reader *r) {
    bool chunked = false;
    for (int i = 0; i < r->file_layers; i++) {
        struct layer *layer = &r->model->layers[i];
        layer->kind = r->words[i]->kind;
        layer->merges = r->words[i]->merges;
        layer->chunk = r->words[i]->chunked ? r->chunk : 0;
        chunked |= layer->chunk > 0;
        if (layer->kind == LAYER_SLIDING && !set_window(r, i))
            return false;
    }
    return !chunked || note_chunks(r);
}

/* ---- What the layers of a kind have in common ---- */

/* Keys of layers of one kind; `part` is the object that has them, or NULL for the decoder's. */
static const struct kind_keys {
    enum layer_kind kind;
    const char *part;
    struct config_key heads, kv_heads, dim, value_dim;
    const char *kv_flag; /* must be true, or the KV heads do not count */
} kinds[] = {
    {.kind = LAYER_SLIDING,
     .heads = {{"swa_num_attention_heads", "num_swa_attention_heads",
                "num_sliding_attention_heads"},
               1,
               MOST_HEADS},
     .kv_heads = {{"swa_num_key_value_heads", "num_swa_key_value_heads"}, 1, MOST_HEADS},
     .dim = {{"swa_head_dim"}, 1, MOST_HEAD_DIM},
     .value_dim = {{"swa_v_head_dim"}, 1, MOST_HEAD_DIM}},
    {.kind = LAYER_SLIDING,
     .part = "attention_other_setting",
     .heads = {{"num_attention_heads"}, 1, MOST_HEADS},
     .kv_heads = {{"num_attention_groups", "num_key_value_heads"}, 1, MOST_HEADS},
     .dim = {{"head_dim"}, 1, MOST_HEAD_DIM},
     .value_dim = {{"v_head_dim"}, 1, MOST_HEAD_DIM}},
    {.kind = LAYER_FULL,
     .kv_heads = {{"num_global_key_value_heads"}, 1, MOST_HEADS},
     .dim = {{"global_head_dim"}, 1, MOST_HEAD_DIM},
     .kv_flag = "attention_k_eq_v"},
};

static void set_head_dim(struct layer *layer, int64_t dim) {
    layer->key_dim = dim;
    layer->value_dim = dim;
}

/* Reads a key that may be absent from the table, and leaves the value if the config has none. */
static bool read_own(struct reader *r, const struct json_place *part, const struct config_key *key,
                     int64_t *value) {
    int64_t own = 0;
    if (key->names[0] == NULL || part->value == NULL)
        return true;
    if (!config_optional(part, key, 0, &own, r->error))
        return false;
    if (own != 0)
        *value = own;
    return true;
}

static bool read_own_kv_heads(struct reader *r, const struct json_place *part,
                              const struct kind_keys *keys, struct layer *layer) {
    bool counts = true;
    if (keys->kv_flag != NULL && !config_flag(part, keys->kv_flag, false, &counts, r->error))
        return false;
    int64_t kv_heads = layer->kv_heads;
    if (!read_own(r, part, &keys->kv_heads, &kv_heads))
        return false;
    if (counts)
        layer->kv_heads = kv_heads;
    struct json_place place = config_find(part, keys->kv_heads.names);
    return config_check_heads(r, &place, layer);
}

/* A value of another size than the key keeps it, unless it has a key of its own. */
static bool read_own_dims(struct reader *r, const struct json_place *part,
                          const struct kind_keys *keys, struct layer *layer) {
    int64_t dim = layer->key_dim;
    if (!read_own(r, part, &keys->dim, &dim))
        return false;
    if (dim != layer->key_dim)
        set_head_dim(layer, dim);
    return read_own(r, part, &keys->value_dim, &layer->value_dim);
}

static bool read_kind_keys(struct reader *r, const struct kind_keys *keys, struct layer *layer) {
    struct json_place part = r->text;
    if (keys->part != NULL)
        part = json_member(&r->text, keys->part);
    if (!json_given(&part))
        return true;
    return json_get_object(&part, r->error) &&
           read_own(r, &part, &keys->heads, &layer->query_heads) &&
           read_own_kv_heads(r, &part, keys, layer) && read_own_dims(r, &part, keys, layer);
}

/* Sets `layer`, which is r->common, to what layers of a kind have. */
static bool read_kind(struct reader *r, enum layer_kind kind, struct layer *layer) {
    if (kind == LAYER_SLIDING && r->class->sliding_kv_times != 0)
        layer->kv_heads *= r->class->sliding_kv_times;
    if (kind == LAYER_FULL && r->class->global_head_dim != 0)
        set_head_dim(layer, r->class->global_head_dim);
    struct json_place global = json_member(&r->text, "global_head_dim");
    if (kind == LAYER_FULL && global.value != NULL && !json_given(&global))
        set_head_dim(layer, r->common.key_dim);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].kind == kind && !read_kind_keys(r, &kinds[i], layer))
            return false;
    return true;
}

/* Where per_layer_config has the heads and sizes, keys of kinds do not count. */
static void pass_over_kind_keys(const struct reader *r) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct config_key *const keys[] = {&kinds[i].heads, &kinds[i].kv_heads, &kinds[i].dim,
                                                 &kinds[i].value_dim};
        for (size_t j = 0; j < sizeof keys / sizeof *keys; j++)
            if (keys[j]->names[0] != NULL)
                config_find(&r->text, keys[j]->names);
    }
}

static bool read_sinks(struct reader *r, struct layer *full, struct layer *sliding) {
    return config_flag(&r->text, "add_full_attention_sink_bias", class_has_sinks(r->class, false),
                       &full->sinks, r->error) &&
           config_flag(&r->text, "add_swa_attention_sink_bias", class_has_sinks(r->class, true),
                       &sliding->sinks, r->error);
}

static bool set_shapes(struct reader *r) {
    struct layer full = r->common, sliding = r->common;
    bool own = r->common.kind != LAYER_LATENT && !config_has_overrides(r);
    if (config_has_overrides(r))
        pass_over_kind_keys(r);
    if (own && (!read_kind(r, LAYER_FULL, &full) || !read_kind(r, LAYER_SLIDING, &sliding)))
        return false;
    if (!read_sinks(r, &full, &sliding))
        return false;
    for (int i = 0; i < r->file_layers; i++) {
        struct layer *layer = &r->model->layers[i];
        if (layer->kind != LAYER_NONE)
            config_set_shape(layer, layer->kind == LAYER_SLIDING ? &sliding : &full);
    }
    return true;
}

/* ---- All layers ---- */

static void set_scales(struct model *model) {
    for (int i = 0; i < model->layer_count; i++) {
        struct layer *layer = &model->layers[i];
        if (layer->kind != LAYER_NONE && layer->scale == 0)
            layer->scale = 1 / sqrt((double)layer->key_dim);
    }
}

static bool allocate(struct reader *r) {
    size_t count = (size_t)r->file_layers;
    r->model->layers = calloc(count, sizeof *r->model->layers);
    r->words = calloc(count, sizeof *r->words);
    return (r->model->layers != NULL && r->words != NULL) ||
           fail_errno(r->error, "read", r->outer.file);
}

/* A model without any cache is none that kvmill can help. */
static bool check_any(struct reader *r) {
    for (int i = 0; i < r->model->layer_count; i++)
        if (r->model->layers[i].kind != LAYER_NONE)
            return true;
    return json_fail(r->error, &r->text,
                     "no layer of this model has a key/value cache; accepted: a model in which a "
                     "layer attends");
}

bool config_layers(struct reader *r) {
    if (!allocate(r) || !config_optional(&r->text, &chunk_key, 0, &r->chunk, r->error) ||
        !read_window(r) || !config_kinds(r) || !set_kinds(r) || !config_shared(r) ||
        !set_shapes(r) || !config_overrides(r) || !config_loops(r) || !check_any(r))
        return false;
    set_scales(r->model);
    return true;
}
