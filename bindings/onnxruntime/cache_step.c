/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_step.h"

#include <inttypes.h>
#include <string.h>

#include "../common/refusals.h"
#include "blocks.h"
#include "ort_attend.h"
#include "ort_values.h"

enum {
    Q = KVMILL_ATTENTION_Q,
    K = KVMILL_ATTENTION_K,
    V = KVMILL_ATTENTION_V,
    MASK = KVMILL_ATTENTION_ATTN_MASK,
    PAST_KEY = KVMILL_ATTENTION_PAST_KEY,
    PAST_VALUE = KVMILL_ATTENTION_PAST_VALUE,
    LENGTHS = KVMILL_ATTENTION_NONPAD_KV_SEQLEN,
    Y = KVMILL_ATTENTION_Y,
    PRESENT_KEY = KVMILL_ATTENTION_PRESENT_KEY,
    PRESENT_VALUE = KVMILL_ATTENTION_PRESENT_VALUE,
    STARTS = KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES
};

enum { SIDES = BLOCKS_SIDES, APART = 4 /* rank of tensors with an axis for heads */ };

static const DLDataType bytes = {kDLUInt, 8, 1}, integer = {kDLInt, 64, 1};

static int cache_of(int tensor) {
    bool cache = tensor == PRESENT_KEY || tensor == PRESENT_VALUE;
    return cache ? tensor - PRESENT_KEY + PAST_KEY : -1;
}

/* ---- Heads ---- */

struct heads {
    int64_t query, kv, dim[SIDES];
};

static bool has_numbers(const DLTensor *tensor, int rank) {
    return value_has_type(tensor, integer.code, integer.bits) && tensor->ndim == rank;
}

static kvmill_status check_inputs(const struct node *node, const DLTensor *const *inputs,
                                  kvmill_error *error) {
    const kvmill_attention *said = &node->attributes.attention;
    int rank = inputs[Q]->ndim;
    bool apart = rank == APART;
    if (!(apart || rank == 3) || inputs[K]->ndim != rank || inputs[V]->ndim != rank)
        return refuse(error, "Q, K and V have ranks %d, %d and %d; accepted: all 3, or all 4", rank,
                      inputs[K]->ndim, inputs[V]->ndim);
    if (!apart && (said->q_num_heads < 1 || said->kv_num_heads < 1))
        return refuse(error,
                      "q_num_heads is %" PRId64 " and kv_num_heads %" PRId64
                      "; accepted: 1 or more with tensors of rank 3",
                      said->q_num_heads, said->kv_num_heads);
    for (int side = 0; side < SIDES; side++)
        if (inputs[PAST_KEY + side]->ndim != rank ||
            !value_has_type(inputs[PAST_KEY + side], bytes.code, bytes.bits))
            return refuse(error, "past_%s is no uint8 of K's rank; accepted: one",
                          side ? "value" : "key");
    if (!has_numbers(inputs[LENGTHS], 1) || (inputs[STARTS] && !has_numbers(inputs[STARTS], 1)))
        return refuse(error, "nonpad_kv_seqlen or write_indices is no int64 of rank 1; accepted: "
                             "both are");
    return KVMILL_OK;
}

static kvmill_status find_heads(const struct node *node, const DLTensor *const *inputs,
                                struct heads *heads, kvmill_error *error) {
    const kvmill_attention *said = &node->attributes.attention;
    kvmill_status status = check_inputs(node, inputs, error);
    if (status != KVMILL_OK)
        return status;
    bool apart = inputs[Q]->ndim == APART;
    heads->query = apart ? inputs[Q]->shape[1] : said->q_num_heads;
    heads->kv = apart ? inputs[K]->shape[1] : said->kv_num_heads;
    for (int side = 0; side < SIDES; side++) {
        int64_t last = value_last_dim(inputs[K + side]);
        heads->dim[side] = apart ? last : last / heads->kv;
    }
    if (heads->query < 1 || heads->kv < 1 || heads->dim[0] < 1 || heads->dim[1] < 1)
        return refuse(error, "numbers or sizes of heads are not known; accepted: known ones");
    return KVMILL_OK;
}

