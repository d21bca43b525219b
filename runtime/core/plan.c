/* What all plans have in common.

   SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../ops/fail.h"

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

/* The struct_size fields let the structs grow; this is the first version. */
kvmill_status kvmill_plan_check_sizes(size_t op_size, size_t wanted,
                                      const kvmill_plan_options *options, kvmill_error *error) {
    if (op_size < wanted)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "op.struct_size is %zu; accepted: %zu",
                           op_size, wanted);
    if (options != NULL && options->struct_size < sizeof *options)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "options.struct_size is %zu; accepted: %zu",
                           options->struct_size, sizeof *options);
    return KVMILL_OK;
}

void kvmill_plan_announce(const kvmill_plan *plan) {
    const char *verbose = getenv("KVMILL_VERBOSE");
    if (verbose != NULL && *verbose != '\0' && strcmp(verbose, "0") != 0)
        fprintf(stderr, "kvmill: %s\n", plan->description);
}
