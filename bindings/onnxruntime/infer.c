/* SPDX-License-Identifier: Apache-2.0 */
#include "infer.h"

#include <stdatomic.h>
#include <stdio.h>

#include "group_query.h"
#include "ort_values.h"
#include "pmx.h"

/* ---- Inputs ---- */

OrtStatus *infer_known(const OrtTensorTypeAndShapeInfo *info, struct known_tensor *known) {
    unsigned type = 0;
    size_t rank = 0;
    *known = (struct known_tensor){.rank = -1};
    OrtStatus *status = ort->GetTensorElementType(info, &type);
    if (status == NULL)
        status = ort->GetDimensionsCount(info, &rank);
    known->type = value_type(type);
    if (status != NULL || rank > MOST_RANK || !ort->TensorTypeAndShape_HasShape(info))
        return status;
    known->rank = (int32_t)rank;
    return ort->GetDimensions(info, known->dims, rank);
}

/* What is known during an inference. */
struct inference {
    const struct node_op *op;
    OrtShapeInferContext *context;
    struct node node; /* attributes only */
    struct known_tensor input[MOST_TENSORS];
};

/* Reads the types of inputs; absent ones have none. */
static void read_inputs(struct inference *inference) {
    size_t count = 0;
    if (!runtime_succeeded(ort->ShapeInferContext_GetInputCount(inference->context, &count)))
        count = 0;
    for (int i = 0; i < MOST_TENSORS; i++)
        inference->input[i] = (struct known_tensor){.rank = -1};
    for (size_t i = 0; i < count && (int)i < inference->op->inputs.count; i++) {
        OrtTensorTypeAndShapeInfo *info = NULL;
        struct known_tensor *known = &inference->input[inference->op->inputs.tensor[i]];
        if (runtime_succeeded(
                ort->ShapeInferContext_GetInputTypeShape(inference->context, i, &info)) &&
            info != NULL && !runtime_succeeded(infer_known(info, known)))
            known->rank = -1;
    }
}

static bool read_attribute(const void *node, const char *name, unsigned kind, void *value,
                           size_t size) {
    const OrtOpAttr *attribute = NULL;
    size_t used = 0;
    return kind != ORT_ATTRIBUTE_STRING &&
           runtime_succeeded(ort->ShapeInferContext_GetAttribute(node, name, &attribute)) &&
           runtime_succeeded(ort->ReadOpAttr(attribute, kind, value, size, &used));
}

/* ---- Shapes ---- */

static bool has_group_query_shapes(const struct inference *inference) {
    const struct kvmill_group_query *said = &inference->node.attributes.group_query;
    const struct known_tensor *input = inference->input;
    return said->num_heads > 0 && said->kv_num_heads > 0 &&
           input[KVMILL_GROUP_QUERY_QUERY].rank == 3 &&
           input[KVMILL_GROUP_QUERY_PAST_KEY].rank == 4 &&
           input[KVMILL_GROUP_QUERY_PAST_VALUE].rank == 4;
}

/* Whether ranks are those of the op, and numbers of heads are known if needed; plans check the
   rest. */
static bool has_shapes(const struct inference *inference) {
    if (pmx_bit(inference->op) != 0)
        return inference->input[inference->op->inputs.tensor[0]].rank >= 0;
    const kvmill_attention *attention = &inference->node.attributes.attention;
    const struct known_tensor *input = inference->input;
    if (inference->op == &cache_group_query_op)
        return has_group_query_shapes(inference);
    if (inference->op == &tensor_scatter_op)
        return input[KVMILL_TENSOR_SCATTER_PAST_CACHE].rank >= 0;
    int rank = input[KVMILL_ATTENTION_Q].rank;
    bool known =
        rank == 4 || (rank == 3 && attention->q_num_heads > 0 && attention->kv_num_heads > 0);
    for (int i = 0; known && i < inference->op->outputs.tensor[0]; i++)
        if (inference->op->required >> i & 1)
            known = input[i].rank == rank || (input[i].rank == 1 && i > KVMILL_ATTENTION_V);
    bool past = input[KVMILL_ATTENTION_PAST_KEY].type.bits != 0;
    return known && (!past || input[KVMILL_ATTENTION_PAST_KEY].rank >= 3);
}

