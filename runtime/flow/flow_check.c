/* Checks a run of a flow: tensors, requests, pages, slots, lists.  If a check fails, nothing has
   been written.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "../../defs/dtype.h"
#include "../../ops/fail.h"
#include "../core/tensor.h"
#include "flow_plan.h"

/* ---- A run ---- */

struct checked {
    struct given given;
    const struct flow_plan *plan;
    struct flow_call *call;
};

static const DLTensor *tensor_of(const struct checked *checked, int which) {
    return checked->given.base.tensors[which];
}

static kvmill_error *error_of(const struct checked *checked) {
    return checked->given.base.error;
}

static const char *name_of(const struct checked *checked, int which) {
    return checked->given.base.rules[which].name;
}

static void *data_of(const struct checked *checked, int which) {
    const DLTensor *tensor = tensor_of(checked, which);
    return tensor == NULL ? NULL : tensor_data(tensor);
}

static void *room_at(const struct checked *checked, int64_t offset) {
    return (unsigned char *)checked->call->base.base.workspace + offset;
}

/* ---- Integers ---- */

/* A vector of `count` integers. */
static kvmill_status check_count(const struct checked *checked, int which, int64_t count) {
    return kvmill_check_shape(&checked->given.base, which, 1, &count);
}

/* A vector of at least `count` integers. */
static kvmill_status check_room(const struct checked *checked, int which, int64_t count) {
    const DLTensor *tensor = tensor_of(checked, which);
    if (tensor == NULL || tensor->shape[0] >= count)
        return KVMILL_OK;
    return kvmill_fail(error_of(checked), KVMILL_E_SHAPE,
                       "%s has %" PRId64 " elements; accepted: %" PRId64 " or more",
                       name_of(checked, which), tensor->shape[0], count);
}

/* ---- Caches and fields ---- */

static const DLTensor *field_of(const struct checked *checked, int i) {
    return tensor_of(checked, KVMILL_FLOW_FIELDS + i);
}

/* The strides of field i in bytes; only those of dims with more than one index matter. */
static kvmill_status check_field_strides(const struct checked *checked, int i) {
    const struct kvmill_flow_problem *problem = &checked->plan->problem;
    const DLTensor *tensor = field_of(checked, i);
    const struct kvmill_field_place place = kvmill_flow_field_place(problem, i, tensor->shape[0]);
    int64_t element = tensor->dtype.bits / 8;
    const int64_t wanted[] = {place.block, place.head, problem->fields[i].columns * element,
                              element};
    for (int d = 0; d < 4; d++)
        if (tensor->shape[d] > 1 && kvmill_tensor_step(tensor, d) != wanted[d])
            return kvmill_fail(error_of(checked), KVMILL_E_STRIDE,
                               "%s has stride %" PRId64 " in dim %d; accepted, if fields "
                               "are adjacent: %" PRId64,
                               name_of(checked, KVMILL_FLOW_FIELDS + i),
                               kvmill_tensor_step(tensor, d) / element, d, wanted[d] / element);
    return KVMILL_OK;
}

/* Whether a field is a view of the same piece of memory as field 0. */
static kvmill_status check_field_place(const struct checked *checked, int i) {
    const DLTensor *first = field_of(checked, 0), *tensor = field_of(checked, i);
    int64_t before = checked->plan->problem.fields[i].before;
    int64_t found = (int64_t)((uintptr_t)tensor_data(tensor) - (uintptr_t)tensor_data(first));
    const char *name = name_of(checked, KVMILL_FLOW_FIELDS + i);
    int64_t most = INT64_MAX / checked->plan->problem.record_bytes / tensor->shape[1];
    if (tensor->shape[0] > most)
        return kvmill_fail(error_of(checked), KVMILL_E_OVERFLOW,
                           "%s has %" PRId64 " pages or blocks; accepted: at most %" PRId64, name,
                           tensor->shape[0], most);
    if (tensor->shape[0] != first->shape[0])
        return kvmill_fail(error_of(checked), KVMILL_E_SHAPE,
                           "%s has %" PRId64 " pages or blocks; accepted: %" PRId64
                           ", as the adjacent field has",
                           name, tensor->shape[0], first->shape[0]);
    if (found != before)
        return kvmill_fail(error_of(checked), KVMILL_E_ALIAS,
                           "%s begins %" PRId64 " bytes after %s; accepted, if fields are "
                           "adjacent: %" PRId64,
                           name, found, name_of(checked, KVMILL_FLOW_FIELDS), before);
    return check_field_strides(checked, i);
}

