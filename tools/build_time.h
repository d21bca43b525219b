/* Estimates how long building a pack takes, for callers with a time limit.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_BUILD_TIME_H
#define KVMILL_TOOLS_BUILD_TIME_H

#include "../base/output.h"

/* Refuses to build a pack of these files where that takes longer: the largest kernel is compiled,
   and the others are taken to need time in proportion to their text.  Only kvmill tune has a
   budget, which the message names. */
bool build_time_check(const struct output *files, double seconds, struct error *error);

#endif
