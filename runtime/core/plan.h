/* Plans and calls: the parts that all ops share.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_PLAN_H
#define KVMILL_RUNTIME_CORE_PLAN_H

#include <stdbool.h>

#include "../../ops/structs.h"
#include "needs.h"

/* A run in progress, stored in the caller's kvmill_call.  Every op's call begins with this struct;
   its own data follows, up to the size of kvmill_call. */
struct call {
    const kvmill_plan *plan;
    void *workspace;
};

/* The hooks of an op.  A run has one or more phases; the parts of a phase may run in any order and
   on any thread. */
struct plan_op {
    /* Validate the tensors and fill the call up to its first phase; write to no tensor. */
    kvmill_status (*begin)(struct call *call, const DLTensor *const *tensors, kvmill_error *error);
    /* The number of parts of the present phase; run one of them. */
    int64_t (*parts)(const struct call *call);
    void (*part)(const struct call *call, int64_t part);
    /* About how many bytes the present phase reads and writes, with 4 for each multiplication;
       NULL: each part is worth a thread. */
    double (*work)(const struct call *call);
    /* Run all parts of the present phase on one thread; NULL: one after the other. */
    void (*all)(const struct call *call);
    /* When all parts are done: begin the next phase, if there is one. */
    bool (*next)(struct call *call);
    void (*destroy)(kvmill_plan *plan);
};

/* Every plan begins with this; the op's own data follows. */
struct kvmill_plan {
    const struct plan_op *op;
    size_t workspace_size;
    size_t tensor_count;
    struct needs needs;
    int threads; /* the most that the workspace has room for; 0: any number */
    char description[4096];
};

/* The work of the present phase of a call, in bytes. */
double kvmill_work(const kvmill_call *call);

/* The arguments of a plan function in the form of this library: `op` is filled from `given`, a
   struct of the caller's version.  *plan is set to NULL.  Options that are NULL get their defaults,
   and threads are at least 1. */
struct plan_call {
    const struct op_struct *part;
    const void *given;
    void *op;
    kvmill_plan **plan;
    kvmill_plan_options options;
};
kvmill_status kvmill_plan_read_arguments(struct plan_call *call, const char *name,
                                         const kvmill_plan_options *options, kvmill_error *error);

/* The end of planning, when `made` has its description.  If every run needs a kernel that is
   missing, destroy it; otherwise set *plan, and print the description if KVMILL_VERBOSE is set. */
kvmill_status kvmill_plan_finish(kvmill_plan *made, kvmill_plan **plan, kvmill_error *error);

/* Refuse a run that needs a missing kernel which other runs of the plan do not need. */
kvmill_status kvmill_check_some_runs(const kvmill_plan *plan, kvmill_error *error);

#endif