static kvmill_status check_fields(const struct checked *checked) {
    const struct kvmill_flow_problem *problem = &checked->plan->problem;
    kvmill_status status = KVMILL_OK;
    if (problem->field_layout == KVMILL_FIELDS_APART || !flow_uses_fields(checked->plan))
        return KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < problem->field_count; i++)
        if (field_of(checked, i) != NULL && !kvmill_tensor_is_empty(field_of(checked, i)))
            status = check_field_place(checked, i);
    return status;
}

static void set_field(struct checked *checked, int i, int64_t *pages) {
    const DLTensor *tensor = field_of(checked, i);
    checked->call->cache.field[i] = tensor_data(tensor);
    checked->call->cache.field_blocks = tensor->shape[0];
    int64_t held = tensor->shape[0] / checked->plan->problem.page_blocks;
    *pages = held < *pages ? held : *pages;
}

/* The pages that the caches and all fields have in common. */
static kvmill_status check_pools(struct checked *checked) {
    const struct kvmill_cache_geometry *geometry = &checked->plan->problem.geometry;
    int64_t blocks = checked->plan->problem.page_blocks;
    int64_t pages = INT32_MAX / geometry->kv_heads / blocks;
    kvmill_status status = kvmill_check_caches(&checked->given);
    if (checked->given.capacity / geometry->page_size < pages)
        pages = checked->given.capacity / geometry->page_size;
    if (status == KVMILL_OK && flow_uses_fields(checked->plan))
        for (int i = 0; i < checked->plan->problem.field_count; i++)
            set_field(checked, i, &pages);
    checked->call->batch.page_count = pages;
    return status;
}

/* ---- Rows of new tokens, inputs ---- */

/* As many rows as there are tokens, or requests. */
static kvmill_status check_own(struct checked *checked, enum kvmill_flow_tensor_kind kind,
                               int64_t count, const void **data) {
    const struct flow_plan *plan = checked->plan;
    kvmill_status status = KVMILL_OK;
    for (int n = 0; status == KVMILL_OK && n < plan->own_count; n++) {
        const struct kvmill_flow_tensor *own = &plan->own[n];
        const int64_t dims[] = {count, own->dims[1], own->dims[2], own->dims[3]};
        if (own->kind != kind || tensor_of(checked, KVMILL_FLOW_FIELDS + n) == NULL)
            continue;
        status = kvmill_check_shape(&checked->given.base, KVMILL_FLOW_FIELDS + n, own->rank, dims);
        *data++ = data_of(checked, KVMILL_FLOW_FIELDS + n);
    }
    return status;
}

static kvmill_status check_new_rows(struct checked *checked) {
    const void *rows[KVMILL_MOST_FLOW_APPENDED] = {NULL};
    struct flow_tokens *tokens = &checked->call->tokens;
    kvmill_status status = check_own(checked, KVMILL_FLOW_TENSOR_ROWS, tokens->tokens, rows);
    for (int i = 0; i < KVMILL_MOST_FLOW_APPENDED; i++)
        tokens->rows[i] = rows[i];
    return status;
}

static kvmill_status check_inputs(struct checked *checked) {
    const void *inputs[KVMILL_MOST_FLOW_INPUTS] = {NULL};
    int64_t requests = checked->call->batch.batch;
    kvmill_status status = check_own(checked, KVMILL_FLOW_TENSOR_INPUT, requests, inputs);
    for (int i = 0; i < KVMILL_MOST_FLOW_INPUTS; i++)
        checked->call->queries.input[i] = inputs[i];
    return status;
}

/* ---- Slots ---- */

static kvmill_status check_slots(struct checked *checked) {
    const struct flow_plan *plan = checked->plan;
    struct flow_call *call = checked->call;
    int64_t pages = call->batch.page_count;
    if (pages > plan->limits.cache_pages)
        return kvmill_fail(error_of(checked), KVMILL_E_WORKSPACE,
                           "the cache has %" PRId64 " pages; accepted: at most %" PRId64
                           ", limits.cache_pages",
                           pages, plan->limits.cache_pages);
    call->attend.tokens = tensor_of(checked, KVMILL_FLOW_SLOT_MAPPING)->shape[0];
    call->attend.base.view.batch = 1;
    call->tokens.slot = data_of(checked, KVMILL_FLOW_SLOT_MAPPING);
    call->tokens.tokens = call->attend.tokens;
    kvmill_status status = kvmill_check_activations(&checked->given);
    if (status == KVMILL_OK)
        status = check_new_rows(checked);
    return status != KVMILL_OK
               ? status
               : kvmill_flow_check_slots(&plan->problem, &call->tokens, pages,
                                         room_at(checked, plan->room.seen), error_of(checked));
}

