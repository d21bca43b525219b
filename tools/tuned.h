/* What a tuning database chose for the kernels of a pack.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNED_H
#define KVMILL_TOOLS_TUNED_H

#include "../gen/isa.h"
#include "../gen/kernel.h"

/* Put the winners of a database, or of its text, in the place of the kernels they won against. Says
   on standard error which results were refused, and for each kernel that has some why it is chosen.
 */
bool tuned_apply(const char *path, const struct isa_list *isas, struct kernel_list *kernels,
                 struct error *error);

/* What the database says of a kernel, whichever of its variants that is: on standard output, a line
   for each problem it was measured on. */
bool tuned_explain(const char *path, const struct kernel *kernel, struct error *error);

#endif
