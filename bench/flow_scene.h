/* A sparse flow with memory for it: a pool of pages that is more than the processor's caches hold,
   requests that take turns in it, queries that are new for every call.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_FLOW_SCENE_H
#define KVMILL_BENCH_FLOW_SCENE_H

#include "../gen/flow.h"
#include "../tune/pool.h"
#include "attention_scene.h"
#include "owned_plan.h"

enum flow_plan_kind { PLAN_APPEND, PLAN_INDEX, PLAN_ATTEND, PLAN_DECODE, FLOW_PLANS };

struct flow_scene {
    const kvmill_flow *flow;
    kvmill_cache_attention attention;
    kvmill_flow bound; /* the flow with one layer */
    struct kvmill_flow_problem problem;
    struct owned_plan plans[FLOW_PLANS];
    int64_t positions, pages; /* of a request */
    int64_t requests, next;   /* and which is used next */
    struct {
        unsigned char *data;
        int64_t bytes;
    } side[SIDES], field[KVMILL_MOST_FLOW_FIELDS];
    int32_t *ids;    /* of all requests, shuffled */
    int64_t *starts; /* of the lists that the index step makes */
    int32_t *list;
    unsigned char *ring, *output;
    int64_t ring_bytes, ring_next, output_bytes;
};

/* Release with flow_scene_close, also after a failure. */
bool flow_scene_open(struct flow_scene *scene, const kvmill_flow *flow,
                     const struct attention_setting *setting, int64_t positions,
                     struct error *error);
void flow_scene_close(struct flow_scene *scene);

/* Pages that are selected of a request, and those that are scored. */
int64_t flow_selected(const struct flow_scene *scene);
int64_t flow_candidates(const struct flow_scene *scene);

/* Bytes that a request's step reads: of so many pages' K and V, of what the index program loads. */
double flow_attend_bytes(const struct flow_scene *scene, int64_t pages);
double flow_index_bytes(const struct flow_scene *scene);

/* The next bytes of K and V that no call has used lately. */
const unsigned char *flow_next_bytes(struct flow_scene *scene, int64_t bytes);

/* A call of one request with its tensors. */
enum { FLOW_TENSORS = KVMILL_FLOW_FIELDS + KVMILL_MOST_FLOW_FIELDS };
struct flow_bench_call {
    struct flow_scene *scene;
    enum flow_plan_kind kind;
    struct pool *pool;
    int64_t length, indptr[2], slot;
    int64_t slot_in_page; /* append: which of the last page */
    int64_t shapes[FLOW_TENSORS][6];
    DLTensor tensors[FLOW_TENSORS];
    const DLTensor *given[FLOW_TENSORS];
};

void flow_call_open(struct flow_bench_call *call, struct flow_scene *scene,
                    enum flow_plan_kind kind, struct pool *pool);

/* With the next request and a new query. */
kvmill_status flow_call_run(struct flow_bench_call *call, kvmill_error *reason);

/* The same bits by its pool and by one thread, of a call that attends. */
bool flow_call_check(struct flow_bench_call *call, struct pool *alone, struct error *error);

#endif
