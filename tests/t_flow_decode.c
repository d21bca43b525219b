/* Decoding with sparse flows, token by token: append, index, attend along the lists; against a sum
   over the selected tokens, against dense attention where the budget covers the row, and against
   the same with pages elsewhere.

   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../gen/flow.h"
#include "fence.h"
#include "tap.h"

enum { REQUESTS = 4, HEADS = 6, KV_HEADS = 2, RATIO = HEADS / KV_HEADS, DIM = 32, STEPS = 20 };
enum { PAGE = 16, MOST_PAGES = 24, POOL = REQUESTS * MOST_PAGES, SLOTS = POOL * PAGE };
enum { OUTPUT = REQUESTS * HEADS * DIM, NEW = REQUESTS * KV_HEADS * DIM };

/* Of the first steps; the third request is empty until it decodes. */
static const int64_t prompt[REQUESTS] = {300, 47, 0, 129};

/* ---- A decoder ---- */

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

enum { APPEND, INDEX, ATTEND, DECODE, STEPS_OF_FLOWS };

struct decoder {
    struct spec_list specs;
    const kvmill_flow *flow;
    kvmill_plan *plan[STEPS_OF_FLOWS];
    void *room[STEPS_OF_FLOWS];
    float *memory; /* [K and V, kv heads, slots, dim] */
    unsigned char *fields[KVMILL_MOST_FLOW_FIELDS];
    int32_t ids[REQUESTS][MOST_PAGES];
    int64_t length[REQUESTS];
    float query[OUTPUT], key[NEW], value[NEW], output[OUTPUT], dense[OUTPUT];
    int64_t starts[REQUESTS * KV_HEADS + 1];
    int32_t list[REQUESTS * KV_HEADS * MOST_PAGES];
};

static void *take(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (memory == NULL)
        bail_out("out of memory");
    memset(memory, 0xff, (bytes + 64) / 64 * 64);
    return memory;
}

static void read_flow(struct decoder *decoder, const char *name) {
    const char *srcdir = getenv("srcdir");
    char path[512], file[] = "/tmp/t_flow_decode.XXXXXX";
    struct error error;
    snprintf(path, sizeof path, "%s/configs/flows/%s.json", srcdir ? srcdir : ".", name);
    json_t *json = json_load_file(path, 0, NULL);
    int descriptor = mkstemp(file);
    if (json == NULL || descriptor < 0)
        bail_out("cannot read %s", path);
    json_t *attention =
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:s}", "num_heads", HEADS, "num_kv_heads", KV_HEADS,
                  "head_dim", DIM, "page_size", PAGE, "cache_layout", 3, "T1", "float32");
    json_object_set_new(json, "attention", attention);
    json_t *k = json_object_get(json_object_get(json, "select"), "topk_val");
    bool scores = json_integer_value(k) > 0;
    if (json_is_integer(k))
        json_object_set_new(json, "select",
                            json_pack("{s:i, s:i, s:i, s:s}", "topk_val", scores ? 3 : 0,
                                      "reserved_bos", 1, "reserved_eos", 2, "topk_ratio",
                                      scores ? "1/3" : "0/1"));
    if (json_dumpfd(json, descriptor, 0) != 0 || !specs_read(file, &decoder->specs, &error))
        bail_out("%s: %s", path, error.text);
    json_decref(json);
    remove(file);
}

static void place_cache(struct decoder *decoder) {
    decoder->memory = take((size_t)2 * KV_HEADS * SLOTS * DIM * sizeof(float));
    for (size_t i = 0; i < decoder->flow->field_count; i++) {
        const kvmill_flow_field *field = &decoder->flow->fields[i];
        decoder->fields[i] = take((size_t)(POOL * KV_HEADS * field->rows * field->columns) * 4);
    }
}

/* Pages in any order, other ones for another seed. */
static void place_pages(struct decoder *decoder, struct dice *pages) {
    int64_t order[POOL];
    dice_order(pages, order, POOL);
    for (int b = 0; b < REQUESTS; b++)
        for (int p = 0; p < MOST_PAGES; p++)
            decoder->ids[b][p] = (int32_t)order[b * MOST_PAGES + p];
}

