/* Plans that several programs make: what they say, and calls of them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_PLANS_H
#define KVMILL_TESTS_PLANS_H

#include <kvmill.h>

#include "fence.h"
#include "tap.h"

/* What a plan says of itself, until the next call. */
const char *plan_text(const kvmill_plan *plan);
bool plan_says(const kvmill_plan *plan, const char *words);

/* A row-major tensor on the CPU. */
static inline DLTensor dense_tensor(DLDataType type, int rank, int64_t *shape, void *data) {
    return (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = type, .shape = shape};
}

/* So many rows of a table, of which 32-bit integers are the numbers. */
kvmill_status plan_rows(DLDataType type, int64_t rows, int64_t columns, int64_t count,
                        kvmill_plan **plan, kvmill_error *error);

/* A plan of the step of that number, OP_FLOW_... */
kvmill_status plan_flow_step(int step, const kvmill_flow *flow, const kvmill_flow_limits *limits,
                             const kvmill_plan_options *options, kvmill_plan **plan,
                             kvmill_error *error);

/* ---- Calls on threads, in parts of any order ---- */

/* KVMILL_TEST_THREADS says how many threads there are in all of these, whatever the test asks for.
 */

/* part (context, i) for i from 0 to parts - 1, each once, by so many threads: 1 to 8, of which the
   caller's is one. */
void crew_share(int threads, int64_t parts, void (*part)(void *context, int64_t index),
                void *context);

/* The parts of every phase in any order on so many threads; 0: kvmill_run. */
kvmill_status run_in_parts(const kvmill_plan *plan, const DLTensor *const *tensors, void *workspace,
                           int threads, struct dice *dice, kvmill_error *error);

/* The same; *most grows to the largest number of parts of a phase. */
kvmill_status run_counting_parts(const kvmill_plan *plan, const DLTensor *const *tensors,
                                 void *workspace, int threads, struct dice *dice, int64_t *most,
                                 kvmill_error *error);

/* The same with a workspace of its own: of just the size, full of poison, between pages that trap.
 */
kvmill_status run_with_workspace(const kvmill_plan *plan, const DLTensor *const *tensors,
                                 int threads, struct dice *dice, kvmill_error *error);

/* kvmill_run_parallel with that on so many threads. */
kvmill_status run_on_crew(const kvmill_plan *plan, const DLTensor *const *tensors, void *workspace,
                          int threads, kvmill_error *error);

#endif
