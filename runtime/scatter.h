/* The scatter plan: made by scatter_plan.c, run by scatter_run.c.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_SCATTER_H
#define KVMILL_RUNTIME_SCATTER_H

#include "../ops/scatter.h"
#include "plan.h"
#include "shaped.h"

enum { MOST_SCATTER_TENSORS = 3 * KVMILL_MOST_INPUTS + 1 + KVMILL_MOST_CAPTURES };

struct scatter_plan {
    kvmill_plan base;
    struct kvmill_windows windows;
    struct kvmill_program program;
    int count, captures, tensors;
    struct shaped shaped[MOST_SCATTER_TENSORS];
    kvmill_element_type input[KVMILL_MOST_INPUTS]; /* of inputs and updates */
    bool converts, replaces, skip_window;
    bool has_updates;
    int outer; /* axes of updates that are walked one by one; the others are a window's */
    /* Phase 0 copies inputs to results; phase 1 applies updates.  A part of it owns a range of the
       operand's axis `split`, and applies only what lands there: targets of parts are disjoint, and
       each sees its updates in order. */
    int64_t elements, copy_parts;
    int split;
    int64_t apply_parts;
};

struct scatter_call {
    struct call base;
    int phase; /* 0: copy; 1: apply */
    const DLTensor *tensors[MOST_SCATTER_TENSORS];
};

_Static_assert(sizeof(struct scatter_call) <= sizeof(kvmill_call), "kvmill_call is too small");

/* Places in the list of tensors. */
static inline int scatter_indices_at(const struct scatter_plan *plan) {
    return plan->count;
}
static inline int scatter_update_at(const struct scatter_plan *plan, int i) {
    return plan->count + 1 + i;
}
static inline int scatter_result_at(const struct scatter_plan *plan, int i) {
    return 2 * plan->count + 1 + i;
}
static inline int scatter_capture_at(const struct scatter_plan *plan, int i) {
    return 3 * plan->count + 1 + i;
}

kvmill_status kvmill_scatter_begin(struct call *call, const DLTensor *const *tensors,
                                   kvmill_error *error);
int64_t kvmill_scatter_parts(const struct call *call);
void kvmill_scatter_part(const struct call *call, int64_t part);
bool kvmill_scatter_next(struct call *call);

#endif
