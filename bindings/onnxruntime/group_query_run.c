/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "blocks.h"
#include "group_query.h"
#include "halves.h"
#include "ort_attend.h"
#include "ort_values.h"

/* ---- A call ---- */

static struct group_query_side side_of(const struct kvmill_group_query *said,
                                       const struct group_query_call *call,
                                       const DLTensor *const *given, int v) {
    const struct kvmill_group_query_heads *heads = &call->heads;
    const DLTensor *past = given[KVMILL_GROUP_QUERY_PAST_KEY + v],
                   *rows =
                       given[heads->packed ? KVMILL_GROUP_QUERY_QUERY : KVMILL_GROUP_QUERY_KEY + v],
                   *scale = given[KVMILL_GROUP_QUERY_K_SCALE + v];
    struct group_query_side side = {.past = past != NULL ? past->data : NULL,
                                    .present = given[KVMILL_GROUP_QUERY_PRESENT_KEY + v]->data,
                                    .row_bytes = heads->blocks ? value_last_dim(past)
                                                               : heads->dim * heads->bits / 8,
                                    .rows = rows->data,
                                    .row_step = value_last_dim(rows)};
    if (heads->packed)
        side.rows += (heads->heads + v * heads->kv_heads) * heads->dim *
                     group_query_number_bytes(heads->half);
    if (!kvmill_group_query_is_quantised(heads))
        return side;
    side.scale = scale->data;
    if (strcmp(v ? said->v_quant_type : said->k_quant_type, "PER_CHANNEL") == 0) {
        side.scale_head = heads->dim;
        side.by_channel = true;
    }
    return side;
}

/* Whether another layer has stored the keys: K has no rows then. */
static bool stored_elsewhere(const DLTensor *key) {
    return key != NULL && key->ndim == 3 && key->shape[1] == 0;
}

static void set_call(struct group_query_call *call, const struct kvmill_group_query *said,
                     const DLTensor *const *given) {
    const DLTensor *query = given[KVMILL_GROUP_QUERY_QUERY],
                   *cos = given[KVMILL_GROUP_QUERY_COS_CACHE],
                   *sin = given[KVMILL_GROUP_QUERY_SIN_CACHE];
    call->batch = query->shape[0];
    call->tokens = query->shape[1];
    call->fresh = stored_elsewhere(given[KVMILL_GROUP_QUERY_KEY]) ? 0 : call->tokens;
    call->window = said->sliding_window_cache != 0 ? said->local_window_size : 0;
    call->past_rows = group_query_past_rows(given);
    call->capacity = given[KVMILL_GROUP_QUERY_PRESENT_KEY]->shape[2];
    call->query = query->data;
    call->query_step = query->shape[2];
    call->output = given[KVMILL_GROUP_QUERY_OUTPUT]->data;
    call->interleaved = said->rotary_interleaved != 0;
    if (said->do_rotary != 0) {
        call->cos = cos->data;
        call->sin = sin->data;
        call->rotated = 2 * value_last_dim(cos);
    }
    call->key = side_of(said, call, given, 0);
    call->value = side_of(said, call, given, 1);
}

/* ---- Memory ---- */

/* A workspace that is divided into a call's arrays. */
struct memory {
    unsigned char *base;
    size_t used;
};

static void *piece(struct memory *memory, int64_t bytes) {
    void *start = memory->base != NULL ? memory->base + memory->used : NULL;
    memory->used += ((size_t)bytes + 63) / 64 * 64;
    return start;
}

static void lay_out_rows(struct group_query_call *call, struct memory *memory, int64_t rows) {
    int64_t bytes = rows * call->heads.dim * group_query_number_bytes(call->heads.half);
    call->slots = piece(memory, rows * 8);
    call->key.fresh = piece(memory, bytes);
    call->value.fresh = piece(memory, bytes);
}

