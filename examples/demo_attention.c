/* The demo of attention: whole decode steps of a real model with all layers in one cache, and the
   prefill of a prompt, compared with the fastest possible read of the same memory.

   The cache is filled with random keys and values.  Outputs are compared with those of the
   portable kernels, which share no code with the generated ones. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kvmill.h>

#include "demo_busy.h"
#include "demo_pack.h" /* the pack, its plan function and the cache's type; by the demo script */

enum { LAYERS = 32, HEADS = 32, KV_HEADS = 8, HEAD_DIM = 128 }; /* Llama-3.1-8B */
enum { PROMPT = 512, SAMPLES = 3, LINE = 64, AHEAD = 2048 };
enum { ROW_BYTES = DEMO_QUANT_GROUP ? HEAD_DIM : 2 * HEAD_DIM };
enum { ROW_SCALES = DEMO_QUANT_GROUP ? HEAD_DIM / (DEMO_QUANT_GROUP + !DEMO_QUANT_GROUP) : 0 };

static const DLDataType bfloat16 = {kDLBfloat, 16, 1}, float16 = {kDLFloat, 16, 1},
                        int8 = {kDLInt, 8, 1}, int64 = {kDLInt, 64, 1};

/* ---- Helpers ---- */

static void check(kvmill_status status, const kvmill_error *error) {
    if (status == KVMILL_OK)
        return;
    fprintf(stderr, "%s: %s\n", kvmill_status_name(status), error->message);
    exit(1);
}

static void *allocate(size_t bytes) {
    void *memory = aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
    if (memory == NULL)
        exit((fprintf(stderr, "out of memory\n"), 1));
    return memory;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint64_t random_bits(void) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static kvmill_pool *pool; /* a thread for each core */

/* Returns the bytes that may be used: half of the free memory. */
static double free_memory(void) {
    char line[128];
    double kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file != NULL && kib == 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %lf kB", &kib) != 1)
            kib = 0;
    if (file != NULL)
        fclose(file);
    return kib > 0 ? kib * 1024 / 2 : 1e9;
}

/* ---- The model ---- */

struct tensor {
    DLTensor dl;
    int64_t shape[6];
};

struct model {
    int64_t context;
    int layers; /* as many as fit in memory; the model's layers take turns */
    int threads;
    char *cache_data, *scale_data;
    size_t cache_bytes, scale_bytes;
    uint16_t *query_data, *key_data, *value_data, *output_data;
    struct tensor query, key, value, output, start, cache, scale;
    int64_t start_data;
    kvmill_plan *plans[LAYERS];
    void *workspace;
};

static void set_tensor(struct tensor *tensor, void *data, DLDataType type, int rank,
                       const int64_t *shape) {
    memcpy(tensor->shape, shape, (size_t)rank * sizeof *shape);
    tensor->dl = (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = type, .shape = tensor->shape};
}

/* Returns random bfloat16 in [-1, 1). */
static uint16_t *random_activations(size_t count) {
    uint16_t *data = allocate(count * 2);
    for (size_t i = 0; i < count; i++) {
        float x = (float)(random_bits() & 0xffff) / 32768 - 1;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        data[i] = (uint16_t)(bits >> 16);
    }
    return data;
}

/* Fills a layer with float16 of 1/16 to 1, or with codes; scales are about 1/128. */
static void fill_layer(uint16_t *words, size_t count, bool codes) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_bits();
        words[i] = (uint16_t)(codes ? bits : (bits & 0x83ff) | (11 + (bits >> 10 & 3)) << 10);
    }
}

static void fill(char *data, size_t bytes, int layers, bool codes) {
    size_t one = bytes / (size_t)layers;
    fill_layer((uint16_t *)(void *)data, one / 2, codes);
    for (int layer = 1; layer < layers; layer++)
        memcpy(data + (size_t)layer * one, data, one);
}

static void fill_scales(uint16_t *scales, size_t count) {
    for (size_t i = 0; i < count; i++)
        scales[i] = (uint16_t)(0x2000 | (random_bits() & 0xff));
}

static double row_bytes(void) {
    return ROW_BYTES + 2.0 * ROW_SCALES;
}

static void open_cache(struct model *model) {
    const double layer = 2.0 * KV_HEADS * (double)model->context * row_bytes();
    double fitting = free_memory() / layer;
    model->layers = fitting >= LAYERS ? LAYERS : fitting >= 1 ? (int)fitting : 1;
    int64_t shape[] = {model->layers, 1, 2, KV_HEADS, model->context, HEAD_DIM};
    size_t rows = (size_t)model->layers * 2 * KV_HEADS * (size_t)model->context;
    model->cache_bytes = rows * ROW_BYTES;
    model->scale_bytes = rows * ROW_SCALES * 2;
    model->cache_data = allocate(model->cache_bytes);
    fill(model->cache_data, model->cache_bytes, model->layers, DEMO_QUANT_GROUP != 0);
    set_tensor(&model->cache, model->cache_data, DEMO_QUANT_GROUP ? int8 : float16, 6, shape);
    if (model->scale_bytes == 0)
        return;
    shape[5] = ROW_SCALES;
    model->scale_data = allocate(model->scale_bytes);
    fill_scales((uint16_t *)(void *)model->scale_data, model->scale_bytes / 2);
    set_tensor(&model->scale, model->scale_data, float16, 6, shape);
}

