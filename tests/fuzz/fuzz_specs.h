/* What holds of every list of specs that was read.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FUZZ_SPECS_H
#define KVMILL_TESTS_FUZZ_SPECS_H

#include "../../gen/spec.h"

/* They have kernels whose symbols say all, or are refused; written, they are read again. */
void fuzz_check_specs(const struct spec_list *specs);

#endif