/* The present becomes a stage for the past and all new rows. */
static void lay_out_stage(struct group_query_call *call, struct memory *memory) {
    struct group_query_side *sides[] = {&call->key, &call->value};
    for (int v = 0; v < 2; v++) {
        int64_t rows = call->batch * call->heads.kv_heads * call->capacity;
        sides[v]->present = piece(memory, rows * sides[v]->row_bytes);
    }
}

/* If the base is NULL, only counts the bytes. */
static float *lay_out(struct group_query_call *call, struct memory *memory) {
    const struct kvmill_group_query_heads *heads = &call->heads;
    int64_t tokens = call->batch * call->tokens, numbers = tokens * heads->heads * heads->dim;
    int64_t codes = call->batch * heads->kv_heads * call->capacity * heads->dim / 2;
    bool quantised = kvmill_group_query_is_quantised(heads);
    call->lengths = piece(memory, call->batch * 8);
    call->starts = piece(memory, call->batch * 8);
    call->dropped = piece(memory, call->batch * 8);
    call->kept = piece(memory, call->batch * 8);
    call->evicted = piece(memory, call->batch * 8);
    call->positions = piece(memory, tokens * 8);
    if (call->rotated > 0)
        call->angles = piece(memory, tokens * 8);
    call->turns = piece(memory, tokens * call->rotated * 4);
    call->numbers = piece(memory, tokens * heads->dim * 4);
    if (call->rotated > 0 || quantised)
        call->ready = piece(memory, numbers * 4);
    if (quantised) {
        call->results = piece(memory, numbers * 4);
        call->ones = piece(memory, call->capacity * 4);
    }
    for (int v = 0; heads->bits == 4 && v < 2; v++)
        call->codes[v] = piece(memory, codes);
    if (heads->blocks)
        lay_out_rows(call, memory, tokens * heads->kv_heads);
    if (call->staged)
        lay_out_stage(call, memory);
    return piece(memory, heads->heads * 4);
}

/* ---- Attention ---- */

enum { VIEW_RANK = 4 };

struct view {
    DLTensor tensor;
    int64_t shape[VIEW_RANK], strides[VIEW_RANK];
};

static const DLTensor *set_view(struct view *view, const void *data, DLDataType type, int rank,
                                const int64_t *shape, const int64_t *strides) {
    memcpy(view->shape, shape, (size_t)rank * sizeof *shape);
    memcpy(view->strides, strides, (size_t)rank * sizeof *strides);
    view->tensor = (DLTensor){.data = (void *)(uintptr_t)data,
                              .device = {kDLCPU, 0},
                              .ndim = rank,
                              .dtype = type,
                              .shape = view->shape,
                              .strides = view->strides};
    return &view->tensor;
}

/* The tensors of CacheAttend. */
struct attend_tensors {
    struct view view[KVMILL_CACHE_ATTEND_TENSORS];
    const DLTensor *given[KVMILL_CACHE_ATTEND_TENSORS];
};

static void add(struct attend_tensors *tensors, int which, const void *data, DLDataType type,
                int rank, const int64_t *shape, const int64_t *strides) {
    tensors->given[which] = set_view(&tensors->view[which], data, type, rank, shape, strides);
}

static void add_queries(struct attend_tensors *tensors, const struct group_query_call *call,
                        DLDataType type) {
    const struct kvmill_group_query_heads *heads = &call->heads;
    int64_t width = heads->heads * heads->dim;
    int64_t step = call->ready != NULL ? width : call->query_step;
    const int64_t shape[] = {call->batch, call->tokens, heads->heads, heads->dim};
    const int64_t from[] = {call->tokens * step, step, heads->dim, 1};
    const int64_t to[] = {call->tokens * width, width, heads->dim, 1};
    const int64_t tokens = call->batch * call->tokens, one = 1;
    const DLDataType integer = {kDLInt, 64, 1};
    add(tensors, KVMILL_CACHE_ATTEND_QUERY, call->ready != NULL ? call->ready : call->query, type,
        4, shape, from);
    add(tensors, KVMILL_CACHE_ATTEND_ATTN_OUTPUT,
        call->results != NULL ? (void *)call->results : call->output, type, 4, shape, to);
    add(tensors, KVMILL_CACHE_ATTEND_LENGTHS, call->lengths, integer, 1, &call->batch, &one);
    add(tensors, KVMILL_CACHE_ATTEND_POSITIONS, call->positions, integer, 1, &tokens, &one);
}

