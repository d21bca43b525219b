/* The execution provider: register_execution_provider_library.  In a session, the provider takes
   nodes of the model as they are, one by one or the three nodes of a step together, and leaves the
   others.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "custom_ops.h"
#include "making.h"

static const char *const provider_name = "KvmillExecutionProvider";

/* The provider of a session.  The runtime has the address of `base`. */
struct provider {
    struct ort_ep base;
    struct settings settings;
    struct making making;
    const OrtLogger *logger;
};

/* A compiled node. */
struct compiled {
    struct ort_node_compute_info base;
    struct node *node;
};

static const struct ort_ep_api *provider_api;

/* ---- Taking nodes ---- */

/* The nodes of a graph, and whether each is taken. */
struct claim {
    const struct provider *provider;
    OrtEpGraphSupportInfo *info;
    const OrtNode **nodes;
    bool *taken;
    size_t count;
};

static void set_taken(const struct claim *claim, const struct problem *problem) {
    for (size_t i = 0; i < claim->count; i++)
        for (size_t j = 0; j < problem->part_count; j++)
            claim->taken[i] = claim->taken[i] || claim->nodes[i] == problem->parts[j];
}

static OrtStatus *take(const struct claim *claim, const struct problem *problem, struct node *node,
                       const struct reason *remark) {
    const OrtNode *first = problem->parts[0];
    runtime_log(claim->provider->logger, ORT_LOG_INFO, "takes node \"%.80s\" (%s) as %s%s",
                problem_node_name(first), problem_node_op(first), problem->op->name, remark->text);
    node_close(node);
    set_taken(claim, problem);
    return provider_api->EpGraphSupportInfo_AddNodesToFuse(claim->info, problem->parts,
                                                           problem->part_count, NULL);
}

/* Logs a warning if the runtime does not have the op, because the session then fails. */
static OrtStatus *leave(const struct claim *claim, const OrtNode *node,
                        const struct reason *reason) {
    bool fatal = problem_op_of(node)->only_here;
    runtime_log(claim->provider->logger, fatal ? ORT_LOG_WARNING : ORT_LOG_INFO,
                "%s node \"%.80s\" (%s): %s",
                fatal ? "leaves" : "left to ONNX Runtime:", problem_node_name(node),
                problem_node_op(node), reason->text);
    return NULL;
}

/* Steps are considered first, so that their nodes are not taken one by one. */
static OrtStatus *consider_step(const struct claim *claim, const OrtNode *node) {
    struct problem problem;
    struct reason reason;
    if (problem_op_of(node) != &attention_op ||
        !problem_of_step(node, claim->nodes, claim->count, &problem))
        return NULL;
    struct node *made = problem_open(&problem, &claim->provider->settings, NULL, NULL, &reason);
    return made != NULL ? take(claim, &problem, made, &reason) : NULL;
}

static OrtStatus *consider_node(const struct claim *claim, const OrtNode *node) {
    struct problem problem;
    struct reason reason;
    struct node *made = NULL;
    if (problem_op_of(node) == NULL)
        return NULL;
    if (problem_of_node(node, &problem, &reason))
        made = problem_open(&problem, &claim->provider->settings, NULL, NULL, &reason);
    return made != NULL ? take(claim, &problem, made, &reason) : leave(claim, node, &reason);
}

static OrtStatus *consider(const struct claim *claim) {
    OrtStatus *status = NULL;
    for (size_t i = 0; status == NULL && i < claim->count; i++)
        status = consider_step(claim, claim->nodes[i]);
    for (size_t i = 0; status == NULL && i < claim->count; i++)
        if (!claim->taken[i])
            status = consider_node(claim, claim->nodes[i]);
    return status;
}

/* ---- A graph ---- */

/* Gets the nodes of a graph.  The caller frees them, also after a failure. */
static OrtStatus *nodes_of(const OrtGraph *graph, const OrtNode ***nodes, size_t *count) {
    OrtStatus *status = ort->Graph_GetNumNodes(graph, count);
    *nodes = NULL;
    if (status != NULL)
        return status;
    *nodes = calloc(*count + 1, sizeof **nodes);
    if (*nodes == NULL)
        return runtime_fail(ORT_IS_FAILED, "out of memory for a graph");
    return ort->Graph_GetNodes(graph, *nodes, *count);
}

