/* Regions of a scatter as text.  Kernels are generated from the text, and identified by it.

   "slot f32 bf16; w0 convert f32 bf16 u0; v0 add f32 f32 r0 w0; return v0": for each slot the types
   of its results, and of its updates as they are stored; then a step each, NAME OP RESULT OPERAND
   VALUES..., with the types of what it gives and takes.  r0, ... are elements of results, u0, ...
   of updates, w0,
   ... updates that are converted first, v0, ... steps of the region.  What no result needs is not
   there.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_REGION_TEXT_H
#define KVMILL_OPS_REGION_TEXT_H

#include "region.h"

struct kvmill_region_text {
    char text[8192];
};

/* `updates`: types of the updates as they are stored.  false: no kernel computes such a region, and
   `text` says why not. */
bool kvmill_region_text_make(const struct kvmill_program *program,
                             const kvmill_element_type *updates, struct kvmill_region_text *text);

#endif
