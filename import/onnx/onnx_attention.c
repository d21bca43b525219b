/* Nodes of ONNX's TensorScatter and Attention.

   SPDX-License-Identifier: Apache-2.0 */
#include "onnx_ops.h"

/* ---- TensorScatter ---- */

bool onnx_add_tensor_scatter(const struct onnx_call *call, struct spec_list *list,
                             struct error *error) {
    const struct onnx_value *past = onnx_input(call, 0);
    struct onnx_value *present = onnx_output(call, 0);
    return onnx_read_node(call, list, error) &&
           (present == NULL ||
            onnx_learn(call->model, present, past->dtype, past->rank, past->dims, error));
}

/* ---- Attention ---- */

/* Kernels need the numbers and sizes of heads.  Some follow from others, so not all dims of K and V
   must be known. */
bool onnx_knows_heads(const struct onnx_value *value, int input) {
    static const unsigned apart[] = {1 << 1 | 1 << 3, 1 << 1, 1 << 3},
                          packed[] = {1 << 2, 0, 1 << 2};
    bool known = true;
    for (int d = 0; input < 3 && (value->rank == 3 || value->rank == 4) && d < value->rank; d++)
        if ((value->rank == 4 ? apart : packed)[input] >> d & 1)
            known = known && value->dims[d] != KVMILL_DYNAMIC;
    return known;
}

static bool learn_attention(const struct onnx_call *call, const struct spec *spec,
                            struct error *error) {
    struct kvmill_attention_geometry geometry;
    if (!onnx_attention_geometry(spec, &geometry, error))
        return false;
    for (int i = 0; i < call->node->output_count; i++) {
        int64_t dims[4];
        struct onnx_value *value = onnx_output(call, i);
        int tensor = KVMILL_ATTENTION_Y + i, rank = kvmill_attention_shape(&geometry, tensor, dims);
        DLDataType type = spec->onnx_attention.tensor[tensor].dtype;
        if (value != NULL && !onnx_learn(call->model, value, type, rank, dims, error))
            return false;
    }
    return true;
}

bool onnx_add_attention(const struct onnx_call *call, struct spec_list *list, struct error *error) {
    return onnx_read_node(call, list, error) &&
           learn_attention(call, &list->items[list->count - 1], error);
}