static OrtStatus *get_capability(OrtEp *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *info) {
    struct provider *provider = (struct provider *)(void *)ep;
    struct claim claim = {.provider = provider, .info = info};
    OrtStatus *status = nodes_of(graph, &claim.nodes, &claim.count);
    if (status == NULL && provider->making.allowed)
        making_kernels(&provider->making, &provider->settings, provider->logger, graph, claim.nodes,
                       claim.count);
    claim.taken = status == NULL ? calloc(claim.count + 1, sizeof *claim.taken) : NULL;
    if (status == NULL)
        status = claim.taken != NULL ? consider(&claim)
                                     : runtime_fail(ORT_IS_FAILED, "out of memory for a graph");
    free(claim.nodes);
    free(claim.taken);
    return status;
}

/* ---- Running ---- */

static OrtStatus *create_state(OrtNodeComputeInfo *info, OrtNodeComputeContext *context,
                               void **state) {
    (void)context;
    *state = ((struct compiled *)(void *)info)->node;
    return NULL;
}

static OrtStatus *compute(OrtNodeComputeInfo *info, void *state, OrtKernelContext *context) {
    (void)info;
    return node_compute(state, context);
}

static void release_state(OrtNodeComputeInfo *info, void *state) {
    (void)info, (void)state;
}

static struct compiled *compiled_of(struct node *node) {
    struct compiled *compiled = calloc(1, sizeof *compiled);
    if (compiled == NULL)
        return NULL;
    compiled->base =
        (struct ort_node_compute_info){ORT_VERSION, create_state, compute, release_state};
    compiled->node = node;
    return compiled;
}

/* ---- Compiling ---- */

/* Reads a graph that was taken: of one node, or of a step. */
static bool problem_of_graph(const OrtNode *const *nodes, size_t count, struct problem *problem,
                             struct reason *reason) {
    if (count == 1)
        return problem_of_node(nodes[0], problem, reason);
    for (size_t i = 0; i < count; i++)
        if (problem_op_of(nodes[i]) == &attention_op)
            return problem_of_step(nodes[i], nodes, count, problem);
    return false;
}

static struct node *compile_nodes(const struct provider *provider, const OrtNode *const *nodes,
                                  size_t count, const OrtNode *fused, struct reason *reason) {
    struct values inputs = problem_inputs_of(fused), outputs = problem_outputs_of(fused);
    struct problem problem;
    struct node *node = NULL;
    if (problem_of_graph(nodes, count, &problem, reason))
        node = problem_open(&problem, &provider->settings, &inputs, &outputs, reason);
    free(inputs.items);
    free(outputs.items);
    return node;
}

static OrtStatus *compile_one(const struct provider *provider, const OrtGraph *graph,
                              const OrtNode *fused, OrtNodeComputeInfo **info) {
    struct reason reason = {.text = "its nodes do not form a step"};
    const OrtNode **nodes;
    size_t count = 0;
    struct node *node = NULL;
    OrtStatus *status = nodes_of(graph, &nodes, &count);
    if (status == NULL)
        node = compile_nodes(provider, nodes, count, fused, &reason);
    free(nodes);
    if (status == NULL && node == NULL)
        return runtime_fail(ORT_IS_FAILED, "node \"%.80s\": %s", problem_node_name(fused),
                            reason.text);
    *info = (OrtNodeComputeInfo *)(void *)(node != NULL ? compiled_of(node) : NULL);
    if (status == NULL && *info == NULL) {
        node_close(node);
        return runtime_fail(ORT_IS_FAILED, "out of memory for a node");
    }
    return status;
}

static void release_infos(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count) {
    (void)ep;
    for (size_t i = 0; i < count; i++) {
        struct compiled *compiled = (struct compiled *)(void *)infos[i];
        if (compiled != NULL)
            node_close(compiled->node);
        free(compiled);
    }
}

static OrtStatus *compile(OrtEp *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                          OrtNodeComputeInfo **infos, OrtNode **context_nodes) {
    OrtStatus *status = NULL;
    size_t done = 0;
    (void)context_nodes;
    while (status == NULL && done < count) {
        status = compile_one((const struct provider *)(const void *)ep, graphs[done], fused[done],
                             &infos[done]);
        done += status == NULL;
    }
    if (status != NULL)
        release_infos(ep, infos, done);
    return status;
}

/* ---- The factory ---- */

static const char *get_name(const OrtEp *ep) {
    (void)ep;
    return provider_name;
}

static const char *get_factory_name(const OrtEpFactory *factory) {
    (void)factory;
    return provider_name;
}

static const char *get_vendor(const OrtEpFactory *factory) {
    (void)factory;
    return "kvmill";
}

static uint32_t get_vendor_id(const OrtEpFactory *factory) {
    (void)factory;
    return 0;
}

static const char *get_version(const OrtEpFactory *factory) {
    (void)factory;
    return kvmill_version();
}

