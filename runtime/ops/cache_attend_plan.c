/* Planning CacheAttend.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "../../defs/dtype.h"
#include "../../defs/op_tables.h"
#include "../../ops/fail.h"
#include "../core/op_rules.h"
#include "cache_attend_plan.h"

static const struct phase *const phases[] = {&kvmill_attend_phase, &kvmill_merge_phase, NULL};

static void destroy_cache_attend(kvmill_plan *plan) {
    free(plan);
}

static kvmill_status begin_cache_attend(struct call *base, const DLTensor *const *tensors,
                                        kvmill_error *error) {
    struct cache_attend_call *call = (struct cache_attend_call *)(void *)base;
    *call = (struct cache_attend_call){.base = {.base = {*base, phases}}};
    kvmill_status status = kvmill_cache_attend_begin(call, tensors, error);
    if (status == KVMILL_OK)
        status = kvmill_attend_check_masks(call->base.base.base.plan, &call->base.view, error);
    if (status == KVMILL_OK)
        kvmill_attend_prepare(&call->base.view);
    return status;
}

static const struct plan_op cache_attend_op = {
    .begin = begin_cache_attend,
    .parts = kvmill_phase_parts,
    .part = kvmill_phase_part,
    .work = kvmill_phase_work,
    .next = kvmill_phase_next,
    .destroy = destroy_cache_attend,
};

/* ---- Words ---- */

static void describe(struct cache_attend_plan *plan) {
    const struct kvmill_cache_geometry *geometry = &plan->geometry;
    const kvmill_cache_attend *op = &plan->op;
    struct words words = {plan->base.description, sizeof plan->base.description};
    kvmill_words_add(&words, "CacheAttend, %" PRId64 " heads on %" PRId64 ", query %s of %d",
                     geometry->heads, geometry->kv_heads, kvmill_dtype_name(op->T1),
                     geometry->key.dim);
    kvmill_words_add(&words, ", K %s, V %s of %d", kvmill_dtype_name(op->key_T2),
                     kvmill_dtype_name(op->value_T2), geometry->value.dim);
    if (kvmill_cache_attend_is_masked(op))
        kvmill_words_add(&words, ", attn_mask %s", kvmill_dtype_name(op->mask_T1));
    for (int m = 0; m < 2; m++) {
        kvmill_words_add(&words, "; %s with", m ? "where a mask says more than a range" : "attend");
        kvmill_describe_tiles(&words, &plan->attend.tiles[m]);
    }
}

/* ---- Plans ---- */

/* Rows of int4 may also come as the bytes that they are in. */
static void set_rules(struct cache_attend_plan *plan) {
    kvmill_described_rules(&kvmill_cache_attend_op, &plan->op, plan->rules);
    for (int i = 0; i < KVMILL_CACHE_ATTEND_TENSORS; i++)
        if (kvmill_dtype_equal(plan->rules[i].type, kvmill_int4))
            plan->rules[i].or_type = kvmill_uint8;
}

static struct cache_attend_plan *allocate(const kvmill_cache_attend *op,
                                          const struct kvmill_cache_geometry *geometry,
                                          int threads) {
    size_t slopes = geometry->alibi ? (size_t)geometry->heads * sizeof(float) : 0;
    struct cache_attend_plan *plan = calloc(1, sizeof *plan + slopes);
    if (plan == NULL)
        return NULL;
    DLDataType output = op->output_T1.bits ? op->output_T1 : op->T1;
    plan->base.op = &cache_attend_op;
    plan->base.tensor_count = KVMILL_CACHE_ATTEND_TENSORS;
    plan->base.threads = threads;
    plan->op = kvmill_cache_attend_resolve(op);
    plan->geometry = *geometry;
    plan->attend = kvmill_attend_plan_of(geometry, threads);
    plan->attend.query = kvmill_element_of(op->T1);
    plan->attend.output = kvmill_element_of(output);
    plan->attend.converts = true;
    for (int64_t head = 0; geometry->alibi && head < geometry->heads; head++)
        plan->slopes[head] = kvmill_cache_attend_slope(op, head);
    set_rules(plan);
    return plan;
}

/* A plan with a mask requires one in each run. */
static enum which_runs runs_of(const struct cache_attend_plan *plan, int masked) {
    bool all = masked == kvmill_cache_attend_is_masked(&plan->op);
    return all ? EVERY_RUN : SOME_RUNS;
}

static void select_kernels(struct cache_attend_plan *plan, const struct kernel_search *search) {
    for (int masked = 0; masked < 2; masked++) {
        const struct kvmill_attend_shape wanted =
            kvmill_cache_attend_shape(&plan->op, &plan->geometry, masked);
        kvmill_select_tiles(search, &wanted, &plan->attend.tiles[masked]);
        kvmill_need_tiles(&plan->base.needs, search, runs_of(plan, masked),
                          &plan->attend.tiles[masked]);
    }
    plan->base.workspace_size = kvmill_attend_lay_out(&plan->attend);
    describe(plan);
}

static kvmill_status make_plan(const kvmill_cache_attend *op, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    struct kvmill_cache_geometry geometry;
    struct kernel_search search;
    kvmill_status status = kvmill_cache_attend_check(op, &geometry, error);
    if (status == KVMILL_OK)
        status = kvmill_open_search(options, &search, error);
    if (status != KVMILL_OK)
        return status;
    struct cache_attend_plan *made = allocate(op, &geometry, options->threads);
    if (made == NULL)
        return kvmill_fail(error, KVMILL_E_MEMORY, "out of memory for a plan");
    select_kernels(made, &search);
    return kvmill_plan_finish(&made->base, plan, error);
}

kvmill_status kvmill_plan_cache_attend(const kvmill_cache_attend *given,
                                       const kvmill_plan_options *options, kvmill_plan **plan,
                                       kvmill_error *error) {
    kvmill_cache_attend op;
    struct plan_call call = {
        .part = kvmill_cache_attend_op.parts[0], .given = given, .op = &op, .plan = plan};
    kvmill_status status = kvmill_plan_read_arguments(&call, "op", options, error);
    return status == KVMILL_OK ? make_plan(&op, &call.options, plan, error) : status;
}
