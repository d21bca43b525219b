/* The specs of a model's cache: for each distinct layer geometry the updates of K and V, for one
   token (decode) and for many (prefill), in both cache layouts; and its attention.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "../../ops/cache_attend.h"
#include "../gguf/specs_for_ggml.h"
#include "specs_of_model.h"

/* A tensor of one layer: its rows, and the length of its ring. */
struct cache_part {
    const char *name; /* "key", "value", "key and value", "latent" */
    int64_t heads, row;
    int64_t ring;                           /* slots of a circular cache; 0 = linear */
    const struct kvmill_format_parts *type; /* NULL: the model's type */
};

/* The layouts of `--cache-layout`. */
enum { TOKEN_MAJOR, HEAD_MAJOR, LAYOUTS };
static const char *const layout_words[] = {"token-major", "head-major"};

static bool set_shapes(struct spec *spec, const struct cache_part *part, int layout, int64_t rows,
                       int64_t capacity, struct error *error) {
    const int64_t any = KVMILL_DYNAMIC;
    const int64_t head_cache[] = {any, part->heads, capacity, part->row};
    const int64_t head_update[] = {any, part->heads, rows, part->row};
    const int64_t token_cache[] = {any, capacity, part->heads * part->row};
    const int64_t token_update[] = {any, rows, part->heads * part->row};
    bool by_head = layout == HEAD_MAJOR;
    int rank = by_head ? 4 : 3;
    struct scatter_spec *scatter = &spec->scatter;
    return spec_set_shape(&scatter->past_cache, by_head ? head_cache : token_cache, rank, error) &&
           spec_set_shape(&scatter->update, by_head ? head_update : token_update, rank, error) &&
           spec_set_shape(&scatter->write_indices, &any, 1, error);
}

static bool add_spec(struct spec_list *list, const struct cache_part *part, DLDataType dtype,
                     int layout, int64_t rows, int64_t capacity, struct error *error) {
    struct spec *spec = spec_list_append(list, error);
    if (spec == NULL)
        return false;
    scatter_spec_begin(spec, part->ring ? "circular" : "linear", dtype);
    snprintf(spec->purpose, sizeof spec->purpose, "%s %s, %s", rows == 1 ? "decode" : "prefill",
             part->name, layout_words[layout]);
    strcpy(spec->where, spec->purpose);
    return set_shapes(spec, part, layout, rows, capacity, error);
}

/* A ring is as long as its window, or longer if prefill runs in chunks. */
static bool add_capacities(struct spec_list *list, const struct cache_part *part, DLDataType dtype,
                           int layout, int64_t rows, struct error *error) {
    return (part->ring == 0 || add_spec(list, part, dtype, layout, rows, part->ring, error)) &&
           add_spec(list, part, dtype, layout, rows, KVMILL_DYNAMIC, error);
}

static bool add_part(struct spec_list *list, const struct cache_part *part, DLDataType dtype,
                     const struct cache_choice *choice, struct error *error) {
    for (int layout = 0; layout < LAYOUTS; layout++) {
        if (choice->layout >= 0 && choice->layout % LAYOUTS != layout)
            continue;
        if (!add_capacities(list, part, dtype, layout, 1, error) ||
            !add_capacities(list, part, dtype, layout, KVMILL_DYNAMIC, error))
            return false;
    }
    return true;
}

/* Sets the parts of a layer: K and V, or one part if they are equal.  Returns their number. */
static int parts_of_layer(const struct layer *layer, const struct cache_choice *choice,
                          struct cache_part parts[2]) {
    const struct kvmill_format_parts *type = choice->value_type ? choice->value_type : choice->type;
    struct cache_part key = {"key", layer->kv_heads, layer->key_dim, layer->window, choice->type};
    struct cache_part value = {"value", layer->kv_heads, layer->value_dim, layer->window, type};
    if (layer->kind == LAYER_NONE)
        return 0;
    parts[0] = key;
    parts[1] = value;
    if (layer_has_view(layer))
        parts[0].name = "latent";
    else if (key.row == value.row && key.type == value.type)
        parts[0].name = "key and value";
    else
        return 2;
    return 1;
}

