/* Offers nodes of ggml to the adapter, and has it compute those that it takes: tensors with any
   shapes, strides and types, and any parameters, in memory between pages that trap.  The adapter
   may trust that a tensor has the memory that it describes, and nothing else.

   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "../../base/hash.h"
#include "../../bindings/ggml/backend.h"
#include "../../bindings/ggml/ggml_plans.h"
#include "../../bindings/ggml/host.h"
#include "../plans.h"
#include "call.h"
#include "fuzz.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

enum { QUERY, KEY, VALUE, MASK, SINKS, NODE, TENSORS }; /* sources, and the node itself */
enum { ROWS, SLOTS };
enum { ATTEND = 1, STORE, VIEW, OTHER_OP }; /* this ggml's numbers of ops */
enum { MOST_BYTES = 1 << 20, MINUS_INFINITY = 0xfc00 };

/* A graph of one node. */
struct ggml_cgraph {
    struct ggml_tensor *node;
};

struct offer {
    struct dice *dice;
    int op;
    struct ggml_tensor tensors[TENSORS];
    struct fence fences[TENSORS];
    bool is_shared; /* two tensors have the same memory */
};

static int64_t draw(const struct offer *offer, int64_t least, int64_t most) {
    return dice_range(offer->dice, least, most);
}

/* ---- A ggml ---- */

static const struct {
    enum ggml_type type;
    const char *name;
    int64_t values;
    size_t bytes;
} types[] = {
    {GGML_TYPE_F32, "f32", 1, 4},
    {GGML_TYPE_F16, "f16", 1, 2},
    {GGML_TYPE_BF16, "bf16", 1, 2},
    {GGML_TYPE_Q8_0, "q8_0", 32, 34},
    {2, "q4_0", 32, 18},
    {3, "q4_1", 32, 20},
    {6, "q5_0", 32, 22},
    {7, "q5_1", 32, 24},
    {20, "iq4_nl", 32, 18},
    {GGML_TYPE_I32, "i32", 1, 4},
    {GGML_TYPE_I64, "i64", 1, 8},
    {12, "q4_K", 256, 144},
    {24, "i8", 1, 1},
    {4, "DEPRECATED", 0, 0},
};
enum { TYPES = sizeof types / sizeof *types, CACHE_TYPES = 9 };

static int find_type(enum ggml_type type) {
    int i = 0;
    while (i < TYPES - 1 && types[i].type != type)
        i++;
    return i;
}

static const char *type_name(enum ggml_type type) {
    return types[find_type(type)].name;
}

static int64_t block_size(enum ggml_type type) {
    return types[find_type(type)].values;
}

static size_t type_size(enum ggml_type type) {
    return types[find_type(type)].bytes;
}

static int n_nodes(struct ggml_cgraph *graph) {
    (void)graph;
    return 1;
}

static struct ggml_tensor *node_of(struct ggml_cgraph *graph, int i) {
    (void)i;
    return graph->node;
}

static void use_ggml(void) {
    host = (struct host){.n_nodes = n_nodes,
                         .node = node_of,
                         .type_name = type_name,
                         .block_size = block_size,
                         .type_size = type_size,
                         .attend = ATTEND,
                         .store = STORE,
                         .views = {VIEW, VIEW, VIEW, VIEW, VIEW},
                         .has_tensors_2d = true};
}

/* ---- Plans, each for as long as its node ---- */

static kvmill_plan_options options;
static struct kept_plan {
    unsigned char key[sizeof(kvmill_cache_attend)];
    kvmill_plan *plan;
    bool is_made;
} kept;

/* Requires the same bytes for the same node. */
static bool is_kept(const void *op, size_t size) {
    fuzz_require(!kept.is_made || memcmp(kept.key, op, size) == 0,
                 "a node is described by other bytes the second time");
    bool was = kept.is_made;
    memcpy(kept.key, op, size);
    kept.is_made = true;
    return was;
}

const kvmill_plan *plans_find(const kvmill_cache_attend *op) {
    if (!is_kept(op, sizeof *op))
        kvmill_plan_cache_attend(op, &options, &kept.plan, NULL);
    return kept.plan;
}

const kvmill_plan *plans_find_store(const kvmill_write_rows *op) {
    if (!is_kept(op, sizeof *op))
        kvmill_plan_write_rows(op, &options, &kept.plan, NULL);
    return kept.plan;
}

