/* Runs problems of cache attention, and compares them with the oracle.

   SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"

#include "../defs/op.h"

const char *attention_tensor_name(int tensor) {
    return kvmill_op_tensor(kvmill_op_by_name("MultiHeadCacheAttention"), tensor)->name;
}

/* ---- The oracle's problem ---- */

static struct oracle_side dense_side(const struct attention *a, bool value) {
    struct side side = side_of(a, value);
    int tensor = has_value_cache(a) && value ? KVMILL_CACHE_ATTENTION_VALUE_CACHE
                                             : KVMILL_CACHE_ATTENTION_CACHE;
    struct oracle_tiles tiles = {0};
    if (in_tiles(&side))
        tiles = value ? (struct oracle_tiles){4, 1} : (struct oracle_tiles){16, 4};
    const char *overflow = a->op.scale_overflow;
    if (is_transposed(side.format))
        tiles = (struct oracle_tiles){a->op.page_size, side.T2.bits / 8};
    return (struct oracle_side){.type = type_of(&side),
                                .scale_type = attention_type(side.T3),
                                .dim = side.dim,
                                .group = side.quant_bit != 0 ? side.group : 0,
                                .data = a->dense[tensor],
                                .scale = a->dense[tensor + 1],
                                .tiles = tiles,
                                .saturates = overflow != NULL && strcmp(overflow, "saturate") == 0};
}

static void set_cache(const struct attention *a, struct oracle_attention *problem) {
    const kvmill_cache_attention *op = &a->op;
    problem->cache = (struct oracle_cache){.dynamic = op->dynamic_batching,
                                           .layout = op->cache_layout,
                                           .page_size = op->page_size,
                                           .batch = a->sequences + a->spare_batch,
                                           .layers = op->num_layer,
                                           .sides = op->value_differs ? 1 : 2,
                                           .capacity = a->capacity,
                                           .heads = kv_heads(a)};
    problem->layer = op->layer_idx;
    problem->key = dense_side(a, false);
    problem->value = dense_side(a, true);
    problem->value_view = has_value_view(a);
    problem->cachestarts =
        (const int64_t *)(const void *)a->dense[KVMILL_CACHE_ATTENTION_CACHESTARTS];
}

/* The inputs of MultiHeadAttention are a cache of one layer in which sequences follow each
   other. */
static void set_inputs(const struct attention *a, struct oracle_attention *problem) {
    enum oracle_type type = attention_type(a->op.T1);
    problem->cache = (struct oracle_cache){.dynamic = true,
                                           .layers = 1,
                                           .sides = 1,
                                           .capacity = a->kvstarts[a->sequences],
                                           .heads = kv_heads(a)};
    problem->key = (struct oracle_side){
        .type = type, .dim = a->op.head_dim, .data = a->dense[KVMILL_CACHE_ATTENTION_KEY]};
    problem->value = (struct oracle_side){
        .type = type, .dim = value_dim(a), .data = a->dense[KVMILL_CACHE_ATTENTION_VALUE]};
    problem->cachestarts = a->kvstarts;
}

static void set_mask(const struct attention *a, struct oracle_attention *problem) {
    int rank = (int)a->mask_rank;
    int64_t width = a->longest_length + a->mask_padding, each = a->longest_tokens;
    int64_t heads = a->op.num_heads;
    problem->mask = rank != 0 ? a->dense[KVMILL_CACHE_ATTENTION_ATTN_MASK] : NULL;
    if (a->op.dynamic_batching) {
        problem->mask_token = a->kvstarts[a->sequences] + a->mask_padding;
        problem->mask_head = rank == 3 ? a->seqstarts[a->sequences] * problem->mask_token : 0;
        problem->mask_kv = 1;
        return;
    }
    problem->mask_token = width;
    problem->mask_head = rank > 2 ? each * width : 0;
    bool by_sequence = rank == 4 && !a->mask_one_batch;
    problem->mask_sequence = (by_sequence ? heads * each * width : 0) - each * width;
}

