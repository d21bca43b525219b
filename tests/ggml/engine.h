/* What an engine has of ggml: backends and a scheduler that gives them nodes; those of attention,
   and what they have to give.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_GGML_ENGINE_H
#define KVMILL_TESTS_GGML_ENGINE_H

#include <stdbool.h>

#include "ggml-backend.h"
#include "ggml.h"

/* What a mask hides: nothing, since there is none; nothing; what is after the query; that and what
   is far before it; all but the cells of a query's own sequence, of several; anything. */
enum mask { NONE, EMPTY, CAUSAL, WINDOW, SEQUENCES, HOLES };

/* How K and V lie in their caches. */
enum layout { TOKENS, HEADS };

struct shape {
    const char *words;
    enum ggml_type key, value;
    int64_t key_dim, value_dim, heads, kv_heads, queries, cells, streams;
    enum mask mask;
    enum layout layout;
    float softcap, max_bias;
    bool sinks, mask_of_heads;
};

/* What is another in a node that the adapter takes: of the node, bit 0 of `tensors`, or of its
   sources.  TYPE: elements of type `by`, side by side; EXTENT, STRIDE: by so many more. */
struct change {
    const char *words;
    unsigned tensors;
    enum { TYPE, EXTENT, STRIDE, OP, NO_SCALE } what;
    int dim, by;
};
void node_change(struct ggml_tensor *node, const struct change *change);

/* Between -1 and 1. */
double draw(uint64_t *seed);

/* Tensors with data in the CPU's memory; views of K and V, and the node, are of the graph's
 * context. */
struct scene {
    struct shape shape;
    struct ggml_context *inputs;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *query, *cache[2], *mask, *sinks;
};

struct scene scene_open(const struct shape *shape, uint64_t seed, ggml_backend_buffer_type_t type);
void scene_close(struct scene *scene);

/* The node in `context`. */
struct ggml_tensor *scene_node(const struct scene *scene, struct ggml_context *context);

/* Elements of the result, and the result in double precision: a caller's array of as many. */
int64_t scene_size(const struct scene *scene);
void scene_expect(const struct scene *scene, double *result);

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
