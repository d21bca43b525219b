/* kvmill_run with OpenMP threads.  Header only, so that the library itself needs no OpenMP:
   compile the including file with -fopenmp.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPENMP_H
#define KVMILL_OPENMP_H

#include <kvmill.h>
#include <stdio.h>

/* Run on at most `threads` OpenMP threads, at least 1; same results and errors as kvmill_run. */
static inline kvmill_status kvmill_run_openmp(const kvmill_plan *plan,
                                              const DLTensor *const *tensors, size_t tensor_count,
                                              void *workspace, int threads, kvmill_error *error) {
    kvmill_call call;
    if (threads < 1) {
        if (error)
            snprintf(error->message, sizeof error->message, "threads is %d; accepted: 1 or more",
                     threads);
        return KVMILL_E_ATTRIBUTE;
    }
    kvmill_status status = kvmill_begin(&call, plan, tensors, tensor_count, workspace, error);
    if (status != KVMILL_OK)
        return status;
    do {
        int64_t parts = kvmill_parts(&call);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (parts > 1)
        for (int64_t part = 0; part < parts; part++)
            kvmill_part(&call, part);
    } while (kvmill_next(&call));
    return KVMILL_OK;
}

#endif
