/* Planning the steps of sparse flows.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../defs/op_tables.h"
#include "../../ops/fail.h"

/* ---- Running ---- */

static void destroy_flow(kvmill_plan *base) {
    struct flow_plan *plan = (struct flow_plan *)(void *)base;
    kvmill_plan_destroy(plan->attend ? &plan->attend->base : NULL);
    free(plan->constants);
    free(plan);
}

static const struct plan_op flow_op = {
    .begin = kvmill_flow_begin,
    .parts = kvmill_phase_parts,
    .part = kvmill_phase_part,
    .work = kvmill_phase_work,
    .next = kvmill_phase_next,
    .destroy = destroy_flow,
};

/* ---- The workspace ---- */

static bool attends(const struct flow_plan *plan) {
    return plan->step == OP_FLOW_ATTEND || plan->step == OP_FLOW_DECODE;
}

/* The most pages of a request. */
static int64_t most_blocks(const struct flow_plan *plan) {
    return plan->limits.pages * plan->problem.page_blocks;
}

static int64_t slot_bytes(const struct flow_plan *plan) {
    const struct flow_schedule *schedules = plan->schedules;
    switch (plan->step) {
    case OP_FLOW_APPEND:
    case OP_FLOW_SUMMARISE:
        return kvmill_flow_workspace(&schedules[KVMILL_CACHE_PROGRAM], 0);
    case OP_FLOW_ATTEND:
        return -SLOT_HEAD;
    default:
        return kvmill_flow_list_workspace(&plan->problem, most_blocks(plan));
    }
}

/* A lower bound of the bytes for lists, scores and kept values; it is computed first because the
   size might not fit into 64 bits. */
static double most_bytes(const struct flow_plan *plan) {
    double heads = (double)plan->limits.batch * (double)plan->problem.geometry.heads;
    double kept = (double)plan->schedules[KVMILL_INDEX_PROGRAM].page_floats + 4;
    double each = (double)most_blocks(plan) * kept * sizeof(float);
    return flow_selects(plan) ? (heads + plan->base.threads) * each : 0;
}

static kvmill_status check_workspace(const struct flow_plan *plan, kvmill_error *error) {
    double bytes = most_bytes(plan);
    if (bytes < 0x1p62)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_OVERFLOW,
                       "limits.batch is %" PRId64 " and limits.pages is %" PRId64
                       ", for which a workspace may have %.3g bytes; accepted: less than 2^62",
                       plan->limits.batch, plan->limits.pages, bytes);
}

/* Any request may be read whole if the caller wants it. */
static void lay_out(struct flow_plan *plan) {
    struct flow_room *room = &plan->room;
    int64_t rows = plan->limits.batch * kvmill_flow_rows_of_request(&plan->problem);
    int64_t starts = flow_selects(plan) ? (rows + 1) * (int64_t)sizeof(int64_t) : 0;
    int64_t list =
        plan->step == OP_FLOW_DECODE ? rows * most_blocks(plan) * (int64_t)sizeof(int32_t) : 0;
    int64_t blocks = flow_selects(plan) && plan->problem.page_blocks > 1
                         ? plan->limits.batch * most_blocks(plan) * (int64_t)sizeof(int32_t)
                         : 0;
    int64_t heads = flow_selects(plan) && !plan->problem.skipped
                        ? plan->limits.batch * kvmill_flow_scored_heads(&plan->problem)
                        : 0;
    int64_t seen = flow_fills_fields(plan) ? plan->limits.cache_pages / 8 + 1 : 0;
    room->list = room->starts + whole_lines(starts);
    room->blocks = room->list + whole_lines(list);
    room->seen = room->blocks + whole_lines(blocks);
    room->scores = room->seen + whole_lines(seen);
    if (heads > 0)
        room->head = kvmill_flow_head_workspace(
            &plan->problem, &plan->schedules[KVMILL_INDEX_PROGRAM], most_blocks(plan));
    room->slots = room->scores + room->head * heads;
    room->slot = whole_lines(SLOT_HEAD + slot_bytes(plan));
    room->attend = room->slots + room->slot * plan->base.threads;
    plan->base.workspace_size =
        (size_t)room->attend + (attends(plan) ? plan->attend->base.workspace_size : 0);
}

/* ---- Kernels ---- */

static bool has_summaries(const struct flow_plan *plan) {
    return plan->problem.programs[KVMILL_CACHE_PROGRAM].step_count > 0 && !plan->problem.skipped;
}

