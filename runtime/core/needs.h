/* The kernels that the runs of a plan need, if options.least_isa excludes worse ones.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_NEEDS_H
#define KVMILL_RUNTIME_CORE_NEEDS_H

#include "select.h"

enum which_runs { EVERY_RUN, SOME_RUNS };

/* The first kernel that is lacking, in words, "" if none is; of a plan without least_isa none is.
 */
struct needs {
    const char *least_isa;
    char lack[2][160];
};

/* Such runs use the kernel, NULL where plain loops do the work, to do `what`. */
void kvmill_need(struct needs *needs, const struct kernel_search *search, enum which_runs runs,
                 const char *what, const struct kvmill_kernel *kernel);

/* Refuse the plan, or such a run, if a kernel is lacking; description: the plan's. */
kvmill_status kvmill_check_needs(const struct needs *needs, enum which_runs runs,
                                 const char *description, kvmill_error *error);

#endif
