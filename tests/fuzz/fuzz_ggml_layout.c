/* Lets the adapter look at a ggml that may be another one: structs with other members, numbers and
   names.  It must use the ggml that it was written for, and no other.

   SPDX-License-Identifier: Apache-2.0 */
#define host_find_all fuzz_host_find_all
#include "../../bindings/ggml/ggml_calls.c"
#include "../../bindings/ggml/layout.c"
#undef host_find_all

#include <stdio.h>

#include "../fence.h"
#include "fuzz.h"

enum { TENSORS = 16 };

/* Members of a tensor that the adapter uses; each may be somewhere else in the ggml. */
enum {
    TYPE,
    NE,
    NB,
    OP_NUMBER,
    PARAMETERS,
    FLAGS,
    SOURCES,
    VIEW_SRC,
    VIEW_OFFS,
    DATA,
    NAME,
    MEMBERS
};
static const struct {
    size_t at, size;
} usual[MEMBERS] = {
#define MEMBER(name)                                                                               \
    { offsetof(struct ggml_tensor, name), sizeof((struct ggml_tensor){0}.name) }
    MEMBER(type),      MEMBER(ne),    MEMBER(nb),   MEMBER(op),
    MEMBER(op_params), MEMBER(flags), MEMBER(src),  MEMBER(view_src),
    MEMBER(view_offs), MEMBER(data),  MEMBER(name),
};

/* This ggml. */
static struct {
    size_t at[MEMBERS], overhead;
    struct fence tensors[TENSORS];
    int count, contexts, backends;
    const char *lacks, *type_name;
    enum ggml_type renamed;
    int nodes, backend_gap;
    bool marks_nodes, has_memory, has_device, has_backend, has_other_reg, has_other_name;
    struct ggml_backend_device device;
    struct ggml_backend_reg reg, other_reg;
    void *backend[sizeof(struct ggml_backend) / sizeof(void *) + 4];
    struct ggml_tensor *expanded;
    struct dice *dice;
} own;

static void *member(const struct ggml_tensor *tensor, int which) {
    return (unsigned char *)(uintptr_t)tensor + own.at[which];
}

/* ---- Its functions ---- */

static size_t fake_tensor_overhead(void) {
    return own.overhead;
}

static size_t fake_graph_overhead(void) {
    return 64;
}

static struct ggml_context *fake_init(struct ggml_init_params params) {
    (void)params;
    own.contexts += own.has_memory;
    return own.has_memory ? (struct ggml_context *)&own : NULL;
}

static void fake_free(struct ggml_context *context) {
    (void)context;
    own.contexts--;
}

static struct ggml_tensor *new_tensor(int op, enum ggml_type type, const int64_t ne[4]) {
    fuzz_require(own.count < TENSORS, "more tensors than there were");
    struct fence *fence = &own.tensors[own.count++];
    fence_open(fence, sizeof(struct ggml_tensor), 0, FENCE_ABOVE, own.dice);
    struct ggml_tensor *tensor = (struct ggml_tensor *)(void *)fence->data;
    size_t nb[] = {4, 0, 0, 0};
    memset(fence->data, 0, fence->size);
    for (int i = 1; i < 4; i++)
        nb[i] = nb[i - 1] * (size_t)ne[i - 1];
    memcpy(member(tensor, TYPE), &type, sizeof type);
    memcpy(member(tensor, NE), ne, 4 * sizeof *ne);
    memcpy(member(tensor, NB), nb, sizeof nb);
    memcpy(member(tensor, OP_NUMBER), &op, sizeof op);
    memcpy(member(tensor, DATA), &fence, sizeof fence);
    return tensor;
}

static struct ggml_tensor *fake_new_tensor(struct ggml_context *context, enum ggml_type type,
                                           int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
    (void)context;
    return new_tensor(0, type, (int64_t[]){n0, n1, n2, n3});
}

static void *fake_get_data(const struct ggml_tensor *tensor) {
    void *data;
    memcpy(&data, member(tensor, DATA), sizeof data);
    return data;
}

static const char *fake_get_name(const struct ggml_tensor *tensor) {
    return member(tensor, NAME);
}

static void fake_set_output(struct ggml_tensor *tensor) {
    *(int32_t *)member(tensor, FLAGS) |= GGML_TENSOR_FLAG_OUTPUT;
}

static struct ggml_tensor *new_node(int op, int count, struct ggml_tensor *const *sources) {
    struct ggml_tensor *node = new_tensor(op, GGML_TYPE_F32, (int64_t[]){DIM, ROWS, 1, 1});
    memcpy(member(node, SOURCES), sources, (size_t)count * sizeof *sources);
    return node;
}

static struct ggml_tensor *fake_flash_attn(struct ggml_context *context, struct ggml_tensor *query,
                                           struct ggml_tensor *key, struct ggml_tensor *value,
                                           struct ggml_tensor *mask, float scale, float max_bias,
                                           float softcap) {
    (void)context, (void)mask;
    struct ggml_tensor *node = new_node(61, 3, (struct ggml_tensor *[]){query, key, value});
    memcpy(member(node, PARAMETERS), (float[]){scale, max_bias, softcap}, 3 * sizeof scale);
    return node;
}

