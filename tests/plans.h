/* Plans that several programs need: their descriptions, and calls of them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_PLANS_H
#define KVMILL_TESTS_PLANS_H

#include <kvmill.h>

#include "fence.h"
#include "tap.h"

/* The description of a plan, valid until the next call. */
const char *plan_text(const kvmill_plan *plan);
bool plan_says(const kvmill_plan *plan, const char *words);

/* A row-major tensor on the CPU. */
static inline DLTensor dense_tensor(DLDataType type, int rank, int64_t *shape, void *data) {
    return (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = type, .shape = shape};
}

/* A table of this many rows, whose numbers are 32-bit integers. */
kvmill_status plan_rows(DLDataType type, int64_t rows, int64_t columns, int64_t count,
                        kvmill_plan **plan, kvmill_error *error);

/* A plan for the step with this number, OP_FLOW_... */
kvmill_status plan_flow_step(int step, const kvmill_flow *flow, const kvmill_flow_limits *limits,
                             const kvmill_plan_options *options, kvmill_plan **plan,
                             kvmill_error *error);

/* ---- Calls on threads, in parts of any order ---- */

/* In all of these, KVMILL_TEST_THREADS replaces the number of threads that a test asks for. */

/* Call part (context, i) once for each i from 0 to parts - 1, on 1 to 8 threads, including the
 * caller's. */
void crew_share(int threads, int64_t parts, void (*part)(void *context, int64_t index),
                void *context);

/* Run the parts of every phase in random order on this many threads; 0: kvmill_run. */
kvmill_status run_in_parts(const kvmill_plan *plan, const DLTensor *const *tensors, void *workspace,
                           int threads, struct dice *dice, kvmill_error *error);

/* The same; *most becomes the largest number of parts of a phase, if that is larger. */
kvmill_status run_counting_parts(const kvmill_plan *plan, const DLTensor *const *tensors,
                                 void *workspace, int threads, struct dice *dice, int64_t *most,
                                 kvmill_error *error);

/* The same with a separate workspace: of exactly the right size, full of poison, between pages that
 * trap. */
kvmill_status run_with_workspace(const kvmill_plan *plan, const DLTensor *const *tensors,
                                 int threads, struct dice *dice, kvmill_error *error);

/* kvmill_run_parallel with such a loop on this many threads. */
kvmill_status run_on_crew(const kvmill_plan *plan, const DLTensor *const *tensors, void *workspace,
                          int threads, kvmill_error *error);

#endif
