/* A flow over a cache of random numbers.  It is scored in two ways, which must give the same bits:
   in fenced memory, with fields and a workspace for each way.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FLOW_SCENE_H
#define KVMILL_TESTS_FLOW_SCENE_H

#include "../runtime/flow/flow_portable.h"
#include "fence.h"
#include "flow_step.h"

enum { FLOW_MOST_POOL = 104, FLOW_WAYS = 2 };

/* What runs programs: a schedule, with or without kernels. */
struct flow_way {
    const struct flow_schedule *schedule;
    const struct flow_kernels *kernels;
};

struct flow_scene {
    struct kvmill_flow_problem problem;
    struct flow_schedule schedule[KVMILL_FLOW_PROGRAMS];
    struct fence data[FLOW_WAYS][2], scale[2], query, workspace[FLOW_WAYS];
    struct fence field[FLOW_WAYS][KVMILL_MOST_FLOW_FIELDS];
    struct flow_beside beside[FLOW_WAYS]; /* views of the fields, if the ways use views */
    struct flow_cache cache[FLOW_WAYS];
    int64_t pool; /* pages of the cache */
    int32_t ids[FLOW_MOST_POOL];
    int64_t nan, finite; /* numbers that were compared */
};

/* Makes a cache of `pool` pages.  If is_strange, some numbers are infinite, NaN, or the largest of
   their types. */
void flow_scene_open(struct flow_scene *scene, const kvmill_flow *flow, int64_t pool,
                     bool is_strange, struct dice *dice);
void flow_scene_close(struct flow_scene *scene);

/* Returns the bytes between the queries of two heads. */
int64_t flow_scene_query_stride(const struct flow_scene *scene);

/* Check that both ways give the same bits, also in fields: summaries of a page that has `rows`
   rows, and scores of `pages` pages. */
bool flow_scene_sums_up_same(struct flow_scene *scene, const struct flow_way way[FLOW_WAYS],
                             int64_t page, int64_t rows, struct dice *dice);
bool flow_scene_scores_same(struct flow_scene *scene, const struct flow_way way[FLOW_WAYS],
                            int64_t pages, struct dice *dice);

/* Checks the lists of the first row of a request that has all pages. */
bool flow_scene_lists_same(struct flow_scene *scene, const struct flow_way way[FLOW_WAYS]);

#endif
