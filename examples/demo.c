/* The demo: the key and value caches of one layer of a real model, filled as a server fills them.

   Eight sequences of different length are prefilled one by one, then decoded together.  For
   comparison, memcpy calls fill a second cache; the two take turns.  At the end, every byte is
   compared with its value for its position. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kvmill.h>

#include "demo_busy.h"
#include "demo_pack.h" /* DEMO_PACK and the layer's geometry; written by the demo script */

enum { BATCH = 8, STEPS = 300, DIMS = DEMO_HEADS * DEMO_HEAD_DIM };
static const int64_t prompts[BATCH] = {1, 17, 128, 400, 512, 37, 2000, DEMO_CAPACITY - 200};

/* ---- A token's key or value: any function that differs for all tokens ---- */

static uint16_t element(int tensor, int64_t b, int64_t h, int64_t position, int64_t d) {
    uint32_t x = (uint32_t)(((position * 8 + b) * DEMO_HEADS + h) * DEMO_HEAD_DIM + d);
    x = (x ^ x >> 15 ^ (uint32_t)tensor << 30) * 0x2c1b3c6du;
    return (uint16_t)(x >> 13);
}

/* ---- Layouts ---- */

struct layout {
    const char *name;
    int rank;
    int64_t head_step, slot_step; /* elements */
};

static const struct layout layouts[] = {
    {"head-major", 4, (int64_t)DEMO_CAPACITY *DEMO_HEAD_DIM, DEMO_HEAD_DIM},
    {"token-major", 3, DEMO_HEAD_DIM, DIMS},
};

/* Makes a cache or update of `batch` sequences; rows 0 means the whole capacity. */
static DLTensor make_tensor(const struct layout *layout, void *data, int64_t *shape, int64_t batch,
                            int64_t rows) {
    const int64_t by_head[] = {batch, DEMO_HEADS, rows, DEMO_HEAD_DIM};
    const int64_t by_token[] = {batch, rows, DIMS};
    memcpy(shape, layout->rank == 4 ? by_head : by_token, (size_t)layout->rank * sizeof *shape);
    return (DLTensor){.data = data,
                      .device = {kDLCPU, 0},
                      .ndim = layout->rank,
                      .dtype = {kDLBfloat, 16, 1},
                      .shape = shape};
}

static int64_t offset(const struct layout *layout, int64_t b, int64_t h, int64_t slot) {
    return b * DIMS * DEMO_CAPACITY + h * layout->head_step + slot * layout->slot_step;
}

/* ---- Failing ---- */

static void check(kvmill_status status, const kvmill_error *error) {
    if (status == KVMILL_OK)
        return;
    fprintf(stderr, "%s: %s\n", kvmill_status_name(status), error->message);
    exit(1);
}

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (memory == NULL)
        exit((fprintf(stderr, "out of memory\n"), 1));
    return memset(memory, 0xa5, bytes);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- A cache and the plans that fill it ---- */

struct cache {
    const struct layout *layout;
    int tensor; /* 0 key, 1 value */
    uint16_t *data, *by_memcpy, *update;
    kvmill_plan *prefill, *decode;
};

static kvmill_plan *make_plan(const struct layout *layout, int64_t batch, int64_t rows) {
    int64_t past_shape[4], update_shape[4], batch_shape[] = {batch};
    DLTensor past = make_tensor(layout, NULL, past_shape, batch, DEMO_CAPACITY);
    DLTensor update = make_tensor(layout, NULL, update_shape, batch, rows);
    DLTensor indices = {.ndim = 1, .dtype = {kDLInt, 64, 1}, .shape = batch_shape};
    const kvmill_pack *packs[] = {&DEMO_PACK};
    kvmill_plan_options options = {.struct_size = sizeof options, .packs = packs, .pack_count = 1};
    kvmill_tensor_scatter op = {.struct_size = sizeof op,
                                .axis = -2,
                                .mode = DEMO_MODE,
                                .past_cache = &past,
                                .update = &update,
                                .write_indices = &indices};
    kvmill_plan *plan;
    kvmill_error error;
    check(kvmill_plan_tensor_scatter(&op, &options, &plan, &error), &error);
    return plan;
}

