/* Estimates how long building a pack takes, for callers with a time limit.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_BUILD_TIME_H
#define KVMILL_TOOLS_BUILD_TIME_H

#include "../base/output.h"

/* Refuses to build a pack of these files if that takes longer than `seconds`.  Compiles the largest
   kernel, and assumes that the time of the others is proportional to the length of their text.  The
   estimate counts, too: it takes at most `seconds`, and what it takes is no longer left.  The
   message names --budget, an option that only kvmill tune has. */
bool build_time_check(const struct output *files, double seconds, struct error *error);

#endif