/* ---- Plans ---- */

static unsigned fixed_cache_step(const struct node *node, int tensor, int rank) {
    return step_op.fixed(node, tensor, rank);
}

static kvmill_status plan_cache_step(const struct node *node, const DLTensor *const *inputs,
                                     uint64_t outputs, const kvmill_plan_options *options,
                                     kvmill_plan **plan, kvmill_error *error) {
    const kvmill_attention *said = &node->attributes.attention;
    struct heads heads;
    kvmill_cache_attend op;
    (void)outputs;
    *plan = NULL;
    kvmill_status status = find_heads(node, inputs, &heads, error);
    if (status != KVMILL_OK)
        return status;
    kvmill_cache_attend_init(&op, sizeof op);
    op.num_heads = heads.query;
    op.num_kv_heads = heads.kv;
    op.key_head_dim = heads.dim[0];
    op.value_head_dim = heads.dim[1];
    op.T1 = inputs[Q]->dtype;
    op.mask_T1 = inputs[MASK] != NULL ? inputs[MASK]->dtype : (DLDataType){0};
    op.key_T2 = op.value_T2 = bytes;
    op.key_cache_format = blocks_format(node, 0);
    op.value_cache_format = blocks_format(node, 1);
    op.softmax_scale = said->scale;
    op.softcap = said->softcap;
    op.math = node->settings.math;
    op.is_causal = said->is_causal != 0;
    op.left_window_size = said->left_window_size;
    op.right_window_size = said->right_window_size;
    return kvmill_plan_cache_attend(&op, options, plan, error);
}

/* ---- A run ---- */

struct view {
    DLTensor tensor;
    int64_t shape[APART], strides[APART];
};

struct call {
    struct node_run *run;
    struct heads heads;
    int64_t batch, queries, rows, capacity; /* rows: new rows of a sequence */
    int64_t *slots; /* the cache's row for each new row, in the order of K and V */
};

static int64_t tokens_of(const DLTensor *tensor) {
    return tensor->shape[tensor->ndim - 2];
}

static OrtStatus *wrong(const char *name, const char *accepted) {
    return runtime_fail(ORT_IS_INVALID_ARGUMENT, "%s has another shape; accepted: %s", name,
                        accepted);
}

/* Whether a tensor has rows of all heads, with or without an axis for heads. */
static bool has_rows(const struct call *call, const DLTensor *tensor, int64_t rows) {
    const int64_t *dims = tensor->shape;
    bool apart = tensor->ndim == APART;
    return dims[0] == call->batch && tokens_of(tensor) == rows &&
           (apart ? dims[1] == call->heads.kv : dims[2] % call->heads.kv == 0);
}

static bool is_right_mask(const struct call *call, const DLTensor *mask) {
    const int64_t most[] = {call->batch, call->heads.query, call->queries};
    bool right = mask->ndim >= 1 && mask->ndim <= APART;
    for (int d = 0; right && d < mask->ndim - 1; d++) {
        int64_t dim = mask->shape[d];
        right = dim == 1 || dim == most[d + APART - mask->ndim];
    }
    return right;
}

static OrtStatus *check_shapes(const struct call *call) {
    const DLTensor *const *given = call->run->given;
    for (int side = 0; side < SIDES; side++) {
        if (!has_rows(call, given[K + side], call->rows))
            return wrong(side ? "V" : "K", "Q's batch, and K's rows and heads");
        if (!has_rows(call, given[PAST_KEY + side], call->capacity))
            return wrong(side ? "past_value" : "past_key",
                         "Q's batch, K's heads, past_key's capacity, and bytes of whole rows");
    }
    if (given[LENGTHS]->shape[0] != call->batch ||
        (given[STARTS] != NULL && given[STARTS]->shape[0] != call->batch))
        return wrong("nonpad_kv_seqlen or write_indices", "(batch)");
    return given[MASK] == NULL || is_right_mask(call, given[MASK])
               ? NULL
               : wrong("attn_mask", "(batch, heads, queries, keys), other dims than keys may be 1");
}