static void open_cache(struct cache *cache, const struct layout *layout, int tensor) {
    size_t elements = (size_t)BATCH * DIMS * DEMO_CAPACITY;
    *cache = (struct cache){.layout = layout, .tensor = tensor};
    cache->data = allocate(elements * 2);
    cache->by_memcpy = allocate(elements * 2);
    cache->update = allocate((size_t)DIMS * DEMO_CAPACITY * 2);
    cache->prefill = make_plan(layout, 1, KVMILL_DYNAMIC);
    cache->decode = make_plan(layout, BATCH, 1);
}

static void close_cache(struct cache *cache) {
    kvmill_plan_destroy(cache->prefill);
    kvmill_plan_destroy(cache->decode);
    free(cache->data);
    free(cache->by_memcpy);
    free(cache->update);
}

/* Fills the update with new keys or values of sequences [first, first + count). */
static void fill_update(struct cache *cache, int64_t first, int64_t count, const int64_t *positions,
                        int64_t rows) {
    int64_t by_head = cache->layout->rank == 4;
    for (int64_t b = 0; b < count; b++)
        for (int64_t h = 0; h < DEMO_HEADS; h++)
            for (int64_t s = 0; s < rows; s++) {
                int64_t row =
                    by_head ? (b * DEMO_HEADS + h) * rows + s : (b * rows + s) * DEMO_HEADS + h;
                for (int64_t d = 0; d < DEMO_HEAD_DIM; d++)
                    cache->update[row * DEMO_HEAD_DIM + d] =
                        element(cache->tensor, first + b, h, positions[b] + s, d);
            }
}

/* ---- Filling the cache ---- */

static double run_kvmill(struct cache *cache, const kvmill_plan *plan, int64_t first, int64_t count,
                         int64_t *positions, int64_t rows) {
    int64_t past_shape[4], update_shape[4], batch_shape[] = {count};
    uint16_t *data = cache->data + first * DIMS * DEMO_CAPACITY;
    DLTensor past = make_tensor(cache->layout, data, past_shape, count, DEMO_CAPACITY);
    DLTensor update = make_tensor(cache->layout, cache->update, update_shape, count, rows);
    DLTensor indices = {.data = positions,
                        .device = {kDLCPU, 0},
                        .ndim = 1,
                        .dtype = {kDLInt, 64, 1},
                        .shape = batch_shape};
    const DLTensor *tensors[] = {&past, &update, &indices, &past};
    kvmill_error error;
    double start = now();
    check(kvmill_run(plan, tensors, KVMILL_TENSOR_SCATTER_TENSORS, NULL, &error), &error);
    return now() - start;
}

/* Copies the same rows with one memcpy for each contiguous run. */
static double run_memcpy(struct cache *cache, int64_t first, int64_t count,
                         const int64_t *positions, int64_t rows) {
    int64_t heads = cache->layout->rank == 4 ? DEMO_HEADS : 1;
    int64_t row = DIMS / heads;
    double start = now();
    for (int64_t b = 0; b < count; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t s = 0, run; s < rows; s += run) {
                int64_t slot = (positions[b] + s) % DEMO_CAPACITY;
                run = rows - s < DEMO_CAPACITY - slot ? rows - s : DEMO_CAPACITY - slot;
                memcpy(cache->by_memcpy + offset(cache->layout, first + b, h, slot),
                       cache->update + ((b * heads + h) * rows + s) * row, (size_t)(run * row) * 2);
            }
    return now() - start;
}

/* ---- Phases ---- */

struct phase {
    const char *name;
    double kvmill, memcpy, bytes;
    int calls;
};

/* The two alternate in going first: the second has the update in the processor's cache. */
static void step(struct cache *cache, const kvmill_plan *plan, int64_t first, int64_t count,
                 int64_t *positions, int64_t rows, struct phase *phase) {
    fill_update(cache, first, count, positions, rows);
    if (phase->calls++ % 2 == 0) {
        phase->kvmill += run_kvmill(cache, plan, first, count, positions, rows);
        phase->memcpy += run_memcpy(cache, first, count, positions, rows);
    } else {
        phase->memcpy += run_memcpy(cache, first, count, positions, rows);
        phase->kvmill += run_kvmill(cache, plan, first, count, positions, rows);
    }
    phase->bytes += 2.0 * 2 * (double)(count * rows * DIMS); /* read and written, 2 bytes each */
}

