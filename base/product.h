/* Multiplies numbers from files, with a check for overflow, because a file may contain any number.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_PRODUCT_H
#define KVMILL_BASE_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* Multiplies by all extents.  Returns false if a partial product overflows, even if a later extent
   is 0. */
static inline bool product_fits(const int64_t *extents, int count, int64_t *product) {
    for (int i = 0; i < count; i++)
        if (__builtin_mul_overflow(*product, extents[i], product))
            return false;
    return true;
}

#endif
