/* The search space of a kernel: its variants and tunables as parameters.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNE_SPACE_H
#define KVMILL_TOOLS_TUNE_SPACE_H

#include "../gen/variants.h"
#include "../tune/space.h"

struct tune_space; /* the first parameter is "variant"; the default is the kernel itself */

/* Opens the space of a kernel without a tuning.  Returns NULL after an error; EXIT_USER if the
   family has no choices. */
struct tune_space *tune_space_open(const struct kernel *kernel, const struct isa_list *isas,
                                   struct error *error);
void tune_space_close(struct tune_space *space); /* NULL is allowed */

const struct space *tune_space_of(const struct tune_space *space);

/* Returns the kernel of a legal point. */
struct kernel tune_space_kernel(const struct tune_space *space, const struct point *point);

/* Parses a candidate's text.  Fails if it is not a legal point. */
bool tune_space_parse(const struct tune_space *space, const char *candidate, struct kernel *kernel,
                      struct error *error);

#endif
