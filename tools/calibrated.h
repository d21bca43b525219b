/* Compiles the values of a calibration into a pack.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_CALIBRATED_H
#define KVMILL_TOOLS_CALIBRATED_H

#include "../gen/pack.h"

/* Sets tunables of the pack's kernels from a calibration file of any processor, except for kernels
   that were tuned.  Prints to standard error how many kernels changed. */
bool calibrated_apply(const char *path, struct pack *pack, struct error *error);

#endif
