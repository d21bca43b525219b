/* The specs that a model needs in llama.cpp: CacheAttend and WriteRows, as bindings/ggml plans
   them.  The mask says what a token sees, so windows make no difference.  The scale is an operand
   of the run.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "../../spec/spec.h"
#include "specs_for_ggml.h"

/* In latent layers V is part of K, so K's type applies. */
static const struct kvmill_format_parts *type_of(const struct layer *layer,
                                                 const struct cache_choice *choice, int part) {
    return choice->ggml[layer_has_view(layer) ? GGML_KEY : part];
}

static const char *format_of(const struct kvmill_format_parts *type) {
    return (type->scales & KVMILL_SCALES_INSIDE) != 0 ? type->word : NULL;
}

void ggml_op_of(const struct model *model, const struct layer *layer,
                const struct cache_choice *choice, kvmill_cache_attend *op) {
    const struct kvmill_format_parts *key = type_of(layer, choice, GGML_KEY),
                                     *value = type_of(layer, choice, GGML_VALUE);
    op->num_heads = layer->query_heads;
    op->num_kv_heads = layer->kv_heads;
    op->key_head_dim = layer->key_dim;
    op->value_head_dim = layer->value_dim == layer->key_dim ? 0 : layer->value_dim;
    op->T1 = kvmill_float32;
    op->mask_T1 = kvmill_float16;
    op->key_T2 = key->dtype;
    op->key_cache_format = format_of(key);
    op->value_T2 = value->dtype;
    op->value_cache_format = format_of(value);
    op->softcap = layer->softcap;
    op->max_bias = model->alibi_bias_max;
    op->is_alibi = op->alibi_of_mask = op->max_bias > 0;
    op->math = format_of(key) != NULL || format_of(value) != NULL ? "near" : NULL;
}

static bool is_repeated(const struct spec_list *list) {
    const kvmill_cache_attend *last = &list->items[list->count - 1].cache_attend;
    for (size_t i = 0; i + 1 < list->count; i++) {
        const kvmill_cache_attend *op = &list->items[i].cache_attend;
        if (op->num_heads == last->num_heads && op->num_kv_heads == last->num_kv_heads &&
            op->key_head_dim == last->key_head_dim && op->value_head_dim == last->value_head_dim &&
            op->softcap == last->softcap && op->key_cache_format == last->key_cache_format &&
            op->value_cache_format == last->value_cache_format)
            return true;
    }
    return false;
}

static bool add_layer(const struct model *model, const struct layer *layer,
                      const struct cache_choice *choice, struct spec_list *list,
                      struct error *error) {
    struct spec *spec = spec_list_append(list, error);
    if (spec == NULL || !spec_begin(spec, kvmill_op_of(OP_CACHE_ATTEND, 0), error))
        return false;
    ggml_op_of(model, layer, choice, &spec->cache_attend);
    if (is_repeated(list)) {
        spec_list_drop(list);
        return true;
    }
    snprintf(spec->purpose, sizeof spec->purpose,
             "%" PRId64 " heads of %" PRId64 " on %" PRId64 ", K %s, V %s", layer->query_heads,
             layer->key_dim, layer->kv_heads, type_of(layer, choice, GGML_KEY)->word,
             type_of(layer, choice, GGML_VALUE)->word);
    strcpy(spec->where, spec->purpose);
    return spec_check(spec, error);
}

/* ---- Storing ---- */

/* bindings/ggml/store.c cuts a token's row to pieces of this size, but stores a row with one scale
   as a whole. */
enum { STORED_DIM = 64 };

static int64_t stored_dim(const struct kvmill_format_parts *type, int64_t row) {
    return type->scales == KVMILL_SCALES_IN_ROWS ? row : STORED_DIM;
}

static bool is_stored(const struct spec_list *list, const struct kvmill_format_parts *type,
                      int64_t dim) {
    for (size_t i = 0; i < list->count; i++) {
        const struct spec *spec = &list->items[i];
        if (spec_is(spec, OP_WRITE_ROWS) && spec->write_rows.head_dim == dim &&
            spec->write_rows.cache_format == format_of(type) &&
            memcmp(&spec->write_rows.T2, &type->dtype, sizeof type->dtype) == 0)
            return true;
    }
    return false;
}

static bool add_store(const struct kvmill_format_parts *type, int64_t dim, struct spec_list *list,
                      struct error *error) {
    if (is_stored(list, type, dim))
        return true;
    struct spec *spec = spec_list_append(list, error);
    if (spec == NULL || !spec_begin(spec, kvmill_op_of(OP_WRITE_ROWS, 0), error))
        return false;
    spec->write_rows.head_dim = dim;
    spec->write_rows.T1 = kvmill_float32;
    spec->write_rows.T2 = type->dtype;
    spec->write_rows.cache_format = format_of(type);
    snprintf(spec->purpose, sizeof spec->purpose, "rows as %s", type->word);
    strcpy(spec->where, spec->purpose);
    return spec_check(spec, error);
}

static bool add_stores(const struct layer *layer, const struct cache_choice *choice,
                       struct spec_list *list, struct error *error) {
    const struct kvmill_format_parts *key = choice->ggml[GGML_KEY],
                                     *value = choice->ggml[GGML_VALUE];
    return add_store(key, stored_dim(key, layer->key_dim), list, error) &&
           (layer_has_view(layer) ||
            add_store(value, stored_dim(value, layer->value_dim), list, error));
}

bool specs_for_ggml(const struct model *model, const struct cache_choice *choice,
                    struct spec_list *list, struct error *error) {
    for (int i = 0; i < model->layer_count; i++)
        if (model->layers[i].kind != LAYER_NONE &&
            !add_layer(model, &model->layers[i], choice, list, error))
            return false;
    for (int i = 0; i < model->layer_count; i++)
        if (model->layers[i].kind != LAYER_NONE &&
            !add_stores(&model->layers[i], choice, list, error))
            return false;
    return true;
}
