/* The demo of sparse decoding: steps of one layer over a long context, dense and by two flows, with
   the gain that memory traffic allows and the loss of accuracy.

   The caches of several layers take turns, so that each step reads memory and not a processor's
   cache.  Selected pages are compared with those of the portable kernels. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kvmill.h>

#include "demo_busy.h"
#include "demo_pack.h" /* the packs' functions, and names; by the demo script */
#include "flow_accuracy.h"
#include "flow_keys.h"

enum { TOKENS = 32768, HEADS = 32, KV_HEADS = 8, GROUP = HEADS / KV_HEADS, DIM = 128 };
enum { PAGE = 16, PAGES = TOKENS / PAGE, LAYERS = 4 };
enum { SAMPLES = 9, QUERIES = 6, LINE = 64 };
enum { LAYER_ROWS = 2 * KV_HEADS * TOKENS, FIELD = PAGES * KV_HEADS * DIM, MOST_FIELDS = 2 };

static const DLDataType bfloat16 = {kDLBfloat, 16, 1}, float16 = {kDLFloat, 16, 1},
                        int64 = {kDLInt, 64, 1}, int32 = {kDLInt, 32, 1};

/* ---- Helpers ---- */

static void check(kvmill_status status, const kvmill_error *error) {
    if (status == KVMILL_OK)
        return;
    fprintf(stderr, "%s: %s\n", kvmill_status_name(status), error->message);
    exit(1);
}

static void *allocate(size_t bytes) {
    void *memory = aligned_alloc(LINE, (bytes + LINE) / LINE * LINE);
    if (memory == NULL)
        exit((fprintf(stderr, "out of memory\n"), 1));
    return memory;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static kvmill_pool *pool; /* a thread for each core */

static int most_threads(void) {
    return kvmill_pool_threads(pool);
}

static uint16_t narrow(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x8000) >> 16);
}

