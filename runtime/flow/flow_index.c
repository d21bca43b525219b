/* The page lists of a batch: scores the candidates, and selects the best.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_portable.h"

#include <math.h>

#include "../core/slots.h"

static int64_t candidates_of(const struct kvmill_flow_problem *problem, int64_t pages) {
    int64_t candidates = pages - problem->budget.bos - problem->budget.eos;
    return candidates > 0 ? candidates : 0;
}

static struct flow_row row_of(const struct flow_index *index, int64_t b) {
    return kvmill_flow_row_at(index->problem, index->batch, b);
}

int64_t kvmill_flow_candidates(const struct flow_index *index, int64_t b) {
    struct flow_row row = row_of(index, b);
    bool selects = row.selected > index->problem->budget.bos + index->problem->budget.eos;
    bool scores = selects || kvmill_flow_saves(index->problem);
    return flow_is_whole(&row) || !scores ? 0 : candidates_of(index->problem, row.pages);
}

/* ---- Workspaces ---- */

int64_t kvmill_flow_scored_heads(const struct kvmill_flow_problem *problem) {
    return problem->scope == KVMILL_SCOPE_QUERY_HEAD ? problem->geometry.heads
                                                     : problem->geometry.kv_heads;
}

int64_t kvmill_flow_head_workspace(const struct kvmill_flow_problem *problem,
                                   const struct flow_schedule *schedule, int64_t pages) {
    int64_t bytes = kvmill_flow_workspace(schedule, candidates_of(problem, pages));
    return whole_lines(bytes);
}

/* The sums of all heads' scores; with second scores those, too, and two arrays for the pages that
   the first ones leave; then keys. */
static int64_t words_of_candidate(const struct kvmill_flow_problem *problem) {
    return problem->second > 0 ? 5 : 2;
}

int64_t kvmill_flow_list_workspace(const struct kvmill_flow_problem *problem, int64_t pages) {
    int64_t words = words_of_candidate(problem) * candidates_of(problem, pages);
    return (words + KVMILL_SELECT_PADDING) * (int64_t)sizeof(float);
}

static float *workspace_of(const struct flow_index *index, int64_t b, int64_t head) {
    int64_t number = b * kvmill_flow_scored_heads(index->problem) + head;
    return (float *)(void *)(index->workspace + number * index->row_bytes);
}

/* ---- Scores ---- */

static void set_constants(const struct flow_index *index, int64_t b, struct flow_scoring *scoring) {
    const struct kvmill_flow_problem *problem = index->problem;
    for (int i = 0; i < problem->constant_count; i++) {
        const struct kvmill_flow_constant_data *constant = &problem->constants[i];
        int64_t count = constant->shape.rows * constant->shape.columns;
        int64_t row = b * problem->geometry.kv_heads + scoring->kv_head;
        scoring->constant[i] = constant->input < 0
                                   ? constant->values
                                   : index->queries->input[constant->input] + row * count;
    }
}

/* The numbers of a request's blocks, from the first candidate on. */
static const int32_t *ids_of(const struct flow_index *index, int64_t b) {
    const struct flow_batch *batch = index->batch;
    const int32_t *ids = index->problem->page_blocks > 1 ? index->blocks + b * index->blocks_apart
                                                         : batch->ids + batch->indptr[b];
    return ids + index->problem->budget.bos;
}

void kvmill_flow_number_blocks(const struct flow_index *index, int64_t b) {
    const int32_t *ids = index->batch->ids + index->batch->indptr[b];
    int64_t blocks = index->problem->page_blocks > 1 ? row_of(index, b).pages : 0;
    for (int64_t i = 0; i < blocks; i++)
        index->blocks[b * index->blocks_apart + i] = (int32_t)flow_block_of(index->problem, ids, i);
}

static struct flow_scoring scoring_of(const struct flow_index *index, int64_t b, int64_t head) {
    const struct kvmill_flow_problem *problem = index->problem;
    int64_t ratio = problem->geometry.ratio;
    bool alone = problem->scope == KVMILL_SCOPE_QUERY_HEAD;
    struct flow_scoring scoring = {
        .problem = problem,
        .schedule = index->schedule,
        .kernels = index->kernels,
        .cache = index->cache,
        .query = index->queries->data + b * index->queries->request +
                 head * (alone ? 1 : ratio) * index->queries->head,
        .query_stride = index->queries->head,
        .ids = ids_of(index, b),
        .pages = kvmill_flow_candidates(index, b),
        .kv_head = alone ? head / ratio : head,
    };
    set_constants(index, b, &scoring);
    return scoring;
}

