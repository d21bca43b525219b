/* Prints kernels as a table.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_KERNEL_TABLE_H
#define KVMILL_TOOLS_KERNEL_TABLE_H

#include "../base/json.h"
#include "../gen/kernel.h"

void print_kernel_table(const struct kernel_list *kernels);

/* Returns the rows as an array of objects; the keys are the titles in lower case. */
json_t *json_of_kernels(const struct kernel_list *kernels);

#endif
