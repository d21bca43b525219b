/* Tests of what a backend must honour when it walks through a graph: results, status and untouched
   memory are those of ggml's CPU backend.
    walk        GGML_BACKEND_PATH names the adapter: all tests
    walk idle   creates a backend that computes nothing

   SPDX-License-Identifier: Apache-2.0 */
#include "../tap.h"
#include "ggml_engine.h"

enum { ROWS = 8, ELEMENTS = 256, STORED = 2, NODES = 8, UNTOUCHED = 0x5a };

/* ---- Caches ---- */

/* Two caches, and rows that can be stored in either. */
struct stage {
    struct ggml_context *inputs, *context;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *cache[2], *rows, *slots;
};

static struct stage stage_open(int64_t rows, const int64_t *slots) {
    struct ggml_init_params params = {8 * ggml_tensor_overhead(), NULL, true};
    struct stage stage = {.inputs = ggml_init(params), .context = engine_context()};
    for (int i = 0; i < 2; i++)
        stage.cache[i] = ggml_new_tensor_2d(stage.inputs, GGML_TYPE_Q8_0, ELEMENTS, ROWS);
    stage.rows = ggml_new_tensor_2d(stage.inputs, GGML_TYPE_F32, ELEMENTS, rows);
    stage.slots = ggml_new_tensor_1d(stage.inputs, GGML_TYPE_I64, rows);
    stage.buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(stage.inputs, ggml_backend_cpu_buffer_type());
    uint64_t seed = 3;
    for (int64_t i = 0; i < rows * ELEMENTS; i++)
        ((float *)stage.rows->data)[i] = (float)draw(&seed);
    memcpy(stage.slots->data, slots, (size_t)rows * sizeof *slots);
    for (int i = 0; i < 2; i++)
        memset(stage.cache[i]->data, UNTOUCHED, ggml_nbytes(stage.cache[i]));
    return stage;
}

static void stage_close(struct stage *stage) {
    ggml_backend_buffer_free(stage->buffer);
    ggml_free(stage->inputs);
    ggml_free(stage->context);
}

static struct ggml_tensor *store_in(const struct stage *stage, int i) {
    return ggml_set_rows(stage->context, stage->cache[i], stage->rows, stage->slots);
}

static bool is_untouched(const struct ggml_tensor *tensor) {
    const unsigned char *data = tensor->data;
    for (size_t i = 0; i < ggml_nbytes(tensor); i++)
        if (data[i] != UNTOUCHED)
            return false;
    return true;
}

static bool are_equal(const struct ggml_tensor *a, const struct ggml_tensor *b) {
    return memcmp(a->data, b->data, ggml_nbytes(a)) == 0;
}

/* ---- Branches ---- */

static const int64_t two_slots[STORED] = {1, 3};

/* ggml_build_forward_select chooses one of two branches that write rows. */
static bool runs_only(const struct engine *engine, int chosen) {
    OWN(stage_close) struct stage stage = stage_open(STORED, two_slots);
    struct ggml_cgraph *graph = ggml_new_graph_custom(stage.context, NODES, false);
    struct ggml_tensor *branches[2] = {store_in(&stage, 0), store_in(&stage, 1)};
    ggml_build_forward_select(graph, branches, 2, chosen);
    bool done = ggml_backend_sched_graph_compute(engine->scheduler, graph) == GGML_STATUS_SUCCESS &&
                ggml_backend_sched_get_tensor_backend(engine->scheduler, branches[0]) ==
                    engine->backends[0];
    ggml_backend_sched_reset(engine->scheduler);
    return done && is_untouched(stage.cache[1 - chosen]) && !is_untouched(stage.cache[chosen]);
}

static void test_branches(const struct engine *ours) {
    ok(runs_only(ours, 0), "of two branches the first is chosen: only that one stores");
    ok(runs_only(ours, 1), "  or the second");
}

/* ---- Aborting ---- */

struct patience {
    int nodes; /* that may be computed */
};

static bool is_impatient(void *data) {
    struct patience *patience = data;
    return --patience->nodes <= 0;
}

static void set_abort(ggml_backend_t backend, ggml_abort_callback callback, void *data) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
    ggml_backend_set_abort_callback_t set =
        (ggml_backend_set_abort_callback_t)ggml_backend_reg_get_proc_address(
            reg, "ggml_backend_set_abort_callback");
    if (set != NULL)
        set(backend, callback, data);
}

/* Stores in both caches, unless the callback ends it before. */
static enum ggml_status store_both(ggml_backend_t backend, const struct stage *stage, int nodes) {
    struct ggml_cgraph *graph = ggml_new_graph_custom(stage->context, NODES, false);
    struct patience patience = {nodes};
    ggml_build_forward_expand(graph, store_in(stage, 0));
    ggml_build_forward_expand(graph, store_in(stage, 1));
    set_abort(backend, is_impatient, &patience);
    enum ggml_status status = ggml_backend_graph_compute(backend, graph);
    set_abort(backend, NULL, NULL);
    return status;
}

