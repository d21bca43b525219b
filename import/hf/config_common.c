/* What all layers of a model have in common: heads, their sizes, and the scale of the scores.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "config_reader.h"

const struct config_key config_heads_key = {{"num_attention_heads", "n_head", "n_heads",
                                             "num_heads", "num_query_heads", "attention_heads",
                                             "num_attention_heads_per_layer"},
                                            1,
                                            MOST_HEADS};
const struct config_key config_kv_heads_key = {{"num_key_value_heads", "num_kv_heads", "n_head_kv",
                                                "num_attention_groups", "num_query_groups",
                                                "n_kv_heads", "num_key_value_heads_per_layer"},
                                               1,
                                               MOST_HEADS};
static const struct config_key groups_key = {{"multi_query_group_num"}, 1, MOST_HEADS};
static const struct config_key nested_kv_heads_key = {{"kv_n_heads"}, 1, MOST_HEADS};
static const struct config_key head_dim_key = {{"head_dim", "attention_head_dim",
                                                "attention_head_size", "hidden_size_per_head",
                                                "kv_channels", "dim_head", "d_head", "d_kv"},
                                               1,
                                               MOST_HEAD_DIM};
static const struct config_key inner_key = {{"attention_hidden_size"}, 1, MOST_HIDDEN};
static const struct config_key value_dim_key = {{"v_head_dim"}, 0, MOST_HEAD_DIM};
static const struct config_key rank_key = {{"kv_lora_rank"}, 1, MOST_HEAD_DIM};
static const struct config_key nope_key = {{"qk_nope_head_dim"}, 0, MOST_HEAD_DIM};
static const struct config_key rope_key = {{"qk_rope_head_dim"}, 0, MOST_HEAD_DIM};
static const struct config_key topk_key = {{"index_topk"}, 0, INT32_MAX - 1};
static const struct config_key index_heads_key = {{"index_n_heads"}, 1, MOST_HEADS};
static const struct config_key index_dim_key = {{"index_head_dim"}, 1, MOST_HEAD_DIM};

/* ---- Heads ---- */

/* Reads the first entry of a list with one for each layer. */
static bool read_first(struct reader *r, const struct json_place *list, int64_t least,
                       int64_t *value) {
    struct json_place first = json_element(list, 0);
    if (first.value == NULL)
        return json_fail(r->error, list, "is empty; accepted: an entry for each layer");
    return json_get_integer(&first, least, MOST_HEADS, value, r->error);
}

bool config_heads(struct reader *r) {
    struct json_place place = config_find(&r->text, config_heads_key.names);
    if (json_is_array(place.value))
        return read_first(r, &place, 1, &r->common.query_heads);
    return config_required(&r->text, &config_heads_key, r->class->heads, &r->common.query_heads,
                           r->error);
}

bool config_check_heads(struct reader *r, const struct json_place *place,
                        const struct layer *layer) {
    return layer->query_heads % layer->kv_heads == 0 ||
           json_fail(r->error, place,
                     "%" PRId64 " KV heads do not divide %" PRId64
                     " query heads; accepted: a divisor of the query heads",
                     layer->kv_heads, layer->query_heads);
}

/* Falcon and StarCoder: the flag takes precedence over all counts, except in Falcon's new
   architecture. */
static bool is_multi_query(struct reader *r, bool *yes) {
    bool new_architecture = false;
    if (!config_flag(&r->text, "multi_query", r->class->multi_query, yes, r->error) ||
        !config_flag(&r->text, "new_decoder_architecture", false, &new_architecture, r->error))
        return false;
    *yes = *yes && !new_architecture;
    return true;
}

static bool is_nested_multi_query(const struct reader *r) {
    struct json_place type = json_member(&r->attention, "attn_type");
    return json_is_string(type.value) &&
           strcmp(json_string_value(type.value), "multiquery_attention") == 0;
}

/* Finds the key with the number of KV heads.  ChatGLM's key counts only if its flag is set. */
static bool find_kv_heads(struct reader *r, struct json_place *part,
                          const struct config_key **key) {
    bool groups = false;
    *part = r->text;
    *key = &config_kv_heads_key;
    if (!config_flag(&r->text, "multi_query_attention", false, &groups, r->error))
        return false;
    if (groups)
        *key = &groups_key;
    if (json_object_get(r->attention.value, nested_kv_heads_key.names[0]) != NULL) {
        *part = r->attention;
        *key = &nested_kv_heads_key;
    }
    return true;
}

static bool read_kv_heads(struct reader *r) {
    struct json_place part;
    const struct config_key *key;
    bool multi_query = false;
    if (!is_multi_query(r, &multi_query) || !find_kv_heads(r, &part, &key))
        return false;
    if (multi_query || is_nested_multi_query(r)) {
        r->common.kv_heads = 1;
        return true;
    }
    struct json_place place = config_find(&part, key->names);
    bool done = json_is_array(place.value) ? read_first(r, &place, 0, &r->common.kv_heads)
                                           : config_optional(&part, key, r->class->kv_heads,
                                                             &r->common.kv_heads, r->error);
    if (!done)
        return false;
    if (r->common.kv_heads == 0)
        r->common.kv_heads = r->common.query_heads;
    return config_check_heads(r, &place, &r->common);
}

/* ---- Head sizes ---- */