static int math_of(const char *name) {
    bool near = name != NULL && strcmp(name, "near") == 0;
    bool fast = name != NULL && strcmp(name, "fast") == 0;
    return near ? KVMILL_MATH_NEAR : fast ? KVMILL_MATH_FAST : KVMILL_MATH_F32;
}

static void set_scores(const struct attention *a, struct oracle_attention *problem) {
    const kvmill_cache_attention *op = &a->op;
    problem->math = math_of(op->math);
    problem->causal = op->is_causal;
    problem->alibi = op->is_alibi;
    problem->empty_is_nan = op->empty_is_nan;
    problem->scale = op->softmax_scale != 0 ? op->softmax_scale : 1 / sqrt((double)op->head_dim);
    problem->softcap = op->softcap;
    problem->window = op->left_window_size + 1;
    problem->alibi_scale = op->alibi_scale != 0 ? op->alibi_scale : 1;
    problem->alibi_heads = op->alibi_heads;
    problem->alibi_first = op->alibi_first;
    problem->sinks = a->has_sinks ? a->dense[KVMILL_CACHE_ATTENTION_SINKS] : NULL;
    problem->sinks_type = a->sinks_are_activations ? attention_type(op->T1) : ORACLE_F32;
    set_mask(a, problem);
}

struct oracle_attention attention_problem(const struct attention *a) {
    struct oracle_attention problem = {
        .activation = attention_type(a->op.T1),
        .heads = has_query(a) ? a->op.num_heads : kv_heads(a),
        .kv_heads = kv_heads(a),
        .repeat = a->op.num_repeat,
        .query = a->dense[KVMILL_CACHE_ATTENTION_QUERY],
        .current_key = a->dense[KVMILL_CACHE_ATTENTION_CURRENT_KEY],
        .current_value = a->dense[KVMILL_CACHE_ATTENTION_CURRENT_VALUE],
        .sequences = a->sequences,
        .seqstarts = a->seqstarts,
        .kvstarts = a->kvstarts,
        .start_pos = a->start,
        .ring = a->ring,
        .pages = a->pages,
        .lists = page_lists(a),
        .page_size = a->op.page_size,
        .decoding = a->op.dynamic_batching ? a->decoding : 0,
    };
    (has_cache(a) ? set_cache : set_inputs)(a, &problem);
    set_scores(a, &problem);
    return problem;
}

/* ---- The expected result ---- */

static uint64_t outputs_of(const struct attention *a) {
    const uint64_t caches = UINT64_C(15) << KVMILL_CACHE_ATTENTION_CACHE,
                   results = UINT64_C(3) << KVMILL_CACHE_ATTENTION_ATTN_OUTPUT,
                   loaded = UINT64_C(3) << KVMILL_CACHE_ATTENTION_KEY;
    return caches | results | (has_query(a) ? 0 : loaded);
}

static bool is_output(const struct attention *a, int i) {
    return outputs_of(a) >> i & 1;
}

static void allocate_result(struct attention *a) {
    size_t rows = (size_t)(a->seqstarts[a->sequences] * a->op.num_heads + 1);
    size_t numbers = rows * (size_t)value_dim(a);
    a->result =
        (struct oracle_result){calloc(numbers, sizeof(double)), calloc(numbers, sizeof(double)),
                               calloc(rows, sizeof(double)), calloc(rows, sizeof(double))};
}

/* Computes the oracle's result, which changes the dense arrays; the tensors keep their contents. */
static void ask_oracle(struct attention *a) {
    struct oracle_attention problem = attention_problem(a);
    if (!has_query(a)) {
        oracle_store(&problem);
        oracle_load(&problem, a->dense[KVMILL_CACHE_ATTENTION_KEY],
                    a->dense[KVMILL_CACHE_ATTENTION_VALUE]);
        return;
    }
    allocate_result(a);
    (has_cache(a) ? oracle_step : oracle_attend)(&problem, &a->result);
}

void attention_expect(struct attention *a, struct dice *dice) {
    ask_oracle(a);
    tensors_keep(a->before, a->tensor, TENSORS, dice);
    tensors_keep(a->expected, a->tensor, TENSORS, dice);
    for (int i = 0; i < TENSORS; i++)
        if (tensor_is_open(&a->tensor[i]) && is_output(a, i))
            tensor_move(&a->expected[i], a->dense[i], false);
}

