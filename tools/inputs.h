/* What generate, plan and bench start from: a model's config or a list of specs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_INPUTS_H
#define KVMILL_TOOLS_INPUTS_H

#include "../gen/pack.h"
#include "options.h"

/* Their rows in a command's option table. */
#define INPUT_OPTIONS                                                                              \
    {"model", "CONFIG", "a model's config.json or its directory, a name, a .gguf or .onnx file",   \
     &model_values},                                                                               \
        {"kernels", "SPECS", "a spec file: kvmill-specs(5)", &file_values},                        \
        {"ggml", "K[,V]", "kernels for llama.cpp with a cache of these types (f16 for .gguf)",     \
         &ggml_values},                                                                            \
        {"ort", NULL, "kernels for ONNX Runtime: what its provider takes of the ONNX model",       \
         NULL},                                                                                    \
        {"activations", "TYPE",                                                                    \
         "type of queries and results: float32, float16, bfloat16 (the model's)",                  \
         &activation_values},                                                                      \
        {"cache", "TYPE", "type or format of the caches: kvmill(1) has a list (the model's type)", \
         &cache_values},                                                                           \
        {"quant-group", "N", "elements of int8 and int4 that share a scale (8)", NULL},            \
        {"cache-layout", "N", "0, 2 token-major, 1, 3 head-major (both)", &layout_values},         \
        {"math", "KIND", "arithmetic of attention: f32, or near or fast with larger errors (f32)", \
         &math_values},                                                                            \
        {"specialise", "WHAT", "kernels with constants, too: heads, layout or heads,layout",       \
         &specialise_values},                                                                      \
        {"flow", "FILE", "a sparse flow, for the layers that attend to all of their cache",        \
         &file_values},                                                                            \
        {"isa", "LIST", "instruction sets, by commas (all for x86-64)", &isa_values}, {            \
        "name", "NAME", "name of the pack, a C identifier (from DIR)", NULL                        \
    }

struct inputs {
    char *model_file;   /* that --model means; NULL without it */
    struct model model; /* without layers when specs were given */
    struct cache_choice choice;
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

/* Say what reading left alone, which specs only the portable kernels serve, and why, and which that
   ask for another math than "f32" have kernels of that alone. */
bool note_without_kernels(const struct spec_list *specs, const struct isa_list *isas,
                          struct error *error);

#endif
