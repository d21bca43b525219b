/* A model's config: its layers, the specs and kernels of its pack.

   SPDX-License-Identifier: Apache-2.0 */
#include "../../gen/spec.h"
#include "fuzz.h"
#include "fuzz_specs.h"

static void make_specs(const struct model *model, const struct cache_choice *choice) {
    struct spec_list specs = {0};
    struct error error;
    if (specs_of_model(model, choice, &specs, &error))
        fuzz_check_specs(&specs);
    else
        fuzz_require_refusal(&error);
    spec_list_free(&specs);
}

void fuzz_config(const unsigned char *data, size_t size) {
    struct model model;
    struct error error = {0};
    unsigned number = fuzz_number(data, size);
    const struct cache_choice choice = {
        .type = number % 3 == 0 ? NULL : kvmill_format_parts((int)(number % KVMILL_MOST_FORMATS)),
        .layout = (int)(number >> 8) % 5 - 1,
        .quant_group = (number >> 12) % 2 * 32,
        .fast = (number >> 16) % 2 != 0,
    };
    if (!model_read(fuzz_file(0, data, size), &model, &error)) {
        fuzz_require_refusal(&error);
        return;
    }
    make_specs(&model, &choice);
    model_free(&model);
}