static bool same_part(const struct cache_part *a, const struct cache_part *b) {
    return strcmp(a->name, b->name) == 0 && a->heads == b->heads && a->row == b->row &&
           a->ring == b->ring;
}

static bool is_new(const struct model *model, int layer, const struct cache_choice *choice,
                   const struct cache_part *part) {
    struct cache_part earlier[2];
    for (int i = 0; i < layer; i++) {
        int count = parts_of_layer(&model->layers[i], choice, earlier);
        for (int j = 0; j < count; j++)
            if (same_part(part, &earlier[j]))
                return false;
    }
    return true;
}

/* ---- Types of a cache ---- */

static bool is_plain(const struct kvmill_format_parts *type) {
    return type == NULL || type->scales == KVMILL_WITHOUT_SCALES;
}

const char *activations_word(const struct model *model, const struct cache_choice *choice) {
    return choice->activations ? choice->activations->word : model->dtype->name;
}

static DLDataType activations_dtype(const struct model *model, const struct cache_choice *choice) {
    return choice->activations ? choice->activations->dtype : model->dtype->dl;
}

static DLDataType cache_dtype(const struct model *model, const struct kvmill_format_parts *type) {
    return type != NULL ? type->dtype : model->dtype->dl;
}

/* ---- Rows ---- */

/* Leaves out quantised caches: their rows come from attention, which quantises. */
static bool add_rows(const struct model *model, const struct cache_choice *choice,
                     struct spec_list *list, struct error *error) {
    struct cache_part parts[2];
    for (int i = 0; i < model->layer_count; i++) {
        int count = parts_of_layer(&model->layers[i], choice, parts);
        for (int j = 0; j < count; j++)
            if (is_plain(parts[j].type) && is_new(model, i, choice, &parts[j]) &&
                !add_part(list, &parts[j], cache_dtype(model, parts[j].type), choice, error))
                return false;
    }
    return true;
}

/* ---- Attention ---- */

const char *model_without_attention(const struct model *model) {
    return model->alibi_bias_max == 0 || model->alibi_bias_max == 8
               ? NULL
               : "its alibi_bias_max is not 8, which the slopes of cache attention assume";
}

/* Whether an earlier layer has the same attention. */
static bool is_repeated(const struct model *model, int layer) {
    for (int i = 0; i < layer; i++)
        if (layers_attend_alike(&model->layers[i], &model->layers[layer]))
            return true;
    return false;
}

/* Sets the name: "attention", "attention_sliding"; for a second geometry of the kind
   "attention_2". */
static void set_name(const struct model *model, int layer, char name[48]) {
    static const char *const words[] = {
        [LAYER_FULL] = "attention",
        [LAYER_SLIDING] = "attention_sliding",
        [LAYER_LATENT] = "attention_latent",
    };
    enum layer_kind kind = model->layers[layer].kind;
    int earlier = 0;
    for (int i = 0; i < layer; i++)
        earlier += model->layers[i].kind == kind && !is_repeated(model, i);
    snprintf(name, 48, "%s", words[kind]);
    if (earlier > 0)
        snprintf(name + strlen(name), 48 - strlen(name), "_%d", earlier + 1);
}

/* Returns the number after a run of layers that starts at `first` and has the same attention as
   `layer`. */
static int end_of_run(const struct model *model, int layer, int first) {
    while (first < model->layer_count &&
           layers_attend_alike(&model->layers[first], &model->layers[layer]))
        first++;
    return first;
}

static void print_range(char range[32], bool comma, int first, int last) {
    snprintf(range, 32, "%s%d", comma ? ", " : "", first);
    if (last > first)
        snprintf(range + strlen(range), 32 - strlen(range), "-%d", last);
}

