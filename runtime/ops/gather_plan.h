/* The gather plan. gather_plan.c creates it, gather_run.c runs it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_OPS_GATHER_PLAN_H
#define KVMILL_RUNTIME_OPS_GATHER_PLAN_H

#include "../../ops/gather_fold.h"
#include "../core/check.h"
#include "../core/plan.h"

struct gather_plan {
    kvmill_plan base;
    struct kvmill_gather_facts facts;
    struct tensor_rule rules[KVMILL_GATHER_TENSORS];
    int64_t dims[KVMILL_GATHER_TENSORS][KVMILL_MOST_RANK]; /* for the rules */
    const struct kvmill_kernel *kernel;
    struct kvmill_gather_geometry dense; /* of row-major tensors, with the fill value */
};

struct gather_call {
    struct call base;
    const DLTensor *tensors[KVMILL_GATHER_TENSORS];
    const struct kvmill_kernel *kernel; /* the plan's, if it fits the strides */
    bool is_dense;                      /* whether the tensors have the plan's geometry */
    int64_t units, parts;               /* a part is a range of units of work */
};

_Static_assert(sizeof(struct gather_call) <= sizeof(kvmill_call), "kvmill_call is too small");

kvmill_status kvmill_gather_begin(struct call *call, const DLTensor *const *tensors,
                                  kvmill_error *error);
int64_t kvmill_gather_parts(const struct call *call);
void kvmill_gather_part(const struct call *call, int64_t part);
void kvmill_gather_all(const struct call *call);

#endif
