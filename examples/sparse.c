/* Sparse decoding with the pack of a model and a flow: one layer's cache in pages, its fields, and
   a step that reads a quarter of the pages.

   There is no model: every hundredth token has a different key, and each token has its number as
   its value.  A query that is the key of one of these tokens gets back its number, from any
   page.  Build: make -C examples sparse (needs pkg-config and kvmill), which also makes the
   pack. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvmill.h>
#include <llama_plan.h>

enum { LAYERS = 16, LAYER = 3, HEADS = 32, KV_HEADS = 8, HEAD_DIM = 64 }; /* Llama-3.2-1B */
enum { PAGE = 16, PAGES = 128, SLOTS = PAGES * PAGE, PROMPT = 1990, STEPS = 8, APART = 100 };

/* ---- Helpers ---- */

static const DLDataType bfloat16 = {kDLBfloat, 16, 1}, int32 = {kDLInt, 32, 1},
                        int64 = {kDLInt, 64, 1};

static DLTensor tensor(void *data, int rank, int64_t *shape, DLDataType dtype) {
    return (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = dtype, .shape = shape};
}

static void check(kvmill_status status, const kvmill_error *error) {
    if (status == KVMILL_OK)
        return;
    fprintf(stderr, "%s: %s\n", kvmill_status_name(status), error->message);
    exit(1);
}

/* Returns memory of zeros; pages take no memory before they are written. */
static void *allocate(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (memory == NULL)
        exit((fprintf(stderr, "out of memory\n"), 1));
    return memory;
}

