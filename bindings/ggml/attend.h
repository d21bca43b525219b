/* FLASH_ATTN_EXT as CacheAttend.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_ATTEND_H
#define KVMILL_GGML_ATTEND_H

#include <stdbool.h>

#include <kvmill.h>

#include "ggml.h"

/* The plan that computes the node; NULL: there is none, and the node is ggml's.  Data is not looked
   at.  Any thread. */
const kvmill_plan *attend_plan(const struct ggml_tensor *node);

/* Compute a node that has a plan.  workspace: as large as the plan wants it;
   pool: NULL for one thread. */
kvmill_status attend_run(const struct ggml_tensor *node, const kvmill_plan *plan, void *workspace,
                         kvmill_pool *pool, kvmill_error *error);

#endif
