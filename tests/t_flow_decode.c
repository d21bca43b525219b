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
#include "../runtime/flow.h"
#include "fence.h"
#include "tap.h"

enum { REQUESTS = 4, HEADS = 6, KV_HEADS = 2, RATIO = HEADS / KV_HEADS, DIM = 32, STEPS = 20 };
enum { PAGE = 16, MOST_PAGES = 24, POOL = REQUESTS * MOST_PAGES, SLOTS = POOL * PAGE };
enum { OUTPUT = REQUESTS * HEADS * DIM, NEW = REQUESTS * KV_HEADS * DIM };

/* Of the first steps; the third request is empty until it decodes. */
static const int64_t prompt[REQUESTS] = {300, 47, 0, 129};

/* ---- A decoder ---- */

struct decoder {
    struct spec_list specs;
    struct kvmill_flow_problem problem;
    struct flow_schedule cache_schedule, index_schedule;
    kvmill_plan *plan;
    float *memory; /* [K and V, kv heads, slots, dim] */
    unsigned char *fields[KVMILL_MOST_FLOW_FIELDS];
    struct flow_cache cache;
    int32_t ids[REQUESTS][MOST_PAGES];
    int64_t length[REQUESTS];
    float query[OUTPUT], key[NEW], value[NEW], output[OUTPUT], dense[OUTPUT];
    int32_t list[REQUESTS * KV_HEADS][MOST_PAGES];
    float *workspace;
    void *room;
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
    size_t side = (size_t)KV_HEADS * SLOTS * DIM * sizeof(float);
    decoder->memory = take(2 * side);
    unsigned char *bytes = (unsigned char *)decoder->memory;
    decoder->cache.key = (struct kvmill_cache_rows){
        bytes, NULL, DIM * sizeof(float), SLOTS * DIM * sizeof(float), 0, 0};
    decoder->cache.value = decoder->cache.key;
    decoder->cache.value.data += side;
    for (int i = 0; i < decoder->problem.field_count; i++)
        decoder->cache.field[i] = decoder->fields[i] =
            take((size_t)(POOL * KV_HEADS * decoder->problem.fields[i].bytes));
}

/* Pages in any order, other ones for another seed. */
static void place_pages(struct decoder *decoder, struct dice *pages) {
    int64_t order[POOL];
    dice_order(pages, order, POOL);
    for (int b = 0; b < REQUESTS; b++)
        for (int p = 0; p < MOST_PAGES; p++)
            decoder->ids[b][p] = (int32_t)order[b * MOST_PAGES + p];
}

static void decoder_open(struct decoder *decoder, const char *name, struct dice *pages) {
    kvmill_error error;
    memset(decoder, 0, sizeof *decoder);
    read_flow(decoder, name);
    const kvmill_flow *flow = flow_of_spec(&decoder->specs.items[0]);
    if (kvmill_flow_verify(flow, &decoder->problem, &error) != KVMILL_OK ||
        kvmill_plan_multi_head_cache_attention(flow->attention, NULL, &decoder->plan, &error) !=
            KVMILL_OK)
        bail_out("%s", error.message);
    kvmill_flow_schedule(&decoder->problem, KVMILL_CACHE_PROGRAM, &decoder->cache_schedule);
    kvmill_flow_schedule(&decoder->problem, KVMILL_INDEX_PROGRAM, &decoder->index_schedule);
    int64_t summary = kvmill_flow_workspace(&decoder->cache_schedule, 0);
    int64_t index =
        kvmill_flow_index_workspace(&decoder->problem, &decoder->index_schedule, MOST_PAGES);
    decoder->workspace = take((size_t)(summary > index ? summary : index));
    decoder->room = take(kvmill_plan_workspace_size(decoder->plan));
    place_cache(decoder);
    place_pages(decoder, pages);
}

static void decoder_close(struct decoder *decoder) {
    kvmill_plan_destroy(decoder->plan);
    for (int i = 0; i < decoder->problem.field_count; i++)
        free(decoder->fields[i]);
    free(decoder->memory);
    free(decoder->workspace);
    free(decoder->room);
    spec_list_free(&decoder->specs);
}

/* ---- A step ---- */

static int64_t slot_of(const struct decoder *decoder, int b, int64_t t) {
    return decoder->ids[b][t / PAGE] * (int64_t)PAGE + t % PAGE;
}

