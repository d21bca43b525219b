/* Compares the time of attention with ggml's own, in one process.  Prints a line for each case:
   microseconds of both, and how many times as fast the adapter is.
    times THREADS WORDS TYPES DEPTH...
   GGML_BACKEND_PATH names the adapter.  WORDS: only cases whose lines begin with this.  TYPES of K
   and V: "same" or "mixed".  Cases without kernels are skipped.  With KVMILL_GGML_LEAST=0 the
   adapter takes all nodes.

   A "layer" is what a step of a model does between two of its products: two stores and a node of
   attention, for which ggml's scheduler splits the graph, after other memory was read, with the
   cells that llama.cpp adds as padding.

   SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "../tap.h"
#include "ggml_engine.h"

enum { ROUNDS = 5, LAYER_ROUNDS = 301, PADDING = 256, OTHER_BYTES = 16 << 20 };

static const enum ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
                                       GGML_TYPE_Q8_0, GGML_TYPE_Q5_1, GGML_TYPE_Q5_0,
                                       GGML_TYPE_Q4_1, GGML_TYPE_Q4_0, GGML_TYPE_IQ4_NL};
enum { TYPES = sizeof types / sizeof *types };

/* Head configurations of models, with one token, several tokens, or a prompt; the number of cells
   is the depth, in layers without the queries. */
#define SHAPE(WORDS, QUERIES, HEADS, KV_HEADS, DIM)                                                \
    {                                                                                              \
        .words = WORDS ", " #HEADS "/" #KV_HEADS " x " #DIM, .key_dim = DIM, .value_dim = DIM,     \
        .heads = HEADS, .kv_heads = KV_HEADS, .queries = QUERIES, .streams = 1, .mask = CAUSAL,    \
        .layout = TOKENS                                                                           \
    }
static const struct shape shapes[] = {
    SHAPE("1 token", 1, 32, 8, 64),
    SHAPE("1 token", 1, 14, 2, 64),
    SHAPE("1 token", 1, 32, 8, 128),
    SHAPE("1 token", 1, 4, 1, 256),
    SHAPE("1 token", 1, 8, 4, 256),
    SHAPE("16 tokens", 16, 14, 2, 64),
    SHAPE("16 tokens", 16, 32, 8, 128),
    SHAPE("16 tokens", 16, 8, 4, 256),
    SHAPE("prompt of 64", 64, 32, 8, 64),
    SHAPE("prompt of 64", 64, 4, 1, 256),
    SHAPE("prompt of 512", 512, 32, 8, 64),
    SHAPE("layer of 1 token", 1, 4, 1, 256),
    SHAPE("layer of 1 token", 1, 14, 2, 64),
    SHAPE("layer of 1 token", 1, 32, 8, 64),
    SHAPE("layer of 1 token", 1, 32, 8, 128),
    SHAPE("layer of 4 tokens", 4, 4, 1, 256),
    SHAPE("layer of 16 tokens", 16, 4, 1, 256),
    SHAPE("layer of 128 tokens", 128, 4, 1, 256),
};

/* ---- Times ---- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds, size_t count) {
    qsort(seconds, count, sizeof *seconds, by_size);
    return seconds[count / 2];
}

static void report(const struct shape *shape, int64_t depth, double ours, double theirs,
                   double speed, const char *note) {
    printf("%-28s %-6s %-6s %6lld %10.1f %10.1f %8.2f%s\n", shape->words,
           ggml_type_name(shape->key), ggml_type_name(shape->value), (long long)depth, 1e6 * ours,
           1e6 * theirs, speed, note);
    fflush(stdout);
}

/* Measures both in turns, so that the machine is equally busy. */
static void measure(const struct engine engines[2], const struct shape *shape) {
    OWN(scene_close) struct scene scene = scene_open(shape, 1, ggml_backend_cpu_buffer_type());
    FREED float *result = malloc((size_t)scene_size(&scene) * sizeof *result);
    double seconds[2][ROUNDS];
    int64_t work = shape->queries * shape->cells * shape->heads * shape->key_dim;
    int runs = 2 + (int)(20000000 / work);
    bool taken = engine_run(&engines[0], &scene, result, 1, NULL) == engines[0].backends[0];
    for (int i = 0; taken && i < 2 * ROUNDS; i++)
        engine_run(&engines[i % 2], &scene, result, runs, &seconds[i % 2][i / 2]);
    if (!taken)
        return;
    double ours = median(seconds[0], ROUNDS) / (runs - 1);
    double theirs = median(seconds[1], ROUNDS) / (runs - 1);
    report(shape, shape->cells, ours, theirs, theirs / ours, "");
}

/* ---- A layer ---- */

/* New rows of K and V, and their slots. */
struct rows {
    struct ggml_context *inputs;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *of[2], *slots;
};

static struct rows rows_open(const struct shape *shape) {
    struct ggml_init_params params = {8 * ggml_tensor_overhead(), NULL, true};
    struct rows rows = {.inputs = ggml_init(params)};
    uint64_t seed = 5;
    for (int v = 0; v < 2; v++)
        rows.of[v] = ggml_new_tensor_2d(
            rows.inputs, GGML_TYPE_F32,
            shape->kv_heads * (v == 0 ? shape->key_dim : shape->value_dim), shape->queries);
    rows.slots = ggml_new_tensor_1d(rows.inputs, GGML_TYPE_I64, shape->queries);
    rows.buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(rows.inputs, ggml_backend_cpu_buffer_type());
    for (int v = 0; v < 2; v++)
        for (int64_t i = 0; i < ggml_nelements(rows.of[v]); i++)
            ((float *)rows.of[v]->data)[i] = (float)draw(&seed);
    for (int64_t i = 0; i < shape->queries; i++)
        ((int64_t *)rows.slots->data)[i] = shape->cells - shape->hidden - shape->queries + i;
    return rows;
}

