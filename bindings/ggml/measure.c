/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend.h"
#include "device.h"
#include "ggml_calls.h"
#include "host.h"

/* Between two layers' attention, their products read other memory. */
enum { HEADS = 8, KV_HEADS = 2, ROUNDS = 41, WARM_UP = 2, OTHER_BYTES = 16 << 20 };

struct shape {
    enum ggml_type type; /* of the caches */
    int64_t dim, cells;
};

/* ---- A layer ---- */

enum { QUERY, KEY, VALUE, MASK, TENSORS };

struct layer {
    struct ggml_context *inputs, *nodes;
    ggml_backend_buffer_t buffer;
    struct ggml_cgraph *graph;
    struct ggml_tensor *attention;
};

static struct ggml_context *open_context(void) {
    const struct ggml_init_params params = {
        16 * ggml.tensor_overhead() + ggml.graph_overhead() + 4096, NULL, true};
    return ggml.init(params);
}

/* ggml's CPU backend scales the query and the result. */
static void build(struct layer *layer, struct ggml_tensor *const of[TENSORS]) {
    layer->graph = ggml.new_graph(layer->nodes);
    layer->attention = ggml.flash_attn(layer->nodes, ggml.scale(layer->nodes, of[QUERY], 2),
                                       of[KEY], of[VALUE], of[MASK], 0.125F, 0, 0);
    ggml.expand(layer->graph, ggml.scale(layer->nodes, layer->attention, 2));
}

/* Small positive numbers in every type. */
static void fill(struct ggml_tensor *tensor) {
    if (tensor->data != NULL)
        memset(tensor->data, 0x11, (size_t)tensor->ne[3] * tensor->nb[3]);
}

/* layer.buffer is NULL if there is no memory. */
static struct layer layer_open(const struct shape *shape) {
    struct layer layer = {.inputs = open_context(), .nodes = open_context()};
    if (layer.inputs == NULL || layer.nodes == NULL)
        return layer;
    struct ggml_tensor *of[TENSORS] = {
        [QUERY] = ggml.new_tensor(layer.inputs, GGML_TYPE_F32, shape->dim, 1, HEADS, 1),
        [MASK] = ggml.new_tensor(layer.inputs, GGML_TYPE_F16, shape->cells, 1, 1, 1),
    };
    for (int i = KEY; i <= VALUE; i++)
        of[i] = ggml.new_tensor(layer.inputs, shape->type, shape->dim, shape->cells, KV_HEADS, 1);
    build(&layer, of);
    layer.buffer = ggml.alloc(layer.inputs, host.cpu_buffer_type());
    for (int i = 0; i < TENSORS; i++)
        fill(of[i]);
    return layer;
}

static void layer_close(struct layer *layer) {
    if (layer->buffer != NULL)
        ggml.free_buffer(layer->buffer);
    if (layer->inputs != NULL)
        ggml.free(layer->inputs);
    if (layer->nodes != NULL)
        ggml.free(layer->nodes);
}

/* ---- Those that compute it ---- */

/* The threads of kvmill's backend, 0 if ggml computes all, and of ggml's. */
struct runner {
    int own_threads, ggml_threads;
    ggml_backend_t backends[2];
    int count;
    ggml_backend_sched_t sched;
    struct layer layer;
};

static void set_ggml_threads(ggml_backend_t backend, ggml_backend_dev_t device, int threads) {
    void (*set)(ggml_backend_t, int);
    *(void **)&set = device->reg->iface.get_proc_address(device->reg, "ggml_backend_set_n_threads");
    if (set != NULL)
        set(backend, threads);
}

static void add_backend(struct runner *runner, ggml_backend_t backend) {
    if (backend != NULL)
        runner->backends[runner->count++] = backend;
}

static bool runner_open(struct runner *runner, const struct shape *shape) {
    ggml_backend_dev_t cpu = ggml.device_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    bool has_own = runner->own_threads > 0;
    if (has_own)
        add_backend(runner, ggml.init_device(device_own(), NULL));
    add_backend(runner, ggml.init_device(cpu, NULL));
    runner->layer = layer_open(shape);
    if (runner->count < 1 + has_own || runner->layer.buffer == NULL)
        return false;
    if (has_own)
        backend_set_n_threads(runner->backends[0], runner->own_threads);
    set_ggml_threads(runner->backends[runner->count - 1], cpu, runner->ggml_threads);
    runner->sched = ggml.new_sched(runner->backends, NULL, runner->count, 64, false, true);
    return runner->sched != NULL;
}

