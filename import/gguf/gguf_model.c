/* Turns a GGUF header into a model.  What the metadata lack (patterns of windows, sinks) is in
   llama.cpp's code, and here in the table of model classes.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "../hf/config_class.h"
#include "gguf.h"
#include "gguf_metadata.h"

struct reader {
    struct gguf_file *file;
    struct gguf_metadata metadata;
    const struct model_class *class;
    struct model *model;
    bool slides_unknown; /* the window is given, but not which layers have it */
};

bool is_gguf_name(const char *name) {
    return name_has_ending(name, ".gguf");
}

/* ---- Values ---- */

static bool is_given(const struct reader *r, enum gguf_key key) {
    return r->metadata.values[key].count > 0;
}

/* Returns a layer's value; 0 if the key is absent. */
static double item_of(const struct reader *r, enum gguf_key key, int layer) {
    const struct gguf_value *value = &r->metadata.values[key];
    int i = value->is_array ? layer : 0;
    return i < value->count ? value->items[i] : 0;
}

static int64_t count_of(const struct reader *r, enum gguf_key key, int layer) {
    return (int64_t)item_of(r, key, layer);
}

static bool fail_at(const struct reader *r, enum gguf_key key, const char *words) {
    char name[GGUF_KEY_SIZE];
    return gguf_fail(r->file, r->metadata.values[key].at, "%s %s",
                     gguf_key_name(&r->metadata, key, name), words);
}

static bool fail_missing(const struct reader *r, enum gguf_key key) {
    char name[GGUF_KEY_SIZE];
    return fail(r->file->error, EXIT_USER, "%.400s: %s is missing; accepted: models with this key",
                r->file->name, gguf_key_name(&r->metadata, key, name));
}

static bool check_arrays(const struct reader *r) {
    for (int key = 0; key < GGUF_KEYS; key++)
        if (r->metadata.values[key].is_array &&
            r->metadata.values[key].count < r->model->layer_count)
            return fail_at(r, (enum gguf_key)key,
                           "has fewer elements than there are layers; "
                           "accepted: one for each layer");
    return true;
}

/* ---- Kinds ---- */

static bool is_recurrent(const struct reader *r, int layer) {
    int64_t interval =
        is_given(r, GGUF_INTERVAL) ? count_of(r, GGUF_INTERVAL, 0) : r->class->full_interval;
    if (is_given(r, GGUF_RECURRENT))
        return item_of(r, GGUF_RECURRENT, layer) != 0;
    return interval != 0 && (layer + 1) % interval != 0;
}

/* Whether a layer reads the cache of an earlier layer. */
static bool is_shared(const struct reader *r, int layer) {
    return layer >= r->model->layer_count - count_of(r, GGUF_SHARED_LAYERS, 0);
}

/* The pattern is an array of flags, one per layer, or a number n: every n-th layer is full. */
static bool is_sliding(struct reader *r, int layer) {
    const struct gguf_value *pattern = &r->metadata.values[GGUF_PATTERN];
    int64_t every = pattern->count > 0 ? count_of(r, GGUF_PATTERN, 0) : r->class->pattern;
    if (count_of(r, GGUF_WINDOW, 0) == 0)
        return false;
    if (pattern->is_array)
        return item_of(r, GGUF_PATTERN, layer) != 0;
    r->slides_unknown = pattern->count == 0 && every == 0;
    return !r->slides_unknown && (every == 0 || (layer + 1) % every != 0);
}

static enum layer_kind kind_of(struct reader *r, int layer) {
    bool attends = item_of(r, GGUF_HEADS, layer) != 0 &&
                   (!is_given(r, GGUF_KV_HEADS) || item_of(r, GGUF_KV_HEADS, layer) != 0);
    if (!attends || is_recurrent(r, layer) || is_shared(r, layer))
        return LAYER_NONE;
    if (is_given(r, GGUF_KEY_LENGTH_MLA) && is_given(r, GGUF_KV_RANK))
        return LAYER_LATENT;
    return is_sliding(r, layer) ? LAYER_SLIDING : LAYER_FULL;
}

/* ---- Geometry ---- */

/* Derives a head's size from the first layer with heads, as llama.cpp does. */
static bool derive_dim(const struct reader *r, int64_t *dim) {
    int64_t hidden = count_of(r, GGUF_HIDDEN, 0), heads = 0;
    for (int i = 0; i < r->model->layer_count && heads == 0; i++)
        heads = count_of(r, GGUF_HEADS, i);
    if (hidden == 0)
        return fail_missing(r, GGUF_HIDDEN);
    *dim = hidden / heads;
    return (hidden % heads == 0 && *dim <= MOST_HEAD_DIM) ||
           fail_at(r, GGUF_HIDDEN,
                   "does not give heads of equal size; accepted: a multiple of "
                   "attention.head_count, or attention.key_length");
}

static bool read_dim(const struct reader *r, enum gguf_key full, enum gguf_key sliding,
                     const struct layer *layer, int64_t *dim) {
    *dim = layer->kind == LAYER_SLIDING ? count_of(r, sliding, 0) : 0;
    if (*dim == 0)
        *dim = count_of(r, full, 0);
    return *dim != 0 || derive_dim(r, dim);
}

