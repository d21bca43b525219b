/* SPDX-License-Identifier: Apache-2.0 */
#include "spec_keys.h"

static const struct spec_family *const families[OP_FAMILIES] = {
    [OP_PLAIN] = &plain_specs,
    [OP_TENSOR_SCATTER] = &tensor_scatter_specs,
    [OP_CACHE_ATTENTION] = &cache_attention_specs,
    [OP_CACHE_ATTEND] = &cache_attend_specs,
    [OP_WRITE_ROWS] = &write_rows_specs,
    [OP_ATTENTION] = &onnx_attention_specs,
    [OP_GATHER] = &gather_specs,
    [OP_SCATTER] = &window_scatter_specs,
    [OP_FLOW] = &flow_specs,
};

const struct spec_family *spec_family_for(const struct op *op) {
    return families[op->family];
}
