/* Packs of kernels: those that KVMILL_PACKS names, then the one that is part of this library.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_PACKS_H
#define KVMILL_GGML_PACKS_H

#include <kvmill.h>

enum { MOST_PACKS = 16 };

struct packs {
    const kvmill_pack *pack[MOST_PACKS];
    size_t count;
};

/* The packs, opened at the first call; one that cannot be used is left out, and a line on standard
   error says why.  KVMILL_PACKS: paths of libNAME.so, separated by colons.  One thread at a time.
 */
const struct packs *packs_open(void);

#endif
