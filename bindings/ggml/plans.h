/* Plans of attention and of storing, each created once.  A node of ggml determines everything that
   a plan depends on; the lengths of its tensors do not matter.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_PLANS_H
#define KVMILL_GGML_PLANS_H

#include <kvmill.h>

/* The plan of the op, whose strings are constants; NULL: no pack has its kernels, the op has no
   plan, or memory has run out.  It lasts as long as the library.  Any thread.

   Packs are those that KVMILL_PACKS names, paths of libNAME.so separated by colons, then the one
   that is part of this library.  One that cannot be used is left out, and a line on standard error
   says why. */
const kvmill_plan *plans_find(const kvmill_cache_attend *op);
const kvmill_plan *plans_find_store(const kvmill_write_rows *op);

#endif
