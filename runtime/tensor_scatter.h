/* The TensorScatter plan: made by tensor_scatter_plan.c, run by tensor_scatter_run.c.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_TENSOR_SCATTER_H
#define KVMILL_RUNTIME_TENSOR_SCATTER_H

#include "../ops/tensor_scatter.h"
#include "plan.h"

struct tensor_scatter_plan {
    kvmill_plan base;
    struct kvmill_row_geometry geometry;
    struct kvmill_rows_shape shape;
    DLDataType dtype;
    bool has_indices;
    const struct kvmill_kernel *store, *keep;
    int rank;
    int64_t dims[]; /* past_cache's, then update's */
};

/* Validate a run and set up its tasks; op.begin. */
kvmill_status tensor_scatter_begin(struct call *call, const DLTensor *const *tensors,
                                   kvmill_error *error);

/* What is left when the tasks are done; op.merge. */
void tensor_scatter_merge(const struct call *call);

#endif