static void plan_steps(struct decoder *decoder) {
    kvmill_status (*const plans[])(const kvmill_flow *, const kvmill_flow_limits *,
                                   const kvmill_plan_options *, kvmill_plan **, kvmill_error *) = {
        kvmill_plan_flow_append, kvmill_plan_flow_index, kvmill_plan_flow_attend,
        kvmill_plan_flow_decode};
    const kvmill_flow_limits limits = {sizeof limits, REQUESTS, MOST_PAGES, POOL};
    const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = 2, .threads = 2};
    kvmill_error error;
    for (int i = 0; i < STEPS_OF_FLOWS; i++) {
        if (plans[i](decoder->flow, &limits, &options, &decoder->plan[i], &error) != KVMILL_OK)
            bail_out("%s", error.message);
        decoder->room[i] = take(kvmill_plan_workspace_size(decoder->plan[i]));
    }
}

static void decoder_open(struct decoder *decoder, const char *name, struct dice *pages) {
    memset(decoder, 0, sizeof *decoder);
    read_flow(decoder, name);
    decoder->flow = flow_of_spec(&decoder->specs.items[0]);
    plan_steps(decoder);
    place_cache(decoder);
    place_pages(decoder, pages);
}

static void decoder_close(struct decoder *decoder) {
    for (int i = 0; i < STEPS_OF_FLOWS; i++) {
        kvmill_plan_destroy(decoder->plan[i]);
        free(decoder->room[i]);
    }
    for (size_t i = 0; i < decoder->flow->field_count; i++)
        free(decoder->fields[i]);
    free(decoder->memory);
    spec_list_free(&decoder->specs);
}

/* ---- A step ---- */

enum { MOST_TENSORS = KVMILL_FLOW_FIELDS + KVMILL_MOST_FLOW_FIELDS, MOST_RANK = 5 };

/* The tensors of a run, row-major. */
struct arguments {
    const DLTensor *tensors[MOST_TENSORS];
    DLTensor tensor[MOST_TENSORS];
    int64_t dims[MOST_TENSORS][MOST_RANK];
};

static const DLDataType f32 = {kDLFloat, 32, 1}, i64 = {kDLInt, 64, 1}, i32 = {kDLInt, 32, 1};

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

static bool run(const struct decoder *decoder, int step, const struct arguments *arguments) {
    kvmill_error error;
    kvmill_status status =
        kvmill_run(decoder->plan[step], arguments->tensors, decoder->room[step], &error);
    if (status != KVMILL_OK)
        diag("%s: %s", kvmill_status_name(status), error.message);
    return status == KVMILL_OK;
}

static void give_caches(const struct decoder *decoder, bool fields, struct arguments *arguments) {
    memset(arguments, 0, sizeof *arguments);
    GIVE(KVMILL_CACHE_ATTENTION_CACHE, decoder->memory, f32, 5, 1, 2, KV_HEADS, SLOTS, DIM);
    for (size_t i = 0; fields && i < decoder->flow->field_count; i++)
        GIVE(KVMILL_FLOW_FIELDS + (int)i, decoder->fields[i], decoder->flow->fields[i].dtype, 4,
             POOL, KV_HEADS, decoder->flow->fields[i].rows, decoder->flow->fields[i].columns);
}

static int64_t slot_of(const struct decoder *decoder, int b, int64_t t) {
    return decoder->ids[b][t / PAGE] * (int64_t)PAGE + t % PAGE;
}

/* A new token of each request that is shorter than `most`. */
static bool append(struct decoder *decoder, const int64_t most[REQUESTS], struct dice *dice) {
    int64_t slot[REQUESTS];
    struct arguments all, *arguments = &all;
    for (int i = 0; i < NEW; i++) {
        decoder->key[i] = (float)dice_range(dice, -1000, 1000) / 500;
        decoder->value[i] = (float)dice_range(dice, -1000, 1000) / 500;
    }
    for (int b = 0; b < REQUESTS; b++)
        slot[b] = decoder->length[b] < most[b] ? slot_of(decoder, b, decoder->length[b]++) : -1;
    give_caches(decoder, true, arguments);
    GIVE(KVMILL_CACHE_ATTENTION_CURRENT_KEY, decoder->key, f32, 3, REQUESTS, KV_HEADS, DIM);
    GIVE(KVMILL_CACHE_ATTENTION_CURRENT_VALUE, decoder->value, f32, 3, REQUESTS, KV_HEADS, DIM);
    GIVE(KVMILL_FLOW_SLOT_MAPPING, slot, i64, 1, REQUESTS);
    return run(decoder, APPEND, arguments);
}

/* Pages of the requests, one behind the other. */
struct table {
    int64_t indptr[REQUESTS + 1];
    int32_t ids[POOL];
};

static int64_t pages_of(const struct decoder *decoder, int b) {
    return (decoder->length[b] + PAGE - 1) / PAGE;
}

