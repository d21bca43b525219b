/* Plans that several programs look at.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_PLANS_H
#define KVMILL_TESTS_PLANS_H

#include <kvmill.h>

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

#endif
