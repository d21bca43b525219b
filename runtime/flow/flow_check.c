/* What a run of a flow checks: tensors, requests, pages, slots, lists.  Nothing has been written
   when it fails.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "../../defs/dtype.h"
#include "../../ops/fail.h"
#include "../core/tensor.h"
#include "flow_plan.h"

static const DLDataType int64_type = {kDLInt, 64, 1}, int32_type = {kDLInt, 32, 1};
static const DLDataType float32_type = {kDLFloat, 32, 1};

/* ---- Which tensors there are ---- */

/* The steps that a tensor is required for, may be given for, and is an output of. */
struct use {
    int which;
    const char *name;
    unsigned required, optional, output;
    const DLDataType *type;
};

enum {
    APPEND = 1 << FLOW_APPEND,
    INDEX = 1 << FLOW_INDEX,
    ATTEND = 1 << FLOW_ATTEND,
    DECODE = 1 << FLOW_DECODE,
    SUMMARISE = 1 << FLOW_SUMMARISE,
    REQUESTS = INDEX | ATTEND | DECODE
};

static const struct use numbers[] = {
    {KVMILL_FLOW_SEQ_LEN, "seq_len", REQUESTS, 0, 0, &int64_type},
    {KVMILL_FLOW_PAGE_INDPTR, "page_indptr", REQUESTS, 0, 0, &int64_type},
    {KVMILL_FLOW_PAGE_IDS, "page_ids", REQUESTS, 0, 0, &int32_type},
    {KVMILL_CACHE_ATTENTION_SEQSTARTS, "seqstarts", 0, ATTEND, 0, &int64_type},
    {KVMILL_FLOW_SLOT_MAPPING, "slot_mapping", APPEND | SUMMARISE, 0, 0, &int64_type},
    {KVMILL_FLOW_SEL_INDPTR, "sel_indptr", INDEX, ATTEND | DECODE, INDEX | DECODE, &int64_type},
    {KVMILL_FLOW_SEL, "sel", INDEX, ATTEND | DECODE, INDEX | DECODE, &int32_type},
    {KVMILL_FLOW_BLOCK_IDS, "block_ids", 0, INDEX | DECODE, INDEX | DECODE, &int32_type},
    {KVMILL_FLOW_SCORES, "scores", 0, INDEX | DECODE, INDEX | DECODE, &float32_type},
    {KVMILL_FLOW_TOPK_VALS, "topk_vals", 0, INDEX | DECODE, 0, &int64_type},
};

static enum presence presence_in(const struct flow_plan *plan, unsigned required,
                                 unsigned optional) {
    unsigned step = 1u << plan->step;
    return required & step ? REQUIRED : optional & step ? OPTIONAL : ABSENT;
}

/* Vectors in one piece, where the processor wants them. */
static void expect_numbers(struct flow_plan *plan) {
    static const int64_t any[] = {KVMILL_DYNAMIC};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        plan->rules[numbers[i].which] = (struct tensor_rule){
            .name = numbers[i].name,
            .presence = presence_in(plan, numbers[i].required, numbers[i].optional),
            .type = *numbers[i].type,
            .rank = 1,
            .dims = any,
            .rows = true,
            .aligned = true,
            .output = numbers[i].output >> plan->step & 1,
        };
    struct tensor_rule *block_ids = &plan->rules[KVMILL_FLOW_BLOCK_IDS];
    block_ids->or_type = int64_type;
    block_ids->dims = NULL; /* check_block_ids */
    block_ids->rows = false;
    block_ids->dense = true;
}

static bool index_reads(const struct flow_plan *plan, int value) {
    return plan->schedules[KVMILL_INDEX_PROGRAM].loaded[value];
}

static bool uses_fields(const struct flow_plan *plan) {
    return plan->step != FLOW_ATTEND && !plan->problem.skipped;
}

