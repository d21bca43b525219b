/* Rewrites StableHLO text to equivalent ops.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_STABLEHLO_REWRITE_H
#define KVMILL_IMPORT_STABLEHLO_REWRITE_H

#include "../../base/text.h"
#include "../../mlir/mlir.h"

/* Writes the file's text with gathers and scatters that have no batching dims.  These become
   dropped dims, and index vectors begin with their coordinates, which come from iotas.  Everything
   else stays; new values have unused names.  *rewritten: the number of changed ops.  The new text
   is read again, and refused if that fails. */
bool mlir_without_batching_dims(const struct mlir_file *file, struct text *text, int *rewritten,
                                struct error *error);

#endif
