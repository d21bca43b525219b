/* The file of a flow, for the layers of a model.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fuzz.h"
#include "fuzz_specs.h"

static const struct model *model_of_tree(void) {
    static struct model model;
    struct error error = {0};
    if (model.layers != NULL)
        return &model;
    char *name = fuzz_tree_file("configs/models/llama-3.2-1b.json");
    fuzz_require(model_read(name, &model, &error), "%s", error.text);
    free(name);
    return &model;
}

void fuzz_flow(const unsigned char *data, size_t size) {
    struct spec_list specs = {0};
    struct error error = {0};
    const struct cache_choice choice = {.layout = 2};
    bool done = specs_of_model(model_of_tree(), &choice, &specs, &error);
    fuzz_require(done, "%s", error.text);
    if (specs_add_flow(fuzz_file(0, data, size), model_of_tree(), &choice, &specs, &error))
        fuzz_check_specs(&specs);
    else
        fuzz_require_refusal(&error);
    spec_list_free(&specs);
}