void kvmill_flow_prepare_head(const struct flow_index *index, int64_t b, int64_t head) {
    const struct flow_scoring scoring = scoring_of(index, b, head);
    if (scoring.pages > 0)
        kvmill_flow_prepare(&scoring, workspace_of(index, b, head));
}

/* The heads of a page are adjacent, so a few pages are scored for all heads at a time: the
   processor then still knows their addresses. */
void kvmill_flow_score_heads(const struct flow_index *index, int64_t b,
                             const struct flow_span *span) {
    for (int64_t head = 0; head < kvmill_flow_scored_heads(index->problem); head++) {
        const struct flow_scoring scoring = scoring_of(index, b, head);
        kvmill_flow_score_span(&scoring, span, workspace_of(index, b, head));
    }
}

static struct flow_scores finish_head(const struct flow_index *index, int64_t b, int64_t head) {
    const struct flow_scoring scoring = scoring_of(index, b, head);
    return kvmill_flow_finish(&scoring, workspace_of(index, b, head));
}

static void add_head(int64_t head, const float *scores, int64_t candidates, float *sums) {
    for (int64_t i = 0; i < candidates; i++)
        sums[i] = head == 0 ? scores[i] : sums[i] + scores[i];
}

static struct flow_scores finish_request(const struct flow_index *index, int64_t b, float *sums) {
    int64_t candidates = kvmill_flow_candidates(index, b);
    float *second = index->problem->second > 0 ? sums + candidates : NULL;
    for (int64_t head = 0; head < index->problem->geometry.kv_heads; head++) {
        const struct flow_scores scores = finish_head(index, b, head);
        add_head(head, scores.first, candidates, sums);
        if (second != NULL)
            add_head(head, scores.second, candidates, second);
    }
    return (struct flow_scores){sums, second};
}

/* ---- Lists ---- */

static struct flow_scores finish_row(const struct flow_index *index, int64_t b, int64_t r,
                                     float *sums) {
    return index->problem->scope == KVMILL_SCOPE_REQUEST ? finish_request(index, b, sums)
                                                         : finish_head(index, b, r);
}

/* The `candidates` pages that were scored, of as many as fit into the request's pages. */
static void tell_scores(const struct flow_index *index, int64_t room, int64_t candidates,
                        const float *scored, float *scores) {
    for (int64_t p = 0; p < room; p++)
        scores[p] = NAN;
    if (candidates > 0)
        memcpy(scores + index->problem->budget.bos, scored, (size_t)candidates * sizeof *scores);
}

static struct flow_selector selector_of(const struct flow_index *index, int64_t candidates,
                                        void *workspace) {
    int64_t words = words_of_candidate(index->problem);
    int32_t *left = (int32_t *)workspace + 2 * candidates;
    return (struct flow_selector){
        .kernels = index->kernels,
        .keys = (int32_t *)workspace + (words - 1) * candidates,
        .left = index->problem->second > 0 ? left : NULL,
        .left_score = index->problem->second > 0 ? (float *)workspace + 3 * candidates : NULL,
    };
}

void kvmill_flow_list_row(const struct flow_index *index, int64_t b, int64_t r, void *workspace,
                          int32_t *list, float *scores) {
    struct flow_row row = row_of(index, b);
    int64_t candidates = kvmill_flow_candidates(index, b);
    const struct flow_selector selector = selector_of(index, candidates, workspace);
    const struct flow_scores scored =
        candidates > 0 ? finish_row(index, b, r, workspace) : (struct flow_scores){0};
    if (scores != NULL)
        tell_scores(index, kvmill_flow_room_of(index->problem, index->batch, b), candidates,
                    scored.first, scores);
    if (flow_is_whole(&row))
        kvmill_flow_list_all(&row, list);
    else
        kvmill_flow_list(index->problem, &row, &selector, &scored, list);
}
