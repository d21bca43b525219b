/* SPDX-License-Identifier: Apache-2.0 */
#include "run_threads.h"

kvmill_status run_on_threads(const kvmill_plan *plan, int threads, const DLTensor *const *tensors,
                             void *workspace, kvmill_error *reason) {
    kvmill_pool *pool;
    kvmill_status status = kvmill_pool_create(threads, NULL, &pool, reason);
    if (status == KVMILL_OK)
        status =
            kvmill_run_on(plan, pool, tensors, kvmill_plan_tensor_count(plan), workspace, reason);
    kvmill_pool_destroy(pool);
    return status;
}
