/* Plans of attention and of storing, each created once.  A node of ggml determines everything that
   a plan depends on; the lengths of its tensors do not matter.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_GGML_GGML_PLANS_H
#define KVMILL_BINDINGS_GGML_GGML_PLANS_H

#include <kvmill.h>

/* Returns the plan of an op, whose strings must be constants.  Returns NULL if no pack has its
   kernels, the op has no plan, or memory ran out.  The plan lasts as long as the library.  Any
   thread.

   Packs are those of KVMILL_PACKS (paths of libNAME.so separated by colons), then the one in this
   library.  A pack that cannot be used is left out, with a line on standard error. */
const kvmill_plan *plans_find(const kvmill_cache_attend *op);
const kvmill_plan *plans_find_store(const kvmill_write_rows *op);

#endif
