/* kvmill run for ONNX Attention and TensorScatterAttention.

   SPDX-License-Identifier: Apache-2.0 */
#include "../bench/onnx_scene.h"
#include "../ops/onnx_attention.h"
#include "run_op.h"

enum { ALL_TENSORS = KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS };

static bool is_output(int tensor) {
    return tensor >= KVMILL_ATTENTION_Y && tensor < KVMILL_ATTENTION_WRITE_INDICES;
}

static bool has(const struct spec *spec, int tensor) {
    bool step = is_onnx_attention_step(spec);
    if (tensor == KVMILL_ATTENTION_WRITE_INDICES)
        return step;
    return tensor != KVMILL_ATTENTION_QK_MATMUL_OUTPUT || !step;
}

static const char *input(const struct spec *spec, int tensor) {
    return has(spec, tensor) && !is_output(tensor) ? kvmill_attention_names[tensor] : NULL;
}

static const char *output(const struct spec *spec, int tensor) {
    return has(spec, tensor) && is_output(tensor) ? kvmill_attention_names[tensor] : NULL;
}

/* ---- Inputs ---- */

/* A mask's type is its array's, where the spec says nothing about it. */
static bool reconcile(struct spec *spec, struct npy *npy, int tensor, struct error *error) {
    const char *name = kvmill_attention_names[tensor];
    DLTensor *known = &spec->onnx_attention.tensor[tensor];
    bool is_mask = tensor == KVMILL_ATTENTION_MASK;
    if (is_mask && known->dtype.bits == 0)
        known->dtype = npy->tensor.dtype;
    if (!is_mask && known->dtype.code == kDLInt && !array_is_index(name, npy, error))
        return false;
    return array_reconcile(name, known, npy, error);
}

static bool reconcile_all(struct spec *spec, struct arrays *arrays, struct error *error) {
    for (int i = 0; i < ALL_TENSORS; i++) {
        bool named = spec->onnx_attention.tensor[i].shape != NULL;
        bool required = i <= KVMILL_ATTENTION_V || named;
        if (input(spec, i) == NULL)
            continue;
        if (required && !array_require(kvmill_attention_names[i], &arrays->tensor[i], error))
            return false;
        if (is_given(&arrays->tensor[i]) && !reconcile(spec, &arrays->tensor[i], i, error))
            return false;
    }
    return true;
}

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

/* Y and, of a step, the caches always; others where they are asked for, or the spec names them. */
static bool is_wanted(const struct spec *spec, const struct arrays *arrays, int tensor) {
    bool always = tensor == KVMILL_ATTENTION_Y ||
                  (is_onnx_attention_step(spec) && tensor != KVMILL_ATTENTION_QK_MATMUL_OUTPUT);
    return is_output(tensor) && (always || arrays->output[tensor] != NULL ||
                                 spec->onnx_attention.tensor[tensor].shape != NULL);
}

static bool prepare(struct spec *spec, struct arrays *arrays, struct error *error) {
    struct kvmill_attention_geometry geometry;
    if (!reconcile_all(spec, arrays, error) || !onnx_attention_geometry(spec, &geometry, error))
        return false;
    for (int i = 0; i < ALL_TENSORS; i++)
        if (is_wanted(spec, arrays, i) && !make_output(spec, &geometry, arrays, i, error))
            return false;
    return true;
}

/* The spec's tensors have the arrays' shapes; strides are the arrays'. */
static void use_arrays(struct spec *spec, const struct arrays *arrays) {
    for (int i = 0; i < ALL_TENSORS; i++)
        if (is_given(&arrays->tensor[i]))
            spec->onnx_attention.tensor[i].strides = arrays->tensor[i].tensor.strides;
}

static kvmill_status plan(const struct spec *spec, const struct arrays *arrays,
                          const kvmill_plan_options *options, kvmill_plan **plan,
                          kvmill_error *reason) {
    struct spec with_strides = *spec;
    use_arrays(&with_strides, arrays);
    return onnx_spec_plan(&with_strides, options, plan, reason);
}

const struct run_op onnx_attention_run = {
    .tensors = ALL_TENSORS,
    .input = input,
    .output = output,
    .prepare = prepare,
    .plan = plan,
};
