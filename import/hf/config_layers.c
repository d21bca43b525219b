/* How the layers of a model differ: windows, layers without a cache, a second geometry.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config_reader.h"

static const struct config_key window_key = {{"sliding_window"}, 1, MOST_POSITIONS};
static const struct config_key pattern_key = {
    {"sliding_window_pattern", "_sliding_window_pattern"}, 1, MOST_LAYERS};
static const struct config_key first_sliding_key = {{"max_window_layers"}, 0, MOST_LAYERS};
static const struct config_key interval_key = {{"full_attention_interval"}, 1, MOST_LAYERS};
static const struct config_key shared_key = {{"num_kv_shared_layers"}, 0, MOST_LAYERS};
static const struct config_key global_dim_key = {{"global_head_dim"}, 1, MOST_HEAD_DIM};
static const struct config_key global_heads_key = {{"num_global_key_value_heads"}, 1, MOST_HEADS};
static const struct config_key layer_dim_key = {{"head_dim"}, 1, MOST_HEAD_DIM};
static const struct config_key layer_heads_key = {{"num_key_value_heads"}, 1, MOST_HEADS};
static const struct config_key layer_query_heads_key = {{"num_attention_heads"}, 1, MOST_HEADS};

/* ---- The window ---- */

struct window {
    int64_t size;  /* 0: not given, or null */
    bool disabled; /* use_sliding_window is false */
    bool active;
};

static bool read_window(struct reader *r, struct window *window) {
    int64_t positions = r->model->max_positions;
    bool used = false;
    if (!config_optional(&r->text, &window_key, r->class->window, &window->size, r->error) ||
        !config_flag(&r->text, "use_sliding_window", !r->class->window_off, &used, r->error))
        return false;
    window->disabled = !used;
    window->active = used && window->size != 0 && (positions == 0 || window->size < positions);
    return true;
}

/* ---- Kinds from layer_types ---- */

static const struct word {
    const char *text;
    enum layer_kind kind;
    const char *refusal;
    bool merges;
} words[] = {
    {.text = "full_attention", .kind = LAYER_FULL},
    {.text = "sliding_attention", .kind = LAYER_SLIDING},
    {.text = "compressed_sparse_attention", .kind = LAYER_SLIDING, .merges = true},
    {.text = "heavily_compressed_attention", .kind = LAYER_SLIDING, .merges = true},
    {.text = "attention", .kind = LAYER_FULL},
    {.text = "linear_attention", .kind = LAYER_NONE},
    {.text = "mamba", .kind = LAYER_NONE},
    {.text = "mamba2", .kind = LAYER_NONE},
    {.text = "recurrent", .kind = LAYER_NONE},
    {.text = "conv", .kind = LAYER_NONE},
    {.text = "chunked_attention",
     .kind = LAYER_NONE,
     .refusal = ", which is not a sliding window and has no kernel"},
    {.text = "hybrid",
     .kind = LAYER_NONE,
     .refusal = ", which is attention and a state space in one layer"},
};

static const struct word *find_word(const char *text) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].text, text) == 0)
            return &words[i];
    return NULL;
}

static bool read_word(const struct json_place *place, struct layer *layer, struct error *error) {
    const char *text;
    if (!json_get_string(place, &text, error))
        return false;
    const struct word *word = find_word(text);
    if (word != NULL && word->refusal == NULL) {
        layer->kind = word->kind;
        layer->merges = word->merges;
        return true;
    }
    return json_fail(error, place,
                     "is \"%.40s\"%s; accepted: full_attention, sliding_attention, "
                     "compressed_sparse_attention, heavily_compressed_attention, attention, "
                     "linear_attention, mamba, mamba2, recurrent, conv",
                     text, word != NULL ? word->refusal : "");
}

static bool read_kind(struct reader *r, const struct json_place *place, const struct window *window,
                      struct layer *layer) {
    if (!read_word(place, layer, r->error))
        return false;
    if (layer->kind != LAYER_SLIDING || window->active)
        return true;
    layer->kind = LAYER_FULL;
    return window->size != 0 || window->disabled ||
           json_fail(r->error, place,
                     "is sliding_attention, but sliding_window is missing or null; accepted: a "
                     "sliding_window, or full_attention");
}

