/* Tests of kernels that convert rows, with known numbers.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_CONVERT_KNOWN_H
#define KVMILL_TESTS_CONVERT_KNOWN_H

#include <stdbool.h>

#include <kvmill_kernel.h>

/* Whether the kernel writes rows; otherwise it reads them. */
bool convert_is_writer(const struct kvmill_kernel *kernel);

/* Returns the element type with this name. */
int convert_element(const char *name);

/* Tests the kernel, if it fits, with rows of the operators' reference and known blocks; and, once
   for each instruction set, with elements around all halves of codes. */
void convert_test_known(const struct kvmill_kernel *kernel);

#endif
