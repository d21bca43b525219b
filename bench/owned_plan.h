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

/* What a call of kvmill_plan_... gave: `status`, owned->plan, `reason`; adds the workspace.  Close
   it after a failure, too. */
bool owned_plan_finish(struct owned_plan *owned, kvmill_status status, const kvmill_error *reason,
                       struct error *error);
void owned_plan_close(struct owned_plan *owned);

#endif
