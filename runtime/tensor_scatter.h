/* The TensorScatter plan: made by tensor_scatter_plan.c, run by tensor_scatter_run.c.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_TENSOR_SCATTER_H
#define KVMILL_RUNTIME_TENSOR_SCATTER_H

#include "../ops/tensor_scatter.h"
#include "plan.h"
#include "rows.h"
#include "select.h"

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
    int serial; /* the tasks share bytes: one part does all, in order */
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
    bool is_prepared;                       /* all dims known and no strides: `prepared` holds */
    struct tensor_scatter_call prepared[2]; /* a run but for its addresses; [1] in place */
    int rank;
    int64_t dims[]; /* past_cache's, then update's */
};

/* Names of the tensors, in the op's order. */
extern const char *const kvmill_tensor_scatter_names[];

/* The tensors are just the prototypes of a prepared plan, with data. */
bool kvmill_tensor_scatter_is_as_prepared(const struct tensor_scatter_plan *plan,
                                          const DLTensor *const *tensors);

/* Shapes and types are all that kvmill_tensor_scatter_check and the plan demand, in one quick look.
 */
bool kvmill_tensor_scatter_fits(const struct tensor_scatter_plan *plan,
                                const DLTensor *const *tensors);

/* Why they are not; never KVMILL_OK. */
kvmill_status kvmill_tensor_scatter_refuse(const struct tensor_scatter_plan *plan,
                                           const DLTensor *const *tensors, kvmill_error *error);

/* The strides of the tensors (NULL: not given) stay within the address space, 4-bit types have no
   gaps, and no two elements of present_cache share memory; as far as the dims are known. */
kvmill_status kvmill_tensor_scatter_check_strides(const DLTensor *const *tensors,
                                                  kvmill_error *error);

/* Validate a run and set up its tasks; op.begin. */
kvmill_status kvmill_tensor_scatter_begin(struct call *call, const DLTensor *const *tensors,
                                          kvmill_error *error);

/* Fill plan->prepared, when the prototypes allow. */
void kvmill_tensor_scatter_prepare(struct tensor_scatter_plan *plan,
                                   const kvmill_tensor_scatter *op);

/* The other hooks of the op. */
int64_t kvmill_tensor_scatter_parts(const struct call *call);
void kvmill_tensor_scatter_part(const struct call *call, int64_t part);
void kvmill_tensor_scatter_all(const struct call *call);
bool kvmill_tensor_scatter_next(struct call *call);

#endif