/* Lists the layers with the same attention as `layer`: "0-4, 6-10, ...". */
static void set_layers(const struct model *model, int layer, char layers[160]) {
    static const char more[] = ", ...";
    char range[32];
    size_t at = 0;
    for (int i = layer, end; i < model->layer_count; i = end + 1) {
        end = end_of_run(model, layer, i);
        if (end == i)
            continue;
        print_range(range, at > 0, i, end - 1);
        bool fits = at + strlen(range) + sizeof more <= 160;
        strcpy(layers + at, fits ? range : more);
        if (!fits)
            return;
        at += strlen(range);
    }
}

static void set_purpose(struct spec *spec, const struct layer *layer) {
    static const char *const words[] = {
        [LAYER_FULL] = "attention",
        [LAYER_SLIDING] = "sliding attention",
        [LAYER_LATENT] = "latent attention, value a view of key",
    };
    snprintf(spec->purpose, sizeof spec->purpose, "%s%s%s", words[layer->kind],
             layer->value_is_key ? ", value a view of key" : "",
             layer->sinks ? ", with sinks" : "");
}

/* Returns 0 for the default scale. */
static double scale_of(const struct layer *layer) {
    double usual = 1 / sqrt((double)layer->key_dim);
    return fabs(layer->scale - usual) <= 1e-12 * usual ? 0 : layer->scale;
}

/* Falcon adds the bias before it scales the scores, so the slopes are scaled, too. */
static void set_alibi(kvmill_cache_attention *op, const struct model *model,
                      const struct layer *layer) {
    op->is_alibi = model->alibi_bias_max != 0;
    if (op->is_alibi && model->alibi_scaled)
        op->alibi_scale = layer->scale;
}

static void set_scores(kvmill_cache_attention *op, const struct model *model,
                       const struct layer *layer, const char *math) {
    op->num_heads = layer->query_heads;
    op->num_kv_heads = layer->kv_heads;
    op->head_dim = layer->key_dim;
    op->softmax_scale = scale_of(layer);
    op->softcap = layer->softcap;
    op->left_window_size = layer->window - 1;
    op->math = math;
    op->value_view = layer_has_view(layer);
    op->partial = layer->merges;
    op->value_differs = op->value_view || layer->value_dim != layer->key_dim;
    op->value_head_dim = op->value_differs ? layer->value_dim : 0;
    set_alibi(op, model, layer);
}

/* A layer with a window stores only as many tokens as a query sees. */
static void set_ring(kvmill_cache_attention *op, const struct layer *layer, bool in_tiles) {
    int64_t tile = in_tiles ? KVMILL_KEY_TILE : 1;
    if (layer->window == 0)
        return;
    op->mode = "circular";
    op->capacity = op->dynamic_batching ? (layer->window + tile - 1) / tile * tile : 0;
}

static bool is_in_tiles(const struct kvmill_format_parts *type) {
    return type != NULL && type->tile > 0;
}

static int64_t quant_bit_of(const struct kvmill_format_parts *type) {
    return type != NULL && type->scales == KVMILL_SCALES_OF_GROUPS ? type->bits : 0;
}

static const char *cache_format_of(const struct kvmill_format_parts *type) {
    if (is_in_tiles(type))
        return KVMILL_TILES_WORD;
    return type != NULL && (type->scales & KVMILL_SCALES_INSIDE) != 0 ? type->word : NULL;
}

static void set_value_type(kvmill_cache_attention *op, const struct kvmill_format_parts *type) {
    op->value_differs = true;
    op->value_T2 = type->dtype;
    op->value_quant_bit = quant_bit_of(type);
    op->value_cache_format = cache_format_of(type);
}

static void set_cache(kvmill_cache_attention *op, const struct layer *layer,
                      const struct cache_choice *choice, DLDataType T2) {
    bool in_tiles = is_in_tiles(choice->type) || is_in_tiles(choice->value_type);
    set_ring(op, layer, in_tiles);
    op->cache_layout = choice->layout >= 0 ? choice->layout : in_tiles;
    op->T2 = T2;
    if (choice->quant_group != 0)
        op->quant_group = choice->quant_group;
    op->quant_bit = quant_bit_of(choice->type);
    op->cache_format = cache_format_of(choice->type);
    if (choice->value_type != NULL)
        set_value_type(op, choice->value_type);
}