static void give_requests(struct decoder *decoder, struct table *table,
                          struct arguments *arguments) {
    table->indptr[0] = 0;
    for (int b = 0; b < REQUESTS; b++) {
        table->indptr[b + 1] = table->indptr[b] + pages_of(decoder, b);
        memcpy(table->ids + table->indptr[b], decoder->ids[b],
               (size_t)pages_of(decoder, b) * sizeof *table->ids);
    }
    GIVE(KVMILL_CACHE_ATTENTION_QUERY, decoder->query, f32, 3, REQUESTS, HEADS, DIM);
    GIVE(KVMILL_FLOW_SEQ_LEN, decoder->length, i64, 1, REQUESTS);
    GIVE(KVMILL_FLOW_PAGE_INDPTR, table->indptr, i64, 1, REQUESTS + 1);
    GIVE(KVMILL_FLOW_PAGE_IDS, table->ids, i32, 1, POOL);
}

static void give_lists(struct decoder *decoder, struct arguments *arguments) {
    GIVE(KVMILL_FLOW_SEL_INDPTR, decoder->starts, i64, 1, REQUESTS * KV_HEADS + 1);
    GIVE(KVMILL_FLOW_SEL, decoder->list, i32, 1, REQUESTS * KV_HEADS * MOST_PAGES);
}

/* Decode, which tells its lists. */
static bool decode_step(struct decoder *decoder) {
    struct arguments all, *arguments = &all;
    struct table table;
    give_caches(decoder, true, arguments);
    give_requests(decoder, &table, arguments);
    give_lists(decoder, arguments);
    GIVE(KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, decoder->output, f32, 3, REQUESTS, HEADS, DIM);
    return run(decoder, DECODE, arguments);
}

/* Along the lists of the last step, or over all pages. */
static bool attend(struct decoder *decoder, bool sparse, float *output) {
    struct arguments all, *arguments = &all;
    struct table table;
    give_caches(decoder, false, arguments);
    give_requests(decoder, &table, arguments);
    if (sparse)
        give_lists(decoder, arguments);
    GIVE(KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, output, f32, 3, REQUESTS, HEADS, DIM);
    return run(decoder, ATTEND, arguments);
}

static void ask(struct decoder *decoder, struct dice *dice) {
    for (int i = 0; i < OUTPUT; i++)
        decoder->query[i] = (float)dice_range(dice, -1000, 1000) / 500;
}

/* ---- What must come of it ---- */

/* The list of a kv head. */
struct list {
    const int32_t *page;
    int64_t count;
};

static struct list list_of(const struct decoder *decoder, int b, int kv_head) {
    const int64_t *starts = decoder->starts + b * KV_HEADS + kv_head;
    return (struct list){decoder->list + starts[0], starts[1] - starts[0]};
}

static bool is_whole(const struct decoder *decoder, int b) {
    return list_of(decoder, b, 0).count == pages_of(decoder, b);
}

static const float *row_of(const struct decoder *decoder, int v, int64_t head, int64_t slot) {
    return decoder->memory + ((v * KV_HEADS + head) * SLOTS + slot) * DIM;
}

/* Softmax over the tokens of a list, in double. */
static void sum_over_list(const struct decoder *decoder, int b, int head, double output[DIM]) {
    const float *query = decoder->query + (b * HEADS + head) * DIM;
    int kv_head = head / RATIO;
    struct list list = list_of(decoder, b, kv_head);
    double total = 0;
    memset(output, 0, DIM * sizeof *output);
    for (int64_t t = 0; t < list.count * PAGE; t++) {
        int64_t token = list.page[t / PAGE] * (int64_t)PAGE + t % PAGE;
        if (token >= decoder->length[b])
            continue;
        const float *key = row_of(decoder, 0, kv_head, slot_of(decoder, b, token));
        const float *value = row_of(decoder, 1, kv_head, slot_of(decoder, b, token));
        double dot = 0;
        for (int d = 0; d < DIM; d++)
            dot += (double)query[d] * key[d];
        double weight = exp(dot / sqrt(DIM));
        total += weight;
        for (int d = 0; d < DIM; d++)
            output[d] += weight * value[d];
    }
    for (int d = 0; d < DIM; d++)
        output[d] /= total;
}

static bool is_output_right(const struct decoder *decoder) {
    for (int n = 0; n < REQUESTS * HEADS; n++) {
        int b = n / HEADS, head = n % HEADS;
        double wanted[DIM];
        sum_over_list(decoder, b, head, wanted);
        for (int d = 0; d < DIM; d++)
            if (!(fabs(decoder->output[n * DIM + d] - wanted[d]) <= 1e-5)) {
                diag("request %d, head %d: %g, wanted %g", b, head, decoder->output[n * DIM + d],
                     wanted[d]);
                return false;
            }
    }
    return true;
}

