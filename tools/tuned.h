/* The choices of tuning databases for the kernels of a pack.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNED_H
#define KVMILL_TOOLS_TUNED_H

#include "../gen/pack.h"
#include "../tune/sweep.h"
#include "options.h"

/* What holds on this machine of all files given with --tuned: databases, texts, directories of
   texts. Says on standard error which results were refused.  Free the sweeps also after a failure.
 */
bool tuned_read(const struct options *given, struct sweeps *sweeps, struct error *error);

/* Put the winners in the place of the pack's kernels that they won against: where one kernel is not
   the best for all problems several, each with its sizes.  Says on standard error, for each kernel
   that was tuned, why. */
bool tuned_apply(const struct sweeps *sweeps, const struct isa_list *isas, struct pack *pack,
                 struct error *error);

/* What the sweeps say of a kernel, whichever of its variants that is: a line for each problem it
   was measured on, and which are for calls of which size. */
bool tuned_explain(const struct sweeps *sweeps, const struct kernel *kernel, FILE *stream,
                   struct error *error);

#endif
