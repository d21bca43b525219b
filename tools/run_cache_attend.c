/* kvmill run for CacheAttend.

   SPDX-License-Identifier: Apache-2.0 */
#include "run_op.h"

/* Makes the outputs.  attn_output has query's dims, with the value's head size as the last; lse has
   query's dims without the last. */
static bool make_outputs(const struct spec *spec, struct arrays *arrays, struct error *error) {
    const kvmill_cache_attend *op = &spec->cache_attend;
    const struct described described = described_by(spec);
    const DLTensor *query = &arrays->tensor[KVMILL_CACHE_ATTEND_QUERY].tensor;
    int64_t dims[4] = {0};
    int rank = query->ndim;
    if (rank != 3 && rank != 4)
        return fail(error, EXIT_USER, "query has %d dims; accepted: 3, with query_starts, or 4",
                    rank);
    for (int d = 0; d + 1 < rank; d++)
        dims[d] = query->shape[d];
    dims[rank - 1] = op->value_head_dim ? op->value_head_dim : op->key_head_dim;
    return described_make(&described, KVMILL_CACHE_ATTEND_ATTN_OUTPUT, dims, rank, arrays, error) &&
           (!described_makes(&described, arrays, KVMILL_CACHE_ATTEND_LSE) ||
            described_make(&described, KVMILL_CACHE_ATTEND_LSE, dims, rank - 1, arrays, error));
}

static bool prepare_cache_attend(struct spec *spec, struct arrays *arrays, struct error *error) {
    const struct described described = described_by(spec);
    return described_require(&described, arrays, error) &&
           described_adopt(&described, arrays, error) && make_outputs(spec, arrays, error);
}

static kvmill_status plan_cache_attend(const struct spec *spec, const struct arrays *arrays,
                                       const kvmill_plan_options *options, kvmill_plan **plan,
                                       kvmill_error *reason) {
    (void)arrays;
    return kvmill_plan_cache_attend(&spec->cache_attend, options, plan, reason);
}

const struct run_op cache_attend_run = {
    .tensors = KVMILL_CACHE_ATTEND_TENSORS,
    .prepare = prepare_cache_attend,
    .plan = plan_cache_attend,
};
