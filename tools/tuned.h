/* Applies the results of tuning databases to the kernels of a pack.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNED_H
#define KVMILL_TOOLS_TUNED_H

#include "../gen/pack.h"
#include "../tune/sweep.h"
#include "options.h"

/* Reads all files of --tuned (databases, texts, directories of texts), and keeps the results that
   are valid on this machine.  Prints to standard error which results are refused.  Free the sweeps
   also after a failure. */
bool tuned_read(const struct options *given, struct sweeps *sweeps, struct error *error);

/* Replaces the pack's kernels by the winners, or by several kernels with their sizes if no single
   one is best for all problems.  Prints to standard error, for each tuned kernel, the reason. */
bool tuned_apply(const struct sweeps *sweeps, const struct isa_list *isas, struct pack *pack,
                 struct error *error);

/* Prints the results for a kernel and all of its variants: a line for each problem that was
   measured, and which candidates are for calls of which size. */
bool tuned_explain(const struct sweeps *sweeps, const struct kernel *kernel, FILE *stream,
                   struct error *error);

#endif
