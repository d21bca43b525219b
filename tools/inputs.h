/* The input of generate, plan and bench: a model's config, or a list of specs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_INPUTS_H
#define KVMILL_TOOLS_INPUTS_H

#include "../gen/pack.h"
#include "../import/hf/specs_of_model.h"
#include "options.h"

/* The input options, for a command's option table. */
#define INPUT_OPTIONS                                                                              \
    {"model", "CONFIG", "a config.json, a model's directory or name, a .gguf or .onnx file",       \
     &model_values},                                                                               \
        {"kernels", "SPECS", "a spec file, see kvmill-specs(5)", &file_values},                    \
        {"ggml", "K[,V]", "kernels for llama.cpp with these cache types (default for .gguf: f16)", \
         &ggml_values},                                                                            \
        {"ort", NULL, "only kernels for the nodes that ONNX Runtime hands to kvmill", NULL},       \
        {"activations", "TYPE",                                                                    \
         "type of queries and results: float32, float16, bfloat16 (default: the model's)",         \
         &activation_values},                                                                      \
        {"cache", "K[,V]",                                                                         \
         "types or formats of the cache, see kvmill(1) (default: the model's type)",               \
         &cache_values},                                                                           \
        {"quant-group", "N", "elements that share a scale in int8 and int4 (default 8)", NULL},    \
        {"cache-layout", "N", "0 or 2 for token-major, 1 or 3 for head-major (default: both)",     \
         &layout_values},                                                                          \
        {"math", "KIND",                                                                           \
         "arithmetic of attention: f32, or near or fast, which are less exact (default f32)",      \
         &math_values},                                                                            \
        {"specialise", "WHAT", "add kernels with constants: heads, layout or heads,layout",        \
         &specialise_values},                                                                      \
        {"flow", "FILE", "a sparse flow, or FILE.py:CLASS, for layers that attend to all tokens",  \
         &file_values},                                                                            \
        {"v", NULL, "also say which ops of a .mlir program are left alone", NULL},                 \
        {"isa", "LIST",                                                                            \
         "instruction sets, or native, separated by commas (default: all for x86-64)",             \
         &isa_values},                                                                             \
    {                                                                                              \
        "name", "NAME", "name of the pack, a C identifier (default: from DIR)", NULL               \
    }

struct inputs {
    char *model_file;   /* the file of --model; NULL without it */
    struct model model; /* has no layers if specs were given */
    struct cache_choice choice;
    struct spec_list specs;
    struct isa_list isas;
    struct pack pack; /* the specs' kernels */
    char name[65];
};

/* Reads the inputs.  Without --name, the pack is named after `directory`, or "pack" if that is
   NULL.  Release with inputs_free, also after a failure. */
bool inputs_read(const struct options *options, const char *directory, struct inputs *inputs,
                 struct error *error);

/* The same without kernels and notes. */
bool inputs_read_specs(const struct options *options, const char *directory, struct inputs *inputs,
                       struct error *error);
void inputs_free(struct inputs *inputs);

/* Prints notes: what reading the input left out, which specs only portable kernels run and why, and
   which specs with another math than "f32" have only kernels of "f32". */
bool note_without_kernels(const struct spec_list *specs, const struct isa_list *isas,
                          struct error *error);

#endif
