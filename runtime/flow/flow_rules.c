/* The tensors of a flow's steps, and their types.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../core/op_rules.h"
#include "flow_plan.h"

/* What the description says of the step; what it does not mention is cache attention's, and the
   step has none. */
static void expect_described(struct flow_plan *plan, const kvmill_flow *flow) {
    memcpy(plan->rules, plan->attend->rules, sizeof plan->attend->rules);
    for (int i = 0; i < KVMILL_CACHE_ATTENTION_TENSORS; i++)
        plan->rules[i].presence = ABSENT;
    kvmill_described_rules(&kvmill_flow_steps[plan->step], flow->attention, plan->rules);
}

/* Vectors in one piece, where the processor wants them. */
static void expect_vector(struct tensor_rule *rule) {
    static const int64_t any[] = {KVMILL_DYNAMIC};
    rule->rank = 1;
    rule->dims = any;
    rule->rows = true;
    rule->aligned = true;
}

static void expect_vectors(struct flow_plan *plan) {
    struct tensor_rule *block_ids = &plan->rules[KVMILL_FLOW_BLOCK_IDS];
    expect_vector(&plan->rules[KVMILL_CACHE_ATTENTION_SEQSTARTS]);
    for (int i = KVMILL_FLOW_SEQ_LEN; i < KVMILL_FLOW_FIELDS; i++)
        expect_vector(&plan->rules[i]);
    block_ids->dims = NULL; /* check_block_ids checks them */
    block_ids->rows = false;
    block_ids->dense = true;
}

static bool index_reads(const struct flow_plan *plan, int value) {
    return plan->schedules[KVMILL_INDEX_PROGRAM].loaded[value];
}

/* A layer without fields ignores all of these. */
static enum presence presence_of_own(const struct flow_plan *plan,
                                     const struct kvmill_flow_tensor *own) {
    bool reads = kvmill_flow_step_reads((int)plan->step, own);
    return !reads ? ABSENT : plan->problem.skipped ? IGNORED : REQUIRED;
}

static bool is_in_piece(const struct flow_plan *plan, const struct kvmill_flow_tensor *own) {
    return own->kind == KVMILL_FLOW_TENSOR_FIELD &&
           plan->problem.field_layout != KVMILL_FIELDS_APART;
}

static void expect_own(struct flow_plan *plan, const kvmill_flow *flow) {
    struct kvmill_flow_tensor *own = plan->own;
    for (; kvmill_flow_tensor_at(flow, plan->own_count, own); own++)
        plan->rules[KVMILL_FLOW_FIELDS + plan->own_count++] = (struct tensor_rule){
            .name = own->name,
            .presence = presence_of_own(plan, own),
            .type = own->dtype,
            .rank = own->rank,
            .dims = own->dims,
            .output = kvmill_flow_step_writes(flow, (int)plan->step, own),
            .dense = !is_in_piece(plan, own),
            .is_view = is_in_piece(plan, own),
        };
}

/* Append writes the caches, and so does summarise if its program writes rows; index reads them if
   its program does. */
static void adapt_caches(struct flow_plan *plan) {
    bool writes = plan->problem.writes[0] || plan->problem.writes[1];
    bool reads = plan->step != OP_FLOW_INDEX || index_reads(plan, 0) || index_reads(plan, 1);
    for (int i = KVMILL_CACHE_ATTENTION_CACHE; i <= KVMILL_CACHE_ATTENTION_VALUE_SCALE; i++) {
        plan->rules[i].output =
            plan->step == OP_FLOW_APPEND || (plan->step == OP_FLOW_SUMMARISE && writes);
        if (!reads && plan->rules[i].presence == REQUIRED)
            plan->rules[i].presence = IGNORED;
    }
}

void kvmill_flow_expect(struct flow_plan *plan, const kvmill_flow *flow) {
    expect_described(plan, flow);
    adapt_caches(plan);
    expect_vectors(plan);
    expect_own(plan, flow);
    plan->base.tensor_count = (size_t)(KVMILL_FLOW_FIELDS + plan->own_count);
}