static void set_tokens(struct checked *checked) {
    struct flow_call *call = checked->call;
    for (int v = 0; v < 2; v++) {
        const struct token_rows *rows = &call->attend.current[v];
        call->tokens.data[v] = rows->data;
        call->tokens.token_stride[v] = rows->token;
        call->tokens.head_stride[v] = rows->head;
    }
}

/* ---- Requests ---- */

static kvmill_status check_limits(const struct checked *checked) {
    const struct flow_batch *batch = &checked->call->batch;
    const kvmill_flow_limits *limits = &checked->plan->limits;
    if (batch->batch > limits->batch)
        return kvmill_fail(error_of(checked), KVMILL_E_WORKSPACE,
                           "seq_len has %" PRId64 " requests; accepted: at most %" PRId64
                           ", limits.batch",
                           batch->batch, limits->batch);
    for (int64_t b = 0; b < batch->batch; b++)
        if (batch->indptr[b + 1] - batch->indptr[b] > limits->pages)
            return kvmill_fail(error_of(checked), KVMILL_E_WORKSPACE,
                               "request %" PRId64 " of page_indptr has %" PRId64
                               " pages; accepted: at most %" PRId64 ", limits.pages",
                               b, batch->indptr[b + 1] - batch->indptr[b], limits->pages);
    return KVMILL_OK;
}

static kvmill_status check_requests(struct checked *checked) {
    struct flow_batch *batch = &checked->call->batch;
    batch->batch = tensor_of(checked, KVMILL_FLOW_SEQ_LEN)->shape[0];
    kvmill_status status = check_count(checked, KVMILL_FLOW_PAGE_INDPTR, batch->batch + 1);
    if (status != KVMILL_OK)
        return status;
    batch->length = data_of(checked, KVMILL_FLOW_SEQ_LEN);
    batch->indptr = data_of(checked, KVMILL_FLOW_PAGE_INDPTR);
    batch->ids = data_of(checked, KVMILL_FLOW_PAGE_IDS);
    batch->id_count = tensor_of(checked, KVMILL_FLOW_PAGE_IDS)->shape[0];
    batch->topk = data_of(checked, KVMILL_FLOW_TOPK_VALS);
    if (batch->topk != NULL)
        status = check_count(checked, KVMILL_FLOW_TOPK_VALS, batch->batch);
    if (status != KVMILL_OK)
        return status;
    status = kvmill_flow_check_batch(&checked->plan->problem, batch, error_of(checked));
    return status == KVMILL_OK ? check_limits(checked) : status;
}

/* ---- Tokens of requests ---- */

static kvmill_status check_starts(const struct checked *checked, const int64_t *starts) {
    const struct flow_batch *batch = &checked->call->batch;
    if (starts[0] != 0)
        return kvmill_fail(error_of(checked), KVMILL_E_SHAPE,
                           "seqstarts[0] is %" PRId64 "; accepted: 0", starts[0]);
    for (int64_t b = 0; b < batch->batch; b++)
        if (starts[b + 1] < starts[b] || starts[b + 1] - starts[b] > batch->length[b])
            return kvmill_fail(error_of(checked), KVMILL_E_SHAPE,
                               "seqstarts[%" PRId64 "] is %" PRId64 "; accepted: %" PRId64
                               " and up to seq_len[%" PRId64 "], %" PRId64 ", more",
                               b + 1, starts[b + 1], starts[b], b, batch->length[b]);
    return KVMILL_OK;
}

/* One token for each request, or as many as seqstarts says. */
static kvmill_status check_tokens(struct checked *checked) {
    struct cache_call *attend = &checked->call->attend;
    attend->base.view.batch = attend->tokens = checked->call->batch.batch;
    attend->base.view.tokens.each = 1;
    for (int64_t b = 0; b < checked->call->batch.batch; b++)
        attend->positions += checked->call->batch.length[b];
    if (tensor_of(checked, KVMILL_CACHE_ATTENTION_SEQSTARTS) == NULL)
        return KVMILL_OK;
    const int64_t *starts = data_of(checked, KVMILL_CACHE_ATTENTION_SEQSTARTS);
    kvmill_status status =
        check_count(checked, KVMILL_CACHE_ATTENTION_SEQSTARTS, checked->call->batch.batch + 1);
    if (status == KVMILL_OK)
        status = check_starts(checked, starts);
    if (status != KVMILL_OK)
        return status;
    attend->tokens = starts[checked->call->batch.batch];
    attend->base.view.tokens.starts = (struct number_array){starts, 64, 1};
    return KVMILL_OK;
}

