/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "config_reader.h"

static const struct config_key layers_key = {
    {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, 1, MOST_LAYERS};
static const struct config_key heads_key = {
    {"num_attention_heads", "n_head", "n_heads"}, 1, MOST_HEADS};
static const struct config_key hidden_key = {
    {"hidden_size", "n_embd", "n_embed", "d_model"}, 1, MOST_HIDDEN};
static const struct config_key positions_key = {
    {"max_position_embeddings", "n_positions", "seq_length", "max_seq_len"}, 1, MOST_POSITIONS};

/* ---- Is it a config of a model with a describable cache? ---- */

static const struct refusal {
    const char *key, *reason;
} refusals[] = {
    {"weight_map", "this is the index of sharded weights; accepted: the config.json next to it"},
    {"attention_chunk_size", "chunked attention is not a sliding window and has no kernel"},
    {"attn_layer_period", "layers that alternate by period and offset; accepted: layer_types"},
    {"attn_layer_indices", "attention layers given by number; accepted: layer_types"},
    {"hybrid_override_pattern", "layers given by a pattern of letters; accepted: layer_types"},
    {"linear_attn_config", "linear attention with its own geometry; accepted: layer_types"},
    {"block_types", "a repeated list of blocks; accepted: layer_types, one word per layer"},
    {"_block_types", "a repeated list of blocks; accepted: layer_types, one word per layer"},
    {"block_configs", "a geometry per block; accepted: per_layer_config"},
    {"num_key_value_heads_per_layer", "KV heads listed per layer; accepted: per_layer_config"},
    {"swa_num_key_value_heads", "a second geometry for windows; accepted: per_layer_config"},
    {"swa_head_dim", "a second geometry for windows; accepted: per_layer_config"},
};

static bool refuse_foreign(const struct json_place *part, struct error *error) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct json_place place = json_member(part, refusals[i].key);
        if (json_given(&place))
            return json_fail(error, &place, "is not supported: %s", refusals[i].reason);
    }
    return true;
}

/* ---- The part that describes the decoder ---- */

static bool has(const struct json_place *part, const struct config_key *key) {
    struct json_place place = config_find(part, key->names);
    return json_given(&place);
}

static bool is_decoder(const struct json_place *part) {
    return has(part, &layers_key) || has(part, &heads_key) || has(part, &hidden_key);
}

/* A nested part may omit all keys if they equal its class's defaults.  So a part without these keys
   is the decoder if the outer config lacks them, too. */
static bool choose_part(struct reader *r) {
    static const char *const names[] = {"text_config", "llm_config", "language_config", NULL};
    struct json_place part = config_find(&r->outer, names);
    r->text = r->outer;
    if (!json_given(&part))
        return true;
    if (!json_get_object(&part, r->error))
        return false;
    if (is_decoder(&part) || !is_decoder(&r->outer))
        r->text = part;
    return true;
}

static bool watch(struct reader *r) {
    r->text.seen = json_object();
    return r->text.seen != NULL || out_of_memory(r->error);
}

static bool find_attention(struct reader *r) {
    r->attention = json_member(&r->text, "attn_config");
    if (json_given(&r->attention))
        return json_get_object(&r->attention, r->error);
    r->attention.value = NULL;
    return true;
}

static bool read_type(struct reader *r) {
    const char *type = "";
    struct json_place place = json_member(&r->text, "model_type");
    if (!json_given(&place))
        place = json_member(&r->outer, "model_type");
    if (json_given(&place) && !json_get_string(&place, &type, r->error))
        return false;
    if (strlen(type) >= sizeof r->model->type)
        return json_fail(r->error, &place, "is too long; accepted: up to %zu bytes",
                         sizeof r->model->type - 1);
    strcpy(r->model->type, type);
    r->class = model_class_of(type);
    return true;
}

/* ---- Keys of the whole model ---- */

static struct json_place find_dtype(const struct reader *r) {
    static const char *const names[] = {"dtype", "torch_dtype", NULL};
    struct json_place place = config_find(&r->text, names);
    return json_given(&place) ? place : config_find(&r->outer, names);
}

static bool read_dtype(struct reader *r) {
    static const char *const accepted[] = {"float32", "float16", "bfloat16"};
    static const char prefix[] = "torch.";
    const char *name = "bfloat16";
    struct json_place place = find_dtype(r);
    if (json_given(&place) && !json_get_string(&place, &name, r->error))
        return false;
    if (strncmp(name, prefix, sizeof prefix - 1) == 0)
        name += sizeof prefix - 1;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
        if (strcmp(name, accepted[i]) == 0)
            r->model->dtype = kvmill_dtype_by_name(name);
    return r->model->dtype != NULL ||
           json_fail(r->error, &place, "is \"%.40s\"; accepted: float32, float16, bfloat16", name);
}

static bool read_sizes(struct reader *r) {
    struct model *model = r->model;
    int64_t layers = 0;
    bool done =
        config_required(&r->text, &layers_key, r->class->layers, &layers, r->error) &&
        config_required(&r->text, &heads_key, r->class->heads, &r->common.query_heads, r->error) &&
        config_required(&r->text, &hidden_key, r->class->hidden, &model->hidden, r->error) &&
        config_optional(&r->text, &positions_key, r->class->positions, &model->max_positions,
                        r->error);
    model->layer_count = (int)layers;
    return done;
}

/* BLOOM has no key for it; MPT has both keys in attn_config. */
static bool read_alibi(struct reader *r) {
    const struct json_place *part = r->attention.value != NULL ? &r->attention : &r->text;
    struct model *model = r->model;
    bool alibi = false;
    double bias_max = 0;
    if (!config_flag(part, "alibi", r->class->alibi, &alibi, r->error) ||
        !config_real(part, "alibi_bias_max", 1e-9, 8, &bias_max, r->error))
        return false;
    model->alibi_bias_max = !alibi ? 0 : bias_max != 0 ? bias_max : 8;
    model->alibi_scaled = alibi && r->class->alibi_scaled;
    return true;
}

/* ---- The whole config ---- */

static bool read_document(struct reader *r) {
    return refuse_foreign(&r->outer, r->error) && choose_part(r) && watch(r) &&
           refuse_foreign(&r->text, r->error) && find_attention(r) && read_type(r) &&
           read_sizes(r) && read_dtype(r) && read_alibi(r) && config_common(r) && config_layers(r);
}

bool model_read(const char *file, struct model *model, struct text *notes, struct error *error) {
    *model = (struct model){0};
    json_t *document = json_read(file, error);
    if (document == NULL)
        return false;
    struct reader reader = {.outer = json_root(file, document), .model = model, .error = error};
    bool done = read_document(&reader) && config_notes(&reader, notes);
    json_decref(reader.text.seen);
    json_decref(document);
    if (!done)
        model_free(model);
    return done;
}

void model_free(struct model *model) {
    free(model->layers);
    *model = (struct model){0};
}

bool layer_has_view(const struct layer *layer) {
    return layer->kind == LAYER_LATENT || layer->value_is_key;
}

bool layers_attend_alike(const struct layer *a, const struct layer *b) {
    return a->kind == b->kind && a->query_heads == b->query_heads && a->kv_heads == b->kv_heads &&
           a->key_dim == b->key_dim && a->value_dim == b->value_dim && a->window == b->window &&
           a->scale == b->scale && a->softcap == b->softcap && a->sinks == b->sinks &&
           a->value_is_key == b->value_is_key && a->merges == b->merges;
}