static void runner_close(struct runner *runner) {
    if (runner->sched != NULL)
        ggml.free_sched(runner->sched);
    layer_close(&runner->layer);
    for (int i = 0; i < runner->count; i++)
        ggml.free_backend(runner->backends[i]);
}

/* ---- Times ---- */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void use_other_memory(void) {
    static unsigned char other[OTHER_BYTES];
    for (size_t i = 0; i < sizeof other; i += 64)
        other[i]++;
}

static double time_of(struct runner *runner) {
    use_other_memory();
    double began = now();
    bool done = ggml.compute(runner->sched, runner->layer.graph) == GGML_STATUS_SUCCESS;
    return done ? now() - began : 0;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median of how many times as fast `one` is as `other`.  They run in turn, so that what
   else the machine does changes both times. */
static double race(struct runner *one, struct runner *other) {
    double speeds[ROUNDS];
    for (int i = -WARM_UP; i < ROUNDS; i++) {
        double own = time_of(one), others = time_of(other);
        if (own == 0)
            return 0;
        if (i >= 0)
            speeds[i] = others / own;
    }
    qsort(speeds, ROUNDS, sizeof *speeds, by_size);
    return speeds[ROUNDS / 2];
}

static double gain_with(struct runner one, struct runner other, const struct shape *shape) {
    bool is_open = runner_open(&one, shape);
    is_open = runner_open(&other, shape) && is_open;
    double gain = is_open ? race(&one, &other) : 0;
    runner_close(&one);
    runner_close(&other);
    return gain;
}

/* ---- Shapes ---- */

static bool find_type(const char *name, enum ggml_type *type) {
    enum { TYPES = 40 };
    for (int i = 0; i < TYPES; i++) {
        const char *found = host.type_name((enum ggml_type)i);
        *type = (enum ggml_type)i;
        if (found != NULL && strcmp(found, name) == 0)
            return true;
    }
    return false;
}

static bool has_kernels(const struct shape *shape) {
    struct layer layer = layer_open(shape);
    bool has = layer.buffer != NULL && backend_judge(layer.attention) != HAS_NO_KERNELS;
    layer_close(&layer);
    return has;
}

/* Finds the head size for which a pack has kernels of this cache. */
static bool find_shape(const char *type, struct shape *shape) {
    static const int64_t dims[] = {64, 128, 256, 80, 96, 112, 192, 160};
    *shape = (struct shape){.cells = 64};
    bool is_there = find_type(type, &shape->type);
    for (size_t i = 0; is_there && i < sizeof dims / sizeof *dims; i++) {
        shape->dim = dims[i];
        if (shape->dim % host.block_size(shape->type) == 0 && has_kernels(shape))
            return true;
    }
    return false;
}

/* ---- Gains ---- */

static int64_t cells_for(double work, double work_of_cell) {
    return work > work_of_cell ? (int64_t)(work / work_of_cell) : 1;
}

/* The less of one thread and of two; kvmill computes a small node on one. */
static double gain_of_split(struct shape *shape, int64_t value) {
    double least = 0;
    for (int threads = 1; threads <= 2; threads++) {
        const struct runner one = {.own_threads = 1, .ggml_threads = threads};
        const struct runner other = {.ggml_threads = threads};
        shape->cells = cells_for((double)value * threads, 2.0 * HEADS * (double)shape->dim);
        double gain = gain_with(one, other, shape);
        least = threads == 1 || gain < least ? gain : least;
    }
    return least;
}

/* With the least work that wakes a thread if `value` is worth one.  A multiply-add counts as four
   bytes. */
static double gain_of_thread(struct shape *shape, int64_t value) {
    const struct runner one = {.own_threads = 2, .ggml_threads = 2};
    const struct runner other = {.own_threads = 1, .ggml_threads = 2};
    shape->cells = cells_for(2.0 * (double)value, 8.0 * HEADS * (double)shape->dim);
    return gain_with(one, other, shape);
}

__attribute__((visibility("default"))) double kvmill_ggml_gain(const char *number, int64_t value) {
    static const char *const types[] = {"f16", "q8_0", "q4_0"};
    bool is_split = strcmp(number, "ggml_split") == 0;
    double least = 0;
    if (device_own() == NULL || (!is_split && strcmp(number, "asleep") != 0))
        return 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct shape shape;
        if (!find_shape(types[i], &shape))
            continue;
        double gain = is_split ? gain_of_split(&shape, value) : gain_of_thread(&shape, value);
        least = least == 0 || gain < least ? gain : least;
    }
    return least;
}