/* ---- Lists ---- */

static int64_t list_rows(const struct checked *checked) {
    return checked->call->batch.batch * kvmill_flow_rows_of_request(&checked->plan->problem);
}

static kvmill_status check_given_lists(struct checked *checked) {
    struct flow_call *call = checked->call;
    if (tensor_of(checked, KVMILL_FLOW_SEL) == NULL)
        return KVMILL_OK;
    if (tensor_of(checked, KVMILL_CACHE_ATTENTION_SEQSTARTS) != NULL)
        return kvmill_fail(
            error_of(checked), KVMILL_E_SHAPE,
            "seqstarts is given; accepted with sel: NULL, one token of each request");
    call->starts = data_of(checked, KVMILL_FLOW_SEL_INDPTR);
    call->list = data_of(checked, KVMILL_FLOW_SEL);
    const struct flow_lists lists = {call->starts, call->list,
                                     tensor_of(checked, KVMILL_FLOW_SEL)->shape[0]};
    return kvmill_flow_check_lists(&checked->plan->problem, &call->batch, &lists,
                                   error_of(checked));
}

/* The blocks of all pages of all rows. */
static int64_t room_of_rows(const struct checked *checked) {
    const struct kvmill_flow_problem *problem = &checked->plan->problem;
    const struct flow_batch *batch = &checked->call->batch;
    return kvmill_flow_room_before(problem, batch, batch->batch) *
           kvmill_flow_rows_of_request(problem);
}

/* [S], or [S, 1, 1] as in vFlow. */
static kvmill_status check_block_ids(const struct checked *checked, int64_t total) {
    static const int64_t dims[] = {KVMILL_DYNAMIC, 1, 1};
    const DLTensor *ids = tensor_of(checked, KVMILL_FLOW_BLOCK_IDS);
    if (ids == NULL)
        return KVMILL_OK;
    kvmill_status status = kvmill_check_shape(&checked->given.base, KVMILL_FLOW_BLOCK_IDS,
                                              ids->ndim == 3 ? 3 : 1, dims);
    return status == KVMILL_OK ? check_room(checked, KVMILL_FLOW_BLOCK_IDS, total) : status;
}

static void set_lists(struct checked *checked) {
    struct flow_call *call = checked->call;
    const DLTensor *ids = tensor_of(checked, KVMILL_FLOW_BLOCK_IDS);
    call->given_starts = data_of(checked, KVMILL_FLOW_SEL_INDPTR);
    call->block_ids = (struct flow_ids){data_of(checked, KVMILL_FLOW_BLOCK_IDS),
                                        ids != NULL && ids->dtype.bits == 64};
    call->scores = data_of(checked, KVMILL_FLOW_SCORES);
    call->list = tensor_of(checked, KVMILL_FLOW_SEL) ? data_of(checked, KVMILL_FLOW_SEL)
                                                     : room_at(checked, checked->plan->room.list);
}

/* Lists go to the caller's tensor, or to the workspace.  Where each list begins is computed at
   once, but written to the caller's tensor together with the lists. */
static kvmill_status count_lists(struct checked *checked) {
    struct flow_call *call = checked->call;
    call->starts = room_at(checked, checked->plan->room.starts);
    kvmill_flow_count_rows(&checked->plan->problem, &call->batch, call->starts);
    int64_t total = call->starts[list_rows(checked)];
    kvmill_status status = check_room(checked, KVMILL_FLOW_SEL, total);
    if (status == KVMILL_OK)
        status = check_block_ids(checked, total);
    if (status == KVMILL_OK)
        status = check_room(checked, KVMILL_FLOW_SCORES, room_of_rows(checked));
    set_lists(checked);
    return status;
}

static kvmill_status check_lists(struct checked *checked) {
    bool has_list = tensor_of(checked, KVMILL_FLOW_SEL) != NULL;
    if (has_list != (tensor_of(checked, KVMILL_FLOW_SEL_INDPTR) != NULL))
        return kvmill_fail(error_of(checked), KVMILL_E_NULL, "%s is NULL; accepted: both %s",
                           has_list ? "sel_indptr" : "sel", "sel_indptr and sel, or none");
    kvmill_status status =
        has_list ? check_count(checked, KVMILL_FLOW_SEL_INDPTR, list_rows(checked) + 1) : KVMILL_OK;
    if (status != KVMILL_OK)
        return status;
    return checked->plan->step == OP_FLOW_ATTEND ? check_given_lists(checked)
                                                 : count_lists(checked);
}

