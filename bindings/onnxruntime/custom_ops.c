/* Custom ops of the domain "kvmill", and of PMX's domains: register_custom_ops_library.

   SPDX-License-Identifier: Apache-2.0 */
#include "custom_ops.h"

#include <pthread.h>
#include <stdlib.h>

#include "cache_step.h"
#include "group_query.h"
#include "infer.h"

/* ---- An op ---- */

/* A custom op.  During shape inference the runtime does not say how many outputs a node has, and it
   mistakes types of absent outputs for its own memory.  So each number of outputs has its own op,
   whose last output is required. */
struct custom_op {
    struct ort_custom_op base;
    const char *name;
    const struct node_op *op;
    size_t outputs;
    unsigned required_outputs; /* a bit for each output */
    bool claimed;              /* by the provider: nodes that it leaves have no other kernel */
    unsigned type;             /* the runtime's number of the outputs' type; 0: any type */
};

static const struct custom_op *custom_of(const struct ort_custom_op *op) {
    return (const struct custom_op *)(const void *)op;
}

static const char *get_name(const struct ort_custom_op *op) {
    return custom_of(op)->name;
}

/* The CPU's provider. */
static const char *get_provider(const struct ort_custom_op *op) {
    (void)op;
    return NULL;
}

/* Caches in blocks are uint8, regardless of the op's type. */
static unsigned get_output_type(const struct ort_custom_op *op, size_t index) {
    const struct custom_op *custom = custom_of(op);
    bool blocks = node_op_cache_of(custom->op, custom->op->outputs.tensor[index]) >= 0;
    return blocks ? value_type_number((DLDataType){kDLUInt, 8, 1}) : custom->type;
}

/* Any type, because kvmill checks types at run time; but an input that determines the type of an
   output has that output's type. */
static unsigned get_input_type(const struct ort_custom_op *op, size_t index) {
    const struct custom_op *custom = custom_of(op);
    for (size_t i = 0; i < custom->outputs; i++)
        if (infer_typed_as(custom->op, custom->op->outputs.tensor[i]) ==
            custom->op->inputs.tensor[index])
            return get_output_type(op, i);
    return 0;
}

static size_t count_inputs(const struct ort_custom_op *op) {
    return (size_t)custom_of(op)->op->inputs.count;
}

static size_t count_outputs(const struct ort_custom_op *op) {
    return custom_of(op)->outputs;
}

/* All ops of PMX have at least three inputs.  No more are required, because a node in the domain of
   dynamic batching may be the static op, which has fewer. */
static unsigned get_input_kind(const struct ort_custom_op *op, size_t index) {
    const struct node_op *node = custom_of(op)->op;
    if (pmx_bit(node) != 0)
        return index < 3 ? ORT_REQUIRED : ORT_OPTIONAL;
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

/* Whether an input or output has a name: absent ones have an empty name. */
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
    OrtStatus *status = runtime_is_old ? NULL : ort->KernelInfo_GetConfigEntries(info, &entries);
    return status != NULL ? status : settings_read(settings, NULL, entries);
}

static OrtStatus *find_op(const struct custom_op *custom, const OrtKernelInfo *info,
                          const struct node_op **op) {
    size_t inputs = 0;
    *op = custom->op;
    OrtStatus *status = ort->KernelInfo_GetInputCount(info, &inputs);
    if (status == NULL && custom->claimed)
        return runtime_fail(ORT_IS_INVALID_ARGUMENT,
                            "the provider has left a %s node; accepted: what the log's line "
                            "\"leaves node\" says",
                            custom->name);
    if (status == NULL && pmx_bit(custom->op) != 0)
        *op = pmx_op_with(custom->op, inputs);
    return status;
}

