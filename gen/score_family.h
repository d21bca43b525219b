/* The family that scores pages by their summaries: SCORE_PAGES.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_SCORE_FAMILY_H
#define KVMILL_GEN_SCORE_FAMILY_H

#include <kvmill_kernel.h>

#include "kernel.h"

extern const struct family score_pages_family;

/* The kernel for scores of this shape, for one instruction set; none for shapes that are too large. */
bool score_kernels(const struct kvmill_score_shape *shape, const struct isa *isa,
                   struct kernel_list *list, struct error *error);

#endif
