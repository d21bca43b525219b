/* The families that convert and quantise rows: WRITE_ROWS and READ_ROWS.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_CONVERT_FAMILY_H
#define KVMILL_GEN_CONVERT_FAMILY_H

#include "kernel.h"

#include <kvmill_kernel.h>

extern const struct family write_rows_family, read_rows_family;

/* The kernel that writes (or reads) rows of this shape, for one instruction set; and the one with
   `constants`, if there are any. */
bool write_rows_kernels(const struct kvmill_convert_shape *shape, const struct constants *constants,
                        const struct isa *isa, struct kernel_list *list, struct error *error);
bool read_rows_kernels(const struct kvmill_convert_shape *shape, const struct constants *constants,
                       const struct isa *isa, struct kernel_list *list, struct error *error);

#endif
