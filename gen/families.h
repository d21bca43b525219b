/* The list of kernel families.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_FAMILIES_H
#define KVMILL_GEN_FAMILIES_H

#include "kernel.h"

/* The i-th family, NULL after the last. */
const struct family *family_at(size_t i);

#endif
