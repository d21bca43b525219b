/* SPDX-License-Identifier: Apache-2.0 */
#include "described.h"

#include "plans.h"

const struct described_tensor *described_tensor(const struct scene *scene,
                                                const struct op_tensor *tensor) {
    const struct described_tensor *row = scene->by->tensors;
    while (row->name != NULL && strcmp(row->name, tensor->name) != 0)
        row++;
    return row;
}

static int64_t roll(struct scene *scene, int64_t least, int64_t most) {
    return dice_range(scene->dice, least, most);
}

#define PLAN(NAME, FUNCTION, MEMBER)                                                               \
    static kvmill_status NAME(const struct scene *scene, const kvmill_plan_options *options,       \
                              kvmill_plan **plan, kvmill_error *error) {                           \
        return FUNCTION(&scene->base.MEMBER, options, plan, error);                                \
    }

/* ---- Words ---- */

int64_t scene_bind(struct scene *scene, const char *word, int64_t value) {
    struct op_dim *dim = scene->words;
    while (dim->word != NULL && strcmp(dim->word, word) != 0)
        dim++;
    if (dim->word == NULL)
        *dim = (struct op_dim){word, value};
    return dim->value;
}

static int64_t roll_dim(struct scene *scene, int64_t least, int64_t most) {
    bool none = scene->may_be_empty && dice_once_in(scene->dice, 2);
    return none ? 0 : roll(scene, least, most);
}

/* Binds a batch, tokens of each sequence, and positions before them. */
static void bind_call(struct scene *scene, bool dynamic) {
    int64_t batch = scene_bind(scene, "B", roll_dim(scene, 2, 3));
    int64_t tokens = scene_bind(scene, "S", roll_dim(scene, 2, 3));
    int64_t all = scene_bind(scene, "PAST", roll_dim(scene, 1, 3)) + tokens;
    scene_bind(scene, "ALL", all);
    scene_bind(scene, "P", all);
    scene_bind(scene, "Q", batch * all);
    scene_bind(scene, "T", batch * tokens);
    scene_bind(scene, "N", batch * tokens);
    scene_bind(scene, "C", dynamic ? batch * all + 1 : all + 1);
}

static int64_t or_else(int64_t value, int64_t other) {
    return value != 0 ? value : other;
}

static void bind_heads(struct scene *scene, const char *kv_word, int64_t heads, int64_t kv_heads,
                       int64_t dim, int64_t value_dim) {
    scene_bind(scene, "H", heads);
    scene_bind(scene, kv_word, or_else(kv_heads, heads));
    scene_bind(scene, "D", dim);
    scene_bind(scene, "E", or_else(value_dim, dim));
}

/* ---- PMX ---- */

#define CACHE_WITH(PARTIAL)                                                                        \
    "num_kv_heads=2 num_heads={2|4|6} head_dim={16|32} num_layer=2 layer_idx={0|1} "               \
    "{T1=float16 T2=float16 value_T2=float16|T1=float32 T2=float32 value_T2=float32} " PARTIAL     \
    "value_differs={0|1} {|quant_bit=8 T2=int8 T3=float16}"
#define STORE_SETTINGS CACHE_WITH("")
#define CACHE_SETTINGS CACHE_WITH("partial={0|1} ")

static void bind_rows(struct scene *scene) {
    const kvmill_cache_attention *op = &scene->base.cache;
    bind_heads(scene, "KVH", op->num_heads, op->num_kv_heads, op->head_dim,
               op->value_differs ? op->value_head_dim : 0);
    scene_bind(scene, "L", op->num_layer);
    scene_bind(scene, "KV", op->value_differs ? 1 : 2);
    scene_bind(scene, "U", op->quant_group > 0 ? op->head_dim / op->quant_group : 0);
}

static void bind_cache(struct scene *scene) {
    bind_call(scene, scene->base.cache.dynamic_batching != 0);
    scene_bind(scene, "R", scene->base.cache.num_repeat);
    bind_rows(scene);
}

PLAN(plan_store, kvmill_plan_key_value_cache, cache)
PLAN(plan_scores, kvmill_plan_multi_head_attention, cache)
PLAN(plan_fused, kvmill_plan_multi_head_cache_attention, cache)

static const struct described_tensor static_tensors[] = {
    {.name = "start_pos", .first = "PAST"},
    {.name = "cache", .shape = "B L KV C KVH D"},
    {.name = "scale", .shape = "B L KV C KVH U"},
    {.name = "value_cache", .shape = "B L KV C KVH E"},
    {.name = NULL},
};

static const struct described_tensor dynamic_tensors[] = {
    {.name = "start_pos", .first = "PAST"},
    {.name = "seqstarts", .step = "S"},
    {.name = "kvstarts", .step = "ALL"},
    {.name = "cachestarts", .shape = "B", .step = "ALL"},
    {.name = "max_seqlen", .first = "S"},
    {.name = "max_kvlen", .first = "ALL"},
    {.name = "cache", .shape = "C L KV KVH D", .loose = true},
    {.name = "scale", .shape = "C L KV KVH U"},
    {.name = "value_cache", .shape = "C L KV KVH E", .loose = true},
    {.name = NULL},
};

