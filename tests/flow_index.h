/* Scores and lists in one go, as the phases of a plan make them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FLOW_INDEX_H
#define KVMILL_TESTS_FLOW_INDEX_H

#include "../runtime/flow/flow.h"

static inline const float *score_all(const struct flow_scoring *scoring, float *workspace) {
    const struct flow_span all = {0, scoring->pages};
    kvmill_flow_prepare(scoring, workspace);
    kvmill_flow_score_span(scoring, &all, workspace);
    return kvmill_flow_finish(scoring, workspace);
}

/* index->workspace has room for all heads of all requests. */
static inline void list_row(const struct flow_index *index, int64_t b, int64_t r, void *workspace,
                            int32_t *list) {
    const struct flow_span all = {0, kvmill_flow_candidates(index, b)};
    for (int64_t head = 0; head < kvmill_flow_scored_heads(index->problem); head++)
        kvmill_flow_prepare_head(index, b, head);
    kvmill_flow_score_heads(index, b, &all);
    kvmill_flow_list_row(index, b, r, workspace, list);
}

#endif
