/* kvmill run for TensorScatter.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/tensor_scatter.h"
#include "run_op.h"

static const char *const names[] = {"past_cache", "update", "write_indices", "present_cache"};

static const char *input(const struct spec *spec, int tensor) {
    (void)spec;
    return tensor == KVMILL_PRESENT_CACHE ? NULL : names[tensor];
}

static const char *output(const struct spec *spec, int tensor) {
    (void)spec;
    return tensor == KVMILL_PRESENT_CACHE ? names[tensor] : NULL;
}

/* A spec that names them means them. */
static bool check_indices(const struct spec *spec, const struct npy *indices, struct error *error) {
    if (is_given(indices))
        return array_is_index("write_indices", indices, error);
    return spec->scatter.write_indices.shape == NULL ||
           fail(error, EXIT_USER,
                "no write_indices, which the spec names; accepted: --in "
                "write_indices=FILE.npy");
}

static bool reconcile_all(struct spec *spec, struct arrays *arrays, struct error *error) {
    DLTensor *tensors[] = {&spec->scatter.past_cache, &spec->scatter.update,
                           &spec->scatter.write_indices};
    if (!check_indices(spec, &arrays->tensor[KVMILL_WRITE_INDICES], error))
        return false;
    for (int i = 0; i < 3; i++)
        if (is_given(&arrays->tensor[i]) &&
            !array_reconcile(names[i], tensors[i], &arrays->tensor[i], error))
            return false;
    return true;
}

static bool prepare(struct spec *spec, struct arrays *arrays, struct error *error) {
    struct npy *past = &arrays->tensor[KVMILL_PAST_CACHE];
    for (int i = 0; i < KVMILL_WRITE_INDICES; i++)
        if (!array_require(names[i], &arrays->tensor[i], error))
            return false;
    return npy_like(past, &arrays->file[KVMILL_PRESENT_CACHE], error) &&
           reconcile_all(spec, arrays, error) && spec->op->check(spec, error) &&
           npy_like(past, &arrays->tensor[KVMILL_PRESENT_CACHE], error);
}

static kvmill_status plan(const struct spec *spec, const struct arrays *arrays,
                          const kvmill_plan_options *options, kvmill_plan **plan,
                          kvmill_error *reason) {
    const struct npy *indices = &arrays->tensor[KVMILL_WRITE_INDICES];
    kvmill_tensor_scatter op = scatter_op_of(spec);
    op.past_cache = &arrays->tensor[KVMILL_PAST_CACHE].tensor;
    op.update = &arrays->tensor[KVMILL_UPDATE].tensor;
    op.write_indices = is_given(indices) ? &indices->tensor : NULL;
    op.present_cache = &arrays->tensor[KVMILL_PRESENT_CACHE].tensor;
    return kvmill_plan_tensor_scatter(&op, options, plan, reason);
}

const struct run_op tensor_scatter_run = {
    .tensors = KVMILL_TENSOR_SCATTER_TENSORS,
    .input = input,
    .output = output,
    .prepare = prepare,
    .plan = plan,
};