static bool kinds_from_words(struct reader *r, const struct json_place *types,
                             const struct window *window) {
    int count = r->model->layer_count;
    if (!json_get_array(types, r->error))
        return false;
    if (json_array_size(types->value) != (size_t)count)
        return json_fail(r->error, types,
                         "has %zu entries for %d layers; accepted: one entry per layer",
                         json_array_size(types->value), count);
    for (int i = 0; i < count; i++) {
        struct json_place place = json_element(types, (size_t)i);
        if (!read_kind(r, &place, window, &r->model->layers[i]))
            return false;
    }
    return true;
}

/* ---- Kinds from counts ---- */

struct rhythm {
    int64_t pattern, first_sliding, interval;
};

static bool read_rhythm(struct reader *r, struct rhythm *rhythm) {
    const struct model_class *class = r->class;
    return config_optional(&r->text, &pattern_key, class->pattern, &rhythm->pattern, r->error) &&
           config_optional(&r->text, &first_sliding_key, class->first_sliding,
                           &rhythm->first_sliding, r->error) &&
           config_optional(&r->text, &interval_key, class->full_interval, &rhythm->interval,
                           r->error);
}

static enum layer_kind kind_of(const struct rhythm *rhythm, bool windowed, int layer) {
    if (rhythm->interval != 0 && (layer + 1) % rhythm->interval != 0)
        return LAYER_NONE;
    bool full =
        rhythm->pattern != 0 ? (layer + 1) % rhythm->pattern == 0 : layer < rhythm->first_sliding;
    return windowed && !full ? LAYER_SLIDING : LAYER_FULL;
}

static bool kinds_from_rhythm(struct reader *r, const struct window *window) {
    struct rhythm rhythm;
    if (!read_rhythm(r, &rhythm))
        return false;
    for (int i = 0; i < r->model->layer_count; i++)
        r->model->layers[i].kind = kind_of(&rhythm, window->active, i);
    return true;
}

/* ---- Layers next to a compressed stream ---- */

/* DeepSeek V4: the number of tokens in an entry of a layer's stream, or 0 if it has no stream.  The
   array also has entries for layers that predict further tokens.  The key counts as not read,
   because streams are not planned. */
static bool read_stream(struct reader *r, const struct json_place *ratio, struct layer *layer) {
    layer->merges = json_is_integer(ratio->value) && json_integer_value(ratio->value) > 0;
    return layer->merges ||
           (json_is_integer(ratio->value) && json_integer_value(ratio->value) == 0) ||
           json_fail(r->error, ratio, "is not a number of tokens; accepted: 0 or more");
}

static bool read_streams(struct reader *r) {
    struct json_place unread = r->text;
    unread.seen = NULL;
    struct json_place ratios = json_member(&unread, "compress_ratios");
    size_t count = (size_t)r->model->layer_count;
    if (!json_given(&ratios))
        return true;
    if (!json_get_array(&ratios, r->error))
        return false;
    if (json_array_size(ratios.value) < count)
        return json_fail(r->error, &ratios,
                         "has %zu entries for %zu layers; accepted: an entry for each layer",
                         json_array_size(ratios.value), count);
    for (size_t i = 0; i < count; i++) {
        struct json_place ratio = json_element(&ratios, i);
        if (!read_stream(r, &ratio, &r->model->layers[i]))
            return false;
    }
    return true;
}

/* ---- Layers that read the cache of an earlier layer ---- */

static bool drop_shared(struct reader *r) {
    int64_t shared = 0, count = r->model->layer_count;
    struct json_place place = config_find(&r->text, shared_key.names);
    if (!config_optional(&r->text, &shared_key, r->class->kv_shared_layers, &shared, r->error))
        return false;
    if (shared >= count)
        return json_fail(r->error, &place,
                         "is %" PRId64 " for %" PRId64
                         " layers; accepted: fewer than there are layers",
                         shared, count);
    for (int64_t i = count - shared; i < count; i++)
        r->model->layers[i].kind = LAYER_NONE;
    return true;
}

static bool read_kinds(struct reader *r, const struct window *window) {
    static const char *const names[] = {"layer_types", "layers_block_type", NULL};
    struct json_place types = config_find(&r->text, names);
    bool read =
        json_given(&types) ? kinds_from_words(r, &types, window) : kinds_from_rhythm(r, window);
    if (read && r->class->last_full)
        r->model->layers[r->model->layer_count - 1].kind = LAYER_FULL;
    return read && read_streams(r) && drop_shared(r);
}

/* ---- Geometry ---- */

static bool refuse_latent_window(struct reader *r) {
    struct json_place place = config_find(&r->text, window_key.names);
    return json_fail(r->error, &place,
                     "a window over latent attention is not planned; accepted: null");
}

