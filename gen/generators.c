/* SPDX-License-Identifier: Apache-2.0 */
#include "generators.h"

static const struct generator plain = {.without_kernels = "a portable function computes it"};

static const struct generator *const generators[OP_FAMILIES] = {
    [OP_PLAIN] = &plain,
    [OP_TENSOR_SCATTER] = &tensor_scatter_generator,
    [OP_CACHE_ATTENTION] = &cache_attention_generator,
    [OP_CACHE_ATTEND] = &cache_attend_generator,
    [OP_WRITE_ROWS] = &write_rows_generator,
    [OP_ATTENTION] = &onnx_attention_generator,
    [OP_GATHER] = &gather_generator,
    [OP_SCATTER] = &window_scatter_generator,
    [OP_FLOW] = &flow_generator,
};

const struct generator *generator_of(const struct spec *spec) {
    return generators[spec->op->family];
}

bool spec_kernels(const struct spec *spec, const struct isa *isa, struct kernel_list *kernels,
                  struct error *error) {
    const struct generator *generator = generator_of(spec);
    return generator->kernels == NULL || generator->kernels(spec, isa, kernels, error);
}

bool specs_kernels(const struct spec_list *list, const struct isa_list *isas,
                   struct kernel_list *kernels, struct error *error) {
    for (size_t i = 0; i < list->count; i++)
        for (int j = 0; j < isas->count; j++)
            if (!spec_kernels(&list->items[i], isas->items[j], kernels, error))
                return false;
    return true;
}

void spec_without_kernels(const struct spec *spec, char *words, size_t size) {
    const struct generator *generator = generator_of(spec);
    snprintf(words, size, "%s", generator->without_kernels);
    if (generator->why_none != NULL)
        generator->why_none(spec, words, size);
}
