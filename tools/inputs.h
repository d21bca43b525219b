/* What generate, plan and bench start from: a model's config or a list of specs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_INPUTS_H
#define KVMILL_TOOLS_INPUTS_H

#include "../gen/pack.h"
#include "options.h"

/* Their rows in a command's option table. */
#define INPUT_OPTIONS                                                                              \
    {"model", "CONFIG", "a Hugging Face config.json"},                                             \
        {"kernels", "SPECS", "a spec file: kvmill-specs(5)"},                                      \
        {"cache", "TYPE", "element type of the cache: float32, float16, bfloat16 (the model's)"},  \
        {"cache-layout", "N", "0 token-major, 1 head-major (both)"},                               \
        {"isa", "LIST", "instruction sets, by commas (all for x86-64)"}, {                         \
        "name", "NAME", "name of the pack, a C identifier (from DIR)"                              \
    }

struct inputs {
    struct model model; /* without layers when specs were given */
    struct spec_list specs;
    struct isa_list isas;
    struct pack pack; /* kernels of the specs */
    char name[65];
};

/* `directory` gives the pack its name where --name does not; NULL: "pack".  Release with
   inputs_free, also after a failure. */
bool inputs_read(const struct options *options, const char *directory, struct inputs *inputs,
                 struct error *error);
void inputs_free(struct inputs *inputs);

#endif
