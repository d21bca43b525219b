/* The phases of a run of a flow: rows are stored and pages summarised, or pages are scored,
   selected and attended to.

   SPDX-License-Identifier: Apache-2.0 */
#include "../core/numbers.h"
#include "../core/write_tokens.h"
#include "flow_plan.h"

static const struct flow_call *call_of(const struct call *base) {
    return (const struct flow_call *)(const void *)base;
}

static const struct kvmill_cache_geometry *geometry_of(const struct flow_call *call) {
    return &flow_plan_of(call)->problem.geometry;
}

static unsigned char *room_at(const struct flow_call *call, int64_t offset) {
    return (unsigned char *)call->base.base.workspace + offset;
}

static struct thread_slots slots_of(const struct flow_call *call) {
    const struct flow_plan *plan = flow_plan_of(call);
    return (struct thread_slots){room_at(call, plan->room.slots), plan->room.slot,
                                 plan->base.threads};
}

/* ---- Appending ---- */

/* The tokens of a part in both phases: a page, or several short ones. */
enum { LEAST_PART = 16 };

static int64_t part_tokens(const struct flow_call *call) {
    int64_t size = geometry_of(call)->page_size;
    return size > LEAST_PART ? size : LEAST_PART;
}

static int64_t append_parts(const struct call *base) {
    const struct flow_call *call = call_of(base);
    int64_t tokens = part_tokens(call);
    return (call->tokens.tokens + tokens - 1) / tokens;
}

static struct flow_span span_of(const struct flow_call *call, int64_t part) {
    int64_t tokens = part_tokens(call);
    return (struct flow_span){part * tokens, kvmill_min(call->tokens.tokens, (part + 1) * tokens)};
}

/* Rows are written, and read again to be summarised. */
static double append_work(const struct call *base) {
    const struct flow_call *call = call_of(base);
    const struct kvmill_cache_geometry *geometry = geometry_of(call);
    int64_t value = geometry->value_view ? 0 : kvmill_format_row_bytes(&geometry->value);
    int64_t row = kvmill_format_row_bytes(&geometry->key) + value;
    return (double)call->tokens.tokens * (double)(geometry->kv_heads * row);
}

static void write_part(const struct call *base, int64_t part) {
    const struct flow_call *call = call_of(base);
    const struct cache_plan *attend = flow_plan_of(call)->attend;
    const struct kvmill_flow_problem *problem = &flow_plan_of(call)->problem;
    const struct flow_span span = span_of(call, part);
    for (int v = 0; v < kvmill_stored_sides(geometry_of(call)); v++) {
        const struct flow_writer writer = {
            kvmill_kernel_of_size(&attend->writers[v], &call->attend.base.view.size),
            &attend->shapes[v],
            v ? call->cache.value : call->cache.key,
            geometry_of(call)->kv_heads,
            geometry_of(call)->page_size,
            call->cache.page_rows,
            append_work(base) > KVMILL_CACHED_BYTES,
            geometry_of(call)->saturates};
        kvmill_flow_write(&writer, &call->tokens, v, &span);
    }
    for (int i = 0; i < problem->field_count && !problem->skipped; i++)
        if (problem->fields[i].appended >= 0)
            (problem->fields[i].scales < 0 ? kvmill_flow_write_field : kvmill_flow_write_codes)(
                problem, &call->cache, &call->tokens, i, &span);
}

static int64_t summarise_parts(const struct call *base) {
    const struct flow_call *call = call_of(base);
    const struct kvmill_flow_problem *problem = &flow_plan_of(call)->problem;
    bool has_summaries = problem->programs[KVMILL_CACHE_PROGRAM].step_count > 0;
    return has_summaries && !problem->skipped ? append_parts(base) : 0;
}

static void summarise_part(const struct call *base, int64_t part) {
    const struct flow_call *call = call_of(base);
    const struct flow_plan *plan = flow_plan_of(call);
    const struct thread_slots slots = slots_of(call);
    const struct flow_span span = span_of(call, part);
    unsigned char *slot = kvmill_acquire_slot(&slots);
    kvmill_flow_summarise_span(&plan->problem, &plan->schedules[KVMILL_CACHE_PROGRAM],
                               &plan->kernels, &call->cache, &call->tokens, &span,
                               (float *)(void *)(slot + SLOT_HEAD));
    kvmill_release_slot(slot);
}

/* ---- Lists ---- */

/* The rows of a kv head, which share state. */
static int64_t groups_of(const struct flow_call *call) {
    return kvmill_min(kvmill_flow_rows_of_request(&flow_plan_of(call)->problem),
                      geometry_of(call)->kv_heads);
}

static struct flow_index index_of(const struct flow_call *call) {
    const struct flow_plan *plan = flow_plan_of(call);
    return (struct flow_index){
        .problem = &plan->problem,
        .schedule = &plan->schedules[KVMILL_INDEX_PROGRAM],
        .kernels = &plan->kernels,
        .cache = &call->cache,
        .batch = &call->batch,
        .queries = &call->queries,
        .workspace = room_at(call, plan->room.scores),
        .row_bytes = plan->room.head,
        .blocks = (int32_t *)(void *)room_at(call, plan->room.blocks),
        .blocks_apart = plan->limits.pages * plan->problem.page_blocks,
    };
}

static int64_t prepare_parts(const struct call *base) {
    const struct flow_call *call = call_of(base);
    const struct kvmill_flow_problem *problem = &flow_plan_of(call)->problem;
    return call->most_candidates > 0 ? call->batch.batch * kvmill_flow_scored_heads(problem) : 0;
}

