/* SPDX-License-Identifier: Apache-2.0 */
#include "config_words.h"

#include <stdio.h>
#include <string.h>

static const struct layer_word words[] = {
    /* Attention to all tokens.  An indexer or a state beside it is the engine's. */
    {.text = "full_attention", .kind = LAYER_FULL},
    {.text = "attention", .kind = LAYER_FULL},
    {.text = "full", .kind = LAYER_FULL},
    {.text = "global", .kind = LAYER_FULL},
    {.text = "global_attention", .kind = LAYER_FULL},
    {.text = "indexed_attention", .kind = LAYER_FULL},
    {.text = "deepseek_sparse_attention", .kind = LAYER_FULL},
    {.text = "qwen_sparse_attention", .kind = LAYER_FULL},
    {.text = "minimax_m3_sparse", .kind = LAYER_FULL},
    {.text = "hybrid", .kind = LAYER_FULL},
    {.text = "chunked_attention", .kind = LAYER_FULL, .chunked = true},
    /* Attention to a window. */
    {.text = "sliding_attention", .kind = LAYER_SLIDING},
    {.text = "sliding", .kind = LAYER_SLIDING},
    {.text = "local", .kind = LAYER_SLIDING},
    {.text = "local_attention", .kind = LAYER_SLIDING},
    {.text = "hybrid_sliding", .kind = LAYER_SLIDING},
    {.text = "compressed_sparse_attention", .kind = LAYER_SLIDING, .merges = true},
    {.text = "heavily_compressed_attention", .kind = LAYER_SLIDING, .merges = true},
    /* A state, whose size does not depend on the number of tokens. */
    {.text = "linear_attention", .kind = LAYER_NONE},
    {.text = "lightning_attention", .kind = LAYER_NONE},
    {.text = "mamba", .kind = LAYER_NONE},
    {.text = "mamba2", .kind = LAYER_NONE},
    {.text = "recurrent", .kind = LAYER_NONE},
    {.text = "conv", .kind = LAYER_NONE},
    /* No attention at all. */
    {.text = "mlp", .kind = LAYER_NONE},
    {.text = "moe", .kind = LAYER_NONE},
    {.text = "reference_sliding_attention",
     .refusal = ", which keeps the whole prompt and a window of what follows, and has no kernel"},
    {.text = "window_attention",
     .refusal = ", whose windows do not overlap, as in encoders of images"},
};

enum { WORDS = sizeof words / sizeof *words };

/* The letters of hybrid_override_pattern and sliding_window_pattern. */
static const struct {
    char letter;
    const char *word;
} letters[] = {
    {'*', "full_attention"},   {'M', "mamba"}, {'-', "mlp"}, {'E', "moe"}, {'G', "full_attention"},
    {'L', "sliding_attention"}};

const struct layer_word *layer_word_of(const char *text) {
    for (size_t i = 0; i < WORDS; i++)
        if (strcmp(words[i].text, text) == 0)
            return &words[i];
    return NULL;
}

static void list_accepted(char *list, size_t size) {
    size_t at = 0;
    for (size_t i = 0; i < WORDS && at < size; i++)
        if (words[i].refusal == NULL)
            at += (size_t)snprintf(list + at, size - at, "%s%s", at > 0 ? ", " : "", words[i].text);
}

bool layer_word_read(const struct json_place *place, const struct layer_word **word,
                     struct error *error) {
    char accepted[512] = "";
    const char *text;
    if (!json_get_string(place, &text, error))
        return false;
    *word = layer_word_of(text);
    if (*word != NULL && (*word)->refusal == NULL)
        return true;
    list_accepted(accepted, sizeof accepted);
    return json_fail(error, place, "is \"%.40s\"%s; accepted: %s", text,
                     *word != NULL ? (*word)->refusal : "", accepted);
}

bool layer_letter_read(const struct json_place *pattern, size_t at, const struct layer_word **word,
                       struct error *error) {
    char letter = json_string_value(pattern->value)[at];
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (letters[i].letter == letter) {
            *word = layer_word_of(letters[i].word);
            return true;
        }
    return json_fail(error, pattern,
                     "has '%c' for layer %zu; accepted: * for attention, M for mamba, - for mlp, E "
                     "for moe, L for a window, G for none",
                     letter, at);
}
