/* The kernels that the runs of a plan need, if options.least_isa excludes worse ones.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_NEEDS_H
#define KVMILL_RUNTIME_CORE_NEEDS_H

#include "select.h"

enum which_runs { EVERY_RUN, SOME_RUNS };

/* The first kernel that is missing; what NULL: none is, or the plan has no least_isa. */
struct lack {
    const char *what;  /* it would do */
    const char *makes; /* what makes such a kernel, as a part of a message; "" if nothing does */
    char why[256];     /* there is none */
};

struct needs {
    const char *least_isa;
    struct lack lack[2]; /* by enum which_runs */
};

/* Record that certain runs use this kernel (NULL: plain loops) to do `what`. */
void kvmill_need(struct needs *needs, const struct kernel_search *search, enum which_runs runs,
                 const char *what, const struct kvmill_kernel *kernel);

/* Refuse the plan, or such a run, if a kernel is missing; description: that of the plan. */
kvmill_status kvmill_check_needs(const struct needs *needs, enum which_runs runs,
                                 const char *description, kvmill_error *error);

#endif
