/* The families that move rows: STORE_ROWS and KEEP_ROWS.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_ROWS_FAMILY_H
#define KVMILL_GEN_ROWS_FAMILY_H

#include "kernel.h"

#include "../ops/tensor_scatter.h"

extern const struct family store_rows_family, keep_rows_family;

/* The kernels that a problem of this shape needs, for one instruction set; and those with
   `constants`, if there are any. */
bool rows_kernels(const struct kvmill_rows_shape *shape, const struct constants *constants,
                  const struct isa *isa, struct kernel_list *list, struct error *error);

#endif
