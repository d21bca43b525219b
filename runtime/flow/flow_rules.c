/* The tensors of a flow's steps, and their types.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

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

static bool is_scored(const struct flow_plan *plan) {
    return plan->step == FLOW_INDEX || plan->step == FLOW_DECODE;
}

/* A layer without fields has no use for any of them. */
static enum presence presence_of_own(const struct flow_plan *plan,
                                     enum kvmill_flow_tensor_kind kind) {
    const bool used[] = {[KVMILL_FLOW_TENSOR_FIELD] = plan->step != FLOW_ATTEND,
                         [KVMILL_FLOW_TENSOR_ROWS] = plan->step == FLOW_APPEND,
                         [KVMILL_FLOW_TENSOR_INPUT] = is_scored(plan)};
    return !used[kind] ? ABSENT : plan->problem.skipped ? IGNORED : REQUIRED;
}

static bool is_written(const struct flow_plan *plan, const struct kvmill_flow_tensor *own) {
    if (own->kind != KVMILL_FLOW_TENSOR_FIELD)
        return false;
    const struct kvmill_flow_field_data *field = &plan->problem.fields[own->number];
    return plan->step == FLOW_APPEND || field->saved ||
           (plan->step == FLOW_SUMMARISE && !kvmill_flow_grows(field));
}

static bool lies_beside(const struct flow_plan *plan, const struct kvmill_flow_tensor *own) {
    return own->kind == KVMILL_FLOW_TENSOR_FIELD &&
           plan->problem.field_layout != KVMILL_FIELDS_APART;
}

static void expect_own(struct flow_plan *plan, const kvmill_flow *flow) {
    struct kvmill_flow_tensor *own = plan->own;
    for (; kvmill_flow_tensor_at(flow, plan->own_count, own); own++)
        plan->rules[KVMILL_FLOW_FIELDS + plan->own_count++] = (struct tensor_rule){
            .name = own->name,
            .presence = presence_of_own(plan, own->kind),
            .type = own->dtype,
            .rank = own->rank,
            .dims = own->dims,
            .output = is_written(plan, own),
            .dense = !lies_beside(plan, own),
            .beside = lies_beside(plan, own),
        };
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
    if (plan->problem.geometry.value_view)
        plan->rules[KVMILL_CACHE_ATTENTION_CURRENT_VALUE].presence = ABSENT;
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
    adapt_attention(plan);
    adapt_caches(plan);
    expect_numbers(plan);
    expect_own(plan, flow);
    plan->base.tensor_count = (size_t)(KVMILL_FLOW_FIELDS + plan->own_count);
}
