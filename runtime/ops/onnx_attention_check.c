/* Checks a run of ONNX Attention: each tensor by itself, then by the op's rules, then by the
   plan's.  If a check fails, nothing has been written.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "../../defs/dtype.h"
#include "../../ops/extent.h"
#include "../../ops/fail.h"
#include "../../ops/refuse.h"
#include "../core/tensor.h"
#include "onnx_attention_plan.h"

/* A run while it is checked. */
struct checked {
    struct given_tensors base;
    const DLTensor *tensor[ALL_ATTENTION_TENSORS];
    const struct onnx_plan *plan;
    struct onnx_run *run;
    kvmill_error *error;
};

/* ---- Overlaps ---- */

/* Whether two tensors have the same strides, and row `row` of the first head of `whole` is where
   `part` begins. */
static bool is_part_of(const DLTensor *part, const DLTensor *whole, int64_t row) {
    bool overflow = false;
    uintptr_t beyond = (uintptr_t)tensor_data(part) - (uintptr_t)tensor_data(whole);
    bool same = part->ndim == 4 &&
                beyond == (uintptr_t)kvmill_times(row, kvmill_tensor_step(whole, 2), &overflow) &&
                !overflow;
    for (int d = 0; same && d < 4; d++)
        same = part->shape[d] <= 1 || kvmill_tensor_step(part, d) == kvmill_tensor_step(whole, d);
    return same;
}

/* A step's cache is updated where it is. */
static bool is_same_cache(const struct given_tensors *given, int output, int other) {
    bool key = output == KVMILL_ATTENTION_PRESENT_KEY && other == KVMILL_ATTENTION_PAST_KEY;
    bool value = output == KVMILL_ATTENTION_PRESENT_VALUE && other == KVMILL_ATTENTION_PAST_VALUE;
    return (key || value) &&
           kvmill_tensor_is_same_memory(given->tensors[output], given->tensors[other]);
}

/* Whether the past is the beginning of the present, or new rows are its end. */
static bool is_in_place(const struct given_tensors *given, int output, int other) {
    bool value = output == KVMILL_ATTENTION_PRESENT_VALUE;
    int past = value ? KVMILL_ATTENTION_PAST_VALUE : KVMILL_ATTENTION_PAST_KEY;
    int fresh = value ? KVMILL_ATTENTION_V : KVMILL_ATTENTION_K;
    const DLTensor *whole = given->tensors[output], *part = given->tensors[other];
    if (!value && output != KVMILL_ATTENTION_PRESENT_KEY)
        return false;
    if (other == past)
        return is_part_of(part, whole, 0);
    return other == fresh && is_part_of(part, whole, whole->shape[2] - part->shape[2]);
}

/* ---- Agreement with the plan ---- */

struct count {
    const char *what;
    int64_t have, planned;
};

static kvmill_status check_planned(const struct checked *checked) {
    const struct kvmill_attention_geometry *have = &checked->run->geometry;
    const struct kvmill_attention_geometry *planned = &checked->plan->geometry;
    const struct count counts[] = {
        {"rank of Q", have->packed ? 3 : 4, planned->packed ? 3 : 4},
        {"number of query heads", have->heads, planned->heads},
        {"number of kv heads", have->kv_heads, planned->kv_heads},
        {"head size of Q and K", have->key_dim, planned->key_dim},
        {"head size of V", have->value_dim, planned->value_dim},
        {"batch", have->batch, planned->batch},
        {"number of queries", have->queries, planned->queries},
        {"number of new keys", have->keys, planned->keys},
        {planned->step ? "capacity" : "number of past keys", have->past, planned->past},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].planned != KVMILL_DYNAMIC && counts[i].have != counts[i].planned)
            return kvmill_fail(checked->error, KVMILL_E_SHAPE,
                               "the %s is %" PRId64 "; accepted: %" PRId64 ", as planned",
                               counts[i].what, counts[i].have, counts[i].planned);
    return KVMILL_OK;
}

/* ---- Each tensor by itself ---- */

