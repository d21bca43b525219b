/* kvmill run for ONNX Attention and TensorScatterAttention.

   SPDX-License-Identifier: Apache-2.0 */
#include "../bench/scene_onnx.h"
#include "../ops/onnx_attention.h"
#include "run_op.h"

enum { ALL_TENSORS = KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS };

/* ---- Outputs ---- */

static bool make_output(struct spec *spec, const struct kvmill_attention_geometry *geometry,
                        struct arrays *arrays, int tensor, struct error *error) {
    int64_t dims[4];
    DLTensor *known = &spec->onnx_attention.tensor[tensor];
    struct npy *npy = &arrays->tensor[tensor];
    int rank = kvmill_attention_shape(geometry, tensor, dims);
    if (!npy_make(known->dtype, dims, rank, npy, error) ||
        !spec_set_shape(known, dims, rank, error))
        return false;
    npy->tensor.dtype = known->dtype;
    return true;
}

/* Whether to make an output.  A plan needs every output that the spec names, even if nobody wants
   it. */
static bool is_wanted(const struct spec *spec, const struct arrays *arrays, int tensor) {
    const struct described described = described_by(spec);
    bool planned = spec->onnx_attention.tensor[tensor].shape != NULL;
    return described_makes(&described, arrays, tensor) ||
           (planned && described_output(&described, tensor) != NULL);
}

static bool prepare_onnx_attention(struct spec *spec, struct arrays *arrays, struct error *error) {
    struct kvmill_attention_geometry geometry;
    if (!run_reconcile(spec, arrays, error) || !onnx_attention_geometry(spec, &geometry, error))
        return false;
    for (int i = 0; i < ALL_TENSORS; i++)
        if (is_wanted(spec, arrays, i) && !make_output(spec, &geometry, arrays, i, error))
            return false;
    return true;
}

/* Gives the spec's tensors the arrays' strides; their shapes are equal. */
static void use_arrays(struct spec *spec, const struct arrays *arrays) {
    for (int i = 0; i < ALL_TENSORS; i++)
        if (is_given(&arrays->tensor[i]))
            spec->onnx_attention.tensor[i].strides = arrays->tensor[i].tensor.strides;
}

static kvmill_status plan_onnx_attention(const struct spec *spec, const struct arrays *arrays,
                                         const kvmill_plan_options *options, kvmill_plan **plan,
                                         kvmill_error *reason) {
    struct spec with_strides = *spec;
    use_arrays(&with_strides, arrays);
    return onnx_spec_plan(&with_strides, options, plan, reason);
}

const struct run_op onnx_attention_run = {
    .tensors = ALL_TENSORS,
    .prepare = prepare_onnx_attention,
    .plan = plan_onnx_attention,
};