/* Sets the scales of all rows that hold keys.  They are in memory, not one number with steps of 0,
   because kernels load the scales of 16 rows at once where these are adjacent. */
static void set_ones(const struct group_query_call *call) {
    int64_t rows = 0;
    for (int64_t b = 0; b < call->batch; b++)
        rows = call->lengths[b] > rows ? call->lengths[b] : rows;
    for (int64_t i = 0; i < rows; i++)
        call->ones[i] = 1;
}

/* Adds a view of a cache: its heads come before its rows in memory. */
static void add_cache(struct attend_tensors *tensors, const struct group_query_call *call,
                      const DLTensor *present, int v) {
    const struct kvmill_group_query_heads *heads = &call->heads;
    const struct group_query_side *side = v ? &call->value : &call->key;
    int64_t row = value_last_dim(present);
    const int64_t shape[] = {call->batch, call->capacity, heads->kv_heads, row};
    const int64_t strides[] = {heads->kv_heads * call->capacity * row, row, call->capacity * row,
                               1};
    const int64_t scales[] = {call->batch, call->capacity, heads->kv_heads, 1};
    static const int64_t by_row[] = {0, 1, 0, 1};
    add(tensors, KVMILL_CACHE_ATTEND_KEY + v,
        call->codes[v] != NULL ? call->codes[v] : side->present, present->dtype, 4, shape, strides);
    if (kvmill_group_query_is_quantised(heads))
        add(tensors, KVMILL_CACHE_ATTEND_KEY_SCALE + v, call->ones, (DLDataType){kDLFloat, 32, 1},
            4, scales, by_row);
}

/* Adds sinks as float32; smooth softmax is a sink with score 0. */
static void add_sinks(struct attend_tensors *tensors, const struct group_query_call *call,
                      const DLTensor *given, float *sinks) {
    const int64_t one = 1;
    bool half = given != NULL && value_has_type(given, kDLFloat, 16);
    for (int64_t h = 0; h < call->heads.heads; h++)
        sinks[h] = given == NULL ? 0 : number_at(given->data, half, h);
    add(tensors, KVMILL_CACHE_ATTEND_SINKS, sinks, (DLDataType){kDLFloat, 32, 1}, 1,
        &call->heads.heads, &one);
}

static OrtStatus *attend(const struct node_run *run, const struct group_query_call *call,
                         const kvmill_plan *plan, float *sinks) {
    const struct kvmill_group_query *said = &run->node->attributes.group_query;
    const DLTensor *const *given = run->given;
    const DLDataType float32 = {kDLFloat, 32, 1};
    struct attend_tensors tensors = {.given = {NULL}};
    add_queries(&tensors, call,
                kvmill_group_query_is_quantised(&call->heads)
                    ? float32
                    : given[KVMILL_GROUP_QUERY_QUERY]->dtype);
    if (call->ones != NULL)
        set_ones(call);
    add_cache(&tensors, call, given[KVMILL_GROUP_QUERY_PRESENT_KEY], 0);
    add_cache(&tensors, call, given[KVMILL_GROUP_QUERY_PRESENT_VALUE], 1);
    if (said->smooth_softmax == 1 || given[KVMILL_GROUP_QUERY_HEAD_SINK] != NULL)
        add_sinks(&tensors, call, given[KVMILL_GROUP_QUERY_HEAD_SINK], sinks);
    tensors.given[KVMILL_CACHE_ATTEND_ATTN_MASK] = given[KVMILL_GROUP_QUERY_ATTENTION_BIAS];
    return node_run_attend(run, plan, tensors.given);
}

/* ---- Blocks ---- */