static bool check_heads(const struct reader *r, const struct layer *layer) {
    return layer->query_heads % layer->kv_heads == 0 ||
           fail_at(r, GGUF_KV_HEADS,
                   "does not divide attention.head_count; accepted: a divisor of it");
}

/* A latent layer attends to its rows as one head, but scales scores by the size of the heads that
   are compressed in it. */
static double scale_of(const struct reader *r, const struct layer *layer) {
    int64_t dim = layer->kind == LAYER_LATENT ? count_of(r, GGUF_KEY_LENGTH_MLA, 0) : 0;
    double given = item_of(r, GGUF_SCALE, 0);
    if (given == 0)
        given = r->class->scale;
    return given != 0 ? given : 1 / sqrt((double)(dim != 0 ? dim : layer->key_dim));
}

static bool fill_layer(struct reader *r, int number) {
    struct layer *layer = &r->model->layers[number];
    layer->kind = kind_of(r, number);
    if (layer->kind == LAYER_NONE)
        return true;
    layer->query_heads = count_of(r, GGUF_HEADS, number);
    layer->kv_heads =
        is_given(r, GGUF_KV_HEADS) ? count_of(r, GGUF_KV_HEADS, number) : layer->query_heads;
    if (layer->kind == LAYER_LATENT)
        layer->kv_heads = 1;
    if (!check_heads(r, layer) ||
        !read_dim(r, GGUF_KEY_LENGTH, GGUF_KEY_LENGTH_SWA, layer, &layer->key_dim) ||
        !read_dim(r, GGUF_VALUE_LENGTH, GGUF_VALUE_LENGTH_SWA, layer, &layer->value_dim))
        return false;
    layer->window = layer->kind == LAYER_SLIDING ? count_of(r, GGUF_WINDOW, 0) : 0;
    layer->scale = scale_of(r, layer);
    layer->softcap = is_given(r, GGUF_SOFTCAP) ? item_of(r, GGUF_SOFTCAP, 0) : r->class->softcap;
    layer->sinks =
        class_has_sinks(r->class, layer->kind == LAYER_SLIDING) || r->metadata.sinks[number];
    return true;
}

/* ---- The model ---- */

static bool check_attention(const struct reader *r) {
    for (int i = 0; i < r->model->layer_count; i++)
        if (r->model->layers[i].kind != LAYER_NONE)
            return true;
    return fail(r->file->error, EXIT_USER,
                "%.400s: no layer of architecture %s has attention and a cache of its own; "
                "accepted: models with attention.head_count and head_count_kv above 0",
                r->file->name, r->metadata.architecture);
}

/* Refuses sliding layers with heads of another size if the file does not say which layers slide. */
static bool check_slides(const struct reader *r) {
    bool sizes = is_given(r, GGUF_KEY_LENGTH_SWA) || is_given(r, GGUF_VALUE_LENGTH_SWA);
    return !r->slides_unknown || !sizes ||
           fail_at(r, GGUF_WINDOW,
                   "is for layers with heads of another size, but does not say "
                   "which; accepted: an attention.sliding_window_pattern");
}

static bool fill_model(struct reader *r) {
    struct model *model = r->model;
    if (count_of(r, GGUF_LAYERS, 0) == 0)
        return fail_missing(r, GGUF_LAYERS);
    model->layer_count = (int)count_of(r, GGUF_LAYERS, 0);
    memcpy(model->type, r->metadata.architecture, sizeof model->type);
    model->dtype = kvmill_dtype_by_name("float32");
    model->hidden = count_of(r, GGUF_HIDDEN, 0);
    model->max_positions = count_of(r, GGUF_POSITIONS, 0);
    model->alibi_bias_max = item_of(r, GGUF_ALIBI, 0);
    if (model->alibi_bias_max == 0 && r->class->alibi)
        model->alibi_bias_max = 8;
    model->layers = calloc((size_t)model->layer_count, sizeof *model->layers);
    if (model->layers == NULL)
        return out_of_memory(r->file->error);
    if (!check_arrays(r))
        return false;
    for (int i = 0; i < model->layer_count; i++)
        if (!fill_layer(r, i))
            return false;
    return check_attention(r) && check_slides(r);
}

/* ---- Notes ---- */

static bool write_notes(const struct reader *r, struct text *notes) {
    const char *alone = r->metadata.left_alone.data;
    bool done =
        alone == NULL || text_print(notes, "%s: note: left alone: %s\n", r->file->name, alone);
    if (r->slides_unknown)
        done = done && text_print(notes,
                                  "%s: note: it has a window of %" PRId64
                                  " tokens, but does not say which layers have it; all are shown "
                                  "without, and the kernels are the same\n",
                                  r->file->name, count_of(r, GGUF_WINDOW, 0));
    return done || out_of_memory(r->file->error);
}

bool gguf_read(const char *name, struct model *model, struct text *notes, struct error *error) {
    struct gguf_file file;
    struct reader reader = {.file = &file, .model = model};
    *model = (struct model){0};
    if (!gguf_open(name, &file, error))
        return false;
    bool done = gguf_metadata_read(&file, &reader.metadata);
    reader.class = model_class_like(reader.metadata.architecture);
    done = done && fill_model(&reader) && write_notes(&reader, notes);
    gguf_close(&file);
    gguf_metadata_free(&reader.metadata);
    if (!done)
        model_free(model);
    return done;
}
