/* Plans and calls: the parts that all ops share.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_PLAN_H
#define KVMILL_RUNTIME_CORE_PLAN_H

#include <stdbool.h>

#include "../../ops/structs.h"
#include "needs.h"

/* A run under way, in the caller's kvmill_call.  Every op's call begins with this; its own data
   follows, and kvmill_call has the room for it. */
struct call {
    const kvmill_plan *plan;
    void *workspace;
};

/* What an op adds to a plan.  A run has one phase or several; the parts of a phase may run in any
   order and on any thread. */
struct plan_op {
    /* Validate the tensors and fill the call up to its first phase; write to no tensor. */
    kvmill_status (*begin)(struct call *call, const DLTensor *const *tensors, kvmill_error *error);
    /* Parts of the present phase, and one of them. */
    int64_t (*parts)(const struct call *call);
    void (*part)(const struct call *call, int64_t part);
    /* About how many bytes the present phase reads and writes, 4 for a multiplication; NULL: each
       part is worth a thread. */
    double (*work)(const struct call *call);
    /* All parts of the present phase on one thread; NULL: one after the other. */
    void (*all)(const struct call *call);
    /* When all parts are done: go on to the next phase, if there is one. */
    bool (*next)(struct call *call);
    void (*destroy)(kvmill_plan *plan);
};

/* Every plan begins with this; the op's own data follows. */
struct kvmill_plan {
    const struct plan_op *op;
    size_t workspace_size;
    size_t tensor_count;
    struct needs needs;
    int threads; /* most that the workspace has room for; 0: any number */
    char description[4096];
};

/* What the present phase of a call is worth, in bytes. */
double kvmill_work(const kvmill_call *call);

/* What a caller hands to a plan function, as this library has it: `op` is filled from `given`, a
   struct of that kind.  *plan is NULL afterwards; options that are NULL have their defaults, and
   threads are at least 1. */
struct plan_call {
    const struct op_struct *part;
    const void *given;
    void *op;
    kvmill_plan **plan;
    kvmill_plan_options options;
};
kvmill_status kvmill_plan_take(struct plan_call *call, const char *name,
                               const kvmill_plan_options *options, kvmill_error *error);

/* The end of planning, `made` is described: destroy it if every run needs a kernel that is lacking;
   else it is *plan, and with KVMILL_VERBOSE set standard error says what was planned. */
kvmill_status kvmill_plan_finish(kvmill_plan *made, kvmill_plan **plan, kvmill_error *error);

/* Refuse one of the runs that need a kernel which other runs do not, if it is lacking. */
kvmill_status kvmill_check_some_runs(const kvmill_plan *plan, kvmill_error *error);

#endif
