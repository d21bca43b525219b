/* Attention of one layer over an int8 cache: plan once, prefill a prompt, then decode token by
   token.

   There is no model: each token has a different key, and its number as its value.  A query that
   is the key of token t gets back t.  Build: make -C examples (needs pkg-config). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvmill.h>
#include <kvmill_default.h>

enum { HEADS = 32, KV_HEADS = 8, HEAD_DIM = 128, GROUP = 8 };
enum { CAPACITY = 1024, PROMPT = 100, STEPS = 20 };

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

/* half() and whole() convert between float and float16, for 0 and 2^-14 to 65504. */
static uint16_t half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(x == 0 ? 0 : (bits >> 13) - (112 << 10));
}

static float whole(uint16_t x) {
    uint32_t bits = x == 0 ? 0 : ((uint32_t)x << 13) + (112 << 23);
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* ---- In place of a model ---- */

static uint16_t query[PROMPT * HEADS * HEAD_DIM], output[PROMPT * HEADS * HEAD_DIM];
static uint16_t key[PROMPT * KV_HEADS * HEAD_DIM], value[PROMPT * KV_HEADS * HEAD_DIM];

/* Makes `count` tokens from `first` on.  Each query is the key of the token at half its
   position. */
static void make_tokens(int64_t first, int64_t count) {
    memset(query, 0, sizeof query);
    memset(key, 0, sizeof key);
    for (int64_t t = 0; t < count; t++) {
        for (int h = 0; h < HEADS; h++)
            query[(t * HEADS + h) * HEAD_DIM + (first + t) / 2] = half(64);
        for (int h = 0; h < KV_HEADS; h++) {
            uint16_t *row = value + (t * KV_HEADS + h) * HEAD_DIM;
            key[(t * KV_HEADS + h) * HEAD_DIM + first + t] = half(64);
            for (int d = 0; d < HEAD_DIM; d++)
                row[d] = half((float)(first + t));
        }
    }
}

/* ---- The layer ---- */

static const DLDataType float16 = {kDLFloat, 16, 1}, int8 = {kDLInt, 8, 1}, int64 = {kDLInt, 64, 1};

static kvmill_pool *pool; /* the threads that share a run: one for each core */
static int8_t *codes;
static uint16_t *scales;

/* Stores `tokens` new keys and values after the first `start` of the cache, and attends. */
static kvmill_status attend(const kvmill_plan *plan, void *workspace, int64_t start, int64_t tokens,
                            kvmill_error *error) {
    int64_t heads[] = {1, tokens, HEADS, HEAD_DIM}, kv_heads[] = {1, tokens, KV_HEADS, HEAD_DIM};
    int64_t cache_shape[] = {1, 1, 2, KV_HEADS, CAPACITY, HEAD_DIM};
    int64_t scale_shape[] = {1, 1, 2, KV_HEADS, CAPACITY, HEAD_DIM / GROUP};
    DLTensor q = tensor(query, 4, heads, float16), out = tensor(output, 4, heads, float16);
    DLTensor k = tensor(key, 4, kv_heads, float16), v = tensor(value, 4, kv_heads, float16);
    DLTensor cache = tensor(codes, 6, cache_shape, int8);
    DLTensor scale = tensor(scales, 6, scale_shape, float16);
    DLTensor start_pos = tensor(&start, 0, NULL, int64);
    const DLTensor *tensors[KVMILL_CACHE_ATTENTION_TENSORS] = {
        [KVMILL_CACHE_ATTENTION_QUERY] = &q,
        [KVMILL_CACHE_ATTENTION_CURRENT_KEY] = &k,
        [KVMILL_CACHE_ATTENTION_CURRENT_VALUE] = &v,
        [KVMILL_CACHE_ATTENTION_CACHE] = &cache,
        [KVMILL_CACHE_ATTENTION_START_POS] = &start_pos,
        [KVMILL_CACHE_ATTENTION_SCALE] = &scale,
        [KVMILL_CACHE_ATTENTION_ATTN_OUTPUT] = &out};
    return kvmill_run_on(plan, pool, tensors, KVMILL_CACHE_ATTENTION_TENSORS, workspace, error);
}

static void show(int64_t position, int64_t row) {
    printf("token %lld asks for token %lld and gets %.2f\n", (long long)position,
           (long long)position / 2, whole(output[row * HEADS * HEAD_DIM]));
}

/* Checks the attributes and chooses kernels.  Shapes come with each run. */
static kvmill_plan *make_plan(void) {
    const kvmill_pack *packs[] = {&kvmill_pack_kvmill_default};
    kvmill_plan_options options = {.struct_size = sizeof options,
                                   .packs = packs,
                                   .pack_count = 1,
                                   .threads = kvmill_pool_threads(pool)};
    kvmill_cache_attention op;
    kvmill_cache_attention_init(&op, sizeof op);
    op.num_heads = HEADS;
    op.num_kv_heads = KV_HEADS;
    op.head_dim = HEAD_DIM;
    op.quant_bit = 8;
    op.quant_group = GROUP;
    op.cache_layout = 1;
    op.T1 = op.T3 = float16;
    op.T2 = int8;
    kvmill_plan *plan;
    kvmill_error error;
    char text[2048];
    check(kvmill_plan_multi_head_cache_attention(&op, &options, &plan, &error), &error);
    kvmill_plan_describe(plan, text, sizeof text);
    printf("%s\n", text);
    return plan;
}

int main(void) {
    kvmill_error error;
    check(kvmill_pool_create(0, NULL, &pool, &error), &error);
    kvmill_plan *plan = make_plan();

    /* The caller allocates the cache, and a workspace for one run at a time. */
    codes = calloc(2 * KV_HEADS * CAPACITY, HEAD_DIM);
    scales = calloc(2 * KV_HEADS * CAPACITY, HEAD_DIM / GROUP * sizeof *scales);
    void *workspace = aligned_alloc(64, (kvmill_plan_workspace_size(plan) + 63) / 64 * 64);

    make_tokens(0, PROMPT);
    check(attend(plan, workspace, 0, PROMPT, &error), &error);
    show(PROMPT - 1, PROMPT - 1);

    for (int64_t position = PROMPT; position < PROMPT + STEPS; position++) {
        make_tokens(position, 1);
        check(attend(plan, workspace, position, 1, &error), &error);
    }
    show(PROMPT + STEPS - 1, 0);

    /* An error leaves cache and output unchanged. */
    kvmill_status status = attend(plan, workspace, CAPACITY, 1, &error);
    printf("%s: %s\n", kvmill_status_name(status), error.message);

    kvmill_plan_destroy(plan);
    kvmill_pool_destroy(pool);
    free(workspace);
    free(scales);
    free(codes);
    return status != KVMILL_E_INDEX_RANGE;
}