static void set_field_dims(struct flow_plan *plan, int i) {
    const struct kvmill_flow_field_data *field = &plan->problem.fields[i];
    const int64_t dims[] = {KVMILL_DYNAMIC, plan->problem.geometry.kv_heads, field->rows,
                            field->columns};
    memcpy(plan->field_dims[i], dims, sizeof dims);
}

static void expect_fields(struct flow_plan *plan, const kvmill_flow *flow) {
    for (int i = 0; i < plan->problem.field_count; i++) {
        set_field_dims(plan, i);
        bool is_output = flow_fills_fields(plan) || plan->problem.fields[i].saved;
        snprintf(plan->field_names[i], sizeof *plan->field_names, "%s", flow->fields[i].name);
        plan->rules[KVMILL_FLOW_FIELDS + i] = (struct tensor_rule){
            .name = plan->field_names[i],
            .presence = plan->step == FLOW_ATTEND ? ABSENT
                        : plan->problem.skipped   ? IGNORED
                                                  : REQUIRED,
            .type = flow->fields[i].dtype,
            .rank = 4,
            .dims = plan->field_dims[i],
            .output = is_output,
            .dense = true,
        };
    }
}

/* The rules of cache attention hold, except these. */
static void adapt_attention(struct flow_plan *plan) {
    static const struct use uses[] = {
        {.which = KVMILL_CACHE_ATTENTION_QUERY, .required = REQUESTS},
        {.which = KVMILL_CACHE_ATTENTION_CURRENT_KEY, .required = APPEND},
        {.which = KVMILL_CACHE_ATTENTION_CURRENT_VALUE, .required = APPEND},
        {.which = KVMILL_CACHE_ATTENTION_START_POS},
        {.which = KVMILL_CACHE_ATTENTION_KVSTARTS},
        {.which = KVMILL_CACHE_ATTENTION_CACHESTARTS},
        {.which = KVMILL_CACHE_ATTENTION_DECODING_BATCHES},
        {.which = KVMILL_CACHE_ATTENTION_MAX_SEQLEN},
        {.which = KVMILL_CACHE_ATTENTION_MAX_KVLEN},
        {.which = KVMILL_CACHE_ATTENTION_ATTN_MASK},
        {.which = KVMILL_CACHE_ATTENTION_SINKS, .optional = ATTEND | DECODE},
    };
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        plan->rules[uses[i].which].presence = presence_in(plan, uses[i].required, uses[i].optional);
    bool attends = plan->step == FLOW_ATTEND || plan->step == FLOW_DECODE;
    for (int i = KVMILL_CACHE_ATTENTION_ATTN_OUTPUT; i <= KVMILL_CACHE_ATTENTION_LSE && !attends;
         i++)
        plan->rules[i].presence = ABSENT;
}

/* Caches are written by append, and by summarise if its program does; index reads them if its
   program does. */
static void adapt_caches(struct flow_plan *plan) {
    bool writes = plan->problem.writes[0] || plan->problem.writes[1];
    bool reads = plan->step != FLOW_INDEX || index_reads(plan, 0) || index_reads(plan, 1);
    for (int i = KVMILL_CACHE_ATTENTION_CACHE; i <= KVMILL_CACHE_ATTENTION_VALUE_SCALE; i++) {
        plan->rules[i].output =
            plan->step == FLOW_APPEND || (plan->step == FLOW_SUMMARISE && writes);
        if (!reads && plan->rules[i].presence == REQUIRED)
            plan->rules[i].presence = IGNORED;
    }
}

void kvmill_flow_expect(struct flow_plan *plan, const kvmill_flow *flow) {
    memcpy(plan->rules, plan->attend->rules, sizeof plan->attend->rules);
    plan->base.tensor_count = (size_t)(KVMILL_FLOW_FIELDS + plan->problem.field_count);
    adapt_attention(plan);
    adapt_caches(plan);
    expect_numbers(plan);
    expect_fields(plan, flow);
}

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

