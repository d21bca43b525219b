/* The scatter plan. scatter_plan.c creates it, scatter_run.c runs it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_OPS_SCATTER_H
#define KVMILL_RUNTIME_OPS_SCATTER_H

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
    char names[KVMILL_MOST_SCATTER_TENSORS][32];                 /* the rules' */
    int64_t dims[KVMILL_MOST_SCATTER_TENSORS][KVMILL_MOST_RANK]; /* likewise */
    kvmill_element_type input[KVMILL_MOST_INPUTS];               /* of inputs and updates */
    bool converts, replaces, skip_window;
    bool has_updates;
    int outer; /* axes of updates that are walked one by one; the others are a window's */
    /* Phase 0 copies inputs to results; phase 1 applies updates.  A part of it owns a range of the
       operand's axis `split`, and applies only what lands there: targets of parts are disjoint, and
       each sees its updates in order. */
    int64_t elements, copy_parts;
    int64_t copy_streams, around; /* of the calibration */
    int split;      /* not there: parts own updates alone, whose targets are promised to be apart */
    int own_axis;   /* of updates, along which parts have updates of their own; or not there */
    int64_t extent; /* of the axis that parts own ranges of */
    int64_t apply_parts;
    /* One for each input; or the first for all: the portable one, or one with their region. */
    const struct kvmill_kernel *kernel[KVMILL_MOST_INPUTS];
    /* Makes an input a result: keeps its rows, or converts them as updates that replace; NULL:
       loops in C do. */
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

/* Places in the list of tensors. */
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

/* Problem of a kernel: targets with coordinates [own_first, own_last) of the axis that is split.
   Generated kernels see only `slots`, and most of them only its windows, one input at a time; the
   portable one goes by the rest. */
struct scatter_part {
    struct kvmill_scatter_slots slots;
    const struct scatter_call *call;
    int64_t own_first, own_last;
};

extern const struct kvmill_kernel kvmill_portable_scatter, kvmill_portable_scatter_region;

/* Fill in the windows of an input; false: there is nothing to do. */
bool kvmill_scatter_windows_set(struct scatter_part *part, int slot);

/* The tensors of all inputs lie as those of the first do, element by element. */
bool kvmill_scatter_slots_fit(const struct scatter_call *call);

/* Fill in those of the first, and where the others' tensors are; false: there is nothing to do. */
bool kvmill_scatter_slots_set(struct scatter_part *part);

kvmill_status kvmill_scatter_begin(struct call *call, const DLTensor *const *tensors,
                                   kvmill_error *error);
int64_t kvmill_scatter_parts(const struct call *call);
void kvmill_scatter_part(const struct call *call, int64_t part);
void kvmill_scatter_all(const struct call *call);
bool kvmill_scatter_next(struct call *call);

#endif
