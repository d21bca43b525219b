/* The family that selects pages by their scores: SELECT_PAGES.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_SELECT_FAMILY_H
#define KVMILL_GEN_SELECT_FAMILY_H

#include <kvmill_kernel.h>

#include "kernel.h"

extern const struct family select_pages_family;

/* The kernel for an instruction set; none if the instruction set has nothing for it. */
bool select_kernels(const struct isa *isa, struct kernel_list *list, struct error *error);

#endif