/* Record the kernels that the step's phases call. */
static void need_kernels(struct flow_plan *plan, const struct kernel_search *search) {
    struct needs *needs = &plan->base.needs;
    if (plan->step == OP_FLOW_APPEND)
        kvmill_need_cache_rows(plan->attend, search, needs);
    if (flow_fills_fields(plan) && has_summaries(plan))
        kvmill_need(needs, search, EVERY_RUN, "summarise pages",
                    plan->kernels.program[KVMILL_CACHE_PROGRAM].by_size.kernel);
    if (flow_selects(plan) && !plan->problem.skipped && kvmill_flow_scores(&plan->problem.budget))
        kvmill_flow_need_index(&plan->kernels, &plan->schedules[KVMILL_INDEX_PROGRAM], search,
                               needs);
    if (attends(plan))
        kvmill_need_tiles(needs, search, EVERY_RUN, &plan->attend->attend.tiles[0]);
}

static kvmill_status select_kernels(struct flow_plan *plan, const kvmill_plan_options *options,
                                    kvmill_error *error) {
    struct kernel_search search;
    kvmill_status status = kvmill_open_search(options, &search, error);
    if (status != KVMILL_OK)
        return status;
    kvmill_flow_select_kernels(&search, &plan->problem, &plan->schedules[KVMILL_INDEX_PROGRAM],
                               &plan->kernels);
    need_kernels(plan, &search);
    return KVMILL_OK;
}

/* ---- Words ---- */

static size_t say_selection(const struct flow_plan *plan, char *text, size_t size) {
    const struct kvmill_flow_budget *budget = &plan->problem.budget;
    int count = 0;
    if (plan->problem.skipped)
        count = snprintf(text, size, ", layer without fields");
    else if (kvmill_flow_scores(budget))
        count = snprintf(text, size, ", %" PRId64 " + %" PRId64 " + %" PRId64 " %s selected",
                         budget->bos, budget->k, budget->eos,
                         plan->problem.page_blocks > 1 ? "blocks" : "pages");
    return (size_t)count;
}

/* Describe the attention and the kernels that the step uses for it. */
static void say_attention(const struct flow_plan *plan, char *text, size_t size) {
    const struct cache_plan *attend = plan->attend;
    const char *all = attend->base.description;
    int rows = plan->step == OP_FLOW_APPEND ? attend->said_rows - attend->said_problem : 0;
    snprintf(text, size, "; %.*s%.*s%s", attend->said_problem, all, rows,
             all + attend->said_problem, attends(plan) ? all + attend->said_rows : "");
}

static void describe(struct flow_plan *plan) {
    char *text = plan->base.description;
    size_t size = sizeof plan->base.description;
    size_t used =
        (size_t)snprintf(text, size, "flow, %s, pages of %" PRId64,
                         kvmill_flow_steps[plan->step].name, plan->problem.geometry.page_size);
    if (plan->problem.page_blocks > 1)
        used += (size_t)snprintf(text + used, size - used, " in blocks of %" PRId64,
                                 plan->problem.block_size);
    used += say_selection(plan, text + used, size - used);
    if (flow_fills_fields(plan) && plan->problem.programs[KVMILL_CACHE_PROGRAM].step_count > 0)
        used += kvmill_flow_cache_words(&plan->kernels, text + used, size - used);
    if (flow_selects(plan))
        used += kvmill_flow_index_words(&plan->kernels, &plan->schedules[KVMILL_INDEX_PROGRAM],
                                        text + used, size - used);
    say_attention(plan, text + used, size - used);
}

/* ---- Plans ---- */

static kvmill_status check_limit(const char *name, int64_t value, kvmill_error *error) {
    if (value >= 0 && value <= INT32_MAX)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "limits.%s is %" PRId64 "; accepted: 0 to %" PRId32, name, value, INT32_MAX);
}

static kvmill_status check_limits(const kvmill_flow_limits *limits, kvmill_error *error) {
    kvmill_status status = check_limit("batch", limits->batch, error);
    if (status == KVMILL_OK)
        status = check_limit("pages", limits->pages, error);
    return status == KVMILL_OK ? check_limit("cache_pages", limits->cache_pages, error) : status;
}

static size_t constant_floats(const struct kvmill_flow_constant_data *constant) {
    return (size_t)(constant->shape.taps * constant->shape.rows * constant->shape.columns);
}

/* A copy that belongs to the plan, because the caller's may disappear. */
static bool keep_constants(struct flow_plan *plan) {
    struct kvmill_flow_problem *problem = &plan->problem;
    size_t total = 1;
    for (int i = 0; i < problem->constant_count; i++)
        total += constant_floats(&problem->constants[i]);
    float *next = plan->constants = malloc(total * sizeof *next);
    for (int i = 0; next != NULL && i < problem->constant_count; i++) {
        if (problem->constants[i].input >= 0)
            continue;
        size_t count = constant_floats(&problem->constants[i]);
        memcpy(next, problem->constants[i].values, count * sizeof *next);
        problem->constants[i].values = next;
        next += count;
    }
    return next != NULL;
}

