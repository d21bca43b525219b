/* Attention's time beside ggml's own, in one process: lines of words, microseconds of both, and how
   many times as fast the adapter is.

     times THREADS WORDS DEPTH...    GGML_BACKEND_PATH names the adapter; WORDS: how lines begin

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { ROUNDS = 5 };

static const enum ggml_type types[] = {GGML_TYPE_F16,   GGML_TYPE_Q8_0, GGML_TYPE_Q5_1,
                                       GGML_TYPE_Q5_0,  GGML_TYPE_Q4_1, GGML_TYPE_Q4_0,
                                       GGML_TYPE_IQ4_NL};

/* A token, and a prompt, of models' heads; cells are the depth. */
static const struct shape shapes[] = {
    {"1 token, 32/8 x 64", 0, 0, 64, 64, 32, 8, 1, 0, 1, CAUSAL, TOKENS, 0, 0, 0, 0},
    {"1 token, 14/2 x 64", 0, 0, 64, 64, 14, 2, 1, 0, 1, CAUSAL, TOKENS, 0, 0, 0, 0},
    {"1 token, 32/8 x 128", 0, 0, 128, 128, 32, 8, 1, 0, 1, CAUSAL, TOKENS, 0, 0, 0, 0},
    {"1 token, 4/1 x 256", 0, 0, 256, 256, 4, 1, 1, 0, 1, CAUSAL, TOKENS, 0, 0, 0, 0},
    {"prompt of 64, 32/8 x 64", 0, 0, 64, 64, 32, 8, 64, 0, 1, CAUSAL, TOKENS, 0, 0, 0, 0},
    {"prompt of 64, 4/1 x 256", 0, 0, 256, 256, 4, 1, 64, 0, 1, CAUSAL, TOKENS, 0, 0, 0, 0},
    {"prompt of 512, 32/8 x 64", 0, 0, 64, 64, 32, 8, 512, 0, 1, CAUSAL, TOKENS, 0, 0, 0, 0},
};

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds) {
    qsort(seconds, ROUNDS, sizeof *seconds, by_size);
    return seconds[ROUNDS / 2];
}

/* In turn, so that both see the same machine. */
static void measure(const struct engine engines[2], const struct shape *shape) {
    struct scene scene = scene_open(shape, 1, ggml_backend_cpu_buffer_type());
    float *result = malloc((size_t)scene_size(&scene) * sizeof *result);
    double seconds[2][ROUNDS];
    int64_t work = shape->queries * shape->cells * shape->heads * shape->key_dim;
    int runs = 2 + (int)(20000000 / work);
    ggml_backend_t backend = NULL;
    for (int i = 0; i < ROUNDS; i++)
        for (int e = 0; e < 2; e++) {
            ggml_backend_t run = engine_run(&engines[e], &scene, result, runs, &seconds[e][i]);
            backend = e == 0 ? run : backend;
        }
    double ours = 1e6 * median(seconds[0]) / (runs - 1),
           theirs = 1e6 * median(seconds[1]) / (runs - 1);
    printf("%-26s %-5s %6lld %10.0f %10.0f %8.2f%s\n", shape->words, ggml_type_name(shape->key),
           (long long)shape->cells, ours, theirs, theirs / ours,
           backend == engines[0].backends[0] ? "" : " (ggml's own)");
    fflush(stdout);
    free(result);
    scene_close(&scene);
}

static void quiet(enum ggml_log_level level, const char *text, void *data) {
    (void)level, (void)text, (void)data;
}

/* Caches of a shape. */
static void measure_types(const struct engine engines[2], const struct shape *given,
                          int64_t cells) {
    struct shape shape = *given;
    shape.cells = cells;
    for (size_t t = 0; t < sizeof types / sizeof *types && cells >= shape.queries; t++) {
        shape.key = shape.value = types[t];
        measure(engines, &shape);
    }
}

int main(int argc, char **argv) {
    ggml_log_set(quiet, NULL);
    ggml_backend_load_all();
    adapter = ggml_backend_reg_by_name("kvmill");
    if (adapter == NULL || argc < 4)
        return 1;
    engine_measures(atoi(argv[1]));
    const struct engine engines[2] = {engine_open(true, atoi(argv[1])),
                                      engine_open(false, atoi(argv[1]))};
    printf("%-26s %-5s %6s %10s %10s %8s\n", "attention", "cache", "depth", "kvmill, us",
           "ggml, us", "speed");
    for (int d = 3; d < argc; d++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if (strncmp(shapes[s].words, argv[2], strlen(argv[2])) == 0)
                measure_types(engines, &shapes[s], atoll(argv[d]));
    return 0;
}