static struct ggml_tensor *fake_set_rows(struct ggml_context *context, struct ggml_tensor *cache,
                                         struct ggml_tensor *rows, struct ggml_tensor *slots) {
    (void)context, (void)cache;
    return new_node(62, 2, (struct ggml_tensor *[]){rows, slots});
}

static struct ggml_tensor *fake_reshape(struct ggml_context *context, struct ggml_tensor *tensor,
                                        int64_t n0) {
    (void)context, (void)n0;
    return new_node(63, 1, &tensor);
}

static struct ggml_tensor *fake_view(struct ggml_context *context, struct ggml_tensor *tensor,
                                     int64_t n0, size_t offset) {
    (void)context, (void)n0;
    struct ggml_tensor *view = new_node(64, 1, &tensor);
    memcpy(member(view, VIEW_SRC), &tensor, sizeof tensor);
    memcpy(member(view, VIEW_OFFS), &offset, sizeof offset);
    return view;
}

static struct ggml_tensor *fake_permute(struct ggml_context *context, struct ggml_tensor *tensor,
                                        int a, int b, int c, int d) {
    (void)context, (void)a, (void)b, (void)c, (void)d;
    return new_node(65, 1, &tensor);
}

static struct ggml_tensor *fake_transpose(struct ggml_context *context,
                                          struct ggml_tensor *tensor) {
    (void)context;
    return new_node(66, 1, &tensor);
}

static struct ggml_cgraph *fake_new_graph(struct ggml_context *context) {
    return (struct ggml_cgraph *)context;
}

static void fake_expand(struct ggml_cgraph *graph, struct ggml_tensor *node) {
    (void)graph;
    own.expanded = node;
    if (own.marks_nodes)
        *(int32_t *)member(node, FLAGS) |= GGML_TENSOR_FLAG_COMPUTE;
}

static int fake_n_nodes(struct ggml_cgraph *graph) {
    (void)graph;
    return own.nodes;
}

static struct ggml_tensor *fake_node(struct ggml_cgraph *graph, int i) {
    (void)graph;
    return i == 0 ? own.expanded : NULL;
}

static ggml_backend_dev_t fake_device_by_type(enum ggml_backend_dev_type type) {
    (void)type;
    return own.has_device ? &own.device : NULL;
}

static ggml_backend_reg_t fake_reg_of(ggml_backend_dev_t device) {
    (void)device;
    return own.has_other_reg ? &own.other_reg : &own.reg;
}

static const char *fake_device_name(ggml_backend_dev_t device) {
    return device != NULL && own.has_other_name ? "GPU" : "CPU";
}

static const char *fake_get_device_name(ggml_backend_dev_t device) {
    (void)device;
    return "CPU";
}

static ggml_backend_t fake_init_device(ggml_backend_dev_t device, const char *params) {
    (void)params;
    void **place = (void **)&((struct ggml_backend *)(void *)own.backend)->device;
    memset(own.backend, 0, sizeof own.backend);
    place[own.backend_gap] = device;
    own.backends += own.has_backend;
    return own.has_backend ? (ggml_backend_t)(void *)own.backend : NULL;
}

static void fake_free_backend(ggml_backend_t backend) {
    (void)backend;
    own.backends--;
}

static const char *fake_type_name(enum ggml_type type) {
    static const struct {
        enum ggml_type type;
        const char *name;
    } names[] = {{GGML_TYPE_F32, "f32"}, {GGML_TYPE_F16, "f16"}, {GGML_TYPE_Q8_0, "q8_0"},
                 {GGML_TYPE_I32, "i32"}, {GGML_TYPE_I64, "i64"}, {GGML_TYPE_BF16, "bf16"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].type == type && type != own.renamed)
            return names[i].name;
    return own.type_name;
}

/* For functions that the adapter finds, and layout.c does not call. */
static void fake_uncalled(void) {
    fuzz_require(false, "a function is called that says nothing about the layout");
}

static void *fake_function(const char *name) {
    static const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"ggml_tensor_overhead", fake_tensor_overhead},
        {"ggml_graph_overhead", fake_graph_overhead},
        {"ggml_init", fake_init},
        {"ggml_free", fake_free},
        {"ggml_new_tensor_4d", fake_new_tensor},
        {"ggml_get_data", fake_get_data},
        {"ggml_get_name", fake_get_name},
        {"ggml_set_output", fake_set_output},
        {"ggml_flash_attn_ext", fake_flash_attn},
        {"ggml_set_rows", fake_set_rows},
        {"ggml_reshape_1d", fake_reshape},
        {"ggml_view_1d", fake_view},
        {"ggml_permute", fake_permute},
        {"ggml_transpose", fake_transpose},
        {"ggml_new_graph", fake_new_graph},
        {"ggml_build_forward_expand", fake_expand},
        {"ggml_backend_dev_by_type", fake_device_by_type},
        {"ggml_backend_dev_backend_reg", fake_reg_of},
        {"ggml_backend_dev_name", fake_device_name},
        {"ggml_backend_dev_init", fake_init_device},
        {"ggml_backend_free", fake_free_backend},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            return functions[i].function;
    return fake_uncalled;
}

