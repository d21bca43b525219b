/* SPDX-License-Identifier: Apache-2.0 */
#include "ort_attend.h"

#include "ort_values.h"

static int64_t work_of_attend(const DLTensor *const *given) {
    return (value_bytes(given[KVMILL_CACHE_ATTEND_KEY]) +
            value_bytes(given[KVMILL_CACHE_ATTEND_VALUE])) *
           given[KVMILL_CACHE_ATTEND_QUERY]->shape[1];
}

static const struct node_op attend_op = {
    .name = "CacheAttend", .tensors = KVMILL_CACHE_ATTEND_TENSORS, .work = work_of_attend};

OrtStatus *node_run_attend(const struct node_run *run, const kvmill_plan *plan,
                           const DLTensor *const *tensors) {
    return node_run_plan(run, &attend_op, plan, tensors);
}