/* ---- CacheAttend ---- */

#define ATTEND_SETTINGS                                                                            \
    "num_kv_heads=2 num_heads={2|4|6} key_head_dim={16|32} "                                       \
    "{T1=float16 key_T2=float16 value_T2=float16|T1=float32 key_T2=float32 value_T2=float32} "     \
    "is_alibi={0|1} {|mask_T1=float32} "                                                           \
    "{|key_quant_bit=8 key_quant_group=8 key_T2=int8 key_T3=float16}"

static void bind_attend(struct scene *scene) {
    const kvmill_cache_attend *op = &scene->base.attend;
    bind_call(scene, false);
    bind_heads(scene, "G", op->num_heads, op->num_kv_heads, op->key_head_dim, op->value_head_dim);
    scene_bind(scene, "U", op->key_quant_group > 0 ? op->key_head_dim / op->key_quant_group : 0);
    scene_bind(scene, "V",
               op->value_quant_group > 0 ? op->key_head_dim / op->value_quant_group : 0);
    scene_bind(scene, "M", 4);
}

PLAN(plan_attend, kvmill_plan_cache_attend, attend)

static const struct described_tensor attend_tensors[] = {
    {.name = "key", .shape = "B C G D"},
    {.name = "value", .shape = "B C G E"},
    {.name = "key_scale", .shape = "B C G U"},
    {.name = "value_scale", .shape = "B C G V"},
    {.name = "lengths", .first = "ALL", .given = true},
    {.name = "query_starts", .step = "S"},
    {.name = "key_positions", .shape = "B C"},
    {.name = "attn_mask", .loose = true},
    {.name = NULL},
};

/* ---- WriteRows ---- */

#define WRITE_SETTINGS                                                                             \
    "head_dim={16|32} {T1=float16 T2=float16|T1=float32 T2=float32} "                              \
    "{|quant_bit=8 quant_group=8 T2=int8 T3=float16}"

static void bind_write(struct scene *scene) {
    const kvmill_write_rows *op = &scene->base.write;
    bind_call(scene, false);
    bind_heads(scene, "G", roll(scene, 1, 3), 0, op->head_dim, 0);
    scene_bind(scene, "U", op->quant_group > 0 ? op->head_dim / op->quant_group : 0);
}

PLAN(plan_write, kvmill_plan_write_rows, write)

static const struct described_tensor write_tensors[] = {
    {.name = "cache", .shape = "Q H D", .loose = true},
    {.name = "scale", .shape = "Q H U"},
    {.name = NULL},
};

/* ---- ONNX ---- */

#define ONNX_SETTINGS "{T1=float16 U=float16|T1=float32 U=float32} T2={float16|float32}"

/* Without a past, all keys are new; a step's keys go into a cache that has room for them. */
static void bind_onnx(struct scene *scene) {
    bool step = scene->op->number == 1;
    int64_t queries = scene_bind(scene, "S", roll_dim(scene, 2, 3));
    int64_t keys = scene_bind(scene, "N", step ? queries : roll_dim(scene, 2, 4));
    scene_bind(scene, "B", roll_dim(scene, 2, 3));
    int64_t past = scene_bind(scene, "P", keys + 2);
    scene_bind(scene, "T", step ? past : keys);
    bind_heads(scene, "G", 2 * roll(scene, 1, 2), 2, 8 * roll(scene, 1, 2), 8 * roll(scene, 1, 2));
}

PLAN(plan_onnx, kvmill_plan_attention, onnx)

static kvmill_status plan_step(const struct scene *scene, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    kvmill_tensor_scatter_attention step = scene->step;
    step.struct_size = sizeof step;
    step.attention = &scene->base.onnx;
    step.write_indices = scene->tensors[KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES];
    return kvmill_plan_tensor_scatter_attention(&step, options, plan, error);
}

static const struct described_tensor no_rows[] = {{.name = NULL}};

/* ---- TensorScatter ---- */

#define SCATTER_SETTINGS "mode={linear|circular} dtype={float16|float32}"

static void bind_scatter(struct scene *scene) {
    scene_bind(scene, "B", roll_dim(scene, 2, 3));
    scene_bind(scene, "H", roll(scene, 1, 2));
    scene_bind(scene, "C", roll(scene, 4, 6));
    scene_bind(scene, "N", roll_dim(scene, 2, 3));
    scene_bind(scene, "W", roll_dim(scene, 2, 9));
}

PLAN(plan_scatter, kvmill_plan_tensor_scatter, scatter)

static const struct described_tensor scatter_tensors[] = {
    {.name = "past_cache", .shape = "B H C W"},
    {.name = "update", .shape = "B H N W"},
    {.name = "present_cache", .shape = "B H C W"},
    {.name = NULL},
};

/* ---- Flows ---- */

#define FLOW_SETTINGS CACHE_SETTINGS " cache_mode=1 page_size=4 num_layer=1 layer_idx=0"

