/* The view of a run of CacheAttend for attention.

   SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "../../defs/dtype.h"
#include "../core/numbers.h"
#include "../core/tensor.h"
#include "cache_attend_plan.h"

static const struct cache_attend_call *call_of_view(const struct attend_view *view) {
    return (const struct cache_attend_call *)(const void *)((const unsigned char *)view -
                                                            offsetof(struct cache_attend_call,
                                                                     base.view));
}

/* ---- A sequence ---- */

static struct attend_pages pages_of(const struct cache_attend_call *call, int64_t b,
                                    int64_t kv_head) {
    bool circular = cache_attend_plan_of(call)->geometry.circular;
    int64_t size = cache_attend_plan_of(call)->geometry.page_size;
    int64_t ring = circular ? kvmill_cache_attend_ring(call, b, kv_head) : 0;
    if (call->slots.data != NULL)
        return (struct attend_pages){
            .size = 1,
            .numbers = numbers_from(&call->slots, number_at(&call->slot_starts, b)),
            .unit = 1,
            .rows = 1};
    if (call->page_ids.data != NULL)
        return (struct attend_pages){
            .size = size,
            .numbers = numbers_from(&call->page_ids, page_list_at(call, b, kv_head, 0)),
            .ring = ring / size,
            .unit = 1,
            .rows = call->page_rows};
    return (struct attend_pages){.size = ring > 0 ? ring : INT64_MAX};
}

/* A ring holds the last positions, for all queries. */
static void set_ring(const struct cache_attend_call *call, int64_t b, int64_t kv_head,
                     struct attend_sequence *sequence) {
    if (!cache_attend_plan_of(call)->geometry.circular)
        return;
    sequence->most = kvmill_cache_attend_ring(call, b, kv_head);
    sequence->first = kvmill_max(0, sequence->length - sequence->most);
}

void kvmill_cache_attend_look(const struct attend_view *view, int64_t b, int64_t head,
                              struct attend_sequence *sequence) {
    const struct cache_attend_call *call = call_of_view(view);
    const struct cache_attend_plan *plan = cache_attend_plan_of(call);
    int64_t kv_head = head / plan->geometry.ratio, before = count_before(&view->tokens, b);
    *sequence = whole_sequence(kvmill_cache_attend_length(call, b, kv_head));
    sequence->origin = sequence->length - count_of(&view->tokens, b);
    set_ring(call, b, kv_head, sequence);
    if (view->mask.rows.data != NULL || view->mask.skips)
        sequence->length = kvmill_min(sequence->length, view->mask.columns);
    sequence->left = plan->geometry.window - 1;
    sequence->right = plan->op.is_causal ? 0 : plan->op.right_window_size;
    sequence->positions = numbers_from(&call->positions, before);
    for (int i = 0; i < 2; i++)
        sequence->ranges[i] = numbers_from(&call->ranges[i], before);
    sequence->cells = numbers_from(&call->key_positions, b * call->key_batch);
    sequence->pages[0] = pages_of(call, b, kv_head);
}

/* ---- Addresses ---- */

/* Queries and heads are the first dims, after the batch if there is one. */
static struct token_rows rows_of(const struct attend_given *given, int which) {
    const DLTensor *tensor = given->base.tensors[which];
    int token = given->base.tensors[KVMILL_CACHE_ATTEND_QUERY_STARTS] != NULL ? 0 : 1;
    if (tensor == NULL)
        return (struct token_rows){0};
    return (struct token_rows){tensor_data(tensor), kvmill_tensor_step(tensor, token - 1),
                               kvmill_tensor_step(tensor, token),
                               kvmill_tensor_step(tensor, token + 1)};
}

/* Rows of a tensor of rank 4 are counted by its second dim; for pages of one row, by the first. */
static int64_t row_step(const struct attend_given *given, const DLTensor *tensor) {
    bool in_first = tensor->ndim == 3 ||
                    (given->call->page_ids.data != NULL && given->plan->geometry.page_size == 1);
    return kvmill_tensor_step(tensor, in_first ? 0 : 1);
}

static int64_t batch_step(const struct attend_given *given, const DLTensor *tensor) {
    bool each = tensor->ndim == 4 && given->call->page_ids.data == NULL;
    return each ? kvmill_tensor_step(tensor, 0) : 0;
}