static kvmill_status fill(struct flow_plan *plan, const kvmill_flow *flow,
                          const kvmill_plan_options *options, kvmill_error *error) {
    kvmill_status status = kvmill_flow_verify(flow, &plan->problem, error);
    if (status == KVMILL_OK)
        status = kvmill_make_cache_plan(flow->attention, KVMILL_MULTI_HEAD_CACHE_ATTENTION, options,
                                        &plan->attend, error);
    if (status != KVMILL_OK)
        return status;
    if (!keep_constants(plan))
        return kvmill_fail(error, KVMILL_E_MEMORY, "out of memory for a plan");
    for (int part = 0; part < KVMILL_FLOW_PROGRAMS; part++)
        kvmill_flow_schedule(&plan->problem, (enum kvmill_flow_part)part, &plan->schedules[part]);
    status = select_kernels(plan, options, error);
    if (status != KVMILL_OK)
        return status;
    plan->base.threads = plan->attend->attend.threads;
    kvmill_flow_expect(plan, flow);
    status = check_workspace(plan, error);
    if (status != KVMILL_OK)
        return status;
    lay_out(plan);
    describe(plan);
    return KVMILL_OK;
}

static kvmill_status make(const kvmill_flow *flow, enum op_flow_step step,
                          const kvmill_flow_limits *limits, const kvmill_plan_options *options,
                          kvmill_plan **plan, kvmill_error *error) {
    struct flow_plan *made = calloc(1, sizeof *made);
    if (made == NULL)
        return kvmill_fail(error, KVMILL_E_MEMORY, "out of memory for a plan");
    made->base.op = &flow_op;
    made->step = step;
    made->limits = *limits;
    kvmill_status status = fill(made, flow, options, error);
    if (status != KVMILL_OK) {
        destroy_flow(&made->base);
        return status;
    }
    return kvmill_plan_finish(&made->base, plan, error);
}

static kvmill_status take(struct plan_call *call, struct kvmill_own_flow *own,
                          const kvmill_flow_limits *given, kvmill_flow_limits *limits,
                          const kvmill_plan_options *options, kvmill_error *error) {
    kvmill_status status = kvmill_plan_read_arguments(call, "flow", options, error);
    if (status == KVMILL_OK)
        status = kvmill_take_flow_attention(own, error);
    if (status == KVMILL_OK)
        status = kvmill_take_struct(&kvmill_flow_limits_struct, "limits", given, limits, error);
    return status == KVMILL_OK ? check_limits(limits, error) : status;
}

static kvmill_status plan_step(const kvmill_flow *flow, enum op_flow_step step,
                               const kvmill_flow_limits *limits, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    struct kvmill_own_flow own;
    kvmill_flow_limits own_limits;
    struct plan_call call = {
        .part = kvmill_flow_op_def.parts[0], .given = flow, .op = &own.flow, .plan = plan};
    kvmill_status status = take(&call, &own, limits, &own_limits, options, error);
    return status == KVMILL_OK ? make(&own.flow, step, &own_limits, &call.options, plan, error)
                               : status;
}

kvmill_status kvmill_plan_flow_append(const kvmill_flow *flow, const kvmill_flow_limits *limits,
                                      const kvmill_plan_options *options, kvmill_plan **plan,
                                      kvmill_error *error) {
    return plan_step(flow, OP_FLOW_APPEND, limits, options, plan, error);
}

kvmill_status kvmill_plan_flow_index(const kvmill_flow *flow, const kvmill_flow_limits *limits,
                                     const kvmill_plan_options *options, kvmill_plan **plan,
                                     kvmill_error *error) {
    return plan_step(flow, OP_FLOW_INDEX, limits, options, plan, error);
}

kvmill_status kvmill_plan_flow_attend(const kvmill_flow *flow, const kvmill_flow_limits *limits,
                                      const kvmill_plan_options *options, kvmill_plan **plan,
                                      kvmill_error *error) {
    return plan_step(flow, OP_FLOW_ATTEND, limits, options, plan, error);
}

kvmill_status kvmill_plan_flow_decode(const kvmill_flow *flow, const kvmill_flow_limits *limits,
                                      const kvmill_plan_options *options, kvmill_plan **plan,
                                      kvmill_error *error) {
    return plan_step(flow, OP_FLOW_DECODE, limits, options, plan, error);
}

kvmill_status kvmill_plan_flow_summarise(const kvmill_flow *flow, const kvmill_flow_limits *limits,
                                         const kvmill_plan_options *options, kvmill_plan **plan,
                                         kvmill_error *error) {
    return plan_step(flow, OP_FLOW_SUMMARISE, limits, options, plan, error);
}