/* Stores the prepared rows of all heads.  With a count of 0 it only checks the shapes. */
static OrtStatus *store_blocks(const struct node_run *run, const struct group_query_call *call,
                               int64_t count) {
    const struct kvmill_group_query_heads *heads = &call->heads;
    int64_t all = call->batch * heads->kv_heads * call->capacity;
    OrtStatus *status = NULL;
    for (int v = 0; status == NULL && v < BLOCKS_SIDES; v++) {
        const struct group_query_side *side = v ? &call->value : &call->key;
        const struct block_rows rows = {side->fresh, run->given[KVMILL_GROUP_QUERY_QUERY]->dtype,
                                        count, heads->dim, call->slots};
        const struct block_cache cache = {side->present, all, side->row_bytes};
        status = blocks_store(run, v, &rows, &cache);
    }
    return status;
}

/* ---- A whole run ---- */

/* Whether each row of the past is already where it stays. */
static bool is_in_place(const struct group_query_call *call) {
    bool same = call->key.past == call->key.present && call->value.past == call->value.present;
    for (int64_t b = 0; b < call->batch; b++)
        same = same && call->dropped[b] == 0;
    return same;
}

static OrtStatus *run_in(const struct node_run *run, struct group_query_call *call,
                         const kvmill_plan *plan, float *sinks) {
    const DLTensor *const *given = run->given;
    int64_t tokens = call->batch * call->tokens, heads = call->batch * call->heads.kv_heads;
    int64_t bytes = group_query_work(given);
    OrtStatus *status = group_query_set_lengths(call, given);
    if (status == NULL)
        status = group_query_set_positions(call, given);
    if (status == NULL && call->heads.blocks)
        status = store_blocks(run, call, 0);
    if (status == NULL && !is_in_place(call))
        status = node_share(run, bytes, heads, group_query_keep, call);
    if (status == NULL)
        status = node_share(run, value_bytes(given[KVMILL_GROUP_QUERY_QUERY]) * 4, tokens,
                            group_query_store, call);
    if (status == NULL && call->heads.blocks)
        status = store_blocks(run, call, tokens * call->heads.kv_heads);
    if (status == NULL && call->heads.bits == 4)
        status = node_share(run, bytes, heads, group_query_decode, call);
    if (status == NULL)
        status = attend(run, call, plan, sinks);
    if (status == NULL && call->results != NULL)
        status = node_share(run, value_bytes(given[KVMILL_GROUP_QUERY_QUERY]) * 4, tokens,
                            group_query_finish, call);
    if (status == NULL && call->staged)
        status = node_share(run, bytes, heads, group_query_evict, call);
    return status;
}

static void set_stage(struct group_query_call *call) {
    call->staged = true;
    call->capacity = call->past_rows + call->tokens;
    call->key.final = call->key.present;
    call->value.final = call->value.present;
}

OrtStatus *group_query_run(struct node_run *run, const kvmill_plan *plan) {
    struct workspaces *all = &run->node->workspaces;
    const struct kvmill_group_query *said = &run->node->attributes.group_query;
    struct group_query_call call = {.tokens = 0};
    struct memory memory = {NULL, 0};
    kvmill_error error;
    uint64_t outputs = 3ull << KVMILL_GROUP_QUERY_PRESENT_KEY;
    OrtStatus *status = runtime_refuse(
        group_query_find_heads(run->node, run->given, outputs, &call.heads, &error), &error);
    if (status == NULL)
        set_call(&call, said, run->given);
    if (status == NULL)
        status = group_query_check(&call, said, run->given);
    if (status != NULL)
        return status;
    if (group_query_is_staged(&call, run->given))
        set_stage(&call);
    lay_out(&call, &memory);
    struct workspace *workspace = workspace_acquire(all, memory.used);
    if (workspace == NULL)
        return runtime_fail(ORT_IS_FAILED, "out of memory for a workspace");
    memory = (struct memory){workspace->memory, 0};
    float *sinks = lay_out(&call, &memory);
    status = run_in(run, &call, plan, sinks);
    workspace_release(all, workspace);
    return status;
}
