/* Notes about keys of a config that concern attention and that kvmill does not support, so that a
   plan does not seem to cover them.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../../base/text.h"
#include "config_reader.h"

/* Keys by their beginnings, and a note that says what is planned; NULL: they affect neither the
   cache nor attention to it. */
static const struct meaning {
    const char *beginnings[32], *planned;
} meanings[] = {
    {{"apply_query_key_layer_scaling",
      "attention_bias",
      "attention_dropout",
      "attention_in_bias",
      "attention_out_bias",
      "attention_probs_dropout",
      "attention_softmax_in_fp32",
      "attn_dropout",
      "attn_implementation",
      "_attn_implementation",
      "attn_output_gate",
      "attn_pdrop",
      "cache_implementation",
      "head_dim",
      "kv_channels",
      "linear_",
      "mamba_",
      "multi_query_group_num",
      "n_head_kv",
      "num_key_value_heads",
      "num_kv_heads",
      "offset_alibi",
      "parallel_attn",
      "qk_head_dim",
      "qk_layernorm",
      "qk_rope_head_dim",
      "sliding_window",
      "use_cache",
      "use_qk_norm",
      "v_head_dim"},
     NULL},
    {{"index_", "indexer_", "dsa_"},
     "an indexer selects the tokens that are attended to; layers are planned without it, so the "
     "engine must run it"},
    {{"sparse_", "use_sparse", "moba_", "nsa_", "msa_", "qsa_"},
     "sparse attention is planned as dense attention over all tokens; the engine must "
     "select tokens"},
    {{"cla_", "use_cla"}, "layers share a cache; each is planned with its own"},
    {{"compress_", "compressor_", "csa_", "hca_"},
     "compressed streams are not planned, only attention to the tokens next to them; flows for "
     "streams: csa.json, hca.json"},
    {{""}, "not understood, and may concern attention"},
};

/* Words in keys that concern attention or its cache. */
static const char *const words[] = {"alibi",  "attention", "attn",  "cache",   "chunk",  "cla",
                                    "head",   "heads",     "index", "indexer", "key",    "kv",
                                    "latent", "mla",       "qk",    "share",   "shared", "sink",
                                    "sinks",  "sparse",    "value", "window"};

static bool is_word(const char *text, size_t length) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0)
            return true;
    return false;
}

static bool speaks_of_attention(const char *key) {
    bool speaks = false;
    for (size_t length; !speaks && *key != '\0'; key += length + (key[length] == '_')) {
        length = strcspn(key, "_");
        speaks = is_word(key, length);
    }
    return speaks;
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
    return meaning == last && !speaks_of_attention(key) ? meanings : meaning;
}

/* null, false, 0 and empty values switch a feature off. */
static bool is_off(const json_t *value) {
    return json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* Lists the keys with this meaning that have not been read, in the config's order. */
static bool list_keys(const struct reader *r, const struct meaning *meaning, struct text *keys) {
    const char *key;
    json_t *value;
    bool done = true;
    json_object_foreach(r->text.value, key, value) {
        if (json_object_get(r->text.seen, key) == NULL && !is_off(value) &&
            meaning_of(key) == meaning)
            done = done && text_print(keys, "%s%.64s", keys->length > 0 ? ", " : "", key);
    }
    return done;
}

static bool note(const struct reader *r, const struct meaning *meaning, struct text *notes) {
    struct text keys = {0};
    bool done = list_keys(r, meaning, &keys) &&
                (keys.data == NULL || text_print(notes, "%s: note: %s: %s\n", r->outer.file,
                                                 keys.data, meaning->planned));
    text_free(&keys);
    return done;
}

bool config_notes(const struct reader *r, struct text *notes) {
    bool done = true;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].planned != NULL)
            done = done && note(r, &meanings[i], notes);
    return done || out_of_memory(r->error);
}