static void open_model(struct model *model, int64_t context) {
    kvmill_error error;
    *model = (struct model){.context = context, .threads = kvmill_pool_threads(pool)};
    open_cache(model);
    model->query_data = random_activations((size_t)PROMPT * HEADS * HEAD_DIM);
    model->key_data = random_activations((size_t)PROMPT * KV_HEADS * HEAD_DIM);
    model->value_data = random_activations((size_t)PROMPT * KV_HEADS * HEAD_DIM);
    model->output_data = allocate((size_t)PROMPT * HEADS * HEAD_DIM * 2);
    for (int i = 0; i < model->layers; i++)
        check(DEMO_PLAN(model->layers, i, model->threads, &model->plans[i], &error), &error);
    model->workspace = allocate(kvmill_plan_workspace_size(model->plans[0]));
}

static void close_model(struct model *model) {
    for (int i = 0; i < model->layers; i++)
        kvmill_plan_destroy(model->plans[i]);
    void *const memory[] = {model->cache_data, model->scale_data, model->query_data,
                            model->key_data,   model->value_data, model->output_data,
                            model->workspace};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
}

/* ---- Running ---- */

static void run_plan(const kvmill_plan *plan, const DLTensor *const *tensors, void *workspace,
                     int threads) {
    const size_t count = KVMILL_CACHE_ATTENTION_TENSORS;
    kvmill_error error;
    check(threads > 1 ? kvmill_run_on(plan, pool, tensors, count, workspace, &error)
                      : kvmill_run(plan, tensors, count, workspace, &error),
          &error);
}

static void set_tokens(struct model *model, int64_t start, int64_t tokens) {
    const int64_t heads[] = {1, tokens, HEADS, HEAD_DIM}, kv[] = {1, tokens, KV_HEADS, HEAD_DIM};
    model->start_data = start;
    set_tensor(&model->start, &model->start_data, int64, 0, heads);
    set_tensor(&model->query, model->query_data, bfloat16, 4, heads);
    set_tensor(&model->output, model->output_data, bfloat16, 4, heads);
    set_tensor(&model->key, model->key_data, bfloat16, 4, kv);
    set_tensor(&model->value, model->value_data, bfloat16, 4, kv);
}

static void run_layer(struct model *model, const kvmill_plan *plan, void *workspace, int threads) {
    const DLTensor *tensors[KVMILL_CACHE_ATTENTION_TENSORS] = {
        [KVMILL_CACHE_ATTENTION_QUERY] = &model->query.dl,
        [KVMILL_CACHE_ATTENTION_CURRENT_KEY] = &model->key.dl,
        [KVMILL_CACHE_ATTENTION_CURRENT_VALUE] = &model->value.dl,
        [KVMILL_CACHE_ATTENTION_START_POS] = &model->start.dl,
        [KVMILL_CACHE_ATTENTION_CACHE] = &model->cache.dl,
        [KVMILL_CACHE_ATTENTION_SCALE] = model->scale_data ? &model->scale.dl : NULL,
        [KVMILL_CACHE_ATTENTION_ATTN_OUTPUT] = &model->output.dl,
    };
    run_plan(plan, tensors, workspace, threads);
}

/* Stores and attends in all layers; returns the seconds. */
static double run_step(struct model *model, int threads) {
    double begin = now();
    for (int i = 0; i < LAYERS; i++)
        run_layer(model, model->plans[i % model->layers], model->workspace, threads);
    return now() - begin;
}

/* ---- The limit ---- */

typedef uint64_t line_words __attribute__((vector_size(LINE), may_alias));

/* Reads four streams in turn, and prefetches each line AHEAD bytes before its load. */
static uint64_t read_share(const char *from, size_t bytes) {
    line_words sums[4] = {{0}};
    size_t stream = bytes / 4 / LINE * LINE;
    for (size_t i = 0; i < stream; i += LINE)
        for (size_t s = 0; s < 4; s++) {
            __builtin_prefetch(from + s * stream + i + AHEAD);
            sums[s] ^= *(const line_words *)(const void *)(from + s * stream + i);
        }
    line_words all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
    return all[0] ^ all[1] ^ all[2] ^ all[3] ^ all[4] ^ all[5] ^ all[6] ^ all[7];
}

struct reading {
    const unsigned char *from;
    size_t share;
};

static void read_one_share(void *context, int64_t i) {
    static _Thread_local volatile uint64_t sink;
    const struct reading *reading = context;
    sink = read_share(reading->from + (size_t)i * reading->share, reading->share);
    (void)sink;
}

/* Returns the bytes per second of only reading the cache, with a share for each thread. */
static double read_rate(const struct model *model, int threads) {
    struct reading reading = {model->cache_data, model->cache_bytes / (size_t)threads};
    double begin = now();
    kvmill_pool_for(pool, threads, read_one_share, &reading);
    return (double)reading.share * threads / (now() - begin);
}

/* ---- Checking ---- */

