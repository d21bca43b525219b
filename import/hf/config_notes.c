/* Keys of a config that concern attention and that kvmill does not support.  Those that may change
   which layers have a cache, or its shape, are refused; others get a note, so that a plan does not
   seem to cover them.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../../base/text.h"
#include "config_reader.h"

/* Keys that affect neither the cache nor attention to it, or are read if they do. */
static const char *const harmless[] = {
    "_sliding_window_pattern",
    "apply_query_key_layer_scaling",
    "attention_bias",
    "attention_dropout",
    "attention_hidden_size",
    "attention_in_bias",
    "attention_in_multiplier",
    "attention_k_eq_v",
    "attention_method",
    "attention_out_bias",
    "attention_out_multiplier",
    "attention_probs_dropout_prob",
    "attention_softmax_in_fp32",
    "attention_value_scale",
    "attn_dropout",
    "attn_implementation",
    "attn_output_gate",
    "attn_pdrop",
    "cache_implementation",
    "chunk_size",
    "conv_L_cache",
    "decoder_sparse_step",
    "full_attn_alpha_factor",
    "full_attn_beta_factor",
    "head_dim",
    "hidden_size_per_layer_input",
    "key_multiplier",
    "linear_attn_alpha_factor",
    "linear_attn_beta_factor",
    "mask_index",
    "max_window_layers",
    "mla_scale_kv_lora",
    "mla_scale_q_lora",
    "mla_use_nope",
    "multi_query_group_num",
    "n_layers_per_attn_res_block",
    "n_mamba_heads",
    "num_gqa_groups",
    "num_key_value_groups",
    "num_layers_per_stack",
    "offset_alibi",
    "parallel_attn",
    "qk_head_dim",
    "qk_layernorm",
    "scale_attention_softmax_in_fp32",
    "share_q_dim",
    "sliding_window",
    "sliding_window_size",
    "true_head_dim",
    "unk_index",
    "use_attention_gate",
    "use_bidirectional_attention",
    "use_cache",
    "use_qk_norm",
    "use_shared_attention_adapter",
    "v_head_dim",
    "vocab_size_per_layer_input",
};

/* Words in keys of other parts: experts, images, further predictions, heads that classify. */
static const char *const foreign[] = {
    "activation", "adapter", "aligner", "audio",        "bias",       "classifier", "cls",
    "conv",       "draft",   "dropout", "embed",        "embedding",  "embeddings", "expert",
    "experts",    "ffn",     "image",   "intermediate", "layernorm",  "lm",         "loss",
    "medusa",     "mlp",     "moe",     "mtp",          "nextn",      "ngram",      "norm",
    "output",     "ple",     "pred",    "predict",      "prediction", "resampler",  "reward",
    "rope",       "rotary",  "router",  "speech",       "token",      "video",      "vision",
};

/* A key with a word of each list may say which layers have a cache. */
static const char *const of_layers[] = {
    "block",   "blocks",   "every", "freq",   "ids",   "idx",   "idxs",
    "indices", "interval", "layer", "layers", "loop",  "loops", "offset",
    "pattern", "period",   "skip",  "step",   "types",
};
static const char *const of_kinds[] = {
    "attention", "attn",    "cache",  "cla",   "full",  "global",    "hybrid",
    "kv",        "linear",  "local",  "mamba", "mla",   "recurrent", "share",
    "shared",    "sliding", "sparse", "ssm",   "state", "swa",       "window",
};

/* A key with one of these words and a number may be the shape of a cache. */
static const char *const of_shapes[] = {
    "cache", "head", "heads", "kv", "latent", "swa", "window",
};

/* Words in keys of states and indexers, whose shapes are not the cache's. */
static const char *const of_states[] = {"index", "indexer", "linear", "mamba", "ssm"};

/* Words in keys that concern attention or its cache. */
static const char *const of_attention[] = {
    "alibi",  "attention", "attn",  "cache",  "chunk",  "cla",    "head", "heads",
    "index",  "indexer",   "key",   "kv",     "latent", "mla",    "qk",   "share",
    "shared", "sink",      "sinks", "sparse", "value",  "window",
};

static const char unknown[] = "not understood, and may concern attention";

