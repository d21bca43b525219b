/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include <string.h>

#include "ggml_calls.h"
#include "host.h"
#include "notice.h"

/* Refuses a ggml in which a struct's member is somewhere else. */
static bool is_there(bool is, const char *member) {
    return is ||
           notice_refusal("%s is not where this library looks for it; this library was written "
                          "for ggml's of other versions",
                          member);
}

/* ---- Types ---- */

static bool has_types(void) {
    static const struct {
        enum ggml_type type;
        const char *name;
    } types[] = {{GGML_TYPE_F32, "f32"}, {GGML_TYPE_F16, "f16"}, {GGML_TYPE_Q8_0, "q8_0"},
                 {GGML_TYPE_I32, "i32"}, {GGML_TYPE_I64, "i64"}, {GGML_TYPE_BF16, "bf16"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *name = host.type_name(types[i].type);
        if (name == NULL || strcmp(name, types[i].name) != 0)
            return notice_refusal("type %d of this ggml is %s; accepted: %s", types[i].type,
                                  name ? name : "unknown", types[i].name);
    }
    return true;
}

/* ---- Tensors and nodes ---- */

enum { OBJECT = 32, DIM = 64, ROWS = 4, HEADS = 2 };

/* ggml_tensor_overhead is the size of a tensor and of ggml's own object before it. */
static bool has_size(void) {
    size_t size = ggml.tensor_overhead() - OBJECT;
    return size == sizeof(struct ggml_tensor) ||
           notice_refusal("a tensor of this ggml has %zu bytes; accepted: %zu", size,
                          sizeof(struct ggml_tensor));
}

static bool has_members(const struct ggml_tensor *tensor) {
    const int64_t elements[] = {DIM, ROWS, HEADS, 1};
    const size_t row = DIM * sizeof(float), bytes[] = {sizeof(float), row, row * ROWS};
    return is_there(tensor->type == GGML_TYPE_F32, "a tensor's type") &&
           is_there(memcmp(tensor->ne, elements, sizeof elements) == 0, "a tensor's ne") &&
           is_there(memcmp(tensor->nb, bytes, sizeof bytes) == 0, "a tensor's nb") &&
           is_there((tensor->flags & GGML_TENSOR_FLAG_OUTPUT) != 0, "a tensor's flags") &&
           is_there(tensor->data == ggml.get_data(tensor), "a tensor's data") &&
           is_there(tensor->name == ggml.get_name(tensor), "a tensor's name");
}

static bool has_sources(const struct ggml_tensor *node, struct ggml_tensor *const sources[3]) {
    return is_there(memcmp(node->src, sources, 3 * sizeof *sources) == 0, "a node's src");
}

/* Reads the number of attention's op. */
static bool has_attention(struct ggml_context *context, struct ggml_tensor **node) {
    const float parameters[] = {0.5F, 0, 8};
    struct ggml_tensor *sources[3];
    for (int i = 0; i < 3; i++)
        sources[i] =
            ggml.new_tensor(context, i == 0 ? GGML_TYPE_F32 : GGML_TYPE_F16, DIM, ROWS, HEADS, 1);
    ggml.set_output(sources[0]);
    *node = ggml.flash_attn(context, sources[0], sources[1], sources[2], NULL, parameters[0],
                            parameters[1], parameters[2]);
    host.attend = (*node)->op;
    return has_members(sources[0]) && has_sources(*node, sources) &&
           is_there(memcmp((*node)->op_params, parameters, sizeof parameters) == 0,
                    "a node's op_params");
}

/* Reads the number of the op that stores. */
static void read_store(struct ggml_context *context) {
    struct ggml_tensor *cache = ggml.new_tensor(context, GGML_TYPE_F16, DIM, ROWS, 1, 1);
    struct ggml_tensor *rows = ggml.new_tensor(context, GGML_TYPE_F32, DIM, 1, 1, 1);
    struct ggml_tensor *slots = ggml.new_tensor(context, GGML_TYPE_I64, 1, 1, 1, 1);
    host.store = ggml.set_rows(context, cache, rows, slots)->op;
}

/* Reads the numbers of ops whose nodes need no work.  That of a tensor that no op made is one. */
static bool has_views(struct ggml_context *context) {
    struct ggml_tensor *tensor = ggml.new_tensor(context, GGML_TYPE_F32, DIM, ROWS, 1, 1);
    const struct ggml_tensor *view = ggml.view(context, tensor, DIM, sizeof(float));
    host.views[0] = tensor->op;
    host.views[1] = view->op;
    host.views[2] = ggml.reshape(context, tensor, DIM * ROWS)->op;
    host.views[3] = ggml.permute(context, tensor, 0, 2, 1, 3)->op;
    host.views[4] = ggml.transpose(context, tensor)->op;
    return is_there(view->view_src == tensor && view->view_offs == sizeof(float),
                    "a view's view_src");
}

/* Whether ops have different numbers: what is read in place of them may be the same for all. */
static bool has_ops(void) {
    int ops[HOST_VIEWS + 2] = {host.attend, host.store};
    bool has = true;
    memcpy(ops + 2, host.views, sizeof host.views);
    for (int i = 0; i < HOST_VIEWS + 2; i++)
        for (int j = 0; j < i; j++)
            has &= ops[i] != ops[j];
    return is_there(has, "a node's op");
}

/* Reads whether nodes that must run have a flag. */
static bool has_graphs(struct ggml_context *context, struct ggml_tensor *node) {
    struct ggml_cgraph *graph = ggml.new_graph(context);
    ggml.expand(graph, node);
    host.marks_nodes = (node->flags & GGML_TENSOR_FLAG_COMPUTE) != 0;
    return is_there(host.n_nodes(graph) == 1 && host.node(graph, 0) == node, "a graph's node");
}

static bool has_tensors(void) {
    const struct ggml_init_params params = {
        64 * ggml.tensor_overhead() + ggml.graph_overhead() + 65536, NULL, false};
    struct ggml_tensor *node;
    if (!has_size())
        return false;
    struct ggml_context *context = ggml.init(params);
    if (context == NULL)
        return notice_refusal("no memory");
    read_store(context);
    bool has = has_attention(context, &node) && has_views(context) && has_ops() &&
               has_graphs(context, node);
    ggml.free(context);
    return has;
}

/* ---- Backends ---- */

static bool has_version(ggml_backend_reg_t reg) {
    host.api_version = reg->api_version;
    return (reg->api_version >= GGML_LEAST_API && reg->api_version <= GGML_MOST_API) ||
           notice_refusal("version %d of ggml's interface for backends; accepted: %d to %d",
                          reg->api_version, GGML_LEAST_API, GGML_MOST_API);
}

/* Reads whether a backend has the members that were added in April 2026. */
static bool has_backends(ggml_backend_dev_t device) {
    ggml_backend_t backend = ggml.init_device(device, NULL);
    if (backend == NULL)
        return notice_refusal("ggml's CPU device has no backend");
    void *const *end = (void *const *)&backend->device;
    host.has_tensors_2d = backend->device == device;
    bool has = host.has_tensors_2d || end[-2] == device;
    ggml.free_backend(backend);
    return is_there(has, "a backend's device");
}

static bool has_devices(void) {
    ggml_backend_dev_t device = ggml.device_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (device == NULL)
        return notice_refusal("ggml's CPU device is not registered yet");
    return is_there(device->reg == ggml.reg_of(device), "a device's reg") &&
           is_there(strcmp(device->iface.get_name(device), ggml.device_name(device)) == 0,
                    "a device's get_name") &&
           has_version(device->reg) && has_backends(device);
}

bool layout_read(void) {
    return has_devices() && has_types() && has_tensors();
}
