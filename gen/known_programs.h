/* Programs (regions of scatters, and programs of flows) by the hashes that stand for them in
   symbols.  A symbol has no room for a program, so a hash is known only after specs with its
   program have been read.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_KNOWN_PROGRAMS_H
#define KVMILL_GEN_KNOWN_PROGRAMS_H

#include <stdint.h>

#include "../base/error.h"

/* Remember a text (ops/region_text.h, flow_text.h); its hash depends on nothing else.  Not
 * thread-safe. */
bool program_remember(const char *text, int64_t *number, struct error *error);

/* The text, which stays valid until the program ends; NULL if the hash is unknown. */
const char *program_of_number(int64_t number);

#endif
