/* The specs of a model's pack.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_HF_SPECS_OF_MODEL_H
#define KVMILL_IMPORT_HF_SPECS_OF_MODEL_H

#include "../../spec/spec.h"
#include "cache_choice.h"
#include "config.h"

/* The type of activations: the chosen one, or the model's. */
const char *activations_word(const struct model *model, const struct cache_choice *choice);

bool specs_of_model(const struct model *model, const struct cache_choice *choice,
                    struct spec_list *list, struct error *error);

/* The bytes of a token in the caches of all layers, including scales, if no layer had a window.
   There must be specs for the choice. */
int64_t cache_bytes_per_token(const struct model *model, const struct cache_choice *choice);

/* The same for the layers that keep all tokens. */
int64_t cache_bytes_without_windows(const struct model *model, const struct cache_choice *choice);

/* Why a model's pack has no attention for it, for a note; NULL if it has. */
const char *model_without_attention(const struct model *model);

/* For every spec of a model that attends to all that it stores: the flow of a file with this spec's
   attention, in pages of the file's page_size, and with the file's cache_layout unless one was
   chosen. */
bool specs_add_flow(const char *file, const struct model *model, const struct cache_choice *choice,
                    struct spec_list *list, struct error *error);

#endif