static bool derive_head_dim(struct reader *r, int64_t *dim) {
    struct json_place place = json_member(&r->text, head_dim_key.names[0]);
    int64_t hidden = r->model->hidden, heads = r->common.query_heads;
    if (!config_optional(&r->text, &inner_key, hidden, &hidden, r->error))
        return false;
    if (hidden == 0)
        hidden = r->model->hidden;
    *dim = hidden / heads;
    if (hidden % heads != 0)
        return json_fail(r->error, &place,
                         "is missing, and hidden size %" PRId64 " is not a multiple of %" PRId64
                         " heads; accepted: a head_dim, or a hidden size that is",
                         hidden, heads);
    return *dim <= MOST_HEAD_DIM ||
           json_fail(r->error, &place, "would be %" PRId64 " / %" PRId64 "; accepted: up to %d",
                     hidden, heads, MOST_HEAD_DIM);
}

static bool read_head_dims(struct reader *r) {
    int64_t dim = 0, value_dim = 0;
    if (!config_optional(&r->text, &head_dim_key, r->class->head_dim, &dim, r->error) ||
        !config_optional(&r->text, &value_dim_key, 0, &value_dim, r->error))
        return false;
    if (dim == 0 && !derive_head_dim(r, &dim))
        return false;
    r->common.key_dim = dim;
    r->common.value_dim = value_dim != 0 ? value_dim : dim;
    return true;
}

/* ---- Latent attention ---- */

/* Yarn multiplies the scores of models that were trained with mscale_all_dim. */
static bool read_yarn(struct reader *r, double *mscale) {
    static const char *const names[] = {"rope_scaling", "rope_parameters", NULL};
    struct json_place rope = config_find(&r->text, names);
    double all_dim = 0, factor = 0;
    *mscale = 1;
    if (!json_given(&rope))
        return true;
    if (!json_get_object(&rope, r->error) ||
        !config_real(&rope, "mscale_all_dim", 0, 0, &all_dim, r->error) ||
        !config_real(&rope, "factor", 1e-9, 1, &factor, r->error))
        return false;
    if (factor > 1)
        *mscale = 0.1 * all_dim * log(factor) + 1;
    return true;
}

/* If a config sets only index_topk, the other two have DeepSeek's defaults. */
static bool read_indexer(struct reader *r) {
    struct indexer *indexer = &r->model->indexer;
    if (!config_optional(&r->text, &topk_key, 0, &indexer->topk, r->error))
        return false;
    return indexer->topk == 0 ||
           (config_optional(&r->text, &index_heads_key, 64, &indexer->heads, r->error) &&
            config_optional(&r->text, &index_dim_key, 128, &indexer->head_dim, r->error));
}

static bool refuse_empty(struct reader *r) {
    struct json_place place = config_find(&r->text, nope_key.names);
    return json_fail(r->error, &place,
                     "and qk_rope_head_dim make queries of no elements; accepted: a sum of 1 or "
                     "more");
}

static bool read_latent(struct reader *r, int64_t rank) {
    const struct model_class *class = r->class;
    struct layer *layer = &r->common;
    int64_t nope = 0, rope = 0;
    double mscale = 1;
    if (!config_required(&r->text, &nope_key, class->qk_nope_head_dim, &nope, r->error) ||
        !config_required(&r->text, &rope_key, class->qk_rope_head_dim, &rope, r->error) ||
        !read_yarn(r, &mscale) || !read_indexer(r))
        return false;
    if (nope + rope == 0)
        return refuse_empty(r);
    layer->kind = LAYER_LATENT;
    layer->kv_heads = 1;
    layer->key_dim = rank + rope;
    layer->value_dim = rank;
    layer->scale = mscale * mscale / sqrt((double)(nope + rope));
    return true;
}

/* ---- Scale and soft-cap ---- */

/* Leaves 0 if each layer's head size determines the scale. */
static bool read_scale(struct reader *r) {
    double scalar = 0, multiplier = 0, softmax = 0, half = 0;
    bool weighted = true;
    if (!config_real(&r->text, "query_pre_attn_scalar", 1e-9, r->class->query_pre_attn_scalar,
                     &scalar, r->error) ||
        !config_real(&r->text, "attention_multiplier", 1e-9, 0, &multiplier, r->error) ||
        !config_real(&r->attention, "softmax_scale", 1e-9, 0, &softmax, r->error) ||
        !config_flag(&r->text, "scale_attn_weights", true, &weighted, r->error))
        return false;
    if (r->class->scale_of_half)
        half = sqrt(2.0 / (double)r->common.key_dim);
    const double by_rank[] = {r->class->scale,  scalar != 0 ? 1 / sqrt(scalar) : 0,
                              multiplier,       softmax,
                              weighted ? 0 : 1, half};
    for (size_t i = 0; i < sizeof by_rank / sizeof *by_rank && r->common.scale == 0; i++)
        r->common.scale = by_rank[i];
    return true;
}

static bool read_softcap(struct reader *r) {
    return config_real(&r->text, "attn_logit_softcapping", 0, r->class->softcap, &r->common.softcap,
                       r->error);
}

bool config_common(struct reader *r) {
    int64_t rank = 0;
    r->common.value_is_key = r->class->value_is_key;
    if (!config_optional(&r->text, &rank_key, r->class->kv_lora_rank, &rank, r->error))
        return false;
    bool shaped = rank != 0 ? read_latent(r, rank) : read_kv_heads(r) && read_head_dims(r);
    return shaped && read_scale(r) && read_softcap(r);
}

/* A window over latent rows: their first elements are the values. */
void config_set_shape(struct layer *layer, const struct layer *shape) {
    const struct layer own = *layer;
    *layer = *shape;
    layer->window = own.window;
    layer->chunk = own.chunk;
    layer->merges = own.merges;
    if (shape->kind != LAYER_LATENT)
        layer->kind = own.kind;
    else if (own.kind == LAYER_SLIDING) {
        layer->kind = LAYER_SLIDING;
        layer->value_is_key = true;
    }
}