static float widen(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

static int compare_times(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *times, int count) {
    qsort(times, (size_t)count, sizeof *times, compare_times);
    return times[count / 2];
}

/* ---- Plans ---- */

struct method {
    const char *name;
    void (*init)(kvmill_flow *flow, kvmill_cache_attention *attention, int64_t layer);
    const kvmill_pack *pack;
    int fields;
    double fields_per_page; /* size of a page's fields in rows of K and V: m of the bound */
};

static const struct method methods[] = {
    {"Quest", DEMO_QUEST_INIT, &DEMO_QUEST_PACK, 2, 1},
    {"centroids", DEMO_CENTROID_INIT, &DEMO_CENTROID_PACK, 1, 0.5},
};
enum { METHODS = sizeof methods / sizeof *methods };

typedef kvmill_status plan_step(const kvmill_flow *flow, const kvmill_flow_limits *limits,
                                const kvmill_plan_options *options, kvmill_plan **plan,
                                kvmill_error *error);

struct step {
    kvmill_plan *plan;
    void *workspace;
};

static struct step open_step(const struct method *method, plan_step *plan, int64_t layer,
                             bool portable) {
    const kvmill_flow_limits limits = {sizeof limits, 1, PAGES, PAGES};
    const kvmill_plan_options options = {.struct_size = sizeof options,
                                         .packs = &method->pack,
                                         .pack_count = 1,
                                         .portable = portable,
                                         .threads = most_threads()};
    kvmill_cache_attention attention;
    kvmill_flow flow;
    kvmill_error error;
    struct step step;
    method->init(&flow, &attention, layer);
    attention.num_layer = LAYERS; /* a few of the model's */
    check(plan(&flow, &limits, &options, &step.plan, &error), &error);
    step.workspace = allocate(kvmill_plan_workspace_size(step.plan));
    return step;
}

static void close_step(struct step *step) {
    kvmill_plan_destroy(step->plan);
    free(step->workspace);
}

static void run_step(const struct step *step, const DLTensor *const *tensors, int threads) {
    size_t count = kvmill_plan_tensor_count(step->plan);
    kvmill_error error;
    check(threads > 1 ? kvmill_run_on(step->plan, pool, tensors, count, step->workspace, &error)
                      : kvmill_run(step->plan, tensors, count, step->workspace, &error),
          &error);
}

/* ---- The layers ---- */

struct layers {
    struct flow_keys scene;
    uint16_t *key, *value, *query, *output, *cache; /* key, value: [tokens, kv heads, dim] */
    uint16_t *fields[METHODS][MOST_FIELDS];         /* [layers, pages, kv heads, 1, dim] */
    int32_t *ids, *list;
    int64_t *slots, starts[KV_HEADS + 1];
    struct step dense[LAYERS], sparse[METHODS][LAYERS];
};

enum { MOST_TENSORS = KVMILL_FLOW_FIELDS + MOST_FIELDS };

struct arguments {
    const DLTensor *tensors[MOST_TENSORS];
    DLTensor tensor[MOST_TENSORS];
    int64_t dims[MOST_TENSORS][5];
};

static void give(struct arguments *arguments, int which, void *data, DLDataType type, int rank,
                 const int64_t *dims) {
    memcpy(arguments->dims[which], dims, (size_t)rank * sizeof *dims);
    arguments->tensor[which] = (DLTensor){.data = data,
                                          .device = {kDLCPU, 0},
                                          .ndim = rank,
                                          .dtype = type,
                                          .shape = arguments->dims[which]};
    arguments->tensors[which] = &arguments->tensor[which];
}

#define GIVE(WHICH, DATA, TYPE, RANK, ...)                                                         \
    give(arguments, WHICH, DATA, TYPE, RANK, (const int64_t[]){__VA_ARGS__})

static void give_layer(const struct layers *layers, int method, int64_t layer,
                       struct arguments *arguments) {
    *arguments = (struct arguments){0};
    GIVE(KVMILL_CACHE_ATTENTION_CACHE, layers->cache, float16, 5, LAYERS, 2, KV_HEADS, TOKENS, DIM);
    for (int i = 0; method >= 0 && i < methods[method].fields; i++)
        GIVE(KVMILL_FLOW_FIELDS + i, layers->fields[method][i] + layer * FIELD, bfloat16, 4, PAGES,
             KV_HEADS, 1, DIM);
}

/* Runs a step; method -1 is dense. */
static void decode(struct layers *layers, int method, int64_t layer, const struct step *step,
                   int threads) {
    static int64_t length = TOKENS, indptr[] = {0, PAGES};
    struct arguments all, *arguments = &all;
    give_layer(layers, method, layer, arguments);
    GIVE(KVMILL_CACHE_ATTENTION_QUERY, layers->query, bfloat16, 3, 1, HEADS, DIM);
    GIVE(KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, layers->output, bfloat16, 3, 1, HEADS, DIM);
    GIVE(KVMILL_FLOW_SEQ_LEN, &length, int64, 1, 1);
    GIVE(KVMILL_FLOW_PAGE_INDPTR, indptr, int64, 1, 2);
    GIVE(KVMILL_FLOW_PAGE_IDS, layers->ids, int32, 1, PAGES);
    if (method >= 0) {
        GIVE(KVMILL_FLOW_SEL_INDPTR, layers->starts, int64, 1, KV_HEADS + 1);
        GIVE(KVMILL_FLOW_SEL, layers->list, int32, 1, KV_HEADS * PAGES);
    }
    run_step(step, arguments->tensors, threads);
}

/* ---- Filling ---- */

static void append(const struct layers *layers, int method) {
    struct arguments all, *arguments = &all;
    struct step step = open_step(&methods[method], kvmill_plan_flow_append, 0, false);
    give_layer(layers, method, 0, arguments);
    GIVE(KVMILL_CACHE_ATTENTION_CURRENT_KEY, layers->key, bfloat16, 3, TOKENS, KV_HEADS, DIM);
    GIVE(KVMILL_CACHE_ATTENTION_CURRENT_VALUE, layers->value, bfloat16, 3, TOKENS, KV_HEADS, DIM);
    GIVE(KVMILL_FLOW_SLOT_MAPPING, layers->slots, int64, 1, TOKENS);
    run_step(&step, arguments->tensors, most_threads());
    close_step(&step);
}

/* Copies the first layer to the others. */
static void copy_layers(uint16_t *first, size_t elements) {
    for (size_t layer = 1; layer < LAYERS; layer++)
        memcpy(first + layer * elements, first, elements * sizeof *first);
}

static void make_rows(struct layers *layers) {
    float row[DIM];
    for (int64_t i = 0; i < (int64_t)TOKENS * KV_HEADS; i++) {
        flow_key(&layers->scene, (int)(i % KV_HEADS), i / KV_HEADS, row);
        for (int d = 0; d < DIM; d++)
            layers->key[i * DIM + d] = narrow(row[d]);
        flow_value(&layers->scene, (int)(i % KV_HEADS), i / KV_HEADS, row);
        for (int d = 0; d < DIM; d++)
            layers->value[i * DIM + d] = narrow(row[d]);
    }
}

/* Permutes the pages: 1237 and PAGES have no common divisor. */
static void place_pages(const struct layers *layers) {
    for (int64_t p = 0; p < PAGES; p++)
        layers->ids[p] = (int32_t)(p * 1237 % PAGES);
    for (int64_t t = 0; t < TOKENS; t++)
        layers->slots[t] = layers->ids[t / PAGE] * (int64_t)PAGE + t % PAGE;
}

static void ask(const struct layers *layers, int64_t number) {
    float row[DIM];
    for (int h = 0; h < HEADS; h++) {
        flow_query(&layers->scene, h, number, row);
        for (int d = 0; d < DIM; d++)
            layers->query[h * DIM + d] = narrow(row[d]);
    }
}

static void allocate_layers(struct layers *layers) {
    const size_t rows = (size_t)TOKENS * KV_HEADS * DIM * sizeof(uint16_t);
    if (!flow_keys_make(&layers->scene, TOKENS, KV_HEADS, GROUP, DIM))
        exit((fprintf(stderr, "out of memory\n"), 1));
    layers->key = allocate(rows);
    layers->value = allocate(rows);
    layers->cache = allocate(LAYERS * 2 * rows);
    layers->query = allocate(HEADS * DIM * sizeof(uint16_t));
    layers->output = allocate(HEADS * DIM * sizeof(uint16_t));
    layers->ids = allocate(PAGES * sizeof(int32_t));
    layers->list = allocate(KV_HEADS * PAGES * sizeof(int32_t));
    layers->slots = allocate(TOKENS * sizeof(int64_t));
    for (int m = 0; m < METHODS; m++)
        for (int i = 0; i < methods[m].fields; i++)
            layers->fields[m][i] = allocate((size_t)LAYERS * FIELD * sizeof(uint16_t));
}

static void open_layers(struct layers *layers) {
    *layers = (struct layers){0};
    allocate_layers(layers);
    make_rows(layers);
    place_pages(layers);
    for (int m = 0; m < METHODS; m++) {
        append(layers, m);
        for (int i = 0; i < methods[m].fields; i++)
            copy_layers(layers->fields[m][i], FIELD);
        for (int layer = 0; layer < LAYERS; layer++)
            layers->sparse[m][layer] =
                open_step(&methods[m], kvmill_plan_flow_decode, layer, false);
    }
    copy_layers(layers->cache, (size_t)LAYER_ROWS * DIM);
    for (int layer = 0; layer < LAYERS; layer++)
        layers->dense[layer] = open_step(&methods[0], kvmill_plan_flow_attend, layer, false);
}

static void close_layers(struct layers *layers) {
    for (int layer = 0; layer < LAYERS; layer++)
        close_step(&layers->dense[layer]);
    for (int m = 0; m < METHODS; m++) {
        for (int layer = 0; layer < LAYERS; layer++)
            close_step(&layers->sparse[m][layer]);
        for (int i = 0; i < methods[m].fields; i++)
            free(layers->fields[m][i]);
    }
    void *const memory[] = {layers->key,    layers->value, layers->cache, layers->query,
                            layers->output, layers->ids,   layers->list,  layers->slots};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
    flow_keys_free(&layers->scene);
}

/* ---- Time ---- */

static double time_step(struct layers *layers, int method, int64_t layer, int threads) {
    const struct step *step = method < 0 ? &layers->dense[layer] : &layers->sparse[method][layer];
    double begin = now();
    decode(layers, method, layer, step, threads);
    return now() - begin;
}

/* Times all methods in turn, each in a layer that the others have not just read. */
static void time_all(struct layers *layers, int threads, double seconds[METHODS + 1]) {
    double times[METHODS + 1][SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        ask(layers, i);
        for (int m = -1; m < METHODS; m++)
            times[m + 1][i] = time_step(layers, m, (i + 1 + m) % LAYERS, threads);
    }
    for (int m = 0; m <= METHODS; m++)
        seconds[m] = median(times[m], SAMPLES);
}

static void show_time(struct layers *layers, int threads) {
    double seconds[METHODS + 1];
    time_all(layers, threads, seconds);
    const char *plural = threads == 1 ? " " : "s";
    printf("  %-10s %2d thread%s %8.3f ms\n", "dense", threads, plural, seconds[0] * 1e3);
    for (int m = 0; m < METHODS; m++) {
        double read = (double)layers->starts[1] / PAGES;
        printf("  %-10s %2d thread%s %8.3f ms %7.2f x dense; traffic allows %.2f\n",
               methods[m].name, threads, plural, seconds[m + 1] * 1e3, seconds[0] / seconds[m + 1],
               1 / (methods[m].fields_per_page / PAGE + read));
    }
}

/* ---- Accuracy ---- */

enum { VALUES = QUERIES * HEADS };

struct accuracy {
    double coverage[VALUES], recall[VALUES], relative[VALUES], cosine[VALUES], regret[VALUES],
        overlap[VALUES];
    int heads, rows;
};

static void widen_all(const uint16_t *from, int64_t count, float *to) {
    for (int64_t i = 0; i < count; i++)
        to[i] = widen(from[i]);
}

static void widen_keys(const struct layers *layers, int kv_head, float *key) {
    for (int64_t t = 0; t < TOKENS; t++)
        widen_all(layers->key + (t * KV_HEADS + kv_head) * DIM, DIM, key + t * DIM);
}

/* Judges which pages the last decode has chosen; `output` is its output. */
static void judge_row(const struct layers *layers, const struct masses *masses, int kv_head,
                      const float *output, const float *dense, struct accuracy *accuracy) {
    const int64_t *starts = layers->starts + kv_head;
    struct page_list list = {layers->list + starts[0], starts[1] - starts[0]};
    int32_t pages[PAGES];
    struct page_list best = {pages, list.count};
    double missed = 0;
    oracle_list(masses, 1, 2, pages, list.count);
    for (int h = 0; h < GROUP; h++) {
        int64_t row = (int64_t)(kv_head * GROUP + h) * DIM;
        struct difference difference = vector_difference(output + row, dense + row, DIM);
        int at = accuracy->heads++;
        accuracy->coverage[at] = mass_coverage(masses, h, list);
        accuracy->recall[at] = mass_recall(masses, h, list, MOST_HEAVIEST);
        accuracy->relative[at] = difference.relative;
        accuracy->cosine[at] = difference.cosine;
        missed += mass_coverage(masses, h, best) - accuracy->coverage[at];
    }
    accuracy->regret[accuracy->rows] = missed / GROUP;
    accuracy->overlap[accuracy->rows++] = list_overlap(list, best);
}

static void output_of(struct layers *layers, int method, float output[HEADS * DIM]) {
    const struct step *step = method < 0 ? &layers->dense[0] : &layers->sparse[method][0];
    decode(layers, method, 0, step, most_threads());
    widen_all(layers->output, HEADS * DIM, output);
}

/* Keeps all masses of a query: [heads, tokens]. */
static void judge_query(struct layers *layers, float *key, double *mass,
                        struct accuracy accuracy[METHODS]) {
    static float query[HEADS * DIM], dense[HEADS * DIM], output[HEADS * DIM];
    struct masses masses[KV_HEADS];
    widen_all(layers->query, HEADS * DIM, query);
    for (int h = 0; h < KV_HEADS; h++) {
        masses[h] = (struct masses){TOKENS, PAGE, GROUP, mass + (int64_t)h * GROUP * TOKENS};
        widen_keys(layers, h, key);
        masses_fill(&masses[h], query + h * GROUP * DIM, key, DIM, 1 / sqrt(DIM));
    }
    output_of(layers, -1, dense);
    for (int m = 0; m < METHODS; m++) {
        output_of(layers, m, output);
        for (int h = 0; h < KV_HEADS; h++)
            judge_row(layers, &masses[h], h, output, dense, &accuracy[m]);
    }
}

static void print_accuracy(const char *name, struct accuracy *accuracy) {
    struct spread coverage = spread_of(accuracy->coverage, accuracy->heads);
    printf("  %-10s %8.3f %6.3f %6.3f %10.3f %7.3f %7.3f %7.3f %8.3f\n", name, coverage.mean,
           coverage.low, coverage.least, spread_of(accuracy->recall, accuracy->heads).mean,
           spread_of(accuracy->relative, accuracy->heads).mean,
           spread_of(accuracy->cosine, accuracy->heads).mean,
           spread_of(accuracy->regret, accuracy->rows).mean,
           spread_of(accuracy->overlap, accuracy->rows).mean);
}

static void print_titles(void) {
    printf("  means of %d queries and %d heads; regret and Jaccard: to the pages of most mass\n",
           QUERIES, HEADS);
    printf("  %-10s %8s %6s %6s %10s %7s %7s %7s %8s\n", "", "coverage", "5 %", "least",
           "recall@64", "L2", "cosine", "regret", "Jaccard");
}

static void show_accuracy(struct layers *layers) {
    static struct accuracy accuracy[METHODS];
    float *key = allocate((size_t)TOKENS * DIM * sizeof *key);
    double *mass = allocate((size_t)HEADS * TOKENS * sizeof *mass);
    for (int i = 0; i < QUERIES; i++) {
        ask(layers, 100 + i);
        judge_query(layers, key, mass, accuracy);
    }
    print_titles();
    for (int m = 0; m < METHODS; m++)
        print_accuracy(methods[m].name, &accuracy[m]);
    free(mass);
    free(key);
}

/* ---- Checking ---- */

/* bfloat16 has 8 binary digits. */
static bool is_near(const float *a, const float *b) {
    float largest = 0, worst = 0;
    for (int i = 0; i < HEADS * DIM; i++) {
        largest = fmaxf(largest, fabsf(b[i]));
        worst = fmaxf(worst, fabsf(a[i] - b[i]));
    }
    return worst <= largest / 128;
}

static bool is_as_portable(struct layers *layers, int method) {
    static float output[HEADS * DIM], portable[HEADS * DIM];
    static int32_t list[KV_HEADS * PAGES];
    struct step step = open_step(&methods[method], kvmill_plan_flow_decode, 0, true);
    output_of(layers, method, output);
    int64_t count = layers->starts[KV_HEADS];
    memcpy(list, layers->list, (size_t)count * sizeof *list);
    decode(layers, method, 0, &step, 1);
    widen_all(layers->output, HEADS * DIM, portable);
    close_step(&step);
    bool same = layers->starts[KV_HEADS] == count &&
                memcmp(list, layers->list, (size_t)count * sizeof *list) == 0;
    return same && is_near(output, portable);
}

static bool show_check(struct layers *layers) {
    bool right = true;
    for (int m = 0; m < METHODS; m++)
        right = is_as_portable(layers, m) && right;
    printf("  the pages selected are those of the portable kernels, outputs are near: %s\n",
           right ? "yes" : "NO");
    return right;
}

int main(void) {
    double begin = now();
    struct layers layers;
    kvmill_error error;
    check(kvmill_pool_create(0, NULL, &pool, &error), &error);
    open_layers(&layers);
    printf("%s, a layer at %d tokens in pages of %d, %s cache; a step of one sequence\n", DEMO_NAME,
           TOKENS, PAGE, DEMO_CACHE);
    show_time(&layers, 1);
    if (most_threads() > 1)
        show_time(&layers, most_threads());
    show_accuracy(&layers);
    bool right = show_check(&layers);
    printf("\n");
    say_if_busy(now() - begin);
    close_layers(&layers);
    kvmill_pool_destroy(pool);
    return right ? 0 : 1;
}
