/* A model's specs for llama.cpp. specs_of_model calls these functions if cache types of ggml were
   chosen.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_GGUF_SPECS_FOR_GGML_H
#define KVMILL_IMPORT_GGUF_SPECS_FOR_GGML_H

#include "../../gen/spec.h"

/* A spec for each kind of attention that layers differ in. */
bool specs_for_ggml(const struct model *model, const struct cache_choice *choice,
                    struct spec_list *list, struct error *error);

/* The op of a layer with a cache; `op` has its defaults. */
void ggml_op_of(const struct model *model, const struct layer *layer,
                const struct cache_choice *choice, kvmill_cache_attend *op);

#endif
