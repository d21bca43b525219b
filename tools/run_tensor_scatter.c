/* kvmill run for TensorScatter.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/tensor_scatter.h"
#include "run_op.h"

static bool prepare_tensor_scatter(struct spec *spec, struct arrays *arrays, struct error *error) {
    struct npy *past = &arrays->tensor[KVMILL_TENSOR_SCATTER_PAST_CACHE];
    return (!is_given(past) ||
            npy_like(past, &arrays->file[KVMILL_TENSOR_SCATTER_PRESENT_CACHE], error)) &&
           run_reconcile(spec, arrays, error) && spec_check(spec, error) &&
           npy_like(past, &arrays->tensor[KVMILL_TENSOR_SCATTER_PRESENT_CACHE], error);
}

static kvmill_status plan_tensor_scatter(const struct spec *spec, const struct arrays *arrays,
                                         const kvmill_plan_options *options, kvmill_plan **plan,
                                         kvmill_error *reason) {
    const struct npy *indices = &arrays->tensor[KVMILL_TENSOR_SCATTER_WRITE_INDICES];
    kvmill_tensor_scatter op = scatter_op_of(spec);
    op.past_cache = &arrays->tensor[KVMILL_TENSOR_SCATTER_PAST_CACHE].tensor;
    op.update = &arrays->tensor[KVMILL_TENSOR_SCATTER_UPDATE].tensor;
    op.write_indices = is_given(indices) ? &indices->tensor : NULL;
    op.present_cache = &arrays->tensor[KVMILL_TENSOR_SCATTER_PRESENT_CACHE].tensor;
    return kvmill_plan_tensor_scatter(&op, options, plan, reason);
}

const struct run_op tensor_scatter_run = {
    .tensors = KVMILL_TENSOR_SCATTER_TENSORS,
    .prepare = prepare_tensor_scatter,
    .plan = plan_tensor_scatter,
};
