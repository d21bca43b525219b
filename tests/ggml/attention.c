/* Tests of the adapter in ggml's scheduler: its results are compared with ggml's own and with an
   oracle in double precision; and which nodes it takes.
    attention            GGML_BACKEND_PATH names the adapter: all tests
    attention PATH DIM   exits with 0 if ggml loads PATH, and if that takes a node with heads of
    DIM; otherwise with 1 or 2

   SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "../tap.h"
#include "ggml_engine.h"

enum { THREADS = 2 };

/* ---- Cases ---- */

#define F32  GGML_TYPE_F32
#define F16  GGML_TYPE_F16
#define Q8_0 GGML_TYPE_Q8_0
#define Q4_0 GGML_TYPE_Q4_0
#define Q5_1 GGML_TYPE_Q5_1
#define Q4_1 GGML_TYPE_Q4_1
#define Q5_0 GGML_TYPE_Q5_0
#define IQ4  GGML_TYPE_IQ4_NL

/* Types of K and V for which tests/ggml/specs.json has kernels. */
static const enum ggml_type pairs[][2] = {{F32, F32},   {F16, F16},   {Q8_0, Q8_0}, {Q4_0, Q4_0},
                                          {Q5_1, Q4_0}, {Q5_0, Q4_1}, {IQ4, IQ4}};

/* Heads, kv heads, queries, cells, streams, mask, layout, soft-cap, max_bias, sinks, whether the
   mask has heads, hidden cells. */
static const struct shape shapes[] = {
    {"one query, one cell", F16, F16, 64, 64, 8, 2, 1, 1, 1, NONE, TOKENS, 0, 0, 0, 0, 0},
    {"one query", F16, F16, 64, 64, 8, 2, 1, 700, 1, EMPTY, TOKENS, 0, 0, 0, 0, 0},
    {"one query, heads apart", F16, F16, 64, 64, 8, 2, 1, 600, 1, WINDOW, HEADS, 0, 0, 0, 0, 0},
    {"one query of a kv head each", F16, F16, 64, 64, 5, 5, 1, 65, 1, CAUSAL, TOKENS, 0, 0, 1, 0,
     0},
    {"seven heads on one", F16, F16, 64, 64, 14, 2, 2, 130, 1, CAUSAL, TOKENS, 0, 0, 0, 0, 0},
    {"a prompt", F16, F16, 64, 64, 8, 2, 70, 100, 1, CAUSAL, TOKENS, 0, 0, 0, 0, 0},
    {"a prompt in a window", F16, F16, 64, 64, 8, 4, 40, 333, 1, WINDOW, HEADS, 0, 0, 1, 0, 0},
    {"queries of three sequences", F16, F16, 64, 64, 8, 2, 6, 256, 1, SEQUENCES, TOKENS, 0, 0, 0, 0,
     0},
    {"holes", F16, F16, 64, 64, 8, 2, 5, 97, 1, HOLES, TOKENS, 0, 0, 0, 0, 0},
    {"streams", F16, F16, 64, 64, 8, 2, 3, 50, 3, CAUSAL, TOKENS, 0, 0, 0, 0, 0},
    {"streams, heads apart, sinks", F16, F16, 64, 64, 8, 2, 1, 50, 4, HOLES, HEADS, 0, 0, 1, 0, 0},
    {"ALiBi", F16, F16, 64, 64, 12, 2, 3, 60, 1, CAUSAL, TOKENS, 0, 8, 0, 0, 0},
    {"cells at the end are hidden", F16, F16, 64, 64, 8, 2, 3, 256, 2, CAUSAL, TOKENS, 0, 0, 1, 0,
     201},
    {"a mask of each head", F16, F16, 64, 64, 8, 2, 4, 77, 2, CAUSAL, TOKENS, 0, 0, 0, 1, 0},
};

