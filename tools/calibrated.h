/* The choices of a calibration that are compiled into a pack.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_CALIBRATED_H
#define KVMILL_TOOLS_CALIBRATED_H

#include "../gen/pack.h"

/* Set tunables of the pack's kernels as the file says, of any processor: of those that were not
   tuned.  Says on standard error how many kernels that changed. */
bool calibrated_apply(const char *path, struct pack *pack, struct error *error);

#endif
