/* Rewrites StableHLO text to equivalent ops.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_STABLEHLO_REWRITE_H
#define KVMILL_IMPORT_STABLEHLO_REWRITE_H

#include "../../base/text.h"
#include "mlir.h"

/* The file's text with gathers and scatters that know no batching dims: these become dropped dims,
   and each index vector begins with their coordinates, which iotas give.  All else stays as it is
   written; new values have names that the file does not have.  *rewritten: ops that were changed.
   The text is read again: what cannot be read is refused. */
bool mlir_without_batching_dims(const struct mlir_file *file, struct text *text, int *rewritten,
                                struct error *error);

#endif
