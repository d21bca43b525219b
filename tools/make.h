/* Running make.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_MAKE_H
#define KVMILL_TOOLS_MAKE_H

#include "../gen/error.h"

/* make -C directory; its output goes to `log` (NULL: standard error). */
bool run_make(const char *directory, const char *log, struct error *error);

#endif
