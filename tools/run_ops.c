/* What `kvmill run` knows about all ops.

   SPDX-License-Identifier: Apache-2.0 */
#include "run_op.h"

const struct run_op *run_op_of(const struct spec *spec) {
    static const struct run_op *const families[OP_FAMILIES] = {
        [OP_PLAIN] = &plain_run,
        [OP_TENSOR_SCATTER] = &tensor_scatter_run,
        [OP_CACHE_ATTENTION] = &cache_attention_run,
        [OP_CACHE_ATTEND] = &cache_attend_run,
        [OP_WRITE_ROWS] = &write_rows_run,
        [OP_ATTENTION] = &onnx_attention_run,
        [OP_GATHER] = &gather_run,
        [OP_SCATTER] = &scatter_run,
        [OP_FLOW] = &flow_run,
    };
    return families[spec->op->family];
}

const char *run_input(const struct spec *spec, int tensor) {
    const struct run_op *op = run_op_of(spec);
    struct described described = described_by(spec);
    return op->input != NULL ? op->input(spec, tensor) : described_input(&described, tensor);
}

const char *run_output(const struct spec *spec, int tensor) {
    const struct run_op *op = run_op_of(spec);
    struct described described = described_by(spec);
    return op->output != NULL ? op->output(spec, tensor) : described_output(&described, tensor);
}
