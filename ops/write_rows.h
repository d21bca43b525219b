/* WriteRows: checks its attributes, and describes the kernel that it needs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_WRITE_ROWS_H
#define KVMILL_OPS_WRITE_ROWS_H

#include <stdbool.h>

#include <kvmill.h>
#include <kvmill_kernel.h>

/* *shape is set on success. */
kvmill_status kvmill_write_rows_check(const kvmill_write_rows *op,
                                      struct kvmill_convert_shape *shape, kvmill_error *error);

/* Whether scales that their type cannot hold become its largest number. */
bool kvmill_write_rows_saturates(const kvmill_write_rows *op);

#endif
