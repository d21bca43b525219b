/* The TensorScatter plan. tensor_scatter_plan.c creates it, tensor_scatter_run.c runs it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_OPS_TENSOR_SCATTER_PLAN_H
#define KVMILL_RUNTIME_OPS_TENSOR_SCATTER_PLAN_H

#include "../../ops/tensor_scatter.h"
#include "../core/check.h"
#include "../core/plan.h"
#include "../core/select.h"
#include "../portable/rows.h"

/* One kernel over its units of work; a part begins at a multiple of granule. */
struct task {
    const struct kvmill_kernel *kernel;
    int64_t units, parts, granule;
};

enum { MOST_TASKS = 2 };

/* One phase: the parts of all tasks. */
struct tensor_scatter_call {
    struct call base;
    int task_count;
    int serial; /* the tasks share bytes, so a single part does all, in order */
    struct task tasks[MOST_TASKS];
    struct rows_problem problem;
};

_Static_assert(sizeof(struct tensor_scatter_call) <= sizeof(kvmill_call),
               "kvmill_call is too small");

struct tensor_scatter_plan {
    kvmill_plan base;
    struct kvmill_row_geometry geometry;
    struct kvmill_rows_shape shape;
    DLDataType dtype;
    int64_t unit_factor; /* kernel units of n elements: n * unit_factor >> unit_shift */
    int unit_shift;
    bool has_indices;
    struct by_size store, keep;
    int64_t copy_streams, around; /* from the calibration */
    bool is_prepared;             /* all dims are known and none is 0: `prepared` is valid */
    struct tensor_scatter_call prepared[2]; /* a run without addresses; [1]: in place */
    struct tensor_rule rules[KVMILL_TENSOR_SCATTER_TENSORS];
    int rank;
    const int64_t *past_strides, *update_strides; /* NULL: row-major without gaps */
    int64_t numbers[]; /* dims of past_cache, update, present_cache and write_indices, for the
                          rules; the strides */
};

/* Validate a run and set up its tasks; op.begin. */
kvmill_status kvmill_tensor_scatter_begin(struct call *call, const DLTensor *const *tensors,
                                          kvmill_error *error);

/* Fill plan->prepared, when the prototypes allow. */
void kvmill_tensor_scatter_prepare(struct tensor_scatter_plan *plan,
                                   const kvmill_tensor_scatter *op);

/* The other hooks of the op. */
int64_t kvmill_tensor_scatter_parts(const struct call *call);
double kvmill_tensor_scatter_work(const struct call *call);
void kvmill_tensor_scatter_part(const struct call *call, int64_t part);
void kvmill_tensor_scatter_all(const struct call *call);
bool kvmill_tensor_scatter_next(struct call *call);

#endif
