/* Problems of the families STORE_ROWS and KEEP_ROWS as the runtime hands them to kernels.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_PORTABLE_ROWS_H
#define KVMILL_RUNTIME_PORTABLE_ROWS_H

#include <stdbool.h>

#include <kvmill.h>
#include <kvmill_kernel.h>

/* Generated kernels see only `rows`, in kernel units.  Portable kernels use the tensors, so any
   strides are possible. */
struct rows_problem {
    struct kvmill_rows rows;
    const DLTensor *past, *update, *present;
    int axis;
    int64_t count; /* elements of present_cache */
    bool in_place;
};

extern const struct kvmill_kernel kvmill_portable_store_rows;
extern const struct kvmill_kernel kvmill_portable_keep_rows;

#endif
