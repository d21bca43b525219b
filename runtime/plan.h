/* Plans and calls, as every op sees them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_PLAN_H
#define KVMILL_RUNTIME_PLAN_H

#include <kvmill.h>

#include "rows.h"

struct call;

/* What an op adds to a plan. */
struct op {
    /* Validate the tensors and fill the call; write to no tensor. */
    kvmill_status (*begin)(struct call *call, const DLTensor *const *tensors, kvmill_error *error);
    /* What is left to do when all parts have run; may be NULL. */
    void (*merge)(const struct call *call);
    void (*destroy)(kvmill_plan *plan);
};

/* Every plan begins with this; the op's own data follows. */
struct kvmill_plan {
    const struct op *op;
    size_t workspace_size;
    char description[1024];
};

/* One kernel over its units of work; a part begins at a multiple of granule. */
struct task {
    const struct kvmill_kernel *kernel;
    int64_t units, parts, granule;
};

enum { MOST_TASKS = 2 };

/* A run under way; lives in the caller's kvmill_call. */
struct call {
    const kvmill_plan *plan;
    int task_count;
    int serial; /* the tasks share bytes: one part does all, in order */
    struct task tasks[MOST_TASKS];
    struct rows_problem problem;
};

_Static_assert(sizeof(struct call) <= sizeof(kvmill_call), "kvmill_call is too small");

/* With KVMILL_VERBOSE set, say on standard error what was planned. */
void kvmill_plan_announce(const kvmill_plan *plan);

#endif
