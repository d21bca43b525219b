/* What an engine has of ggml: backends and a scheduler that gives them nodes.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_GGML_ENGINE_H
#define KVMILL_TESTS_GGML_ENGINE_H

#include "node.h"

struct engine {
    ggml_backend_t backends[2]; /* the adapter's, if it has one; the CPU's */
    int count;
    ggml_backend_sched_t scheduler;
};

/* The adapter, when it has been loaded; load it as GGML_BACKEND_PATH says: NULL, there is none.
   What ggml says of its memory is no news. */
extern ggml_backend_reg_t adapter;
ggml_backend_reg_t engine_load(void);

/* Seconds are the clock's, unless a program says how many threads it measures: those of one are
   processor time, which other programs hardly change. */
void engine_measures(int threads);

struct engine engine_open(bool adapted, int threads);
void engine_close(struct engine *engine);

/* Run the scene's node and one of the CPU's, `runs` times, the first not counted in *seconds, which
   may be NULL; returns what has computed the node, or NULL: the graph failed. */
ggml_backend_t engine_run(const struct engine *engine, const struct scene *scene, float *result,
                          int runs, double *seconds);

/* A context for a graph, and a run of a node of it alone, whose sources are in the CPU's memory. */
struct ggml_context *engine_context(void);
ggml_backend_t engine_run_node(const struct engine *engine, struct ggml_context *context,
                               struct ggml_tensor *node, int runs, double *seconds);

/* Nodes of attention that a backend of the adapter has computed. */
int64_t engine_nodes(ggml_backend_t backend);

#endif
