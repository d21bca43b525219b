/* Custom ops of the domain "kvmill": register_custom_ops_library.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "infer.h"

/* ---- The ops ---- */

/* One of them.  The runtime does not tell an inference how many outputs a node has, and takes types
   of others for its own memory: so each number of them is an op, whose last output must be there.
 */
struct custom_op {
    struct ort_custom_op base;
    const char *name;
    const struct node_op *op;
    size_t outputs;
    unsigned required_outputs; /* a bit each */
};

static const struct custom_op *custom_of(const struct ort_custom_op *op) {
    return (const struct custom_op *)(const void *)op;
}

static const char *get_name(const struct ort_custom_op *op) {
    return custom_of(op)->name;
}

/* The processor's. */
static const char *get_provider(const struct ort_custom_op *op) {
    (void)op;
    return NULL;
}

/* Any: kvmill says at run time what it takes. */
static unsigned get_type(const struct ort_custom_op *op, size_t index) {
    (void)op, (void)index;
    return 0;
}

static size_t count_inputs(const struct ort_custom_op *op) {
    return (size_t)custom_of(op)->op->inputs.count;
}

static size_t count_outputs(const struct ort_custom_op *op) {
    return custom_of(op)->outputs;
}

static unsigned get_input_kind(const struct ort_custom_op *op, size_t index) {
    const struct node_op *node = custom_of(op)->op;
    return node->required >> node->inputs.tensor[index] & 1 ? ORT_REQUIRED : ORT_OPTIONAL;
}

static unsigned get_output_kind(const struct ort_custom_op *op, size_t index) {
    return custom_of(op)->required_outputs >> index & 1 ? ORT_REQUIRED : ORT_OPTIONAL;
}

static int get_memory(const struct ort_custom_op *op, size_t index) {
    (void)op, (void)index;
    return 0;
}

static int first_version(const struct ort_custom_op *op) {
    (void)op;
    return 1;
}

/* ---- Kernels ---- */

/* Whether an input or output of a node has a name: none has an empty one. */
typedef OrtStatus *(*get_side_name)(const OrtKernelInfo *info, size_t index, char *out,
                                    size_t *size);

static bool has_name(get_side_name get, const OrtKernelInfo *info, size_t index) {
    size_t size = 0;
    return runtime_succeeded(get(info, index, NULL, &size)) && size > 1;
}

static OrtStatus *set_places(const OrtKernelInfo *info, struct node *node) {
    size_t inputs = 0, outputs = 0;
    OrtStatus *status = ort->KernelInfo_GetInputCount(info, &inputs);
    if (status == NULL)
        status = ort->KernelInfo_GetOutputCount(info, &outputs);
    for (size_t i = 0; status == NULL && i < inputs; i++)
        if (has_name(ort->KernelInfo_GetInputName, info, i))
            node->place[node->op->inputs.tensor[i]] = (int)i;
    for (size_t i = 0; status == NULL && i < outputs; i++)
        if (has_name(ort->KernelInfo_GetOutputName, info, i))
            node->place[node->op->outputs.tensor[i]] = (int)i;
    return status;
}

static OrtStatus *read_settings(const OrtKernelInfo *info, struct settings *settings) {
    OrtKeyValuePairs *entries = NULL;
    OrtStatus *status = ort->KernelInfo_GetConfigEntries(info, &entries);
    return status != NULL ? status : settings_take(settings, entries);
}

static OrtStatus *create(const struct ort_custom_op *op, const struct ort_api *api,
                         const OrtKernelInfo *info, void **kernel) {
    const struct attribute_source source = attributes_of_kernel(info);
    struct attributes attributes;
    struct settings settings;
    (void)api;
    OrtStatus *status = read_settings(info, &settings);
    if (status == NULL)
        status = attributes_read(&attributes, &source, 25);
    if (status != NULL)
        return status;
    struct node *node = node_open(custom_of(op)->op, &attributes, &settings);
    if (node == NULL)
        return runtime_fail(ORT_IS_FAILED, "out of memory for a node");
    status = set_places(info, node);
    if (status == NULL)
        *kernel = node;
    else
        node_close(node);
    return status;
}

static OrtStatus *compute(void *kernel, OrtKernelContext *context) {
    return node_compute(kernel, context);
}

static void destroy(void *kernel) {
    node_close(kernel);
}

static OrtStatus *infer(const struct ort_custom_op *op, OrtShapeInferContext *context) {
    return infer_outputs(custom_of(op)->op, custom_of(op)->outputs, context);
}

/* ---- The library ---- */

#define BASE                                                                                       \
    {                                                                                              \
        .version = ORT_VERSION, .GetName = get_name, .GetExecutionProviderType = get_provider,     \
        .GetInputType = get_type, .GetInputTypeCount = count_inputs, .GetOutputType = get_type,    \
        .GetOutputTypeCount = count_outputs, .KernelDestroy = destroy,                             \
        .GetInputCharacteristic = get_input_kind, .GetOutputCharacteristic = get_output_kind,      \
        .GetInputMemoryType = get_memory, .CreateKernelV2 = create, .KernelComputeV2 = compute,    \
        .InferOutputShapeFn = infer, .GetStartVersion = first_version,                             \
        .GetEndVersion = first_version,                                                            \
    }

static const struct custom_op ops[] = {
    {BASE, "TensorScatter", &tensor_scatter_op, 1, 1},
    {BASE, "Attention", &attention_op, 1, 1},
    {BASE, "AttentionPresent", &attention_op, 3, 1 << 0 | 1 << 2},
    {BASE, "AttentionScores", &attention_op, 4, 1 << 0 | 1 << 3},
    {BASE, "TensorScatterAttention", &step_op, 3, 1 << 0 | 1 << 1 | 1 << 2},
};

static OrtStatus *add_ops(OrtCustomOpDomain *domain) {
    OrtStatus *status = NULL;
    for (size_t i = 0; status == NULL && i < sizeof ops / sizeof *ops; i++)
        status = ort->CustomOpDomain_Add(domain, (const OrtCustomOp *)(const void *)&ops[i].base);
    return status;
}

/* What the runtime looks for. */
__attribute__((visibility("default"))) OrtStatus *RegisterCustomOps(
    OrtSessionOptions *options, const struct ort_api_base *base);

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const struct ort_api_base *base) {
    OrtCustomOpDomain *domain = NULL;
    OrtStatus *status = runtime_open(base);
    if (status == NULL)
        status = ort->CreateCustomOpDomain("kvmill", &domain);
    if (status == NULL)
        status = add_ops(domain);
    if (status == NULL)
        status = ort->AddCustomOpDomain(options, domain);
    return status;
}