static int64_t number_at(const DLTensor *tensor, int64_t i) {
    return tensor != NULL ? ((const int64_t *)tensor->data)[i] : 0;
}

static OrtStatus *check_number(const char *name, int64_t b, int64_t number, int64_t most) {
    return number >= 0 && number <= most
               ? NULL
               : runtime_fail(ORT_IS_INVALID_ARGUMENT,
                              "%s[%" PRId64 "] is %" PRId64 "; accepted: 0 to %" PRId64, name, b,
                              number, most);
}

static OrtStatus *check_numbers(const struct call *call) {
    const DLTensor *const *given = call->run->given;
    OrtStatus *status = NULL;
    if (call->rows > call->capacity)
        return wrong("K", "at most as many rows as the caches have");
    for (int64_t b = 0; status == NULL && b < call->batch; b++) {
        status = check_number("write_indices", b, number_at(given[STARTS], b),
                              call->capacity - call->rows);
        if (status == NULL)
            status =
                check_number("nonpad_kv_seqlen", b, number_at(given[LENGTHS], b), call->capacity);
    }
    return status;
}

static OrtStatus *set_call(struct call *call, struct node_run *run) {
    const DLTensor *const *given = run->given;
    kvmill_error error;
    OrtStatus *status = runtime_refuse(find_heads(run->node, given, &call->heads, &error), &error);
    if (status != NULL)
        return status;
    call->run = run;
    call->batch = given[Q]->shape[0];
    call->queries = tokens_of(given[Q]);
    call->rows = tokens_of(given[K]);
    call->capacity = tokens_of(given[PAST_KEY]);
    status = check_shapes(call);
    return status != NULL ? status : check_numbers(call);
}

/* ---- Storing ---- */

/* Copies the past to the present, unless they share memory.  A part is K's or V's cache of one
   entry. */
static void keep(void *data, int64_t part) {
    const struct call *call = data;
    int side = (int)(part % SIDES);
    const DLTensor *past = call->run->given[PAST_KEY + side],
                   *present = call->run->given[PRESENT_KEY + side];
    size_t size = (size_t)(value_bytes(past) / call->batch);
    size_t place = (size_t)(part / SIDES) * size;
    if (past->data != present->data)
        memcpy((char *)present->data + place, (const char *)past->data + place, size);
}

/* Returns the number of a row among all rows of all heads; `rows`: rows of each head. */
static int64_t place_of(const struct call *call, bool apart, int64_t b, int64_t h, int64_t row,
                        int64_t rows) {
    int64_t heads = call->heads.kv;
    return apart ? (b * heads + h) * rows + row : (b * rows + row) * heads + h;
}

static void set_slots(struct call *call) {
    const DLTensor *starts = call->run->given[STARTS];
    bool apart = call->run->given[K]->ndim == APART;
    for (int64_t b = 0; b < call->batch; b++)
        for (int64_t h = 0; h < call->heads.kv; h++)
            for (int64_t i = 0; i < call->rows; i++)
                call->slots[place_of(call, apart, b, h, i, call->rows)] =
                    place_of(call, apart, b, h, number_at(starts, b) + i, call->capacity);
}

static int64_t row_bytes(const struct call *call, const DLTensor *cache) {
    return value_last_dim(cache) / (cache->ndim == APART ? 1 : call->heads.kv);
}

/* Stores the first `count` rows, which have one head each. */
static OrtStatus *store(const struct call *call, int side, int64_t count) {
    const DLTensor *rows = call->run->given[K + side],
                   *present = call->run->given[PRESENT_KEY + side];
    const struct block_rows fresh = {rows->data, rows->dtype, count, call->heads.dim[side],
                                     call->slots};
    const struct block_cache cache = {present->data, call->batch * call->heads.kv * call->capacity,
                                      row_bytes(call, present)};
    return blocks_store(call->run, side, &fresh, &cache);
}