static void forget_plan(void) {
    kvmill_plan_destroy(kept.plan);
    kept = (struct kept_plan){0};
}

static void draw_options(const struct offer *offer) {
    static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default,
                                               &kvmill_pack_kvmill_test};
    static const char *const isas[] = {NULL, NULL, NULL, "avx2", "avx512", "neon"};
    kvmill_plan_options_init(&options, sizeof options);
    options.packs = packs;
    options.pack_count = 2;
    options.isa = isas[draw(offer, 0, 5)];
    options.threads = (int)draw(offer, 1, 4);
}

/* ---- Tensors ---- */

/* Sets shape and strides: dims after the first in any order in memory, perhaps with gaps. */
static void set_tensor(struct offer *offer, int which, int type, const int64_t ne[GGML_MAX_DIMS]) {
    static const int orders[][3] = {{1, 2, 3}, {2, 1, 3}, {1, 2, 3}, {3, 1, 2}};
    struct ggml_tensor *tensor = &offer->tensors[which];
    const int *order = orders[draw(offer, 0, 3)];
    size_t gap = draw(offer, 0, 7) == 0 ? types[type].bytes : 0, step = types[type].bytes;
    *tensor = (struct ggml_tensor){.type = types[type].type, .name = "offered"};
    memcpy(tensor->ne, ne, sizeof tensor->ne);
    tensor->nb[0] = step;
    step *= (size_t)(types[type].values > 0 ? ne[0] / types[type].values : 0);
    for (int i = 0; i < 3; i++) {
        tensor->nb[order[i]] = step + gap;
        step = (step + gap) * (size_t)ne[order[i]];
    }
}

static void set_source(struct offer *offer, int which) {
    offer->tensors[NODE].src[which] = &offer->tensors[which];
}

static void set_parameter(struct offer *offer, int i, float value) {
    memcpy(&offer->tensors[NODE].op_params[i], &value, sizeof value);
}

static float draw_number(const struct offer *offer) {
    static const float numbers[] = {0.125F, 1, 0, 8, -1, 50, 1e30F, 1e-40F, INFINITY, NAN};
    return numbers[draw(offer, 0, sizeof numbers / sizeof *numbers - 1)];
}

static int64_t draw_dim(const struct offer *offer) {
    static const int64_t dims[] = {64, 64, 64, 128, 32, 16, 72, 256, 1, 0};
    return dims[draw(offer, 0, sizeof dims / sizeof *dims - 1)];
}

/* Draws an attention node, mostly one that has the shape of a kernel. */
static void draw_attention(struct offer *offer) {
    int64_t key_dim = draw_dim(offer), value_dim = draw(offer, 0, 3) ? key_dim : draw_dim(offer);
    int64_t kv_heads = draw(offer, 0, 3) ? 2 : draw(offer, 0, 3), ratio = draw(offer, 0, 2) ? 4 : 1;
    int64_t heads = kv_heads * ratio, tokens = draw(offer, 0, 4), cells = draw(offer, 0, 40);
    int64_t streams = draw(offer, 0, 7) ? 1 : draw(offer, 0, 3), padding = draw(offer, 0, 3);
    int type = (int)draw(offer, 0, TYPES - 1) % 12, other = draw(offer, 0, 3) ? type : 1;
    set_tensor(offer, NODE, 0, (int64_t[]){value_dim, heads, tokens, streams});
    set_tensor(offer, QUERY, 0, (int64_t[]){key_dim, tokens, heads, streams});
    set_tensor(offer, KEY, type, (int64_t[]){key_dim, cells, kv_heads, streams});
    set_tensor(offer, VALUE, other, (int64_t[]){value_dim, cells, kv_heads, streams});
    set_tensor(offer, MASK, 1,
               (int64_t[]){cells + padding, tokens + padding, draw(offer, 0, 3) ? 1 : heads,
                           draw(offer, 0, 1) ? 1 : streams});
    set_tensor(offer, SINKS, 0, (int64_t[]){heads, 1, 1, 1});
    for (int i = QUERY; i <= SINKS; i++)
        if (i < MASK || draw(offer, 0, i == MASK ? 3 : 1) > 0)
            set_source(offer, i);
    for (int i = 0; i < 3; i++)
        set_parameter(offer, i, i == 0 ? 0.125F : draw(offer, 0, 2) ? 0 : draw_number(offer));
}