static void prefill(struct cache *cache, struct phase *phase) {
    for (int64_t b = 0; b < BATCH; b++) {
        int64_t start = 0;
        step(cache, cache->prefill, b, 1, &start, prompts[b], phase);
    }
}

static void decode(struct cache *cache, struct phase *phase) {
    int64_t positions[BATCH];
    memcpy(positions, prompts, sizeof positions);
    for (int i = 0; i < STEPS; i++) {
        if (strcmp(DEMO_MODE, "linear") == 0 && positions[BATCH - 1] == DEMO_CAPACITY)
            positions[BATCH - 1] = prompts[BATCH - 1]; /* full: this sequence begins again */
        step(cache, cache->decode, 0, BATCH, positions, 1, phase);
        for (int b = 0; b < BATCH; b++)
            positions[b]++;
    }
}

/* ---- The oracle: the contents of every slot, from positions alone ---- */

/* Returns the last position of sequence b that was stored to a slot, or -1. */
static int64_t position_in(int64_t b, int64_t slot) {
    int64_t last = prompts[b] + STEPS - 1;
    int64_t turns = (last - slot) / DEMO_CAPACITY;
    if (strcmp(DEMO_MODE, "linear") == 0)
        return slot <= last ? slot : -1; /* a sequence that began again wrote the same positions */
    return slot <= last ? slot + turns * DEMO_CAPACITY : -1;
}

static long count_wrong(const struct cache *cache) {
    long wrong = 0;
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < DEMO_HEADS; h++)
            for (int64_t slot = 0; slot < DEMO_CAPACITY; slot++) {
                int64_t position = position_in(b, slot), at = offset(cache->layout, b, h, slot);
                for (int64_t d = 0; d < DEMO_HEAD_DIM; d++)
                    wrong += cache->data[at + d] !=
                             (position < 0 ? 0xa5a5 : element(cache->tensor, b, h, position, d));
            }
    return wrong;
}

/* ---- Report ---- */

static void kernel_of(const kvmill_plan *plan, char kernel[96]) {
    char text[1024];
    kvmill_plan_describe(plan, text, sizeof text);
    const char *at = strstr(text, "store with ");
    snprintf(kernel, 96, "%.*s", (int)strcspn(at + 11, " "), at + 11);
}

static void print_phase(const struct phase *phase, const kvmill_plan *plan) {
    char kernel[96];
    kernel_of(plan, kernel);
    printf("  %-20s %6d %10.2f %8.2f %8.2f   %s\n", phase->name, phase->calls,
           phase->kvmill / phase->calls * 1e6, phase->bytes / phase->kvmill / 1e9,
           phase->memcpy / phase->kvmill, kernel);
}

static long run_layout(const struct layout *layout) {
    struct phase filling = {.name = "prefill, sequence"}, stepping = {.name = "decode, batch of 8"};
    long wrong = 0;
    struct cache cache;
    printf("%s, %s cache of %d slots, %d kv heads x %d, %s\n", DEMO_NAME, DEMO_MODE, DEMO_CAPACITY,
           DEMO_HEADS, DEMO_HEAD_DIM, layout->name);
    printf("  %-20s %6s %10s %8s %8s   %s\n", "", "calls", "us/call", "GB/s", "x memcpy", "kernel");
    for (int tensor = 0; tensor < 2; tensor++) {
        open_cache(&cache, layout, tensor);
        prefill(&cache, &filling);
        decode(&cache, &stepping);
        wrong += count_wrong(&cache);
        if (tensor == 1) {
            print_phase(&filling, cache.prefill);
            print_phase(&stepping, cache.decode);
        }
        close_cache(&cache);
    }
    printf("  every byte of both caches checked: %ld wrong\n\n", wrong);
    return wrong;
}

int main(void) {
    double begin = now();
    long wrong = 0;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        wrong += run_layout(&layouts[i]);
    say_if_busy(now() - begin);
    return wrong != 0;
}