static void prepare_part(const struct call *base, int64_t part) {
    const struct flow_call *call = call_of(base);
    const struct flow_index index = index_of(call);
    int64_t heads = kvmill_flow_scored_heads(index.problem);
    if (part % heads == 0)
        kvmill_flow_number_blocks(&index, part / heads);
    kvmill_flow_prepare_head(&index, part / heads, part % heads);
}

/* The lanes of all candidates of all heads. */
static double score_work(const struct call *base) {
    const struct flow_call *call = call_of(base);
    const struct kvmill_flow_problem *problem = &flow_plan_of(call)->problem;
    double scores = (double)call->batch.batch * (double)call->most_candidates *
                    (double)kvmill_flow_scored_heads(problem);
    return scores * (double)geometry_of(call)->key.dim * sizeof(float);
}

/* The pages of a part. */
enum { SCORED_TOGETHER = 128 };

static int64_t spans_of(const struct flow_call *call) {
    bool has_atoms = flow_plan_of(call)->schedules[KVMILL_INDEX_PROGRAM].atoms.count > 0;
    return has_atoms ? (call->most_candidates + SCORED_TOGETHER - 1) / SCORED_TOGETHER : 0;
}

static int64_t score_parts(const struct call *base) {
    const struct flow_call *call = call_of(base);
    return call->batch.batch * spans_of(call);
}

static void score_part(const struct call *base, int64_t part) {
    const struct flow_call *call = call_of(base);
    const struct flow_index index = index_of(call);
    int64_t b = part / spans_of(call), first = part % spans_of(call) * SCORED_TOGETHER;
    const struct flow_span span = {
        first, kvmill_min(kvmill_flow_candidates(&index, b), first + SCORED_TOGETHER)};
    kvmill_flow_score_heads(&index, b, &span);
}

static int64_t list_parts(const struct call *base) {
    const struct flow_call *call = call_of(base);
    int64_t parts = call->batch.batch * groups_of(call);
    return parts > 0 ? parts : 1;
}

/* Each score is compared several times. */
static double list_work(const struct call *base) {
    enum { BYTES = 32 };
    const struct flow_call *call = call_of(base);
    int64_t rows = call->batch.batch * kvmill_flow_rows_of_request(&flow_plan_of(call)->problem);
    return (double)rows * (double)call->most_candidates * BYTES;
}

static void list_row(const struct flow_call *call, int64_t b, int64_t r, void *workspace) {
    const struct kvmill_flow_problem *problem = &flow_plan_of(call)->problem;
    const struct flow_index index = index_of(call);
    int64_t rows = kvmill_flow_rows_of_request(problem), row = b * rows + r;
    int64_t first = call->starts[row], count = call->starts[row + 1] - first;
    int64_t before = kvmill_flow_room_before(problem, &call->batch, b) * rows +
                     r * kvmill_flow_room_of(problem, &call->batch, b);
    kvmill_flow_list_row(&index, b, r, workspace, call->list + first,
                         call->scores == NULL ? NULL : call->scores + before);
    if (call->block_ids.data != NULL)
        kvmill_flow_absolute(problem, call->list + first, count,
                             call->batch.ids + call->batch.indptr[b],
                             r * problem->geometry.kv_heads / rows, &call->block_ids, first);
}

static void publish_starts(const struct flow_call *call) {
    int64_t rows = call->batch.batch * kvmill_flow_rows_of_request(&flow_plan_of(call)->problem);
    if (call->given_starts != NULL)
        memcpy(call->given_starts, call->starts, (size_t)(rows + 1) * sizeof *call->starts);
}

static void list_rows(const struct flow_call *call, int64_t part) {
    const struct thread_slots slots = slots_of(call);
    int64_t groups = groups_of(call), b = part / groups, group = part % groups;
    int64_t rows = kvmill_flow_rows_of_request(&flow_plan_of(call)->problem) / groups;
    unsigned char *slot = kvmill_acquire_slot(&slots);
    for (int64_t r = group * rows; r < (group + 1) * rows; r++)
        list_row(call, b, r, slot + SLOT_HEAD);
    kvmill_release_slot(slot);
}

static void list_part(const struct call *base, int64_t part) {
    const struct flow_call *call = call_of(base);
    if (part == 0)
        publish_starts(call);
    if (part < call->batch.batch * groups_of(call))
        list_rows(call, part);
}

/* ---- Attention ---- */

static const struct attend_view *view_of(const struct call *base) {
    return &call_of(base)->attend.base.view;
}

static int64_t attend_parts(const struct call *base) {
    return kvmill_attend_parts(view_of(base));
}

static void attend_part(const struct call *base, int64_t part) {
    kvmill_attend_part(view_of(base), part);
}

static double attend_work(const struct call *base) {
    return kvmill_attend_work(view_of(base));
}

static int64_t merge_parts(const struct call *base) {
    return kvmill_merge_parts(view_of(base));
}

static void merge_part(const struct call *base, int64_t part) {
    kvmill_merge_part(view_of(base), part);
}

static double merge_work(const struct call *base) {
    return kvmill_merge_work(view_of(base));
}

const struct phase kvmill_flow_write_phase = {append_parts, write_part, append_work};
const struct phase kvmill_flow_summarise_phase = {summarise_parts, summarise_part, append_work};
const struct phase kvmill_flow_prepare_phase = {prepare_parts, prepare_part, score_work};
const struct phase kvmill_flow_score_phase = {score_parts, score_part, score_work};
const struct phase kvmill_flow_list_phase = {list_parts, list_part, list_work};
const struct phase kvmill_flow_attend_phase = {attend_parts, attend_part, attend_work};
const struct phase kvmill_flow_merge_phase = {merge_parts, merge_part, merge_work};