/* Keys by their beginnings, and a note that says what is planned; NULL: nothing need be said. */
static const struct meaning {
    const char *beginnings[12], *planned;
} meanings[] = {
    {{"linear_", "mamba_", "rel_", "_attn_implementation"}, NULL},
    {{"index_", "indexer_", "dsa_"},
     "an indexer selects the tokens that are attended to; layers are planned without it, so the "
     "engine must run it"},
    {{"sparse_", "use_sparse", "keep_window", "blocksparse_", "dense_attention_", "moba_", "nsa_",
      "msa_", "qsa_"},
     "sparse attention is planned as dense attention over all tokens; the engine must "
     "select tokens"},
    {{"cross_attention_"}, "cross attention is not planned, only the other layers"},
    {{"compress_", "compressor_", "csa_", "hca_"},
     "compressed streams are not planned, only attention to the tokens next to them; flows for "
     "streams: csa.json, hca.json"},
    {{""}, unknown},
};

/* ---- Words of a key ---- */

#define HAS(key, list) has_word(key, list, sizeof(list) / sizeof *(list))

static bool is_listed(const char *text, size_t length, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strlen(list[i]) == length && memcmp(list[i], text, length) == 0)
            return true;
    return false;
}

/* Whether one of the words that "_" joins is in the list. */
static bool has_word(const char *key, const char *const *list, size_t count) {
    bool has = false;
    for (size_t length; !has && *key != '\0'; key += length + (key[length] == '_')) {
        length = strcspn(key, "_");
        has = is_listed(key, length, list, count);
    }
    return has;
}

static bool is_harmless(const char *key) {
    return is_listed(key, strlen(key), harmless, sizeof harmless / sizeof *harmless) ||
           HAS(key, foreign);
}

static bool begins(const struct meaning *meaning, const char *key) {
    for (size_t i = 0; meaning->beginnings[i] != NULL; i++)
        if (strncmp(key, meaning->beginnings[i], strlen(meaning->beginnings[i])) == 0)
            return true;
    return false;
}

static const struct meaning *meaning_of(const char *key) {
    const struct meaning *meaning = meanings;
    const struct meaning *last = &meanings[sizeof meanings / sizeof *meanings - 1];
    while (meaning < last && !begins(meaning, key))
        meaning++;
    return meaning == last && !HAS(key, of_attention) ? meanings : meaning;
}

/* ---- Notes ---- */

/* null, false, 0 and empty values switch a feature off. */
static bool is_off(const json_t *value) {
    return json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* Whether the key may say which layers have a cache. */
static bool concerns_layers(const char *key) {
    return HAS(key, of_layers) && HAS(key, of_kinds);
}

/* Whether nothing need be said.  If each layer is described, no other key says what it stores. */
static bool is_known(const struct reader *r, const char *key, const json_t *value) {
    return json_object_get(r->text.seen, key) != NULL || is_off(value) || is_harmless(key) ||
           (r->described && concerns_layers(key) && meaning_of(key)->planned == unknown);
}

/* Lists the keys with this meaning that have not been read, in the config's order. */
static bool list_keys(const struct reader *r, const struct meaning *meaning, struct text *keys) {
    const char *key;
    json_t *value;
    bool done = true;
    json_object_foreach(r->text.value, key, value) {
        if (!is_known(r, key, value) && meaning_of(key) == meaning)
            done = done && text_print(keys, "%s%.64s", keys->length > 0 ? ", " : "", key);
    }
    return done;
}

static bool note(const struct reader *r, const struct meaning *meaning) {
    struct text keys = {0};
    bool done = list_keys(r, meaning, &keys) &&
                (keys.data == NULL || text_print(r->notes, "%s: note: %s: %s\n", r->outer.file,
                                                 keys.data, meaning->planned));
    text_free(&keys);
    return done;
}

bool config_notes(const struct reader *r) {
    bool done = true;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].planned != NULL)
            done = done && note(r, &meanings[i]);
    return done || out_of_memory(r->error);
}

/* ---- Refusals ---- */

static bool concerns_shape(const char *key, const json_t *value) {
    bool counts = json_is_number(value) || json_is_array(value);
    return counts && HAS(key, of_shapes) && !HAS(key, of_states) && !HAS(key, of_layers);
}

bool config_judge(const struct reader *r, const struct json_place *object) {
    const char *key;
    json_t *value;
    struct json_place unread = *object;
    unread.seen = NULL;
    json_object_foreach(object->value, key, value) {
        const char *planned = meaning_of(key)->planned;
        if (is_known(r, key, value) || (planned != NULL && planned != unknown))
            continue;
        struct json_place place = json_member(&unread, key);
        if (concerns_layers(key) || concerns_shape(key, value))
            return json_fail(r->error, &place,
                             "is not understood, and may change %s; accepted: keys that kvmill "
                             "knows, or per_layer_config",
                             concerns_shape(key, value) ? "the shape of the cache"
                                                        : "which layers have a cache");
    }
    return true;
}