static kvmill_status check_attend(struct checked *checked) {
    kvmill_status status = check_requests(checked);
    if (status == KVMILL_OK)
        status = check_tokens(checked);
    if (status == KVMILL_OK)
        status = kvmill_check_activations(&checked->given);
    if (status == KVMILL_OK)
        status = check_inputs(checked);
    return status == KVMILL_OK ? check_lists(checked) : status;
}

/* ---- Addresses ---- */

/* The queries of requests with one token each have the stride of tokens. */
static void set_requests(struct flow_call *call) {
    struct attend_view *view = &call->attend.base.view;
    struct token_rows *const rows[] = {&view->query, &view->output, &view->lse};
    for (int i = 0; i < 3 && view->tokens.starts.data == NULL; i++)
        rows[i]->batch = rows[i]->token;
    call->queries.data = view->query.data;
    call->queries.request = view->query.token;
    call->queries.head = view->query.head;
}

/* The pages of the longest request that is not read whole. */
static int64_t most_candidates(const struct flow_plan *plan, const struct flow_call *call) {
    const struct flow_index index = {.problem = &plan->problem, .batch = &call->batch};
    int64_t most = 0;
    for (int64_t b = 0; b < call->batch.batch; b++) {
        int64_t candidates = kvmill_flow_candidates(&index, b);
        most = candidates > most ? candidates : most;
    }
    return most;
}

static void set_addresses(struct checked *checked) {
    const struct flow_plan *plan = checked->plan;
    struct flow_call *call = checked->call;
    kvmill_set_addresses(&checked->given);
    call->cache.key = call->attend.base.view.side[0][0].rows;
    call->cache.value = call->attend.base.view.side[0][1].rows;
    call->cache.page_rows = call->attend.page_rows;
    if (flow_fills_fields(plan)) {
        set_tokens(checked);
        return;
    }
    set_requests(call);
    call->most_candidates = plan->step == OP_FLOW_ATTEND ? 0 : most_candidates(plan, call);
    kvmill_flow_set_view(call);
    if (plan->step != OP_FLOW_INDEX)
        kvmill_attend_prepare(&call->attend.base.view);
}

static void clear_slots(const struct checked *checked) {
    const struct flow_plan *plan = checked->plan;
    const struct thread_slots slots = {room_at(checked, plan->room.slots), plan->room.slot,
                                       plan->room.slot > 0 ? plan->base.threads : 0};
    kvmill_clear_slots(&slots);
}

/* ---- All of it ---- */

static kvmill_status check(struct checked *checked, const DLTensor *const *tensors) {
    kvmill_status status = kvmill_check_given(&checked->given.base, tensors);
    if (status == KVMILL_OK)
        status = check_fields(checked);
    if (status == KVMILL_OK)
        status = kvmill_check_overlaps(&checked->given.base);
    if (status == KVMILL_OK)
        status = kvmill_check_alignment(&checked->given.base);
    if (status == KVMILL_OK)
        status = check_pools(checked);
    if (status != KVMILL_OK)
        return status;
    return flow_fills_fields(checked->plan) ? check_slots(checked) : check_attend(checked);
}

kvmill_status kvmill_flow_begin(struct call *base, const DLTensor *const *tensors,
                                kvmill_error *error) {
    const DLTensor *known[KVMILL_MOST_FLOW_TENSORS];
    struct flow_call *call = (struct flow_call *)(void *)base;
    const struct flow_plan *plan = flow_plan_of(call);
    *call = (struct flow_call){.base = {*base, kvmill_flow_phases[plan->step]}};
    call->attend.base.base.base =
        (struct call){&plan->attend->base, (unsigned char *)base->workspace + plan->room.attend};
    struct checked checked = {
        .given = {.base = {plan->rules, (int)plan->base.tensor_count, "step of a flow", known,
                           error, NULL, false},
                  .plan = plan->attend,
                  .call = &call->attend},
        .plan = plan,
        .call = call,
    };
    kvmill_status status = check(&checked, tensors);
    if (status != KVMILL_OK)
        return status;
    clear_slots(&checked);
    set_addresses(&checked);
    return KVMILL_OK;
}
