/* Sparse flows in specs, in the form of flow files and in that of the library.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_SPEC_FLOW_SPEC_H
#define KVMILL_SPEC_FLOW_SPEC_H

#include "../ops/flow.h"
#include "spec.h"

struct flow_spec {
    json_t *source;        /* the spec, which owns all names */
    json_t *dims;          /* its `dims`, or NULL */
    struct spec attention; /* `attention` of the spec */
    kvmill_flow_field fields[KVMILL_MOST_FLOW_FIELDS];
    kvmill_flow_constant constants[KVMILL_MOST_FLOW_CONSTANTS];
    float *values[KVMILL_MOST_FLOW_CONSTANTS];
    int64_t field_heads[KVMILL_MOST_FLOW_FIELDS];
    const char *field_scales[KVMILL_MOST_FLOW_FIELDS];
    int64_t layers_skip[KVMILL_MOST_FLOW_LAYERS];
    kvmill_flow_op ops[KVMILL_FLOW_PROGRAMS][KVMILL_MOST_FLOW_OPS];
    kvmill_flow flow; /* points into this */
    int step;         /* the step that `kvmill run` runs, an enum op_flow_step */
};

/* The flow in the library's form, complete and checked. */
const kvmill_flow *flow_of_spec(const struct spec *spec);

/* Release the flow_spec that contains a flow, after its spec has given it up. */
void flow_spec_free(const kvmill_flow *flow);

/* "pages of 16, 1 + 29 + 2 of each kv head or 1/16; layers 0, 1 whole".  false: out of memory. */
bool flow_words(const struct spec *spec, struct text *text);

/* Lines about a checked flow: what a page stores, and the token ratio. */
bool flow_layout_words(const struct spec *spec, struct text *text);

#endif