static OrtStatus *get_devices(OrtEpFactory *factory, const OrtHardwareDevice *const *devices,
                              size_t count, OrtEpDevice **found, size_t most, size_t *found_count) {
    OrtStatus *status = NULL;
    *found_count = 0;
    for (size_t i = 0; status == NULL && i < count && *found_count < most; i++) {
        if (ort->HardwareDevice_Type(devices[i]) != ORT_DEVICE_CPU)
            continue;
        status =
            provider_api->CreateEpDevice(factory, devices[i], NULL, NULL, &found[*found_count]);
        *found_count += status == NULL;
    }
    return status;
}

static OrtStatus *read_settings(const OrtSessionOptions *options, struct provider *provider) {
    OrtKeyValuePairs *entries = NULL;
    OrtStatus *status = ort->GetSessionOptionsConfigEntries(options, &entries);
    return status != NULL ? status : settings_read(&provider->settings, &provider->making, entries);
}

static OrtStatus *create(OrtEpFactory *factory, const OrtHardwareDevice *const *devices,
                         const OrtKeyValuePairs *const *metadata, size_t count,
                         const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **ep) {
    struct provider *provider = calloc(1, sizeof *provider);
    (void)factory, (void)devices, (void)metadata, (void)count;
    if (provider == NULL)
        return runtime_fail(ORT_IS_FAILED, "out of memory for a provider");
    OrtStatus *status = read_settings(options, provider);
    if (status != NULL) {
        free(provider);
        return status;
    }
    provider->logger = logger;
    provider->base = (struct ort_ep){.ort_version_supported = ORT_VERSION,
                                     .GetName = get_name,
                                     .GetCapability = get_capability,
                                     .Compile = compile,
                                     .ReleaseNodeComputeInfos = release_infos};
    *ep = (OrtEp *)(void *)provider;
    return NULL;
}

static void release(OrtEpFactory *factory, OrtEp *ep) {
    (void)factory;
    free(ep);
}

/* Nothing to release: memory is the runtime's own. */
static void release_allocator(OrtEpFactory *factory, OrtAllocator *allocator) {
    (void)factory, (void)allocator;
}

static OrtStatus *create_transfer(OrtEpFactory *factory, OrtDataTransferImpl **out) {
    (void)factory;
    *out = NULL;
    return NULL;
}

static bool is_stream_aware(const OrtEpFactory *factory) {
    (void)factory;
    return false;
}

/* The runtime only loads models whose ops it knows, so it needs PMX's and kvmill's domains. */
static OrtStatus *count_domains(OrtEpFactory *factory, size_t *count) {
    (void)factory;
    *count = CLAIMED_DOMAINS;
    return NULL;
}

static OrtStatus *get_domains(OrtEpFactory *factory, OrtCustomOpDomain **domains, size_t count) {
    (void)factory;
    return custom_ops_claimed(domains, count);
}

static const struct ort_ep_factory factory = {
    .ort_version_supported = ORT_VERSION,
    .GetName = get_factory_name,
    .GetVendor = get_vendor,
    .GetSupportedDevices = get_devices,
    .CreateEp = create,
    .ReleaseEp = release,
    .GetVendorId = get_vendor_id,
    .GetVersion = get_version,
    .ReleaseAllocator = release_allocator,
    .CreateDataTransfer = create_transfer,
    .IsStreamAware = is_stream_aware,
    .GetNumCustomOpDomains = count_domains,
    .GetCustomOpDomains = get_domains,
};

/* ---- What the runtime looks for ---- */

__attribute__((visibility("default"))) OrtStatus *CreateEpFactories(const char *registered,
                                                                    const struct ort_api_base *base,
                                                                    const OrtLogger *logger,
                                                                    OrtEpFactory **factories,
                                                                    size_t most, size_t *count);

OrtStatus *CreateEpFactories(const char *registered, const struct ort_api_base *base,
                             const OrtLogger *logger, OrtEpFactory **factories, size_t most,
                             size_t *count) {
    (void)registered, (void)logger;
    OrtStatus *status = runtime_open(base, ORT_VERSION);
    if (status != NULL)
        return status;
    provider_api = (const struct ort_ep_api *)(const void *)ort->GetEpApi();
    if (provider_api == NULL || most == 0)
        return runtime_fail(ORT_IS_INVALID_ARGUMENT,
                            "no room for a provider; accepted: a runtime that takes one");
    factories[0] = (OrtEpFactory *)(uintptr_t)&factory;
    *count = 1;
    return NULL;
}

__attribute__((visibility("default"))) OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);

OrtStatus *ReleaseEpFactory(OrtEpFactory *made) {
    (void)made;
    return NULL;
}
