/* kvmill run of StableHLO text.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_RUN_MLIR_H
#define KVMILL_TOOLS_RUN_MLIR_H

#include "options.h"

/* Runs the program and prints the result of each check.  A failed check is the user's error. */
bool run_mlir(const struct options *given, const char *name, struct error *error);

#endif
