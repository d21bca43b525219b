/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/text.h"
#include "config_reader.h"

static const struct config_key layers_key = {
    {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers", "layers"},
    1,
    MOST_LAYERS};
static const struct config_key hidden_key = {
    {"hidden_size", "n_embd", "n_embed", "d_model", "model_dim", "emb_dim", "embed_dim"},
    1,
    MOST_HIDDEN};
static const struct config_key positions_key = {
    {"max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "model_max_length",
     "max_context_length", "max_sequence_length", "max_target_positions"},
    1,
    MOST_POSITIONS};

/* ---- Is it a config of a model with a describable cache? ---- */

static const char cross[] =
    "is of an encoder and a decoder, whose cross attention is not planned; accepted: a model that "
    "is a decoder only";

/* Keys that are refused unless they are false or null. */
static const struct refusal {
    const char *key, *reason;
} refusals[] = {
    {"weight_map", "is that of an index of sharded weights; accepted: the config.json next to it"},
    {"is_encoder_decoder", cross},
    {"add_cross_attention", cross},
    {"encoder_layers", cross},
    {"decoder_layers", cross},
    {"num_encoder_layers", cross},
    {"num_decoder_layers", cross},
    {"patcher_config",
     "is that of a model with several transformers; accepted: the config of one of them"},
    {"mb_per_layer",
     "says which layers share a cache by a rule that is not supported; accepted: layer_types"},
    {"attn_layers",
     "gives layers that hash their tokens or attend in blocks, which have no kernel; accepted: "
     "layer_types"},
};

static bool refuse_foreign(const struct json_place *part, struct error *error) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct json_place place = json_member(part, refusals[i].key);
        if (json_given(&place) && !json_is_false(place.value))
            return json_fail(error, &place, "%s", refusals[i].reason);
    }
    return true;
}

/* ---- The part that describes the decoder ---- */

static bool has(const struct json_place *part, const struct config_key *key) {
    struct json_place place = config_find(part, key->names);
    return json_given(&place);
}

static bool is_decoder(const struct json_place *part) {
    return has(part, &layers_key) || has(part, &config_heads_key) || has(part, &hidden_key);
}

/* Goes into the nested part, if there is one.  It may omit all keys if they equal its class's
   defaults.  So a part without these keys is the decoder if the outer config lacks them, too. */
static bool go_into_part(struct reader *r, bool *went) {
    static const char *const names[] = {"text_config",       "llm_config", "language_config",
                                        "thinker_config",    "lm_config",  "language_model",
                                        "text_model_config", "vlm_config", NULL};
    struct json_place part = config_find(&r->text, names);
    *went = false;
    if (!json_given(&part))
        return true;
    if (!json_get_object(&part, r->error) || !refuse_foreign(&part, r->error))
        return false;
    *went = is_decoder(&part) || !is_decoder(&r->text);
    if (*went)
        r->text = part;
    return true;
}

