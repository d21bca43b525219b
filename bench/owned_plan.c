/* SPDX-License-Identifier: Apache-2.0 */
#include "owned_plan.h"

#include <stdlib.h>

#include "../ops/fail.h"

enum { LINE = 64 };

bool owned_plan_finish(struct owned_plan *owned, kvmill_status status, const kvmill_error *reason,
                       struct error *error) {
    if (status != KVMILL_OK)
        return fail(error, kvmill_is_of_system(status) ? EXIT_ENVIRONMENT : EXIT_BUG, "%s",
                    reason->message);
    size_t bytes = kvmill_plan_workspace_size(owned->plan);
    owned->workspace = aligned_alloc(LINE, (bytes / LINE + 1) * LINE);
    return owned->workspace != NULL || out_of_memory(error);
}

void owned_plan_close(struct owned_plan *owned) {
    kvmill_plan_destroy(owned->plan);
    free(owned->workspace);
    *owned = (struct owned_plan){0};
}
