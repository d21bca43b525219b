/* Gathers and scatters with extents that are not known.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_STABLEHLO_OPEN_EXTENTS_H
#define KVMILL_IMPORT_STABLEHLO_OPEN_EXTENTS_H

#include "../../spec/spec.h"

/* What is written for an extent that is not known. */
enum { OPEN_EXTENT = 1024 };

/* Sets the unknown extents of a gather or scatter, if its kernels are the same for other extents;
   otherwise the spec must be dropped. */
bool spec_close_extents(struct spec *spec, bool *closed, struct error *error);

#endif