/* Omni models have the decoder two levels deep, in thinker_config. */
static bool choose_part(struct reader *r) {
    bool went = true;
    r->text = r->outer;
    for (int depth = 0; went && depth < 3; depth++)
        if (!go_into_part(r, &went))
            return false;
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

/* A dict has a type for each part: {"text_config": "bfloat16", "vision_config": "float32"}. */
static struct json_place dtype_of_part(const struct json_place *place) {
    static const char *const names[] = {"text_config", "llm_config", "language_config", "", NULL};
    return json_is_object(place->value) ? config_find(place, names) : *place;
}

/* Weights in 8 bits or fewer are computed with in bfloat16. */
static bool note_dtype(struct reader *r, const struct json_place *place, const char *name) {
    return text_print(r->notes,
                      "%s: note: %s is \"%.40s\"; activations and cache are planned in bfloat16\n",
                      place->file, place->path, name) ||
           out_of_memory(r->error);
}

static bool is_of_weights(const char *name) {
    return strcmp(name, "auto") == 0 || strncmp(name, "float8", 6) == 0 ||
           strncmp(name, "float4", 6) == 0 || strcmp(name, "int8") == 0 ||
           strcmp(name, "uint8") == 0;
}

static bool read_dtype(struct reader *r) {
    static const char *const accepted[] = {"float32", "float16", "bfloat16"};
    static const char prefix[] = "torch.";
    const char *name = "bfloat16";
    struct json_place found = find_dtype(r), place = dtype_of_part(&found);
    if (json_given(&place) && !json_get_string(&place, &name, r->error))
        return false;
    if (strncmp(name, prefix, sizeof prefix - 1) == 0)
        name += sizeof prefix - 1;
    if (is_of_weights(name)) {
        if (!note_dtype(r, &place, name))
            return false;
        name = "bfloat16";
    }
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
        if (strcmp(name, accepted[i]) == 0)
            r->model->dtype = kvmill_dtype_by_name(name);
    return r->model->dtype != NULL ||
           json_fail(r->error, &place,
                     "is \"%.40s\"; accepted: float32, float16, bfloat16; auto, and types of "
                     "weights such as float8_e4m3fn, which mean bfloat16 here",
                     name);
}

/* LongCat: each of num_layers attends twice.  HRM: a stack of layers runs in cycles; configs that
   say how many layers it has have counted the cycles. */
static bool read_repeats(struct reader *r, const struct config_key *key, int64_t *repeats) {
    static const struct config_key slow_key = {{"H_cycles"}, 1, MOST_LAYERS},
                                   fast_key = {{"L_cycles"}, 1, MOST_LAYERS};
    struct json_place stack = json_member(&r->text, "num_layers_per_stack");
    int64_t slow = 1, fast = 0;
    *repeats = strcmp(key->names[0], "num_layers") == 0 ? r->class->caches : 1;
    if (!config_optional(&r->text, &slow_key, 1, &slow, r->error) ||
        !config_optional(&r->text, &fast_key, 0, &fast, r->error))
        return false;
    if (!json_given(&stack))
        *repeats *= (slow > 0 ? slow : 1) * (fast + 1);
    return true;
}

/* Finds the key with the number of layers.  Of a class with several caches in a layer, num_layers
   counts layers, other keys count caches. */
static const struct config_key *find_layers_key(const struct reader *r) {
    static const struct config_key few_key = {{"num_layers"}, 1, MOST_LAYERS};
    bool counts_layers = has(&r->text, &few_key) || !has(&r->text, &layers_key);
    return r->class->caches > 1 && counts_layers ? &few_key : &layers_key;
}

/* The number of layers is a key, or that of the entries of another, or the class's. */
static bool read_layers(struct reader *r, int64_t *layers) {
    const struct config_key *key = find_layers_key(r);
    struct json_place place = config_find(&r->text, key->names);
    int64_t implied = config_implied_layers(r), repeats = 1;
    if (!config_required(&r->text, key, implied != 0 ? implied : r->class->layers, layers,
                         r->error) ||
        !read_repeats(r, key, &repeats))
        return false;
    *layers *= repeats;
    return *layers <= MOST_LAYERS ||
           json_fail(r->error, &place, "makes %" PRId64 " layers with a cache; accepted: up to %d",
                     *layers, MOST_LAYERS);
}

static bool refuse_stateful(struct reader *r) {
    struct json_place type = json_member(&r->text, "model_type");
    return json_fail(r->error, &type,
                     "is \"%.40s\", whose layers have a state and no key/value cache; accepted: a "
                     "model with attention",
                     r->model->type);
}

static bool read_sizes(struct reader *r) {
    struct model *model = r->model;
    int64_t layers = 0;
    if (r->class->stateful)
        return refuse_stateful(r);
    bool done =
        read_layers(r, &layers) && config_heads(r) &&
        config_required(&r->text, &hidden_key, r->class->hidden, &model->hidden, r->error) &&
        config_optional(&r->text, &positions_key, r->class->positions, &model->max_positions,
                        r->error);
    model->layer_count = r->file_layers = (int)layers;
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
    return refuse_foreign(&r->outer, r->error) && choose_part(r) && watch(r) && find_attention(r) &&
           read_type(r) && read_sizes(r) && read_dtype(r) && read_alibi(r) && config_common(r) &&
           config_layers(r) && config_judge(r, &r->text) && config_notes(r);
}

bool model_read(const char *file, struct model *model, struct text *notes, struct error *error) {
    *model = (struct model){0};
    json_t *document = json_read_python(file, error);
    if (document == NULL)
        return false;
    struct reader reader = {
        .outer = json_root(file, document), .model = model, .notes = notes, .error = error};
    bool done = read_document(&reader);
    free(reader.words);
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
