/* SPDX-License-Identifier: Apache-2.0 */
#include "ggml_engine.h"

#include <stdio.h>
#include <time.h>

#include "ggml-alloc.h"

enum { NODES = 64 };

ggml_backend_reg_t adapter;
static clockid_t measured = CLOCK_MONOTONIC;

static void log_problem(enum ggml_log_level level, const char *text, void *data) {
    (void)data;
    if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

ggml_backend_reg_t engine_load(void) {
    ggml_log_set(log_problem, NULL);
    ggml_backend_load_all();
    return adapter = ggml_backend_reg_by_name("kvmill");
}

void engine_measures(int threads) {
    measured = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
}

int64_t engine_nodes(ggml_backend_t backend) {
    int64_t (*nodes)(ggml_backend_t) =
        (int64_t(*)(ggml_backend_t))ggml_backend_reg_get_proc_address(adapter, "kvmill_nodes");
    return nodes(backend);
}

static void set_threads(ggml_backend_t backend, int threads) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
    ggml_backend_set_n_threads_t set =
        (ggml_backend_set_n_threads_t)ggml_backend_reg_get_proc_address(
            reg, "ggml_backend_set_n_threads");
    set(backend, threads);
}

struct engine engine_open(bool adapted, int threads) {
    struct engine engine = {.count = 0};
    if (adapted)
        engine.backends[engine.count++] =
            ggml_backend_dev_init(ggml_backend_reg_dev_get(adapter, 0), NULL);
    engine.backends[engine.count++] = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    for (int i = 0; i < engine.count; i++)
        set_threads(engine.backends[i], threads);
    engine.scheduler =
        ggml_backend_sched_new(engine.backends, NULL, engine.count, NODES, false, true);
    return engine;
}

void engine_close(struct engine *engine) {
    ggml_backend_sched_free(engine->scheduler);
    for (int i = 0; i < engine->count; i++)
        ggml_backend_free(engine->backends[i]);
}

double engine_now(void) {
    struct timespec time;
    clock_gettime(measured, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The graph is kept as long as its shapes are the same. */
static bool compute(const struct engine *engine, struct ggml_cgraph *graph, int runs,
                    double *seconds) {
    bool done = ggml_backend_sched_graph_compute(engine->scheduler, graph) == GGML_STATUS_SUCCESS;
    double began = engine_now();
    for (int i = 1; done && i < runs; i++)
        done = ggml_backend_sched_graph_compute(engine->scheduler, graph) == GGML_STATUS_SUCCESS;
    if (seconds != NULL)
        *seconds = engine_now() - began;
    return done;
}

struct ggml_context *engine_context(void) {
    return ggml_init((struct ggml_init_params){
        NODES * ggml_tensor_overhead() + ggml_graph_overhead_custom(NODES, false), NULL, true});
}

/* Runs the graph up to `last`.  Returns the backend that computed `node`. */
static ggml_backend_t run_graph(const struct engine *engine, struct ggml_context *context,
                                struct ggml_tensor *node, struct ggml_tensor *last, int runs,
                                double *seconds) {
    struct ggml_cgraph *graph = ggml_new_graph_custom(context, NODES, false);
    ggml_set_output(last);
    ggml_build_forward_expand(graph, last);
    bool done = compute(engine, graph, runs, seconds);
    return done ? ggml_backend_sched_get_tensor_backend(engine->scheduler, node) : NULL;
}

ggml_backend_t engine_run_node(const struct engine *engine, struct ggml_context *context,
                               struct ggml_tensor *node, int runs, double *seconds) {
    ggml_backend_t backend = run_graph(engine, context, node, node, runs, seconds);
    ggml_backend_sched_reset(engine->scheduler);
    return backend;
}

ggml_backend_t engine_run(const struct engine *engine, const struct scene *scene, float *result,
                          int runs, double *seconds) {
    struct ggml_context *context = engine_context();
    struct ggml_tensor *node = scene_node(scene, context);
    struct ggml_tensor *doubled = ggml_scale(context, node, 2);
    ggml_backend_t backend = run_graph(engine, context, node, doubled, runs, seconds);
    if (backend != NULL)
        ggml_backend_tensor_get(doubled, result, 0, ggml_nbytes(doubled));
    for (int64_t n = 0; backend != NULL && n < scene_size(scene); n++)
        result[n] /= 2;
    ggml_backend_sched_reset(engine->scheduler);
    ggml_free(context);
    return backend;
}