/* Rows that are selected whole have the bits of dense attention; the others are counted. */
static bool is_dense_equal(struct decoder *decoder, int *sparse) {
    bool equal = attend(decoder, false, decoder->dense);
    for (int b = 0; b < REQUESTS; b++) {
        bool same = memcmp(decoder->output + b * HEADS * DIM, decoder->dense + b * HEADS * DIM,
                           HEADS * DIM * sizeof(float)) == 0;
        equal = equal && (same || !is_whole(decoder, b));
        *sparse += !same;
    }
    return equal;
}

/* Of pages that no list of a head has, nothing is read: they may hold NaN. */
static bool is_rest_ignored(struct decoder *decoder) {
    size_t bytes = (size_t)2 * KV_HEADS * SLOTS * DIM * sizeof(float);
    float *kept = take(bytes), output[OUTPUT];
    memcpy(kept, decoder->memory, bytes);
    for (int n = 0; n < REQUESTS * KV_HEADS; n++) {
        int b = n / KV_HEADS, head = n % KV_HEADS;
        bool listed[MOST_PAGES] = {false};
        struct list list = list_of(decoder, b, head);
        for (int64_t i = 0; i < list.count; i++)
            listed[list.page[i]] = true;
        for (int p = 0; p < MOST_PAGES; p++)
            for (int v = 0; v < 2 && !listed[p]; v++)
                memset((float *)row_of(decoder, v, head, decoder->ids[b][p] * (int64_t)PAGE), 0xff,
                       PAGE * DIM * sizeof(float));
    }
    bool same =
        attend(decoder, true, output) && memcmp(output, decoder->output, sizeof output) == 0;
    memcpy(decoder->memory, kept, bytes);
    free(kept);
    return same;
}

/* ---- Flows ---- */

struct decoded {
    float output[STEPS][OUTPUT];
    int32_t list[STEPS][REQUESTS * KV_HEADS * MOST_PAGES];
    bool right, dense, ignored;
    int sparse; /* requests that were not as dense ones */
};

static void decode(const char *name, uint64_t seed, struct dice *pages, struct decoded *decoded) {
    static const int64_t endless[REQUESTS] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    struct dice dice = dice_for(seed, name);
    struct decoder *decoder = take(sizeof *decoder);
    decoder_open(decoder, name, pages);
    memset(decoded, 0, sizeof *decoded);
    decoded->right = decoded->dense = decoded->ignored = true;
    for (int64_t t = 0; t < 300; t++)
        decoded->right = append(decoder, prompt, &dice) && decoded->right;
    for (int step = 0; step < STEPS; step++) {
        decoded->right = append(decoder, endless, &dice) && decoded->right;
        ask(decoder, &dice);
        decoded->right = decoded->right && decode_step(decoder) && is_output_right(decoder);
        decoded->dense = decoded->dense && is_dense_equal(decoder, &decoded->sparse);
        decoded->ignored = decoded->ignored && is_rest_ignored(decoder);
        memcpy(decoded->output[step], decoder->output, sizeof decoder->output);
        memcpy(decoded->list[step], decoder->list,
               (size_t)decoder->starts[REQUESTS * KV_HEADS] * sizeof(int32_t));
    }
    decoder_close(decoder);
    free(decoder);
}

static void test_flow(const char *name, bool is_sparse, uint64_t seed) {
    struct dice here = dice_for(seed, "here"), there = dice_for(seed, "elsewhere");
    struct decoded *first = take(sizeof *first), *second = take(sizeof *second);
    decode(name, seed, &here, first);
    decode(name, seed, &there, second);
    ok(first->right, "%s: outputs are sums over the selected tokens", name);
    ok(first->dense && (first->sparse > 0) == is_sparse,
       "%s: as dense where all is selected, %d times not", name, first->sparse);
    ok(first->ignored, "%s: what is not selected is not read", name);
    ok(memcmp(first->output, second->output, sizeof first->output) == 0 &&
           memcmp(first->list, second->list, sizeof first->list) == 0,
       "%s: where pages lie does not matter", name);
    free(first);
    free(second);
}

int main(void) {
    uint64_t seed = dice_seed();
    test_flow("gqa_quest", true, seed);
    test_flow("quest_growing", true, seed);
    test_flow("running_avg_block_sparse", true, seed);
    test_flow("sinks_and_window", true, seed);
    test_flow("gqa_block_sparse", true, seed);
    test_flow("dense", false, seed);
    return done_testing();
}