static OrtStatus *store_both(struct call *call) {
    int64_t rows = call->batch * call->heads.kv * call->rows;
    const DLTensor *const *given = call->run->given;
    OrtStatus *status = NULL;
    set_slots(call);
    for (int side = 0; status == NULL && side < SIDES; side++)
        status = store(call, side, 0);
    if (status == NULL)
        status = node_share(call->run, step_op.work(given), SIDES * call->batch, keep, call);
    for (int side = 0; status == NULL && side < SIDES; side++)
        status = store(call, side, rows);
    return status;
}

/* ---- Attending ---- */

/* Returns a view with dims (batch, tokens, heads, last dim), for both orders of axes. */
static const DLTensor *tokens_first(struct view *view, const DLTensor *tensor, int64_t heads) {
    const int64_t *dims = tensor->shape;
    bool apart = tensor->ndim == APART;
    int64_t tokens = tokens_of(tensor), last = apart ? dims[3] : dims[2] / heads;
    int64_t row = apart ? last : heads * last, head = apart ? tokens * last : last;
    const int64_t shape[] = {dims[0], tokens, heads, last};
    const int64_t strides[] = {tokens * heads * last, row, head, 1};
    view->tensor = *tensor;
    memcpy(view->shape, shape, sizeof shape);
    memcpy(view->strides, strides, sizeof strides);
    view->tensor.ndim = APART;
    view->tensor.shape = view->shape;
    view->tensor.strides = view->strides;
    return &view->tensor;
}

static OrtStatus *attend(const struct call *call, const kvmill_plan *plan) {
    const DLTensor *const *given = call->run->given;
    int64_t kv = call->heads.kv;
    struct view query, key, value, output;
    const DLTensor *const tensors[KVMILL_CACHE_ATTEND_TENSORS] = {
        [KVMILL_CACHE_ATTEND_QUERY] = tokens_first(&query, given[Q], call->heads.query),
        [KVMILL_CACHE_ATTEND_KEY] = tokens_first(&key, given[PRESENT_KEY], kv),
        [KVMILL_CACHE_ATTEND_VALUE] = tokens_first(&value, given[PRESENT_VALUE], kv),
        [KVMILL_CACHE_ATTEND_LENGTHS] = given[LENGTHS],
        [KVMILL_CACHE_ATTEND_ATTN_MASK] = given[MASK],
        [KVMILL_CACHE_ATTEND_ATTN_OUTPUT] = tokens_first(&output, given[Y], call->heads.query)};
    return node_run_attend(call->run, plan, tensors);
}

static OrtStatus *run_cache_step(struct node_run *run, const kvmill_plan *plan) {
    struct workspaces *all = &run->node->workspaces;
    struct call call;
    OrtStatus *status = set_call(&call, run);
    if (status != NULL)
        return status;
    int64_t slots = call.batch * call.heads.kv * call.rows;
    struct workspace *workspace = workspace_acquire(all, (size_t)slots * sizeof *call.slots);
    if (workspace == NULL)
        return runtime_fail(ORT_IS_FAILED, "out of memory for a workspace");
    call.slots = workspace->memory;
    status = store_both(&call);
    if (status == NULL)
        status = attend(&call, plan);
    workspace_release(all, workspace);
    return status;
}

/* ---- The op ---- */

static int shape_cache_step(const struct node *node, const DLTensor *const *inputs, int tensor,
                            int64_t dims[MOST_RANK]) {
    return step_op.shape(node, inputs, tensor, dims);
}

static int64_t work_cache_step(const DLTensor *const *given) {
    return step_op.work(given);
}

const struct node_op cache_step_op = {
    .name = "CacheStep",
    .only_here = true,
    .tensors = KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS,
    .inputs = {8, {Q, K, V, MASK, PAST_KEY, PAST_VALUE, LENGTHS, STARTS}},
    .outputs = {3, {Y, PRESENT_KEY, PRESENT_VALUE}},
    .required = 1u << Q | 1u << K | 1u << V | 1u << PAST_KEY | 1u << PAST_VALUE | 1u << LENGTHS,
    .fixed = fixed_cache_step,
    .cache_of = cache_of,
    .plan = plan_cache_step,
    .shape = shape_cache_step,
    .work = work_cache_step,
    .run = run_cache_step,
};