static uint16_t bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static float whole(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* ---- A step's plan and its workspace ---- */

struct step {
    kvmill_plan *plan;
    void *memory, *workspace; /* 64-byte aligned */
};

typedef kvmill_status plan_step(int64_t layer, const kvmill_flow_limits *limits,
                                const kvmill_plan_options *options, kvmill_plan **plan,
                                kvmill_error *error);

static struct step open_step(plan_step *plan) {
    const kvmill_flow_limits limits = {
        .struct_size = sizeof limits, .batch = 1, .pages = PAGES, .cache_pages = PAGES};
    struct step step;
    kvmill_error error;
    check(plan(LAYER, &limits, NULL, &step.plan, &error), &error);
    step.memory = allocate(kvmill_plan_workspace_size(step.plan) + 64);
    step.workspace = (char *)step.memory + (64 - (uintptr_t)step.memory % 64) % 64;
    return step;
}

static void close_step(struct step *step) {
    kvmill_plan_destroy(step->plan);
    free(step->memory);
}

static void run(const struct step *step, const DLTensor *const *tensors) {
    kvmill_error error;
    check(kvmill_run(step->plan, tensors, kvmill_plan_tensor_count(step->plan), step->workspace,
                     &error),
          &error);
}

/* ---- In place of a model ---- */

static uint16_t query[HEADS * HEAD_DIM], output[HEADS * HEAD_DIM];
static uint16_t key[PROMPT * KV_HEADS * HEAD_DIM], value[PROMPT * KV_HEADS * HEAD_DIM];

static void make_tokens(int64_t first, int64_t count) {
    memset(key, 0, sizeof key);
    for (int64_t i = 0; i < count * KV_HEADS; i++) {
        int64_t token = first + i / KV_HEADS;
        if (token % APART == 0)
            key[i * HEAD_DIM + token / APART] = bf16(16);
        for (int d = 0; d < HEAD_DIM; d++)
            value[i * HEAD_DIM + d] = bf16((float)token);
    }
}

static void ask_for(int64_t token) {
    memset(query, 0, sizeof query);
    for (int h = 0; h < HEADS; h++)
        query[h * HEAD_DIM + token / APART] = bf16(16);
}

/* ---- The layer ---- */

/* The caches of all layers, the fields of this layer, and the page ids of the one request. */
struct layer {
    uint16_t *rows, *highest, *lowest;
    int32_t ids[PAGES];
    int64_t length, read;
    struct step append, decode;
};

static void open_layer(struct layer *layer) {
    *layer = (struct layer){.append = open_step(llama_plan_flow_append),
                            .decode = open_step(llama_plan_flow_decode)};
    layer->rows = allocate(sizeof(uint16_t) * LAYERS * 2 * KV_HEADS * SLOTS * HEAD_DIM);
    layer->highest = allocate(sizeof(uint16_t) * PAGES * KV_HEADS * HEAD_DIM);
    layer->lowest = allocate(sizeof(uint16_t) * PAGES * KV_HEADS * HEAD_DIM);
    for (int i = 0; i < PAGES; i++)
        layer->ids[i] = i * 5 % PAGES; /* in any order */
}

static void close_layer(struct layer *layer) {
    close_step(&layer->append);
    close_step(&layer->decode);
    free(layer->rows);
    free(layer->highest);
    free(layer->lowest);
}

static int64_t cache_shape[] = {LAYERS, 2, KV_HEADS, SLOTS, HEAD_DIM};
static int64_t field_shape[] = {PAGES, KV_HEADS, 1, HEAD_DIM};

/* Stores the keys and values of new tokens, and sums up the pages that they complete. */
static void append(struct layer *layer, int64_t tokens) {
    int64_t shape[] = {tokens, KV_HEADS, HEAD_DIM}, slots[PROMPT], count[] = {tokens};
    for (int64_t i = 0; i < tokens; i++, layer->length++)
        slots[i] = layer->ids[layer->length / PAGE] * (int64_t)PAGE + layer->length % PAGE;
    DLTensor k = tensor(key, 3, shape, bfloat16), v = tensor(value, 3, shape, bfloat16);
    DLTensor cache = tensor(layer->rows, 5, cache_shape, bfloat16);
    DLTensor highest = tensor(layer->highest, 4, field_shape, bfloat16);
    DLTensor lowest = tensor(layer->lowest, 4, field_shape, bfloat16);
    DLTensor mapping = tensor(slots, 1, count, int64);
    const DLTensor *tensors[KVMILL_FLOW_FIELDS + 2] = {
        [KVMILL_CACHE_ATTENTION_CURRENT_KEY] = &k, [KVMILL_CACHE_ATTENTION_CURRENT_VALUE] = &v,
        [KVMILL_CACHE_ATTENTION_CACHE] = &cache,   [KVMILL_FLOW_SLOT_MAPPING] = &mapping,
        [KVMILL_FLOW_FIELDS] = &highest,           [KVMILL_FLOW_FIELDS + 1] = &lowest};
    run(&layer->append, tensors);
}

/* Scores the pages, selects, attends, and prints how many pages were read. */
static void decode(struct layer *layer) {
    int64_t shape[] = {1, HEADS, HEAD_DIM}, one[] = {1}, two[] = {2}, pages[] = {PAGES};
    int64_t indptr[] = {0, (layer->length + PAGE - 1) / PAGE}, starts[KV_HEADS + 1];
    int64_t lists[] = {KV_HEADS + 1}, most[] = {KV_HEADS * PAGES};
    static int32_t list[KV_HEADS * PAGES];
    DLTensor q = tensor(query, 3, shape, bfloat16), out = tensor(output, 3, shape, bfloat16);
    DLTensor cache = tensor(layer->rows, 5, cache_shape, bfloat16);
    DLTensor highest = tensor(layer->highest, 4, field_shape, bfloat16);
    DLTensor lowest = tensor(layer->lowest, 4, field_shape, bfloat16);
    DLTensor length = tensor(&layer->length, 1, one, int64), from = tensor(indptr, 1, two, int64);
    DLTensor ids = tensor(layer->ids, 1, pages, int32);
    DLTensor sel_indptr = tensor(starts, 1, lists, int64), sel = tensor(list, 1, most, int32);
    const DLTensor *tensors[KVMILL_FLOW_FIELDS + 2] = {[KVMILL_CACHE_ATTENTION_QUERY] = &q,
                                                       [KVMILL_CACHE_ATTENTION_CACHE] = &cache,
                                                       [KVMILL_FLOW_SEQ_LEN] = &length,
                                                       [KVMILL_FLOW_PAGE_INDPTR] = &from,
                                                       [KVMILL_FLOW_PAGE_IDS] = &ids,
                                                       [KVMILL_FLOW_SEL_INDPTR] = &sel_indptr,
                                                       [KVMILL_FLOW_SEL] = &sel,
                                                       [KVMILL_CACHE_ATTENTION_ATTN_OUTPUT] = &out,
                                                       [KVMILL_FLOW_FIELDS] = &highest,
                                                       [KVMILL_FLOW_FIELDS + 1] = &lowest};
    run(&layer->decode, tensors);
    layer->read = starts[1];
}

int main(void) {
    struct layer layer;
    char text[1024];
    open_layer(&layer);
    kvmill_plan_describe(layer.decode.plan, text, sizeof text);
    printf("%s\n", text);
    make_tokens(0, PROMPT);
    append(&layer, PROMPT);
    for (int i = 1; i <= STEPS; i++) {
        make_tokens(layer.length, 1);
        append(&layer, 1);
        ask_for((int64_t)i * 2 * APART);
        decode(&layer);
        printf("token %lld asks for token %d and gets %.0f from %lld of %lld pages\n",
               (long long)layer.length - 1, i * 2 * APART, whole(output[0]), (long long)layer.read,
               (long long)(layer.length + PAGE - 1) / PAGE);
    }
    close_layer(&layer);
    return 0;
}
