/* Compares the time of attention with ggml's own, in one process.  Prints a line for each case:
   microseconds of both, and how many times as fast the adapter is.
    times THREADS WORDS TYPES DEPTH...
   GGML_BACKEND_PATH names the adapter.  WORDS: only cases whose lines begin with this.  TYPES of K
   and V: "same" or "mixed".  Cases without kernels are skipped.

   SPDX-License-Identifier: Apache-2.0 */
#include "../tap.h"
#include "engine.h"

enum { ROUNDS = 5 };

static const enum ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
                                       GGML_TYPE_Q8_0, GGML_TYPE_Q5_1, GGML_TYPE_Q5_0,
                                       GGML_TYPE_Q4_1, GGML_TYPE_Q4_0, GGML_TYPE_IQ4_NL};
enum { TYPES = sizeof types / sizeof *types };

/* Head configurations of models, with one token, several tokens, or a prompt; the number of cells
   is the depth. */
#define SHAPE(WORDS, QUERIES, HEADS, KV_HEADS, DIM)                                                \
    {                                                                                              \
        .words = WORDS ", " #HEADS "/" #KV_HEADS " x " #DIM, .key_dim = DIM, .value_dim = DIM,     \
        .heads = HEADS, .kv_heads = KV_HEADS, .queries = QUERIES, .streams = 1, .mask = CAUSAL,    \
        .layout = TOKENS                                                                           \
    }
static const struct shape shapes[] = {
    SHAPE("1 token", 1, 32, 8, 64),         SHAPE("1 token", 1, 14, 2, 64),
    SHAPE("1 token", 1, 32, 8, 128),        SHAPE("1 token", 1, 4, 1, 256),
    SHAPE("1 token", 1, 8, 4, 256),         SHAPE("16 tokens", 16, 14, 2, 64),
    SHAPE("16 tokens", 16, 32, 8, 128),     SHAPE("16 tokens", 16, 8, 4, 256),
    SHAPE("prompt of 64", 64, 32, 8, 64),   SHAPE("prompt of 64", 64, 4, 1, 256),
    SHAPE("prompt of 512", 512, 32, 8, 64),
};

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds) {
    qsort(seconds, ROUNDS, sizeof *seconds, by_size);
    return seconds[ROUNDS / 2];
}

static void report(const struct shape *shape, int runs, double seconds[2][ROUNDS]) {
    double ours = 1e6 * median(seconds[0]) / runs, theirs = 1e6 * median(seconds[1]) / runs;
    printf("%-24s %-6s %-6s %6lld %10.1f %10.1f %8.2f\n", shape->words, ggml_type_name(shape->key),
           ggml_type_name(shape->value), (long long)shape->cells, ours, theirs, theirs / ours);
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
    if (taken)
        report(shape, runs - 1, seconds);
}

/* Measures a shape with each type of cache. */
static void measure_types(const struct engine engines[2], const struct shape *given, bool mixed,
                          int64_t cells) {
    struct shape shape = *given;
    shape.cells = cells;
    for (int k = 0; k < TYPES && cells >= shape.queries; k++)
        for (int v = 0; v < TYPES; v++)
            if ((k != v) == mixed) {
                shape.key = types[k];
                shape.value = types[v];
                measure(engines, &shape);
            }
}

int main(int argc, char **argv) {
    if (engine_load() == NULL || argc < 5)
        return 1;
    engine_measures(atoi(argv[1]));
    const struct engine engines[2] = {engine_open(true, atoi(argv[1])),
                                      engine_open(false, atoi(argv[1]))};
    printf("%-24s %-6s %-6s %6s %10s %10s %8s\n", "attention", "K", "V", "depth", "kvmill, us",
           "ggml, us", "speed");
    for (int d = 4; d < argc; d++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if (strncmp(shapes[s].words, argv[2], strlen(argv[2])) == 0)
                measure_types(engines, &shapes[s], strcmp(argv[3], "mixed") == 0, atoll(argv[d]));
    return 0;
}