static void rows_close(struct rows *rows) {
    ggml_backend_buffer_free(rows->buffer);
    ggml_free(rows->inputs);
}

/* Builds the layer; ggml's CPU backend scales its inputs and its result. */
static struct ggml_cgraph *build_layer(const struct scene *scene, const struct rows *rows,
                                       struct ggml_context *context) {
    struct ggml_cgraph *graph = ggml_new_graph_custom(context, 32, false);
    struct ggml_tensor *scaled[2];
    for (int v = 0; v < 2; v++)
        ggml_build_forward_expand(graph, scaled[v] = ggml_scale(context, rows->of[v], 2));
    for (int v = 0; v < 2; v++) {
        struct ggml_tensor *cache = scene->cache[v];
        ggml_build_forward_expand(
            graph, ggml_set_rows(context,
                                 ggml_reshape_2d(context, cache, cache->ne[0] * cache->ne[1],
                                                 cache->ne[2] * cache->ne[3]),
                                 scaled[v], rows->slots));
    }
    ggml_build_forward_expand(graph, ggml_scale(context, scene_node(scene, context), 2));
    return graph;
}

/* Reads as much memory as the products between layers do. */
static void use_other_memory(void) {
    static unsigned char other[OTHER_BYTES];
    for (size_t i = 0; i < sizeof other; i += 64)
        other[i]++;
}

static double time_layer(const struct engine *engine, struct ggml_cgraph *graph) {
    use_other_memory();
    double began = engine_now();
    must(ggml_backend_sched_graph_compute(engine->scheduler, graph) == GGML_STATUS_SUCCESS,
         "a layer failed");
    return engine_now() - began;
}

/* Says what the adapter took. */
static const char *taken_of(const struct engine *engine, struct ggml_cgraph *graph) {
    bool attends = false, stores = false;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor *node = ggml_graph_node(graph, i);
        bool ours =
            ggml_backend_sched_get_tensor_backend(engine->scheduler, node) == engine->backends[0];
        attends = attends || (ours && node->op == GGML_OP_FLASH_ATTN_EXT);
        stores = stores || (ours && node->op == GGML_OP_SET_ROWS);
    }
    return attends && stores ? ""
           : attends         ? " (ggml stores)"
           : stores          ? " (only stores)"
                             : " (ggml's own)";
}

/* Runs both in turns: what else the machine does hardly changes from one to the next, so that the
   median of their ratios is exact. */
static void time_layers(const struct engine engines[2], struct ggml_cgraph *graphs[2],
                        double seconds[2][LAYER_ROUNDS]) {
    for (int i = -4; i < 2 * LAYER_ROUNDS; i++) {
        double time = time_layer(&engines[i & 1], graphs[i & 1]);
        if (i >= 0)
            seconds[i & 1][i / 2] = time;
    }
}

static void measure_layer(const struct engine engines[2], const struct shape *given) {
    struct shape shape = *given;
    shape.cells = (given->cells + shape.queries + PADDING - 1) / PADDING * PADDING;
    shape.hidden = shape.cells - given->cells - shape.queries;
    OWN(scene_close) struct scene scene = scene_open(&shape, 1, ggml_backend_cpu_buffer_type());
    OWN(rows_close) struct rows rows = rows_open(&shape);
    static double seconds[2][LAYER_ROUNDS], speeds[LAYER_ROUNDS];
    struct ggml_context *contexts[2];
    struct ggml_cgraph *graphs[2];
    for (int i = 0; i < 2; i++)
        graphs[i] = build_layer(&scene, &rows, contexts[i] = engine_context());
    time_layers(engines, graphs, seconds);
    for (int i = 0; i < LAYER_ROUNDS; i++)
        speeds[i] = seconds[1][i] / seconds[0][i];
    report(&shape, given->cells, median(seconds[0], LAYER_ROUNDS), median(seconds[1], LAYER_ROUNDS),
           median(speeds, LAYER_ROUNDS), taken_of(&engines[0], graphs[0]));
    for (int i = 0; i < 2; i++) {
        ggml_backend_sched_reset(engines[i].scheduler);
        ggml_free(contexts[i]);
    }
}

/* ---- All of it ---- */

/* Measures a shape with each type of cache. */
static void measure_types(const struct engine engines[2], const struct shape *given, bool mixed,
                          int64_t cells) {
    struct shape shape = *given;
    bool layer = strncmp(given->words, "layer", 5) == 0;
    shape.cells = cells;
    for (int k = 0; k < TYPES && (layer || cells >= shape.queries); k++)
        for (int v = 0; v < TYPES; v++)
            if ((k != v) == mixed) {
                shape.key = types[k];
                shape.value = types[v];
                (layer ? measure_layer : measure)(engines, &shape);
            }
}

int main(int argc, char **argv) {
    if (engine_load() == NULL || argc < 5)
        return 1;
    engine_measures(atoi(argv[1]));
    const struct engine engines[2] = {engine_open(true, atoi(argv[1])),
                                      engine_open(false, atoi(argv[1]))};
    printf("%-28s %-6s %-6s %6s %10s %10s %8s\n", "attention", "K", "V", "depth", "kvmill, us",
           "ggml, us", "speed");
    for (int d = 4; d < argc; d++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if (strncmp(shapes[s].words, argv[2], strlen(argv[2])) == 0)
                measure_types(engines, &shapes[s], strcmp(argv[3], "mixed") == 0, atoll(argv[d]));
    return 0;
}
