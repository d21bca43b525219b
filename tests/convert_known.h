/* What kernels of converted rows do with numbers that are known.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_CONVERT_KNOWN_H
#define KVMILL_TESTS_CONVERT_KNOWN_H

#include <stdbool.h>

#include <kvmill_kernel.h>

/* Else it reads. */
bool convert_is_writer(const struct kvmill_kernel *kernel);

/* By its name. */
int convert_element(const char *name);

/* The rows of the operators' reference and known blocks, where they fit the kernel; elements around
   all halves of codes, once for each instruction set. */
void convert_test_known(const struct kvmill_kernel *kernel);

#endif
