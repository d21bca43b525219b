/* The plans of sparse flows.  flow_plan.c creates them, with the tensors of flow_rules.c;
   flow_check.c checks their runs; flow_phases.c has the phases.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_FLOW_FLOW_PLAN_H
#define KVMILL_RUNTIME_FLOW_FLOW_PLAN_H

#include "../../defs/op.h"
#include "../../ops/flow_tensors.h"
#include "../core/slots.h"
#include "../ops/cache_attention_plan.h"
#include "flow_portable.h"

/* Offsets in the workspace, in bytes. */
struct flow_room {
    int64_t starts, list; /* of lists */
    int64_t blocks;       /* the blocks' numbers, if a page has several */
    int64_t seen;         /* a bit for each page */
    int64_t scores, head; /* for each head that is scored, `head` bytes */
    int64_t slots, slot;  /* for each thread, `slot` bytes */
    int64_t attend;
};

struct flow_plan {
    kvmill_plan base;
    enum op_flow_step step;
    struct kvmill_flow_problem problem;
    struct flow_schedule schedules[KVMILL_FLOW_PROGRAMS];
    struct flow_kernels kernels;
    struct cache_plan *attend; /* owned */
    float *constants;          /* owned */
    kvmill_flow_limits limits;
    struct tensor_rule rules[KVMILL_MOST_FLOW_TENSORS];
    struct kvmill_flow_tensor own[KVMILL_MOST_FLOW_OWN]; /* names and dims of the rules */
    int own_count;
    struct flow_room room;
};

struct flow_call {
    struct phased_call base;
    struct cache_call attend;
    struct flow_cache cache;
    struct flow_batch batch;
    struct flow_queries queries;
    struct flow_tokens tokens;
    int64_t *starts, *given_starts; /* where lists begin; the caller's tensor for it, or NULL */
    int32_t *list;
    struct flow_ids block_ids;
    float *scores;           /* or NULL */
    int64_t most_candidates; /* the most pages that are scored for a request */
};

_Static_assert(sizeof(struct flow_call) <= sizeof(kvmill_call), "kvmill_call is too small");

/* Whether the step scores pages, and lists the selected ones. */
static inline bool flow_selects(const struct flow_plan *plan) {
    return plan->step == OP_FLOW_INDEX || plan->step == OP_FLOW_DECODE;
}

/* Whether the step names slots, and fills the fields of their pages. */
static inline bool flow_fills_fields(const struct flow_plan *plan) {
    return plan->step == OP_FLOW_APPEND || plan->step == OP_FLOW_SUMMARISE;
}

static inline bool flow_uses_fields(const struct flow_plan *plan) {
    return plan->step != OP_FLOW_ATTEND && !plan->problem.skipped;
}

static inline const struct flow_plan *flow_plan_of(const struct flow_call *call) {
    return (const struct flow_plan *)(const void *)call->base.base.plan;
}

/* Set the rules for all tensors. */
void kvmill_flow_expect(struct flow_plan *plan, const kvmill_flow *flow);

/* Validate a run and fill the call; op.begin. */
kvmill_status kvmill_flow_begin(struct call *call, const DLTensor *const *tensors,
                                kvmill_error *error);

/* Set the pages of a run for attention; the rest of call->attend is set elsewhere. */
void kvmill_flow_set_view(struct flow_call *call);

/* The phases of a step (flow_steps.c), and all there are. */
extern const struct phase *const kvmill_flow_phases[OP_FLOW_STEPS][6];
extern const struct phase kvmill_flow_write_phase, kvmill_flow_summarise_phase,
    kvmill_flow_prepare_phase, kvmill_flow_score_phase, kvmill_flow_list_phase,
    kvmill_flow_attend_phase, kvmill_flow_merge_phase;

#endif