/* A new token of each request that is shorter than `most`. */
static void append(struct decoder *decoder, const int64_t most[REQUESTS], struct dice *dice) {
    int64_t slot[REQUESTS];
    const struct flow_tokens tokens = {
        {(const unsigned char *)decoder->key, (const unsigned char *)decoder->value},
        {KV_HEADS * DIM * sizeof(float), KV_HEADS * DIM * sizeof(float)},
        {DIM * sizeof(float), DIM * sizeof(float)},
        slot,
        REQUESTS};
    for (int i = 0; i < NEW; i++) {
        decoder->key[i] = (float)dice_range(dice, -1000, 1000) / 500;
        decoder->value[i] = (float)dice_range(dice, -1000, 1000) / 500;
    }
    for (int b = 0; b < REQUESTS; b++)
        slot[b] = decoder->length[b] < most[b] ? slot_of(decoder, b, decoder->length[b]++) : -1;
    kvmill_flow_append(&decoder->problem, &decoder->cache_schedule, &decoder->cache, &tokens,
                       decoder->workspace);
}

static void index_rows(struct decoder *decoder) {
    int64_t indptr[REQUESTS + 1];
    for (int b = 0; b <= REQUESTS; b++)
        indptr[b] = b * MOST_PAGES;
    const struct flow_batch batch = {REQUESTS, POOL, indptr, decoder->ids[0], decoder->length};
    const struct flow_queries queries = {(const unsigned char *)decoder->query,
                                         HEADS * DIM * sizeof(float), DIM * sizeof(float)};
    const struct flow_index index = {
        &decoder->problem, &decoder->index_schedule, &decoder->cache, &batch, &queries, NULL};
    for (int n = 0; n < REQUESTS * KV_HEADS; n++)
        kvmill_flow_index_row(&index, n / KV_HEADS, n % KV_HEADS, decoder->workspace,
                              decoder->list[n]);
}

/* Attend along lists, or all pages of the requests. */
struct along {
    int64_t start[REQUESTS], kvstarts[REQUESTS + 1], rows[REQUESTS * KV_HEADS * MOST_PAGES];
};

static void set_lists(const struct decoder *decoder, bool sparse, struct along *along) {
    along->kvstarts[0] = 0;
    for (int b = 0; b < REQUESTS; b++) {
        struct flow_row row =
            kvmill_flow_row_of(&decoder->problem.budget, PAGE, decoder->length[b]);
        int64_t length = sparse ? flow_listed_length(&row, PAGE) : decoder->length[b];
        along->start[b] = length - 1;
        along->kvstarts[b + 1] = along->kvstarts[b] + length;
        for (int h = 0; h < KV_HEADS; h++) {
            int64_t *rows = along->rows + (b * KV_HEADS + h) * MOST_PAGES;
            for (int p = 0; !sparse && p < MOST_PAGES; p++)
                rows[p] = decoder->ids[b][p] * (int64_t)PAGE;
            if (sparse)
                kvmill_flow_list_rows(decoder->list[b * KV_HEADS + h], row.selected,
                                      decoder->ids[b], PAGE, rows);
        }
    }
}