static void set_rules(const struct onnx_plan *plan, struct tensor_rule *rules) {
    for (int i = 0; i < ALL_ATTENTION_TENSORS; i++)
        rules[i] = (struct tensor_rule){
            .name = kvmill_attention_name(i),
            .presence = plan->has[i] ? REQUIRED : ABSENT,
            .type = plan->types[i],
            .output = i >= KVMILL_ATTENTION_Y && i < KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES,
            .rows = plan->types[i].code != kDLInt && i != KVMILL_ATTENTION_ATTN_MASK,
        };
}

static kvmill_status check_number(const struct checked *checked, int which, int64_t b,
                                  int64_t value, int64_t first, int64_t last) {
    if (value >= first && value <= last)
        return KVMILL_OK;
    return kvmill_refuse_element(kvmill_index_status(value), kvmill_attention_name(which), b, value,
                                 (struct kvmill_range){first, last}, checked->error);
}

/* New rows must fit after the start; in a ring any start is valid. */
static kvmill_status check_start(const struct checked *checked, int64_t b, int64_t *start) {
    const struct onnx_run *run = checked->run;
    const struct kvmill_attention_geometry *geometry = &run->geometry;
    int64_t most = geometry->circular ? INT64_MAX : geometry->past - geometry->keys;
    *start = run->starts.data != NULL ? index_at(run->starts, b) : 0;
    return check_number(checked, KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES, b, *start, 0, most);
}

/* The valid length of a step is that before it, plus some of the new rows. */
static kvmill_status check_length(const struct checked *checked, int64_t b, int64_t start) {
    const struct onnx_run *run = checked->run;
    int64_t keys = run->geometry.keys;
    int64_t most = start > INT64_MAX - keys ? INT64_MAX : start + keys;
    if (run->lengths.data == NULL)
        return KVMILL_OK;
    return check_number(checked, KVMILL_ATTENTION_NONPAD_KV_SEQLEN, b, index_at(run->lengths, b),
                        start, most);
}

static kvmill_status check_lengths(const struct checked *checked) {
    kvmill_status status = KVMILL_OK;
    for (int64_t b = 0; status == KVMILL_OK && b < checked->run->geometry.batch; b++) {
        int64_t start = 0;
        if (checked->run->geometry.step)
            status = check_start(checked, b, &start);
        if (status == KVMILL_OK)
            status = check_length(checked, b, start);
    }
    return status;
}

static kvmill_status check_op(const struct checked *checked) {
    struct kvmill_attention_geometry *geometry = &checked->run->geometry;
    const struct kvmill_attention_geometry *planned = &checked->plan->geometry;
    kvmill_attention op = checked->plan->op;
    const kvmill_tensor_scatter_attention step = {
        .attention = &op,
        .mode = planned->circular ? "circular" : "linear",
        .write_indices = checked->tensor[KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES],
    };
    kvmill_attention_set_tensors(checked->tensor, &op);
    return planned->step ? kvmill_attention_step_check(&step, geometry, checked->error)
                         : kvmill_attention_check(&op, geometry, checked->error);
}

static kvmill_status check(struct checked *checked, const DLTensor *const *tensors) {
    kvmill_status status = kvmill_check_given(&checked->base, tensors);
    if (status == KVMILL_OK)
        status = check_op(checked);
    if (status == KVMILL_OK)
        status = check_planned(checked);
    if (status == KVMILL_OK)
        status = kvmill_check_overlaps(&checked->base);
    if (status != KVMILL_OK)
        return status;
    checked->run->lengths = kvmill_index_array(checked->tensor[KVMILL_ATTENTION_NONPAD_KV_SEQLEN]);
    checked->run->starts =
        kvmill_index_array(checked->tensor[KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES]);
    return check_lengths(checked);
}

/* ---- Addresses ---- */

/* In a tensor of rank 3, heads are `dim` elements apart. */
static struct token_rows rows_of(const DLTensor *tensor, int64_t dim) {
    if (tensor == NULL)
        return (struct token_rows){0};
    if (tensor->ndim == 4)
        return (struct token_rows){tensor_data(tensor), kvmill_tensor_step(tensor, 0),
                                   kvmill_tensor_step(tensor, 2), kvmill_tensor_step(tensor, 1)};
    return (struct token_rows){tensor_data(tensor), kvmill_tensor_step(tensor, 0),
                               kvmill_tensor_step(tensor, 1),
                               dim * kvmill_dtype_bits(tensor->dtype) / 8};
}

