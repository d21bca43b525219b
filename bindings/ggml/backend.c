/* SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../base/pool.h"
#include "attend.h"
#include "host.h"
#include "plans.h"

enum { LINE = 64 };

/* What takes no longer than waking a thread up: bytes of K and V that all queries read. */
static const int64_t least_bytes = 256 << 10;

struct context {
    struct pool *pool; /* NULL: one thread */
    void *workspace;
    size_t size;
    int64_t nodes;
};

/* ---- Nodes ---- */

static bool make_room(struct context *context, size_t size) {
    if (size <= context->size)
        return true;
    free(context->workspace);
    context->workspace = aligned_alloc(LINE, (size + LINE - 1) / LINE * LINE);
    context->size = context->workspace != NULL ? size : 0;
    return context->workspace != NULL;
}

static int64_t bytes_of(const struct ggml_tensor *tensor) {
    int64_t rows = tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
    return rows * tensor->ne[0] * (int64_t)sizeof(float);
}

static void for_one(void *data, int64_t parts, void (*part)(void *, int64_t), void *context) {
    (void)data;
    for (int64_t i = 0; i < parts; i++)
        part(context, i);
}

static bool is_short(const struct ggml_tensor *node) {
    int64_t queries = node->src[0]->ne[1];
    return queries * (bytes_of(node->src[1]) + bytes_of(node->src[2])) < least_bytes;
}

static enum ggml_status compute(struct context *context, const struct ggml_tensor *node) {
    const kvmill_plan *plan = attend_plan(node);
    kvmill_error error;
    if (plan == NULL)
        return GGML_STATUS_FAILED;
    if (!make_room(context, kvmill_plan_workspace_size(plan)))
        return GGML_STATUS_ALLOC_FAILED;
    bool alone = context->pool == NULL || is_short(node);
    if (attend_run(node, plan, context->workspace, alone ? for_one : pool_for, context->pool,
                   &error) != KVMILL_OK) {
        fprintf(stderr, "kvmill: %s: %s\n", node->name, error.message);
        return GGML_STATUS_FAILED;
    }
    context->nodes++;
    return GGML_STATUS_SUCCESS;
}

bool backend_is_view(enum ggml_op op) {
    return op == GGML_OP_NONE || op == GGML_OP_RESHAPE || op == GGML_OP_VIEW ||
           op == GGML_OP_PERMUTE || op == GGML_OP_TRANSPOSE;
}

/* ---- ggml's functions ---- */

static const char *get_name(ggml_backend_t backend) {
    (void)backend;
    return "kvmill";
}

static void say_nodes(const struct context *context) {
    const char *verbose = getenv("KVMILL_VERBOSE");
    if (verbose != NULL && *verbose != '\0' && *verbose != '0')
        fprintf(stderr, "kvmill: ggml: %lld nodes of attention computed\n",
                (long long)context->nodes);
}

static void free_backend(ggml_backend_t backend) {
    struct context *context = backend->context;
    say_nodes(context);
    pool_close(context->pool);
    free(context->workspace);
    free(context);
    free(backend);
}

static enum ggml_status graph_compute(ggml_backend_t backend, struct ggml_cgraph *graph) {
    enum ggml_status status = GGML_STATUS_SUCCESS;
    for (int i = 0; status == GGML_STATUS_SUCCESS && i < host.n_nodes(graph); i++) {
        const struct ggml_tensor *node = host.node(graph, i);
        if (!backend_is_view(node->op))
            status = compute(backend->context, node);
    }
    return status;
}

void backend_set_n_threads(ggml_backend_t backend, int threads) {
    struct context *context = backend->context;
    int most = plans_threads(), wanted = threads > most ? most : threads;
    if (context->pool != NULL && pool_threads(context->pool) == wanted)
        return;
    pool_close(context->pool);
    context->pool = wanted > 1 ? pool_open(wanted) : NULL;
}

int64_t backend_nodes(ggml_backend_t backend) {
    return ((const struct context *)backend->context)->nodes;
}

ggml_backend_t backend_new(ggml_backend_dev_t device) {
    static ggml_guid guid = {0x6b, 0x76, 0x6d, 0x69, 0x6c, 0x6c, 0x2e, 0x67,
                             0x67, 0x6d, 0x6c, 0x2e, 0x61, 0x74, 0x74, 0x6e};
    ggml_backend_t backend = calloc(1, sizeof *backend);
    struct context *context = calloc(1, sizeof *context);
    if (backend == NULL || context == NULL) {
        free(backend);
        free(context);
        return NULL;
    }
    *backend = (struct ggml_backend){
        .guid = &guid,
        .iface = {.get_name = get_name, .free = free_backend, .graph_compute = graph_compute},
        .device = device,
        .context = context,
    };
    return backend;
}
