/* Layers that read another layer's cache, that attend next to a compressed stream, or that run more
   than once.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config_reader.h"

static const struct config_key shared_key = {{"num_kv_shared_layers"}, 0, MOST_LAYERS};
static const struct config_key factor_key = {{"cla_share_factor"}, 1, MOST_LAYERS};

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
    size_t count = (size_t)r->file_layers;
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

static void drop(struct reader *r, int64_t layer) {
    r->model->layers[layer] = (struct layer){.kind = LAYER_NONE};
}

/* Gemma 3n and 4: the last layers. */
static bool drop_last(struct reader *r) {
    int64_t shared = 0, count = r->file_layers;
    struct json_place place = config_find(&r->text, shared_key.names);
    if (!config_optional(&r->text, &shared_key, r->class->kv_shared_layers, &shared, r->error))
        return false;
    if (shared >= count)
        return json_fail(r->error, &place,
                         "is %" PRId64 " for %" PRId64
                         " layers; accepted: fewer than there are layers",
                         shared, count);
    for (int64_t i = count - shared; i < count; i++)
        drop(r, i);
    return true;
}

/* Hunyuan: the first layer of each group has a cache. */
static bool drop_in_groups(struct reader *r) {
    bool shares = false;
    int64_t factor = 0;
    config_find(&r->text, factor_key.names);
    if (!config_flag(&r->text, "use_cla", false, &shares, r->error))
        return false;
    if (!shares)
        return true;
    if (!config_required(&r->text, &factor_key, 2, &factor, r->error))
        return false;
    for (int64_t i = 0; i < r->file_layers; i++)
        if (i % factor != 0)
            drop(r, i);
    return true;
}

/* Mistral Large 4: for each layer, the number of the one whose cache it reads. */
static bool drop_by_source(struct reader *r) {
    struct json_place sources = json_member(&r->text, "kv_source_layers");
    int64_t source = 0;
    if (!json_given(&sources))
        return true;
    if (!json_get_array(&sources, r->error))
        return false;
    if (json_array_size(sources.value) != (size_t)r->file_layers)
        return json_fail(r->error, &sources,
                         "has %zu entries for %d layers; accepted: one for each layer",
                         json_array_size(sources.value), r->file_layers);
    for (int64_t i = 0; i < r->file_layers; i++) {
        struct json_place item = json_element(&sources, (size_t)i);
        if (!json_get_integer(&item, 0, i, &source, r->error))
            return false;
        if (source != i)
            drop(r, i);
    }
    return true;
}

/* Mllama: layers that attend to images alone.  The key counts as not read, because that attention
   is not planned. */
static bool drop_cross(struct reader *r) {
    struct json_place unread = r->text;
    unread.seen = NULL;
    struct json_place list = json_member(&unread, "cross_attention_layers");
    if (!json_given(&list))
        return true;
    if (!config_check_list(r, &list, 0))
        return false;
    for (int i = 0; i < r->file_layers; i++)
        if (config_list_has(&list, i))
            drop(r, i);
    return true;
}

bool config_shared(struct reader *r) {
    return read_streams(r) && drop_last(r) && drop_in_groups(r) && drop_by_source(r) &&
           drop_cross(r);
}

/* ---- Layers that run more than once, with a cache for each time ---- */

/* The keys of a loop over layers: its first layer, the number of its layers or the layer after it,
   and how often it runs. */
static const struct loop_keys {
    struct config_key first, count, end, times;
    const char *mode; /* where this key is "last_loop", only the last time has a cache */
} loops[] = {
    {.first = {{"n_input_layers"}, 0, MOST_LAYERS},
     .count = {{"n_recurrent_layers"}, 1, MOST_LAYERS},
     .times = {{"n_recurrent_loops"}, 1, MOST_LAYERS},
     .mode = "recurrent_kv_cache_mode"},
    {.first = {{"loop_layer_index_start"}, 0, MOST_LAYERS},
     .end = {{"loop_layer_index_end"}, 1, MOST_LAYERS},
     .times = {{"loop_num_passes"}, 1, MOST_LAYERS}},
};

struct loop {
    int64_t first, count, times;
};

static bool is_last_only(const struct reader *r, const struct loop_keys *keys) {
    struct json_place mode = {.value = NULL};
    if (keys->mode != NULL)
        mode = json_member(&r->text, keys->mode);
    return json_is_string(mode.value) && strcmp(json_string_value(mode.value), "last_loop") == 0;
}

static bool read_loop(struct reader *r, const struct loop_keys *keys, struct loop *loop) {
    const struct config_key *length = keys->count.names[0] != NULL ? &keys->count : &keys->end;
    struct json_place place = config_find(&r->text, length->names);
    if (!config_optional(&r->text, &keys->first, 0, &loop->first, r->error) ||
        !config_required(&r->text, length, 0, &loop->count, r->error))
        return false;
    if (length == &keys->end)
        loop->count -= loop->first;
    return (loop->count > 0 && loop->first + loop->count <= r->file_layers) ||
           json_fail(r->error, &place, "does not end a loop over the model's %d layers",
                     r->file_layers);
}

static bool refuse_loops(struct reader *r, const struct json_place *times,
                         const struct loop *loop) {
    return json_fail(r->error, times,
                     "is %" PRId64 " for %" PRId64 " layers; accepted: up to %d caches in all",
                     loop->times, loop->count, MOST_LAYERS);
}

/* Appends the layers of the loop for each further time, as Transformers does with its caches. */
static bool repeat(struct reader *r, const struct json_place *times, const struct loop *loop) {
    struct model *model = r->model;
    int64_t total = model->layer_count + (loop->times - 1) * loop->count;
    if (total > MOST_LAYERS)
        return refuse_loops(r, times, loop);
    struct layer *layers = realloc(model->layers, (size_t)total * sizeof *layers);
    if (layers == NULL)
        return out_of_memory(r->error);
    model->layers = layers;
    for (int64_t i = model->layer_count; i < total; i++)
        layers[i] = layers[loop->first + (i - model->layer_count) % loop->count];
    model->layer_count = (int)total;
    return true;
}

bool config_loops(struct reader *r) {
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        struct loop loop = {0};
        struct json_place times = config_find(&r->text, loops[i].times.names);
        if (!config_optional(&r->text, &loops[i].times, 1, &loop.times, r->error))
            return false;
        bool last_only = is_last_only(r, &loops[i]);
        if (loop.times > 1 &&
            (!read_loop(r, &loops[i], &loop) || (!last_only && !repeat(r, &times, &loop))))
            return false;
    }
    return true;
}