static struct cache_side side_of(const struct token_rows *rows) {
    return (struct cache_side){
        .rows = {.data = rows->data, .row_stride = rows->token, .head_stride = rows->head},
        .batch = rows->batch,
    };
}

static void set_sides(const struct checked *checked, struct attend_view *view) {
    struct onnx_run *run = checked->run;
    const int64_t dims[] = {run->geometry.key_dim, run->geometry.value_dim};
    for (int v = 0; v < 2; v++) {
        const DLTensor *fresh = checked->tensor[KVMILL_ATTENTION_K + v];
        const DLTensor *past = checked->tensor[KVMILL_ATTENTION_PAST_KEY + v];
        run->fresh[v] = rows_of(fresh, dims[v]);
        struct token_rows older = rows_of(run->geometry.past > 0 ? past : fresh, dims[v]);
        view->side[0][v] = side_of(&older);
        view->side[1][v] = side_of(&run->fresh[v]);
        run->present[v].rows = rows_of(checked->tensor[KVMILL_ATTENTION_PRESENT_KEY + v], dims[v]);
        run->present[v].row_bytes = kvmill_dtype_bytes(fresh->dtype, dims[v]);
    }
}

static void set_addresses(const struct checked *checked, struct attend_view *view) {
    struct onnx_run *run = checked->run;
    set_sides(checked, view);
    view->mask = kvmill_mask_view_of(checked->tensor[KVMILL_ATTENTION_ATTN_MASK]);
    view->query = rows_of(checked->tensor[KVMILL_ATTENTION_Q], run->geometry.key_dim);
    view->output = rows_of(checked->tensor[KVMILL_ATTENTION_Y], run->geometry.value_dim);
    run->scores = rows_of(checked->tensor[KVMILL_ATTENTION_QK_MATMUL_OUTPUT], 0);
}

/* ---- Steps ---- */

/* The scatters into the caches, when everything else has been checked. */
static kvmill_status begin_scatters(const struct checked *checked) {
    kvmill_status status = KVMILL_OK;
    for (int v = 0; status == KVMILL_OK && v < 2 && checked->plan->scatter[v] != NULL; v++) {
        const DLTensor *const tensors[] = {
            checked->tensor[KVMILL_ATTENTION_PAST_KEY + v],
            checked->tensor[KVMILL_ATTENTION_K + v],
            checked->tensor[KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES],
            checked->tensor[KVMILL_ATTENTION_PRESENT_KEY + v],
        };
        status = kvmill_begin(&checked->run->scatter[v], checked->plan->scatter[v], tensors,
                              KVMILL_TENSOR_SCATTER_TENSORS, NULL, checked->error);
    }
    return status;
}

kvmill_status kvmill_onnx_attention_begin(struct call *base, const DLTensor *const *tensors,
                                          kvmill_error *error) {
    struct onnx_call *call = (struct onnx_call *)(void *)base;
    const struct onnx_plan *plan = onnx_plan_of(call);
    struct onnx_run *run = (void *)((unsigned char *)base->workspace + plan->attend.layout.more);
    struct tensor_rule rules[ALL_ATTENTION_TENSORS];
    struct checked checked = {.plan = plan, .run = run, .error = error};
    checked.base =
        (struct given_tensors){rules,      (int)plan->base.tensor_count,
                               plan->name, checked.tensor,
                               error,      plan->geometry.step ? is_same_cache : is_in_place,
                               false};
    set_rules(plan, rules);
    *run = (struct onnx_run){.plan = plan};
    *call = (struct onnx_call){.base = {.base = {*base, kvmill_onnx_phases}}, .run = run};
    kvmill_status status = check(&checked, tensors);
    if (status == KVMILL_OK)
        status = begin_scatters(&checked);
    if (status != KVMILL_OK)
        return status;
    kvmill_onnx_set_view(call);
    set_addresses(&checked, &call->base.view);
    if (!run->geometry.is_wide)
        kvmill_attend_prepare(&call->base.view);
    return KVMILL_OK;
}