static void begin_attention(struct spec *spec, const struct model *model, const struct layer *layer,
                            const struct cache_choice *choice) {
    kvmill_cache_attention *op = &spec->attention.op;
    attention_spec_begin(spec, KVMILL_MULTI_HEAD_CACHE_ATTENTION, choice->layout > 1);
    set_scores(op, model, layer, choice->math);
    op->T1 = activations_dtype(model, choice);
    set_cache(op, layer, choice, cache_dtype(model, choice->type));
    spec->attention.masked = false;
    attention_spec_complete(spec);
}

static bool add_layer(const struct model *model, int layer, const struct cache_choice *choice,
                      struct spec_list *list, struct error *error) {
    struct spec *spec = spec_list_append(list, error);
    if (spec == NULL)
        return false;
    begin_attention(spec, model, &model->layers[layer], choice);
    set_purpose(spec, &model->layers[layer]);
    strcpy(spec->where, spec->purpose);
    set_name(model, layer, spec->name);
    set_layers(model, layer, spec->attention.layers);
    spec->attention.first_layer = layer;
    return spec_check(spec, error);
}

static bool add_attention(const struct model *model, const struct cache_choice *choice,
                          struct spec_list *list, struct error *error) {
    if (model_without_attention(model) != NULL)
        return true;
    for (int i = 0; i < model->layer_count; i++)
        if (model->layers[i].kind != LAYER_NONE && !is_repeated(model, i) &&
            !add_layer(model, i, choice, list, error))
            return false;
    return true;
}

/* ---- Bytes ---- */

static int64_t bytes_of_row(const struct kvmill_format *format) {
    return kvmill_format_row_bytes(format) + kvmill_format_scale_bytes(format);
}

static bool find_geometry(const struct model *model, const struct layer *layer,
                          const struct cache_choice *choice,
                          struct kvmill_cache_geometry *geometry) {
    struct spec spec = {0};
    kvmill_error reason;
    if (choice->ggml[GGML_KEY] != NULL) {
        spec_begin(&spec, kvmill_op_of(OP_CACHE_ATTEND, 0), &(struct error){0});
        ggml_op_of(model, layer, choice, &spec.cache_attend);
        return kvmill_cache_attend_check(&spec.cache_attend, geometry, &reason) == KVMILL_OK;
    }
    begin_attention(&spec, model, layer, choice);
    return kvmill_cache_attention_check(&spec.attention.op, attention_op_of(&spec), geometry,
                                        &reason) == KVMILL_OK;
}

/* V of a latent layer is part of K, and adds no bytes. */
static int64_t bytes_of_layer(const struct model *model, const struct layer *layer,
                              const struct cache_choice *choice) {
    struct kvmill_cache_geometry geometry;
    if (!find_geometry(model, layer, choice, &geometry))
        return 0;
    int64_t key = bytes_of_row(&geometry.key);
    return geometry.kv_heads * (layer_has_view(layer) ? key : key + bytes_of_row(&geometry.value));
}

static int64_t sum_bytes(const struct model *model, const struct cache_choice *choice,
                         bool windows) {
    int64_t bytes = 0;
    for (int i = 0; i < model->layer_count; i++)
        if (model->layers[i].kind != LAYER_NONE && (windows || model->layers[i].window == 0))
            bytes += bytes_of_layer(model, &model->layers[i], choice);
    return bytes;
}

int64_t cache_bytes_per_token(const struct model *model, const struct cache_choice *choice) {
    return sum_bytes(model, choice, true);
}

int64_t cache_bytes_without_windows(const struct model *model, const struct cache_choice *choice) {
    return sum_bytes(model, choice, false);
}

/* ---- All specs ---- */

bool specs_of_model(const struct model *model, const struct cache_choice *choice,
                    struct spec_list *list, struct error *error) {
    if (choice->ggml[GGML_KEY] != NULL)
        return specs_for_ggml(model, choice, list, error);
    return add_rows(model, choice, list, error) && add_attention(model, choice, list, error) &&
           (list->count > 0 ||
            fail(error, EXIT_USER, "no layer of this model has a key/value cache"));
}
