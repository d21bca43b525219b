/* ONNX Attention in spec files; and TensorScatterAttention, which is TensorScatter and Attention.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "../ops/onnx_attention.h"
#include "spec_keys.h"

enum { ALL_TENSORS = KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS };

/* Element types that a spec can have. */
enum { Q_TYPE, V_TYPE, MASK_TYPE };

bool is_onnx_attention_step(const struct spec *spec) {
    return spec->op->number == 1;
}

/* ---- The op ---- */

kvmill_attention onnx_attention_op_of(const struct spec *spec) {
    const DLTensor *tensors[KVMILL_ATTENTION_TENSORS];
    kvmill_attention op = spec->onnx_attention.op;
    for (int i = 0; i < KVMILL_ATTENTION_TENSORS; i++) {
        const DLTensor *tensor = &spec->onnx_attention.tensor[i];
        tensors[i] = tensor->shape != NULL ? tensor : NULL;
    }
    kvmill_attention_set_tensors(tensors, &op);
    return op;
}

kvmill_tensor_scatter_attention onnx_attention_step_of(const struct spec *spec,
                                                       const kvmill_attention *attention) {
    const DLTensor *indices =
        &spec->onnx_attention.tensor[KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES];
    kvmill_tensor_scatter_attention step = spec->onnx_attention.step;
    step.attention = attention;
    step.write_indices = indices->shape != NULL ? indices : NULL;
    return step;
}

bool onnx_attention_geometry(const struct spec *spec, struct kvmill_attention_geometry *geometry,
                             struct error *error) {
    kvmill_error reason;
    kvmill_attention op = onnx_attention_op_of(spec);
    kvmill_tensor_scatter_attention step = onnx_attention_step_of(spec, &op);
    kvmill_status status = is_onnx_attention_step(spec)
                               ? kvmill_attention_step_check(&step, geometry, &reason)
                               : kvmill_attention_check(&op, geometry, &reason);
    return status == KVMILL_OK || fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
}

bool onnx_attention_is_complete(const struct spec *spec) {
    const DLTensor *tensor = spec->onnx_attention.tensor;
    return tensor[KVMILL_ATTENTION_Q].shape && tensor[KVMILL_ATTENTION_K].shape &&
           tensor[KVMILL_ATTENTION_V].shape &&
           (!is_onnx_attention_step(spec) || tensor[KVMILL_ATTENTION_PAST_KEY].shape);
}

static bool check_onnx_attention(const struct spec *spec, struct error *error) {
    struct kvmill_attention_geometry geometry;
    return !onnx_attention_is_complete(spec) || onnx_attention_geometry(spec, &geometry, error);
}

/* ---- Contents of the spec ---- */

static void *onnx_attention_part(struct spec *spec, int number) {
    struct onnx_attention_spec *onnx = &spec->onnx_attention;
    void *const parts[OP_PARTS] = {&onnx->op, onnx->types, &onnx->step};
    return parts[number];
}

static DLTensor *tensor(struct spec *spec, int index) {
    return &spec->onnx_attention.tensor[index];
}

/* In C, 0 is the default; in a file, 0 is an explicit value. */
static bool check_scale(const struct json_place *place, const kvmill_attention *op,
                        struct error *error) {
    struct json_place member = json_member(place, "scale");
    return member.value == NULL || op->scale != 0 ||
           json_fail(error, &member, "is 0; accepted: more than 0");
}

/* Sets missing types: V has Q's type, and so has a mask if its shape is given.  Otherwise the
   mask's type comes with the run. */
static void complete_types(struct onnx_attention_spec *onnx) {
    DLDataType *types = onnx->types;
    if (types[V_TYPE].bits == 0)
        types[V_TYPE] = types[Q_TYPE];
    if (types[MASK_TYPE].bits == 0 && onnx->tensor[KVMILL_ATTENTION_ATTN_MASK].shape != NULL)
        types[MASK_TYPE] = types[Q_TYPE];
}

/* Gives the tensors the types that the description names. */
static void set_types(struct spec *spec) {
    struct onnx_attention_spec *onnx = &spec->onnx_attention;
    for (int i = 0; i < spec->op->tensor_count; i++) {
        const struct op_tensor *described = &spec->op->tensors[i];
        onnx->tensor[described->index].dtype =
            kvmill_op_type(spec->op, &onnx->op, onnx->types, described);
    }
}

static bool complete_onnx_attention(const struct json_place *place, struct spec *spec,
                                    struct error *error) {
    complete_types(&spec->onnx_attention);
    set_types(spec);
    return check_scale(place, &spec->onnx_attention.op, error) && check_onnx_attention(spec, error);
}

static void free_shapes(struct spec *spec) {
    for (int i = 0; i < ALL_TENSORS; i++)
        free(spec->onnx_attention.tensor[i].shape);
}

const struct spec_family onnx_attention_specs = {
    .part = onnx_attention_part,
    .tensor = tensor,
    .complete = complete_onnx_attention,
    .free = free_shapes,
    .check = check_onnx_attention,
    .specialises = true,
};