static void try_abort(ggml_backend_t backend, const char *who) {
    OWN(stage_close) struct stage one = stage_open(STORED, two_slots);
    OWN(stage_close) struct stage both = stage_open(STORED, two_slots);
    ok(store_both(backend, &one, 1) == GGML_STATUS_ABORTED && !is_untouched(one.cache[0]) &&
           is_untouched(one.cache[1]),
       "%s: the callback aborts after a node", who);
    ok(store_both(backend, &both, 9) == GGML_STATUS_SUCCESS && !is_untouched(both.cache[1]),
       "  and only if it wants to");
}

/* ---- Tensors without elements, slots ---- */

static enum ggml_status run_alone(ggml_backend_t backend, struct ggml_context *context,
                                  struct ggml_tensor *node) {
    struct ggml_cgraph *graph = ggml_new_graph_custom(context, NODES, false);
    ggml_build_forward_expand(graph, node);
    return ggml_backend_graph_compute(backend, graph);
}

static bool stores_as(ggml_backend_t backend, ggml_backend_t cpu, int64_t rows,
                      const int64_t *slots) {
    OWN(stage_close) struct stage stage = stage_open(rows, slots);
    return run_alone(backend, stage.context, store_in(&stage, 0)) == GGML_STATUS_SUCCESS &&
           run_alone(cpu, stage.context, store_in(&stage, 1)) == GGML_STATUS_SUCCESS &&
           are_equal(stage.cache[0], stage.cache[1]);
}

static void test_slots(ggml_backend_t backend, ggml_backend_t cpu) {
    static const int64_t same[] = {5, 5, 2, 5}, outside[] = {1, ROWS};
    ok(stores_as(backend, cpu, 0, same), "no rows are stored");
    ok(stores_as(backend, cpu, 4, same), "the last of several rows for a slot is kept");
    OWN(stage_close) struct stage far = stage_open(STORED, outside);
    ok(run_alone(backend, far.context, store_in(&far, 0)) == GGML_STATUS_FAILED &&
           is_untouched(far.cache[0]),
       "a slot after the last fails, and the cache is untouched");
}

/* Attention to a number of cells, of a number of queries, one of which may be 0. */
static enum ggml_status attend(ggml_backend_t backend, int64_t queries, int64_t cells,
                               int64_t hidden, float *result) {
    const struct shape shape = {.words = "",
                                .key = GGML_TYPE_F16,
                                .value = GGML_TYPE_F16,
                                .key_dim = 64,
                                .value_dim = 64,
                                .heads = 8,
                                .kv_heads = 2,
                                .queries = queries,
                                .cells = cells,
                                .streams = 1,
                                .mask = hidden > 0 ? CAUSAL : EMPTY,
                                .hidden = hidden};
    OWN(scene_close) struct scene scene = scene_open(&shape, 1, ggml_backend_cpu_buffer_type());
    struct ggml_context *context = engine_context();
    struct ggml_tensor *node = scene_node(&scene, context);
    ggml_backend_buffer_t buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(context, ggml_backend_cpu_buffer_type());
    bool taken = ggml_backend_supports_op(backend, node);
    enum ggml_status status = taken ? run_alone(backend, context, node) : GGML_STATUS_ALLOC_FAILED;
    if (status == GGML_STATUS_SUCCESS && node->data != NULL)
        memcpy(result, node->data, ggml_nbytes(node));
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    return status;
}

static bool attends_as(ggml_backend_t backend, ggml_backend_t cpu, int64_t queries, int64_t cells,
                       int64_t hidden) {
    float ours[2 * 512] = {0}, theirs[2 * 512] = {0};
    enum ggml_status status = attend(backend, queries, cells, hidden, ours);
    if (status != GGML_STATUS_SUCCESS)
        return diag("status %d", status);
    must(attend(cpu, queries, cells, hidden, theirs) == GGML_STATUS_SUCCESS, "ggml fails");
    return memcmp(ours, theirs, sizeof ours) == 0;
}

/* Engines create backends to ask for memory, and free them. */
static void probe(void) {
    struct engine engine = engine_open(true, 1);
    engine_close(&engine);
}

int main(int argc, char **argv) {
    (void)argv;
    if (!ok(engine_load() != NULL, "loaded to walk"))
        return done_testing();
    probe();
    if (argc > 1)
        return done_testing();
    OWN(engine_close) struct engine ours = engine_open(true, 2);
    /* ggml's threads store rows of the same slot in any order. */
    OWN(engine_close) struct engine alone = engine_open(false, 1);
    test_branches(&ours);
    try_abort(ours.backends[1], "ggml");
    try_abort(ours.backends[0], "the adapter");
    test_slots(ours.backends[0], alone.backends[0]);
    ok(attends_as(ours.backends[0], ours.backends[1], 0, 5, 0), "no queries");
    ok(attends_as(ours.backends[0], ours.backends[1], 2, 0, 0), "no cells: the output is 0");
    ok(attends_as(ours.backends[0], ours.backends[1], 2, 5, 5), "  and if all cells are hidden");
    return done_testing();
}
