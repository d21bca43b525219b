/* neoni8mm.h -- integer dot products, in addition to neon.h.  clang 14 has the intrinsic only in files that are
   compiled for such CPUs as a whole.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_WORDS_NEONI8MM_H
#define KVMILL_WORDS_NEONI8MM_H

#include "neon.h"

static inline vi neoni8mm_add_products(vi sum, vi a, vi b) {
    __asm__("usdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
}

#endif