#define TENSOR(DATA, TYPE, RANK, ...)                                                              \
    {                                                                                              \
        .data = (DATA), .device = {kDLCPU, 0}, .ndim = (RANK), .dtype = (TYPE),                    \
        .shape = (int64_t[]) {                                                                     \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static bool attend(struct decoder *decoder, bool sparse, float *output) {
    static const DLDataType f32 = {kDLFloat, 32, 1}, i64 = {kDLInt, 64, 1};
    int64_t seqstarts[] = {0, 1, 2, 3, 4}, none = 0, one = 1, most = MOST_PAGES * PAGE;
    struct along along;
    set_lists(decoder, sparse, &along);
    const DLTensor query = TENSOR(decoder->query, f32, 3, REQUESTS, HEADS, DIM);
    const DLTensor key = TENSOR(decoder->key, f32, 3, REQUESTS, KV_HEADS, DIM);
    const DLTensor value = TENSOR(decoder->value, f32, 3, REQUESTS, KV_HEADS, DIM);
    const DLTensor start = TENSOR(along.start, i64, 1, REQUESTS);
    const DLTensor tokens = TENSOR(seqstarts, i64, 1, REQUESTS + 1);
    const DLTensor positions = TENSOR(along.kvstarts, i64, 1, REQUESTS + 1);
    const DLTensor lists = TENSOR(along.rows, i64, 3, REQUESTS, KV_HEADS, MOST_PAGES);
    const DLTensor decoding = TENSOR(&none, i64, 0, 0), most_tokens = TENSOR(&one, i64, 0, 0);
    const DLTensor most_positions = TENSOR(&most, i64, 0, 0);
    const DLTensor cache = TENSOR(decoder->memory, f32, 5, 1, 2, KV_HEADS, SLOTS, DIM);
    const DLTensor out = TENSOR(output, f32, 3, REQUESTS, HEADS, DIM);
    const DLTensor *const tensors[KVMILL_CACHE_ATTENTION_TENSORS] = {
        [KVMILL_QUERY] = &query,
        [KVMILL_CURRENT_KEY] = &key,
        [KVMILL_CURRENT_VALUE] = &value,
        [KVMILL_START_POS] = &start,
        [KVMILL_SEQSTARTS] = &tokens,
        [KVMILL_KVSTARTS] = &positions,
        [KVMILL_CACHESTARTS] = &lists,
        [KVMILL_DECODING_BATCHES] = &decoding,
        [KVMILL_MAX_SEQLEN] = &most_tokens,
        [KVMILL_MAX_KVLEN] = &most_positions,
        [KVMILL_CACHE] = &cache,
        [KVMILL_ATTN_OUTPUT] = &out,
    };
    kvmill_error error;
    kvmill_status status = kvmill_run(decoder->plan, tensors, decoder->room, &error);
    if (status != KVMILL_OK)
        diag("%s: %s", kvmill_status_name(status), error.message);
    return status == KVMILL_OK;
}

static void ask(struct decoder *decoder, struct dice *dice) {
    for (int i = 0; i < OUTPUT; i++)
        decoder->query[i] = (float)dice_range(dice, -1000, 1000) / 500;
}

/* ---- What must come of it ---- */

static const float *row_of(const struct decoder *decoder, int v, int64_t head, int64_t slot) {
    return decoder->memory + ((v * KV_HEADS + head) * SLOTS + slot) * DIM;
}

/* Softmax over the tokens of a list, in double. */
static void sum_over_list(const struct decoder *decoder, int b, int head, const int32_t *list,
                          int64_t count, double output[DIM]) {
    const float *query = decoder->query + (b * HEADS + head) * DIM;
    int64_t kv_head = head / RATIO;
    double total = 0;
    memset(output, 0, DIM * sizeof *output);
    for (int64_t t = 0; t < count * PAGE; t++) {
        int64_t token = list[t / PAGE] * (int64_t)PAGE + t % PAGE;
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
        struct flow_row row =
            kvmill_flow_row_of(&decoder->problem.budget, PAGE, decoder->length[b]);
        double wanted[DIM];
        sum_over_list(decoder, b, head, decoder->list[b * KV_HEADS + head / RATIO], row.selected,
                      wanted);
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
        struct flow_row row =
            kvmill_flow_row_of(&decoder->problem.budget, PAGE, decoder->length[b]);
        bool same = memcmp(decoder->output + b * HEADS * DIM, decoder->dense + b * HEADS * DIM,
                           HEADS * DIM * sizeof(float)) == 0;
        equal = equal && (same || !flow_is_whole(&row));
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
        struct flow_row row =
            kvmill_flow_row_of(&decoder->problem.budget, PAGE, decoder->length[b]);
        for (int64_t i = 0; i < row.selected; i++)
            listed[decoder->list[n][i]] = true;
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
    int32_t list[STEPS][REQUESTS * KV_HEADS][MOST_PAGES];
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
        append(decoder, prompt, &dice);
    for (int step = 0; step < STEPS; step++) {
        append(decoder, endless, &dice);
        ask(decoder, &dice);
        index_rows(decoder);
        decoded->right =
            decoded->right && attend(decoder, true, decoder->output) && is_output_right(decoder);
        decoded->dense = decoded->dense && is_dense_equal(decoder, &decoded->sparse);
        decoded->ignored = decoded->ignored && is_rest_ignored(decoder);
        memcpy(decoded->output[step], decoder->output, sizeof decoder->output);
        for (int n = 0; n < REQUESTS * KV_HEADS; n++) {
            struct flow_row row =
                kvmill_flow_row_of(&decoder->problem.budget, PAGE, decoder->length[n / KV_HEADS]);
            memcpy(decoded->list[step][n], decoder->list[n],
                   (size_t)row.selected * sizeof(int32_t));
        }
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
