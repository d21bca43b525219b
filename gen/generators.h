/* What is generated from specs: kernels, and parts of a pack.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_GENERATORS_H
#define KVMILL_GEN_GENERATORS_H

#include "../spec/spec.h"
#include "kernel.h"

struct handler;

/* The hooks for the specs of a family of ops.  NULL hooks have nothing to do. */
struct generator {
    bool (*kernels)(const struct spec *spec, const struct isa *isa, struct kernel_list *list,
                    struct error *error);
    const char *without_kernels; /* why there may be none, for a note */
    /* Why there are none, if the reason varies. */
    void (*why_none)(const struct spec *spec, char *words, size_t size);
    /* The function of a pack's header that plans it, as a call for templates/pack/plan.h.m4; and
       what the pack says about it. */
    bool (*define_plan)(const struct spec *spec, struct text *text);
    bool (*words)(const struct spec *spec, struct text *text);
    const struct handler *handler; /* for XLA's FFI: ffi.h */
};

extern const struct generator tensor_scatter_generator, cache_attention_generator,
    cache_attend_generator, write_rows_generator, onnx_attention_generator, gather_generator,
    window_scatter_generator, flow_generator;

/* The hooks for the spec's family. */
const struct generator *generator_of(const struct spec *spec);

/* The kernels of a spec for an instruction set, and of all specs for all instruction sets. */
bool spec_kernels(const struct spec *spec, const struct isa *isa, struct kernel_list *kernels,
                  struct error *error);
bool specs_kernels(const struct spec_list *list, const struct isa_list *isas,
                   struct kernel_list *kernels, struct error *error);

/* Why there may be no kernels for it. */
void spec_without_kernels(const struct spec *spec, char *words, size_t size);

#endif
