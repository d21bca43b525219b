/* The tensors of a flow's steps that the flow itself names: fields, rows that are appended with
   tokens, and inputs, in this order, after all other tensors.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_FLOW_TENSORS_H
#define KVMILL_OPS_FLOW_TENSORS_H

#include <stdbool.h>

#include <kvmill.h>

#include "flow.h"

enum kvmill_flow_tensor_kind {
    KVMILL_FLOW_TENSOR_FIELD,
    KVMILL_FLOW_TENSOR_ROWS, /* of new tokens, for a field */
    KVMILL_FLOW_TENSOR_INPUT /* of the index program */
};

struct kvmill_flow_tensor {
    enum kvmill_flow_tensor_kind kind;
    int number; /* of the field, or of the constant */
    char name[KVMILL_FLOW_TENSOR_NAME];
    DLDataType dtype;
    int rank;
    int64_t dims[4]; /* the first is open: pages, tokens, requests */
};

/* Tensor number n of these; false if there are fewer. */
bool kvmill_flow_tensor_at(const kvmill_flow *flow, int n, struct kvmill_flow_tensor *tensor);

/* Whether a step (enum op_flow_step) reads the tensor; whether it writes it.  The flow may be
   invalid: it may not have been checked yet. */
bool kvmill_flow_step_reads(int step, const struct kvmill_flow_tensor *tensor);
bool kvmill_flow_step_writes(const kvmill_flow *flow, int step,
                             const struct kvmill_flow_tensor *tensor);

/* Whether a field's rows are appended with tokens. */
bool kvmill_flow_is_appended(const kvmill_flow *flow, int64_t field);

/* The name of the field for a field's scales, or NULL; whether a field has the scales of another.
 */
const char *kvmill_flow_scales_of(const kvmill_flow *flow, int64_t field);
bool kvmill_flow_has_scales_of(const kvmill_flow *flow, int64_t field);

#endif
