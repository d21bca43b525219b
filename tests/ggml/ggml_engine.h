/* An engine: ggml's backends, a scheduler that distributes nodes among them, and attention nodes
   with their expected results.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_GGML_GGML_ENGINE_H
#define KVMILL_TESTS_GGML_GGML_ENGINE_H

#include <stdbool.h>

#include "ggml-backend.h"
#include "ggml.h"

/* What a mask hides: NONE: there is no mask; EMPTY: nothing; CAUSAL: cells after the query; WINDOW:
   also those far before it; SEQUENCES: all cells of other sequences; HOLES: random cells. */
enum mask { NONE, EMPTY, CAUSAL, WINDOW, SEQUENCES, HOLES };

/* The order of axes in the caches of K and V. */
enum layout { TOKENS, HEADS };

struct shape {
    const char *words;
    enum ggml_type key, value;
    int64_t key_dim, value_dim, heads, kv_heads, queries, cells, streams;
    enum mask mask;
    enum layout layout;
    float softcap, max_bias;
    bool sinks, mask_of_heads;
    int64_t hidden; /* cells at the end that no query sees, beside those that the mask hides */
};

/* A change to a node that the adapter would take, so that it must decline.  In `tensors`, bit 0 is
   the node, and the others are its sources.  TYPE: elements have the type `by`, without gaps;
   EXTENT, STRIDE: larger by `by`. */
struct change {
    const char *words;
    unsigned tensors;
    enum { TYPE, EXTENT, STRIDE, OP, NO_SCALE } what;
    int dim, by;
};
void node_change(struct ggml_tensor *node, const struct change *change);

/* Returns a random number between -1 and 1. */
double draw(uint64_t *seed);

/* Tensors with data in the CPU's memory.  The views of K and V, and the node, belong to the graph's
   context. */
struct scene {
    struct shape shape;
    struct ggml_context *inputs;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *query, *cache[2], *mask, *sinks;
};

struct scene scene_open(const struct shape *shape, uint64_t seed, ggml_backend_buffer_type_t type);
void scene_close(struct scene *scene);

/* Creates the node in `context`. */
struct ggml_tensor *scene_node(const struct scene *scene, struct ggml_context *context);

/* Return the number of elements of the result, and compute the result in double precision into the
   caller's array. */
int64_t scene_size(const struct scene *scene);
void scene_expect(const struct scene *scene, double *result);

struct engine {
    ggml_backend_t backends[2]; /* the adapter's, if there is one, and the CPU's */
    int count;
    ggml_backend_sched_t scheduler;
};

/* The adapter, after it has been loaded, and the function that loads it from GGML_BACKEND_PATH;
   NULL if there is none.  ggml's messages about its memory are suppressed. */
extern ggml_backend_reg_t adapter;
ggml_backend_reg_t engine_load(void);

/* Sets how times are measured: by the clock, or, with one thread, by processor time, which other
   programs hardly change. */
void engine_measures(int threads);
double engine_now(void);

struct engine engine_open(bool adapted, int threads);
void engine_close(struct engine *engine);

/* Runs the node on an engine `runs` times; the first run is not part of *seconds, which may be
   NULL.  Returns the backend that computed the node, or NULL if the graph failed. */
ggml_backend_t engine_run(const struct engine *engine, const struct scene *scene, float *result,
                          int runs, double *seconds);

/* Returns a context for a graph.  The other function runs a single node whose sources are in the
   CPU's memory. */
struct ggml_context *engine_context(void);
ggml_backend_t engine_run_node(const struct engine *engine, struct ggml_context *context,
                               struct ggml_tensor *node, int runs, double *seconds);

/* Returns the number of attention nodes that a backend of the adapter has computed. */
int64_t engine_nodes(ggml_backend_t backend);

#endif