static float as_float(uint16_t bfloat) {
    uint32_t bits = (uint32_t)bfloat << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static kvmill_plan *portable_plan(const struct model *model, int layer) {
    kvmill_plan_options options = {.struct_size = sizeof options, .portable = 1};
    kvmill_cache_attention op;
    kvmill_plan *plan;
    kvmill_error error;
    DEMO_INIT(&op);
    op.num_layer = model->layers;
    op.layer_idx = layer;
    check(kvmill_plan_multi_head_cache_attention(&op, &options, &plan, &error), &error);
    return plan;
}

/* Returns the largest difference from the portable kernels' output, relative to the largest
   output. */
static double difference(struct model *model, int layer) {
    size_t count = (size_t)model->query.shape[1] * HEADS * HEAD_DIM;
    uint16_t *outputs = allocate(count * 2);
    double largest = 0, worst = 0;
    kvmill_plan *plan = portable_plan(model, layer);
    void *workspace = allocate(kvmill_plan_workspace_size(plan));
    run_layer(model, model->plans[layer], model->workspace, model->threads);
    memcpy(outputs, model->output_data, count * 2);
    run_layer(model, plan, workspace, 1);
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(as_float(model->output_data[i])));
        worst = fmax(worst, fabs(as_float(model->output_data[i]) - as_float(outputs[i])));
    }
    free(workspace);
    free(outputs);
    kvmill_plan_destroy(plan);
    return worst / largest;
}

/* bfloat16 has 8 binary digits: near the largest output, neighbours are that far apart. */
static bool print_check(struct model *model, const char *what, int layer) {
    const double allowed = 1.0 / 128;
    double found = difference(model, layer);
    printf("  %s, layer %d against the portable kernels: differs by %.5f of the largest output%s\n",
           what, layer, found, found <= allowed ? "" : ": WRONG");
    return found <= allowed;
}

/* ---- Report ---- */

static void decode(struct model *model, int threads) {
    double best = INFINITY, rate = 0;
    set_tokens(model, model->context - SAMPLES, 1);
    for (int i = 0; i < SAMPLES; i++) {
        double seconds = run_step(model, threads), reading = read_rate(model, threads);
        model->start_data++;
        best = seconds < best ? seconds : best;
        rate = reading > rate ? reading : rate;
    }
    model->start_data--;
    double bytes = 2.0 * LAYERS * KV_HEADS * (double)model->context * row_bytes();
    printf("  decode at %6lld tokens  %2d thread%s %9.2f ms a token %7.1f GB/s, %.2f of reading at "
           "%.1f\n",
           (long long)model->context, threads, threads == 1 ? " " : "s", best * 1e3,
           bytes / best / 1e9, bytes / best / rate, rate / 1e9);
}

static void prefill(struct model *model, int threads) {
    set_tokens(model, 0, PROMPT);
    double seconds = run_step(model, threads);
    double operations = 4.0 * LAYERS * HEADS * HEAD_DIM * PROMPT * (PROMPT + 1) / 2;
    printf("  prefill of %5d tokens  %2d thread%s %9.2f ms a prompt %6.1f GFLOP/s\n", PROMPT,
           threads, threads == 1 ? " " : "s", seconds * 1e3, operations / seconds / 1e9);
}

static void say_what(const struct model *model) {
    char text[1024];
    kvmill_plan_describe(model->plans[0], text, sizeof text);
    const char *kernels = strstr(text, "attend with ");
    if (kernels != NULL)
        printf("  %.*s, ...\n", (int)strcspn(kernels, ","), kernels);
    printf("  cache of %.2f GiB%s\n", (double)(model->cache_bytes + model->scale_bytes) / (1 << 30),
           model->layers < LAYERS ? ": memory is short" : "");
    if (model->layers < LAYERS)
        printf("  the %d layers of the model take turns in the %d there is memory for\n", LAYERS,
               model->layers);
}

/* Measures a phase with one thread, then with all. */
static void measure(struct model *model, void (*phase)(struct model *model, int threads)) {
    phase(model, 1);
    if (model->threads > 1)
        phase(model, model->threads);
}

static bool show_prefill(struct model *model) {
    measure(model, prefill);
    return print_check(model, "prefill", 0);
}

static bool show_decode(struct model *model) {
    measure(model, decode);
    return print_check(model, "decode", model->layers - 1);
}

static bool show(int64_t context, bool with_prompt) {
    struct model model;
    open_model(&model, context);
    say_what(&model);
    bool right = (!with_prompt || show_prefill(&model)) & show_decode(&model);
    close_model(&model);
    return right;
}

int main(void) {
    double begin = now();
    kvmill_error error;
    check(kvmill_pool_create(0, NULL, &pool, &error), &error);
    printf("%s, %d layers, %d query heads on %d kv heads x %d, %s\n", DEMO_NAME, LAYERS, HEADS,
           KV_HEADS, HEAD_DIM, DEMO_CACHE);
    bool right = show(4096, true);
    right = show(32768, false) && right;
    printf("\n");
    say_if_busy(now() - begin);
    kvmill_pool_destroy(pool);
    return right ? 0 : 1;
}
