/* Kernels as a table for people.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_KERNEL_TABLE_H
#define KVMILL_TOOLS_KERNEL_TABLE_H

#include "../gen/kernel.h"

void print_kernel_table(const struct kernel_list *kernels);

#endif