static OrtStatus *create(const struct ort_custom_op *custom, const struct ort_api *api,
                         const OrtKernelInfo *info, void **kernel) {
    const struct attribute_source source = attributes_of_kernel(info);
    const struct node_op *op;
    struct attributes attributes;
    struct settings settings;
    (void)api;
    OrtStatus *status = find_op(custom_of(custom), info, &op);
    if (status == NULL)
        status = read_settings(info, &settings);
    if (status == NULL)
        status = attributes_read(&attributes, &source, 25, pmx_bit(op));
    if (status != NULL)
        return status;
    struct node *node = node_open(op, &attributes, &settings);
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

static OrtStatus *infer(const struct ort_custom_op *custom, OrtShapeInferContext *context) {
    const struct node_op *op = custom_of(custom)->op;
    size_t inputs = 0;
    OrtStatus *status = ort->ShapeInferContext_GetInputCount(context, &inputs);
    if (pmx_bit(op) != 0)
        op = pmx_op_with(op, inputs);
    return status != NULL ? status : infer_outputs(op, custom_of(custom)->outputs, context);
}

/* ---- The ops ---- */

#define BASE                                                                                       \
    {                                                                                              \
        .version = ORT_VERSION, .GetName = get_name, .GetExecutionProviderType = get_provider,     \
        .GetInputType = get_input_type, .GetInputTypeCount = count_inputs,                         \
        .GetOutputType = get_output_type, .GetOutputTypeCount = count_outputs,                     \
        .KernelDestroy = destroy, .GetInputCharacteristic = get_input_kind,                        \
        .GetOutputCharacteristic = get_output_kind, .GetInputMemoryType = get_memory,              \
        .CreateKernelV2 = create, .KernelComputeV2 = compute, .InferOutputShapeFn = infer,         \
        .GetStartVersion = first_version, .GetEndVersion = first_version,                          \
    }

static const struct custom_op kvmill_ops[] = {
    {BASE, "TensorScatter", &tensor_scatter_op, 1, 1, false, 0},
    {BASE, "Attention", &attention_op, 1, 1, false, 0},
    {BASE, "AttentionPresent", &attention_op, 3, 1 << 0 | 1 << 2, false, 0},
    {BASE, "AttentionScores", &attention_op, 4, 1 << 0 | 1 << 3, false, 0},
    {BASE, "TensorScatterAttention", &step_op, 3, 1 << 0 | 1 << 1 | 1 << 2, false, 0},
    {BASE, "CacheStep", &cache_step_op, 3, 1 << 0 | 1 << 1 | 1 << 2, false, 0},
    {BASE, "GroupQueryAttention", &cache_group_query_op, 3, 1 << 0 | 1 << 1 | 1 << 2, false, 0},
};
enum { KVMILL_OPS = sizeof kvmill_ops / sizeof *kvmill_ops };

static struct custom_op pmx_custom_op(int number, bool claimed) {
    const struct node_op *op = &pmx_ops[number];
    size_t outputs = (size_t)op->outputs.count;
    return (struct custom_op){BASE, op->name, op, outputs, (1u << outputs) - 1, claimed, 0};
}

/* ---- Types ---- */

/* Old runtimes derive the types of outputs from those of inputs, so each type is a separate op
   there. */
static bool has_type(const struct custom_op *custom, unsigned type) {
    const DLDataType known = value_type(type);
    if (!runtime_is_old)
        return type == 0;
    if (custom->op == &tensor_scatter_op) /* old runtimes have no custom ops with complex numbers */
        return known.bits != 0 && known.code != kDLComplex;
    return known.code == kDLBfloat || (known.code == kDLFloat && known.bits != 0);
}

/* ---- Domains, made once ---- */

enum { MOST_TYPES = 23 }; /* types of old runtimes */

struct domains {
    struct custom_op ops[(KVMILL_OPS + PMX_DOMAINS * PMX_STATIC_OPS) * MOST_TYPES];
    size_t count;
    OrtCustomOpDomain *pmx[PMX_DOMAINS], *kvmill;
};

static void add_op(struct domains *domains, OrtCustomOpDomain *domain,
                   const struct custom_op *custom, OrtStatus **status) {
    for (unsigned type = 0; type < MOST_TYPES; type++) {
        struct custom_op *added = &domains->ops[domains->count];
        if (*status != NULL || !has_type(custom, type))
            continue;
        *added = *custom;
        added->type = type;
        if (runtime_is_old) {
            added->base.version = ORT_LEAST;
            added->base.InferOutputShapeFn = NULL; /* it crashes if an optional input is missing */
        }
        domains->count++;
        *status = ort->CustomOpDomain_Add(domain, (const OrtCustomOp *)(const void *)&added->base);
    }
}

static void add_pmx(struct domains *domains, int number, bool claimed, OrtStatus **status) {
    const struct pmx_domain *domain = &pmx_domains[number];
    *status = ort->CreateCustomOpDomain(domain->name, &domains->pmx[number]);
    for (int i = 0; *status == NULL && i < PMX_STATIC_OPS; i++) {
        const struct custom_op op =
            pmx_custom_op(i + (domain->dynamic ? PMX_STATIC_OPS : 0), claimed);
        add_op(domains, domains->pmx[number], &op, status);
    }
}

/* The provider takes standard ops in ONNX's own domain, so it only needs those that ONNX does not
   have. */
static void add_own(struct domains *domains, int number, bool claimed, OrtStatus **status) {
    struct custom_op op = kvmill_ops[number];
    op.claimed = claimed;
    if (!claimed || op.op->only_here)
        add_op(domains, domains->kvmill, &op, status);
}

static struct domains *new_domains(bool claimed, OrtStatus **status) {
    struct domains *domains = calloc(1, sizeof *domains);
    if (domains == NULL)
        *status = runtime_fail(ORT_IS_FAILED, "out of memory for custom ops");
    for (int i = 0; *status == NULL && i < PMX_DOMAINS; i++)
        add_pmx(domains, i, claimed, status);
    if (*status == NULL)
        *status = ort->CreateCustomOpDomain("kvmill", &domains->kvmill);
    for (int i = 0; *status == NULL && i < KVMILL_OPS; i++)
        add_own(domains, i, claimed, status);
    return domains;
}

/* Sessions keep addresses of domains, so even incomplete ones are not freed. */
static const struct domains *find_domains(bool claimed, OrtStatus **status) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static struct domains *made[2];
    pthread_mutex_lock(&mutex);
    if (made[claimed] == NULL) {
        struct domains *domains = new_domains(claimed, status);
        made[claimed] = *status == NULL ? domains : NULL;
    }
    const struct domains *found = made[claimed];
    pthread_mutex_unlock(&mutex);
    return found;
}

OrtStatus *custom_ops_claimed(OrtCustomOpDomain **domains, size_t count) {
    OrtStatus *status = NULL;
    const struct domains *found = find_domains(true, &status);
    for (size_t i = 0; found != NULL && i < count && i < CLAIMED_DOMAINS; i++)
        domains[i] = i < PMX_DOMAINS ? found->pmx[i] : found->kvmill;
    return status;
}

/* ---- What the runtime looks for ---- */

__attribute__((visibility("default"))) OrtStatus *RegisterCustomOps(
    OrtSessionOptions *options, const struct ort_api_base *base);

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const struct ort_api_base *base) {
    OrtStatus *status = runtime_open(base, ORT_LEAST);
    const struct domains *domains = status == NULL ? find_domains(false, &status) : NULL;
    if (status == NULL)
        status = ort->AddCustomOpDomain(options, domains->kvmill);
    for (int i = 0; status == NULL && i < PMX_DOMAINS; i++)
        status = ort->AddCustomOpDomain(options, domains->pmx[i]);
    return status;
}