static bool fill_layers(struct reader *r, const struct window *window) {
    for (int i = 0; i < r->model->layer_count; i++) {
        struct layer *layer = &r->model->layers[i];
        enum layer_kind kind = layer->kind;
        bool merges = layer->merges;
        if (kind == LAYER_NONE)
            continue;
        if (kind == LAYER_SLIDING && r->common.kind == LAYER_LATENT)
            return refuse_latent_window(r);
        *layer = r->common;
        layer->merges = merges;
        if (r->common.kind != LAYER_LATENT)
            layer->kind = kind;
        if (kind == LAYER_SLIDING)
            layer->window = window->size;
    }
    return true;
}

static void set_head_dim(struct layer *layer, int64_t dim) {
    layer->key_dim = dim;
    layer->value_dim = dim;
}

/* Gemma 4: full layers have their own number of KV heads only if K and V share a projection. */
static bool read_global(struct reader *r) {
    struct layer global = r->common;
    int64_t dim = 0, heads = 0;
    bool shared_projection = false;
    if (!config_optional(&r->text, &global_dim_key, r->class->global_head_dim, &dim, r->error) ||
        !config_optional(&r->text, &global_heads_key, 0, &heads, r->error) ||
        !config_flag(&r->text, "attention_k_eq_v", false, &shared_projection, r->error))
        return false;
    if (dim != 0)
        set_head_dim(&global, dim);
    if (heads != 0 && shared_projection)
        global.kv_heads = heads;
    for (int i = 0; i < r->model->layer_count; i++)
        if (r->model->layers[i].kind == LAYER_FULL)
            r->model->layers[i] = global;
    struct json_place place = config_find(&r->text, global_heads_key.names);
    return config_check_heads(r, &place, &global);
}

static bool read_override(struct reader *r, const struct json_place *entry, struct layer *layer) {
    int64_t dim = 0;
    struct json_place place = config_find(entry, layer_heads_key.names);
    if (!json_get_object(entry, r->error) ||
        !config_optional(entry, &layer_dim_key, layer->key_dim, &dim, r->error) ||
        !config_required(entry, &layer_heads_key, layer->kv_heads, &layer->kv_heads, r->error) ||
        !config_required(entry, &layer_query_heads_key, layer->query_heads, &layer->query_heads,
                         r->error))
        return false;
    if (dim != 0 && dim != layer->key_dim)
        set_head_dim(layer, dim);
    return config_check_heads(r, &place, layer);
}

/* Returns the layer's number, or -1 if `text` is not one; saved configs pad it with zeros. */
static int layer_number(const char *text, int count) {
    char *end;
    long number = strtol(text, &end, 10);
    bool plain = text[0] >= '0' && text[0] <= '9' && *end == '\0';
    return plain && number < count ? (int)number : -1;
}

static bool read_overrides(struct reader *r, const struct json_place *overrides) {
    const char *key;
    json_t *value;
    if (!json_get_object(overrides, r->error))
        return false;
    json_object_foreach(overrides->value, key, value) {
        struct json_place entry = json_member(overrides, key);
        int number = layer_number(key, r->model->layer_count);
        if (number < 0)
            return json_fail(r->error, &entry, "is not a layer; accepted: 0 to %d",
                             r->model->layer_count - 1);
        struct layer *layer = &r->model->layers[number];
        if (layer->kind != LAYER_NONE && !read_override(r, &entry, layer))
            return false;
    }
    return true;
}

static bool read_geometry(struct reader *r) {
    struct json_place overrides = json_member(&r->text, "per_layer_config");
    if (r->common.kind == LAYER_LATENT)
        return true;
    return json_given(&overrides) ? read_overrides(r, &overrides) : read_global(r);
}

static void set_scales(struct model *model) {
    for (int i = 0; i < model->layer_count; i++) {
        struct layer *layer = &model->layers[i];
        if (layer->kind != LAYER_NONE && layer->scale == 0)
            layer->scale = 1 / sqrt((double)layer->key_dim);
    }
}

bool config_layers(struct reader *r) {
    struct window window;
    r->model->layers = calloc((size_t)r->model->layer_count, sizeof *r->model->layers);
    if (r->model->layers == NULL)
        return fail_errno(r->error, "read", r->outer.file);
    if (!read_window(r, &window) || !read_kinds(r, &window) || !fill_layers(r, &window) ||
        !read_geometry(r))
        return false;
    set_scales(r->model);
    return true;
}
