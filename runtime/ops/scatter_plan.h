/* The scatter plan. scatter_plan.c creates it, scatter_run.c runs it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_OPS_SCATTER_PLAN_H
#define KVMILL_RUNTIME_OPS_SCATTER_PLAN_H

#include <kvmill_kernel.h>

#include "../../ops/scatter_shape.h"
#include "../core/check.h"
#include "../core/plan.h"

struct scatter_plan {
    kvmill_plan base;
    struct kvmill_windows windows;
    struct kvmill_program program;
    int count, captures;
    struct tensor_rule rules[KVMILL_MOST_SCATTER_TENSORS];
    char names[KVMILL_MOST_SCATTER_TENSORS][32];                 /* for the rules */
    int64_t dims[KVMILL_MOST_SCATTER_TENSORS][KVMILL_MOST_RANK]; /* for the rules */
    kvmill_element_type input[KVMILL_MOST_INPUTS];               /* of inputs and updates */
    bool converts, replaces, skip_window;
    bool has_updates;
    int outer; /* axes of updates that are walked one by one; the others belong to a window */
    /* Phase 0 copies inputs to results; phase 1 applies updates.  A part of phase 1 owns a range of
       the operand's axis `split`, and applies only updates of targets in it.  So parts have
       disjoint targets, and each applies its updates in order. */
    int64_t elements, copy_parts;
    int64_t copy_streams, around; /* from the calibration */
    int split; /* or none: parts own updates only, which are promised to have different targets */
    int own_axis;   /* the axis of updates along which parts own updates; or none */
    int64_t extent; /* of the axis that parts own ranges of */
    int64_t apply_parts;
    /* A kernel for each input; or one for all: the portable one, or one for their region. */
    const struct kvmill_kernel *kernel[KVMILL_MOST_INPUTS];
    /* Turns an input into a result: keeps its rows, or converts them as updates that replace; NULL:
       loops in C do that. */
    const struct kvmill_kernel *copy[KVMILL_MOST_INPUTS];
};

_Static_assert((int)KVMILL_MOST_SCATTER_TENSORS <= (int)MOST_GIVEN,
               "the validator takes fewer tensors");

struct scatter_call {
    struct call base;
    int phase; /* 0: copy; 1: apply */
    const DLTensor *tensors[KVMILL_MOST_SCATTER_TENSORS];
};

_Static_assert(sizeof(struct scatter_call) <= sizeof(kvmill_call), "kvmill_call is too small");

/* Indices in the list of tensors. */
static inline int scatter_indices_at(const struct scatter_plan *plan) {
    return kvmill_scatter_list_at(KVMILL_SCATTER_INDICES, plan->count);
}
static inline int scatter_update_at(const struct scatter_plan *plan, int i) {
    return kvmill_scatter_list_at(KVMILL_SCATTER_UPDATES, plan->count) + i;
}
static inline int scatter_result_at(const struct scatter_plan *plan, int i) {
    return kvmill_scatter_list_at(KVMILL_SCATTER_RESULTS, plan->count) + i;
}
static inline int scatter_capture_at(const struct scatter_plan *plan, int i) {
    return kvmill_scatter_list_at(KVMILL_SCATTER_CAPTURES, plan->count) + i;
}

static inline const struct scatter_plan *scatter_plan_of(const struct scatter_call *call) {
    return (const struct scatter_plan *)(const void *)call->base.plan;
}

/* The problem of a kernel: targets with coordinates [own_first, own_last) of the axis that is
   split. Generated kernels see only `slots`; most of them only its windows, for one input at a
   time.  The portable kernel uses the other members. */
struct scatter_part {
    struct kvmill_scatter_slots slots;
    const struct scatter_call *call;
    int64_t own_first, own_last;
};

extern const struct kvmill_kernel kvmill_portable_scatter, kvmill_portable_scatter_region;

/* Fill in the windows of an input; false if there is nothing to do. */
bool kvmill_scatter_windows_set(struct scatter_part *part, int slot);

/* Whether the tensors of all inputs have the same layout as those of the first. */
bool kvmill_scatter_slots_fit(const struct scatter_call *call);

/* Fill in the windows of the first input, and the places of the others; false if there is nothing
 * to do. */
bool kvmill_scatter_slots_set(struct scatter_part *part);

kvmill_status kvmill_scatter_begin(struct call *call, const DLTensor *const *tensors,
                                   kvmill_error *error);
int64_t kvmill_scatter_parts(const struct call *call);
void kvmill_scatter_part(const struct call *call, int64_t part);
void kvmill_scatter_all(const struct call *call);
bool kvmill_scatter_next(struct call *call);

#endif
