/* What holds of all sweeps that were read.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FUZZ_SWEEPS_H
#define KVMILL_TESTS_FUZZ_SWEEPS_H

#include "../../tune/sweep.h"

/* They are ranked, written, and read again. */
void fuzz_check_sweeps(const struct sweeps *sweeps);

#endif
