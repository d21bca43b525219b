/* Tests of SET_ROWS in ggml's scheduler: caches have the bytes of ggml's reference functions; and
   which nodes the adapter takes.
    store                   GGML_BACKEND_PATH names the adapter: all tests
    store THREADS ROWS...   prints the times of storing this many rows, and ggml's

   SPDX-License-Identifier: Apache-2.0 */
#include "../tap.h"
#include "ggml_engine.h"

/* Above MOST_HALVES elements ggml is as fast, and the adapter declines. */
enum { CAPACITY = 700, ROUNDS = 40, MOST_HALVES = 24576 };

static const enum ggml_type types[] = {GGML_TYPE_F16,  GGML_TYPE_BF16,  GGML_TYPE_Q8_0,
                                       GGML_TYPE_Q5_1, GGML_TYPE_Q5_0,  GGML_TYPE_Q4_1,
                                       GGML_TYPE_Q4_0, GGML_TYPE_IQ4_NL};

/* Elements of a row, number of rows, type and order of slots, floats between rows. */
struct storing {
    const char *words;
    int64_t elements, rows;
    enum ggml_type slots;
    enum { ASCENDING, DESCENDING, APART } order;
    int64_t gap;
};

static const struct storing shapes[] = {
    {"one row", 512, 1, GGML_TYPE_I64, ASCENDING, 0},
    {"rows of one head", 64, 5, GGML_TYPE_I32, ASCENDING, 0},
    {"three heads, holes between rows", 192, 40, GGML_TYPE_I64, APART, 64},
    {"a prompt", 1024, 300, GGML_TYPE_I64, ASCENDING, 0},
    {"slots that descend", 256, 70, GGML_TYPE_I64, DESCENDING, 0},
    {"as many halves as are taken", 512, 48, GGML_TYPE_I64, ASCENDING, 0},
    {"and a row more", 512, 49, GGML_TYPE_I64, ASCENDING, 0},
    {"no rows", 256, 0, GGML_TYPE_I64, ASCENDING, 0},
};

/* ---- Tensors ---- */

struct stored {
    struct ggml_context *inputs;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *cache, *all, *rows, *slots; /* rows is a view of `all` */
};

static int64_t slot_of(const struct storing *shape, int64_t n) {
    return shape->order == ASCENDING    ? 3 + n
           : shape->order == DESCENDING ? CAPACITY - 1 - n
                                        : 2 + n * 7 % (CAPACITY - 3);
}

static void fill(const struct stored *stored, const struct storing *shape) {
    uint64_t seed = 11;
    float *rows = stored->all->data;
    for (int64_t i = 0; i < ggml_nelements(stored->all); i++)
        rows[i] = (float)ldexp(draw(&seed), (int)(i / 32 % 13) - 6);
    for (int64_t n = 0; n < shape->rows; n++)
        if (shape->slots == GGML_TYPE_I64)
            ((int64_t *)stored->slots->data)[n] = slot_of(shape, n);
        else
            ((int32_t *)stored->slots->data)[n] = (int32_t)slot_of(shape, n);
    memset(stored->cache->data, 0x5a, ggml_nbytes(stored->cache));
}

static struct stored stored_open(const struct storing *shape, enum ggml_type type) {
    struct ggml_init_params params = {8 * ggml_tensor_overhead(), NULL, true};
    struct stored stored = {.inputs = ggml_init(params)};
    stored.cache = ggml_new_tensor_2d(stored.inputs, type, shape->elements, CAPACITY);
    stored.all =
        ggml_new_tensor_2d(stored.inputs, GGML_TYPE_F32, shape->elements + shape->gap, shape->rows);
    stored.slots = ggml_new_tensor_1d(stored.inputs, shape->slots, shape->rows);
    stored.buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(stored.inputs, ggml_backend_cpu_buffer_type());
    stored.rows =
        ggml_view_2d(stored.inputs, stored.all, shape->elements, shape->rows, stored.all->nb[1], 0);
    fill(&stored, shape);
    return stored;
}

static void stored_close(struct stored *stored) {
    ggml_backend_buffer_free(stored->buffer);
    ggml_free(stored->inputs);
}

static unsigned char *expect(const struct stored *stored, const struct storing *shape) {
    const struct ggml_tensor *cache = stored->cache;
    unsigned char *expected = malloc(ggml_nbytes(cache));
    memset(expected, 0x5a, ggml_nbytes(cache));
    for (int64_t n = 0; n < shape->rows; n++) {
        const float *row = (const float *)stored->all->data + n * (shape->elements + shape->gap);
        ggml_get_type_traits(cache->type)
            ->from_float_ref(row, expected + (size_t)slot_of(shape, n) * cache->nb[1],
                             shape->elements);
    }
    return expected;
}