/* Shapes that are tried with one pair of types only. */
static const struct shape others[] = {
    {"soft-cap", GGML_TYPE_BF16, F32, 64, 64, 8, 2, 3, 90, 1, CAUSAL, TOKENS, 5, 0, 0, 0, 0},
    {"soft-cap, no mask", GGML_TYPE_BF16, F32, 64, 64, 8, 2, 3, 90, 2, NONE, HEADS, 5, 0, 1, 0, 0},
    {"heads of 96 and 64", F16, F16, 96, 64, 3, 1, 9, 41, 1, CAUSAL, TOKENS, 0, 0, 0, 0, 0},
};

static double error_of(const float *result, const double *expected, int64_t count) {
    double worst = 0;
    for (int64_t n = 0; n < count; n++) {
        double error = fabs((double)result[n] - expected[n]);
        worst = error > worst || isnan(error) ? (isnan(error) ? INFINITY : error) : worst;
    }
    return worst;
}

static double largest_of(const double *numbers, int64_t count) {
    double most = 0;
    for (int64_t n = 0; n < count; n++)
        most = fmax(most, fabs(numbers[n]));
    return most;
}

/* Checks that our error is no larger than ggml's, except for a few units in the last place. */
static void try_shape(const struct engine *ours, const struct engine *theirs,
                      const struct shape *shape, uint64_t seed) {
    OWN(scene_close) struct scene scene = scene_open(shape, seed, ggml_backend_cpu_buffer_type());
    int64_t size = scene_size(&scene), before = engine_nodes(ours->backends[0]);
    FREED double *expected = malloc((size_t)size * sizeof *expected);
    FREED float *result = malloc((size_t)size * sizeof *result);
    scene_expect(&scene, expected);
    double largest = largest_of(expected, size);
    bool run = engine_run(theirs, &scene, result, 1, NULL) != NULL;
    double their_error = error_of(result, expected, size) / largest;
    bool here = engine_run(ours, &scene, result, 1, NULL) == ours->backends[0] &&
                engine_nodes(ours->backends[0]) == before + 1;
    double our_error = error_of(result, expected, size) / largest;
    if (!ok(run && here && our_error <= their_error + 2e-6, "%s %s: %s", ggml_type_name(shape->key),
            ggml_type_name(shape->value), shape->words))
        diag("%s; errors: ours %.2e, ggml's %.2e of the largest output",
             here ? "computed by the adapter" : "not computed by the adapter", our_error,
             their_error);
}

static void try_shapes(const struct engine *ours, const struct engine *theirs) {
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            struct shape shape = shapes[s];
            shape.key = pairs[p][0];
            shape.value = pairs[p][1];
            try_shape(ours, theirs, &shape, 1000 * p + s);
        }
    for (size_t s = 0; s < sizeof others / sizeof *others; s++)
        try_shape(ours, theirs, &others[s], s);
}

/* ---- What is ggml's ---- */

static const struct shape usual = {"", F16,    F16,    64, 64, 8, 2, 2, 33,
                                   1,  CAUSAL, TOKENS, 0,  0,  0, 0, 0};

enum { NODE = 1, QUERY = 2, KEY = 4, VALUE = 8, MASK = 16 };

static const struct change left[] = {
    {"a scale of 0", NODE, NO_SCALE, 0, 0},
    {"keys of q4_1, of which no pack has kernels for such values", KEY, TYPE, 0, Q4_1},
    {"values of q8_1, which kvmill does not know", VALUE, TYPE, 0, GGML_TYPE_Q8_1},
    {"queries of float16", QUERY, TYPE, 0, F16},
    {"keys whose elements are apart", KEY, STRIDE, 0, 2},
    {"keys at odd addresses", KEY, STRIDE, 1, 1},
    {"fewer values than keys", VALUE, EXTENT, 1, -1},
    {"values of fewer heads", VALUE, EXTENT, 2, -1},
    {"heads of which no pack has kernels", QUERY | KEY, EXTENT, 0, 8},
    {"a mask that is too short", MASK, EXTENT, 0, -1},
    {"masks of groups of heads", MASK, EXTENT, 2, 1},
    {"another op", NODE, OP, 0, GGML_OP_FLASH_ATTN_BACK},
};