/* Computes a shape, with `unknown` in place of each unknown dim. */
static int shape_with(const struct inference *inference, int tensor, int64_t unknown,
                      int64_t dims[MOST_RANK]) {
    struct known_tensor known[MOST_TENSORS];
    DLTensor tensors[MOST_TENSORS];
    const DLTensor *given[MOST_TENSORS] = {NULL};
    for (int i = 0; i < inference->op->tensors; i++) {
        known[i] = inference->input[i];
        for (int d = 0; d < known[i].rank; d++)
            known[i].dims[d] = known[i].dims[d] < 0 ? unknown : known[i].dims[d];
        tensors[i] = (DLTensor){.ndim = known[i].rank, .shape = known[i].dims};
        given[i] = known[i].rank >= 0 ? &tensors[i] : NULL;
    }
    return inference->op->shape(&inference->node, given, tensor, dims);
}

enum { NAME = 32 };

/* Unknown dims get new names, because equal names would mean equal dims.  A dim is unknown if it
   changes with the unknown dims of inputs. */
static OrtStatus *set_dims(OrtTensorTypeAndShapeInfo *info, const struct inference *inference,
                           int tensor) {
    static atomic_ulong names;
    int64_t dims[MOST_RANK], others[MOST_RANK];
    char text[MOST_RANK][NAME];
    const char *name[MOST_RANK];
    int rank = shape_with(inference, tensor, (int64_t)1 << 20, dims);
    shape_with(inference, tensor, (int64_t)3 << 20, others);
    for (int d = 0; d < rank; d++) {
        bool known = dims[d] == others[d] && dims[d] != KVMILL_DYNAMIC;
        snprintf(text[d], NAME, "kvmill_%lu", known ? 0 : atomic_fetch_add(&names, 1) + 1);
        name[d] = known ? "" : text[d];
        dims[d] = known ? dims[d] : -1;
    }
    OrtStatus *status = ort->SetDimensions(info, dims, (size_t)rank);
    return status != NULL ? status : ort->SetSymbolicDimensions(info, name, (size_t)rank);
}

/* ---- Outputs ---- */

int infer_typed_as(const struct node_op *op, int tensor) {
    int cache = node_op_cache_of(op, tensor);
    if (cache >= 0)
        return cache;
    bool value = pmx_bit(op) == 0 && tensor == KVMILL_ATTENTION_PRESENT_VALUE;
    return value ? KVMILL_ATTENTION_V : op->inputs.tensor[0];
}

static OrtStatus *set_output(const struct inference *inference, size_t index) {
    int tensor = inference->op->outputs.tensor[index];
    unsigned type = value_type_number(inference->input[infer_typed_as(inference->op, tensor)].type);
    OrtTensorTypeAndShapeInfo *info = NULL;
    if (type == 0 || !has_shapes(inference))
        return NULL; /* then the runtime uses the type of the first input */
    OrtStatus *status = ort->CreateTensorTypeAndShapeInfo(&info);
    if (status == NULL)
        status = ort->SetTensorElementType(info, type);
    if (status == NULL)
        status = set_dims(info, inference, tensor);
    if (status == NULL)
        status = ort->ShapeInferContext_SetOutputTypeShape(inference->context, index, info);
    ort->ReleaseTensorTypeAndShapeInfo(info);
    return status;
}

OrtStatus *infer_outputs(const struct node_op *op, size_t outputs, OrtShapeInferContext *context) {
    struct inference inference = {.op = op, .context = context};
    const struct attribute_source source = {read_attribute, context};
    OrtStatus *status =
        attributes_read(&inference.node.attributes, &source, 25, pmx_bit(inference.op));
    inference.node.op = op;
    read_inputs(&inference);
    for (size_t i = 0; status == NULL && i < outputs; i++)
        status = set_output(&inference, i);
    return status;
}
