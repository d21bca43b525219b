/* kvmill run of StableHLO text.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_RUN_MLIR_H
#define KVMILL_TOOLS_RUN_MLIR_H

#include "options.h"

/* Run the program, say what each of its checks found; a failed one is the user's error. */
bool run_mlir(const struct options *given, const char *name, struct error *error);

#endif
