/* Programs (regions of scatters, and programs of flows) by the numbers that stand for them in
   symbols.  A symbol has no room for a program.  So a number is known only after specs with that
   program have been read.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_KNOWN_PROGRAMS_H
#define KVMILL_GEN_KNOWN_PROGRAMS_H

#include <stdint.h>

#include "../base/error.h"

/* Remember a text (ops/region_text.h, flow_text.h); its number depends on nothing else.  Not for
 * several threads. */
bool program_remember(const char *text, int64_t *number, struct error *error);

/* The text, for as long as the program runs; NULL where none of that number is known. */
const char *program_of_number(int64_t number);

#endif
