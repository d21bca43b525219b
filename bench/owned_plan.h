/* A plan with workspace for it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_OWNED_PLAN_H
#define KVMILL_BENCH_OWNED_PLAN_H

#include <kvmill.h>

#include "../base/error.h"

struct owned_plan {
    kvmill_plan *plan;
    void *workspace;
};

/* Checks the results of kvmill_plan_...: `status`, owned->plan and `reason`; allocates the
   workspace.  Close the plan also after a failure. */
bool owned_plan_finish(struct owned_plan *owned, kvmill_status status, const kvmill_error *reason,
                       struct error *error);
void owned_plan_close(struct owned_plan *owned);

#endif