/* Draws a node that stores rows in a cache. */
static void draw_store(struct offer *offer) {
    int64_t dim = 64 * draw(offer, 0, 4), rows = draw(offer, 0, 9), capacity = draw(offer, 0, 12);
    int64_t streams = draw(offer, 0, 3) ? 1 : draw(offer, 0, 3), of_slots = draw(offer, 0, 1);
    int type = (int)draw(offer, 0, CACHE_TYPES - 1);
    set_tensor(offer, NODE, type, (int64_t[]){dim, capacity, streams, 1});
    set_tensor(offer, ROWS, 0, (int64_t[]){dim, rows, streams, 1});
    set_tensor(offer, SLOTS,
               draw(offer, 0, 1) ? find_type(GGML_TYPE_I64) : find_type(GGML_TYPE_I32),
               (int64_t[]){rows, of_slots ? streams : 1, 1, 1});
    set_source(offer, ROWS);
    set_source(offer, SLOTS);
}

/* ---- Nodes that make no sense ---- */

/* Extents and strides are of memory that there could be: ggml has counted its bytes. */
static uint64_t bent(const struct offer *offer, uint64_t now) {
    const uint64_t numbers[] = {0,       1,       2,       3,          7,         64,
                                now + 1, now * 2, now / 2, 1ULL << 31, 1ULL << 40};
    return numbers[draw(offer, 0, sizeof numbers / sizeof *numbers - 1)];
}

static void bend(struct offer *offer) {
    struct ggml_tensor *node = &offer->tensors[NODE];
    int which = (int)draw(offer, 0, TENSORS - 1), dim = (int)draw(offer, 0, GGML_MAX_DIMS - 1);
    struct ggml_tensor *tensor = &offer->tensors[which];
    int64_t how = draw(offer, 0, 6);
    if (how <= 1)
        tensor->ne[dim] = (int64_t)bent(offer, (uint64_t)tensor->ne[dim]);
    else if (how == 2)
        tensor->nb[dim] = bent(offer, tensor->nb[dim]);
    else if (how == 3)
        tensor->type = types[draw(offer, 0, TYPES - 1)].type;
    else if (how == 4)
        node->src[which] = draw(offer, 0, 1) ? NULL : &offer->tensors[draw(offer, 0, NODE - 1)];
    else if (how == 5)
        set_parameter(offer, dim, draw_number(offer));
    else
        node->op = (int)draw(offer, 0, OTHER_OP);
}

/* ---- Memory ---- */

/* Returns how many bytes a tensor reaches over, or more than MOST_BYTES. */
static long double bytes_of(const struct ggml_tensor *tensor) {
    const int64_t values = block_size(tensor->type);
    long double bytes = (long double)type_size(tensor->type);
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        int64_t count =
            i > 0 || values == 0 ? tensor->ne[i] : (tensor->ne[0] + values - 1) / values;
        if (count <= 0)
            return 0;
        bytes += (long double)(count - 1) * (long double)tensor->nb[i];
    }
    return bytes;
}

/* Fills with zeros, and -infinity in runs, so that many cells are hidden. */
static void fill_mask(const struct offer *offer, const struct fence *fence) {
    const uint16_t hidden = MINUS_INFINITY;
    size_t from = (size_t)draw(offer, 0, 40), step = (size_t)draw(offer, 1, 40);
    memset(fence->data, 0, fence->size);
    for (size_t i = from; i < fence->size / 2; i += i % 16 == 15 ? step : 1)
        memcpy(fence->data + 2 * i, &hidden, sizeof hidden);
}

/* Fills with numbers of rows, of which a few are no rows. */
static void fill_slots(const struct offer *offer, const struct fence *fence, size_t bytes) {
    int64_t most = offer->tensors[NODE].ne[1] - 1;
    bool is_wrong = draw(offer, 0, 7) == 0;
    for (size_t i = 0; i + bytes <= fence->size; i += bytes) {
        int64_t slot = is_wrong && draw(offer, 0, 3) == 0
                           ? bend_number(offer->dice)
                           : (int64_t)(i / bytes * 5) % (most + 1 + (most < 0));
        memcpy(fence->data + i, &slot, bytes);
    }
}

static void fill(const struct offer *offer, int which) {
    enum ggml_type type = offer->tensors[which].type;
    const struct fence *fence = &offer->fences[which];
    if (offer->op == STORE && which == SLOTS)
        fill_slots(offer, fence, type == GGML_TYPE_I32 ? sizeof(int32_t) : sizeof(int64_t));
    else if (offer->op == ATTEND && which == MASK)
        fill_mask(offer, fence);
}