static bool is_taken(const struct shape *shape, const struct change *change) {
    OWN(scene_close) struct scene scene = scene_open(shape, 1, ggml_backend_cpu_buffer_type());
    struct ggml_context *context =
        ggml_init((struct ggml_init_params){16 * ggml_tensor_overhead(), NULL, true});
    struct ggml_tensor *node = scene_node(&scene, context);
    if (change != NULL)
        node_change(node, change);
    bool taken = ggml_backend_dev_supports_op(ggml_backend_reg_dev_get(adapter, 0), node);
    ggml_free(context);
    return taken;
}

/* Checks that the scheduler gives declined nodes to the CPU backend. */
static void test_left(const struct engine *ours) {
    struct shape shape = usual;
    shape.key = GGML_TYPE_Q4_1;
    ok(is_taken(&usual, NULL), "taken");
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        ok(!is_taken(&usual, &left[i]), "declined: %s", left[i].words);
    OWN(scene_close) struct scene scene = scene_open(&shape, 3, ggml_backend_cpu_buffer_type());
    double expected[64 * 8 * 2];
    float result[64 * 8 * 2];
    scene_expect(&scene, expected);
    ok(engine_run(ours, &scene, result, 1, NULL) == ours->backends[1] &&
           error_of(result, expected, scene_size(&scene)) < 0.1,
       "  and computed by ggml");
}

/* ---- Two models at once ---- */

static void *run_model(void *same) {
    struct shape shape = usual;
    shape.cells = 900;
    OWN(engine_close) struct engine engine = engine_open(true, THREADS);
    OWN(scene_close) struct scene scene = scene_open(&shape, 5, ggml_backend_cpu_buffer_type());
    float first[64 * 8 * 2], again[64 * 8 * 2];
    bool equal = engine_run(&engine, &scene, first, 1, NULL) != NULL;
    for (int i = 0; i < 50; i++)
        equal = equal && engine_run(&engine, &scene, again, 1, NULL) != NULL &&
                memcmp(first, again, sizeof first) == 0;
    *(bool *)same = equal && engine_nodes(engine.backends[0]) == 51;
    return NULL;
}

static void test_two_models(void) {
    pthread_t thread;
    bool same[2] = {false, false};
    must(pthread_create(&thread, NULL, run_model, &same[0]) == 0, "no thread");
    run_model(&same[1]);
    pthread_join(thread, NULL);
    ok(same[0] && same[1], "two models at once");
}

static int load(const char *path, int dim) {
    struct shape shape = usual;
    shape.key_dim = shape.value_dim = dim;
    adapter = ggml_backend_load(path);
    return adapter == NULL ? 1 : is_taken(&shape, NULL) ? 0 : 2;
}

int main(int argc, char **argv) {
    if (argc > 2)
        return load(argv[1], atoi(argv[2]));
    if (!ok(engine_load() != NULL, "loaded by GGML_BACKEND_PATH"))
        return done_testing();
    ok(ggml_backend_dev_type(ggml_backend_reg_dev_get(adapter, 0)) ==
           GGML_BACKEND_DEVICE_TYPE_ACCEL,
       "  as an accelerator");
    struct engine ours = engine_open(true, THREADS), theirs = engine_open(false, THREADS);
    try_shapes(&ours, &theirs);
    test_left(&ours);
    engine_close(&ours);
    engine_close(&theirs);
    test_two_models();
    ggml_backend_unload(adapter);
    ok(ggml_backend_reg_by_name("kvmill") == NULL, "unloaded");
    adapter = ggml_backend_load(getenv("GGML_BACKEND_PATH"));
    ok(adapter != NULL && is_taken(&usual, NULL), "  and loaded again");
    return done_testing();
}
