/* The number of blocks of a row that a checked flow selects.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"

int64_t kvmill_flow_budget_of(const struct kvmill_flow_budget *budget, int64_t blocks) {
    int64_t reserved = budget->bos + budget->eos, most = budget->k + reserved;
    int64_t share = budget->denominator ? blocks * budget->numerator / budget->denominator : 0;
    if (share > most)
        most = share;
    int64_t cap = budget->cap > reserved ? budget->cap : reserved;
    return budget->cap > 0 && cap < most ? cap : most;
}

int64_t kvmill_flow_rows_of_request(const struct kvmill_flow_problem *problem) {
    switch (problem->scope) {
    case KVMILL_SCOPE_REQUEST:
        return 1;
    case KVMILL_SCOPE_QUERY_HEAD:
        return problem->geometry.heads;
    default:
        return problem->geometry.kv_heads;
    }
}

bool kvmill_flow_scores(const struct kvmill_flow_budget *budget) {
    bool is_capped = budget->cap > 0;
    bool is_all = budget->k == KVMILL_FLOW_ALL && !is_capped;
    bool is_none = (budget->k == 0 && budget->numerator == 0) ||
                   (is_capped && budget->cap <= budget->bos + budget->eos);
    return !is_all && !is_none;
}

bool kvmill_flow_saves(const struct kvmill_flow_problem *problem) {
    bool saves = false;
    for (int i = 0; i < problem->field_count; i++)
        saves = saves || problem->fields[i].saved;
    return saves;
}