bool fuzz_host_find_all(void *library, const struct host_function *functions, size_t count) {
    (void)library;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(functions[i].name, own.lacks) == 0)
            return notice_refusal("this ggml has no function %s", own.lacks);
        *(void **)functions[i].place = fake_function(functions[i].name);
    }
    return true;
}

/* ---- Another ggml ---- */

static void swap_members(struct dice *dice) {
    static const int pairs[][2] = {{TYPE, OP_NUMBER}, {TYPE, FLAGS},     {OP_NUMBER, FLAGS},
                                   {NE, NB},          {VIEW_SRC, DATA},  {VIEW_SRC, VIEW_OFFS},
                                   {VIEW_OFFS, DATA}, {PARAMETERS, NAME}};
    const int *pair = pairs[dice_range(dice, 0, sizeof pairs / sizeof *pairs - 1)];
    own.at[pair[0]] = usual[pair[1]].at;
    own.at[pair[1]] = usual[pair[0]].at;
}

static void lack_function(struct dice *dice) {
    static const char *const names[] = {"ggml_init", "ggml_set_rows", "ggml_backend_free",
                                        "ggml_tensor_overhead", "ggml_view_1d"};
    own.lacks = names[dice_range(dice, 0, sizeof names / sizeof *names - 1)];
}

static void rename_type(struct dice *dice) {
    static const enum ggml_type renamed[] = {GGML_TYPE_F32, GGML_TYPE_Q8_0, GGML_TYPE_BF16};
    own.renamed = renamed[dice_range(dice, 0, 2)];
    own.type_name = dice_once_in(dice, 2) ? NULL : "f8";
}

/* Makes a difference that matters. */
static void differ(struct dice *dice) {
    static bool *const flags[] = {&own.has_memory, &own.has_device, &own.has_backend,
                                  &own.has_other_reg, &own.has_other_name};
    int64_t how = dice_range(dice, 0, 10);
    if (how <= 4)
        *flags[how] = !*flags[how];
    else if (how == 5)
        own.overhead += (size_t)dice_range(dice, 0, 1) * 32 - 16;
    else if (how == 6)
        own.reg.api_version = dice_once_in(dice, 2) ? GGML_LEAST_API - 1 : GGML_MOST_API + 1;
    else if (how == 7)
        own.nodes = dice_once_in(dice, 2) ? 0 : 2;
    else if (how == 8)
        own.backend_gap = dice_once_in(dice, 2) ? -1 : 1;
    else
        (how == 9 ? lack_function : rename_type)(dice);
}

static void usual_ggml(struct dice *dice) {
    memset(&own, 0, sizeof own);
    for (int i = 0; i < MEMBERS; i++)
        own.at[i] = usual[i].at;
    own.dice = dice;
    own.overhead = sizeof(struct ggml_tensor) + OBJECT;
    own.lacks = "";
    own.renamed = (enum ggml_type) - 1;
    own.nodes = 1;
    own.has_memory = own.has_device = own.has_backend = true;
    own.reg.api_version = (int)dice_range(dice, GGML_LEAST_API, GGML_MOST_API);
    own.device.reg = &own.reg;
    own.device.iface.get_name = fake_get_device_name;
    own.marks_nodes = dice_once_in(dice, 2);
    own.backend_gap = dice_once_in(dice, 2) ? -2 : 0;
    host = (struct host){.n_nodes = fake_n_nodes, .node = fake_node, .type_name = fake_type_name};
}

static void check_host(void) {
    static const int views[HOST_VIEWS] = {0, 64, 63, 65, 66};
    fuzz_require(
        host.attend == 61 && host.store == 62 && memcmp(host.views, views, sizeof views) == 0 &&
            host.api_version == own.reg.api_version && host.marks_nodes == own.marks_nodes &&
            host.has_tensors_2d == (own.backend_gap == 0),
        "a ggml is used that has been misread");
}

void fuzz_ggml_layout(const unsigned char *data, size_t size) {
    struct dice dice = dice_of_bytes(data, size);
    usual_ggml(&dice);
    int64_t differences = dice_range(&dice, 0, 2), swaps = dice_range(&dice, 0, 3) == 0;
    for (int64_t i = 0; i < differences; i++)
        differ(&dice);
    if (swaps)
        swap_members(&dice);
    bool used = calls_find(NULL) && layout_read();
    if (differences + swaps <= 1)
        fuzz_require(used == (differences + swaps == 0), "a ggml is %s", used ? "used" : "refused");
    if (used)
        check_host();
    fuzz_require(own.contexts == 0 && own.backends == 0, "%d contexts and %d backends are left",
                 own.contexts, own.backends);
    for (int i = 0; i < own.count; i++)
        fence_close(&own.tensors[i]);
}