/* ---- Running ---- */

kvmill_status attention_plan(const struct attention *a, const kvmill_plan_options *options,
                             kvmill_plan **plan, kvmill_error *error) {
    switch (a->which) {
    case KEY_VALUE_CACHE:
        return kvmill_plan_key_value_cache(&a->op, options, plan, error);
    case MULTI_HEAD_ATTENTION:
        return kvmill_plan_multi_head_attention(&a->op, options, plan, error);
    default:
        return kvmill_plan_multi_head_cache_attention(&a->op, options, plan, error);
    }
}

kvmill_plan *attention_plan_and_run(const struct attention *a, const kvmill_plan_options *options,
                                    int threads, struct dice *dice) {
    kvmill_plan *plan;
    kvmill_error error;
    kvmill_status status = attention_plan(a, options, &plan, &error);
    if (status == KVMILL_OK) {
        fence_explain_traps(a->words);
        tensors_protect(a->tensor, TENSORS, outputs_of(a), true);
        status = run_with_workspace(plan, a->given, threads, dice, &error);
        tensors_protect(a->tensor, TENSORS, outputs_of(a), false);
    }
    if (status == KVMILL_OK && *error.message == '\0')
        return plan;
    diag("%s: %s; %s", kvmill_status_name(status), error.message, a->words);
    kvmill_plan_destroy(plan);
    return NULL;
}

/* ---- Judging ---- */

/* Makes elements that are within their error equal to the expected ones. */
static bool absorb_close(struct attention *a, int i) {
    const struct fenced_tensor *tensor = &a->tensor[i];
    bool lse = i == KVMILL_CACHE_ATTENTION_LSE;
    if (!tensor_is_close(tensor, lse ? a->result.lse : a->result.output,
                         lse ? a->result.lse_error : a->result.output_error,
                         attention_tensor_name(i), a->words))
        return false;
    for (int64_t n = 0; n < tensor_count(&tensor->dl); n++)
        memcpy(tensor_element(&a->expected[i], n), tensor_element(tensor, n),
               tensor_bytes(&tensor->dl, 1));
    return true;
}

/* Makes NaNs equal to the expected NaNs: any NaN is right. */
static void absorb_nans(struct attention *a, int i) {
    struct fenced_tensor *tensor = &a->tensor[i], *expected = &a->expected[i];
    enum oracle_type type = attention_type(tensor->dl.dtype);
    int64_t count = tensor_count(&tensor->dl), size = (int64_t)tensor_bytes(&tensor->dl, 1);
    if (tensor_is_equal(tensor, expected, NULL))
        return;
    for (int64_t n = 0; n < count; n++) {
        const unsigned char *was = tensor_element(&a->before[i], n);
        unsigned char *want = tensor_element(expected, n), *have = tensor_element(tensor, n);
        if (memcmp(was, want, (size_t)size) != 0 && isnan(oracle_get(type, want, 0)) &&
            isnan(oracle_get(type, have, 0)))
            memcpy(want, have, (size_t)size);
    }
}

bool attention_is_right(struct attention *a) {
    for (int i = 0; i < TENSORS; i++) {
        bool close = i == KVMILL_CACHE_ATTENTION_ATTN_OUTPUT || i == KVMILL_CACHE_ATTENTION_LSE;
        if (!tensor_is_open(&a->tensor[i]))
            continue;
        if (close && !absorb_close(a, i))
            return false;
        if (!close && is_output(a, i) && number_is_float(a->tensor[i].dl.dtype))
            absorb_nans(a, i);
    }
    return tensors_are_kept(a->tensor, a->expected, TENSORS, 0, a->words);
}

bool attention_runs_right(struct attention *a, const kvmill_plan_options *options, int threads,
                          struct dice *dice) {
    OWN_PLAN kvmill_plan *plan = attention_plan_and_run(a, options, threads, dice);
    bool right = plan != NULL && attention_is_right(a);
    if (plan != NULL && !right)
        diag("%s, %s", a->words, plan_text(plan));
    return right;
}
