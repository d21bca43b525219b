/* SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "../common/plan_cache.h"
#include "ggml_attend.h"
#include "host.h"
#include "pays.h"
#include "store.h"

enum { LINE = 64 };

/* Ops of ggml that this backend computes. */
enum { ATTEND, STORE, OPS };

static const struct claim {
    enum host_op op;
    const kvmill_plan *(*plan)(const struct ggml_tensor *node);
    bool (*pays)(const struct ggml_tensor *node);
    kvmill_status (*run)(const struct ggml_tensor *node, const kvmill_plan *plan, void *workspace,
                         kvmill_pool *pool, kvmill_error *error);
} claims[OPS] = {
    [ATTEND] = {HOST_ATTEND, attend_plan, pays_to_attend, attend_run},
    [STORE] = {HOST_STORE, store_plan, pays_to_store, store_run},
};

struct context {
    struct ggml_backend backend; /* first, because ggml has its address */
    kvmill_pool *pool;           /* NULL: one thread */
    void *workspace;
    size_t size;
    int64_t nodes[OPS];
    ggml_abort_callback wants_abort; /* NULL: never */
    void *abort_data;
};

/* Engines make backends that compute nothing, to ask for memory: only if that is true of all at the
   end is it worth a line. */
static atomic_bool is_made, is_used;

/* ---- Nodes ---- */

static const struct claim *claim_of(const struct ggml_tensor *node) {
    enum host_op op = host_op(node);
    for (int i = 0; i < OPS; i++)
        if (claims[i].op == op)
            return &claims[i];
    return NULL;
}

enum verdict backend_judge(const struct ggml_tensor *node) {
    const struct claim *claim = claim_of(node);
    if (claim == NULL || claim->plan(node) == NULL)
        return HAS_NO_KERNELS;
    return claim->pays(node) ? IS_TAKEN : IS_SMALL;
}

static bool make_room(struct context *context, size_t size) {
    if (size <= context->size)
        return true;
    free(context->workspace);
    context->workspace = aligned_alloc(LINE, (size + LINE - 1) / LINE * LINE);
    context->size = context->workspace != NULL ? size : 0;
    return context->workspace != NULL;
}

static enum ggml_status compute(struct context *context, const struct ggml_tensor *node) {
    const struct claim *claim = claim_of(node);
    const kvmill_plan *plan = claim != NULL ? claim->plan(node) : NULL;
    kvmill_error error;
    if (plan == NULL)
        return GGML_STATUS_FAILED;
    if (!make_room(context, kvmill_plan_workspace_size(plan)))
        return GGML_STATUS_ALLOC_FAILED;
    if (claim->run(node, plan, context->workspace, context->pool, &error) != KVMILL_OK) {
        fprintf(stderr, "kvmill: %s: %s\n", node->name, error.message);
        return GGML_STATUS_FAILED;
    }
    context->nodes[claim - claims]++;
    is_used = true;
    return GGML_STATUS_SUCCESS;
}

/* ---- ggml's functions ---- */

static struct context *context_of(ggml_backend_t backend) {
    return (struct context *)backend;
}

static const char *get_name(ggml_backend_t backend) {
    (void)backend;
    return "kvmill";
}

static void say_nodes(const int64_t nodes[OPS]) {
    fprintf(stderr, "kvmill: ggml: %lld nodes of attention computed, %lld that store\n",
            (long long)nodes[ATTEND], (long long)nodes[STORE]);
}

static void __attribute__((destructor)) say_unused(void) {
    static const int64_t none[OPS];
    if (notice_is_verbose() && is_made && !is_used)
        say_nodes(none);
}

static void free_backend(ggml_backend_t backend) {
    struct context *context = context_of(backend);
    if (notice_is_verbose() && (context->nodes[ATTEND] > 0 || context->nodes[STORE] > 0))
        say_nodes(context->nodes);
    kvmill_pool_destroy(context->pool);
    free(context->workspace);
    free(context);
}

/* Whether a node must be computed: it may be of a branch that ggml_build_forward_select did not
   choose.  A ggml without that function marks no nodes. */
static bool is_wanted(const struct ggml_tensor *node) {
    return host_op(node) != HOST_VIEW &&
           (!host.marks_nodes || (node->flags & GGML_TENSOR_FLAG_COMPUTE) != 0);
}

static bool is_aborted(const struct context *context) {
    return context->wants_abort != NULL && context->wants_abort(context->abort_data);
}

static enum ggml_status graph_compute(ggml_backend_t backend, struct ggml_cgraph *graph) {
    enum ggml_status status = GGML_STATUS_SUCCESS;
    for (int i = 0; status == GGML_STATUS_SUCCESS && i < host.n_nodes(graph); i++) {
        const struct ggml_tensor *node = host.node(graph, i);
        if (!is_wanted(node))
            continue;
        status = compute(context_of(backend), node);
        if (status == GGML_STATUS_SUCCESS && is_aborted(context_of(backend)))
            status = GGML_STATUS_ABORTED;
    }
    return status;
}

void backend_set_abort_callback(ggml_backend_t backend, ggml_abort_callback callback, void *data) {
    struct context *context = context_of(backend);
    context->wants_abort = callback;
    context->abort_data = data;
}

void backend_set_n_threads(ggml_backend_t backend, int threads) {
    struct context *context = context_of(backend);
    int most = plan_threads(), wanted = threads > most ? most : threads;
    /* Threads sleep between nodes, because ggml uses the processors then. */
    const kvmill_pool_options options = {sizeof options, 0, 1};
    kvmill_error error;
    pays_for_threads(threads);
    if (kvmill_pool_threads(context->pool) == wanted)
        return;
    kvmill_pool_destroy(context->pool);
    context->pool = NULL;
    if (wanted > 1 && kvmill_pool_create(wanted, &options, &context->pool, &error) != KVMILL_OK)
        fprintf(stderr, "kvmill: attention runs on one thread: %s\n", error.message);
}

int64_t backend_nodes(ggml_backend_t backend) {
    return context_of(backend)->nodes[ATTEND];
}

ggml_backend_t backend_new(ggml_backend_dev_t device) {
    static ggml_guid guid = {0x6b, 0x76, 0x6d, 0x69, 0x6c, 0x6c, 0x2e, 0x67,
                             0x67, 0x6d, 0x6c, 0x2e, 0x61, 0x74, 0x74, 0x6e};
    struct context *context = calloc(1, sizeof *context);
    if (context == NULL)
        return NULL;
    is_made = true;
    context->backend = (struct ggml_backend){
        .guid = &guid,
        .iface = {.get_name = get_name, .free = free_backend, .graph_compute = graph_compute},
        .device = device,
    };
    host_arrange(&context->backend);
    return &context->backend;
}
