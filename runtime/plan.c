/* What all plans have in common.

   SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>

const char *kvmill_version(void) {
    return KVMILL_VERSION;
}

void kvmill_plan_destroy(kvmill_plan *plan) {
    if (plan != NULL)
        plan->op->destroy(plan);
}

size_t kvmill_plan_describe(const kvmill_plan *plan, char *text, size_t size) {
    return (size_t)snprintf(text, size, "%s", plan->description);
}

size_t kvmill_plan_workspace_size(const kvmill_plan *plan) {
    return plan->workspace_size;
}

void kvmill_plan_announce(const kvmill_plan *plan) {
    const char *verbose = getenv("KVMILL_VERBOSE");
    if (verbose != NULL && *verbose != '\0' && strcmp(verbose, "0") != 0)
        fprintf(stderr, "kvmill: %s\n", plan->description);
}
