/* When the values of a flow's program are computed, and their places in the workspace.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_FLOW_SCHEDULE_H
#define KVMILL_OPS_FLOW_SCHEDULE_H

#include "flow_atom.h"

/* Values of a program, in the order of ops/flow_program.c: k, v, fields; then q. */
enum { FLOW_FIRST_FIELD = 2 };

static inline int flow_query_value(const struct kvmill_flow_problem *problem) {
    return FLOW_FIRST_FIELD + problem->field_count;
}

static inline bool flow_is_of_page(const struct kvmill_flow_value *value) {
    return value->source == KVMILL_FLOW_KEY || value->source == KVMILL_FLOW_VALUE ||
           value->source == KVMILL_FLOW_FIELD;
}

/* Whether an op needs all pages of a row. */
bool kvmill_flow_is_over_pages(const struct kvmill_flow_step *step);

/* Places in a workspace: `offset` floats from its beginning; for values that are kept for all
   pages, `offset` floats for each page after the others.  Atoms of an index program are kept, and
   computed in stage 0; steps that are `elsewhere` do not run. */
struct flow_schedule {
    struct kvmill_flow_atoms atoms;
    int stages;
    int stage[KVMILL_MOST_FLOW_VALUES];
    bool kept[KVMILL_MOST_FLOW_VALUES];
    bool loaded[KVMILL_MOST_FLOW_VALUES]; /* inputs that are used */
    int64_t offset[KVMILL_MOST_FLOW_VALUES];
    int64_t floats, page_floats;
};

void kvmill_flow_schedule(const struct kvmill_flow_problem *problem, enum kvmill_flow_part part,
                          struct flow_schedule *schedule);

/* The same without atoms, op by op. */
void kvmill_flow_schedule_steps(const struct kvmill_flow_problem *problem,
                                enum kvmill_flow_part part, struct flow_schedule *schedule);

/* Bytes for a row with `pages` scored pages, or for a summary (pages 0). */
int64_t kvmill_flow_workspace(const struct flow_schedule *schedule, int64_t pages);

#endif
