/* The C compiler that packs are built with: CC, or cc.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_COMPILER_H
#define KVMILL_BASE_COMPILER_H

#include "error.h"

/* The first line of its --version, or "unknown" where it does not say.  It is asked once.  false:
   it could not be asked, EXIT_ENVIRONMENT. */
enum { COMPILER_SIZE = 128 };
bool compiler_words(char words[COMPILER_SIZE], struct error *error);

#endif