/* Binds requests of one page; the last token of a page is new. */
static void bind_flow(struct scene *scene) {
    const kvmill_cache_attention *op = &scene->base.cache;
    int64_t batch = roll_dim(scene, 2, 3);
    scene_bind(scene, "B", batch);
    scene_bind(scene, "T", batch);
    scene_bind(scene, "R", or_else(op->num_kv_heads, op->num_heads));
    scene_bind(scene, "SIZE", op->page_size);
    scene_bind(scene, "C", batch * op->page_size);
    bind_rows(scene);
}

/* Plans a flow that scores pages by the mean of their keys. */
static kvmill_status plan_flow(const struct scene *scene, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    static const kvmill_flow_op index[] = {
        {.op = "Mean", .inputs = {"k"}, .output = "mean", .dims = 1u << 1},
        {.op = "GeMM", .inputs = {"q", "mean"}, .output = "scores"},
        {.op = "Max", .inputs = {"scores"}, .output = "score", .dims = 1u << 2},
        {.op = "topK", .inputs = {"score"}},
    };
    kvmill_flow flow;
    kvmill_flow_init(&flow, sizeof flow);
    flow.attention = &scene->base.cache;
    flow.index = index;
    flow.index_count = sizeof index / sizeof *index;
    flow.select.topk_val = scene->topk_val;
    flow.select.dense_below = scene->dense_below;
    flow.select.reserved_eos = 1;
    return plan_flow_step(scene->op->number, &flow, &scene->limits, options, plan, error);
}

static const struct described_tensor flow_tensors[] = {
    {.name = "cache", .shape = "C L KV KVH D", .loose = true},
    {.name = "scale", .shape = "C L KV KVH U"},
    {.name = "value_cache", .shape = "C L KV KVH E", .loose = true},
    {.name = "seqstarts", .step = "1"},
    {.name = "seq_len", .first = "SIZE"},
    {.name = "page_indptr", .step = "1"},
    {.name = "page_ids", .shape = "B", .step = "1"},
    {.name = "slot_mapping", .step = "SIZE"},
    {.name = "sel_indptr", .step = "1"},
    {.name = "sel", .shape = "B*R"},
    {.name = "block_ids", .shape = "B*R"},
    {.name = NULL},
};

/* ---- All ops ---- */

#define CASE(NAME, COUNT, WORDS, ROWS, SETTINGS, KIND, PLAN, ...)                                  \
    {                                                                                              \
        .name = (NAME), .count = (COUNT), .call_words = (WORDS), .tensors = (ROWS),                \
        .settings = SETTINGS, .bind = bind_##KIND, .plan = (PLAN), __VA_ARGS__                     \
    }
#define CACHE(NAME, ROWS, SETTINGS, PLAN)                                                          \
    CASE(NAME, KVMILL_CACHE_ATTENTION_TENSORS, "B S P Q T C", ROWS, SETTINGS, cache, PLAN,         \
         .aligned = false)
#define ONNX(NAME, COUNT, PLAN)                                                                    \
    CASE(NAME, COUNT, "B H S N T G P D E", no_rows, ONNX_SETTINGS, onnx, PLAN, .aligned = false)
#define FLOW(NAME, ...)                                                                            \
    CASE(NAME, KVMILL_FLOW_FIELDS, "B T R C", flow_tensors, FLOW_SETTINGS, flow, plan_flow,        \
         .aligned = true, .attributes = "dynamic_batching.MultiHeadCacheAttention", __VA_ARGS__)
const struct described_case described_cases[] = {
    CACHE("KeyValueCache", static_tensors, STORE_SETTINGS, plan_store),
    CACHE("MultiHeadAttention", static_tensors, CACHE_SETTINGS, plan_scores),
    CACHE("MultiHeadCacheAttention", static_tensors, CACHE_SETTINGS, plan_fused),
    CACHE("dynamic_batching.KeyValueCache", dynamic_tensors, STORE_SETTINGS, plan_store),
    CACHE("dynamic_batching.MultiHeadAttention", dynamic_tensors, CACHE_SETTINGS, plan_scores),
    CACHE("dynamic_batching.MultiHeadCacheAttention", dynamic_tensors, CACHE_SETTINGS, plan_fused),
    CASE("CacheAttend", KVMILL_CACHE_ATTEND_TENSORS, "B S N C T P M", attend_tensors,
         ATTEND_SETTINGS, attend, plan_attend, .aligned = false),
    CASE("WriteRows", KVMILL_WRITE_ROWS_TENSORS, "N H Q", write_tensors, WRITE_SETTINGS, write,
         plan_write, .aligned = false),
    ONNX("Attention", KVMILL_ATTENTION_TENSORS, plan_onnx),
    ONNX("TensorScatterAttention", KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS, plan_step),
    CASE("TensorScatter", KVMILL_TENSOR_SCATTER_TENSORS, "B H C N W", scatter_tensors,
         SCATTER_SETTINGS, scatter, plan_scatter, .aligned = false),
    FLOW("decode", .no_kernels = false),
    FLOW("append", .no_kernels = false),
    FLOW("summarise", .no_kernels = true),
    FLOW("index", .no_kernels = false),
    FLOW("attend", .no_kernels = false),
    {.name = NULL},
};
