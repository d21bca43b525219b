/* A model's specs for llama.cpp. specs_of_model calls these functions if cache types of ggml were
   chosen.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_GGUF_SPECS_FOR_GGML_H
#define KVMILL_IMPORT_GGUF_SPECS_FOR_GGML_H

#include "../../spec/spec.h"
#include "../hf/cache_choice.h"
#include "../hf/config.h"

/* Adds a spec for each distinct attention, and for each distinct store. */
bool specs_for_ggml(const struct model *model, const struct cache_choice *choice,
                    struct spec_list *list, struct error *error);

/* Sets the op of a layer that has a cache; `op` must have its defaults. */
void ggml_op_of(const struct model *model, const struct layer *layer,
                const struct cache_choice *choice, kvmill_cache_attend *op);

#endif
