/* Plans that several programs need: their descriptions, and runs of them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_PLANS_H
#define KVMILL_TESTS_PLANS_H

#include <kvmill.h>

#include "fence.h"
#include "tap.h"

/* Plans and pools that are destroyed where the block of their variable ends. */
#define OWN_PLAN OWN(destroy_plan)
#define OWN_POOL OWN(destroy_pool)
static inline void destroy_plan(kvmill_plan **plan) {
    kvmill_plan_destroy(*plan);
}
static inline void destroy_pool(kvmill_pool **pool) {
    kvmill_pool_destroy(*pool);
}

/* Returns the description of a plan, valid until the next call. */
const char *plan_text(const kvmill_plan *plan);
bool plan_says(const kvmill_plan *plan, const char *words);

/* Returns a row-major tensor on the CPU. */
static inline DLTensor dense_tensor(DLDataType type, int rank, int64_t *shape, void *data) {
    return (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = type, .shape = shape};
}

/* Plans a gather from a table of `rows` rows, by `count` numbers of 32 bits. */
kvmill_status plan_rows(DLDataType type, int64_t rows, int64_t columns, int64_t count,
                        kvmill_plan **plan, kvmill_error *error);

/* Plans the step with this number, OP_FLOW_... */
kvmill_status plan_flow_step(int step, const kvmill_flow *flow, const kvmill_flow_limits *limits,
                             const kvmill_plan_options *options, kvmill_plan **plan,
                             kvmill_error *error);

/* ---- Runs on threads, in parts of any order ---- */

/* KVMILL_TEST_THREADS replaces the `threads` of all these functions. */

/* Calls part (context, i) once for each i from 0 to parts - 1, on 1 to 8 threads, one of them the
   caller's. */
void crew_share(int threads, int64_t parts, void (*part)(void *context, int64_t index),
                void *context);

/* Runs the parts of every phase in random order on this many threads; 0: kvmill_run. */
kvmill_status run_in_parts(const kvmill_plan *plan, const DLTensor *const *tensors, void *workspace,
                           int threads, struct dice *dice, kvmill_error *error);

/* Like run_in_parts; *most becomes the largest number of parts of a phase, if that is larger. */
kvmill_status run_counting_parts(const kvmill_plan *plan, const DLTensor *const *tensors,
                                 void *workspace, int threads, struct dice *dice, int64_t *most,
                                 kvmill_error *error);

/* Like run_in_parts, with a separate workspace of exactly the right size, full of poison, between
   pages that trap. */
kvmill_status run_with_workspace(const kvmill_plan *plan, const DLTensor *const *tensors,
                                 int threads, struct dice *dice, kvmill_error *error);

/* Calls kvmill_run_parallel with a loop on this many threads. */
kvmill_status run_on_crew(const kvmill_plan *plan, const DLTensor *const *tensors, void *workspace,
                          int threads, kvmill_error *error);

#endif