static ggml_backend_t store(const struct engine *engine, const struct stored *stored, int runs,
                            double *seconds) {
    struct ggml_context *context = engine_context();
    struct ggml_tensor *node = ggml_set_rows(context, stored->cache, stored->rows, stored->slots);
    ggml_backend_t backend = engine_run_node(engine, context, node, runs, seconds);
    ggml_free(context);
    return backend;
}

/* ---- What is stored ---- */

static void try_shape(const struct engine *ours, const struct storing *shape, enum ggml_type type) {
    OWN(stored_close) struct stored stored = stored_open(shape, type);
    FREED unsigned char *expected = expect(&stored, shape);
    bool left = type == GGML_TYPE_F16 && shape->elements * shape->rows > MOST_HALVES;
    bool here = store(ours, &stored, 1, NULL) == ours->backends[0];
    ok(here != left && memcmp(stored.cache->data, expected, ggml_nbytes(stored.cache)) == 0,
       "%s: %s", ggml_type_name(type), shape->words);
    if (here == left)
        diag(left ? "stored by the adapter" : "not stored by the adapter");
}

/* ---- What is ggml's ---- */

enum { NODE = 1, ROWS = 2, SLOTS = 4 };

static const struct change left[] = {
    {"rows of float16", ROWS, TYPE, 0, GGML_TYPE_F16},
    {"rows that are no multiple of 64", NODE | ROWS, EXTENT, 0, -32},
    {"a cache of float32", NODE, TYPE, 0, GGML_TYPE_F32},
    {"a cache of q8_1", NODE, TYPE, 0, GGML_TYPE_Q8_1},
    {"slots of more caches than there are", SLOTS, EXTENT, 1, 1},
    {"rows of more caches", ROWS, EXTENT, 2, 1},
    {"too few slots", SLOTS, EXTENT, 0, -1},
};

static bool is_taken(const struct change *change) {
    OWN(stored_close) struct stored stored = stored_open(&shapes[0], GGML_TYPE_Q8_0);
    struct ggml_context *context = engine_context();
    struct ggml_tensor *node = ggml_set_rows(context, stored.cache, stored.rows, stored.slots);
    if (change != NULL)
        node_change(node, change);
    bool taken = ggml_backend_dev_supports_op(ggml_backend_reg_dev_get(adapter, 0), node);
    ggml_free(context);
    return taken;
}

/* ---- Times ---- */

/* Measures both in turns, so that the machine is equally busy.  Takes the shortest of many short
   rounds, in which other programs did not run. */
static void measure(const struct engine engines[2], const struct storing *shape,
                    enum ggml_type type) {
    OWN(stored_close) struct stored stored = stored_open(shape, type);
    double least[2] = {INFINITY, INFINITY};
    bool taken = false;
    int runs = 2 + (int)(400000 / (shape->rows * shape->elements));
    for (int i = 0; i < 2 * ROUNDS; i++) {
        double seconds;
        ggml_backend_t backend = store(&engines[i % 2], &stored, runs, &seconds);
        taken = taken || backend == engines[0].backends[0];
        least[i % 2] = fmin(least[i % 2], 1e6 * seconds / (runs - 1));
    }
    printf("%6lld rows of %lld, %-6s %9.2f %9.2f %6.2f%s\n", (long long)shape->rows,
           (long long)shape->elements, ggml_type_name(type), least[0], least[1],
           least[1] / least[0], taken ? "" : " (ggml's own)");
}

static int measure_all(int count, char **argv) {
    const int threads = atoi(argv[0]);
    engine_measures(threads);
    const struct engine engines[2] = {engine_open(true, threads), engine_open(false, threads)};
    printf("%-22s %13s %9s %6s\n", "", "kvmill, us", "ggml, us", "speed");
    for (int i = 1; i < count; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            const struct storing shape = {"", 512, atoll(argv[i]), GGML_TYPE_I64, ASCENDING, 0};
            measure(engines, &shape, types[t]);
        }
    return 0;
}

int main(int argc, char **argv) {
    if (!ok(engine_load() != NULL, "loaded to store"))
        return done_testing();
    if (argc > 2)
        return measure_all(argc - 1, argv + 1);
    OWN(engine_close) struct engine ours = engine_open(true, 2);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            try_shape(&ours, &shapes[s], types[t]);
    ok(is_taken(NULL), "taken");
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        ok(!is_taken(&left[i]), "declined: %s", left[i].words);
    return done_testing();
}
