/* What a model's cache needs: for every distinct layer geometry the updates of K and V, one token
   (decode) or many (prefill), in both cache layouts.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "spec.h"

/* One tensor of one layer: what its rows are, and the ring it lives in. */
struct cache_part {
    const char *name; /* "key", "value", "key and value", "latent" */
    int64_t heads, row;
    int64_t ring; /* slots of a circular cache; 0 = linear */
};

/* Layouts as in `--cache-layout`. */
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

/* A ring is as long as its window, or longer where prefill comes in chunks. */
static bool add_capacities(struct spec_list *list, const struct cache_part *part, DLDataType dtype,
                           int layout, int64_t rows, struct error *error) {
    return (part->ring == 0 || add_spec(list, part, dtype, layout, rows, part->ring, error)) &&
           add_spec(list, part, dtype, layout, rows, KVMILL_DYNAMIC, error);
}

static bool add_part(struct spec_list *list, const struct cache_part *part, DLDataType dtype,
                     const struct cache_choice *choice, struct error *error) {
    for (int layout = 0; layout < LAYOUTS; layout++) {
        if (choice->layout >= 0 && choice->layout != layout)
            continue;
        if (!add_capacities(list, part, dtype, layout, 1, error) ||
            !add_capacities(list, part, dtype, layout, KVMILL_DYNAMIC, error))
            return false;
    }
    return true;
}

/* K and V of one layer; one part where they are alike. */
static int parts_of_layer(const struct layer *layer, struct cache_part parts[2]) {
    struct cache_part key = {"key", layer->kv_heads, layer->key_dim, layer->window};
    struct cache_part value = {"value", layer->kv_heads, layer->value_dim, layer->window};
    if (layer->kind == LAYER_NONE)
        return 0;
    parts[0] = key;
    parts[1] = value;
    if (layer->kind == LAYER_LATENT)
        parts[0].name = "latent";
    else if (key.row == value.row)
        parts[0].name = "key and value";
    else
        return 2;
    return 1;
}

static bool same_part(const struct cache_part *a, const struct cache_part *b) {
    return strcmp(a->name, b->name) == 0 && a->heads == b->heads && a->row == b->row &&
           a->ring == b->ring;
}

static bool is_new(const struct model *model, int layer, const struct cache_part *part) {
    struct cache_part earlier[2];
    for (int i = 0; i < layer; i++) {
        int count = parts_of_layer(&model->layers[i], earlier);
        for (int j = 0; j < count; j++)
            if (same_part(part, &earlier[j]))
                return false;
    }
    return true;
}

bool specs_of_model(const struct model *model, const struct cache_choice *choice,
                    struct spec_list *list, struct error *error) {
    DLDataType dtype = choice->dtype ? choice->dtype->dl : model->dtype->dl;
    struct cache_part parts[2];
    for (int i = 0; i < model->layer_count; i++) {
        int count = parts_of_layer(&model->layers[i], parts);
        for (int j = 0; j < count; j++)
            if (is_new(model, i, &parts[j]) && !add_part(list, &parts[j], dtype, choice, error))
                return false;
    }
    return list->count > 0 ||
           fail(error, EXIT_USER, "no layer of this model has a key/value cache");
}
