/* The words with which configs describe layers, and what each means for the cache.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_HF_CONFIG_WORDS_H
#define KVMILL_IMPORT_HF_CONFIG_WORDS_H

#include "../../base/json.h"
#include "config.h"

struct layer_word {
    const char *text;
    enum layer_kind kind;
    bool merges;  /* see struct layer */
    bool chunked; /* attends to its own chunk of tokens */
    const char *refusal;
};

/* Returns the meaning of a word that is in the table. */
const struct layer_word *layer_word_of(const char *text);

/* Reads a word.  An unknown one is refused with the list of those that are accepted. */
bool layer_word_read(const struct json_place *place, const struct layer_word **word,
                     struct error *error);

/* Reads a letter at a place of a pattern, such as M for mamba. */
bool layer_letter_read(const struct json_place *pattern, size_t at, const struct layer_word **word,
                       struct error *error);

#endif
