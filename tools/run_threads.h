/* Runs a plan once, on its own threads.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_RUN_THREADS_H
#define KVMILL_TOOLS_RUN_THREADS_H

#include <kvmill.h>

/* kvmill_run_on with a pool that exists only for this run. */
kvmill_status run_on_threads(const kvmill_plan *plan, int threads, const DLTensor *const *tensors,
                             void *workspace, kvmill_error *reason);

#endif