static struct cache_side side_of(const struct attend_given *given, int v) {
    const DLTensor *tensor = given->base.tensors[KVMILL_CACHE_ATTEND_KEY + v];
    const DLTensor *scale = given->base.tensors[KVMILL_CACHE_ATTEND_KEY_SCALE + v];
    struct cache_side side = {
        .rows = {.data = tensor_data(tensor),
                 .row_stride = row_step(given, tensor),
                 .head_stride = kvmill_tensor_step(tensor, tensor->ndim - 2)},
        .batch = batch_step(given, tensor),
    };
    if (scale == NULL)
        return side;
    side.rows.scale = tensor_data(scale);
    side.rows.scale_row_stride = row_step(given, scale);
    side.rows.scale_head_stride = kvmill_tensor_step(scale, scale->ndim - 2);
    side.scale_batch = batch_step(given, scale);
    return side;
}

static struct mask_view mask_of(const struct attend_given *given) {
    const DLTensor *mask = given->base.tensors[KVMILL_CACHE_ATTEND_ATTN_MASK];
    if (mask == NULL)
        return (struct mask_view){0};
    struct mask_view view = kvmill_mask_view_of(mask);
    view.skips = true;
    view.by_slopes = given->plan->geometry.alibi && given->plan->op.alibi_of_mask;
    return view;
}

static struct head_numbers numbers_of_heads(const struct attend_given *given, int which) {
    const DLTensor *tensor = given->base.tensors[which];
    if (tensor == NULL)
        return (struct head_numbers){0};
    return (struct head_numbers){tensor_data(tensor), kvmill_tensor_step(tensor, 0),
                                 kvmill_element_of(tensor->dtype)};
}

static struct head_numbers slopes_of(const struct attend_given *given) {
    bool computed = given->plan->geometry.alibi &&
                    given->base.tensors[KVMILL_CACHE_ATTEND_ALIBI_SLOPES] == NULL;
    if (!computed)
        return numbers_of_heads(given, KVMILL_CACHE_ATTEND_ALIBI_SLOPES);
    return (struct head_numbers){(const unsigned char *)given->plan->slopes, sizeof(float),
                                 KVMILL_F32};
}

static void set_positions(const struct attend_given *given) {
    const DLTensor *cells = given->base.tensors[KVMILL_CACHE_ATTEND_KEY_POSITIONS];
    struct cache_attend_call *call = given->call;
    call->positions = kvmill_numbers_of(given, KVMILL_CACHE_ATTEND_POSITIONS);
    if (cells == NULL)
        return;
    bool each = cells->ndim == 2 && call->page_ids.data == NULL;
    call->key_positions = (struct number_array){tensor_data(cells), cells->dtype.bits, 1};
    call->key_batch = each ? cells->shape[1] : 0;
}

/* ---- The view ---- */

static int64_t seen_at_most(const struct cache_attend_call *call, int64_t b, int64_t kv_head) {
    int64_t length = kvmill_cache_attend_length(call, b, kv_head);
    return cache_attend_plan_of(call)->geometry.circular
               ? kvmill_min(length, kvmill_cache_attend_ring(call, b, kv_head))
               : length;
}

static int64_t longest(const struct cache_attend_call *call, int64_t *total) {
    int64_t heads = cache_attend_plan_of(call)->geometry.kv_heads, most = 0;
    *total = 0;
    for (int64_t b = 0; b < call->base.view.batch; b++) {
        *total += seen_at_most(call, b, 0);
        for (int64_t g = 0; g < (call->heads_apart ? heads : 1); g++)
            most = kvmill_max(most, seen_at_most(call, b, g));
    }
    return most;
}

void kvmill_cache_attend_set_view(const struct attend_given *given) {
    struct cache_attend_call *call = given->call;
    struct attend_view *view = &call->base.view;
    int64_t batch = kvmill_max(view->batch, 1), positions;
    set_positions(given);
    view->plan = &given->plan->attend;
    view->workspace = call->base.base.base.workspace;
    view->query = rows_of(given, KVMILL_CACHE_ATTEND_QUERY);
    view->output = rows_of(given, KVMILL_CACHE_ATTEND_ATTN_OUTPUT);
    view->lse = rows_of(given, KVMILL_CACHE_ATTEND_LSE);
    for (int v = 0; v < 2; v++)
        view->side[0][v] = side_of(given, v);
    view->mask = mask_of(given);
    view->converts = view->compacts = kvmill_cache_attend_is_masked(&given->plan->op) ||
                                      call->key_positions.data || call->ranges[0].data;
    view->sinks = numbers_of_heads(given, KVMILL_CACHE_ATTEND_SINKS);
    view->slopes = slopes_of(given);
    view->look = kvmill_cache_attend_look;
    view->heads_alike = !call->heads_apart;
    view->longest = longest(call, &positions);
    view->window = call->key_positions.data ? 0 : given->plan->geometry.window;
    view->size = (struct kvmill_call_size){batch, call->queries / batch, positions / batch};
}
