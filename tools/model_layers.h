/* Prints the layers of a model, and what they store for each token.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_MODEL_LAYERS_H
#define KVMILL_TOOLS_MODEL_LAYERS_H

#include "../base/json.h"
#include "../import/hf/cache_choice.h"
#include "../import/hf/config.h"
#include "../spec/spec.h"

/* Prints the layers to standard output.  Equal adjacent layers share a line. */
void print_layers(const struct model *model, const struct cache_choice *choice);

/* Returns the layers as an object. */
json_t *json_of_model(const struct model *model, const struct cache_choice *choice);

#endif
