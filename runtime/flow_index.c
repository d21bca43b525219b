/* The list of a row: its candidates are scored, the best of them selected.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"

/* A row of a request that is not selected whole. */
struct listing {
    const struct flow_index *index;
    int64_t b, candidates;
    float *workspace; /* of the program */
};

static int64_t candidates_of(const struct kvmill_flow_problem *problem, int64_t pages) {
    int64_t candidates = pages - problem->budget.bos - problem->budget.eos;
    return candidates > 0 ? candidates : 0;
}

/* Of a request's row the sums of all kv heads' scores are kept as well. */
int64_t kvmill_flow_index_workspace(const struct kvmill_flow_problem *problem,
                                    const struct flow_schedule *schedule, int64_t pages) {
    int64_t candidates = candidates_of(problem, pages);
    int64_t sums = problem->scope == KVMILL_SCOPE_REQUEST ? candidates : 0;
    return kvmill_flow_workspace(schedule, candidates) + sums * (int64_t)sizeof(float);
}

static const float *score(const struct listing *listing, int64_t kv_head, int64_t query_head) {
    const struct flow_index *index = listing->index;
    const struct flow_scoring scoring = {
        index->cache,
        index->queries->data + listing->b * index->queries->request +
            query_head * index->queries->head,
        index->queries->head,
        index->batch->ids + index->batch->indptr[listing->b] + index->problem->budget.bos,
        listing->candidates,
        kv_head,
        index->kernels,
    };
    return kvmill_flow_score(index->problem, index->schedule, &scoring, listing->workspace);
}

static const float *score_request(const struct listing *listing, float *sums) {
    const struct kvmill_cache_geometry *geometry = &listing->index->problem->geometry;
    for (int64_t head = 0; head < geometry->kv_heads; head++) {
        const float *scores = score(listing, head, head * geometry->ratio);
        for (int64_t i = 0; i < listing->candidates; i++)
            sums[i] = head == 0 ? scores[i] : sums[i] + scores[i];
    }
    return sums;
}

static const float *score_row(const struct listing *listing, int64_t r, float *sums) {
    int64_t ratio = listing->index->problem->geometry.ratio;
    switch (listing->index->problem->scope) {
    case KVMILL_SCOPE_REQUEST:
        return score_request(listing, sums);
    case KVMILL_SCOPE_QUERY_HEAD:
        return score(listing, r / ratio, r);
    default:
        return score(listing, r, r * ratio);
    }
}

void kvmill_flow_index_row(const struct flow_index *index, int64_t b, int64_t r, float *workspace,
                           int32_t *list) {
    const struct kvmill_flow_problem *problem = index->problem;
    struct flow_row row =
        kvmill_flow_row_of(&problem->budget, problem->geometry.page_size, index->batch->length[b]);
    struct listing listing = {index, b, candidates_of(problem, row.pages), workspace};
    bool is_scored = row.selected > problem->budget.bos + problem->budget.eos;
    if (flow_is_whole(&row)) {
        kvmill_flow_list_all(&row, list);
        return;
    }
    if (problem->scope == KVMILL_SCOPE_REQUEST)
        listing.workspace += listing.candidates;
    kvmill_flow_list(problem, &row, is_scored ? score_row(&listing, r, workspace) : NULL, list);
}