/* Gives the tensors memory; returns false if one is too large. */
static bool open_memory(struct offer *offer) {
    for (int i = 0; i < TENSORS; i++)
        if (bytes_of(&offer->tensors[i]) > MOST_BYTES)
            return false;
    for (int i = 0; i < TENSORS; i++) {
        enum fence_side side = draw(offer, 0, 3) ? FENCE_ABOVE : FENCE_BELOW;
        fence_open(&offer->fences[i], (size_t)bytes_of(&offer->tensors[i]),
                   8 * (int)draw(offer, 0, 7), side, offer->dice);
        offer->tensors[i].data = offer->fences[i].data;
        fill(offer, i);
    }
    return true;
}

/* Sometimes the node's memory is that of a source. */
static void share_memory(struct offer *offer) {
    int which = (int)draw(offer, 0, NODE - 1);
    offer->is_shared =
        draw(offer, 0, 15) == 0 && offer->fences[which].size >= offer->fences[NODE].size;
    if (offer->is_shared)
        offer->tensors[NODE].data = offer->tensors[which].data;
}

static uint64_t hash_memory(const struct offer *offer, int count) {
    uint64_t hash = HASH_START;
    for (int i = 0; i < count; i++)
        hash = hash_bytes(hash, offer->fences[i].data, offer->fences[i].size);
    return hash;
}

/* ---- The adapter ---- */

/* Two backends, of one thread and of two, which last as ggml's do. */
static ggml_backend_t backend_of(const struct offer *offer) {
    static ggml_backend_t backends[2];
    int which = draw(offer, 0, 7) == 0;
    if (backends[which] == NULL) {
        backends[which] = backend_new(NULL);
        fuzz_require(backends[which] != NULL, "no memory for a backend");
        backend_set_n_threads(backends[which], which + 1);
    }
    return backends[which];
}

/* A node that fails has written nothing, unless it stores: its streams are stored one by one. */
static void compute(struct offer *offer) {
    struct ggml_tensor *node = &offer->tensors[NODE];
    ggml_backend_t backend = backend_of(offer);
    struct ggml_cgraph graph = {node};
    uint64_t sources = hash_memory(offer, NODE), all = hash_memory(offer, TENSORS);
    int64_t nodes = backend_nodes(backend);
    enum ggml_status status = backend->iface.graph_compute(backend, &graph);
    fuzz_require(status == GGML_STATUS_SUCCESS || status == GGML_STATUS_FAILED, "status %d",
                 status);
    fuzz_require(offer->is_shared || sources == hash_memory(offer, NODE), "a source has changed");
    fuzz_require(status == GGML_STATUS_SUCCESS || node->op == STORE ||
                     all == hash_memory(offer, TENSORS),
                 "a node that failed has written");
    fuzz_require(backend_nodes(backend) - nodes ==
                     (status == GGML_STATUS_SUCCESS && node->op == ATTEND),
                 "%lld nodes are counted", (long long)(backend_nodes(backend) - nodes));
    for (int i = 0; i < TENSORS; i++)
        fuzz_require(fence_is_intact(&offer->fences[i], NULL), "memory that is not its own");
}

static void try_offer(struct offer *offer) {
    const struct ggml_tensor *node = &offer->tensors[NODE];
    enum verdict verdict = backend_judge(node); /* tensors have no memory yet */
    fuzz_require((verdict == HAS_NO_KERNELS) == (kept.plan == NULL), "verdict %d", verdict);
    if (verdict == HAS_NO_KERNELS || !open_memory(offer))
        return;
    share_memory(offer);
    compute(offer);
    for (int i = 0; i < TENSORS; i++)
        fence_close(&offer->fences[i]);
}

void fuzz_ggml(const unsigned char *data, size_t size) {
    struct dice dice = dice_of_bytes(data, size);
    struct offer offer = {.dice = &dice};
    use_ggml();
    draw_options(&offer);
    offer.op = draw(&offer, 0, 2) ? ATTEND : STORE;
    (offer.op == ATTEND ? draw_attention : draw_store)(&offer);
    offer.tensors[NODE].op = offer.op;
    for (int64_t n = draw(&offer, 0, 3); n > 1; n--)
        bend(&offer);
    try_offer(&offer);
    forget_plan();
}