/* A vector of `count`. */
static kvmill_status check_count(const struct checked *checked, int which, int64_t count) {
    return kvmill_check_shape(&checked->given.base, which, 1, &count);
}

/* At least `count`. */
static kvmill_status check_room(const struct checked *checked, int which, int64_t count) {
    const DLTensor *tensor = tensor_of(checked, which);
    if (tensor == NULL || tensor->shape[0] >= count)
        return KVMILL_OK;
    return kvmill_fail(error_of(checked), KVMILL_E_SHAPE,
                       "%s has %" PRId64 " elements; accepted: %" PRId64 " or more",
                       name_of(checked, which), tensor->shape[0], count);
}

/* ---- Caches and fields ---- */

static void set_field(struct checked *checked, int i, int64_t *pages) {
    const DLTensor *tensor = tensor_of(checked, KVMILL_FLOW_FIELDS + i);
    checked->call->cache.field[i] = tensor_data(tensor);
    *pages = tensor->shape[0] < *pages ? tensor->shape[0] : *pages;
}

/* Pages that the caches and all fields have. */
static kvmill_status check_pools(struct checked *checked) {
    const struct kvmill_cache_geometry *geometry = &checked->plan->problem.geometry;
    int64_t pages = INT32_MAX / geometry->kv_heads;
    kvmill_status status = kvmill_check_caches(&checked->given);
    if (checked->given.capacity / geometry->page_size < pages)
        pages = checked->given.capacity / geometry->page_size;
    if (status == KVMILL_OK && uses_fields(checked->plan))
        for (int i = 0; i < checked->plan->problem.field_count; i++)
            set_field(checked, i, &pages);
    checked->call->batch.page_count = pages;
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

/* One token of each request, or as many as seqstarts says. */
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

/* All pages of all rows. */
static int64_t page_rows(const struct checked *checked) {
    const struct flow_batch *batch = &checked->call->batch;
    return batch->indptr[batch->batch] * kvmill_flow_rows_of_request(&checked->plan->problem);
}

/* [S], or as vFlow has them [S, 1, 1]. */
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

/* Lists go where the caller wants them, or into the workspace; what begins where is known at once,
   but published with them. */
static kvmill_status count_lists(struct checked *checked) {
    struct flow_call *call = checked->call;
    call->starts = room_at(checked, checked->plan->room.starts);
    kvmill_flow_count_rows(&checked->plan->problem, &call->batch, call->starts);
    int64_t total = call->starts[list_rows(checked)];
    kvmill_status status = check_room(checked, KVMILL_FLOW_SEL, total);
    if (status == KVMILL_OK)
        status = check_block_ids(checked, total);
    if (status == KVMILL_OK)
        status = check_room(checked, KVMILL_FLOW_SCORES, page_rows(checked));
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
    return checked->plan->step == FLOW_ATTEND ? check_given_lists(checked) : count_lists(checked);
}

static kvmill_status check_attend(struct checked *checked) {
    kvmill_status status = check_requests(checked);
    if (status == KVMILL_OK)
        status = check_tokens(checked);
    if (status == KVMILL_OK)
        status = kvmill_check_activations(&checked->given);
    return status == KVMILL_OK ? check_lists(checked) : status;
}

/* ---- Addresses ---- */

/* Requests of one token each are as far apart as tokens. */
static void set_requests(struct flow_call *call) {
    struct attend_view *view = &call->attend.base.view;
    struct token_rows *const rows[] = {&view->query, &view->output, &view->lse};
    for (int i = 0; i < 3 && view->tokens.starts.data == NULL; i++)
        rows[i]->batch = rows[i]->token;
    call->queries = (struct flow_queries){view->query.data, view->query.token, view->query.head};
}

/* Pages of the longest request that is not read whole. */
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
    call->most_candidates = plan->step == FLOW_ATTEND ? 0 : most_candidates(plan, call);
    kvmill_flow_set_view(call);
    if (plan->step != FLOW_INDEX)
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
