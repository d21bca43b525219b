/* The families of ops whose specs need code of their own; the others are plain.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_SPEC_SPEC_FAMILIES_H
#define KVMILL_SPEC_SPEC_FAMILIES_H

#include "spec.h"

extern const struct spec_family tensor_scatter_specs, cache_attention_specs, cache_attend_specs,
    onnx_attention_specs, gather_specs, window_scatter_specs, flow_specs, plain_specs,
    write_rows_specs;

/* The family of an op. */
const struct spec_family *spec_family_for(const struct op *op);

#endif
